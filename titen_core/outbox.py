"""Draining the outbox: give every memory its vector, later if not at once.

One `drain` serves start-up, timer, cron, repair and the write path. It is idempotent, leases what
it works on, and never lets one bad text hold up the others.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from titen_core import limits
from titen_core.delivery import confirm, deliver, withdraw
from titen_core.errors import ModelError, ModelUnavailable
from titen_core.kernel import Kernel
from titen_core.models import Access
from titen_core.protocols import Vector
from titen_core.semantics import SemanticStatus
from titen_core.sql.outbox import Postponed, Work

__all__ = ["Drained", "Repaired", "backoff_ms", "drain", "embed_each", "repair"]


@dataclass(frozen=True, slots=True)
class Drained:
    """What one drain did. `more`: another one now would find work."""

    completed: int
    postponed: int
    more: bool


_NOTHING = Drained(0, 0, more=False)


async def drain(kernel: Kernel, limit: int = limits.DRAIN_ITEMS) -> Drained:
    """Bring up to `limit` due rows to the index. Safe to run twice at once; SqlErrors pass through."""
    state = await kernel.semantics.state(patience_ms=limits.EMBED_DRAIN_DEADLINE_MS)
    if state.status is not SemanticStatus.READY or state.fingerprint is None or state.index is None:
        return _NOTHING
    lease = kernel.new_id()
    work = await kernel.store.outbox.claim(lease, state.fingerprint, limit=limit, now_ms=kernel.clock())
    if not work:
        return _NOTHING
    await withdraw(kernel, [item for item in work if item.memory is None], lease, state.index)
    live = [item for item in work if item.memory is not None]
    fresh = [item for item in live if state.index.colocated or item.sent_at_ms is None]
    confirmed = 0
    if not state.index.colocated:
        sent = [item for item in live if item.sent_at_ms is not None]
        confirmed = await confirm(kernel, sent, lease, state.fingerprint, state.index)
    results = await _vectors(kernel, fresh)
    made = [(item, made) for item, made in zip(fresh, results, strict=True) if not isinstance(made, ModelError)]
    delivered = await deliver(kernel, made, lease, state.fingerprint, state.index)
    await _postpone(kernel, lease, fresh, results)
    completed = confirmed + delivered
    return Drained(completed, len(live) - completed, more=len(work) == limit and completed > 0)


async def _vectors(kernel: Kernel, work: Sequence[Work]) -> list[Vector | ModelError]:
    """A vector or a failure for each; canonical vectors are used again, not made again."""
    missing = {item.seq: item.memory.content for item in work if item.vector is None and item.memory is not None}
    made = dict(zip(missing, await embed_each(kernel, list(missing.values())), strict=True))
    return [made[item.seq] if item.vector is None else item.vector for item in work]


async def embed_each(kernel: Kernel, texts: Sequence[str]) -> list[Vector | ModelError]:
    """Embed one batch of contents, halving it after a refusal until the one bad text stands alone.

    A provider that is down or throttles fails all of them at once, without trying each.
    """
    if not texts:
        return []
    try:
        return list(await kernel.semantics.embed(texts, purpose="memory", deadline_ms=limits.EMBED_DRAIN_DEADLINE_MS))
    except ModelUnavailable as failure:
        return [failure] * len(texts)
    except ModelError as failure:
        if len(texts) == 1:
            return [failure]
    half = len(texts) // 2
    first = await embed_each(kernel, texts[:half])
    if first and isinstance(first[-1], ModelUnavailable):
        return [*first, *[first[-1]] * (len(texts) - half)]
    return [*first, *await embed_each(kernel, texts[half:])]


async def _postpone(kernel: Kernel, lease: str, work: Sequence[Work], results: Sequence[Vector | ModelError]) -> None:
    """Put failures back: an outage costs no attempt, a refused text does."""
    postponed = []
    for item, result in zip(work, results, strict=True):
        if isinstance(result, ModelUnavailable):
            wait_ms = result.retry_after_ms if result.retry_after_ms is not None else _outage_wait_ms(kernel, item)
            counted = False
        elif isinstance(result, ModelError):
            wait_ms, counted = backoff_ms(item.attempts), True
        else:
            continue
        until_ms = kernel.clock() + min(wait_ms, limits.OUTBOX_BACKOFF_MAX_MS)
        postponed.append(Postponed(item, until_ms, type(result).__name__, counted))
    await kernel.store.outbox.postpone(postponed, lease)


def _outage_wait_ms(kernel: Kernel, item: Work) -> int:
    """The longer the model has been away, the more rarely it is asked."""
    waited_ms = max(0, kernel.clock() - item.since_ms)
    return min(max(waited_ms // limits.OUTAGE_WAIT_SHARE, limits.OUTBOX_BACKOFF_MIN_MS), limits.OUTAGE_WAIT_MAX_MS)


def backoff_ms(attempts: int) -> int:
    """Bounded exponential backoff with full jitter (Brooker, "Exponential Backoff and Jitter", AWS 2015).

    Between half and all of OUTBOX_BACKOFF_MIN_MS doubled by each attempt, at most OUTBOX_BACKOFF_MAX_MS.
    """
    ceiling = min(limits.OUTBOX_BACKOFF_MIN_MS * 2 ** min(attempts, 30), limits.OUTBOX_BACKOFF_MAX_MS)
    return random.randint(ceiling // 2, ceiling)  # noqa: S311 - spreading load, not a secret


@dataclass(frozen=True, slots=True)
class Repaired:
    """What a repair queued again and did at once, and what is left of the work the caller may see."""

    requeued: int
    completed: int
    postponed: int
    pending: int
    failed: int


async def repair(kernel: Kernel, access: Access) -> Repaired:
    """Make given-up work that the caller may see due again and drain a first bounded part of what is due."""
    requeued = await kernel.store.outbox.requeue(access, kernel.clock())
    drained = await drain(kernel)
    left = await kernel.store.outbox.counts(access)
    kernel.wake()
    return Repaired(requeued, drained.completed, drained.postponed, left.pending, left.failed)
