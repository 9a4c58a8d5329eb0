"""Extraction: what may be a source, one call of the model, what its answer is worth, one atomic batch.

The conversation itself is kept nowhere and logged nowhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from titen_core import limits
from titen_core.errors import ExtractionFailed, ExtractionUnavailable, ModelError, ModelUnavailable, SqlConstraint
from titen_core.extraction.answers import Unreadable, read_answer
from titen_core.extraction.judging import Refused, ToDraft, judged
from titen_core.extraction.prompt import ANSWER_SCHEMA, INSTRUCTIONS, conversation
from titen_core.extraction.turns import Turn, spoken
from titen_core.kernel import Kernel
from titen_core.models import Access, Draft, Written
from titen_core.protocols import ChatAnswer, ChatUsage
from titen_core.remember import remember_all, replay
from titen_core.sql.idempotency import Ticket, part
from titen_core.trace import measured

__all__ = ["Extraction", "extract"]


@dataclass(frozen=True, slots=True)
class Extraction:
    """What became of a conversation. `usage` is None where the model was not asked, or did not say."""

    written: tuple[Written, ...]
    refused: tuple[Refused, ...] = ()
    usage: ChatUsage | None = None


async def extract(
    kernel: Kernel, access: Access, turns: Sequence[Turn], to_draft: ToDraft, ticket: Ticket | None = None
) -> Extraction:
    """Store what is worth keeping of the conversation; nothing worth keeping is a success.

    `to_draft` makes a draft of content, kind, category and tags.

    All that is stored is stored in one batch. A repeated request under one ticket answers what the first
    one stored, without asking the model again. Raises ExtractionUnavailable without a chat model,
    ExtractionFailed when it fails or answers junk, and IdempotencyConflict; nothing is stored then.
    """
    done = await _replayed(kernel, access, ticket)
    if done:
        return Extraction(tuple(done))
    sources = spoken(turns)
    answer = await _asked(kernel, sources)
    if answer is None:
        return Extraction(())
    try:
        items = read_answer(answer.text)
    except Unreadable:
        raise ExtractionFailed("The chat model's answer holds no list of memories; nothing was stored.") from None
    drafts, refused = judged(items, sources, to_draft)
    written = await _stored(kernel, access, drafts, ticket) if drafts else []
    return Extraction(tuple(written), tuple(refused), answer.usage)


async def _stored(kernel: Kernel, access: Access, drafts: Sequence[Draft], ticket: Ticket | None) -> list[Written]:
    try:
        return await remember_all(kernel, access, drafts, ticket)
    except SqlConstraint:  # the same request was faster
        done = await _replayed(kernel, access, ticket)
        if not done:
            raise
        return done


async def _replayed(kernel: Kernel, access: Access, ticket: Ticket | None) -> list[Written]:
    """What the first request under this ticket stored. It noted each memory under a part of the ticket."""
    found: list[Written] = []
    for position in range(limits.EXTRACTED_COUNT if ticket is not None else 0):
        done = await replay(kernel, access, part(ticket, position))
        if done is None:
            break
        found.append(done)
    return found


async def _asked(kernel: Kernel, sources: Sequence[Turn]) -> ChatAnswer | None:
    """The model's answer; None where nothing was said that it could be asked about."""
    if kernel.chat is None:
        raise ExtractionUnavailable(
            "No chat model is configured: set TITEN_CHAT_MODEL (and TITEN_CHAT_BASE_URL on your own machine), "
            "or send content instead of messages."
        )
    if not sources:
        return None
    try:
        with measured("chat"):
            return await kernel.chat.complete(
                instructions=INSTRUCTIONS,
                question=conversation(sources, kernel.clock()),
                schema=ANSWER_SCHEMA,
                deadline_ms=kernel.deadlines.chat_ms,
            )
    except ModelError as failure:
        wait_ms = failure.retry_after_ms if isinstance(failure, ModelUnavailable) else None
        raise ExtractionFailed(
            f"{failure} Nothing was stored; send content to store a memory without it.",
            retry_after_s=None if wait_ms is None else -(-wait_ms // 1000),
        ) from None
