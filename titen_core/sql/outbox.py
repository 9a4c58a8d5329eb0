"""The outbox: which rows still have to reach the vector index, claimed under a lease.

A row of it says only "bring this memory's index entry up to date"; what that means is read from the
canonical row, so draining twice, late or in any order is harmless.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from titen_core import limits
from titen_core.models import Access, Fingerprint, Memory
from titen_core.protocols import ColocatedIndex, RemoteIndex, Row, SqlDriver, Statement, Vector
from titen_core.sql.fragments import Fragment
from titen_core.sql.rows import integer, optional_text, text
from titen_core.sql.vectors import attach_vector, decode_vector, remove_vector

__all__ = ["Outbox", "OutboxCounts", "Work"]


@dataclass(frozen=True, slots=True)
class Work:
    """One claimed row. `vector` is the canonical one where it fits the present content."""

    seq: int
    tenant_id: str
    target: int
    attempts: int
    content: str | None  # None: the memory was deleted or purged
    vector: Vector | None


@dataclass(frozen=True, slots=True)
class OutboxCounts:
    """How much is waiting, how much was given up, and since when the oldest waits."""

    pending: int
    failed: int
    oldest_ms: int | None


@dataclass(frozen=True, slots=True)
class Outbox:
    """Claims, completes and postpones work. Raises the driver's SqlErrors."""

    driver: SqlDriver

    async def claim(self, lease: str, fingerprint: Fingerprint, *, limit: int, now_ms: int) -> list[Work]:
        """Lease up to `limit` due rows; nobody else gets them for OUTBOX_LEASE_MS."""
        claimed, found = await self.driver.batch(
            [
                Statement(_CLAIM, (lease, now_ms + limits.OUTBOX_LEASE_MS, now_ms, now_ms, limit)),
                Statement(_WORK, (str(fingerprint), lease)),
            ]
        )
        del claimed
        return [_work(row) for row in found]

    async def complete(
        self,
        work: Work,
        lease: str,
        vector: Vector,
        fingerprint: Fingerprint,
        index: ColocatedIndex | RemoteIndex,
    ) -> None:
        """Store the vector for the content it was made from, and close the row; else leave it due."""
        same = Fragment(
            "m.tenant_id = ? AND m.seq = ? AND m.content_version = ?"
            " AND EXISTS (SELECT 1 FROM vector_outbox AS o WHERE o.seq = m.seq AND o.lease = ?)",
            (work.tenant_id, work.seq, work.target, lease),
        )
        await self.driver.batch([*attach_vector(same, vector, fingerprint, index), _release(work, lease)])

    async def forget(self, work: Work, lease: str, index: ColocatedIndex | RemoteIndex) -> None:
        """Take a deleted memory out of the index and close the row."""
        gone = Fragment("m.tenant_id = ? AND m.seq = ? AND m.deleted_at IS NOT NULL", (work.tenant_id, work.seq))
        await self.driver.batch(
            [
                *remove_vector(gone, index),
                Statement(
                    "DELETE FROM vector_outbox WHERE tenant_id = ? AND seq = ? AND lease = ? AND target = ?",
                    (work.tenant_id, work.seq, lease, work.target),
                ),
            ]
        )

    async def postpone(self, work: Sequence[Work], lease: str, *, until_ms: int, reason: str, counted: bool) -> None:
        """Try these again later; `counted` attempts end in `failed` at OUTBOX_ATTEMPTS_MAX."""
        seqs = json.dumps([item.seq for item in work])
        await self.driver.batch(
            [
                Statement(
                    _POSTPONE,
                    (int(counted), int(counted), limits.OUTBOX_ATTEMPTS_MAX, until_ms, reason, lease, seqs),
                ),
                Statement(_MARK_FAILED, (seqs,)),
            ]
        )

    async def kept_vector(self, row: Memory, fingerprint: Fingerprint) -> Vector | None:
        """The canonical vector of the row's present content, if there is one."""
        rows = await self.driver.query(
            Statement(
                "SELECT v.vector FROM memory_vectors AS v JOIN memories AS m ON m.seq = v.seq AND m.tenant_id = v.tenant_id"
                " WHERE v.seq = ? AND v.fingerprint = ? AND v.content_version = ?",
                (row.seq, str(fingerprint), row.content_version),
            )
        )
        return decode_vector(text(rows[0]["vector"])) if rows else None

    async def requeue(self, access: Access, now_ms: int) -> int:
        """Make the tenant's given-up and waiting rows due now; answers how many."""
        rows, _ = await self.driver.batch(
            [
                Statement(_REQUEUE, (now_ms, access.tenant_id)),
                Statement(
                    "UPDATE memories SET index_status = 'pending' WHERE tenant_id = ? AND index_status = 'error'"
                    " AND seq IN (SELECT o.seq FROM vector_outbox AS o WHERE o.tenant_id = ?)",
                    (access.tenant_id, access.tenant_id),
                ),
            ]
        )
        return len(rows)

    async def counts(self, access: Access) -> OutboxCounts:
        """The tenant's own counts."""
        return _counts(await self.driver.query(Statement(_COUNTS + " WHERE tenant_id = ?", (access.tenant_id,))))

    async def total(self) -> OutboxCounts:
        """Counts of the whole store, every tenant_id; for the operator and for draining to the end."""
        return _counts(await self.driver.query(Statement(_COUNTS)))

    async def next_due_ms(self) -> int | None:
        """When the next row falls due, or None when nothing waits."""
        rows = await self.driver.query(
            Statement("SELECT min(next_attempt_at) AS due FROM vector_outbox WHERE failed = 0")
        )
        return None if rows[0]["due"] is None else integer(rows[0]["due"])


_CLAIM = """
UPDATE vector_outbox SET lease = ?, lease_until = ?
WHERE seq IN (
  SELECT o.seq FROM vector_outbox AS o
  WHERE o.failed = 0 AND o.next_attempt_at <= ? AND (o.lease_until IS NULL OR o.lease_until <= ?)
  ORDER BY o.next_attempt_at, o.seq LIMIT ?)
RETURNING seq
"""

_WORK = """
SELECT o.seq, o.tenant_id, o.target, o.attempts, iif(m.deleted_at IS NULL, m.content, NULL) AS content, v.vector
FROM vector_outbox AS o
LEFT JOIN memories AS m ON m.seq = o.seq AND m.tenant_id = o.tenant_id
LEFT JOIN memory_vectors AS v ON v.seq = o.seq AND v.fingerprint = ? AND v.content_version = m.content_version
WHERE o.lease = ? AND o.failed = 0 ORDER BY o.next_attempt_at, o.seq
"""

_POSTPONE = """
UPDATE vector_outbox SET attempts = attempts + ?, failed = (attempts + ? >= ?), next_attempt_at = ?,
  last_error = ?, lease = NULL, lease_until = NULL
WHERE lease = ? AND seq IN (SELECT value FROM json_each(?))
"""

_MARK_FAILED = """
UPDATE memories SET index_status = 'error'
WHERE seq IN (SELECT o.seq FROM vector_outbox AS o
              WHERE o.failed = 1 AND o.tenant_id = memories.tenant_id
                AND o.seq IN (SELECT value FROM json_each(?)))
"""

_REQUEUE = """
UPDATE vector_outbox SET attempts = 0, failed = 0, next_attempt_at = ?, lease = NULL, lease_until = NULL
WHERE tenant_id = ? RETURNING seq
"""

_COUNTS = """
SELECT ifnull(sum(failed = 0), 0) AS pending, ifnull(sum(failed = 1), 0) AS failed, min(created_at) AS oldest
FROM vector_outbox
"""


def _work(row: Row) -> Work:
    vector = optional_text(row["vector"])
    return Work(
        seq=integer(row["seq"]),
        tenant_id=text(row["tenant_id"]),
        target=integer(row["target"]),
        attempts=integer(row["attempts"]),
        content=optional_text(row["content"]),
        vector=None if vector is None else decode_vector(vector),
    )


def _release(work: Work, lease: str) -> Statement:
    """Give an uncompleted row back: its content changed meanwhile, so it is due at once."""
    return Statement(
        "UPDATE vector_outbox SET lease = NULL, lease_until = NULL WHERE tenant_id = ? AND seq = ? AND lease = ?",
        (work.tenant_id, work.seq, lease),
    )


def _counts(rows: Sequence[Row]) -> OutboxCounts:
    row = rows[0]
    oldest = row["oldest"]
    return OutboxCounts(integer(row["pending"]), integer(row["failed"]), None if oldest is None else integer(oldest))
