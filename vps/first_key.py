"""The first tenant and its human admin key: what makes a store usable."""

from titen_core.ids import new_id, system_clock
from titen_core.keys import KeyRequest, MintedKey, mint_first
from titen_core.models import PrincipalKind, Role, Tenant
from titen_core.protocols import SqlDriver
from titen_core.sql.keys import Keys

__all__ = ["FIRST_TENANT", "first_key"]

FIRST_TENANT = "default"
FIRST_PRINCIPAL = "admin"


async def first_key(driver: SqlDriver, tenant_name: str = FIRST_TENANT) -> tuple[Tenant, MintedKey] | None:
    """Make both in a store that has neither; None where somebody can already sign in.

    Of several first starts at once on one file, one gets the key and the others None. A tenant that
    was left without any key, by `titen tenant create`, gets it.
    """
    keys, now_ms = Keys(driver), system_clock()
    if await keys.has_any():
        return None
    request = KeyRequest(principal=FIRST_PRINCIPAL, kind=PrincipalKind.HUMAN, role=Role.ADMIN, label="first key")
    return await mint_first(keys, tenant_name, request, now_ms, tenant_id=new_id(now_ms), principal_id=new_id(now_ms))
