"""`titen cloudflare tenant create` and `list`."""

import asyncio

import click

from titen_core.content import clean_name
from titen_core.ids import new_id, system_clock
from titen_core.keys import create_tenant
from titen_core.sql.keys import Keys
from vps.cli.cloudflare.options import Place, place_options
from vps.cli.options import as_json_option, emit, say
from vps.cli.tables import table
from vps.cli.times import shown

__all__ = ["tenant"]


@click.group
def tenant() -> None:
    """Create and list tenants of a deployment. Nothing of one is ever visible in another."""


@tenant.command
@place_options
@click.option("--name", required=True, metavar="NAME", help="What people call the tenant.")
@as_json_option
def create(place: Place, name: str, as_json: bool) -> None:
    """Create a tenant; it has no key yet.

    \b
    Example:
      titen cloudflare tenant create --name "Acme"
    """
    now_ms = system_clock()
    made = asyncio.run(create_tenant(Keys(place.d1), clean_name("name", name), now_ms, new_id(now_ms)))
    if as_json:
        emit({"tenant_id": made.id, "name": made.name})
        return
    say(f"Created the tenant {made.id} ({made.name}).")
    say(f"Next: titen cloudflare key create --tenant {made.id} --role admin --principal NAME --kind human")


@tenant.command(name="list")
@place_options
@as_json_option
def list_tenants(place: Place, as_json: bool) -> None:
    """List tenants, oldest first.

    \b
    Example:
      titen cloudflare tenant list
    """
    found = asyncio.run(Keys(place.d1).tenants())
    if as_json:
        emit([{"tenant_id": each.id, "name": each.name, "created_at": each.created_at_ms} for each in found])
        return
    say(table(("tenant", "name", "created"), [(each.id, each.name, shown(each.created_at_ms)) for each in found]))
