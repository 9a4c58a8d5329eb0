"""Reindex: move the store to the configured embedder, or put its index together again.

The new model's vectors are made beside the old ones, which go on serving; then one batch switches.
A run that was killed is simply run again: what has its vector is not embedded twice.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from titen_core import limits
from titen_core.errors import ModelError, ModelUnavailable, NotReady
from titen_core.kernel import Kernel
from titen_core.models import Fingerprint
from titen_core.outbox import backoff_ms, embed_each
from titen_core.protocols import ColocatedIndex, RemoteIndex, Vector
from titen_core.semantics import FINGERPRINT_KEY
from titen_core.sql.reindex import Reindex, Source

__all__ = ["ReindexReport", "reindex"]

Progress = Callable[[int, int], None]
"""Told how many live memories have their vector, and how many there are."""


@dataclass(frozen=True, slots=True)
class ReindexReport:
    """What a reindex did. `before` and `after` are fingerprints; equal ones mean the index was rebuilt.

    `refused` are ids of memories whose text the model would not take: the outbox tries them again.
    """

    before: str | None
    after: str
    embedded: int
    reused: int
    refused: tuple[str, ...]


async def reindex(
    kernel: Kernel, progress: Progress, *, attempts: int = limits.REINDEX_ATTEMPTS
) -> ReindexReport | None:
    """Bring every memory of the store into the index of the configured embedder; None if there is none to make.

    Where the store has that embedder's vectors already (or none is configured), the index is rebuilt
    from them with no model call. Otherwise each text is embedded, and the store switches at the end.
    Raises NotReady when the embedder does not answer, after `attempts`: run it again to go on.
    """
    before = await kernel.store.meta.get(FINGERPRINT_KEY)
    target = await _target(kernel, before)
    if target is None:
        return None
    await _destroy_retired(kernel, target)
    index = kernel.semantics.index_for(target)
    if index.colocated:
        await kernel.store.outbox.prepare(index, target, kernel.clock())
    run = _Run(kernel, target, index, progress, attempts)
    await run.count()
    if before == str(target):
        await run.rebuild()
    else:
        await run.embed_all()
    await Reindex(kernel.store.driver).settle(target, index, kernel.clock())
    kernel.semantics.forget()
    kernel.wake()
    await _empty_others(kernel, target)
    await _destroy_retired(kernel, target)
    return ReindexReport(before, str(target), run.embedded, run.reused, tuple(run.refused))


async def _target(kernel: Kernel, before: str | None) -> Fingerprint | None:
    """The configured embedder's fingerprint; without an embedder, the store's own."""
    if kernel.semantics.gateway is None:
        return None if before is None else Fingerprint.parse(before)
    try:
        async with asyncio.timeout(limits.EMBED_DRAIN_DEADLINE_MS / 1000):
            target = await kernel.semantics.gateway.fingerprint()
    except (ModelError, TimeoutError) as failure:
        raise NotReady(f"The embedder does not answer; start it and run reindex again. {failure}".strip()) from None
    expected = kernel.semantics.expected_dimensions
    if expected not in {None, target.dimensions}:
        raise NotReady(
            f"The embedder returns {target.dimensions} dimensions, TITEN_EMBED_DIMS expects {expected}; correct one."
        )
    return target


class _Run:
    """One pass over the live rows, in order of `seq`."""

    def __init__(
        self,
        kernel: Kernel,
        target: Fingerprint,
        index: ColocatedIndex | RemoteIndex,
        progress: Progress,
        attempts: int,
    ) -> None:
        self._kernel = kernel
        self._store = Reindex(kernel.store.driver)
        self._target = target
        self._index = index
        self._progress = progress
        self._attempts = attempts
        self._total = 0
        self._done = 0
        self.embedded = 0
        self.reused = 0
        self.refused: list[str] = []

    async def count(self) -> None:
        self._total, self.reused = await self._store.count(self._target)

    async def rebuild(self) -> None:
        """Put every vector that is kept into the index again."""
        self._tell(0)
        seq = 0
        while sources := await self._store.sources(self._target, seq, vectored=True):
            kept = [(source, source.vector) for source in sources if source.vector is not None]
            await self._store.store(self._target, self._index, kept)
            seq = sources[-1].seq
            self._tell(len(sources))

    async def embed_all(self) -> None:
        """Make the vectors that are missing. One text that is refused holds up no other."""
        self._tell(self.reused)
        seq = 0
        while sources := await self._store.sources(self._target, seq, vectored=False):
            results = await self._embed(sources)
            made = [(s, r) for s, r in zip(sources, results, strict=True) if not isinstance(r, ModelError)]
            self.refused += [s.memory_id for s, r in zip(sources, results, strict=True) if isinstance(r, ModelError)]
            await self._store.store(self._target, self._index, made)
            self.embedded += len(made)
            seq = sources[-1].seq
            self._tell(len(sources))

    async def _embed(self, sources: Sequence[Source]) -> list[Vector | ModelError]:
        for attempt in range(self._attempts):
            results = await embed_each(self._kernel, [source.content for source in sources])
            outage = next((result for result in results if isinstance(result, ModelUnavailable)), None)
            if outage is None:
                return results
            if attempt + 1 < self._attempts:
                wait_ms = outage.retry_after_ms or backoff_ms(attempt)
                await asyncio.sleep(min(wait_ms, limits.OUTBOX_BACKOFF_MAX_MS) / 1000)
        raise NotReady("The embedder stopped answering; what was done is kept, run reindex again to go on.")

    def _tell(self, more: int) -> None:
        """Rows written meanwhile are on top of the first count."""
        self._done += more
        self._total = max(self._total, self._done)
        self._progress(self._done, self._total)


async def _empty_others(kernel: Kernel, target: Fingerprint) -> None:
    """Remove the vectors of models the store has left, in steps.

    Their tables stay, empty, while a server may still believe in them and write; see `_destroy_retired`.
    """
    for other in await Reindex(kernel.store.driver).others(target):
        index = kernel.semantics.index_for(other)
        if index.colocated:
            await index.prepare()
        seq: int | None = 0
        while seq is not None:
            seq = await Reindex(kernel.store.driver).drop_step(other, index, seq)


async def _destroy_retired(kernel: Kernel, target: Fingerprint) -> None:
    """Remove the empty tables of indexes that every server has noticed to be retired."""
    for retired in await Reindex(kernel.store.driver).retired(kernel.clock() - limits.PROBE_KEPT_MS):
        if retired != target:
            await Reindex(kernel.store.driver).destroy(retired, kernel.semantics.index_for(retired))
