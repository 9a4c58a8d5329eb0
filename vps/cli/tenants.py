"""`titen tenant create` and `titen tenant list`."""

import asyncio
from pathlib import Path

import click

from titen_core.content import clean_name
from titen_core.ids import new_id, system_clock
from titen_core.keys import create_tenant
from titen_core.models import Tenant
from titen_core.sql.keys import Keys
from vps.cli.options import as_json_option, emit, say, store_options
from vps.cli.tables import table
from vps.cli.times import shown
from vps.settings import load_settings
from vps.storefile import open_store_file

__all__ = ["tenant"]


@click.group
def tenant() -> None:
    """Create and list tenants. Nothing of one tenant is ever visible in another."""


@tenant.command
@store_options
@click.option("--name", required=True, metavar="NAME", help="What people call the tenant.")
@as_json_option
def create(db: str | None, config: str | None, name: str, as_json: bool) -> None:
    """Create a tenant; it has no key yet.

    \b
    Example:
      titen tenant create --name "Acme" --json    # {"tenant_id", "name"}
    """
    path = load_settings({"db": db}, config).db
    made = asyncio.run(_create(path, clean_name("name", name)))
    if as_json:
        emit({"tenant_id": made.id, "name": made.name})
        return
    say(f"Created the tenant {made.id} ({made.name}).")
    say(f"Next: titen key create --db {path} --tenant {made.id} --role admin --principal NAME --kind human")


@tenant.command(name="list")
@store_options
@as_json_option
def list_tenants(db: str | None, config: str | None, as_json: bool) -> None:
    """List tenants, oldest first.

    \b
    Example:
      titen tenant list
    """
    tenants = asyncio.run(_list(load_settings({"db": db}, config).db))
    if as_json:
        emit([{"tenant_id": each.id, "name": each.name, "created_at": each.created_at_ms} for each in tenants])
        return
    say(table(("tenant", "name", "created"), [(each.id, each.name, shown(each.created_at_ms)) for each in tenants]))


async def _create(path: Path, name: str) -> Tenant:
    now_ms = system_clock()
    async with open_store_file(path) as driver:
        return await create_tenant(Keys(driver), name, now_ms, new_id(now_ms))


async def _list(path: Path) -> list[Tenant]:
    async with open_store_file(path) as driver:
        return await Keys(driver).tenants()
