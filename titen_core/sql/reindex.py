"""Moving the store to another model's vectors, side by side, and putting an index together again.

The work of one process for the whole store: every tenant_id, in order of `seq`. Nothing here is seen
by a recall before `settle`, which is one batch.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from titen_core import limits
from titen_core.models import Fingerprint
from titen_core.protocols import ColocatedIndex, RemoteIndex, Row, SqlDriver, Statement, Vector
from titen_core.sql.fragments import Fragment, all_of
from titen_core.sql.predicates import not_deleted
from titen_core.sql.rows import integer, optional_text, text
from titen_core.sql.vectors import decode_vector, enqueue, keep_vector, select_rows

__all__ = ["Reindex", "Source", "Vectored"]

Index = ColocatedIndex | RemoteIndex


@dataclass(frozen=True, slots=True)
class Source:
    """A live row and its vector of the model in question, if it has one of its present content."""

    seq: int
    tenant_id: str
    memory_id: str
    content_version: int
    content: str
    vector: Vector | None


Vectored = tuple[Source, Vector]


@dataclass(frozen=True, slots=True)
class Reindex:
    """Reads and writes for a reindex. Raises the driver's SqlErrors."""

    driver: SqlDriver

    async def count(self, fingerprint: Fingerprint) -> tuple[int, int]:
        """How many live rows there are, and how many of them have this model's vector, of every tenant_id."""
        rows = await self.driver.query(Statement(_COUNT, (str(fingerprint),)))
        return integer(rows[0]["live"]), integer(rows[0]["vectored"])

    async def sources(self, fingerprint: Fingerprint, after_seq: int, *, vectored: bool) -> list[Source]:
        """The next live rows with, or without, this model's vector; at most EMBED_BATCH_TEXTS."""
        sql = _SOURCES.format(condition="v.seq IS NOT NULL" if vectored else "v.seq IS NULL")
        params = (str(fingerprint), after_seq, limits.EMBED_BATCH_TEXTS)
        return [_source(row) for row in await self.driver.query(Statement(sql, params))]

    async def store(self, fingerprint: Fingerprint, index: Index, made: Sequence[Vectored]) -> None:
        """Keep these vectors and put them into the model's own index; rows changed since get nothing."""
        statements: list[Statement] = []
        for source, vector in made:
            same = all_of((Fragment(_SAME, (source.tenant_id, source.seq, source.content_version)), not_deleted()))
            statements.append(keep_vector(same, vector, fingerprint))
            if index.colocated:
                statements += index.put(select_rows(same), vector)
        await self.driver.batch(statements)

    async def settle(self, fingerprint: Fingerprint, index: Index, now_ms: int) -> None:
        """Make this model the store's, in one batch: what has no vector yet is left to the outbox.

        Vectors of rows deleted or rewritten while the work was under way leave the index. A remote
        index gets all of them through the outbox. Another model's index is noted as retired.
        """
        model = str(fingerprint)
        missing = Fragment(f"m.deleted_at IS NULL AND NOT {_HAS_VECTOR}", (model,))
        stale = Fragment(f"(m.deleted_at IS NOT NULL OR NOT {_HAS_VECTOR})", (model,))
        complete = Fragment(f"m.deleted_at IS NULL AND {_HAS_VECTOR}", (model,))
        batch = [
            Statement(_RETIRE, (str(now_ms), model)),
            Statement(_ADOPT, (model,)),
            Statement("DELETE FROM titen_meta WHERE titen_meta.key = 'retired_index:' || ?", (model,)),
        ]
        if index.colocated:
            batch += index.drop(select_rows(stale))
            batch += [_set_status("ready", complete), _close(complete), _close(Fragment("m.deleted_at IS NOT NULL"))]
        else:
            missing = not_deleted()
        await self.driver.batch([*batch, _set_status("pending", missing), enqueue(missing, now_ms)])

    async def others(self, fingerprint: Fingerprint) -> list[Fingerprint]:
        """Other models that vectors are kept of, of any tenant_id."""
        rows = await self.driver.query(
            Statement(
                "SELECT DISTINCT v.fingerprint FROM memory_vectors AS v WHERE v.fingerprint <> ? /* every tenant_id */",
                (str(fingerprint),),
            )
        )
        return [Fingerprint.parse(text(row["fingerprint"])) for row in rows]

    async def drop_step(self, fingerprint: Fingerprint, index: Index, after_seq: int) -> int | None:
        """Remove the next vectors of a model the store has left; the last seq, or None at the end."""
        found = await self.driver.query(
            Statement(
                "SELECT v.seq FROM memory_vectors AS v WHERE v.fingerprint = ? AND v.seq > ? ORDER BY v.seq LIMIT ?"
                " /* every tenant_id */",
                (str(fingerprint), after_seq, limits.REINDEX_STEP_ROWS),
            )
        )
        if not found:
            return None
        seqs = json.dumps([integer(row["seq"]) for row in found])
        emptied = index.drop(Statement("SELECT value AS seq FROM json_each(?)", (seqs,))) if index.colocated else ()
        await self.driver.batch(
            [
                *emptied,
                Statement(
                    "DELETE FROM memory_vectors WHERE fingerprint = ? /* every tenant_id */"
                    " AND seq IN (SELECT value FROM json_each(?))",
                    (str(fingerprint), seqs),
                ),
            ]
        )
        return integer(found[-1]["seq"])

    async def retired(self, until_ms: int) -> list[Fingerprint]:
        """Models whose indexes were retired before a moment and still have their empty tables."""
        rows = await self.driver.query(
            Statement(
                "SELECT substr(r.key, 15) AS fingerprint FROM titen_meta AS r"
                " WHERE r.key LIKE 'retired_index:%' AND CAST(r.value AS INTEGER) <= ?",
                (until_ms,),
            )
        )
        return [Fingerprint.parse(text(row["fingerprint"])) for row in rows]

    async def destroy(self, fingerprint: Fingerprint, index: Index) -> None:
        """Remove a retired index's tables and the note of it."""
        tables = index.destroy() if index.colocated else ()
        noted = Statement("DELETE FROM titen_meta WHERE titen_meta.key = 'retired_index:' || ?", (str(fingerprint),))
        await self.driver.batch([*tables, noted])


_SAME = "m.tenant_id = ? AND m.seq = ? AND m.content_version = ?"

_HAS_VECTOR = """EXISTS (
  SELECT 1 FROM memory_vectors AS v WHERE v.seq = m.seq AND v.tenant_id = m.tenant_id
    AND v.content_version = m.content_version AND v.fingerprint = ?)"""

_JOINED = """
FROM memories AS m
LEFT JOIN memory_vectors AS v ON v.seq = m.seq AND v.tenant_id = m.tenant_id
  AND v.content_version = m.content_version AND v.fingerprint = ?
WHERE m.deleted_at IS NULL
"""

_COUNT = f"SELECT count(*) AS live, count(v.seq) AS vectored {_JOINED}"

_SOURCES = f"""
SELECT m.seq, m.tenant_id, m.id, m.content_version, m.content, v.vector {_JOINED}
  AND m.seq > ? AND {{condition}} ORDER BY m.seq LIMIT ?
"""

_RETIRE = """
INSERT INTO titen_meta (key, value)
SELECT 'retired_index:' || was.value, ? FROM titen_meta AS was WHERE was.key = 'fingerprint' AND was.value <> ?
ON CONFLICT (key) DO UPDATE SET value = excluded.value
"""

_ADOPT = """
INSERT INTO titen_meta (key, value) VALUES ('fingerprint', ?)
ON CONFLICT (key) DO UPDATE SET value = excluded.value
"""


def _set_status(status: str, rows: Fragment) -> Statement:
    return Statement(
        f"UPDATE memories AS m SET index_status = ? WHERE {rows.sql} AND m.index_status <> ? /* every tenant_id */",
        (status, *rows.params, status),
    )


def _close(rows: Fragment) -> Statement:
    return Statement(
        "DELETE FROM vector_outbox WHERE seq IN"
        f" (SELECT m.seq FROM memories AS m WHERE {rows.sql}) /* every tenant_id */",
        rows.params,
    )


def _source(row: Row) -> Source:
    vector = optional_text(row["vector"])
    return Source(
        seq=integer(row["seq"]),
        tenant_id=text(row["tenant_id"]),
        memory_id=text(row["id"]),
        content_version=integer(row["content_version"]),
        content=text(row["content"]),
        vector=None if vector is None else decode_vector(vector),
    )
