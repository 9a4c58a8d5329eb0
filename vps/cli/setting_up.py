"""`titen init` and `titen migrate`."""

import asyncio
from pathlib import Path

import click

from titen_core.keys import MintedKey
from titen_core.models import Tenant
from vps.cli.options import as_json_option, emit, say, store_options
from vps.faults import Fault
from vps.first_key import FIRST_TENANT, first_key
from vps.schema import migrate_store
from vps.settings import load_settings
from vps.storefile import open_database

__all__ = ["init", "migrate"]


@click.command
@store_options
@click.option("--name", default=FIRST_TENANT, show_default=True, metavar="NAME", help="Name of the first tenant.")
@as_json_option
def init(db: str | None, config: str | None, name: str, as_json: bool) -> None:
    """Create a store with its first tenant and a human admin key.

    The key is shown once and kept nowhere: put it where only you can read it.

    \b
    Example:
      titen init --db .titen/titen.db
      titen init --db .titen/titen.db --json    # {"tenant_id", "key_id", "api_key"}
    """
    path = load_settings({"db": db}, config).db
    tenant, minted = asyncio.run(_init(path, name))
    if as_json:
        emit({"tenant_id": tenant.id, "key_id": minted.key.id, "api_key": minted.api_key})
        return
    say(f"Created the store {path}.")
    say(f"  tenant   {tenant.id}  ({tenant.name})")
    say(f"  API key  {minted.api_key}")
    say("The key is shown only now. It is a human's, with the role admin.")
    say(f"Next: titen serve --db {path}")


async def _init(path: Path, name: str) -> tuple[Tenant, MintedKey]:
    async with open_database(path) as driver:
        await migrate_store(driver, path)
        made = await first_key(driver, name)
    if made is None:
        raise Fault(f"{path} is initialised already; `titen key create --db {path}` makes another key.")
    return made


@click.command
@store_options
@as_json_option
def migrate(db: str | None, config: str | None, as_json: bool) -> None:
    """Bring a store to this version's schema, creating it if it is missing.

    Each migration is applied whole or not at all; running it again changes nothing.

    \b
    Example:
      titen migrate --db .titen/titen.db
    """
    path = load_settings({"db": db}, config).db
    applied = asyncio.run(_migrate(path))
    if as_json:
        emit({"applied": applied})
    elif applied:
        say(f"Applied to {path}: {', '.join(applied)}.")
    else:
        say(f"{path} is up to date.")


async def _migrate(path: Path) -> list[str]:
    async with open_database(path) as driver:
        return await migrate_store(driver, path)
