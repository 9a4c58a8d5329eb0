"""Where a command works: on a store's file, or on a service behind a URL."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from vps.cli.options import store_options, tenant_option
from vps.faults import EXIT_USAGE, Fault
from vps.remote import Remote
from vps.settings import Settings, load_settings

__all__ = ["Target", "api_key_option", "target_options"]


@dataclass(frozen=True, slots=True)
class Target:
    """`url` None: the store at `settings.db`, and in it `tenant`, or the only one."""

    settings: Settings
    tenant: str | None
    url: str | None

    def remote(self) -> Remote:
        """A client of the service at `url`; closed by its `with`. Raises Fault."""
        if self.url is None:
            raise Fault("--url is needed, such as --url http://127.0.0.1:8787.", EXIT_USAGE)
        if self.settings.api_key is None:
            raise Fault("--url needs --api-key, or TITEN_API_KEY in the environment.", EXIT_USAGE)
        return Remote(self.url, self.settings.api_key)


def api_key_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--api-key`: for commands that ask a running service."""
    return click.option("--api-key", metavar="KEY", help="API key of the service. [TITEN_API_KEY]")(command)


def target_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options for either place; the command gets them as one `target`."""

    @functools.wraps(command)
    def with_target(
        *args: Any,
        db: str | None,
        config: str | None,
        tenant: str | None,
        url: str | None,
        api_key: str | None,
        **options: Any,
    ) -> Any:
        if url is not None and (db is not None or tenant is not None):
            raise Fault("Give either --url or --db with --tenant: a key knows its tenant.", EXIT_USAGE)
        settings = load_settings({"db": db, "api_key": api_key}, config)
        return command(*args, target=Target(settings, tenant, url), **options)

    url_option = click.option("--url", metavar="URL", help="A running service, instead of a store's file.")
    return store_options(tenant_option(url_option(api_key_option(with_target))))
