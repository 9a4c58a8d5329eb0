"""`titen key create`, `list` and `revoke`."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from titen_core import limits
from titen_core.content import clean_name
from titen_core.ids import new_id, system_clock
from titen_core.keys import KeyRequest, MintedKey, mint
from titen_core.models import ApiKey, PrincipalKind, Role
from titen_core.sql.keys import Keys
from vps.cli.options import as_json_option, emit, say, store_options, tenant_option
from vps.cli.tables import table
from vps.cli.times import TIME, shown
from vps.compose import operator_access
from vps.faults import Fault
from vps.local import chosen_tenant
from vps.settings import load_settings
from vps.storefile import open_store_file

__all__ = ["key", "key_options", "key_request", "show_key", "show_keys", "show_revoked"]

F = TypeVar("F", bound=Callable[..., Any])
ROLES = click.Choice([role.value for role in Role])
KINDS = click.Choice([kind.value for kind in PrincipalKind])


def key_options(command: F) -> F:
    """What a new key shall be."""
    options = (
        click.option("--role", type=ROLES, required=True, help="What the key may do."),
        click.option(
            "--principal", required=True, metavar="NAME", help="Who uses it: a person, an agent or a service."
        ),
        click.option("--kind", type=KINDS, required=True, help="What the principal is."),
        click.option("--subject", metavar="ID", help="Lock the key to one subject."),
        click.option("--expires", type=TIME, metavar="TIME", help="30d, 12h, or a time such as 2030-01-31T12:00:00Z."),
        click.option("--label", default="", metavar="TEXT", help="A note to recognise it by."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.group
def key() -> None:
    """Create, list and revoke API keys. The secret of a key is shown once and never stored."""


@key.command
@store_options
@tenant_option
@key_options
@as_json_option
def create(
    db: str | None,
    config: str | None,
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
      titen key create --role writer --principal my-agent --kind agent
      titen key create --tenant ID --role reader --principal widget --kind service \\
        --subject user_123 --expires 30d --json
    """
    request = key_request(role, principal, kind, subject, expires, label)
    tenant_id, minted = asyncio.run(_create(load_settings({"db": db}, config).db, tenant, request))
    show_key(tenant_id, minted, as_json=as_json)


@key.command(name="list")
@store_options
@tenant_option
@as_json_option
def list_keys(db: str | None, config: str | None, tenant: str | None, as_json: bool) -> None:
    """List a tenant's keys, without their secrets.

    \b
    Example:
      titen key list
    """
    keys = asyncio.run(_list(load_settings({"db": db}, config).db, tenant))
    show_keys(keys, as_json=as_json)


@key.command
@click.argument("key_id")
@store_options
@tenant_option
@as_json_option
def revoke(key_id: str, db: str | None, config: str | None, tenant: str | None, as_json: bool) -> None:
    """Revoke a key at once; requests with it answer 401 from now on.

    \b
    Example:
      titen key list
      titen key revoke abcdefghijklmnop
    """
    revoked = asyncio.run(_revoke(load_settings({"db": db}, config).db, tenant, key_id))
    show_revoked(revoked, as_json=as_json)


def key_request(
    role: str, principal: str, kind: str, subject: str | None, expires: int | None, label: str
) -> KeyRequest:
    """The options as a request. Raises Fault and ValidationError."""
    if len(label.encode()) > limits.LABEL_BYTES:
        raise Fault(f"--label is longer than {limits.LABEL_BYTES} bytes; shorten it.")
    return KeyRequest(
        principal=clean_name("principal", principal),
        kind=PrincipalKind(kind),
        role=Role(role),
        subject_id=None if subject is None else clean_name("subject", subject),
        label=label,
        expires_at_ms=expires,
    )


def show_key(tenant_id: str, minted: MintedKey, *, as_json: bool) -> None:
    """The one sight of a new key."""
    if as_json:
        emit({"tenant_id": tenant_id, "key_id": minted.key.id, "api_key": minted.api_key} | _document(minted.key))
        return
    say(f"API key  {minted.api_key}")
    made = minted.key
    say(f"It belongs to the {made.kind} {made.principal} with the role {made.role}{_bounds(made)}.")
    say("It is shown only now.")


def show_keys(keys: Sequence[ApiKey], *, as_json: bool) -> None:
    """Keys without their secrets."""
    if as_json:
        emit([_document(each) for each in keys])
        return
    names = ("key", "principal", "kind", "role", "subject", "state", "created", "label")
    say(table(names, [_row(each) for each in keys]))


def show_revoked(revoked: ApiKey, *, as_json: bool) -> None:
    """What was revoked."""
    if as_json:
        emit(_document(revoked))
    else:
        say(f"Revoked {revoked.id} of {revoked.principal}.")


async def _create(path: Path, tenant_id: str | None, request: KeyRequest) -> tuple[str, MintedKey]:
    now_ms = system_clock()
    async with open_store_file(path) as driver:
        keys = Keys(driver)
        tenant = await chosen_tenant(keys, tenant_id)
        return tenant.id, await mint(keys, tenant.id, request, now_ms, new_id(now_ms))


async def _list(path: Path, tenant_id: str | None) -> list[ApiKey]:
    async with open_store_file(path) as driver:
        keys = Keys(driver)
        access = operator_access(await chosen_tenant(keys, tenant_id))
        return await keys.list(access, limits.KEYS_PER_TENANT_COUNT)


async def _revoke(path: Path, tenant_id: str | None, key_id: str) -> ApiKey:
    """A key's id is unique in the store, so its tenant need not be named."""
    async with open_store_file(path) as driver:
        keys = Keys(driver)
        record = await keys.find(key_id)
        if record is None or tenant_id not in {None, record.principal.tenant_id}:
            raise Fault(f"There is no key {key_id}; `titen key list` shows the keys.")
        access = operator_access(await chosen_tenant(keys, record.principal.tenant_id))
        revoked = await keys.revoke(access, key_id, system_clock())
    if revoked is None:
        raise Fault(f"There is no key {key_id}; `titen key list` shows the keys.")
    return revoked


def _document(each: ApiKey) -> dict[str, Any]:
    return {
        "key_id": each.id,
        "principal": each.principal,
        "kind": each.kind,
        "role": each.role,
        "subject_id": each.subject_id,
        "label": each.label,
        "created_at": each.created_at_ms,
        "expires_at": each.expires_at_ms,
        "revoked_at": each.revoked_at_ms,
    }


def _row(each: ApiKey) -> tuple[str, ...]:
    return (
        each.id,
        each.principal,
        each.kind,
        each.role,
        each.subject_id or "-",
        _state(each),
        shown(each.created_at_ms),
        each.label or "-",
    )


def _bounds(each: ApiKey) -> str:
    subject = "" if each.subject_id is None else f", locked to the subject {each.subject_id}"
    return subject + ("" if each.expires_at_ms is None else f", until {shown(each.expires_at_ms)}")


def _state(each: ApiKey) -> str:
    if each.revoked_at_ms is not None:
        return "revoked"
    if each.expires_at_ms is None:
        return "active"
    return "expired" if each.expires_at_ms <= system_clock() else f"until {shown(each.expires_at_ms)}"
