"""Loopback ports for the services that tests start."""

import socket

__all__ = ["free_port"]


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
