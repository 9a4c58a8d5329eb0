"""The bindings as plain Python sees them: `convert` implements these over JavaScript, tests over nothing."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from titen_core.protocols import Row, Statement, Vector

__all__ = ["AiBinding", "BindingError", "D1Binding", "VectorizeBinding"]


class BindingError(Exception):
    """A binding refused or failed. The text is Cloudflare's own and may quote what was sent: classify, don't show."""


class D1Binding(Protocol):
    """A D1 database. Raises `BindingError`."""

    async def query(self, statement: Statement) -> list[Row]:
        """The rows of one statement."""
        ...

    async def batch(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """The rows of each statement of one transaction; at least one statement."""
        ...


class VectorizeBinding(Protocol):
    """A Vectorize index. Raises `BindingError`."""

    async def describe(self) -> Mapping[str, Any]:
        """Dimensions, counts, and how far mutations have been processed."""
        ...

    async def query(self, vector: Vector, options: Mapping[str, Any]) -> list[tuple[str, float]]:
        """Ids and scores, best first."""
        ...

    async def upsert(self, vectors: Sequence[tuple[Mapping[str, Any], Vector]]) -> None:
        """Write vectors, each beside its id, namespace and metadata."""
        ...

    async def present(self, ids: Sequence[str]) -> list[str]:
        """Those of the ids that the index shows; at most 20 are asked for."""
        ...

    async def delete(self, ids: Sequence[str]) -> None:
        """Remove vectors; unknown ids are ignored."""
        ...


class AiBinding(Protocol):
    """Workers AI. Raises `BindingError`."""

    async def run(self, model: str, inputs: Mapping[str, Any]) -> Any:
        """The model's answer as JSON values."""
        ...
