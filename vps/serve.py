"""The service in one process: store, embedder, housekeeping and the HTTP server around the app."""

import asyncio
import contextlib
from collections.abc import Callable

import click

from adapters.http.asgi import asgi
from titen_core import __version__
from titen_core.http.app import App
from titen_core.mcp.guard import LOOPBACK_HOSTS
from titen_core.semantics import SemanticState, SemanticStatus
from vps.compose import Runtime, open_runtime
from vps.housekeeping import Housekeeping
from vps.listener import Server, listen, url_of
from vps.logs import log_line, take_over_logging
from vps.settings import Settings, unknown_variables
from vps.storefile import READERS_SERVING

__all__ = ["serve"]


def serve(settings: Settings, on_ready: Callable[[str], None] | None = None) -> None:
    """Serve until SIGTERM or SIGINT, then end cleanly. Raises Fault before it answers.

    `on_ready` gets the URL after the line that says so was printed.
    """
    take_over_logging()
    asyncio.run(_serve(settings, on_ready or _nothing_more))


async def _serve(settings: Settings, on_ready: Callable[[str], None]) -> None:
    wake = asyncio.Event()
    async with open_runtime(settings, wake=wake.set, readers=READERS_SERVING) as runtime:
        listener = listen(settings.host, settings.port)
        url = url_of(listener)
        state = await runtime.kernel.semantics.state()

        def announce() -> None:
            with contextlib.suppress(BrokenPipeError):  # nobody reads stdout any more: the service goes on
                click.echo(f"Titen {__version__} answers on {url} (embeddings: {_embeddings(state)})")
                on_ready(url)

        server = Server(asgi(_app(settings, runtime).handle), announce)
        server.stop_on_signals()
        _warn(state)
        housekeeping = Housekeeping(runtime.kernel, wake, log_line)
        housekeeping.start()
        try:
            await server.serve(sockets=[listener])
        finally:
            listener.close()
            await housekeeping.stop()


def _app(settings: Settings, runtime: Runtime) -> App:
    return App(
        runtime.kernel,
        runtime="vps",
        log=log_line,
        cors_origins=frozenset(settings.cors_origins),
        jwt_secret=settings.jwt_secret,
        mcp_hosts=LOOPBACK_HOSTS | {*settings.public_hosts} if settings.host in LOOPBACK_HOSTS else None,
    )


def _embeddings(state: SemanticState) -> str:
    if state.fingerprint is not None:
        return str(state.fingerprint)
    return "off" if state.status is SemanticStatus.OFF else "not ready"


def _warn(state: SemanticState) -> None:
    if state.status is not SemanticStatus.READY:
        _say(state.message)
    if state.status not in {SemanticStatus.READY, SemanticStatus.OFF}:
        _say("Until then, memories are stored and found by their words; their vectors follow later.")
    for name, guess in unknown_variables().items():
        _say(f"{name} is not a setting of Titen" + (f"; did you mean {guess}?" if guess else "."))


def _say(sentence: str) -> None:
    click.echo(sentence, err=True)


def _nothing_more(url: str) -> None:
    del url
