"""Workers AI as a `ModelGateway`: bge-m3 behind the Worker's own binding, no key and no HTTP client."""

import asyncio
import dataclasses
import re
from collections.abc import Sequence
from typing import Any, Final, Literal

from adapters.cloudflare.bindings import AiBinding, BindingError
from adapters.vectors import normalised
from titen_core.errors import ModelAnswerInvalid, ModelError, ModelRejected, ModelUnavailable
from titen_core.limits import EMBED_BATCH_TEXTS, PROBE_DEADLINE_MS
from titen_core.models import Fingerprint
from titen_core.protocols import Vector

__all__ = ["BGE_M3", "WorkersAIGateway"]

BGE_M3: Final = "@cf/baai/bge-m3"
DIMENSIONS: Final = 1024
PROBE_TEXT: Final = "Titen remembers."

_NUMBERS: Final = frozenset({float, int})  # and no bool, which is an int by inheritance

_REFUSED: Final = re.compile(r"\b(3003|3006|3030|50(0[4-6]|1[0-9]))\b")
"""Codes that blame the input: bad input, payload too large, input too long (Workers AI, "Errors")."""


class WorkersAIGateway:
    """A `ModelGateway` over the AI binding. The model's dimensions are known, so nothing is probed.

    Only an answer of other dimensions casts doubt: it is refused, and the fingerprint is probed until it
    is the known one again, so that readiness names the mismatch and its end.
    """

    def __init__(self, models: AiBinding, model: str = BGE_M3, dimensions: int = DIMENSIONS) -> None:
        self._models = models
        self._known = Fingerprint(provider="workers-ai", model=model, dimensions=dimensions)
        self._in_doubt = False

    async def fingerprint(self) -> Fingerprint:
        if not self._in_doubt:
            return self._known
        vectors = await self._answered([PROBE_TEXT], PROBE_DEADLINE_MS)
        found = dataclasses.replace(self._known, dimensions=len(vectors[0]))
        self._in_doubt = found != self._known
        return found

    async def embed(
        self, texts: Sequence[str], *, purpose: Literal["memory", "query"], deadline_ms: int
    ) -> list[Vector]:
        """One vector per text; `purpose` is not sent, since bge-m3 treats both alike."""
        del purpose
        if not texts:
            return []
        if len(texts) > EMBED_BATCH_TEXTS:
            raise ModelRejected(f"A call takes at most {EMBED_BATCH_TEXTS} texts.")
        vectors = await self._answered(texts, deadline_ms)
        if any(len(vector) != self._known.dimensions for vector in vectors):
            self._in_doubt = True
            raise ModelAnswerInvalid(f"Workers AI answered other dimensions than {self._known.dimensions}.")
        return vectors

    async def close(self) -> None:
        """Nothing is held open."""

    async def _answered(self, texts: Sequence[str], deadline_ms: int) -> list[Vector]:
        try:
            async with asyncio.timeout(deadline_ms / 1000):
                answer = await self._models.run(self._known.model, {"text": list(texts)})
        except TimeoutError:
            raise ModelUnavailable(f"Workers AI did not answer within {deadline_ms} ms.") from None
        except BindingError as failure:
            raise _model_error(str(failure)) from None
        return _vectors(answer, len(texts))


def _vectors(answer: Any, count: int) -> list[Vector]:
    rows = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(rows, list):
        raise ModelAnswerInvalid("Workers AI answered without a list `data`.")
    if len(rows) != count:
        raise ModelAnswerInvalid(f"Workers AI answered {len(rows)} vectors for {count} texts.")
    return [_vector(row) for row in rows]


def _vector(row: Any) -> Vector:
    if not isinstance(row, list) or not _NUMBERS.issuperset(map(type, row)):
        raise ModelAnswerInvalid("Workers AI answered a vector with null or a value that is no number.")
    return normalised(row)


def _model_error(text: str) -> ModelError:
    """Refused input is worth a smaller batch; anything else (capacity, quota, network) is worth a wait."""
    if _REFUSED.search(text):
        return ModelRejected("Workers AI refused the texts.")
    return ModelUnavailable("Workers AI is busy, down, or out of its daily allocation.")
