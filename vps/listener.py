"""The listening socket and the server on it."""

import asyncio
import contextlib
import errno
import signal
import socket
from collections.abc import Callable, Iterator
from types import FrameType

import uvicorn

from adapters.http.asgi import AsgiApp
from vps.faults import EXIT_USAGE, Fault

__all__ = ["Server", "listen", "url_of"]

KEEP_ALIVE_S = 30
GRACE_S = 30
TELL_AGAIN_S = 0.1
BACKLOG = 1024


def listen(host: str, port: int) -> socket.socket:
    """A bound socket; port 0 takes a free one. Raises Fault."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (socket.gaierror, UnicodeError):
        raise Fault(f"{host} is no address of this machine; try --host 127.0.0.1.", EXIT_USAGE) from None
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as failure:
        listener.close()
        raise _cannot_listen(failure, host, port) from None
    return listener


def url_of(listener: socket.socket) -> str:
    """Where a client on this machine reaches the socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Server(uvicorn.Server):
    """uvicorn in this process: says when it answers, and ends on SIGTERM and SIGINT with exit code 0.

    A signal stops listening and lets requests in flight finish, for at most GRACE_S; a second one
    does not wait for them.
    """

    def __init__(self, app: AsgiApp, on_ready: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http="httptools",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=GRACE_S,
                backlog=BACKLOG,
            )
        )
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and not self.should_exit:
            self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's, which tells its connections once; one accepted in that instant would hold the end up."""
        telling = asyncio.create_task(self._keep_telling())
        try:
            await super().shutdown(sockets)
        finally:
            telling.cancel()

    async def _keep_telling(self) -> None:
        while True:
            await asyncio.sleep(TELL_AGAIN_S)
            for connection in list(self.server_state.connections):
                connection.shutdown()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """uvicorn raises the signal again once it has ended, which would be an exit by signal."""
        yield

    def stop_on_signals(self) -> None:
        """Take over SIGTERM and SIGINT, from before the first request on."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.force_exit = self.should_exit
        self.should_exit = True


def _cannot_listen(failure: OSError, host: str, port: int) -> Fault:
    if failure.errno == errno.EADDRINUSE:
        return Fault(f"Port {port} on {host} is in use; stop what listens there or choose another --port.")
    if failure.errno == errno.EACCES:
        return Fault(f"Port {port} needs more rights than this user has; choose a --port above 1023.")
    if failure.errno == errno.EADDRNOTAVAIL:
        return Fault(f"{host} is no address of this machine; try --host 127.0.0.1.", EXIT_USAGE)
    return Fault(f"Cannot listen on {host} port {port}: {failure.strerror}.")
