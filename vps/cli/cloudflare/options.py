"""Options that the commands for Cloudflare share."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from titen_core.errors import SqlError
from vps.cli.cloudflare.deployment import CONFIG, Deployment, opened
from vps.cli.options import say
from vps.faults import Fault
from vps.settings import load_settings
from vps.wrangler import CommandRunner, Wrangler, WranglerFailed, find_wrangler
from vps.wrangler_d1 import WranglerD1

__all__ = ["Place", "directory_options", "place_options"]


@dataclass(frozen=True, slots=True)
class Place:
    """A provisioned deployment and what speaks to it."""

    deployment: Deployment
    wrangler: CommandRunner
    d1: WranglerD1


def directory_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--directory` and `--wrangler`."""
    command = click.option("--wrangler", metavar="COMMAND", help="What starts wrangler. [TITEN_WRANGLER]")(command)
    return click.option(
        "--directory", default=".", metavar="DIR", help="The checkout of Titen. [the current directory]"
    )(command)


def place_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command gets a provisioned deployment as `place`; wrangler's faults end it with one sentence."""

    @functools.wraps(command)
    def with_place(*args: Any, directory: str, wrangler: str | None, **options: Any) -> Any:
        deployment = opened(directory, None)
        if not deployment.config.exists():
            raise Fault(f"{CONFIG} is missing in {directory}: run `titen cloudflare provision` first.")
        runner = Wrangler(
            find_wrangler(load_settings({"wrangler": wrangler}).wrangler),
            deployment.directory,
            lambda line: say(f"$ {line}", as_json=True),
        )
        place = Place(deployment, runner, WranglerD1(runner, deployment.name, CONFIG))
        try:
            return command(*args, place=place, **options)
        except WranglerFailed as failure:
            raise Fault(f"wrangler failed: {failure.reason}") from None
        except SqlError as failure:
            raise Fault(f"The deployment's database cannot be used: {failure}.") from None

    return directory_options(with_place)
