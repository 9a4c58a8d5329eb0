"""The HTTP client of the tests."""

import httpx

__all__ = ["open_client"]

KEEPALIVE_S = 2


def open_client(base_url: str, headers: dict[str, str] | None = None) -> httpx.Client:
    """A client that lets go of an idle connection before workerd does.

    workerd closes one after 5 s, and so does httpx by default: a request sent in that instant finds it closed.
    """
    limits = httpx.Limits(max_connections=64, keepalive_expiry=KEEPALIVE_S)
    return httpx.Client(base_url=base_url, timeout=120, limits=limits, trust_env=False, headers=headers)
