"""The vector index inside the SQLite file: sign bits find candidates, float32 vectors score them.

Plain tables and sqlite-vec's scalar functions, no virtual table: rows of a tenant lie side by side,
a small tenant costs its rows and no more, any SQL condition filters exactly, and writes join the
caller's transaction. Why not `vec0`, with figures: docs/decisions/0019-vector-layout.md.

Embedding models put all texts into a narrow cone, where raw signs say little. Signs are therefore
taken after subtracting the mean of the tenant's own vectors, learnt from its first rows and once
again when it has grown. A tenant's answers never depend on another tenant's rows.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from titen_core.errors import IndexUnavailable, SqlError
from titen_core.models import Access, Filters, Fingerprint, Scope
from titen_core.protocols import (
    IndexDescription,
    Row,
    SqlDriver,
    SqlValue,
    Statement,
    Vector,
    VectorAnswer,
    VectorHit,
)
from titen_core.sql.fragments import Fragment, all_of
from titen_core.sql.predicates import matching, readable

__all__ = ["SqliteVecIndex"]

SIGN_BITS_DIMENSIONS_MIN: Final = 128  # below, whole vectors are as small as the bits of large ones
SCORED_ROWS_MIN: Final = 200  # candidates scored exactly, at 1,024 dimensions or more ...
SCORED_COMPONENTS: Final = 200 * 1024  # ... and more of them where fewer bits tell rows apart
SCORED_ROWS_FACTOR: Final = 4  # ... and at least so many for each row asked for
POOL_FACTOR: Final = 1.25  # rows taken for each row to score, where only expiry can drop some ...
POOL_FACTOR_FILTERED: Final = 5  # ... and where filters can
CENTRE_ROWS: Final = (64, 1024)  # a tenant's centre is learnt at the first count and again at the second
SIMILARITY_DECIMALS: Final = 6


class SqliteVecIndex:
    """Implements `ColocatedIndex` beside the canonical rows. Deterministic: same rows, same answers.

    Filters hold inside the index, so better rows outside of them hide nothing. Up to
    `SCORED_ROWS_MIN` matching rows the answer is exact; above, candidates come from sign bits.
    """

    colocated: Literal[True] = True

    def __init__(self, driver: SqlDriver, fingerprint: Fingerprint) -> None:
        self._driver = driver
        self._dimensions = fingerprint.dimensions
        self._tables = _Tables.of(fingerprint)
        self._scored_rows = max(SCORED_ROWS_MIN, SCORED_COMPONENTS // fingerprint.dimensions)

    async def describe(self) -> IndexDescription:
        return IndexDescription(dimensions=self._dimensions, metric="cosine", read_after_write=True)

    async def prepare(self, refill: Sequence[Statement] = ()) -> None:
        """See `ColocatedIndex.prepare`. Tables that belong together are made together."""
        names = self._tables.names()
        try:
            found = await self._driver.query(
                Statement(
                    "SELECT count(*) AS tables FROM sqlite_schema WHERE name IN (SELECT value FROM json_each(?))",
                    (json.dumps(names),),
                )
            )
            if found[0]["tables"] == len(names):
                return
            await self._driver.batch([*self.destroy(), *(Statement(sql) for sql in self._tables.ddl()), *refill])
        except SqlError as error:
            raise IndexUnavailable(f"the vector tables cannot be created: {error}") from error

    async def search(
        self, access: Access, scope: Scope, filters: Filters, vector: Vector, k: int, now_ms: int
    ) -> VectorAnswer:
        """See `VectorIndex.search`. A vector of another size raises `IndexUnavailable`."""
        if len(vector) != self._dimensions:
            raise IndexUnavailable(f"the index holds {self._dimensions} dimensions, the query {len(vector)}")
        if k < 1:
            return VectorAnswer(())
        scored = max(self._scored_rows, SCORED_ROWS_FACTOR * k)
        question = _Question(
            tables=self._tables,
            place=_place(access, scope),
            condition=readable(access, scope, filters, now_ms),
            tenant_id=access.tenant_id,
            vector=vector.tobytes(),
            scored=scored,
            pool=int(scored * (POOL_FACTOR_FILTERED if _narrows(scope, filters) else POOL_FACTOR)),
        )
        try:
            rows = await self._nearest(question)
        except SqlError as error:
            raise IndexUnavailable(f"the vector index cannot answer: {error}") from error
        return VectorAnswer(_best(rows, k))

    async def _nearest(self, question: "_Question") -> list[Row]:
        """Filter a pool of near rows; where too few of them match, look among the matching rows only.

        The first costs a look-up for each row of the pool, the second one for each row of the tenant.
        """
        rows = await self._driver.query(question.filtered_after())
        if len(rows) == question.scored or (rows and rows[0]["pooled"] != question.pool):
            return rows
        return await self._driver.query(question.filtered_before())

    def put(self, rows: Statement, vector: Vector) -> Sequence[Statement]:
        """See `ColocatedIndex.put`. A vector of another size raises `ValueError`."""
        if len(vector) != self._dimensions:
            raise ValueError(f"the index holds {self._dimensions} dimensions, the vector {len(vector)}")
        t, chosen = self._tables, rows.sql
        write = Statement(
            f"INSERT OR REPLACE INTO {t.floats} (seq, tenant_id, subject_id, vector)"
            f" SELECT m.seq, m.tenant_id, m.subject_id, ? FROM memories AS m WHERE m.seq IN ({chosen})",
            (vector.tobytes(), *rows.params),
        )
        encode = Statement(
            f"INSERT INTO {t.codes} (tenant_id, subject_id, seq, code)"
            f" SELECT f.tenant_id, f.subject_id, f.seq, {t.code_of('f.vector')}"
            f" FROM {t.floats} AS f LEFT JOIN {t.centres} AS c ON c.tenant_id = f.tenant_id"
            f" WHERE f.seq IN ({chosen})",
            rows.params,
        )
        return [self._drop_codes(rows), write, encode, *(self._learn(rows) if t.sign_bits else ())]

    def _learn(self, rows: Statement) -> Sequence[Statement]:
        """Find the centre of a tenant that has just reached the next count, and encode it all again."""
        t, (first, second) = self._tables, CENTRE_ROWS
        tenants = f"SELECT f.tenant_id FROM {t.floats} AS f WHERE f.seq IN ({rows.sql})"
        learn = f"""
INSERT OR REPLACE INTO {t.centres} (tenant_id, learnt_from, fresh, centre)
SELECT due.tenant_id, due.goal, 1, (
  SELECT vec_mean(some.vector) FROM (
    SELECT f.vector FROM {t.codes} AS k CROSS JOIN {t.floats} AS f ON f.seq = k.seq
    WHERE k.tenant_id = due.tenant_id ORDER BY k.subject_id, k.seq LIMIT {second}
  ) AS some
) FROM (
  SELECT w.tenant_id, iif(c.tenant_id IS NULL, {first}, {second}) AS goal
  FROM ({tenants} GROUP BY f.tenant_id) AS w
  LEFT JOIN {t.centres} AS c ON c.tenant_id = w.tenant_id
  WHERE c.tenant_id IS NULL OR c.learnt_from < {second}
) AS due WHERE iif(
  due.goal = {first},
  (SELECT 1 FROM {t.codes} AS k WHERE k.tenant_id = due.tenant_id LIMIT 1 OFFSET {first - 1}),
  (SELECT 1 FROM {t.codes} AS k WHERE k.tenant_id = due.tenant_id LIMIT 1 OFFSET {second - 1})
)"""
        encode_again = (
            f"UPDATE {t.codes} SET code = (SELECT {t.code_of('f.vector')}"
            f"  FROM {t.floats} AS f CROSS JOIN {t.centres} AS c"
            f"  WHERE f.seq = {t.codes}.seq AND c.tenant_id = {t.codes}.tenant_id)"
            f" WHERE tenant_id IN (SELECT c.tenant_id FROM {t.centres} AS c WHERE c.fresh = 1"
            f"  AND c.tenant_id IN ({tenants}))"
        )
        settle = f"UPDATE {t.centres} SET fresh = 0 WHERE fresh = 1 AND tenant_id IN ({tenants})"
        return [Statement(sql, rows.params) for sql in (learn, encode_again, settle)]

    def drop(self, rows: Statement) -> Sequence[Statement]:
        """See `ColocatedIndex.drop`. A centre keeps what it learnt, as a mean, until the tenant's last row goes."""
        t = self._tables
        delete = f"DELETE FROM {t.floats} WHERE tenant_id IS NOT NULL AND seq IN ({rows.sql})"
        forget = (
            f"DELETE FROM {t.centres} WHERE NOT EXISTS"
            f" (SELECT 1 FROM {t.codes} AS k WHERE k.tenant_id = {t.centres}.tenant_id) AND tenant_id IN"
            f" (SELECT m.tenant_id FROM memories AS m WHERE m.seq IN ({rows.sql}))"
        )
        return [self._drop_codes(rows), Statement(delete, rows.params), Statement(forget, rows.params)]

    def _drop_codes(self, rows: Statement) -> Statement:
        t = self._tables
        return Statement(
            f"DELETE FROM {t.codes} WHERE (tenant_id, subject_id, seq) IN"
            f" (SELECT f.tenant_id, f.subject_id, f.seq FROM {t.floats} AS f WHERE f.seq IN ({rows.sql}))",
            rows.params,
        )

    def stray(self, tenant_id: str) -> Statement:
        """See `ColocatedIndex.stray`."""
        known = "(SELECT m.seq FROM memories AS m WHERE m.tenant_id = ?)"
        rows = [
            f"SELECT count(*) AS n FROM {table} WHERE tenant_id = ? AND seq NOT IN {known}"
            for table in (self._tables.codes, self._tables.floats)
        ]
        orphaned = (
            f"SELECT count(*) AS n FROM {self._tables.centres} WHERE tenant_id = ?"
            f" AND NOT EXISTS (SELECT 1 FROM {self._tables.codes} AS k WHERE k.tenant_id = ?)"
        )
        return Statement(
            f"SELECT sum(n) AS n FROM ({' UNION ALL '.join((*rows, orphaned))})",
            (tenant_id,) * 6,
        )

    def destroy(self) -> Sequence[Statement]:
        """See `ColocatedIndex.destroy`. Idempotent."""
        t = self._tables
        return [Statement(f"DROP TABLE IF EXISTS {table}") for table in (t.codes, t.floats, t.centres)]


@dataclass(frozen=True, slots=True)
class _Tables:
    """The tables of one model. Two models live side by side while a reindex runs.

    `codes` is what a search scans, in the order tenant, subject, seq; `code` is NULL until the tenant
    has a centre. Where sign bits don't pay, the code is the vector itself.
    """

    codes: str
    floats: str
    centres: str
    sign_bits: bool

    @classmethod
    def of(cls, fingerprint: Fingerprint) -> "_Tables":
        stem = "vec_" + hashlib.sha256(str(fingerprint).encode()).hexdigest()[:12]
        d = fingerprint.dimensions
        return cls(
            codes=f"{stem}_codes",
            floats=f"{stem}_floats",
            centres=f"{stem}_centres",
            sign_bits=d >= SIGN_BITS_DIMENSIONS_MIN and d % 8 == 0,
        )

    def names(self) -> list[str]:
        return [self.codes, self.floats, self.centres]

    def ddl(self) -> Sequence[str]:
        codes = """(
  tenant_id TEXT NOT NULL, subject_id TEXT NOT NULL, seq INTEGER NOT NULL, code BLOB,
  PRIMARY KEY (tenant_id, subject_id, seq)
) STRICT, WITHOUT ROWID"""
        floats = """(
  seq INTEGER PRIMARY KEY, tenant_id TEXT NOT NULL, subject_id TEXT NOT NULL, vector BLOB NOT NULL
) STRICT"""
        centres = """(
  tenant_id TEXT PRIMARY KEY, learnt_from INTEGER NOT NULL, fresh INTEGER NOT NULL, centre BLOB NOT NULL
) STRICT"""
        layouts = ((self.codes, codes), (self.floats, floats), (self.centres, centres))
        return [f"CREATE TABLE IF NOT EXISTS {table} {columns}" for table, columns in layouts]

    def code_of(self, vector: str) -> str:
        """SQL for the code of a vector, beside `c`, its tenant's row of `centres` or NULLs."""
        if not self.sign_bits:
            return vector
        return f"CASE WHEN c.centre IS NOT NULL THEN vec_quantize_binary(vec_sub({vector}, c.centre)) END"

    def rank(self) -> str:
        """SQL that orders `k`, a row of `codes`, by its distance from `q.code`, the query's."""
        if not self.sign_bits:
            return "vec_distance_cosine(k.code, q.code)"
        return "CASE WHEN k.code IS NULL THEN 0 ELSE vec_distance_hamming(vec_bit(k.code), vec_bit(q.code)) END"


@dataclass(frozen=True, slots=True)
class _Question:
    """One search: where to scan, what must hold, how many rows to take from there and to score."""

    tables: _Tables
    place: Fragment
    condition: Fragment
    tenant_id: str
    vector: bytes
    scored: int
    pool: int

    def filtered_after(self) -> Statement:
        """The nearest `pool` codes, then the condition. `pooled` tells how many codes there were."""
        return self._statement(self.place, self.pool)

    def filtered_before(self) -> Statement:
        """The nearest codes among the rows that satisfy the condition."""
        matching = Fragment(
            f"k.seq IN (SELECT m.seq FROM memories AS m WHERE {self.condition.sql})", self.condition.params
        )
        return self._statement(all_of((self.place, matching)), self.scored)

    def _statement(self, where: Fragment, pool: int) -> Statement:
        t = self.tables
        sql = f"""
WITH q AS MATERIALIZED (
  SELECT {t.code_of("given.vector")} AS code
  FROM (SELECT ? AS vector) AS given LEFT JOIN {t.centres} AS c ON c.tenant_id = ?
), near AS MATERIALIZED (
  SELECT k.seq, {t.rank()} AS rank FROM q CROSS JOIN {t.codes} AS k
  WHERE {where.sql} ORDER BY rank, k.seq LIMIT ?
), kept AS MATERIALIZED (
  SELECT near.seq FROM near CROSS JOIN memories AS m ON m.seq = near.seq
  WHERE {self.condition.sql} ORDER BY near.rank, near.seq LIMIT ?
)
SELECT f.seq AS seq, vec_distance_cosine(f.vector, ?) AS distance, (SELECT count(*) FROM near) AS pooled
FROM kept CROSS JOIN {t.floats} AS f ON f.seq = kept.seq"""
        params: tuple[SqlValue, ...] = (
            *(self.vector, self.tenant_id),
            *(*where.params, pool),
            *(*self.condition.params, self.scored),
            self.vector,
        )
        return Statement(sql, params)


def _narrows(scope: Scope, filters: Filters) -> bool:
    """Whether anything but tenant, subject and expiry decides."""
    return bool(matching(replace(scope, subject_id=None), filters))


def _place(access: Access, scope: Scope) -> Fragment:
    """The stretch of `codes` to scan; the condition on `memories` repeats it and decides."""
    subjects = [subject for subject in (access.subject_id, scope.subject_id) if subject is not None]
    tenant = Fragment("k.tenant_id = ?", (access.tenant_id,))
    return all_of((tenant, *(Fragment("k.subject_id = ?", (subject,)) for subject in subjects)))


def _best(rows: Sequence[Row], k: int) -> tuple[VectorHit, ...]:
    hits = [_hit(row) for row in rows if row["distance"] is not None]  # a zero vector has no cosine
    return tuple(sorted(hits, key=lambda hit: (-hit.similarity, hit.seq))[:k])


def _hit(row: Row) -> VectorHit:
    seq, distance = row["seq"], row["distance"]
    assert isinstance(seq, int)  # noqa: S101 - both are typed by SQLite
    assert isinstance(distance, float)  # noqa: S101
    return VectorHit(seq=seq, similarity=round(1.0 - distance, SIMILARITY_DECIMALS))
