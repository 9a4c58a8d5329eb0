"""`titen version`."""

import click

from titen_core import __version__
from vps.cli.options import as_json_option, emit, say

__all__ = ["version"]


@click.command
@as_json_option
def version(as_json: bool) -> None:
    """Show the version.

    \b
    Example:
      titen version
    """
    if as_json:
        emit({"version": __version__})
    else:
        say(f"titen {__version__}")
