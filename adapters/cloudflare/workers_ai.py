"""Workers AI as a `ModelGateway`: bge-m3 behind the Worker's own binding, no key and no HTTP client."""

import asyncio
import re
from collections.abc import Sequence
from typing import Any, Final, Literal

from adapters.cloudflare.bindings import AiBinding, BindingError
from adapters.vectors import normalised
from titen_core.errors import ModelAnswerInvalid, ModelError, ModelRejected, ModelUnavailable
from titen_core.limits import EMBED_BATCH_TEXTS
from titen_core.models import Fingerprint
from titen_core.protocols import Vector

__all__ = ["BGE_M3", "WorkersAIGateway"]

BGE_M3: Final = "@cf/baai/bge-m3"
DIMENSIONS: Final = 1024

_REFUSED: Final = re.compile(r"\b(3003|3006|3030|50(0[4-6]|1[0-9]))\b")
"""Codes that blame the input: bad input, payload too large, input too long (Workers AI, "Errors")."""


class WorkersAIGateway:
    """A `ModelGateway` over the AI binding. The model's dimensions are known, so nothing is probed.

    An answer of other dimensions is refused once and remembered: the fingerprint then says what the
    model has become, and readiness names the mismatch.
    """

    def __init__(self, models: AiBinding, model: str = BGE_M3, dimensions: int = DIMENSIONS) -> None:
        self._models = models
        self._model = model
        self._dimensions = dimensions

    async def fingerprint(self) -> Fingerprint:
        return Fingerprint(provider="workers-ai", model=self._model, dimensions=self._dimensions)

    async def embed(
        self, texts: Sequence[str], *, purpose: Literal["memory", "query"], deadline_ms: int
    ) -> list[Vector]:
        """One vector per text; `purpose` is not sent, since bge-m3 treats both alike."""
        del purpose
        if not texts:
            return []
        if len(texts) > EMBED_BATCH_TEXTS:
            raise ModelRejected(f"A call takes at most {EMBED_BATCH_TEXTS} texts.")
        try:
            async with asyncio.timeout(deadline_ms / 1000):
                answer = await self._models.run(self._model, {"text": list(texts)})
        except TimeoutError:
            raise ModelUnavailable(f"Workers AI did not answer within {deadline_ms} ms.") from None
        except BindingError as failure:
            raise _model_error(str(failure)) from None
        return self._vectors(answer, len(texts))

    async def close(self) -> None:
        """Nothing is held open."""

    def _vectors(self, answer: Any, count: int) -> list[Vector]:
        rows = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(rows, list):
            raise ModelAnswerInvalid("Workers AI answered without a list `data`.")
        if len(rows) != count:
            raise ModelAnswerInvalid(f"Workers AI answered {len(rows)} vectors for {count} texts.")
        vectors = [_vector(row) for row in rows]
        self._check_dimensions({len(vector) for vector in vectors})
        return vectors

    def _check_dimensions(self, found: set[int]) -> None:
        expected = self._dimensions
        if found == {expected}:
            return
        if len(found) == 1:
            self._dimensions = found.pop()
        raise ModelAnswerInvalid(f"Workers AI answered other dimensions than {expected}.")


def _vector(row: Any) -> Vector:
    if not isinstance(row, list) or not all(type(value) is float or type(value) is int for value in row):
        raise ModelAnswerInvalid("Workers AI answered a vector with null or a value that is no number.")
    return normalised(row)


def _model_error(text: str) -> ModelError:
    """Refused input is worth a smaller batch; anything else (capacity, quota, network) is worth a wait."""
    if _REFUSED.search(text):
        return ModelRejected("Workers AI refused the texts.")
    return ModelUnavailable("Workers AI is busy, down, or out of its daily allocation.")
