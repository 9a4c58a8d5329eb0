"""The first tenant and its human admin key: what makes a store usable."""

from titen_core import limits
from titen_core.ids import new_id, system_clock
from titen_core.keys import KeyRequest, MintedKey, create_tenant, mint
from titen_core.models import PrincipalKind, Role, Tenant
from titen_core.protocols import SqlDriver
from titen_core.sql.keys import Keys
from vps.compose import operator_access

__all__ = ["FIRST_TENANT", "first_key"]

FIRST_TENANT = "default"
FIRST_PRINCIPAL = "admin"


async def first_key(driver: SqlDriver, tenant_name: str = FIRST_TENANT) -> tuple[Tenant, MintedKey] | None:
    """Make both in a store that has neither; None where somebody can already sign in.

    A tenant that was left without any key, by a start cut short, gets the key.
    """
    keys, now_ms = Keys(driver), system_clock()
    tenants = await keys.tenants()
    if len(tenants) > 1 or (tenants and await keys.list(operator_access(tenants[0]), limits.KEYS_PER_TENANT_COUNT)):
        return None
    tenant = tenants[0] if tenants else await create_tenant(keys, tenant_name, now_ms, new_id(now_ms))
    request = KeyRequest(principal=FIRST_PRINCIPAL, kind=PrincipalKind.HUMAN, role=Role.ADMIN, label="first key")
    return tenant, await mint(keys, tenant.id, request, now_ms, new_id(now_ms))
