"""Vectorize as a RemoteIndex: what it is asked, and what never reaches it. Over the emulator, in process."""

import asyncio
import hashlib
from array import array
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from typing import Any

import pytest

from adapters.cloudflare.vectorize import METADATA_INDEXES, NEVER_MS, VectorizeIndex
from tests.runtimes.cloudflare.emulated_vectorize import EmulatedVectorize
from tests.runtimes.cloudflare.vectorize import VectorizeEmulator
from titen_core.errors import IndexUnavailable
from titen_core.models import Access, Actor, Category, Filters, Kind, PrincipalKind, Priority, Scope
from titen_core.protocols import Vector, VectorHit, VectorRecord

NOW_MS = 1_790_000_000_000
SAME: Vector = array("f", [1.0, 0.0, 0.0])
NEAR: Vector = array("f", [0.8, 0.6, 0.0])
EVERYTHING = Scope()


@pytest.fixture
def emulator() -> VectorizeEmulator:
    return VectorizeEmulator(3, indexed=list(METADATA_INDEXES))


@pytest.fixture
def index(emulator: VectorizeEmulator) -> VectorizeIndex:
    return VectorizeIndex(EmulatedVectorize(emulator))


def access(tenant_id: str = "tenant-1", subject_id: str | None = None) -> Access:
    return Access(tenant_id, 1, subject_id, Actor("a", PrincipalKind.AGENT), "k")


def record(seq: int, vector: Vector = SAME, tenant_id: str = "tenant-1", **fields: Any) -> VectorRecord:
    named: dict[str, Any] = {"subject_id": "s", "kind": Kind.SEMANTIC, "priority": Priority.NORMAL, "verified": False}
    made: dict[str, Any] = {"author": PrincipalKind.AGENT, "created_at": NOW_MS, "expires_at": None, "category": None}
    return VectorRecord(seq, 1, tenant_id, vector, {**named, **made, **fields})


def seqs(index: VectorizeIndex, filters: Filters | None = None, scope: Scope = EVERYTHING, **who: Any) -> list[int]:
    answer = asyncio.run(index.search(access(**who), scope, filters or Filters(), SAME, 10, NOW_MS))
    return [hit.seq for hit in answer.hits]


def test_hits_come_nearest_first_with_their_version(index: VectorizeIndex) -> None:
    asyncio.run(index.upsert([record(1, NEAR), record(2)]))
    answer = asyncio.run(index.search(access(), Scope(), Filters(), SAME, 10, NOW_MS))
    assert [(hit.seq, hit.content_version) for hit in answer.hits] == [(2, 1), (1, 1)]
    assert answer.hits[1].similarity == pytest.approx(0.8)
    assert isinstance(answer.hits[0], VectorHit)
    assert not answer.partial


def test_a_tenant_is_a_namespace(index: VectorizeIndex) -> None:
    asyncio.run(index.upsert([record(1), record(2, tenant_id="tenant-2")]))
    assert seqs(index) == [1]
    assert seqs(index, tenant_id="tenant-2") == [2]


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        (Filters(kind=(Kind.EPISODIC,)), [2]),
        (Filters(category=(Category.FACT, Category.NOTE)), [2]),
        (Filters(priority=(Priority.HIGH,)), [2]),
        (Filters(verified=True), [2]),
        (Filters(verified=False), [1]),
        (Filters(author=(PrincipalKind.HUMAN,)), [2]),
        (Filters(created_after_ms=NOW_MS), [2]),
        (Filters(created_before_ms=NOW_MS + 1), [1]),
        (Filters(created_after_ms=NOW_MS - 1, created_before_ms=NOW_MS + 2), [1, 2]),
        (Filters(include_expired=True), [1, 2, 3]),
        (Filters(), [1, 2]),
    ],
)
def test_filters_hold_inside_the_index(index: VectorizeIndex, filters: Filters, found: list[int]) -> None:
    other: dict[str, Any] = {
        "kind": Kind.EPISODIC,
        "category": Category.FACT,
        "priority": Priority.HIGH,
        "verified": True,
        "author": PrincipalKind.HUMAN,
        "created_at": NOW_MS + 1,
        "expires_at": NOW_MS + 1,
    }
    expired: dict[str, Any] = {"expires_at": NOW_MS, "verified": None, "created_at": None}
    asyncio.run(index.upsert([record(1), record(2, **other), record(3, **expired)]))
    assert seqs(index, filters) == found


def test_scope_and_lock_hold_for_names_longer_than_an_index_keeps(index: VectorizeIndex) -> None:
    one, two = "é" * 127 + "1", "é" * 127 + "2"
    asyncio.run(index.upsert([record(1, subject_id=one, agent_id=one, run_id=one), record(2, subject_id=two)]))
    assert seqs(index, scope=Scope(subject_id=one)) == [1]
    assert seqs(index, scope=Scope(agent_id=one)) == [1]
    assert seqs(index, scope=Scope(run_id=two)) == []
    assert seqs(index, subject_id=two) == [2]
    assert seqs(index, scope=Scope(subject_id=one), subject_id=two) == []


@pytest.mark.parametrize(
    "filters",
    [
        Filters(tags=("x",)),
        Filters(min_confidence=0.0),
        Filters(updated_after_ms=0),
        Filters(updated_before_ms=0),
    ],
)
def test_without_an_index_for_a_filter_a_cut_answer_is_partial(index: VectorizeIndex, filters: Filters) -> None:
    asyncio.run(index.upsert([record(1)]))
    for k, partial in ((1, True), (2, False)):
        answer = asyncio.run(index.search(access(), Scope(), filters, SAME, k, NOW_MS))
        assert answer.partial is partial
        assert [hit.seq for hit in answer.hits] == [1]


def test_nothing_but_hashes_and_enums_reaches_it(index: VectorizeIndex, emulator: VectorizeEmulator) -> None:
    asyncio.run(index.upsert([record(7, subject_id="Siti", agent_id=None, content="secret", tags="secret")]))
    expected = urlsafe_b64encode(hashlib.sha256(b"Siti").digest()).decode().rstrip("=")
    assert emulator.stored("7.1") == {
        "namespace": "tenant-1",
        "metadata": {
            "subject_id": expected,
            "kind": "semantic",
            "priority": "normal",
            "verified": False,
            "author": "agent",
            "created_at": NOW_MS,
            "expires_at": NEVER_MS,
        },
    }


def test_queries_ask_for_ids_alone_and_at_most_a_hundred(index: VectorizeIndex, emulator: VectorizeEmulator) -> None:
    asyncio.run(index.search(access(), Scope(), Filters(), SAME, 500, NOW_MS))
    asked = emulator.calls[-1].options
    assert asked["topK"] == 100
    assert (asked["returnMetadata"], asked["returnValues"]) == ("none", False)


def test_large_writes_and_deletes_come_in_parts(index: VectorizeIndex, emulator: VectorizeEmulator) -> None:
    asyncio.run(index.upsert([record(seq) for seq in range(1_001)]))
    assert [call.count for call in emulator.calls] == [1_000, 1]
    assert asyncio.run(index.shown([(seq, 1) for seq in range(30)] + [(1, 2)])) == {(seq, 1) for seq in range(30)}
    asyncio.run(index.delete([(seq, 1) for seq in range(1_001)]))
    asyncio.run(index.describe())
    assert emulator.ids() == []


def test_describe_tells_how_far_writes_are_processed(index: VectorizeIndex, emulator: VectorizeEmulator) -> None:
    description = asyncio.run(index.describe())
    assert (description.dimensions, description.read_after_write) == (3, False)
    assert description.processed_through_ms == 0
    emulator.hold()
    asyncio.run(index.upsert([record(1)]))
    assert asyncio.run(index.describe()).processed_through_ms == 0
    assert asyncio.run(index.shown([(1, 1)])) == set()
    emulator.flush()
    assert (asyncio.run(index.describe()).processed_through_ms or 0) > NOW_MS
    assert asyncio.run(index.shown([(1, 1)])) == {(1, 1)}


@pytest.mark.parametrize(
    "moment", [1_790_000_000, 1_790_000_000_000, "2026-09-21T14:13:20.000Z", "2026-09-21T14:13:20"]
)
def test_a_moment_is_read_however_it_is_written(moment: object) -> None:
    class Described(EmulatedVectorize):
        async def describe(self) -> Mapping[str, Any]:
            return {"dimensions": 3, "processedUpToDatetime": moment}

    description = asyncio.run(VectorizeIndex(Described(VectorizeEmulator(3))).describe())
    assert description.processed_through_ms == 1_790_000_000_000


def test_every_failure_is_index_unavailable(index: VectorizeIndex, emulator: VectorizeEmulator) -> None:
    emulator.exhaust_quota()
    with pytest.raises(IndexUnavailable):
        asyncio.run(index.describe())
    with pytest.raises(IndexUnavailable):
        asyncio.run(index.upsert([record(1)]))
    with pytest.raises(IndexUnavailable):
        asyncio.run(index.delete([(1, 1)]))
    with pytest.raises(IndexUnavailable):
        asyncio.run(index.shown([(1, 1)]))
    with pytest.raises(IndexUnavailable):
        asyncio.run(index.search(access(), Scope(), Filters(), SAME, 1, NOW_MS))
