"""Removing memories for good: every row that knows of them, in bounded atomic steps.

A step takes at most PURGE_STEP_ROWS memories out of every table and index in one batch, so a memory
is there whole or gone. Running again goes on where it stopped.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from titen_core import limits
from titen_core.models import Access, Fingerprint
from titen_core.protocols import ColocatedIndex, RemoteIndex, SqlDriver, Statement
from titen_core.sql.fragments import Fragment, all_of
from titen_core.sql.predicates import permitted
from titen_core.sql.rows import integer, text
from titen_core.sql.text_index import count_stray_text, count_terms, remove_text

__all__ = ["Doomed", "Purge", "Selector"]

Index = ColocatedIndex | RemoteIndex


@dataclass(frozen=True, slots=True)
class Selector:
    """What to purge: these memories, or a subject's, or the whole tenant; exactly one of them."""

    memory_ids: tuple[str, ...] = ()
    subject_id: str | None = None
    tenant: bool = False

    def __post_init__(self) -> None:
        named = (bool(self.memory_ids), self.subject_id is not None, self.tenant)
        if sum(named) != 1:
            raise ValueError("a selector names memories, a subject or the tenant, exactly one of them")

    @property
    def kind(self) -> str:
        """`memories`, `subject` or `tenant`."""
        if self.tenant:
            return "tenant"
        return "memories" if self.subject_id is None else "subject"


@dataclass(frozen=True, slots=True)
class Doomed:
    """One memory about to go."""

    seq: int
    id: str


@dataclass(frozen=True, slots=True)
class Purge:
    """Finds, removes and looks for leftovers. Raises the driver's SqlErrors."""

    driver: SqlDriver

    async def next_step(self, access: Access, selector: Selector) -> list[Doomed]:
        """The next memories to remove, at most PURGE_STEP_ROWS, deleted and expired ones included."""
        where = _selected(access, selector)
        sql = f"SELECT m.seq, m.id FROM memories AS m WHERE {where.sql} ORDER BY m.seq LIMIT ?"
        rows = await self.driver.query(Statement(sql, (*where.params, limits.PURGE_STEP_ROWS)))
        return [Doomed(integer(row["seq"]), text(row["id"])) for row in rows]

    async def fingerprints(self, access: Access) -> list[Fingerprint]:
        """Every model the tenant has vectors of, and the store's own."""
        rows = await self.driver.query(Statement(_FINGERPRINTS, (access.tenant_id,)))
        return [Fingerprint.parse(text(row["fingerprint"])) for row in rows]

    async def sent(self, access: Access, doomed: Sequence[Doomed], fingerprint: Fingerprint) -> list[tuple[int, int]]:
        """The (seq, content version) under which a remote index may hold vectors of these memories."""
        seqs = json.dumps([row.seq for row in doomed])
        rows = await self.driver.query(Statement(_SENT, (access.tenant_id, str(fingerprint), seqs)))
        return [
            (integer(row["seq"]), integer(row[name]))
            for row in rows
            for name in ("content_version", "indexed_version")
            if row[name] is not None
        ]

    async def remove(self, access: Access, doomed: Sequence[Doomed], indexes: Sequence[Index]) -> dict[str, int]:
        """Remove these memories from every table and colocated index, in one batch; rows by table."""
        seqs = json.dumps([row.seq for row in doomed])
        ids = json.dumps([row.id for row in doomed])
        rows = Fragment("m.tenant_id = ? AND m.seq IN (SELECT value FROM json_each(?))", (access.tenant_id, seqs))
        chosen = Statement(f"SELECT m.seq AS seq FROM memories AS m WHERE {rows.sql}", rows.params)
        named = [(table, column, seqs if column == "seq" else ids) for table, column in _OF_MEMORY]
        counts = [_among("SELECT count(*) AS n", access, *name) for name in named]
        deletions = [_among("DELETE", access, *name) for name in named]
        from_indexes = [statement for index in indexes if index.colocated for statement in index.drop(chosen)]
        results = await self.driver.batch([*counts, *from_indexes, *remove_text(rows), *deletions])
        return {table: integer(results[i][0]["n"]) for i, (table, _) in enumerate(_OF_MEMORY)}

    async def remove_keys(self, access: Access, subject_id: str | None) -> dict[str, int]:
        """Remove the tenant's API keys, or those locked to a subject: nobody shall write it anew."""
        mine = "tenant_id = ?" if subject_id is None else "tenant_id = ? AND subject_id = ?"
        params = (access.tenant_id,) if subject_id is None else (access.tenant_id, subject_id)
        results = await self.driver.batch(
            [
                Statement(f"SELECT count(*) AS n FROM api_keys WHERE {mine}", params),
                Statement(
                    "DELETE FROM idempotency WHERE tenant_id = ?"
                    f" AND key_id IN (SELECT api_keys.id FROM api_keys WHERE {mine})",
                    (access.tenant_id, *params),
                ),
                Statement(f"DELETE FROM api_keys WHERE {mine}", params),
            ]
        )
        return {"api_keys": integer(results[0][0]["n"])}

    async def remove_tenant(self, access: Access) -> dict[str, int]:
        """Remove what is left of a tenant without memories. Raises SqlConstraint if it got one meanwhile."""
        mine = (access.tenant_id,)
        counts = [Statement(f"SELECT count(*) AS n FROM {table} WHERE {name} = ?", mine) for table, name in _OF_TENANT]
        deletions = [Statement(f"DELETE FROM {table} WHERE {name} = ?", mine) for table, name in _OF_TENANT]
        results = await self.driver.batch([*counts, *deletions])
        return {table: integer(results[i][0]["n"]) for i, (table, _) in enumerate(_OF_TENANT)}

    async def optimize_text(self) -> None:
        """Rewrite the text index, so that the terms of deleted rows of any tenant_id leave it."""
        await self.driver.batch([Statement("INSERT INTO memory_text (memory_text) VALUES ('optimize')")])

    async def remaining(self, access: Access, selector: Selector, indexes: Sequence[Index]) -> dict[str, int]:
        """What is left by table: selected memories, and rows of the tenant that have lost their memory."""
        where = _selected(access, selector)
        looks = {"memories": Statement(f"SELECT count(*) AS n FROM memories AS m WHERE {where.sql}", where.params)}
        for table, column in _OF_MEMORY[:-1]:
            looks[table] = _stray(access, table, column)
        looks["memory_text"] = count_stray_text()
        for number, index in enumerate(indexes, 1):
            if index.colocated:
                looks[f"vector_index_{number}"] = index.stray(access.tenant_id)
        if not selector.memory_ids:
            looks["memory_vocab"] = count_terms(access.tenant_num, selector.subject_id)
            looks["api_keys"] = _keys(access, selector.subject_id)
        if selector.tenant:
            for table, name in _OF_TENANT:
                looks[table] = Statement(f"SELECT count(*) AS n FROM {table} WHERE {name} = ?", (access.tenant_id,))
        return {name: integer((await self.driver.query(look))[0]["n"]) for name, look in looks.items()}


_FINGERPRINTS = """
SELECT v.fingerprint FROM memory_vectors AS v WHERE v.tenant_id = ?
UNION SELECT f.value FROM titen_meta AS f WHERE f.key = 'fingerprint'
"""

_SENT = """
SELECT v.seq, v.content_version, v.indexed_version FROM memory_vectors AS v
WHERE v.tenant_id = ? AND v.fingerprint = ? AND v.seq IN (SELECT value FROM json_each(?))
"""

# Tables that name a memory, and by which column. The canonical row goes last: the others are found by it.
_OF_MEMORY = (
    ("memory_vectors", "seq"),
    ("vector_outbox", "seq"),
    ("idempotency", "memory_id"),
    ("memory_events", "memory_id"),
    ("memories", "seq"),
)

# What a tenant is besides its memories, in the order in which foreign keys let it go.
_OF_TENANT = (
    ("idempotency", "tenant_id"),
    ("vector_outbox", "tenant_id"),
    ("memory_vectors", "tenant_id"),
    ("memory_events", "tenant_id"),
    ("api_keys", "tenant_id"),
    ("principals", "tenant_id"),
    ("tenants", "id"),
)


def _selected(access: Access, selector: Selector) -> Fragment:
    if selector.memory_ids:
        ids = json.dumps(list(selector.memory_ids))
        return all_of((permitted(access), Fragment("m.id IN (SELECT value FROM json_each(?))", (ids,))))
    if selector.subject_id is not None:
        return all_of((permitted(access), Fragment("m.subject_id = ?", (selector.subject_id,))))
    return permitted(access)


def _among(verb: str, access: Access, table: str, column: str, names: str) -> Statement:
    return Statement(
        f"{verb} FROM {table} WHERE tenant_id = ? AND {column} IN (SELECT value FROM json_each(?))",
        (access.tenant_id, names),
    )


def _stray(access: Access, table: str, column: str) -> Statement:
    known = "seq" if column == "seq" else "id"
    return Statement(
        f"SELECT count(*) AS n FROM {table} AS x WHERE x.tenant_id = ?"
        f" AND x.{column} NOT IN (SELECT m.{known} FROM memories AS m WHERE m.tenant_id = ?)",
        (access.tenant_id, access.tenant_id),
    )


def _keys(access: Access, subject_id: str | None) -> Statement:
    return Statement(
        "SELECT count(*) AS n FROM api_keys AS k WHERE k.tenant_id = ? AND (? IS NULL OR k.subject_id = ?)",
        (access.tenant_id, subject_id, subject_id),
    )
