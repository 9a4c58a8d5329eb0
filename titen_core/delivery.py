"""Bringing vectors to the index: in one batch where it shares the database, else sent and confirmed.

A remote index is eventually consistent. A row is sent once, then looked at until the index says it
shows everything that was sent by then; only then is it `ready`. Until then recall's overlay finds it.
"""

from collections.abc import Sequence

from titen_core import limits
from titen_core.errors import IndexUnavailable
from titen_core.kernel import Kernel
from titen_core.models import Fingerprint, Memory
from titen_core.protocols import ColocatedIndex, RemoteIndex, Vector, VectorRecord
from titen_core.sql.outbox import Postponed, Work

__all__ = ["confirm", "deliver", "withdraw"]

Made = Sequence[tuple[Work, Vector]]


async def deliver(
    kernel: Kernel, made: Made, lease: str, fingerprint: Fingerprint, index: ColocatedIndex | RemoteIndex
) -> int:
    """Store the vectors and bring them to the index; answers how many rows are done with.

    A remote index that fails leaves the rows to be sent later; nothing is raised for it.
    """
    if not made:
        return 0
    await kernel.store.outbox.complete(made, lease, fingerprint, index)
    if index.colocated:
        return len(made)
    return await _send(kernel, made, lease, fingerprint, index)


async def confirm(
    kernel: Kernel, sent: Sequence[Work], lease: str, fingerprint: Fingerprint, index: RemoteIndex
) -> int:
    """Call those ready that the index shows by now, look at the others again later; answers how many."""
    if not sent:
        return 0
    try:
        shown = await _shown(sent, index)
    except IndexUnavailable:
        shown = []
    await kernel.store.outbox.confirm(shown, lease, fingerprint)
    others = [work for work in sent if work not in shown]
    await _later(kernel, others, lease, limits.INDEX_LOOK_AGAIN_MS, "NotShownYet")
    return len(shown)


async def withdraw(kernel: Kernel, gone: Sequence[Work], lease: str, index: ColocatedIndex | RemoteIndex) -> None:
    """Take deleted memories out of the index. A late vector of theirs is dropped by hydration anyway."""
    if not gone:
        return
    if not index.colocated:
        try:
            await index.delete([(work.seq, work.indexed_version) for work in gone if work.indexed_version is not None])
        except IndexUnavailable:
            await _later(kernel, gone, lease, limits.OUTBOX_BACKOFF_MIN_MS, "IndexUnavailable")
            return
    await kernel.store.outbox.forget(gone, lease, index)


async def _send(kernel: Kernel, made: Made, lease: str, fingerprint: Fingerprint, index: RemoteIndex) -> int:
    records = [_record(work, work.memory, vector) for work, vector in made if work.memory is not None]
    stale = [
        (work.seq, work.indexed_version)
        for work, _ in made
        if work.indexed_version is not None and work.indexed_version != work.target
    ]
    now_ms = kernel.clock()
    try:
        await index.upsert(records)
        if stale:
            await index.delete(stale)
    except IndexUnavailable:
        await _later(kernel, [work for work, _ in made], lease, limits.OUTBOX_BACKOFF_MIN_MS, "IndexUnavailable")
        return 0
    await kernel.store.outbox.note_sent(
        [work for work, _ in made], lease, fingerprint, now_ms=now_ms, look_again_ms=now_ms + limits.INDEX_LOOK_AGAIN_MS
    )
    return len(made)


async def _later(kernel: Kernel, work: Sequence[Work], lease: str, wait_ms: int, reason: str) -> None:
    until_ms = kernel.clock() + wait_ms
    await kernel.store.outbox.postpone([Postponed(item, until_ms, reason, counted=False) for item in work], lease)


async def _shown(sent: Sequence[Work], index: RemoteIndex) -> list[Work]:
    """One look at the clock of the index settles most; the last writes before a quiet time are asked for by id.

    An id that was there before its fields were sent again counts too: the overlay has the row meanwhile.
    """
    through_ms = (await index.describe()).processed_through_ms
    if through_ms is None:
        return list(sent)
    late = [work for work in sent if not _is_shown(work, through_ms)]
    found = await index.shown([(work.seq, work.target) for work in late]) if late else set()
    return [work for work in sent if _is_shown(work, through_ms) or (work.seq, work.target) in found]


def _is_shown(work: Work, through_ms: int) -> bool:
    return work.sent_at_ms is not None and work.sent_at_ms + limits.INDEX_CLOCK_SKEW_MS < through_ms


def _record(work: Work, row: Memory, vector: Vector) -> VectorRecord:
    """What a remote index may know of a row: ids and enums to filter on, never content."""
    return VectorRecord(
        seq=work.seq,
        content_version=row.content_version,
        tenant_id=work.tenant_id,
        vector=vector,
        fields={
            "subject_id": row.subject_id,
            "agent_id": row.agent_id,
            "run_id": row.run_id,
            "kind": row.kind,
            "category": row.category,
            "priority": row.priority,
            "verified": row.verified,
            "author": row.author,
            "created_at": row.created_at_ms,
            "expires_at": row.expires_at_ms,
        },
    )
