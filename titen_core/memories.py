"""Reading, changing, verifying, deleting and restoring single memories.

Each change is a pure function from the row as it was read to the row as it should be, written only
over the version it was made from; a lost race reads again.
"""

import dataclasses
from collections.abc import Callable
from typing import Literal, TypeVar

from titen_core import limits
from titen_core.content import canonical_json, clean_metadata, merge_patch
from titen_core.errors import Busy, Duplicate, NotFound, SqlConstraint, VersionConflict
from titen_core.kernel import Kernel
from titen_core.models import (
    UNSET,
    Access,
    IndexStatus,
    Memory,
    MemoryEvent,
    Outcome,
    Patch,
    PrincipalKind,
    Unset,
    Written,
)
from titen_core.protocols import Statement, Vector
from titen_core.remember import embed_for_write, replay, vector_statements, wake_for, write_past_a_broken_index
from titen_core.semantics import SemanticState
from titen_core.sql.fragments import Fragment
from titen_core.sql.idempotency import Ticket, record
from titen_core.sql.memories import Change, default_confidence, row_identity
from titen_core.sql.vectors import remove_vector

__all__ = ["change", "forget", "get", "history", "restore", "verify"]

T = TypeVar("T")


async def get(kernel: Kernel, access: Access, memory_id: str) -> Memory:
    """One memory by id, expired ones included. Raises NotFound."""
    row = await kernel.store.memories.get(access, memory_id)
    if row is None:
        raise _unknown()
    return row


async def history(
    kernel: Kernel, access: Access, memory_id: str, *, after_version: int, limit: int, deleted: bool
) -> list[MemoryEvent]:
    """Events of a memory, oldest first; those of a deleted one only if `deleted`. Raises NotFound."""
    if await kernel.store.memories.get(access, memory_id, deleted=deleted) is None:
        raise _unknown()
    return await kernel.store.memories.history(access, memory_id, after_version=after_version, limit=limit)


async def change(
    kernel: Kernel, access: Access, memory_id: str, patch: Patch, expected_version: int | None = None
) -> Written:
    """Change the given fields. Raises NotFound, VersionConflict, Duplicate, Busy or ValidationError.

    The last where the merged metadata is over its bound.
    """

    def patched(row: Memory) -> Change | None:
        if row.deleted_at_ms is not None:
            raise _unknown()
        return _patched(row, patch, access, kernel.clock())

    return await _apply(kernel, access, memory_id, patched, expected_version=expected_version)


async def verify(
    kernel: Kernel,
    access: Access,
    memory_id: str,
    expected_version: int | None = None,
    ticket: Ticket | None = None,
) -> Written:
    """Note that a human confirmed the memory. Raises NotFound, VersionConflict or Busy."""

    def verified(row: Memory) -> Change | None:
        if row.deleted_at_ms is not None:
            raise _unknown()
        if row.verified:
            return None
        now_ms = kernel.clock()
        after = dataclasses.replace(row, verified=True, verified_at_ms=now_ms, verified_by=access.actor.name)
        return _next(row, after, Outcome.VERIFIED, now_ms)

    return await _apply(kernel, access, memory_id, verified, expected_version=expected_version, ticket=ticket)


async def forget(kernel: Kernel, access: Access, memory_id: str, expected_version: int | None = None) -> Written:
    """Delete softly: at once invisible, restorable. Idempotent. Raises NotFound, VersionConflict or Busy."""

    def deleted(row: Memory) -> Change | None:
        if row.deleted_at_ms is not None:
            return None
        now_ms = kernel.clock()
        return _next(row, dataclasses.replace(row, deleted_at_ms=now_ms), Outcome.DELETED, now_ms)

    return await _apply(kernel, access, memory_id, deleted, expected_version=expected_version)


async def restore(
    kernel: Kernel,
    access: Access,
    memory_id: str,
    expected_version: int | None = None,
    ticket: Ticket | None = None,
) -> Written:
    """Bring a deleted memory back as it was; an expiry that has passed is lifted.

    Raises NotFound, VersionConflict or Busy.
    """

    def restored(row: Memory) -> Change | None:
        if row.deleted_at_ms is None:
            return None
        now_ms = kernel.clock()
        lapsed = row.expires_at_ms is not None and row.expires_at_ms <= now_ms
        after = dataclasses.replace(
            row,
            deleted_at_ms=None,
            expires_at_ms=None if lapsed else row.expires_at_ms,
            index_status=IndexStatus.PENDING,
        )
        return _next(row, after, Outcome.RESTORED, now_ms)

    written = await _apply(kernel, access, memory_id, restored, expected_version=expected_version, ticket=ticket)
    if written.memory.index_status is IndexStatus.PENDING:
        kernel.wake()
    return written


async def _apply(
    kernel: Kernel,
    access: Access,
    memory_id: str,
    make: Callable[[Memory], Change | None],
    *,
    expected_version: int | None,
    ticket: Ticket | None = None,
) -> Written:
    """Read, make the change, compare and swap; again after a lost race, up to CAS_ATTEMPTS times."""
    done = await replay(kernel, access, ticket)
    if done is not None:
        return done
    for _ in range(limits.CAS_ATTEMPTS):
        row = await kernel.store.memories.get(access, memory_id, deleted=True)
        if row is None:
            raise _unknown()
        wanted = make(row)
        if expected_version is not None and expected_version != row.version:
            raise VersionConflict(
                f"The memory is at version {row.version}; read it again and decide.",
                details={"version": row.version},
            )
        if wanted is None:
            return await _note_unchanged(kernel, access, row, ticket)
        written = await _swap(kernel, access, wanted, ticket)
        if written is not None:
            return written
    raise Busy("Many callers are changing this memory at once; try again.", retry_after_s=1)


async def _swap(kernel: Kernel, access: Access, wanted: Change, ticket: Ticket | None) -> Written | None:
    state, vector = await _vector_for(kernel, wanted)
    op, now_ms = kernel.new_id(), kernel.clock()

    async def write(state: SemanticState) -> Written | None:
        return await kernel.store.memories.swap(
            access,
            wanted,
            op=op,
            now_ms=now_ms,
            extra=lambda mine: [
                *vector_statements(state, vector, mine, now_ms),
                *_index_removal(state, wanted, mine),
                *record(access, ticket, mine, op, wanted.outcome, now_ms),
            ],
        )

    try:
        written = await write_past_a_broken_index(kernel, state, write)
    except SqlConstraint:
        done = await replay(kernel, access, ticket)
        if done is not None:
            return done
        holder = await kernel.store.memories.find(access, row_identity(wanted.after))
        if holder is None or holder.id == wanted.after.id:
            raise
        raise Duplicate(
            "Another memory already says this; change or restore that one.", details={"id": holder.id}
        ) from None
    wake_for(kernel, state, [] if written is None else [written])
    return written


async def _vector_for(kernel: Kernel, wanted: Change) -> tuple[SemanticState, Vector | None]:
    """New words are embedded; a restored row takes up the vector it had; nothing else needs one."""
    if wanted.before.content != wanted.after.content:
        state, vectors = await embed_for_write(kernel, [wanted.after.content])
        return state, vectors[0]
    state = await kernel.semantics.state()
    if wanted.outcome is not Outcome.RESTORED or state.fingerprint is None:
        return state, None
    return state, await kernel.store.outbox.kept_vector(wanted.before, state.fingerprint)


async def _note_unchanged(kernel: Kernel, access: Access, row: Memory, ticket: Ticket | None) -> Written:
    """Nothing to write but the ticket, so that a repeat answers the same."""
    where = Fragment("m.tenant_id = ? AND m.id = ?", (access.tenant_id, row.id))
    statements = record(access, ticket, where, "", Outcome.UNCHANGED, kernel.clock())
    if statements:
        try:
            await kernel.store.driver.batch(statements)
        except SqlConstraint:
            done = await replay(kernel, access, ticket)
            if done is not None:
                return done
    return Written(Outcome.UNCHANGED, row)


def _index_removal(state: SemanticState, wanted: Change, mine: Fragment) -> list[Statement]:
    return remove_vector(mine, state.index) if wanted.outcome is Outcome.DELETED else []


def _patched(row: Memory, patch: Patch, access: Access, now_ms: int) -> Change | None:
    after = dataclasses.replace(
        row,
        content=_or(patch.content, row.content),
        tags=_or(patch.tags, row.tags),
        priority=_or(patch.priority, row.priority),
        source=_or(patch.source, row.source),
        metadata=_merged(row, patch),
        expires_at_ms=_or(patch.expires_at_ms, row.expires_at_ms),
    )
    rewritten = after.content != row.content
    if rewritten:
        after = _rewritten(after, row, access, now_ms)
    confidence_given = None
    if patch.confidence is None:
        confidence_given = False
        after = dataclasses.replace(after, confidence=default_confidence(after.author))
    elif patch.confidence is not UNSET:
        confidence_given = True
        after = dataclasses.replace(after, confidence=patch.confidence)
    elif rewritten:
        after = dataclasses.replace(after, confidence=_following(row, after))
    if after == row and canonical_json(after.metadata) == canonical_json(row.metadata):  # 1, 1.0 and True differ
        return None
    return _next(row, after, Outcome.UPDATED, now_ms, confidence_given)


def _rewritten(after: Memory, row: Memory, access: Access, now_ms: int) -> Memory:
    """Author and verification follow whoever writes the content."""
    human = access.actor.kind is PrincipalKind.HUMAN
    return dataclasses.replace(
        after,
        author=access.actor.kind,
        verified=human,
        verified_at_ms=now_ms if human else None,
        verified_by=access.actor.name if human else None,
        content_version=row.version + 1,
        index_status=IndexStatus.PENDING,
    )


def _following(row: Memory, after: Memory) -> float:
    """A defaulted confidence follows the writer, a given one stays."""
    return row.confidence if row.confidence_given else default_confidence(after.author)


def _merged(row: Memory, patch: Patch) -> dict[str, object]:
    if patch.metadata is UNSET:
        return dict(row.metadata)
    return {} if patch.metadata is None else clean_metadata(merge_patch(row.metadata, patch.metadata))


def _next(row: Memory, after: Memory, outcome: Outcome, now_ms: int, confidence_given: bool | None = None) -> Change:
    stamped = dataclasses.replace(after, version=row.version + 1, updated_at_ms=max(now_ms, row.updated_at_ms))
    if confidence_given is not None:
        stamped = dataclasses.replace(stamped, confidence_given=confidence_given)
    return Change(row, stamped, outcome)


def _or(value: T | Literal[Unset.UNSET], otherwise: T) -> T:
    return otherwise if value is UNSET else value


def _unknown() -> NotFound:
    return NotFound("No memory with this id; it may have been deleted.")
