"""Options that several commands share, and how a command prints."""

import json
from collections.abc import Callable
from typing import Any, TypeVar

import click

__all__ = ["as_json_option", "emit", "say", "store_options", "tenant_option"]

F = TypeVar("F", bound=Callable[..., Any])


def store_options(command: F) -> F:
    """`--db` and `--config`: which store, and which settings file."""
    command = click.option("--config", metavar="FILE", help="TOML file of settings. [TITEN_CONFIG]")(command)
    return click.option("--db", metavar="PATH", help="The store's file. [TITEN_DB, else .titen/titen.db]")(command)


def as_json_option(command: F) -> F:
    """`--json`: exactly one JSON document on stdout; everything else goes to stderr."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document, for scripts.")(command)


def tenant_option(command: F) -> F:
    """`--tenant`: which one, needed only where a store has several."""
    return click.option("--tenant", metavar="ID", help="The tenant, where the store has several.")(command)


def emit(document: Any) -> None:
    """Print the one JSON document of a command."""
    click.echo(json.dumps(document, ensure_ascii=False, indent=2))


def say(text: str = "", *, as_json: bool = False) -> None:
    """Print for a person: to stderr where stdout belongs to a JSON document."""
    click.echo(text, err=as_json)
