"""Vectorize as a `RemoteIndex`: one namespace a tenant, ids that carry the version, no content.

A vector's id is `{seq}.{content_version}`, so a hit tells by itself whether it is outdated, and queries
can ask for ids alone: those may return 100 matches, with metadata 20.
Limits: https://developers.cloudflare.com/vectorize/platform/limits/
"""

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeVar

from adapters.cloudflare.bindings import BindingError, VectorizeBinding
from titen_core.errors import IndexUnavailable
from titen_core.limits import TIME_MAX_MS
from titen_core.models import Access, Filters, Scope
from titen_core.protocols import IndexDescription, Vector, VectorAnswer, VectorHit, VectorRecord

__all__ = ["METADATA_INDEXES", "VectorizeIndex", "vector_id"]

METADATA_INDEXES: Final[Mapping[str, Literal["string", "number", "boolean"]]] = {
    "subject_id": "string",
    "agent_id": "string",
    "run_id": "string",
    "kind": "string",
    "category": "string",
    "priority": "string",
    "verified": "boolean",
    "author": "string",
    "created_at": "number",
    "expires_at": "number",
}
"""Every field a filter may name, and its type. Vectorize takes ten, and indexes only vectors written later."""

MATCHES_MAX: Final = 100
UPSERT_VECTORS_MAX: Final = 1_000
DELETE_IDS_MAX: Final = 100
GET_IDS_MAX: Final = 20
NEVER_MS: Final = TIME_MAX_MS  # a range filter finds only vectors that have the field

_NAMES: Final = frozenset({"subject_id", "agent_id", "run_id"})
_SECONDS_BELOW: Final = 100_000_000_000

T = TypeVar("T")


class VectorizeIndex:
    """Implements `RemoteIndex` over a Vectorize binding."""

    colocated: Literal[False] = False

    def __init__(self, index: VectorizeBinding) -> None:
        self._index = index

    async def describe(self) -> IndexDescription:
        try:
            found = await self._index.describe()
        except BindingError:
            raise IndexUnavailable("Vectorize does not describe the index.") from None
        dimensions = found.get("dimensions")
        return IndexDescription(
            dimensions=None if dimensions is None else int(dimensions),
            metric="cosine",
            read_after_write=False,
            processed_through_ms=_milliseconds(found.get("processedUpToDatetime")),
        )

    async def search(
        self, access: Access, scope: Scope, filters: Filters, vector: Vector, k: int, now_ms: int
    ) -> VectorAnswer:
        """See `VectorIndex.search`. Tags, confidence and `updated_at` have no index.

        The answer is then partial, unless the index had fewer vectors than it was asked for: nothing was cut.
        """
        if access.subject_id is not None and scope.subject_id not in {None, access.subject_id}:
            return VectorAnswer(())
        asked = min(k, MATCHES_MAX)
        options = {
            "topK": asked,
            "namespace": access.tenant_id,
            "returnValues": False,
            "returnMetadata": "none",
            "filter": dict(_conditions(access, scope, filters, now_ms)),
        }
        try:
            matches = await self._index.query(vector, options)
        except BindingError:
            raise IndexUnavailable("Vectorize did not answer the query.") from None
        hits = tuple(_hit(*match) for match in matches)
        return VectorAnswer(hits, partial=_has_unindexed(filters) and len(hits) >= asked)

    async def upsert(self, records: Sequence[VectorRecord]) -> None:
        for part in _parts(records, UPSERT_VECTORS_MAX):
            try:
                await self._index.upsert([(_vector_record(record), record.vector) for record in part])
            except BindingError:
                raise IndexUnavailable("Vectorize did not take the vectors.") from None

    async def shown(self, ids: Sequence[tuple[int, int]]) -> set[tuple[int, int]]:
        asked = {vector_id(*each): each for each in ids}
        found: set[tuple[int, int]] = set()
        for part in _parts(list(asked), GET_IDS_MAX):
            try:
                found.update(asked[name] for name in await self._index.present(part))
            except BindingError:
                raise IndexUnavailable("Vectorize did not look up the vectors.") from None
        return found

    async def delete(self, ids: Sequence[tuple[int, int]]) -> None:
        for part in _parts(ids, DELETE_IDS_MAX):
            try:
                await self._index.delete([vector_id(*each) for each in part])
            except BindingError:
                raise IndexUnavailable("Vectorize did not delete the vectors.") from None


def _parts(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _conditions(access: Access, scope: Scope, filters: Filters, now_ms: int) -> Iterator[tuple[str, dict[str, Any]]]:
    names = {
        "subject_id": access.subject_id if access.subject_id is not None else scope.subject_id,
        "agent_id": scope.agent_id,
        "run_id": scope.run_id,
    }
    for field, name in names.items():
        if name is not None:
            yield field, {"$eq": _hashed(name)}
    lists = {
        "kind": filters.kind,
        "category": filters.category,
        "priority": filters.priority,
        "author": filters.author,
    }
    for field, values in lists.items():
        if values:
            yield field, {"$in": sorted({str(value) for value in values})}
    if filters.verified is not None:
        yield "verified", {"$eq": filters.verified}
    created = {"$gt": filters.created_after_ms, "$lt": filters.created_before_ms}
    if created := {operator: value for operator, value in created.items() if value is not None}:
        yield "created_at", created
    if not filters.include_expired:
        yield "expires_at", {"$gt": now_ms}


def _has_unindexed(filters: Filters) -> bool:
    return bool(
        filters.tags
        or filters.min_confidence is not None
        or filters.updated_after_ms is not None
        or filters.updated_before_ms is not None
    )


def _vector_record(record: VectorRecord) -> dict[str, Any]:
    return {
        "id": vector_id(record.seq, record.content_version),
        "namespace": record.tenant_id,
        "metadata": dict(_metadata(record.fields)),
    }


def _metadata(fields: Mapping[str, str | int | float | bool | None]) -> Iterator[tuple[str, str | int | float | bool]]:
    for field in METADATA_INDEXES:
        value = fields.get(field)
        if field == "expires_at":
            yield field, NEVER_MS if value is None else value
        elif value is not None:
            yield field, _hashed(str(value)) if field in _NAMES else value


def _hashed(name: str) -> str:
    """43 characters for any name: an index keeps the first 64 bytes of a value, and a name may have 256."""
    return base64.urlsafe_b64encode(hashlib.sha256(name.encode()).digest()).decode().rstrip("=")


def vector_id(seq: int, content_version: int) -> str:
    """What a vector of this content is called."""
    return f"{seq}.{content_version}"


def _hit(name: str, score: float) -> VectorHit:
    seq, _, content_version = name.partition(".")
    return VectorHit(seq=int(seq), similarity=score, content_version=int(content_version))


def _milliseconds(moment: object) -> int:
    """Vectorize's documentation shows a time as text and its types show a number; 0 where there is none yet."""
    if isinstance(moment, str) and moment:
        parsed = datetime.fromisoformat(moment)
        return int((parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp() * 1000)
    if isinstance(moment, int | float):
        return int(moment * 1000 if moment < _SECONDS_BELOW else moment)
    return 0
