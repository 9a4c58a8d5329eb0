"""Tenants, principals and API keys."""

from dataclasses import dataclass

from titen_core.models import Access, ApiKey, Principal, PrincipalKind, Role, Tenant
from titen_core.protocols import Row, SqlDriver, Statement
from titen_core.sql.fragments import Fragment, all_of
from titen_core.sql.rows import integer, optional_integer, optional_text, text

__all__ = ["KeyRecord", "Keys"]


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """What authentication needs to know of a key."""

    principal: Principal
    secret_hash: str
    revoked: bool


@dataclass(frozen=True, slots=True)
class Keys:
    """Reads and writes credentials. Raises the driver's SqlErrors."""

    driver: SqlDriver

    async def find(self, key_id: str) -> KeyRecord | None:
        """A key by its public id, whatever its state. The tenant_id comes from here alone."""
        rows = await self.driver.query(Statement(_FIND, (key_id,)))
        return _record(rows[0]) if rows else None

    async def create_tenant(self, tenant_id: str, name: str, now_ms: int) -> Tenant:
        """A new tenant. Its `num` is never reused."""
        rows = await self.driver.batch(
            [
                Statement(
                    "INSERT INTO tenants (id, name, created_at) VALUES (?, ?, ?) RETURNING num",
                    (tenant_id, name, now_ms),
                )
            ]
        )
        return Tenant(tenant_id, integer(rows[0][0]["num"]), name, now_ms)

    async def tenants(self) -> list[Tenant]:
        """Every tenant, oldest first; for the operator."""
        rows = await self.driver.query(Statement("SELECT id, num, name, created_at FROM tenants ORDER BY num"))
        return [_tenant(row) for row in rows]

    async def newest_tenant_num(self) -> int:
        """The number of the latest tenant, and so how many there have been; for the operator."""
        rows = await self.driver.query(Statement("SELECT max(num) AS num FROM tenants"))
        return integer(rows[0]["num"])

    async def tenant(self, tenant_id: str) -> Tenant | None:
        """One tenant by id."""
        rows = await self.driver.query(
            Statement("SELECT id, num, name, created_at FROM tenants WHERE id = ?", (tenant_id,))
        )
        return _tenant(rows[0]) if rows else None

    async def create(self, tenant_id: str, key: ApiKey, *, principal_id: str, secret_hash: str) -> bool:
        """Store a key and, by its name, its principal; False if that name is of another kind."""
        statements = [
            Statement(
                "INSERT INTO principals (id, tenant_id, name, kind, created_at) VALUES (?, ?, ?, ?, ?)"
                " ON CONFLICT (tenant_id, name) DO NOTHING",
                (principal_id, tenant_id, key.principal, key.kind, key.created_at_ms),
            ),
            Statement(
                "INSERT INTO api_keys (id, tenant_id, principal_id, role, subject_id, secret_hash, label,"
                " created_at, expires_at)"
                " SELECT ?, p.tenant_id, p.id, ?, ?, ?, ?, ?, ? FROM principals AS p"
                " WHERE p.tenant_id = ? AND p.name = ? AND p.kind = ? RETURNING id",
                (
                    *(key.id, key.role, key.subject_id, secret_hash, key.label, key.created_at_ms),
                    *(key.expires_at_ms, tenant_id, key.principal, key.kind),
                ),
            ),
        ]
        return bool((await self.driver.batch(statements))[-1])

    async def create_first(self, tenant: Tenant, key: ApiKey, *, principal_id: str, secret_hash: str) -> Tenant | None:
        """The store's first key, and its tenant where there is none yet; None where somebody can sign in already.

        One batch: of two first starts at once, one makes both and the other makes nothing. A single
        tenant that was left without a key gets it. `tenant.num` is the store's to choose.
        """
        found = await self.driver.batch(
            [
                Statement(_FIRST_TENANT, (tenant.id, tenant.name, tenant.created_at_ms)),
                Statement(_FIRST_PRINCIPAL, (principal_id, key.principal, key.kind, key.created_at_ms)),
                Statement(
                    _FIRST_KEY,
                    (
                        *(key.id, key.role, key.subject_id, secret_hash, key.label, key.created_at_ms),
                        *(key.expires_at_ms, key.principal, key.kind),
                    ),
                ),
                Statement(_TENANT_OF_KEY, (key.id,)),
            ]
        )
        return _tenant(found[-1][0]) if found[-1] else None

    async def has_any(self) -> bool:
        """Whether some tenant has a key, in use or revoked; for the operator. A look, which decides no race."""
        rows = await self.driver.query(
            Statement("SELECT EXISTS (SELECT 1 FROM tenants AS t JOIN api_keys AS k ON k.tenant_id = t.id) AS found")
        )
        return bool(rows[0]["found"])

    async def list(self, access: Access, limit: int) -> list[ApiKey]:
        """Keys the access may see, those in use first, oldest first, without secrets."""
        where = _reachable(access)
        sql = f"{_SHOWN} WHERE {where.sql} ORDER BY k.revoked_at IS NOT NULL, k.created_at, k.id LIMIT ?"
        return [_api_key(row) for row in await self.driver.query(Statement(sql, (*where.params, limit)))]

    async def in_use(self, access: Access) -> int:
        """How many keys of the tenant are not revoked."""
        rows = await self.driver.query(
            Statement(
                "SELECT count(*) AS keys FROM api_keys WHERE tenant_id = ? AND revoked_at IS NULL", (access.tenant_id,)
            )
        )
        return integer(rows[0]["keys"])

    async def revoke(self, access: Access, key_id: str, now_ms: int) -> ApiKey | None:
        """Revoke at once; None if the access reaches no such key. Idempotent: the first time stays."""
        where = all_of((_reachable(access), Fragment("k.id = ?", (key_id,))))
        _, rows = await self.driver.batch(
            [
                Statement(
                    f"UPDATE api_keys AS k SET revoked_at = ifnull(k.revoked_at, ?) WHERE {where.sql}",
                    (now_ms, *where.params),
                ),
                Statement(f"{_SHOWN} WHERE {where.sql}", where.params),
            ]
        )
        return _api_key(rows[0]) if rows else None


def _reachable(access: Access) -> Fragment:
    """Keys of the caller's tenant; with a key locked to a subject, only those locked to the same."""
    tenant = Fragment("k.tenant_id = ?", (access.tenant_id,))
    if access.subject_id is None:
        return tenant
    return all_of((tenant, Fragment("k.subject_id = ?", (access.subject_id,))))


_FIND = """
SELECT k.id, k.tenant_id, k.principal_id, k.role, k.subject_id, k.secret_hash, k.expires_at, k.revoked_at,
       p.name, p.kind, t.num AS tenant_num
FROM api_keys AS k
JOIN principals AS p ON p.id = k.principal_id AND p.tenant_id = k.tenant_id
JOIN tenants AS t ON t.id = k.tenant_id
WHERE k.id = ?
"""

_FIRST_TENANT = """
INSERT INTO tenants (id, name, created_at) SELECT ?, ?, ? WHERE NOT EXISTS (SELECT 1 FROM tenants)
"""

# The only tenant, if it has no key: a second row of `tenants` makes the comparison false.
_KEYLESS = """(SELECT max(num) FROM tenants) = (SELECT min(num) FROM tenants)
  AND NOT EXISTS (SELECT 1 FROM api_keys AS k WHERE k.tenant_id = t.id)"""

_FIRST_PRINCIPAL = f"""
INSERT INTO principals (id, tenant_id, name, kind, created_at)
SELECT ?, t.id, ?, ?, ? FROM tenants AS t WHERE {_KEYLESS}
ON CONFLICT (tenant_id, name) DO NOTHING
"""

_FIRST_KEY = f"""
INSERT INTO api_keys (id, tenant_id, principal_id, role, subject_id, secret_hash, label, created_at, expires_at)
SELECT ?, t.id, p.id, ?, ?, ?, ?, ?, ?
FROM tenants AS t JOIN principals AS p ON p.tenant_id = t.id AND p.name = ? AND p.kind = ?
WHERE {_KEYLESS}
"""

_TENANT_OF_KEY = """
SELECT t.id, t.num, t.name, t.created_at FROM api_keys AS k JOIN tenants AS t ON t.id = k.tenant_id WHERE k.id = ?
"""

_SHOWN = """
SELECT k.id, p.name AS principal, p.kind, k.role, k.subject_id, k.label, k.created_at, k.expires_at, k.revoked_at
FROM api_keys AS k JOIN principals AS p ON p.id = k.principal_id AND p.tenant_id = k.tenant_id
"""


def _tenant(row: Row) -> Tenant:
    return Tenant(text(row["id"]), integer(row["num"]), text(row["name"]), integer(row["created_at"]))


def _record(row: Row) -> KeyRecord:
    principal = Principal(
        tenant_id=text(row["tenant_id"]),
        tenant_num=integer(row["tenant_num"]),
        key_id=text(row["id"]),
        principal_id=text(row["principal_id"]),
        name=text(row["name"]),
        kind=PrincipalKind(text(row["kind"])),
        role=Role(text(row["role"])),
        subject_id=optional_text(row["subject_id"]),
        expires_at_ms=optional_integer(row["expires_at"]),
    )
    return KeyRecord(principal, text(row["secret_hash"]), row["revoked_at"] is not None)


def _api_key(row: Row) -> ApiKey:
    return ApiKey(
        id=text(row["id"]),
        principal=text(row["principal"]),
        kind=PrincipalKind(text(row["kind"])),
        role=Role(text(row["role"])),
        subject_id=optional_text(row["subject_id"]),
        label=text(row["label"]),
        created_at_ms=integer(row["created_at"]),
        expires_at_ms=optional_integer(row["expires_at"]),
        revoked_at_ms=optional_integer(row["revoked_at"]),
    )
