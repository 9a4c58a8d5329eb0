"""Purge: take memories out of the store for good, and say in a certificate what was done.

Soft deletion hides; a purge leaves no row, term, vector, event or idempotency row behind. Bytes of
freed pages go when the caller has emptied the write-ahead log; a hosted database may keep backups.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from titen_core.errors import Forbidden
from titen_core.kernel import Kernel
from titen_core.models import Access, Fingerprint
from titen_core.policy import narrow
from titen_core.sql.purge import Doomed, Index, Purge, Selector

__all__ = ["Certificate", "Selector", "purge", "remaining", "scrub_text"]


@dataclass(frozen=True, slots=True)
class Certificate:
    """What a purge removed: ids and counts, never content, and a subject only as its SHA-256.

    `memories_sha256` is over the sorted ids, each with a newline. `remaining` is what the look afterwards found, zero
    everywhere when all went well. After a purge that was interrupted, this tells of the last run.
    """

    kind: str
    tenant_id: str
    subject_sha256: str | None
    memory_ids: tuple[str, ...]
    memories_sha256: str
    removed: Mapping[str, int]
    remaining: Mapping[str, int]
    started_at_ms: int
    finished_at_ms: int
    notes: tuple[str, ...]

    @property
    def is_clean(self) -> bool:
        """Whether nothing is left."""
        return not any(self.remaining.values())


async def purge(kernel: Kernel, access: Access, selector: Selector, *, notes: Sequence[str] = ()) -> Certificate:
    """Remove everything the selector names, in atomic steps; run it again after a crash.

    Keys locked to a purged subject and all of a purged tenant's go first, so that nobody writes it
    anew. `notes` are the caller's own sentences about the store, kept in the certificate. Raises
    Forbidden for a selector outside the access; the driver's SqlErrors and IndexUnavailable pass through.
    """
    _refuse_outside(access, selector)
    started_at_ms = kernel.clock()
    store = Purge(kernel.store.driver)
    removed: dict[str, int] = {}
    if not selector.memory_ids:
        _add(removed, await store.remove_keys(access, selector.subject_id))
    indexes = await _indexes(kernel, access)
    ids: list[str] = []
    while doomed := await store.next_step(access, selector):
        await _remove_remotely(kernel, access, indexes, doomed)
        _add(removed, await store.remove(access, doomed, list(indexes.values())))
        ids += [row.id for row in doomed]
    if selector.tenant:
        _add(removed, await store.remove_tenant(access))
    await scrub_text(kernel)
    return Certificate(
        kind=selector.kind,
        tenant_id=access.tenant_id,
        subject_sha256=None if selector.subject_id is None else _sha256(selector.subject_id),
        memory_ids=tuple(sorted(ids)),
        memories_sha256=_sha256("".join(f"{memory_id}\n" for memory_id in sorted(ids))),
        removed=removed,
        remaining=await store.remaining(access, selector, list(indexes.values())),
        started_at_ms=started_at_ms,
        finished_at_ms=kernel.clock(),
        notes=tuple(notes),
    )


async def scrub_text(kernel: Kernel) -> None:
    """Make the words of deleted memories leave the text index; until then it only skips them."""
    await Purge(kernel.store.driver).optimize_text()


async def remaining(kernel: Kernel, access: Access, selector: Selector) -> Mapping[str, int]:
    """What is left of the selector by table; all zero after a purge. Terms go with `scrub_text`."""
    _refuse_outside(access, selector)
    indexes = await _indexes(kernel, access)
    return await Purge(kernel.store.driver).remaining(access, selector, list(indexes.values()))


def _refuse_outside(access: Access, selector: Selector) -> None:
    if selector.subject_id is not None:
        narrow(access, selector.subject_id)
    if selector.tenant and access.subject_id is not None:
        raise Forbidden("This key is locked to a subject; it cannot purge the tenant.")


async def _indexes(kernel: Kernel, access: Access) -> dict[Fingerprint, Index]:
    """Every index that may know a memory of the tenant, whether or not a model is configured now."""
    known = await Purge(kernel.store.driver).fingerprints(access)
    indexes = {found: kernel.semantics.index_for(found) for found in known}
    for fingerprint, index in indexes.items():
        if index.colocated:
            await kernel.store.outbox.prepare(index, fingerprint, kernel.clock())
    return indexes


async def _remove_remotely(
    kernel: Kernel, access: Access, indexes: Mapping[Fingerprint, Index], doomed: Sequence[Doomed]
) -> None:
    """Before the rows go: a crash in between finds them again and repeats it."""
    for fingerprint, index in indexes.items():
        if not index.colocated:
            await index.delete(await Purge(kernel.store.driver).sent(access, doomed, fingerprint))


def _sha256(text: str) -> str:
    """Plain, so that `sha256sum` can check the certificate."""
    return hashlib.sha256(text.encode()).hexdigest()


def _add(total: dict[str, int], counts: Mapping[str, int]) -> None:
    for table, count in counts.items():
        total[table] = total.get(table, 0) + count
