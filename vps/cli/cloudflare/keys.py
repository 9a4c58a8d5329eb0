"""`titen cloudflare key create`, `list` and `revoke`."""

import asyncio

import click

from titen_core import limits
from titen_core.ids import new_id, system_clock
from titen_core.keys import KeyRequest, MintedKey, mint
from titen_core.models import ApiKey
from titen_core.sql.keys import Keys
from vps.cli.cloudflare.options import Place, place_options
from vps.cli.keys import key_options, key_request, show_key, show_keys, show_revoked
from vps.cli.options import as_json_option, tenant_option
from vps.compose import operator_access
from vps.faults import Fault
from vps.local import chosen_tenant

__all__ = ["key"]


@click.group
def key() -> None:
    """Create, list and revoke keys of a deployment.

    A secret is made on this machine; only its SHA-256 leaves it, and it is shown once.
    """


@key.command
@place_options
@tenant_option
@key_options
@as_json_option
def create(
    place: Place,
    tenant: str | None,
    role: str,
    principal: str,
    kind: str,
    subject: str | None,
    expires: int | None,
    label: str,
    as_json: bool,
) -> None:
    """Create an API key and show it once.

    \b
    Example:
      titen cloudflare key create --role writer --principal my-agent --kind agent
    """
    request = key_request(role, principal, kind, subject, expires, label)
    tenant_id, minted = asyncio.run(_create(place, tenant, request))
    show_key(tenant_id, minted, as_json=as_json)


@key.command(name="list")
@place_options
@tenant_option
@as_json_option
def list_keys(place: Place, tenant: str | None, as_json: bool) -> None:
    """List a tenant's keys, without their secrets.

    \b
    Example:
      titen cloudflare key list
    """
    show_keys(asyncio.run(_list(place, tenant)), as_json=as_json)


@key.command
@click.argument("key_id")
@place_options
@as_json_option
def revoke(place: Place, key_id: str, as_json: bool) -> None:
    """Revoke a key at once; requests with it answer 401 from now on.

    \b
    Example:
      titen cloudflare key list
      titen cloudflare key revoke abcdefghijklmnop
    """
    show_revoked(asyncio.run(_revoke(place, key_id)), as_json=as_json)


async def _create(place: Place, tenant_id: str | None, request: KeyRequest) -> tuple[str, MintedKey]:
    now_ms = system_clock()
    keys = Keys(place.d1)
    tenant = await chosen_tenant(keys, tenant_id)
    return tenant.id, await mint(keys, tenant.id, request, now_ms, new_id(now_ms))


async def _list(place: Place, tenant_id: str | None) -> list[ApiKey]:
    keys = Keys(place.d1)
    return await keys.list(operator_access(await chosen_tenant(keys, tenant_id)), limits.KEYS_PER_TENANT_COUNT)


async def _revoke(place: Place, key_id: str) -> ApiKey:
    keys = Keys(place.d1)
    record = await keys.find(key_id)
    revoked = None
    if record is not None:
        access = operator_access(await chosen_tenant(keys, record.principal.tenant_id))
        revoked = await keys.revoke(access, key_id, system_clock())
    if revoked is None:
        raise Fault(f"There is no key {key_id}; `titen cloudflare key list` shows the keys.")
    return revoked
