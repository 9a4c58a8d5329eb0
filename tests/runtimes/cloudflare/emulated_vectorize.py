"""The Vectorize emulator as the adapter sees the real binding."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from adapters.cloudflare.bindings import BindingError
from tests.runtimes.cloudflare.vectorize import VectorizeEmulator, VectorizeError
from titen_core.protocols import Vector

__all__ = ["EmulatedVectorize"]


class EmulatedVectorize:
    """A `VectorizeBinding` over the emulator, without a Worker between."""

    def __init__(self, emulator: VectorizeEmulator) -> None:
        self.emulator = emulator

    async def describe(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._answer("info", "")
        return found

    async def query(self, vector: Vector, options: Mapping[str, Any]) -> list[tuple[str, float]]:
        answer = self._answer("query", json.dumps({**options, "vector": vector.tolist()}))
        return [(match["id"], match["score"]) for match in answer["matches"]]

    async def upsert(self, vectors: Sequence[tuple[Mapping[str, Any], Vector]]) -> None:
        self._answer("upsert", "\n".join(json.dumps({**record, "values": v.tolist()}) for record, v in vectors))

    async def present(self, ids: Sequence[str]) -> list[str]:
        return [found["id"] for found in self._answer("getByIds", json.dumps({"ids": list(ids)}))]

    async def delete(self, ids: Sequence[str]) -> None:
        self._answer("deleteByIds", json.dumps({"ids": list(ids)}))

    def _answer(self, operation: str, body: str) -> Any:
        try:
            return self.emulator.answer(operation, body)
        except VectorizeError as error:
            raise BindingError(str(error)) from None
