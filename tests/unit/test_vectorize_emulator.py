"""The emulated Vectorize can hurt in each way that the real one does; else a green suite means nothing."""

import json
from typing import Any

import pytest

from tests.runtimes.cloudflare.vectorize import VectorizeEmulator, VectorizeError

QUERY = [1.0, 0.0]


@pytest.fixture
def index() -> VectorizeEmulator:
    return VectorizeEmulator(2, indexed=["kind"])


def upsert(index: VectorizeEmulator, *ids: str, values: Any = (1.0, 0.0), **fields: Any) -> None:
    index.answer("upsert", "\n".join(json.dumps({"id": each, "values": values, **fields}) for each in ids))


def found(index: VectorizeEmulator, **options: Any) -> list[str]:
    answer = index.answer("query", json.dumps({"vector": QUERY, **options}))
    return [match["id"] for match in answer["matches"]]


def test_a_write_is_visible_only_when_it_was_processed(index: VectorizeEmulator) -> None:
    index.hold()
    upsert(index, "1.1")
    index.answer("deleteByIds", '{"ids": ["1.1"]}')
    assert found(index) == []
    assert index.answer("getByIds", '{"ids": ["1.1"]}') == []
    assert index.waiting_count == 2
    upsert(index, "2.1")
    index.flush()
    assert found(index) == ["2.1"]


def test_a_delay_passes_by_itself(index: VectorizeEmulator, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 1_000.0
    monkeypatch.setattr("time.time", lambda: now_s)
    index.delay_ms = 5_000
    upsert(index, "1.1")
    now_s += 4.9
    assert found(index) == []
    now_s += 0.2
    assert found(index) == ["1.1"]


def test_describe_tells_the_last_processed_mutation_alone(index: VectorizeEmulator) -> None:
    upsert(index, "1.1")
    first = index.answer("info", "")
    index.hold()
    upsert(index, "2.1")
    assert index.answer("info", "") == first
    index.flush()
    assert index.answer("info", "")["processedUpToMutation"] != first["processedUpToMutation"]


def test_its_clock_may_stand_at_the_moment_of_acceptance(
    index: VectorizeEmulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time", lambda: 1_000.0)
    index.tells_acceptance = True
    upsert(index, "1.1")
    monkeypatch.setattr("time.time", lambda: 2_000.0)
    assert index.answer("info", "")["processedUpToDatetime"] == "1970-01-01T00:16:40.000Z"


def test_a_filter_sees_only_vectors_written_after_its_index(index: VectorizeEmulator) -> None:
    upsert(index, "1.1", metadata={"kind": "a", "author": "x"})
    assert found(index, filter={"kind": {"$eq": "a"}}) == ["1.1"]
    assert found(index, filter={"author": {"$eq": "x"}}) == []
    index.create_metadata_index("author")
    assert found(index, filter={"author": {"$eq": "x"}}) == []
    upsert(index, "1.1", metadata={"kind": "a", "author": "x"})
    assert found(index, filter={"author": {"$eq": "x"}}) == ["1.1"]


def test_an_index_keeps_the_first_64_bytes_of_a_text(index: VectorizeEmulator) -> None:
    upsert(index, "1.1", metadata={"kind": "é" * 40 + "1"})
    assert found(index, filter={"kind": {"$eq": "é" * 40 + "2"}}) == ["1.1"]


def test_a_namespace_is_a_wall(index: VectorizeEmulator) -> None:
    upsert(index, "1.1", namespace="one")
    upsert(index, "2.1", namespace="two")
    assert found(index, namespace="one") == ["1.1"]


@pytest.mark.parametrize(
    ("operator", "wanted", "holds"),
    [
        ("$eq", 5, True),
        ("$ne", 5, False),
        ("$in", [4, 5], True),
        ("$nin", [4, 5], False),
        ("$lt", 5, False),
        ("$lte", 5, True),
        ("$gt", 4, True),
        ("$gte", 6, False),
    ],
)
def test_each_operator(index: VectorizeEmulator, operator: str, wanted: Any, holds: bool) -> None:
    upsert(index, "1.1", metadata={"kind": 5})
    assert bool(found(index, filter={"kind": {operator: wanted}})) is holds


@pytest.mark.parametrize(
    ("body", "operation"),
    [
        ({"id": "x" * 65, "values": [1, 0]}, "upsert"),
        ({"id": "x", "values": [1, 0, 0]}, "upsert"),
        ({"id": "x", "values": [1, None]}, "upsert"),
        ({"id": "x", "values": [1, 0], "namespace": "n" * 65}, "upsert"),
        ({"id": "x", "values": [1, 0], "metadata": {"m": "x" * 10_240}}, "upsert"),
        ({"vector": QUERY, "topK": 101}, "query"),
        ({"vector": QUERY, "topK": 21, "returnValues": True}, "query"),
        ({"vector": QUERY, "topK": 21, "returnMetadata": "all"}, "query"),
        ({"vector": [1.0]}, "query"),
        ({"vector": QUERY, "filter": {"kind": {"$in": ["x" * 30] * 80}}}, "query"),
        ({"ids": ["x"] * 21}, "getByIds"),
        ({}, "nonsense"),
    ],
)
def test_limits_are_errors(index: VectorizeEmulator, body: Any, operation: str) -> None:
    with pytest.raises(VectorizeError):
        index.answer(operation, json.dumps(body))


def test_a_write_takes_a_thousand_vectors(index: VectorizeEmulator) -> None:
    upsert(index, *map(str, range(1_000)))
    with pytest.raises(VectorizeError):
        upsert(index, *map(str, range(1_001)))


def test_there_are_ten_metadata_indexes(index: VectorizeEmulator) -> None:
    for number in range(9):
        index.create_metadata_index(f"field{number}")
    index.create_metadata_index("kind")
    with pytest.raises(VectorizeError):
        index.create_metadata_index("eleventh")


def test_failures_come_as_ordered_and_go(index: VectorizeEmulator) -> None:
    index.fail("query", times=1)
    upsert(index, "1.1")
    with pytest.raises(VectorizeError):
        found(index)
    assert found(index) == ["1.1"]
    index.exhaust_quota()
    with pytest.raises(VectorizeError) as refused:
        upsert(index, "2.1")
    assert refused.value.status == 429
    index.clear()
    assert found(index) == ["1.1"]


def test_the_call_log_tells_what_was_asked(index: VectorizeEmulator) -> None:
    upsert(index, "1.1", "2.1")
    found(index, topK=3)
    assert [(call.operation, call.count) for call in index.calls] == [("upsert", 2), ("query", 1)]
    assert index.calls[1].options == {"topK": 3}
