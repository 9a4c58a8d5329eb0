"""Progress on stderr, and only where somebody is watching."""

import sys
from typing import Any

import click

__all__ = ["Counter", "bar"]


def bar(label: str, length: int) -> Any:
    """A progress bar of `length` steps, to be used in a `with`; silent where stderr is no terminal."""
    return click.progressbar(length=length, label=label, file=sys.stderr, hidden=not sys.stderr.isatty())


class Counter:
    """How much is done of an unknown whole, on one line that is written over."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._done = 0
        self._watched = sys.stderr.isatty()

    def add(self, count: int) -> None:
        """Show `count` more."""
        self._done += count
        if self._watched:
            click.echo(f"\r{self._what}: {self._done}", nl=False, err=True)

    def end(self) -> None:
        """Leave the line."""
        if self._watched:
            click.echo(err=True)
