"""The outbox: which rows still have to reach the vector index, claimed under a lease.

A row of it says only "bring this memory's index entry up to date"; what that means is read from the
canonical row, so draining twice, late or in any order is harmless.

Each step is a few statements however many rows it settles: D1 counts statements, and a request may make 50.
Only a colocated index, which D1 has none of, takes its vectors one by one.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from titen_core import limits
from titen_core.models import Access, Fingerprint, Memory
from titen_core.protocols import ColocatedIndex, RemoteIndex, Row, SqlDriver, Statement, Vector
from titen_core.sql.fragments import Fragment, all_of
from titen_core.sql.predicates import permitted
from titen_core.sql.rows import MEMORY_COLUMNS, integer, memory, optional_integer, optional_text, text
from titen_core.sql.vectors import (
    decode_vector,
    encode_int8,
    encode_vector,
    finish,
    remove_vector,
    select_rows,
    still_the_model,
)

__all__ = ["Outbox", "OutboxCounts", "Postponed", "Work"]


@dataclass(frozen=True, slots=True)
class Work:
    """One claimed row.

    `memory` is None when it was deleted or purged. `vector` is the canonical one where it fits the
    present content. `sent_at_ms` is set once a remote index accepted the row, `indexed_version` is
    what that index was given last.
    """

    seq: int
    tenant_id: str
    target: int
    attempts: int
    since_ms: int
    sent_at_ms: int | None
    indexed_version: int | None
    memory: Memory | None
    vector: Vector | None


@dataclass(frozen=True, slots=True)
class Postponed:
    """A claimed row to try again at `until_ms`; `counted` attempts end in `failed` at OUTBOX_ATTEMPTS_MAX."""

    work: Work
    until_ms: int
    reason: str
    counted: bool


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
        """Lease up to `limit` due rows; nobody else gets them for OUTBOX_LEASE_MS.

        No row where the store has moved to another model: vectors of this one would not be stored.
        """
        ours = still_the_model(fingerprint)
        until_ms = now_ms + limits.OUTBOX_LEASE_MS
        _, _, found = await self.driver.batch(
            [
                Statement(_CLOCK_WENT_BACK, (now_ms, now_ms + limits.OUTBOX_BACKOFF_MAX_MS)),
                Statement(_CLAIM.format(ours=ours.sql), (lease, until_ms, now_ms, now_ms, *ours.params, limit)),
                Statement(_WORK, (str(fingerprint), lease)),
            ]
        )
        return [_work(row) for row in found]

    async def complete(
        self,
        made: Sequence[tuple[Work, Vector]],
        lease: str,
        fingerprint: Fingerprint,
        index: ColocatedIndex | RemoteIndex,
    ) -> None:
        """Store each vector for the content it was made from. A colocated index closes the row with it."""
        if not made:
            return
        statements = [_keep(made, lease, fingerprint)]
        if index.colocated:
            for work, vector in made:
                statements += index.put(select_rows(_live(_claimed([work], lease), fingerprint)), vector)
            statements += _closing([work for work, _ in made], lease, fingerprint)
        await self.driver.batch(statements)

    async def note_sent(
        self, sent: Sequence[Work], lease: str, fingerprint: Fingerprint, *, now_ms: int, look_again_ms: int
    ) -> None:
        """A remote index accepted these; look whether it shows them at `look_again_ms`."""
        targets = json.dumps([[work.seq, work.target] for work in sent])
        await self.driver.batch(
            [
                Statement(_NOTE_INDEXED, (str(fingerprint), targets)),
                Statement(_NOTE_SENT, (now_ms, look_again_ms, lease, targets)),
            ]
        )

    async def confirm(self, shown: Sequence[Work], lease: str, fingerprint: Fingerprint) -> None:
        """A remote index shows these: they are ready, and their rows are closed."""
        if shown:
            await self.driver.batch(_closing(shown, lease, fingerprint))

    async def forget(self, gone: Sequence[Work], lease: str, index: ColocatedIndex | RemoteIndex) -> None:
        """Take deleted memories out of a colocated index and close their rows."""
        if not gone:
            return
        seqs = _seqs(gone)
        deleted = Fragment(
            "m.seq IN (SELECT value FROM json_each(?)) /* every tenant_id */ AND m.deleted_at IS NOT NULL",
            (seqs,),
        )
        await self.driver.batch([*remove_vector(deleted, index), Statement(_CLOSE_GONE, (lease, seqs))])

    async def postpone(self, postponed: Sequence[Postponed], lease: str) -> None:
        """Try these again later."""
        if not postponed:
            return
        told = [[each.work.seq, int(each.counted), each.until_ms, each.reason] for each in postponed]
        await self.driver.batch(
            [
                Statement(_POSTPONE, (limits.OUTBOX_ATTEMPTS_MAX, json.dumps(told), lease)),
                Statement(_MARK_FAILED, (_seqs([each.work for each in postponed]),)),
            ]
        )

    async def kept_vector(self, row: Memory, fingerprint: Fingerprint) -> Vector | None:
        """The canonical vector of the row's present content, if there is one."""
        rows = await self.driver.query(
            Statement(
                "SELECT v.vector FROM memory_vectors AS v JOIN memories AS m ON m.seq = v.seq"
                " WHERE m.tenant_id = v.tenant_id AND v.seq = ? AND v.fingerprint = ? AND v.content_version = ?",
                (row.seq, str(fingerprint), row.content_version),
            )
        )
        return decode_vector(text(rows[0]["vector"])) if rows else None

    async def requeue(self, access: Access, now_ms: int) -> int:
        """Make the given-up and waiting rows that the caller may see due now; answers how many."""
        mine = permitted(access)
        rows, _ = await self.driver.batch(
            [
                Statement(_REQUEUE.format(mine=mine.sql), (now_ms, access.tenant_id, *mine.params)),
                Statement(_UNMARK_FAILED.format(mine=mine.sql), (*mine.params, access.tenant_id)),
            ]
        )
        return len(rows)

    async def release_leases(self) -> None:
        """Make claimed rows of every tenant_id claimable again, for a process that starts after a hard kill.

        Safe while another process drains: it finds its lease gone and stores nothing, so at worst one
        batch is embedded twice.
        """
        await self.driver.batch([Statement(_RELEASE_ALL)])

    async def prepare(self, index: ColocatedIndex, fingerprint: Fingerprint, now_ms: int) -> None:
        """Make a missing index of this model anew; if it is the store's, every live memory of every tenant_id is due.

        Canonical vectors fill it again, with no model call. Raises `IndexUnavailable`.
        """
        ours = still_the_model(fingerprint)
        await index.prepare(
            [
                Statement(_ENQUEUE_ALL.format(ours=ours.sql), (now_ms, now_ms, *ours.params)),
                Statement(_ALL_PENDING.format(ours=ours.sql), ours.params),
            ]
        )

    async def counts(self, access: Access) -> OutboxCounts:
        """Counts of the rows that the caller may see: its tenant's, or its subject's where the key is locked."""
        mine = permitted(access)
        where = f"tenant_id = ? AND EXISTS (SELECT 1 FROM memories AS m WHERE m.seq = vector_outbox.seq AND {mine.sql})"
        return _counts(await self.driver.query(Statement(f"{_COUNTS} WHERE {where}", (access.tenant_id, *mine.params))))

    async def total(self) -> OutboxCounts:
        """Counts of the whole store; for the operator and for draining to the end."""
        return _counts(await self.driver.query(Statement(_COUNTS + " WHERE tenant_id IN (SELECT id FROM tenants)")))

    async def any_failed(self) -> bool:
        """Whether some row of the store was given up; one look into an index, however much waits."""
        rows = await self.driver.query(
            Statement("SELECT EXISTS (SELECT 1 /* every tenant_id */ FROM vector_outbox WHERE failed = 1) AS failed")
        )
        return bool(rows[0]["failed"])

    async def next_due_ms(self) -> int | None:
        """When the next row of any tenant_id falls due, or None when nothing waits."""
        rows = await self.driver.query(
            Statement("SELECT min(next_attempt_at) AS due /* every tenant_id */ FROM vector_outbox WHERE failed = 0")
        )
        return optional_integer(rows[0]["due"])


_CLOCK_WENT_BACK = """
UPDATE vector_outbox SET next_attempt_at = ?, lease = NULL, lease_until = NULL
WHERE failed = 0 AND next_attempt_at > ? /* every tenant_id */
"""
"""No wait is longer than OUTBOX_BACKOFF_MAX_MS: a later time was written by a clock that has gone back since."""

_CLAIM = """
UPDATE vector_outbox SET lease = ?, lease_until = ?
WHERE seq IN (
  SELECT o.seq FROM vector_outbox AS o
  WHERE o.failed = 0 AND o.next_attempt_at <= ? AND (o.lease_until IS NULL OR o.lease_until <= ?)
    AND {ours}
  ORDER BY o.next_attempt_at, o.seq LIMIT ?) /* every tenant_id */
RETURNING seq
"""

_WORK = f"""
SELECT o.seq AS work_seq, o.tenant_id AS work_tenant_id, o.target, o.attempts, o.created_at AS since, o.sent_at,
       iif(v.content_version = m.content_version, v.vector, NULL) AS vector, v.indexed_version, {MEMORY_COLUMNS}
FROM vector_outbox AS o
LEFT JOIN memories AS m ON m.seq = o.seq AND m.tenant_id = o.tenant_id
LEFT JOIN memory_vectors AS v ON v.seq = o.seq AND v.fingerprint = ?
WHERE o.lease = ? AND o.failed = 0 ORDER BY o.next_attempt_at, o.seq
"""

_NOTE_INDEXED = """
UPDATE memory_vectors SET indexed_version = content_version
WHERE fingerprint = ? /* every tenant_id */
  AND (seq, content_version) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?))
"""

_NOTE_SENT = """
UPDATE vector_outbox SET sent_at = ?, next_attempt_at = ?, lease = NULL, lease_until = NULL, last_error = NULL
WHERE lease = ? /* every tenant_id */
  AND (seq, target) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?))
"""

_CLOSE_GONE = """
DELETE FROM vector_outbox
WHERE lease = ? /* every tenant_id */ AND seq IN (SELECT value FROM json_each(?))
  AND NOT EXISTS (SELECT 1 FROM memories AS m WHERE m.seq = vector_outbox.seq AND m.deleted_at IS NULL)
"""

_POSTPONE = """
UPDATE vector_outbox AS o SET attempts = o.attempts + told.counted, failed = (o.attempts + told.counted >= ?),
  next_attempt_at = told.until, last_error = told.reason, lease = NULL, lease_until = NULL
FROM (SELECT value ->> 0 AS seq, value ->> 1 AS counted, value ->> 2 AS until, value ->> 3 AS reason
      FROM json_each(?)) AS told
WHERE o.seq = told.seq AND o.lease = ? /* every tenant_id */
"""

_MARK_FAILED = """
UPDATE memories SET index_status = 'error'
WHERE (seq, tenant_id) IN (SELECT o.seq, o.tenant_id FROM json_each(?) AS item
                           CROSS JOIN vector_outbox AS o ON o.seq = item.value WHERE o.failed = 1)
"""

_UNMARK_FAILED = """
UPDATE memories AS m SET index_status = 'pending'
WHERE {mine} AND m.index_status = 'error'
  AND m.seq IN (SELECT o.seq FROM vector_outbox AS o WHERE o.tenant_id = ?)
"""

_REQUEUE = """
UPDATE vector_outbox SET attempts = 0, failed = 0, next_attempt_at = ?, lease = NULL, lease_until = NULL
WHERE tenant_id = ? AND EXISTS (SELECT 1 FROM memories AS m WHERE m.seq = vector_outbox.seq AND {mine})
RETURNING seq
"""

_RELEASE_ALL = """
UPDATE vector_outbox SET lease = NULL, lease_until = NULL WHERE lease IS NOT NULL /* every tenant_id */
"""

_ENQUEUE_ALL = """
INSERT INTO vector_outbox (seq, tenant_id, target, next_attempt_at, created_at)
SELECT m.seq, m.tenant_id, m.content_version, ?, ?
FROM tenants AS t CROSS JOIN memories AS m ON m.tenant_id = t.id
WHERE m.deleted_at IS NULL AND {ours}
ON CONFLICT (seq) DO NOTHING
"""

_ALL_PENDING = """
UPDATE memories SET index_status = 'pending'
WHERE tenant_id IN (SELECT id FROM tenants) AND deleted_at IS NULL AND index_status = 'ready' AND {ours}
"""

_COUNTS = """
SELECT ifnull(sum(failed = 0), 0) AS pending, ifnull(sum(failed = 1), 0) AS failed, min(created_at) AS oldest
FROM vector_outbox
"""


_KEEP = """
INSERT INTO memory_vectors (seq, fingerprint, tenant_id, content_version, vector, vector_int8)
SELECT m.seq, ?, m.tenant_id, m.content_version, made.value ->> 3, made.value ->> 4
FROM json_each(?) AS made CROSS JOIN memories AS m
  ON m.tenant_id = made.value ->> 0 AND m.seq = made.value ->> 1 AND m.content_version = made.value ->> 2
WHERE {live}
ON CONFLICT (seq, fingerprint) DO UPDATE SET content_version = excluded.content_version,
  vector = excluded.vector, vector_int8 = excluded.vector_int8
"""


def _keep(made: Sequence[tuple[Work, Vector]], lease: str, fingerprint: Fingerprint) -> Statement:
    told = [
        [work.tenant_id, work.seq, work.target, encode_vector(vector), encode_int8(vector)] for work, vector in made
    ]
    live = _live(_claimed([work for work, _ in made], lease), fingerprint)
    return Statement(_KEEP.format(live=live.sql), (str(fingerprint), json.dumps(told), *live.params))


def _claimed(work: Sequence[Work], lease: str) -> Fragment:
    """The memories of claims, each if its content is still what the claim was made for: a change takes the lease."""
    return Fragment(
        "m.seq IN (SELECT o.seq FROM vector_outbox AS o"
        " WHERE o.lease = ? AND o.seq IN (SELECT value FROM json_each(?)))"
        " AND EXISTS (SELECT 1 FROM vector_outbox AS o"
        " WHERE o.seq = m.seq AND o.tenant_id = m.tenant_id AND o.target = m.content_version)",
        (lease, _seqs(work)),
    )


def _live(rows: Fragment, fingerprint: Fingerprint) -> Fragment:
    return all_of((rows, Fragment("m.deleted_at IS NULL"), still_the_model(fingerprint)))


def _closing(work: Sequence[Work], lease: str, fingerprint: Fingerprint) -> list[Statement]:
    """These are ready. What was not closed is given back: its content changed meanwhile, so it is due at once."""
    return [
        *finish(_claimed(work, lease), fingerprint),
        Statement(
            "UPDATE vector_outbox SET lease = NULL, lease_until = NULL"
            " WHERE lease = ? /* every tenant_id */ AND seq IN (SELECT value FROM json_each(?))",
            (lease, _seqs(work)),
        ),
    ]


def _seqs(work: Sequence[Work]) -> str:
    return json.dumps([item.seq for item in work])


def _work(row: Row) -> Work:
    vector = optional_text(row["vector"])
    live = row["id"] is not None and row["deleted_at"] is None
    return Work(
        seq=integer(row["work_seq"]),
        tenant_id=text(row["work_tenant_id"]),
        target=integer(row["target"]),
        attempts=integer(row["attempts"]),
        since_ms=integer(row["since"]),
        sent_at_ms=optional_integer(row["sent_at"]),
        indexed_version=optional_integer(row["indexed_version"]),
        memory=memory(row) if live else None,
        vector=None if vector is None else decode_vector(vector),
    )


def _counts(rows: Sequence[Row]) -> OutboxCounts:
    row = rows[0]
    return OutboxCounts(integer(row["pending"]), integer(row["failed"]), optional_integer(row["oldest"]))
