"""Recall: search by meaning and by words, fuse, and show only what SQL still vouches for.

One embedding, one vector query, one text query and one hydration, with one refill of a channel that
came back short. A channel that fails is named in the answer and the other one carries it.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from titen_core import limits
from titen_core.errors import IndexUnavailable, ModelError, SqlBusy, SqlError
from titen_core.kernel import Kernel
from titen_core.models import Access, ChannelState, Filters, Memory, Scope
from titen_core.protocols import Statement, Vector, VectorHit
from titen_core.ranking import Score, fuse, similar_to
from titen_core.semantics import SemanticStatus
from titen_core.sql.memories import Hydrated
from titen_core.sql.overlay import overlay_rows, overlay_statement
from titen_core.sql.text_index import TextAnswer, TextHit
from titen_core.text import QueryTerm, query_terms
from titen_core.trace import current_trace, measured

__all__ = ["Channels", "Found", "Recalled", "recall"]


@dataclass(frozen=True, slots=True)
class Channels:
    """How each channel answered."""

    vector: ChannelState
    text: ChannelState
    overlay: ChannelState


@dataclass(frozen=True, slots=True)
class Found:
    """One memory with its score."""

    memory: Memory
    score: Score


@dataclass(frozen=True, slots=True)
class Recalled:
    """Best first, at most the limit asked for."""

    items: tuple[Found, ...]
    channels: Channels


@dataclass(frozen=True, slots=True)
class _Question:
    access: Access
    scope: Scope
    filters: Filters
    query: str
    now_ms: int
    wanted: int


async def recall(kernel: Kernel, access: Access, scope: Scope, filters: Filters, *, query: str, limit: int) -> Recalled:
    """The `limit` memories that answer `query` best, under access, scope and filters.

    Never raises for a model or index that fails; SqlErrors of the canonical tables pass through.
    """
    wanted = min(limit * limits.CHANNEL_CANDIDATES_FACTOR, limits.CHANNEL_CANDIDATES_MAX)
    question = _Question(access, scope, filters, query, kernel.clock(), wanted)
    meaning, words = await asyncio.gather(_by_meaning(kernel, question), _by_words(kernel, question))
    by_meaning = meaning.state in {ChannelState.OK, ChannelState.PARTIAL}
    text_hits = _past_the_gate(words) if by_meaning else words.hits
    fresh = similar_to(meaning.query, words.fresh, wanted) if meaning.query is not None else []
    seqs = {hit.seq for hit in meaning.hits} | {hit.seq for hit in text_hits} | {seq for seq, _ in fresh}
    rows = await kernel.store.memories.hydrate(access, scope, filters, sorted(seqs), question.now_ms)
    vector_hits = [hit for hit in meaning.hits if _is_current(hit, rows.get(hit.seq))]
    similarity = {hit.seq: hit.similarity for hit in vector_hits} | dict(fresh)
    ranked = fuse(
        [hit.seq for hit in vector_hits], [hit.seq for hit in text_hits], [seq for seq, _ in fresh], similarity
    )
    current_trace().counts.update(candidates=len(seqs), fresh=len(words.fresh))
    shown = [row for row in ranked if row.seq in rows][:limit]
    items = tuple(Found(rows[row.seq].memory(), row.score) for row in shown)
    overlay = words.overlay if meaning.query is not None else ChannelState.OFF
    return Recalled(items, Channels(meaning.state, words.state, overlay))


@dataclass(frozen=True, slots=True)
class _Meaning:
    """The vector channel's part; `query` is the question's vector, for the overlay."""

    state: ChannelState
    hits: Sequence[VectorHit] = ()
    query: Vector | None = None


@dataclass(frozen=True, slots=True)
class _Words:
    """The text channel's part, and the fresh rows that came in the same round trip.

    `least` is the weight the coverage gate asks for, `exact` the bits of the query's identifiers.
    """

    state: ChannelState
    overlay: ChannelState
    hits: Sequence[TextHit] = ()
    least: float = 0.0
    exact: int = 0
    fresh: Sequence[tuple[int, str]] = ()


async def _by_meaning(kernel: Kernel, question: _Question) -> _Meaning:
    state = await kernel.semantics.state()
    if state.status is SemanticStatus.OFF:
        return _Meaning(ChannelState.OFF)
    if state.index is None:
        return _Meaning(ChannelState.DEGRADED)
    try:
        vectors = await kernel.semantics.embed(
            [question.query], purpose="query", deadline_ms=kernel.deadlines.embed_read_ms
        )
    except ModelError:
        return _Meaning(ChannelState.DEGRADED)
    try:
        with measured("vector"):
            answer = await state.index.search(
                question.access, question.scope, question.filters, vectors[0], question.wanted, question.now_ms
            )
    except (IndexUnavailable, SqlError):
        kernel.semantics.forget()
        return _Meaning(ChannelState.DEGRADED, query=vectors[0])
    return _Meaning(ChannelState.PARTIAL if answer.partial else ChannelState.OK, answer.hits, vectors[0])


async def _by_words(kernel: Kernel, question: _Question) -> _Words:
    terms = query_terms(question.query)
    fresh = await _fresh_rows(kernel, question)
    overlay = ChannelState.OFF if fresh is None else ChannelState.OK
    try:
        answer, rows = await kernel.store.text.search_with(
            fresh, question.access, question.scope, question.filters, terms, question.wanted, question.now_ms
        )
    except SqlBusy:
        raise
    except SqlError:
        kernel.wake()
        alone = [] if fresh is None else await kernel.store.driver.query(fresh)
        return _Words(ChannelState.DEGRADED, overlay, fresh=overlay_rows(alone))
    return _Words(ChannelState.OK, overlay, answer.hits, _least(answer), _exact(terms), overlay_rows(rows))


async def _fresh_rows(kernel: Kernel, question: _Question) -> Statement | None:
    """The overlay's statement, where the index shows writes later than it accepts them."""
    state = await kernel.semantics.state()
    if state.index is None or state.index.colocated or state.fingerprint is None:
        return None
    return overlay_statement(question.access, question.scope, question.filters, state.fingerprint, question.now_ms)


def _past_the_gate(words: _Words) -> list[TextHit]:
    """Hits that hold enough of the query to be worth a rank beside the vector channel's.

    A word or two of a sentence make a weak hit that would push down a strong semantic one. An
    identifier counts whatever its share is. Where no vector answers, there is nothing to push down.
    """
    return [hit for hit in words.hits if hit.weight >= words.least or hit.bits & words.exact]


def _least(answer: TextAnswer) -> float:
    return answer.total_weight * limits.COVERAGE_GATE


def _exact(terms: Sequence[QueryTerm]) -> int:
    return sum(1 << bit for bit, term in enumerate(terms) if term.exact)


def _is_current(hit: VectorHit, row: Hydrated | None) -> bool:
    """A vector of an earlier content, or of a row the caller may not see, is evidence of nothing."""
    return row is not None and hit.content_version in {None, row.content_version}
