"""The `/memory` surface: Synapse's model over the same records (contract: Synapse surface)."""

import re
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.contract.client import Answer, Api, JsonObject
from tests.contract.conftest import MakeCaller
from tests.contract.parallel import at_once

ANATOMY = {
    *("id", "category", "key", "content", "tags", "priority", "source", "verified", "confidence", "expires_at"),
    *("mind_id", "created_at", "updated_at"),
}
CATEGORIES = ["identity", "preference", "fact", "project", "skill", "mistake", "context", "note"]
UNKNOWN = "01900000-0000-7000-8000-000000000000"


@pytest.fixture
def mind(caller: MakeCaller, subject: str) -> Api:
    """An agent whose key is locked to one subject: what Synapse calls a Mind Key."""
    return caller("writer", "agent", subject)


@pytest.fixture
def human(caller: MakeCaller, subject: str) -> Api:
    return caller("writer", "human", subject)


def store(api: Api, **fields: Any) -> Answer:
    return api.request("POST", "/memory", json=fields)


def kept(api: Api, **fields: Any) -> JsonObject:
    record: JsonObject = store(api, **fields).expect(201).body
    return record


def asked(api: Api, path: str = "", **params: Any) -> list[JsonObject]:
    answer = api.request("GET", f"/memory{path}", params=params or None).expect(200)
    records: list[JsonObject] = answer.body
    assert isinstance(records, list)
    return records


def keys_of(records: list[JsonObject]) -> list[str]:
    return [record["key"] for record in records]


def moment(**ahead: float) -> str:
    return (datetime.now(UTC) + timedelta(**ahead)).isoformat().replace("+00:00", "Z")


# The seed's own examples


def test_the_seeds_memory_comes_back_in_its_anatomy(mind: Api, subject: str) -> None:
    given = {
        "category": "project",
        "key": "project_synapse_status",
        "content": "Synapse v1.5.0 deployed on vps1. CI green.",
        "tags": ["synapse", "deployment", "v1.5.0"],
        "priority": "high",
        "source": "agent",
        "confidence": 0.85,
        "expires_at": None,
    }
    record = kept(mind, **given)
    assert set(record) == ANATOMY
    assert {name: record[name] for name in given} == given
    assert (record["verified"], record["mind_id"]) == (False, subject)
    for name in ("created_at", "updated_at"):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z", record[name])
    assert mind.request("GET", f"/memory/{record['id']}").expect(200).body == record


def test_the_seeds_uncertain_preference(mind: Api) -> None:
    record = kept(
        mind,
        category="preference",
        key="prefers_dark_mode",
        content="User seems to prefer dark mode (based on their IDE screenshots)",
        confidence=0.5,
        source="agent",
    )
    assert (record["confidence"], record["source"]) == (0.5, "agent")


def test_the_seeds_meeting_topic_expires(mind: Api) -> None:
    fields = {"category": "context", "key": "current_meeting_topic", "content": "Discussing Q3 roadmap"}
    assert kept(mind, **fields, expires_at="2099-06-28T00:00:00Z")["expires_at"] == "2099-06-28T00:00:00Z"
    assert store(mind, **fields, expires_at="2099-06-28T07:00:00+07:00").expect(200).body["expires_at"] == (
        "2099-06-28T00:00:00Z"
    )


def test_the_seeds_key_is_updated_and_not_duplicated(mind: Api) -> None:
    named = {"category": "project", "key": "project_synapse_status", "priority": "high"}
    first = kept(mind, **named, content="v1.4.0 deployed")
    second = store(mind, **named, content="v1.5.0 deployed").expect(200).body
    assert (second["id"], second["content"]) == (first["id"], "v1.5.0 deployed")
    assert second["created_at"] == first["created_at"]
    assert keys_of(asked(mind, category="project")) == ["project_synapse_status"]


def test_the_seeds_tag_requests(mind: Api) -> None:
    kept(mind, category="skill", key="skill_swarm", content="Runs docker swarm at home", tags=["Docker"])
    kept(mind, category="fact", key="fact_swarm", content="A swarm of bees", tags=["nature"])
    assert keys_of(asked(mind, "/by-tag", tag="docker")) == ["skill_swarm"]
    assert keys_of(asked(mind, "/search", q="swarm", tag="docker")) == ["skill_swarm"]


def test_the_seeds_verification_is_a_humans(mind: Api, human: Api) -> None:
    record = kept(mind, category="identity", key="identity_name", content="User is Michael, an engineer in Berlin")
    mind.request("POST", f"/memory/{record['id']}/verify").expect(403, "HUMAN_REQUIRED")
    verified = human.request("POST", f"/memory/{record['id']}/verify").expect(200).body
    assert (verified["verified"], verified["source"]) == (True, "agent")


def test_the_seeds_recall(mind: Api, human: Api) -> None:
    kept(mind, category="project", key="synapse_status", content="v1.5.0", priority="high", tags=["synapse"])
    kept(human, category="identity", key="user_name", content="Michael", priority="critical")
    answer = mind.request("GET", "/memory/recall").expect(200)
    assert answer.headers["content-type"].startswith("text/plain")
    text = answer.content.decode()
    assert "Memories: 2 total (1 verified, 1 unverified)" in text
    assert text.index("[001] identity (CRITICAL) [verified]") < text.index("[002] project (HIGH) [unverified]")
    assert "  Tags: synapse" in text


# Who says what


@pytest.mark.parametrize("category", CATEGORIES)
def test_eight_categories(mind: Api, category: str) -> None:
    kept(mind, category=category, key=f"{category}_x", content="Something")
    assert keys_of(asked(mind, category=category)) == [f"{category}_x"]


def test_category_and_key_are_required(mind: Api) -> None:
    store(mind, key="k", content="c").refused("category")
    store(mind, category="note", content="c").refused("key")
    store(mind, category="diary", key="k", content="c").refused("category")
    store(mind, category="note", key="k").refused("content")
    store(mind, category="note", key="k", content="c", verified=True).refused("verified")


def test_a_human_is_the_user_and_is_believed(human: Api) -> None:
    record = kept(human, category="fact", key="fact_office", content="The office is in Berlin", source="user")
    assert (record["source"], record["verified"], record["confidence"]) == ("user", True, 1.0)


@pytest.mark.parametrize("kind", ["agent", "service"])
def test_nobody_else_may_claim_to_be_the_user(caller: MakeCaller, subject: str, kind: Any) -> None:
    api = caller("admin", kind, subject)
    fields = {"category": "fact", "key": "fact_x", "content": "Said by the user, honestly"}
    store(api, **fields, source="user").expect(403, "HUMAN_REQUIRED")
    assert asked(api) == []
    record = kept(api, **fields)
    assert (record["source"], record["verified"], record["confidence"]) == ("agent", False, 0.7)
    api.request("PUT", f"/memory/{record['id']}", json={"content": "x", "source": "user"}).expect(403, "HUMAN_REQUIRED")


def test_confidence_may_be_nothing_at_all(mind: Api) -> None:
    assert kept(mind, category="note", key="note_doubt", content="Doubted", confidence=0.0)["confidence"] == 0.0


def test_an_agents_edit_clears_the_verification_and_a_humans_sets_it(mind: Api, human: Api) -> None:
    record = kept(human, category="fact", key="fact_city", content="Lives in Solo")
    by_agent = mind.request("PUT", f"/memory/{record['id']}", json={"content": "Lives in Kediri"}).expect(200).body
    assert (by_agent["verified"], by_agent["source"], by_agent["confidence"]) == (False, "agent", 0.7)
    by_human = human.request("PUT", f"/memory/{record['id']}", json={"content": "Lives in Malang"}).expect(200).body
    assert (by_human["verified"], by_human["source"], by_human["confidence"]) == (True, "user", 1.0)


# Change


def test_put_changes_the_given_fields_only(mind: Api) -> None:
    record = kept(mind, category="note", key="note_a", content="A", tags=["x"], expires_at=moment(days=3))
    body = {"priority": "critical", "expires_at": None}
    changed = mind.request("PUT", f"/memory/{record['id']}", json=body).expect(200).body
    assert changed == {**record, **body, "updated_at": changed["updated_at"]}


def test_put_takes_the_whole_record_but_never_moves_it(mind: Api) -> None:
    record = kept(mind, category="note", key="note_a", content="A")
    path = f"/memory/{record['id']}"
    whole = {"category": "note", "key": "note_a", "content": "B", "tags": ["t"]}
    assert mind.request("PUT", path, json=whole).expect(200).body["content"] == "B"
    mind.request("PUT", path, json={"key": "note_b"}).refused("key")
    mind.request("PUT", path, json={"category": "fact"}).refused("category")
    mind.request("PUT", f"/memory/{UNKNOWN}", json={"content": "B"}).expect(404, "NOT_FOUND")


def test_put_respects_if_match(mind: Api) -> None:
    record = kept(mind, category="note", key="note_a", content="A")
    path = f"/memory/{record['id']}"
    tag = mind.request("GET", path).headers["etag"]
    mind.request("PUT", path, json={"content": "B"}, headers={"If-Match": tag}).expect(200)
    mind.request("PUT", path, json={"content": "C"}, headers={"If-Match": tag}).expect(409, "VERSION_CONFLICT")


def test_a_deleted_memory_is_gone_until_its_key_is_stored_again(mind: Api) -> None:
    fields = {"category": "note", "key": "note_a", "content": "Gone"}
    record = kept(mind, **fields)
    path = f"/memory/{record['id']}"
    assert mind.request("DELETE", path).expect(200).body == {"id": record["id"], "status": "deleted"}
    assert mind.request("DELETE", path).expect(200).body["status"] == "unchanged"
    mind.request("GET", path).expect(404, "NOT_FOUND")
    assert asked(mind) == asked(mind, "/search", q="gone") == []
    assert store(mind, **fields).expect(200).body["id"] == record["id"]


def test_a_repeated_request_stores_once(mind: Api) -> None:
    sender = mind.sending(Idempotency_Key="once-and-only")
    first = store(sender, category="note", key="note_a", content="A").expect(201).body
    assert store(sender, category="note", key="note_a", content="A").expect(201).body == first


# Minds


def test_a_tenant_wide_key_names_the_mind(agent: Api, subject: str) -> None:
    fields = {"category": "note", "key": "note_a", "content": "A swarm of bees", "tags": ["bees"]}
    store(agent, **fields).refused("mind_id")
    record = kept(agent, **fields, mind_id=subject)
    assert record["mind_id"] == subject
    for path in ("", "/search?q=swarm", "/by-tag?tag=bees", "/expiring", "/recall"):
        agent.request("GET", f"/memory{path}").refused("mind_id")
        joint = "&" if "?" in path else "?"
        agent.request("GET", f"/memory{path}{joint}mind_id={subject}").expect(200)
    assert keys_of(asked(agent, mind_id=subject)) == ["note_a"]
    assert asked(agent, mind_id=f"{subject}-2") == []
    agent.request("GET", f"/memory/{record['id']}").expect(200)
    for method, more in (("GET", ""), ("DELETE", ""), ("PUT", "")):
        body = {"content": "x"} if method == "PUT" else None
        agent.request(method, f"/memory/{record['id']}{more}?mind_id=other", json=body).expect(404, "NOT_FOUND")
    store(agent, **fields, mind_id=subject).expect(200)
    agent.request("POST", f"/memory?mind_id={subject}-2", json={**fields, "mind_id": subject}).refused("mind_id")


def test_a_mind_key_reaches_no_other_mind(mind: Api, agent: Api, subject: str) -> None:
    other = kept(agent, category="note", key="note_b", content="B", mind_id=f"{subject}-2")
    for method, path in (("GET", ""), ("DELETE", ""), ("PUT", "")):
        body = {"content": "x"} if method == "PUT" else None
        mind.request(method, f"/memory/{other['id']}{path}", json=body).expect(404, "NOT_FOUND")
    store(mind, category="note", key="k", content="c", mind_id=f"{subject}-2").expect(403, "FORBIDDEN")
    mind.request("GET", f"/memory/recall?mind_id={subject}-2").expect(403, "FORBIDDEN")


def test_both_surfaces_show_the_same_records(mind: Api, api: Api, subject: str) -> None:
    record = kept(mind, category="note", key="note_a", content="A", tags=["T"])
    row = api.read(record["id"])
    assert (row["subject_id"], row["category"], row["key"], row["author"]) == (subject, "note", "note_a", "agent")
    unkeyed = mind.stored(content="Said in passing")
    shown = mind.request("GET", f"/memory/{unkeyed['id']}").expect(200).body
    assert (shown["category"], shown["key"], shown["content"]) == (None, None, "Said in passing")


# Reading


def test_lists_come_newest_first_and_lead_on(mind: Api) -> None:
    for number in range(5):
        kept(mind, category="note", key=f"note_{number}", content=f"Note {number}", tags=["all"])
    for path in ("/memory?limit=2", "/memory/by-tag?tag=ALL&limit=2"):
        seen, following = [], path
        while following:
            answer = mind.request("GET", following).expect(200)
            seen += keys_of(answer.body)
            link = re.fullmatch(r'<(.*)>; rel="next"', answer.headers.get("link", ""))
            following = link[1] if link else ""
        assert seen == [f"note_{number}" for number in (4, 3, 2, 1, 0)]


def test_a_tag_is_compared_exactly_and_without_case(mind: Api) -> None:
    kept(mind, category="note", key="with", content="Tagged", tags=["a_b"])
    kept(mind, category="note", key="near", content="Tagged", tags=["axb"])
    assert keys_of(asked(mind, "/by-tag", tag="A_B")) == ["with"]
    for nobody in ("a%", "a", "nobody has it"):
        assert asked(mind, "/by-tag", tag=nobody) == asked(mind, "/search", q="tagged", tag=nobody) == []


def test_expiring_soon_comes_soonest_first(mind: Api) -> None:
    for key, ahead in (
        ("days", {"days": 6}),
        ("hours", {"hours": 5}),
        ("weeks", {"weeks": 2}),
        ("later", {"days": 90}),
    ):
        kept(mind, category="context", key=key, content=key, expires_at=moment(**ahead))
    kept(mind, category="context", key="never", content="never")
    assert keys_of(asked(mind, "/expiring")) == ["hours", "days"]
    assert keys_of(asked(mind, "/expiring", within="6h")) == ["hours"]
    assert keys_of(asked(mind, "/expiring", within="3w")) == ["hours", "days", "weeks"]
    mind.request("GET", "/memory/expiring?within=soon").refused("within")


@pytest.mark.parametrize("offset", ["Z", "+07:00", "-11:30"])
def test_what_expires_in_two_seconds_is_hidden_at_three(mind: Api, api: Api, subject: str, offset: str) -> None:
    hours = {"Z": 0.0, "+07:00": 7.0, "-11:30": -11.5}[offset]
    local = (datetime.now(UTC) + timedelta(seconds=2, hours=hours)).replace(tzinfo=None)
    fields = {"category": "context", "key": "topic", "content": "Discussing the roadmap", "tags": ["q3"]}
    record = kept(mind, **fields, expires_at=f"{local.isoformat(timespec='milliseconds')}{offset}")
    time.sleep(3)
    for path in ("", "/search?q=roadmap", "/by-tag?tag=q3", "/expiring"):
        assert asked(mind, path) == []
    assert b"0 total" in mind.request("GET", "/memory/recall").expect(200).content
    assert b"0 total" in api.request("GET", "/v1/recall", params={"subject_id": subject}).expect(200).content
    assert api.all_listed(subject_id=subject) == api.found("roadmap", subject_id=subject) == []
    assert mind.request("GET", f"/memory/{record['id']}").expect(200).body == record
    renewed = mind.request("PUT", f"/memory/{record['id']}", json={"expires_at": moment(days=1)}).expect(200).body
    assert renewed["id"] == record["id"]
    assert keys_of(asked(mind)) == ["topic"]


def test_reading_changes_nothing(mind: Api, api: Api) -> None:
    record = kept(mind, category="note", key="note_a", content="Read me", tags=["t"], expires_at=moment(days=2))
    api.wait_until_indexed(record["id"])
    before = api.read(record["id"])
    for path in ("", "/search?q=read", "/by-tag?tag=t", "/expiring", "/recall", "/recall?q=read", f"/{record['id']}"):
        mind.request("GET", f"/memory{path}").expect(200)
    assert api.read(record["id"]) == before


def test_fifty_upserts_of_one_key_at_once_leave_one_row_and_a_gapless_history(mind: Api, api: Api) -> None:
    def write(number: int) -> Answer:
        return store(mind, category="project", key="project_status", content=f"Version {number}")

    answers = at_once(write, range(50), callers=50)
    assert sorted(answer.status for answer in answers) == [200] * 49 + [201]
    (record,) = asked(mind)
    assert {answer.body["id"] for answer in answers} == {record["id"]}
    final = api.read(record["id"])
    assert final["version"] == 50
    events = api.events(record["id"])
    assert [event["version"] for event in events] == list(range(1, 51))
    assert events[-1]["snapshot"]["content"] == final["content"] == record["content"]
    assert {event["snapshot"]["content"] for event in events} == {f"Version {number}" for number in range(50)}


# Errors are Titen's


def test_errors_are_titens(mind: Api, anyone: Api, caller: MakeCaller, subject: str) -> None:
    mind.request("GET", f"/memory/{UNKNOWN}").expect(404, "NOT_FOUND")
    mind.request("PATCH", f"/memory/{UNKNOWN}", json={}).expect(405, "METHOD_NOT_ALLOWED")
    anyone.request("GET", "/memory").expect(401, "UNAUTHENTICATED")
    reader = caller("reader", "human", subject)
    store(reader, category="note", key="k", content="c").expect(403, "FORBIDDEN")
    mind.request("GET", "/memory?nonsense=1").refused("nonsense")
    mind.request("GET", "/memory/search").refused("q")
    mind.request("GET", "/memory/by-tag").refused("tag")
    mind.request("GET", "/memory?category=diary").refused("category")
