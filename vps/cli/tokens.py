"""`titen token create`: a sign-in token for a human."""

import asyncio

import click

from titen_core import limits
from titen_core.content import clean_name
from titen_core.ids import system_clock
from titen_core.jwt_auth import Claims, JwtSecret, issue
from titen_core.models import Role
from titen_core.sql.keys import Keys
from vps.cli.options import as_json_option, emit, say, store_options, tenant_option
from vps.cli.times import shown
from vps.faults import EXIT_USAGE, Fault
from vps.local import chosen_tenant
from vps.settings import Settings, load_settings
from vps.storefile import open_store_file

__all__ = ["token"]

ROLES = click.Choice([role.value for role in Role])
HOURS_MAX = limits.JWT_LIFETIME_MAX_S // 3600
HOURS = limits.JWT_LIFETIME_DEFAULT_S // 3600


@click.group
def token() -> None:
    """Create sign-in tokens, which are for humans. Agents and services get API keys: `titen key create`."""


@token.command
@store_options
@tenant_option
@click.option("--human", is_flag=True, help="Say that a human will hold it: whatever they write counts as verified.")
@click.option("--name", required=True, metavar="NAME", help="Who signs in; history shows this name.")
@click.option("--role", type=ROLES, default=Role.WRITER.value, show_default=True, help="What the token may do.")
@click.option("--subject", metavar="ID", help="Lock the token to one subject.")
@click.option("--hours", type=click.IntRange(1, HOURS_MAX), default=HOURS, show_default=True, help="How long it lives.")
@as_json_option
def create(
    db: str | None,
    config: str | None,
    tenant: str | None,
    human: bool,
    name: str,
    role: str,
    subject: str | None,
    hours: int,
    as_json: bool,
) -> None:
    """Sign a token with TITEN_JWT_SECRET. A service with the same secret accepts it until it expires.

    It is not stored, so it cannot be revoked: a new secret ends every token.

    \b
    Example:
      titen token create --human --name Rina
      titen token create --human --tenant ID --name Rina --role reader --subject user_123 --hours 1
    """
    settings = load_settings({"db": db}, config)
    if not human:
        raise Fault("Tokens are for humans; add --human, or make an API key with `titen key create`.", EXIT_USAGE)
    now_ms = system_clock()
    claims = Claims(
        tenant_id=asyncio.run(_tenant_id(settings, tenant)),
        name=clean_name("name", name),
        role=Role(role),
        subject_id=None if subject is None else clean_name("subject", subject),
        expires_at_ms=now_ms + hours * 3_600_000,
    )
    signed = issue(claims, _secret(settings), now_ms)
    if as_json:
        emit(
            {
                "tenant_id": claims.tenant_id,
                "token": signed,
                "principal": claims.name,
                "role": claims.role,
                "subject_id": claims.subject_id,
                "expires_at": claims.expires_at_ms,
            }
        )
        return
    say(f"Token  {signed}")
    say(f"It signs {name} in with the role {role} until {shown(claims.expires_at_ms)}.")


def _secret(settings: Settings) -> JwtSecret:
    if settings.jwt_secret is None:
        raise Fault("Set TITEN_JWT_SECRET to the secret that the service has; it signs the token.", EXIT_USAGE)
    return settings.jwt_secret


async def _tenant_id(settings: Settings, tenant_id: str | None) -> str:
    async with open_store_file(settings.db) as driver:
        return (await chosen_tenant(Keys(driver), tenant_id)).id
