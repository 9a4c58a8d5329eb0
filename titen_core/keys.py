"""Making, listing and revoking API keys over REST, and the operator's first key."""

from dataclasses import dataclass

from titen_core import limits
from titen_core.auth import NewSecret, new_secret
from titen_core.content import refusal
from titen_core.errors import NotFound, QuotaExceeded
from titen_core.jwt_auth import SIGNED_IN, is_signed_in
from titen_core.kernel import Kernel
from titen_core.models import Access, ApiKey, Principal, PrincipalKind, Role, Tenant
from titen_core.policy import may_mint
from titen_core.sql.keys import Keys

__all__ = ["KeyRequest", "MintedKey", "create_key", "create_tenant", "list_keys", "mint", "mint_first", "revoke_key"]


@dataclass(frozen=True, slots=True)
class KeyRequest:
    """What a new key shall be."""

    principal: str
    kind: PrincipalKind
    role: Role
    subject_id: str | None = None
    label: str = ""
    expires_at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class MintedKey:
    """A new key with the one and only sight of its secret."""

    key: ApiKey
    api_key: str


async def create_key(kernel: Kernel, principal: Principal, access: Access, request: KeyRequest) -> MintedKey:
    """Make a key no stronger than the caller's, and that outlives it in nothing.

    Raises Forbidden, HumanRequired, QuotaExceeded, ValidationError.
    """
    may_mint(principal, request.kind, request.role, request.subject_id, request.expires_at_ms)
    if await kernel.store.keys.in_use(access) >= limits.KEYS_PER_TENANT_COUNT:
        raise QuotaExceeded(
            f"A tenant can hold {limits.KEYS_PER_TENANT_COUNT} keys; revoke one that is no longer used."
        )
    return await mint(kernel.store.keys, access.tenant_id, request, kernel.clock(), kernel.new_id())


async def mint(keys: Keys, tenant_id: str, request: KeyRequest, now_ms: int, principal_id: str) -> MintedKey:
    """Make a key with no policy asked: for the operator on the machine, and for provisioning."""
    if request.expires_at_ms is not None and request.expires_at_ms <= now_ms:
        raise refusal("expires_at", "has already passed; give a time in the future")
    secret = new_secret()
    key = _key(secret, request, now_ms)
    if not await keys.create(tenant_id, key, principal_id=principal_id, secret_hash=secret.secret_hash):
        raise refusal("principal", "exists with another kind; choose another name or the same kind")
    return MintedKey(key, secret.api_key)


async def mint_first(
    keys: Keys, tenant_name: str, request: KeyRequest, now_ms: int, *, tenant_id: str, principal_id: str
) -> tuple[Tenant, MintedKey] | None:
    """A new store's tenant and key, for the operator; None where somebody can already sign in.

    However many start at once, one of them gets the key. A tenant that was left without any gets it.
    """
    secret = new_secret()
    key = _key(secret, request, now_ms)
    wanted = Tenant(tenant_id, 0, tenant_name, now_ms)
    tenant = await keys.create_first(wanted, key, principal_id=principal_id, secret_hash=secret.secret_hash)
    return None if tenant is None else (tenant, MintedKey(key, secret.api_key))


async def create_tenant(keys: Keys, name: str, now_ms: int, tenant_id: str) -> Tenant:
    """A new tenant, for the operator."""
    return await keys.create_tenant(tenant_id, name, now_ms)


async def list_keys(kernel: Kernel, access: Access) -> list[ApiKey]:
    """The tenant's keys, without secrets; a subject-locked admin sees its subject's only."""
    return await kernel.store.keys.list(access, limits.KEYS_PER_TENANT_COUNT)


async def revoke_key(kernel: Kernel, access: Access, key_id: str) -> ApiKey:
    """Revoke at once. Raises NotFound."""
    key = await kernel.store.keys.revoke(access, key_id, kernel.clock())
    if key is None:
        raise _unknown()
    return key


def _key(secret: NewSecret, request: KeyRequest, now_ms: int) -> ApiKey:
    if is_signed_in(request.principal):
        raise refusal("principal", f"must not begin with {SIGNED_IN}, which marks who signed in with a token")
    return ApiKey(
        id=secret.key_id,
        principal=request.principal,
        kind=request.kind,
        role=request.role,
        subject_id=request.subject_id,
        label=request.label,
        created_at_ms=now_ms,
        expires_at_ms=request.expires_at_ms,
        revoked_at_ms=None,
    )


def _unknown() -> NotFound:
    return NotFound("No key with this id.")
