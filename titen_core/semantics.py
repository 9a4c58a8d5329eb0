"""Whether meaning can be searched now: one model, its fingerprint, and the index made with it.

A store belongs to one fingerprint (`titen_meta.fingerprint`). Vectors of another model are never
mixed in, padded or cut: a mismatch turns the vector channel off and says so.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from titen_core import limits
from titen_core.errors import IndexUnavailable, ModelAnswerInvalid, ModelError, ModelUnavailable, SqlError
from titen_core.ids import Clock
from titen_core.models import Fingerprint
from titen_core.protocols import ColocatedIndex, ModelGateway, RemoteIndex, Vector
from titen_core.sql.meta import Meta
from titen_core.sql.outbox import Outbox

__all__ = ["FINGERPRINT_KEY", "SemanticState", "SemanticStatus", "Semantics"]

FINGERPRINT_KEY = "fingerprint"

_SENTINEL = "Titen asks whether you are there."

IndexFactory = Callable[[Fingerprint], ColocatedIndex | RemoteIndex]


class SemanticStatus(StrEnum):
    """`off`: no model configured. The codes of the last two appear in `/readyz`."""

    OFF = "off"
    READY = "ready"
    UNAVAILABLE = "unavailable"
    FINGERPRINT_MISMATCH = "FINGERPRINT_MISMATCH"
    DIMENSION_MISMATCH = "EMBEDDING_DIMENSION_MISMATCH"


_MISMATCHES = frozenset((SemanticStatus.FINGERPRINT_MISMATCH, SemanticStatus.DIMENSION_MISMATCH))


@dataclass(frozen=True, slots=True)
class SemanticState:
    """What is true now; `index` and `fingerprint` are set where the model is the store's.

    They are so while the index is away too: writes keep their vectors and the overlay answers.
    """

    status: SemanticStatus
    message: str
    fingerprint: Fingerprint | None = None
    index: ColocatedIndex | RemoteIndex | None = None


class Semantics:
    """Knows the model and the index of the store, and checks that they belong together.

    The state is looked at again after PROBE_KEPT_MS, and sooner while it is not ready.
    """

    def __init__(
        self,
        meta: Meta,
        gateway: ModelGateway | None,
        index_for: IndexFactory,
        clock: Clock,
        *,
        expected_dimensions: int | None = None,
    ) -> None:
        self._meta = meta
        self.gateway = gateway
        self.index_for = index_for
        self._clock = clock
        self.expected_dimensions = expected_dimensions
        self._state: SemanticState | None = None
        self._dimensions: int | None = None
        self._seen_ms = 0
        self._probed_ms = 0
        self._mismatched = False

    async def state(self, *, patience_ms: int = limits.PROBE_DEADLINE_MS) -> SemanticState:
        """The present state. Never raises for a model or index that fails: that is a state.

        `patience_ms` bounds the wait for a model that never answered yet; housekeeping has more of it.
        """
        state = self._state
        if state is None or self._is_stale(state):
            state = await self._look(patience_ms)
            self._state, self._seen_ms = state, self._clock()
            self._mismatched = state.status in _MISMATCHES
            self._dimensions = None if state.fingerprint is None else state.fingerprint.dimensions
        return state

    async def probe(self) -> SemanticState:
        """The state after really asking the model for a vector; a good answer counts for PROBE_KEPT_MS."""
        state = await self.state()
        if state.status is not SemanticStatus.READY or not self._is_old(self._probed_ms):
            return state
        try:
            await self.embed([_SENTINEL], purpose="query", deadline_ms=limits.PROBE_DEADLINE_MS)
        except ModelAnswerInvalid:
            again = await self.state()
            unusable = SemanticState(SemanticStatus.UNAVAILABLE, "The embedder's answers cannot be used.")
            return again if again.status is not SemanticStatus.READY else unusable
        except ModelError as failure:
            return SemanticState(SemanticStatus.UNAVAILABLE, str(failure))
        self._probed_ms = self._clock()
        return state

    def forget(self) -> None:
        """Look again at the next call, after something about the index turned out wrong."""
        self._state = None

    async def embed(
        self, texts: Sequence[str], *, purpose: Literal["memory", "query"], deadline_ms: int
    ) -> list[Vector]:
        """Vectors that may be stored or searched in this store. Raises ModelError.

        An answer that cannot be used may mean another model behind the same name: the state is looked
        at again at the next call.
        """
        if self.gateway is None:
            raise ModelUnavailable("No embedder is configured.")
        try:
            vectors = await self.gateway.embed(texts, purpose=purpose, deadline_ms=deadline_ms)
            self._refuse_other_dimensions(vectors)
        except ModelAnswerInvalid:
            self.forget()
            raise
        return vectors

    def _refuse_other_dimensions(self, vectors: Sequence[Vector]) -> None:
        """A gateway that was told to forget its probe takes whatever comes; the store's index does not."""
        found = {len(vector) for vector in vectors} - {self._dimensions}
        if found and self._dimensions is not None:
            raise ModelAnswerInvalid(
                f"The embedder answered {min(found)} dimensions; the store's vectors have {self._dimensions}."
            )

    def _is_stale(self, state: SemanticState) -> bool:
        ready = state.status is SemanticStatus.READY
        return self._is_old(self._seen_ms, limits.PROBE_KEPT_MS if ready else limits.PROBE_FAILED_KEPT_MS)

    def _is_old(self, moment_ms: int, kept_ms: int = limits.PROBE_KEPT_MS) -> bool:
        return not 0 <= self._clock() - moment_ms < kept_ms

    async def _look(self, patience_ms: int) -> SemanticState:
        if self.gateway is None:
            return SemanticState(
                SemanticStatus.OFF,
                "No embedder is configured: recall is by words only. Set TITEN_EMBED to change that.",
            )
        try:
            async with asyncio.timeout(patience_ms / 1000):
                await self._let_the_model_show_itself()
                fingerprint = await self.gateway.fingerprint()
            wrong = await self._mismatch(fingerprint)
            if wrong is not None:
                return wrong
            index = self.index_for(fingerprint)
            if index.colocated:
                await Outbox(self._meta.driver).prepare(index, fingerprint, self._clock())
        except TimeoutError:
            return SemanticState(SemanticStatus.UNAVAILABLE, "The embedder did not answer in time.")
        except (ModelError, IndexUnavailable, SqlError) as failure:
            return SemanticState(SemanticStatus.UNAVAILABLE, str(failure))
        try:
            description = await index.describe()
        except (IndexUnavailable, SqlError) as failure:
            return SemanticState(SemanticStatus.UNAVAILABLE, str(failure), fingerprint, index)
        if description.dimensions not in {None, fingerprint.dimensions}:
            return _dimension_mismatch(fingerprint.dimensions, description.dimensions or 0, "the vector index has")
        return SemanticState(SemanticStatus.READY, "Recall is by meaning and by words.", fingerprint, index)

    async def _let_the_model_show_itself(self) -> None:
        """After a mismatch, have one text embedded: a gateway that meets other vectors than it knew looks again."""
        if self.gateway is None or not self._mismatched:
            return
        with contextlib.suppress(ModelError):
            await self.embed([_SENTINEL], purpose="query", deadline_ms=limits.PROBE_DEADLINE_MS)

    async def _mismatch(self, fingerprint: Fingerprint) -> SemanticState | None:
        if self.expected_dimensions not in {None, fingerprint.dimensions}:
            return _dimension_mismatch(
                fingerprint.dimensions, self.expected_dimensions or 0, "TITEN_EMBED_DIMS expects"
            )
        stored = await self._meta.get(FINGERPRINT_KEY)
        if stored is None:  # looked up first, since every batch waits for the writer
            stored = await self._meta.put_if_absent(FINGERPRINT_KEY, str(fingerprint))
        if stored == str(fingerprint):
            return None
        stored_dimensions = _dimensions(stored)
        if stored_dimensions != fingerprint.dimensions:
            return _dimension_mismatch(fingerprint.dimensions, stored_dimensions, "the store's vectors have")
        return SemanticState(
            SemanticStatus.FINGERPRINT_MISMATCH,
            f"The store's vectors were made by {stored}, the configured embedder is {fingerprint}."
            " Configure the former again, or run `titen reindex` to move to the latter.",
        )


def _dimension_mismatch(found: int, expected: int, what: str) -> SemanticState:
    return SemanticState(
        SemanticStatus.DIMENSION_MISMATCH,
        f"The configured embedder returns {found} dimensions; {what} {expected}."
        " Configure a matching model, or run `titen reindex` to move the store to the new one.",
    )


def _dimensions(fingerprint: str) -> int:
    """The dimensions named in a written fingerprint (`provider:model:dimensions:metric:normalisation`)."""
    return int(fingerprint.rsplit(":", 3)[1])
