"""A Vectorize index that hurts where the real one does, under a test's control.

Writes become visible only when they are processed (`hold`, `flush`, `delay_ms`); metadata filters see
only fields that were indexed before the vector was written; limits are errors. Answers follow
https://developers.cloudflare.com/vectorize/ and the bodies that workerd's own binding expects.
"""

import json
import math
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import mul
from typing import Any, Final

__all__ = ["Call", "VectorizeEmulator", "VectorizeError"]

IDS_ONLY_MAX: Final = 100
WITH_VALUES_MAX: Final = 20
UPSERT_MAX: Final = 1_000
GET_MAX: Final = 20
ID_BYTES: Final = 64
NAMESPACE_BYTES: Final = 64
INDEXED_VALUE_BYTES: Final = 64
INDEXES_MAX: Final = 10
FILTER_BYTES: Final = 2_048
METADATA_BYTES: Final = 10 * 1024
CALLS_KEPT: Final = 1_000

JsonObject = dict[str, Any]

OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "$eq": lambda found, wanted: found == wanted,
    "$ne": lambda found, wanted: found != wanted,
    "$in": lambda found, wanted: found in wanted,
    "$nin": lambda found, wanted: found not in wanted,
    "$lt": lambda found, wanted: found < wanted,
    "$lte": lambda found, wanted: found <= wanted,
    "$gt": lambda found, wanted: found > wanted,
    "$gte": lambda found, wanted: found >= wanted,
}


class VectorizeError(Exception):
    """Answered with `status` and a body `{code, error}`."""

    def __init__(self, code: int, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code = code
        self.status = status


@dataclass(frozen=True)
class Call:
    """What one call asked for: the operation, how many vectors or ids, and a query's options."""

    operation: str
    count: int
    options: JsonObject = field(default_factory=dict)


@dataclass(frozen=True)
class _Stored:
    values: tuple[float, ...]
    namespace: str | None
    metadata: JsonObject
    searchable: JsonObject  # what the metadata indexes of the time of writing hold


@dataclass(frozen=True)
class _Mutation:
    id: str
    accepted_s: float
    due_s: float
    apply: Callable[[], None]


@dataclass
class _Fault:
    operation: str
    error: VectorizeError
    times: int | None


class VectorizeEmulator:
    """One index. Safe to call from a server's threads and from the test's at once."""

    def __init__(self, dimensions: int = 1024, indexed: Sequence[str] = ()) -> None:
        self.dimensions = dimensions
        self.delay_ms = 0.0
        self.tells_acceptance = False
        self._lock = threading.RLock()
        self._indexed: set[str] = set()
        self._rows: dict[str, _Stored] = {}
        self._waiting: deque[_Mutation] = deque()
        self._held = False
        self._last: tuple[_Mutation, float] | None = None
        self._faults: list[_Fault] = []
        self._calls: deque[Call] = deque(maxlen=CALLS_KEPT)
        for name in indexed:
            self.create_metadata_index(name)

    # What a test controls

    def create_metadata_index(self, name: str) -> None:
        """As `wrangler vectorize create-metadata-index`: vectors written before do not get into it."""
        with self._lock:
            if len(self._indexed | {name}) > INDEXES_MAX:
                raise VectorizeError(40_030, f"an index takes {INDEXES_MAX} metadata indexes")
            self._indexed.add(name)

    def hold(self) -> None:
        """From now on no write becomes visible, until `flush` or `release`."""
        with self._lock:
            self._held = True

    def flush(self) -> None:
        """Process what waits, whatever its time."""
        with self._lock:
            while self._waiting:
                self._process(self._waiting.popleft())

    def release(self) -> None:
        """Go back to processing writes after `delay_ms`, and process what waits."""
        with self._lock:
            self._held = False
            self.flush()

    def fail(
        self, operation: str = "any", *, code: int = 40_000, message: str = "as ordered", status: int = 500,
        times: int | None = None,
    ) -> None:  # fmt: skip
        """Refuse `insert`, `upsert`, `query`, `info`, `getByIds`, `deleteByIds` or any of them."""
        with self._lock:
            self._faults.append(_Fault(operation, VectorizeError(code, message, status), times))

    def exhaust_quota(self, operation: str = "any") -> None:
        """Refuse as an account does that has used up what its plan includes."""
        self.fail(operation, code=10_429, message="You have exceeded the limits of your plan", status=429)

    def clear(self) -> None:
        """Answer correctly again, and without delay."""
        with self._lock:
            self._faults.clear()
            self.delay_ms = 0.0
            self.release()

    @property
    def calls(self) -> list[Call]:
        """The latest calls, at most 1,000."""
        with self._lock:
            return list(self._calls)

    @property
    def waiting_count(self) -> int:
        """Mutations that no query sees yet."""
        with self._lock:
            return len(self._waiting)

    def ids(self, namespace: str | None = None) -> list[str]:
        """Ids that queries see."""
        with self._lock:
            self._process_due()
            return sorted(each for each, row in self._rows.items() if namespace in {None, row.namespace})

    def stored(self, vector_id: str) -> JsonObject:
        """Namespace and metadata of a visible vector."""
        with self._lock:
            self._process_due()
            row = self._rows[vector_id]
            return {"namespace": row.namespace, "metadata": row.metadata}

    # What the binding asks for

    def answer(self, operation: str, body: str) -> Any:
        """The body of a 200, or `VectorizeError`. Inserts and upserts come as one JSON object a line."""
        asked = [json.loads(line) for line in body.splitlines() if line.strip()]
        with self._lock:
            self._note(operation, asked)
            self._refuse(operation)
            self._process_due()
            act: dict[str, Callable[[], Any]] = {
                "info": self._info,
                "insert": lambda: self._write(asked, replace=False),
                "upsert": lambda: self._write(asked, replace=True),
                "query": lambda: self._query(asked[0]),
                "getByIds": lambda: self._get(asked[0]["ids"]),
                "deleteByIds": lambda: self._delete(asked[0]["ids"]),
            }
            if operation not in act:
                raise VectorizeError(40_404, f"no operation {operation}", 404)
            return act[operation]()

    def _note(self, operation: str, asked: Sequence[JsonObject]) -> None:
        first = asked[0] if asked else {}
        options = {name: value for name, value in first.items() if name != "vector"} if operation == "query" else {}
        self._calls.append(Call(operation, len(first["ids"]) if "ids" in first else len(asked), options))

    def _refuse(self, operation: str) -> None:
        for fault in self._faults:
            if fault.operation in {"any", operation}:
                if fault.times is not None:
                    fault.times -= 1
                    if fault.times <= 0:
                        self._faults.remove(fault)
                raise fault.error

    def _info(self) -> JsonObject:
        """`processedUpToDatetime` belongs to the last mutation: when it was processed or, if told so, accepted."""
        found = {"dimensions": self.dimensions, "vectorCount": len(self._rows)}
        if self._last is None:
            return {**found, "processedUpToDatetime": None, "processedUpToMutation": None}
        mutation, processed_s = self._last
        moment_s = mutation.accepted_s if self.tells_acceptance else processed_s
        return {**found, "processedUpToDatetime": _iso(moment_s), "processedUpToMutation": mutation.id}

    def _write(self, vectors: Sequence[JsonObject], *, replace: bool) -> JsonObject:
        if len(vectors) > UPSERT_MAX:
            raise VectorizeError(40_024, f"at most {UPSERT_MAX} vectors in one write")
        rows = {vector["id"]: self._checked(vector) for vector in vectors}

        def apply() -> None:
            for vector_id, row in rows.items():
                if replace or vector_id not in self._rows:
                    self._rows[vector_id] = row

        return self._later(apply)

    def _checked(self, vector: JsonObject) -> _Stored:
        values, metadata, namespace = vector["values"], vector.get("metadata") or {}, vector.get("namespace")
        if len(vector["id"].encode()) > ID_BYTES:
            raise VectorizeError(40_008, f"an id has at most {ID_BYTES} bytes")
        if namespace is not None and len(namespace.encode()) > NAMESPACE_BYTES:
            raise VectorizeError(40_009, f"a namespace has at most {NAMESPACE_BYTES} bytes")
        if len(values) != self.dimensions:
            raise VectorizeError(40_012, f"expected {self.dimensions} dimensions, and got {len(values)} dimensions")
        if not all(isinstance(value, int | float) and math.isfinite(value) for value in values):
            raise VectorizeError(40_013, "vector values must be finite numbers")
        if len(json.dumps(metadata)) > METADATA_BYTES:
            raise VectorizeError(40_014, f"metadata has at most {METADATA_BYTES} bytes")
        searchable = {name: _cut(value) for name, value in metadata.items() if name in self._indexed}
        return _Stored(tuple(values), namespace, metadata, searchable)

    def _delete(self, ids: Sequence[str]) -> JsonObject:
        def apply() -> None:
            for vector_id in ids:
                self._rows.pop(vector_id, None)

        return self._later(apply)

    def _query(self, asked: JsonObject) -> JsonObject:
        top, full = asked.get("topK", 5), asked.get("returnValues") or asked.get("returnMetadata") == "all"
        most = WITH_VALUES_MAX if full else IDS_ONLY_MAX
        if not 1 <= top <= most:
            raise VectorizeError(40_025, f"max top K is {most}, but got {top}")
        if len(asked["vector"]) != self.dimensions:
            raise VectorizeError(40_012, f"expected {self.dimensions} dimensions")
        conditions = asked.get("filter") or {}
        if len(json.dumps(conditions, separators=(",", ":"))) > FILTER_BYTES:
            raise VectorizeError(40_026, f"a filter has at most {FILTER_BYTES} bytes")
        scored = [
            (_cosine(asked["vector"], row.values), vector_id)
            for vector_id, row in self._rows.items()
            if asked.get("namespace") in {None, row.namespace} and _satisfies(row.searchable, conditions)
        ]
        best = sorted(scored, key=lambda each: (-each[0], each[1]))[:top]
        return {"count": len(best), "matches": [{"id": each, "score": score} for score, each in best]}

    def _get(self, ids: Sequence[str]) -> list[JsonObject]:
        if len(ids) > GET_MAX:
            raise VectorizeError(40_007, f"at most {GET_MAX} ids in one look-up")
        return [self._shown(each) for each in ids if each in self._rows]

    def _shown(self, vector_id: str) -> JsonObject:
        row = self._rows[vector_id]
        return {"id": vector_id, "values": row.values, "namespace": row.namespace, "metadata": row.metadata}

    def _later(self, apply: Callable[[], None]) -> JsonObject:
        now_s = time.time()
        self._waiting.append(_Mutation(str(uuid.uuid4()), now_s, now_s + self.delay_ms / 1000, apply))
        return {"mutationId": self._waiting[-1].id}

    def _process_due(self) -> None:
        while not self._held and self._waiting and self._waiting[0].due_s <= time.time():
            self._process(self._waiting.popleft())

    def _process(self, mutation: _Mutation) -> None:
        mutation.apply()
        self._last = (mutation, time.time())


def _satisfies(found: JsonObject, conditions: JsonObject) -> bool:
    """A field outside the metadata indexes matches nothing, whatever the vector's metadata says."""
    return all(
        name in found
        and all(
            OPERATORS[operator](found[name], _cut(wanted))
            for operator, wanted in (condition if isinstance(condition, dict) else {"$eq": condition}).items()
        )
        for name, condition in conditions.items()
    )


def _cut(value: Any) -> Any:
    """An index keeps the first 64 bytes of a text."""
    if isinstance(value, list):
        return [_cut(each) for each in value]
    return value.encode()[:INDEXED_VALUE_BYTES].decode(errors="ignore") if isinstance(value, str) else value


def _cosine(query: Sequence[float], values: Sequence[float]) -> float:
    lengths = math.sqrt(sum(map(mul, query, query)) * sum(map(mul, values, values)))
    return sum(map(mul, query, values)) / lengths if lengths else 0.0


def _iso(moment_s: float) -> str:
    return datetime.fromtimestamp(moment_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
