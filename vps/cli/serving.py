"""`titen serve` and `titen up`."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import click

from vps.cli.options import store_options
from vps.settings import Settings, load_settings, require_embedder

__all__ = ["serve", "up"]

F = TypeVar("F", bound=Callable[..., Any])


def _listen_options(command: F) -> F:
    command = click.option("--port", metavar="N", help="Port, 0 for any free one. [TITEN_PORT, else 8787]")(command)
    return click.option("--host", metavar="ADDRESS", help="Address to listen on. [TITEN_HOST, else 127.0.0.1]")(command)


@click.command
@store_options
@_listen_options
def serve(db: str | None, host: str | None, port: str | None, config: str | None) -> None:
    """Serve an existing store over HTTP until SIGTERM or Ctrl-C.

    Prints one line on stdout once it answers; warnings and one JSON line per request go to stderr.

    \b
    Example:
      titen serve --db .titen/titen.db --port 8787
      TITEN_EMBED=off titen serve            # by words only, no model
    """
    settings = load_settings({"db": db, "host": host, "port": port}, config)
    _serve(settings)


@click.command
@store_options
@_listen_options
def up(db: str | None, host: str | None, port: str | None, config: str | None) -> None:
    """Create what is missing, then serve: directory, store, first tenant and admin key.

    The key is kept beside the store in PATH.admin-key, readable by this user only, and shown once.

    \b
    Example:
      titen up
      titen up --db /var/lib/titen/titen.db --port 9000
    """
    from adapters.local.embedder import local_available  # noqa: PLC0415
    from vps.cli.first_start import prepare, print_first_steps  # noqa: PLC0415

    settings = load_settings({"db": db, "host": host, "port": port}, config)
    require_embedder(settings, local_available=local_available)  # before a store is made
    key_file = asyncio.run(prepare(settings.db))
    _serve(settings, lambda url: print_first_steps(url, key_file))


def _serve(settings: Settings, on_ready: Callable[[str], None] | None = None) -> None:
    from vps.serve import serve as serve_settings  # noqa: PLC0415

    serve_settings(settings, on_ready)
