"""Remember: embed, then write row, terms, event, vector and outbox in one atomic batch.

The embedder may be down or slow: the memory is stored all the same and gets its vector later.
"""

import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from titen_core.content import canonical_json
from titen_core.errors import IdempotencyConflict, ModelError, SqlConstraint, SqlCorrupt, SqlMissing
from titen_core.kernel import Kernel
from titen_core.models import UNSET, Access, Draft, Memory, Outcome, Written
from titen_core.protocols import Statement, Vector
from titen_core.semantics import SemanticState, SemanticStatus
from titen_core.sql.fragments import Fragment
from titen_core.sql.idempotency import Ticket, part, record
from titen_core.sql.memories import Entry, draft_identity
from titen_core.sql.vectors import attach_vector, enqueue

__all__ = [
    "embed_for_write",
    "remember",
    "remember_all",
    "replay",
    "vector_statements",
    "wake_for",
    "write_past_a_broken_index",
]

T = TypeVar("T")


async def remember(kernel: Kernel, access: Access, draft: Draft, ticket: Ticket | None = None) -> Written:
    """Store the draft, or update, restore or leave unchanged what holds its identity.

    Answers after the batch is durable. Raises IdempotencyConflict; the driver's SqlErrors pass through.
    """
    done = await replay(kernel, access, ticket)
    if done is not None:
        return done
    standing = await kernel.store.memories.find(access, draft_identity(draft))
    if standing is not None and ticket is None and _says_nothing_new(draft, standing, kernel.clock()):
        return Written(Outcome.UNCHANGED, standing)
    state, vector = await _vector_for(kernel, draft, standing)
    try:
        return (await _written(kernel, access, [draft], [vector], state, ticket))[0]
    except SqlConstraint:
        done = await replay(kernel, access, ticket)
        if done is None:
            raise
        return done


async def remember_all(
    kernel: Kernel, access: Access, drafts: Sequence[Draft], ticket: Ticket | None = None
) -> list[Written]:
    """Store several drafts in one atomic batch, embedded by one call; each as `remember` does.

    The outcome of each is noted under a part of the ticket. Raises SqlConstraint when another request
    under the same ticket was faster; the driver's other SqlErrors pass through.
    """
    state, vectors = await embed_for_write(kernel, [draft.content for draft in drafts])
    return await _written(kernel, access, drafts, vectors, state, ticket)


async def _written(
    kernel: Kernel,
    access: Access,
    drafts: Sequence[Draft],
    vectors: Sequence[Vector | None],
    state: SemanticState,
    ticket: Ticket | None,
) -> list[Written]:
    now_ms = kernel.clock()

    def entry(position: int, state: SemanticState) -> Entry:
        draft, vector, op = drafts[position], vectors[position], kernel.new_id()
        holds = Fragment("m.tenant_id = ? AND m.identity = ?", (access.tenant_id, draft_identity(draft)))

        def extra(mine: Fragment) -> list[Statement]:
            noted = record(access, part(ticket, position), holds, op, None, now_ms)
            return [*vector_statements(state, vector, mine, now_ms), *noted]

        return Entry(draft, kernel.new_id(), op, extra)

    async def write(state: SemanticState) -> list[Written]:
        entries = [entry(position, state) for position in range(len(drafts))]
        return await kernel.store.memories.remember(access, entries, now_ms)

    written = await write_past_a_broken_index(kernel, state, write)
    wake_for(kernel, state, written)
    return written


async def replay(kernel: Kernel, access: Access, ticket: Ticket | None) -> Written | None:
    """What an earlier request under this ticket did, its record as it stands now. None if there was none.

    Raises IdempotencyConflict when the key was used for another request.
    """
    done = await kernel.store.idempotency.find(access, ticket, kernel.clock()) if ticket else None
    if done is None or ticket is None:
        return None
    if done.request_hash != ticket.request_hash:
        raise IdempotencyConflict(
            "This Idempotency-Key was used for another request in the last 24 hours; send a new key."
        )
    row = await kernel.store.memories.get(access, done.memory_id, deleted=True)
    if row is None:
        return None
    shown = row if row.deleted_at_ms is None else dataclasses.replace(row, content="")
    return Written(done.outcome, dataclasses.replace(shown, version=done.version))


async def embed_for_write(kernel: Kernel, texts: Sequence[str]) -> tuple[SemanticState, Sequence[Vector | None]]:
    """The state of the index and a vector to store with each row, or None to leave it to the outbox."""
    later: list[Vector | None] = [None] * len(texts)
    state = await kernel.semantics.state()
    if state.index is None:
        return state, later
    try:
        return state, await kernel.semantics.embed(texts, purpose="memory", deadline_ms=kernel.deadlines.embed_write_ms)
    except ModelError:
        kernel.wake()
        return state, later


def vector_statements(state: SemanticState, vector: Vector | None, mine: Fragment, now_ms: int) -> list[Statement]:
    """What the batch adds for the index: a vector at hand, and word to a remote index of any change."""
    if state.fingerprint is None or state.index is None:
        return []
    attached = [] if vector is None else attach_vector(mine, vector, state.fingerprint, state.index)
    return attached if state.index.colocated else [*attached, enqueue(mine, now_ms)]


def wake_for(kernel: Kernel, state: SemanticState, written: Sequence[Written]) -> None:
    """A remote index has yet to be told of a change; a colocated one was told in the batch."""
    changed = any(one.outcome is not Outcome.UNCHANGED for one in written)
    if changed and state.index is not None and not state.index.colocated:
        kernel.wake()


async def write_past_a_broken_index(
    kernel: Kernel, state: SemanticState, write: Callable[[SemanticState], Awaitable[T]]
) -> T:
    """Write with the index's statements in the batch; if a table of it is lost, without them.

    The canonical row never depends on the index: it is written all the same and the outbox, or the
    rebuilding of the index, brings the vector later. SqlErrors of other tables pass through.
    """
    try:
        return await write(state)
    except (SqlMissing, SqlCorrupt):
        if state.index is None:
            raise
        kernel.semantics.forget()
        kernel.wake()
        return await write(SemanticState(SemanticStatus.UNAVAILABLE, "The index is being rebuilt."))


async def _vector_for(kernel: Kernel, draft: Draft, standing: Memory | None) -> tuple[SemanticState, Vector | None]:
    if standing is not None and standing.content == draft.content and not _is_gone(standing, kernel.clock()):
        return await kernel.semantics.state(), None
    state, vectors = await embed_for_write(kernel, [draft.content])
    return state, vectors[0]


def _says_nothing_new(draft: Draft, standing: Memory, now_ms: int) -> bool:
    """Whether every given field already holds; a fast path, since the batch decides the same."""
    names = [field.name for field in dataclasses.fields(draft)]
    return (
        not _is_gone(standing, now_ms)
        and all(getattr(draft, name) is UNSET or getattr(draft, name) == getattr(standing, name) for name in names)
        # As JSON, since Python calls 1, 1.0 and True equal.
        and (draft.metadata is UNSET or canonical_json(draft.metadata) == canonical_json(standing.metadata))
    )


def _is_gone(standing: Memory, now_ms: int) -> bool:
    """Deleted or expired: writing it again restores it, and its vector with it."""
    expired = standing.expires_at_ms is not None and standing.expires_at_ms <= now_ms
    return expired or standing.deleted_at_ms is not None
