"""Export and import: a store moves whole, in steps, and comes out the same (contract: Portability)."""

import hashlib
import json
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.contract.client import Answer, Api, JsonObject, dump_lines
from tests.contract.expired import expired
from tests.contract.parallel import at_once
from tests.runtimes.base import Runtime

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


@pytest.fixture(scope="module")
def library(runtime: Runtime, http: httpx.Client) -> Api:
    """A human admin of a library tenant, which tests only read."""
    owner = Api(http, runtime.new_tenant("library").admin.api_key)
    key = owner.create_key(principal="bot", kind="agent", role="writer").expect(201).data
    furnish(owner, Api(http, key["api_key"]))
    return owner


@pytest.fixture(scope="module")
def copy(runtime: Runtime, http: httpx.Client, library: Api) -> Api:
    """A human admin of a tenant that holds what was imported from the library and nothing else."""
    owner = Api(http, runtime.new_tenant("copy").admin.api_key)
    assert bring(owner, whole(library, deleted=True))["errors"] == []
    return owner


@pytest.fixture(scope="module")
def here(runtime: Runtime, http: httpx.Client) -> Api:
    """A human admin of the tenant that tests export from, each a subject of its own."""
    return Api(http, runtime.new_tenant("here").admin.api_key)


@pytest.fixture(scope="module")
def there(runtime: Runtime, http: httpx.Client) -> Api:
    """A human admin of the tenant that tests import into."""
    return Api(http, runtime.new_tenant("there").admin.api_key)


def lines_of(api: Api, subject: str) -> list[bytes]:
    """The exported lines of one subject, without a summary."""
    return [dump_lines([record]) for record in records(api) if record["subject_id"] == subject]


def page_of(lines: list[bytes]) -> bytes:
    """The lines as an export's last page."""
    body = b"".join(lines)
    told = {"format": "titen-memory-summary", "format_version": 1, "records": len(lines), "next": None}
    return body + dump_lines([{**told, "sha256": hashlib.sha256(body).hexdigest()}])


def test_a_record_carries_every_canonical_field_and_nothing_else(library: Api) -> None:
    exported = records(library)
    by_content = {record["content"]: record for record in exported}
    full = by_content["Uses emacs"]
    memory = library.read(full["id"])
    assert (full["format"], full["format_version"]) == ("titen-memory", 1)
    for name in memory:
        if name not in ("index_status", "semantic_ready", "status"):
            assert full[name] == memory[name], name
    assert [e["event_type"] for e in full["events"]] == ["add", "update"]
    assert {e["actor"] for e in full["events"]} == {library.principal().data["principal"]}
    text = json.dumps(exported)
    for private in ("vector", "embedding", "index_status", "secret", "api_key", "exported_at", "tenant_id"):
        assert private not in text


def test_records_come_in_order_of_creation(library: Api) -> None:
    order = [(record["created_at"], record["id"]) for record in records(library)]
    assert order == sorted(order)
    assert len(order) == 7


def test_tombstones_come_when_asked(library: Api) -> None:
    without, with_ = records(library), records(library, deleted=True)
    assert "Tombstone words" not in json.dumps(without)
    assert [r["content"] for r in with_ if r["deleted_at"] is not None] == ["Tombstone words"]
    assert len(with_) == len(without) + 1


def test_a_page_ends_with_a_summary_that_proves_it(library: Api) -> None:
    seen = 0
    for page in pages(library, limit=3):
        body, _, last = page.content.rstrip(b"\n").rpartition(b"\n")
        told = json.loads(last)
        assert told["sha256"] == hashlib.sha256(body + b"\n").hexdigest()
        seen += len(page.lines) - 1
        assert len(page.lines) <= 4
    assert seen == 7


def test_pages_of_any_size_hold_the_same_records(library: Api) -> None:
    assert records(library, limit=2) == records(library, limit=100)


def test_an_export_is_the_same_when_repeated(library: Api) -> None:
    assert whole(library) == whole(library)


def test_a_round_trip_gives_the_same_bytes(library: Api, copy: Api) -> None:
    """Blueprint 20.1, case 10; field case 98: times, tags, expiry, verification and history kept."""
    assert whole(copy, deleted=True) == whole(library, deleted=True)


def test_a_round_trip_of_many_pages_gives_the_same_bytes(library: Api, copy: Api) -> None:
    assert whole(copy, limit=2) == whole(library, limit=2)


def test_a_second_import_changes_nothing(library: Api, copy: Api) -> None:
    """Field case 97: importing the own export doubled the store."""
    exported = whole(library, deleted=True)
    assert bring(copy, exported)["errors"] == []
    assert whole(copy, deleted=True) == exported


def test_importing_the_own_export_changes_nothing(library: Api) -> None:
    """Field case 97."""
    exported = whole(library, deleted=True)
    assert bring(library, exported)["errors"] == []
    assert whole(library, deleted=True) == exported


def test_imported_memories_are_found_by_words_and_by_meaning(here: Api, there: Api, subject: str) -> None:
    stored = here.stored(subject_id=subject, content="Suka minum kopi pagi", tags=["Drink"])
    bring(there, page_of(lines_of(here, subject)))
    there.wait_until_indexed(stored["id"])
    for query in ("kopi", "coffee in the morning"):
        assert [m["id"] for m in there.found(query, subject_id=subject)] == [stored["id"]]
    assert there.listed(subject_id=subject, tags="drink").ids == [stored["id"]]


def test_an_imported_memory_is_the_same_identity(here: Api, there: Api, subject: str) -> None:
    stored = here.stored(subject_id=subject, content="Said here and there")
    bring(there, page_of(lines_of(here, subject)))
    again = there.remember(subject_id=subject, content="Said here and there").expect(200).data
    assert (again["id"], again["status"]) == (stored["id"], "unchanged")


def test_an_import_may_bring_an_id_that_another_tenant_has(here: Api, there: Api, subject: str) -> None:
    stored = here.stored(subject_id=subject, content="Theirs to keep")
    bring(there, page_of(lines_of(here, subject)))
    there.patch(stored["id"], content="Mine now").expect(200)
    assert here.read(stored["id"])["content"] == "Theirs to keep"


def test_a_deleted_memory_is_gone_from_the_export(here: Api, subject: str) -> None:
    memory = here.stored(subject_id=subject, content="Not for export")
    here.delete(memory["id"]).expect(200)
    assert lines_of(here, subject) == []


def test_a_bad_line_is_reported_and_the_rest_is_imported(here: Api, there: Api, subject: str) -> None:
    """Field case 100: one odd record aborted the archive."""
    for n in range(5):
        here.stored(subject_id=subject, content=f"Row {n}")
    lines = lines_of(here, subject)
    lines[1] = b"not json\n"
    lines[2] = dump_lines([{**json.loads(lines[2]), "content": ""}])
    lines[3] = dump_lines([{**json.loads(lines[3]), "surprise": 1}])
    report = bring(there, page_of(lines))
    assert [error["line"] for error in report["errors"]] == [2, 3, 4]
    assert {m["content"] for m in there.all_listed(subject_id=subject)} == {"Row 0", "Row 4"}


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
def test_a_record_that_is_none_is_a_line_error(here: Api, subject: str, change: JsonObject) -> None:
    stored = here.stored(subject_id=subject, content="First words")
    (line,) = lines_of(here, subject)
    answer = here.import_lines([{**json.loads(line), **change}]).expect(200)
    assert [error["line"] for error in answer.data["errors"]] == [1]
    assert here.read(stored["id"])["content"] == "First words"


def test_a_truncated_export_is_noticed(here: Api, there: Api, subject: str) -> None:
    for n in range(3):
        here.stored(subject_id=subject, content=f"Row {n}")
    lines = lines_of(here, subject)
    assert there.import_lines(b"".join(lines)).expect(200).data["complete"] is False
    assert there.import_lines(page_of(lines)).expect(200).data["complete"] is True


def test_a_tampered_export_is_noticed(here: Api, there: Api, subject: str) -> None:
    here.stored(subject_id=subject, content="Row original")
    tampered = page_of(lines_of(here, subject)).replace(b"Row original", b"Row tampered")
    assert there.import_lines(tampered).expect(200).data["errors"]


def test_a_large_import_goes_in_steps(here: Api, there: Api, subject: str) -> None:
    """Field case 32: statements over 100 parameters."""
    at_once(lambda n: here.stored(subject_id=subject, content=f"Row {n}", tags=[f"t{n}"]), range(250))
    lines = lines_of(here, subject)
    first = there.import_lines(page_of(lines)).expect(200).data
    assert first["next_line"] is None or first["next_line"] > 1
    assert bring(there, page_of(lines))["errors"] == []
    assert lines_of(there, subject) == lines


def test_an_import_starts_where_it_is_told(here: Api, there: Api, subject: str) -> None:
    for n in range(4):
        here.stored(subject_id=subject, content=f"Row {n}")
    there.import_lines(page_of(lines_of(here, subject)), from_line=3).expect(200)
    assert {m["content"] for m in there.all_listed(subject_id=subject)} == {"Row 2", "Row 3"}


def test_a_line_over_the_bound_is_an_error_and_the_rest_is_imported(here: Api, there: Api, subject: str) -> None:
    here.stored(subject_id=subject, content="Row")
    long = b'{"content": "' + b"x" * 1024 * 1024 + b'"}\n'
    answer = there.import_lines(long + b"".join(lines_of(here, subject))).expect(200)
    assert [error["line"] for error in answer.data["errors"]] == [1]
    assert [m["content"] for m in there.all_listed(subject_id=subject)] == ["Row"]


@pytest.mark.parametrize("limit", ["0", "-1", "101", "x"])
def test_an_export_limit_out_of_bounds_is_refused(library: Api, limit: str) -> None:
    library.export(limit=limit).refused("limit")


def test_a_broken_export_cursor_is_refused(library: Api) -> None:
    library.export(after="garbage").refused("after")


def test_a_foreign_export_cursor_shows_nothing_of_it(here: Api, library: Api) -> None:
    answer = here.export(after=summary(library.export(limit=1))["next"])
    assert answer.status in (200, 400)
    assert b"Uses emacs" not in answer.content


def test_export_is_jsonl(library: Api) -> None:
    assert library.export().expect(200).headers["content-type"].startswith("application/x-ndjson")


@pytest.mark.parametrize("kind", ["agent", "service"])
def test_only_a_human_brings_in_what_a_human_said(runtime: Runtime, fresh: Api, subject: str, kind: str) -> None:
    """Else an import would be a way for an agent to verify, or to speak as a person."""
    origin = Api(fresh.http, runtime.new_tenant().admin.api_key)
    human = origin.stored(subject_id=subject, content="Written by a person")
    made = origin.create_key(principal=f"writer-{subject}", kind=kind, role="writer").expect(201).data
    noted = Api(fresh.http, made["api_key"]).stored(subject_id=subject, content="Noted by an agent")
    verified = Api(fresh.http, made["api_key"]).stored(subject_id=subject, content="Noted, and verified")
    origin.verify(verified["id"]).expect(200)
    lines = records(origin)
    named = {"principal": f"admin-{subject}", "kind": kind, "role": "admin"}
    agent = Api(fresh.http, fresh.create_key(**named).expect(201).data["api_key"])
    report = agent.import_lines(lines).expect(200).data
    assert (report["imported"], report["failed"]) == (1, 2)
    assert all("human admin" in error["message"] for error in report["errors"])
    agent.read(noted["id"])
    for memory in (human, verified):
        agent.get(memory["id"]).expect(404)
    assert fresh.import_lines(lines).expect(200).data["imported"] == 2


@pytest.mark.parametrize("said", [{"author": "human"}, {"verified": True}, {"actor": "jwt:Rina"}], ids=str)
def test_an_agent_brings_in_no_history_of_a_humans_words(fresh: Api, subject: str, said: dict[str, Any]) -> None:
    """The record of today is an agent's; what a human is said to have done stands in its past."""
    named = {"principal": f"admin-{subject}", "kind": "agent", "role": "admin"}
    agent = Api(fresh.http, fresh.create_key(**named).expect(201).data["api_key"])
    memory = agent.stored(subject_id=subject, content="First words")
    agent.patch(memory["id"], content="Other words").expect(200)
    (line,) = records(fresh)
    first = line["events"][0]
    first["actor"] = said.get("actor", first["actor"])
    first["snapshot"] |= {name: value for name, value in said.items() if name != "actor"}
    line |= {"id": str(uuid.uuid4()), "subject_id": f"{subject}-2"}
    for event in line["events"]:
        event["id"] = str(uuid.uuid4())
        event["snapshot"]["subject_id"] = line["subject_id"]
    report = agent.import_lines([line]).expect(200).data
    assert (report["imported"], report["failed"]) == (0, 1)
    assert "human admin" in report["errors"][0]["message"]
    assert fresh.import_lines([line]).expect(200).data["imported"] == 1


def test_a_record_and_its_last_event_say_the_same(fresh: Api, subject: str) -> None:
    fresh.stored(subject_id=subject, content="True words")
    (line,) = records(fresh)
    line |= {"id": str(uuid.uuid4()), "content": "Other words"}
    report = fresh.import_lines([line]).expect(200).data
    assert (report["imported"], report["failed"]) == (0, 1)
    assert "events[0].snapshot" in report["errors"][0]["message"]
