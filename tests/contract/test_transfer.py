"""Export and import: a store moves whole, in steps, and comes out the same (contract: Portability)."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.client import Answer, Api, JsonObject, dump_lines
from tests.contract.expired import expired
from tests.contract.parallel import at_once

pytestmark = pytest.mark.needs_control

LATER_MS = 4_102_444_800_000


def pages(api: Api, limit: int = 100, **params: Any) -> Iterator[Answer]:
    """Every page of an export."""
    cursor: JsonObject = {}
    while True:
        page = api.export(limit=limit, **params, **cursor).expect(200)
        yield page
        after = summary(page)["next"]
        if after is None:
            return
        cursor = {"after": after}


def summary(page: Answer) -> JsonObject:
    return page.lines[-1]


def records(api: Api, **params: Any) -> list[JsonObject]:
    return [record for page in pages(api, **params) for record in page.lines[:-1]]


def whole(api: Api, **params: Any) -> bytes:
    """The lines of an export in one page of records."""
    return b"".join(page.content for page in pages(api, **params))


def bring(api: Api, content: bytes) -> JsonObject:
    """Import everything, in as many steps as the service wants; the sum of what it reported."""
    total: JsonObject = {"errors": []}
    from_line = 1
    while True:
        data = api.import_lines(content, from_line=from_line).expect(200).data
        total["errors"] += data["errors"]
        for name, value in data.items():
            if type(value) is int and name not in ("next_line", "from_line"):
                total[name] = total.get(name, 0) + value
        if data["next_line"] is None:
            return total
        from_line = data["next_line"]


def furnish(api: Api, agent: Api) -> None:
    """One of everything that an export must keep."""
    everything = {
        "agent_id": "bot",
        "run_id": "run:1",
        "kind": "procedural",
        "category": "preference",
        "key": "editor",
        "tags": ["Tools", "a_b%"],
        "priority": "critical",
        "confidence": 0.0,
        "source": {"type": "chat", "ref": "turn#1"},
        "metadata": {"n": 1.0, "deep": {"é": [None, True, "x"]}},
        "expires_at": LATER_MS,
    }
    full = api.stored(subject_id="s1", content="Uses vim — 設備 🙂\nand tabs", **everything)
    api.patch(full["id"], content="Uses emacs").expect(200)
    agents = agent.stored(subject_id="s1", content="Agent's own words")
    api.verify(agents["id"]).expect(200)
    event = {"subject_id": "s2", "kind": "episodic", "content": "Logged in"}
    for n in range(3):
        agent.stored(**event, source={"ref": f"turn-{n}"})
    back = api.stored(subject_id="s2", content="Gone and back")
    api.delete(back["id"]).expect(200)
    api.restore(back["id"]).expect(200)
    expired(api, subject_id="s2", content="Lapsed")
    gone = api.stored(subject_id="s2", content="Tombstone words")
    api.delete(gone["id"]).expect(200)


@pytest.fixture
def furnished(fresh: Api) -> Api:
    key = fresh.create_key(principal="bot", kind="agent", role="writer").expect(201).data
    furnish(fresh, Api(fresh.http, key["api_key"]))
    return fresh


def test_a_record_carries_every_canonical_field_and_nothing_else(furnished: Api) -> None:
    exported = records(furnished)
    by_content = {record["content"]: record for record in exported}
    full = by_content["Uses emacs"]
    memory = furnished.read(full["id"])
    assert (full["format"], full["format_version"]) == ("titen-memory", 1)
    for name in memory:
        if name not in ("index_status", "semantic_ready", "status"):
            assert full[name] == memory[name], name
    assert [e["event_type"] for e in full["events"]] == ["add", "update"]
    assert {e["actor"] for e in full["events"]} == {furnished.principal().data["principal"]}
    text = json.dumps(exported)
    for private in ("vector", "embedding", "index_status", "secret", "api_key", "exported_at", "tenant_id"):
        assert private not in text


def test_records_come_in_order_of_creation(furnished: Api) -> None:
    order = [(record["created_at"], record["id"]) for record in records(furnished)]
    assert order == sorted(order)
    assert len(order) == 7


def test_tombstones_come_when_asked(furnished: Api) -> None:
    without, with_ = records(furnished), records(furnished, deleted=True)
    assert "Tombstone words" not in json.dumps(without)
    assert [r["content"] for r in with_ if r["deleted_at"] is not None] == ["Tombstone words"]
    assert len(with_) == len(without) + 1


def test_a_page_ends_with_a_summary_that_proves_it(furnished: Api) -> None:
    seen = 0
    for page in pages(furnished, limit=3):
        body, _, last = page.content.rstrip(b"\n").rpartition(b"\n")
        told = json.loads(last)
        assert told["sha256"] == hashlib.sha256(body + b"\n").hexdigest()
        seen += len(page.lines) - 1
        assert len(page.lines) <= 4
    assert seen == 7


def test_pages_of_any_size_hold_the_same_records(furnished: Api) -> None:
    assert records(furnished, limit=2) == records(furnished, limit=100)


def test_an_export_is_the_same_when_repeated(furnished: Api) -> None:
    assert whole(furnished) == whole(furnished)


def test_a_round_trip_gives_the_same_bytes(furnished: Api, empty: Api) -> None:
    """Blueprint 20.1, case 10; field case 98: times, tags, expiry, verification and history kept."""
    exported = whole(furnished, deleted=True)
    report = bring(empty, exported)
    assert report["errors"] == []
    assert whole(empty, deleted=True) == exported


def test_a_second_import_changes_nothing(furnished: Api, empty: Api) -> None:
    """Field case 97: importing the own export doubled the store."""
    exported = whole(furnished, deleted=True)
    bring(empty, exported)
    assert bring(empty, exported)["errors"] == []
    assert whole(empty, deleted=True) == exported


def test_importing_the_own_export_changes_nothing(furnished: Api) -> None:
    """Field case 97."""
    exported = whole(furnished, deleted=True)
    assert bring(furnished, exported)["errors"] == []
    assert whole(furnished, deleted=True) == exported


def test_imported_memories_are_found_by_words_and_by_meaning(fresh: Api, empty: Api) -> None:
    stored = fresh.stored(subject_id="s", content="Suka minum kopi pagi", tags=["Drink"])
    bring(empty, whole(fresh))
    empty.drain()
    for query in ("kopi", "coffee in the morning"):
        assert [m["id"] for m in empty.found(query, subject_id="s")] == [stored["id"]]
    assert empty.listed(tags="drink").ids == [stored["id"]]


def test_an_imported_memory_is_the_same_identity(fresh: Api, empty: Api) -> None:
    stored = fresh.stored(subject_id="s", content="Said here and there")
    bring(empty, whole(fresh))
    again = empty.remember(subject_id="s", content="Said here and there").expect(200).data
    assert (again["id"], again["status"]) == (stored["id"], "unchanged")


def test_a_bad_line_is_reported_and_the_rest_is_imported(fresh: Api, empty: Api) -> None:
    """Field case 100: one odd record aborted the archive."""
    for n in range(5):
        fresh.stored(subject_id="s", content=f"Row {n}")
    lines = whole(fresh).splitlines(keepends=True)
    bad = {
        2: b"not json\n",
        3: dump_lines([{**json.loads(lines[2]), "content": ""}]),
        4: dump_lines([{**json.loads(lines[3]), "surprise": 1}]),
    }
    report = bring(empty, b"".join(bad.get(number, line) for number, line in enumerate(lines, 1)))
    assert {error["line"] for error in report["errors"]} >= {2, 3, 4}
    assert {m["content"] for m in empty.all_listed()} == {"Row 0", "Row 4"}


@pytest.mark.parametrize(
    "change",
    [
        {"content": "Other words"},
        {"format_version": 2},
        {"format": "other"},
        {"kind": "unknown"},
        {"subject_id": ""},
        {"created_at": "yesterday"},
        {"version": 0},
        {"confidence": 7},
        {"content": "a\0b"},
        {"tags": ["x" * 65]},
        {"id": ""},
        {"events": "none"},
    ],
    ids=str,
)
def test_a_record_that_is_none_is_a_line_error(fresh: Api, change: JsonObject) -> None:
    stored = fresh.stored(subject_id="s", content="First words")
    (record,) = records(fresh)
    answer = fresh.import_lines([{**record, **change}]).expect(200)
    assert [error["line"] for error in answer.data["errors"]][:1] == [1]
    assert fresh.read(stored["id"])["content"] == "First words"


def test_a_truncated_export_is_noticed(fresh: Api, empty: Api) -> None:
    for n in range(3):
        fresh.stored(subject_id="s", content=f"Row {n}")
    lines = whole(fresh).splitlines(keepends=True)
    assert empty.import_lines(b"".join(lines[:-1])).expect(200).data["complete"] is False
    assert empty.import_lines(b"".join(lines)).expect(200).data["complete"] is True


def test_a_tampered_export_is_noticed(fresh: Api, empty: Api) -> None:
    fresh.stored(subject_id="s", content="Row original")
    answer = empty.import_lines(whole(fresh).replace(b"Row original", b"Row tampered")).expect(200)
    assert answer.data["errors"]


def test_a_large_import_goes_in_steps(fresh: Api, empty: Api) -> None:
    """Field case 32: statements over 100 parameters."""
    at_once(lambda n: fresh.stored(subject_id="s", content=f"Row {n}", tags=[f"t{n}"]), range(250))
    exported = whole(fresh)
    first = empty.import_lines(exported).expect(200).data
    assert first["next_line"] is None or first["next_line"] > 1
    assert bring(empty, exported)["errors"] == []
    assert records(empty) == records(fresh)
    assert whole(empty) == exported


def test_an_import_starts_where_it_is_told(fresh: Api, empty: Api) -> None:
    for n in range(4):
        fresh.stored(subject_id="s", content=f"Row {n}")
    empty.import_lines(whole(fresh), from_line=3).expect(200)
    assert {m["content"] for m in empty.all_listed()} == {"Row 2", "Row 3"}


def test_a_line_over_the_bound_is_an_error_and_the_rest_is_imported(fresh: Api, empty: Api) -> None:
    fresh.stored(subject_id="s", content="Row")
    long = b'{"content": "' + b"x" * 1024 * 1024 + b'"}\n'
    answer = empty.import_lines(long + whole(fresh))
    assert answer.status in (200, 413), answer.describe()
    if answer.status == 200:
        assert answer.data["errors"][0]["line"] == 1
        assert [m["content"] for m in empty.all_listed()] == ["Row"]


@pytest.mark.parametrize("limit", ["0", "-1", "101", "x"])
def test_an_export_limit_out_of_bounds_is_refused(fresh: Api, limit: str) -> None:
    fresh.export(limit=limit).refused("limit")


def test_a_foreign_or_broken_export_cursor_shows_nothing(fresh: Api, foreign: Api) -> None:
    fresh.export(after="garbage").refused("after")
    for n in range(2):
        foreign.stored(subject_id="s", content=f"Foreign row {n}")
    cursor = summary(foreign.export(limit=1))["next"]
    answer = fresh.export(after=cursor)
    assert b"Foreign row" not in answer.content


def test_export_is_jsonl(fresh: Api) -> None:
    assert fresh.export().expect(200).headers["content-type"].startswith("application/x-ndjson")
