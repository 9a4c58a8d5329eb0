"""The capabilities a runtime lends to the core. Adapters convert and forward; they decide nothing.

`SqlDriver` runs SQL, `VectorIndex` finds near vectors, `ModelGateway` makes vectors. The one
`SqlStore` over a driver is the core's own (`titen_core.sql`).
"""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from titen_core.models import Access, Filters, Fingerprint, Scope

__all__ = [
    "ChatAnswer",
    "ChatModel",
    "ChatUsage",
    "ColocatedIndex",
    "IndexDescription",
    "ModelGateway",
    "RemoteIndex",
    "Row",
    "SqlDriver",
    "SqlValue",
    "Statement",
    "Vector",
    "VectorAnswer",
    "VectorHit",
    "VectorIndex",
    "VectorRecord",
]

SqlValue: TypeAlias = str | int | float | bytes | None
Row: TypeAlias = Mapping[str, SqlValue]
if TYPE_CHECKING:
    Vector: TypeAlias = array[float]
else:
    Vector = array  # `array[float]` is no expression before Python 3.12
"""`array('f')`: float32 values, l2-normalised."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One SQL statement with plain `?` placeholders and its parameters, at most 100."""

    sql: str
    params: tuple[SqlValue, ...] = ()


class SqlDriver(Protocol):
    """Runs SQL on one database. Both runtimes are SQLite; `batch` is the only atomic unit.

    Raises `SqlBusy`, `SqlFull`, `SqlConstraint`, `SqlMissing`, `SqlCorrupt`, or `SqlError`
    for anything else. No message holds a parameter's value.
    """

    async def query(self, statement: Statement) -> list[Row]:
        """Run one reading statement and return its rows."""
        ...

    async def batch(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """Run the statements in order, atomically: all are written durably, or none is.

        Returns the rows of each statement. Not idempotent; guard statements so that a lost race
        writes nothing. A caller that is cancelled leaves the batch done or not done, never half.
        """
        ...


@dataclass(frozen=True, slots=True)
class IndexDescription:
    """What an index can do. The core asks this, never which runtime it is on.

    `processed_through_ms`: writes made before this time are visible; None means all are.
    """

    dimensions: int | None
    metric: str
    read_after_write: bool
    processed_through_ms: int | None = None


@dataclass(frozen=True, slots=True)
class VectorHit:
    """A row the index calls near; not yet checked against the canonical row.

    `similarity` is the cosine, -1 to 1. `content_version` is None where the index can't be stale.
    """

    seq: int
    similarity: float
    content_version: int | None = None


@dataclass(frozen=True, slots=True)
class VectorAnswer:
    """Hits best first. `partial`: some filter could not be applied inside the index."""

    hits: tuple[VectorHit, ...]
    partial: bool = False


class VectorIndex(Protocol):
    """Finds the nearest vectors of one tenant. A projection: it can always be rebuilt from SQL."""

    async def describe(self) -> IndexDescription:
        """Dimensions and abilities. Raises `IndexUnavailable`."""
        ...

    async def search(
        self, access: Access, scope: Scope, filters: Filters, vector: Vector, k: int, now_ms: int
    ) -> VectorAnswer:
        """The `k` nearest rows that satisfy access, scope and filters. Raises `IndexUnavailable`.

        A wrong hit is harmless (every hit is hydrated under the same predicate); a missing one is not.
        """
        ...


class ColocatedIndex(VectorIndex, Protocol):
    """An index inside the canonical database: its writes join the caller's batch.

    `rows` is a SELECT of `memories.seq` values (one column `seq`) with its parameters, used as a
    subquery; whatever it does not select is not touched.
    """

    colocated: Literal[True]

    async def prepare(self, refill: Sequence[Statement] = ()) -> None:
        """Create the index's tables if they are missing, with `refill` in the same batch: an empty index
        must not be taken for a full one after a crash in between. Raises `IndexUnavailable`.
        """
        ...

    def put(self, rows: Statement, vector: Vector) -> Sequence[Statement]:
        """Statements that store this vector for the selected rows, replacing older ones."""
        ...

    def drop(self, rows: Statement) -> Sequence[Statement]:
        """Statements that remove the selected rows from the index. Idempotent."""
        ...

    def stray(self, tenant_id: str) -> Statement:
        """A SELECT of one column `n`: how many rows the index holds of this tenant that have no memory."""
        ...

    def destroy(self) -> Sequence[Statement]:
        """Statements that remove the whole index (a finished reindex leaves the old one)."""
        ...


@dataclass(frozen=True, slots=True)
class VectorRecord:
    """One vector for a remote index, with the fields it may filter on. Never content."""

    seq: int
    content_version: int
    tenant_id: str
    vector: Vector
    fields: Mapping[str, str | int | float | bool | None]


class RemoteIndex(VectorIndex, Protocol):
    """An index elsewhere, eventually consistent. Calls are idempotent by vector id."""

    colocated: Literal[False]

    async def upsert(self, records: Sequence[VectorRecord]) -> None:
        """Write vectors; visible once `describe().processed_through_ms` passes. Raises `IndexUnavailable`."""
        ...

    async def shown(self, ids: Sequence[tuple[int, int]]) -> set[tuple[int, int]]:
        """Which of these (seq, content_version) it shows now, whatever `describe` says. Raises `IndexUnavailable`.

        For an index at rest: `processed_through_ms` may stand still at its last write.
        """
        ...

    async def delete(self, ids: Sequence[tuple[int, int]]) -> None:
        """Remove vectors by (seq, content_version). Unknown ones are ignored. Raises `IndexUnavailable`."""
        ...


class ModelGateway(Protocol):
    """Turns text into vectors. Never substitutes another model for the one it is asked for.

    Raises `ModelUnavailable`, `ModelRejected` or `ModelAnswerInvalid`.
    """

    async def fingerprint(self) -> Fingerprint:
        """What its vectors are, found by a probe the first time and remembered."""
        ...

    async def embed(
        self, texts: Sequence[str], *, purpose: Literal["memory", "query"], deadline_ms: int
    ) -> list[Vector]:
        """One l2-normalised float32 vector per text, in order.

        At most `EMBED_BATCH_TEXTS` texts a call. `deadline_ms` bounds the whole call, bodies included.
        """
        ...

    async def close(self) -> None:
        """Release connections and threads. Idempotent."""
        ...


@dataclass(frozen=True, slots=True)
class ChatUsage:
    """Tokens that a call took, as the provider counts them."""

    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """What a chat model said, as it said it. `usage` is None where the provider does not tell."""

    text: str
    usage: ChatUsage | None = None


class ChatModel(Protocol):
    """Answers one question. Raises `ModelUnavailable`, `ModelRejected` or `ModelAnswerInvalid`."""

    async def complete(
        self, *, instructions: str, question: str, schema: Mapping[str, object], deadline_ms: int
    ) -> ChatAnswer:
        """The answer to `question` under `instructions`, shaped by the JSON schema where the provider can do that.

        `deadline_ms` bounds the whole call. The text may be anything: whoever asks has to check it.
        """
        ...

    async def close(self) -> None:
        """Release connections. Idempotent."""
        ...
