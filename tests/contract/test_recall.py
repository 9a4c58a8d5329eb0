"""Recall: the few memories that matter now (contract: Recall)."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.contract.client import Api, JsonObject, Ledger
from tests.contract.conftest import MakeCaller
from tests.contract.parallel import at_once
from tests.runtimes.base import Runtime, Tenant

ITEM_FIELDS = {
    "id",
    "content",
    "kind",
    "category",
    "key",
    "tags",
    "priority",
    "author",
    "verified",
    "confidence",
    "source",
    "metadata",
    "subject_id",
    "agent_id",
    "run_id",
    "version",
    "created_at",
    "updated_at",
    "expires_at",
    "index_status",
    "score",
}
SCORE_PARTS = {"vector_rank", "text_rank", "overlay_rank", "rrf_score", "similarity"}
CHANNEL_STATES = {"ok", "partial", "degraded", "off"}
BY_MEANING = "likes to drink coffee in the morning"
MEANT = "Suka minum kopi pagi"


def contents(items: list[JsonObject]) -> list[str]:
    return [item["content"] for item in items]


def test_a_memory_is_recalled_at_once(api: Api, subject: str) -> None:
    memory = api.stored(subject_id=subject, content="The deploy key lives in the blue vault")
    items = api.found("blue vault", subject_id=subject)
    assert [item["id"] for item in items] == [memory["id"]]


def test_an_item_tells_the_memory_and_its_score_and_no_embedding(api: Api, subject: str) -> None:
    stored = api.stored(subject_id=subject, content="Fields of an item", tags=["t"], metadata={"a": [1]})
    (item,) = api.found("fields item", subject_id=subject)
    assert set(item) >= ITEM_FIELDS
    assert not {name for name in item if "embedding" in name or name == "vector" or name == "seq"}
    assert set(item["score"]) == SCORE_PARTS
    assert item["score"]["text_rank"] == 1
    assert item["score"]["rrf_score"] > 0
    same = ITEM_FIELDS - {"score", "index_status"}
    assert {name: item[name] for name in same} == {name: stored[name] for name in same}


def test_the_answer_tells_scope_channels_and_time(api: Api, subject: str) -> None:
    """Field case 50: an empty answer could not be told from a wrong scope."""
    answer = api.search("nothing here yet", subject_id=subject, agent_id="bot", run_id="r1").expect(200)
    assert answer.data == []
    assert answer.meta["scope"] == {"subject_id": subject, "agent_id": "bot", "run_id": "r1"}
    assert set(answer.meta["channels"]) == {"vector", "text", "overlay"}
    assert set(answer.meta["channels"].values()) <= CHANNEL_STATES
    assert answer.meta["degraded"] == {"semantic": False, "lexical": False}
    assert answer.meta["took_ms"] >= 0


def test_a_locked_key_is_told_the_subject_it_searched(caller: MakeCaller, subject: str) -> None:
    """Field case 50."""
    answer = caller("reader", "agent", subject).search("anything").expect(200)
    assert answer.meta["scope"]["subject_id"] == subject


def test_a_tenant_wide_key_may_search_all_subjects(api: Api, subject: str) -> None:
    ids = {api.stored(subject_id=f"{subject}-{n}", content=f"Found across {subject}")["id"] for n in range(3)}
    answer = api.search(subject, limit=20).expect(200)
    assert ids <= set(answer.ids)
    assert answer.meta["scope"]["subject_id"] is None


@pytest.mark.parametrize("field", ["agent_id", "run_id"])
def test_agent_and_run_narrow_the_scope(api: Api, subject: str, field: str) -> None:
    api.stored(subject_id=subject, content="Narrow me, wide")
    inside = api.stored(subject_id=subject, content="Narrow me, inside", **{field: "x"})
    api.stored(subject_id=subject, content="Narrow me, outside", **{field: "y"})
    assert [m["id"] for m in api.found("narrow me", subject_id=subject, **{field: "x"})] == [inside["id"]]


@pytest.mark.needs_control
def test_a_paraphrase_without_shared_words_is_found_by_meaning(api: Api, subject: str) -> None:
    for other in ("Rapat tim jam dua", "The office printer is on floor three", "Nomor antrean 17"):
        api.stored(subject_id=subject, content=other)
    memory = api.stored(subject_id=subject, content=MEANT)
    api.wait_until_indexed(memory["id"])
    first = api.found(BY_MEANING, subject_id=subject)[0]
    assert (first["id"], first["score"]["vector_rank"]) == (memory["id"], 1)
    assert first["score"]["text_rank"] is None
    assert first["score"]["similarity"] > 0.8


def test_the_issues_own_example_comes_first(api: Api, subject: str) -> None:
    memory = api.stored(subject_id=subject, content="Pengguna lebih suka naik kereta")
    api.stored(subject_id=subject, content="The invoice number is 4711")
    api.wait_until_indexed(memory["id"])
    assert api.found("How does the user like to travel?", subject_id=subject)[0]["id"] == memory["id"]


def test_a_hit_of_both_channels_tells_both_ranks(api: Api, subject: str) -> None:
    memory = api.stored(subject_id=subject, content="Espresso machine manual")
    api.wait_until_indexed(memory["id"])
    (item,) = api.found("espresso machine manual", subject_id=subject)
    assert (item["score"]["vector_rank"], item["score"]["text_rank"]) == (1, 1)
    assert item["score"]["similarity"] == pytest.approx(1, abs=0.01)


def test_the_limit_is_five_unless_said_and_is_kept(api: Api, subject: str) -> None:
    at_once(lambda n: api.stored(subject_id=subject, content=f"Common phrase number {n}"), range(24))
    assert len(api.found("common phrase", subject_id=subject)) == 5
    for limit in (1, 6, 20):
        assert len(api.found("common phrase", subject_id=subject, limit=limit)) == limit


def test_the_same_question_gets_the_same_answer(api: Api, subject: str) -> None:
    rows = at_once(lambda n: api.stored(subject_id=subject, content=f"Same phrase {'again ' * (n % 3)}{n}"), range(12))
    api.wait_until_indexed(*(row["id"] for row in rows))
    first = api.found("same phrase again", subject_id=subject, limit=20)
    for _ in range(3):
        assert api.found("same phrase again", subject_id=subject, limit=20) == first


def test_ties_are_broken_by_insertion_order(api: Api, subject: str) -> None:
    event = {"subject_id": subject, "kind": "episodic", "content": "Door opened"}
    ids = [api.stored(**event, source={"ref": f"turn-{n}"})["id"] for n in range(6)]
    api.wait_until_indexed(*ids)
    assert [m["id"] for m in api.found("door opened", subject_id=subject, limit=20)] == ids


def test_scores_never_rise_down_the_list(api: Api, subject: str) -> None:
    at_once(lambda n: api.stored(subject_id=subject, content=f"Ranked {'row ' * n}{n}"), range(8))
    scores = [m["score"]["rrf_score"] for m in api.found("ranked row 3", subject_id=subject, limit=20)]
    assert scores == sorted(scores, reverse=True)


def test_searching_changes_nothing(api: Api, subject: str) -> None:
    """Field case 94: reads took a write."""
    memory = api.stored(subject_id=subject, content="Look at me")
    api.wait_until_indexed(memory["id"])
    before = api.read(memory["id"])
    api.found("look at me", subject_id=subject)
    assert api.read(memory["id"]) == before
    assert len(api.events(memory["id"])) == 1


def test_nothing_relevant_is_an_answer(api: Api, subject: str) -> None:
    api.stored(subject_id=subject, content="Grows tomatoes")
    answer = api.search("zxqv wvut", subject_id=subject).expect(200)
    assert all(item["score"]["text_rank"] is None for item in answer.data)
    assert answer.meta["channels"]["text"] == "ok"


def test_deleted_hits_eat_no_slots(api: Api, subject: str) -> None:
    """Field case 52: five deleted better matches left the live one out."""
    live = api.stored(subject_id=subject, content="The launch code was mentioned once in a long story about code")
    better = [api.stored(subject_id=subject, content=f"launch code {n}")["id"] for n in range(5)]
    api.wait_until_indexed(*better)
    for memory_id in better:
        api.delete(memory_id).expect(200)
    assert [m["id"] for m in api.found("launch code", subject_id=subject, limit=1)] == [live["id"]]


@pytest.mark.needs_control
def test_a_changed_memory_is_found_by_its_new_words_only(api: Api, subject: str) -> None:
    """Blueprint 20.1, case 3: an update raises the version and a stale vector is refused."""
    memory = api.stored(subject_id=subject, content=MEANT)
    api.wait_until_indexed(memory["id"])
    api.patch(memory["id"], content="Sekolah dekat pasar").expect(200)
    api.wait_until_indexed(memory["id"])
    old = api.found(BY_MEANING, subject_id=subject)
    assert all(m["score"]["similarity"] is None or m["score"]["similarity"] < 0.5 for m in old)
    assert all(m["score"]["text_rank"] is None for m in api.found("kopi", subject_id=subject))
    assert contents(api.found("school near the market", subject_id=subject)) == ["Sekolah dekat pasar"]


@pytest.mark.parametrize("channel", ["text", "meaning"])
def test_subjects_never_mix(api: Api, subject: str, channel: str) -> None:
    """Field case 70: search crossed users."""
    mine = api.stored(subject_id=subject, content=MEANT)
    theirs = api.stored(subject_id=f"{subject}-2", content=f"{MEANT} {MEANT}")
    api.wait_until_indexed(mine["id"], theirs["id"])
    query = MEANT if channel == "text" else BY_MEANING
    assert [m["id"] for m in api.found(query, subject_id=subject, limit=20)] == [mine["id"]]


class Crowd:
    """A hundred better matches outside of every filter, and one memory inside."""

    def __init__(self, api: Api, agent: Api, subject: str) -> None:
        self.subject = subject
        outside = {
            "agent_id": "crowd",
            "run_id": "crowd",
            "category": "note",
            "tags": ["crowd"],
            "confidence": 0.2,
        }
        rows = at_once(
            lambda n: agent.stored(
                subject_id=subject, kind="episodic", source={"ref": str(n)}, content="kopi pagi", **outside
            ),
            range(100),
        )
        after = max(row["created_at"] for row in rows)
        while api.remember(subject_id=f"{subject}-clock", content=f"{after}").data["updated_at"] <= after:
            pass
        self.chosen = api.stored(
            subject_id=subject,
            agent_id="chosen",
            run_id="chosen",
            kind="procedural",
            category="skill",
            tags=["chosen"],
            priority="critical",
            confidence=0.9,
            content="Among many other words of a long story there is also kopi, and at last there is pagi",
        )
        self.after_ms = after
        api.wait_until_indexed(self.chosen["id"], *(row["id"] for row in rows))


@pytest.fixture(scope="module")
def crowd(runtime: Runtime, http: httpx.Client, tenant: Tenant) -> Iterator[Crowd]:
    ledger = Ledger()
    admin = Api(http, tenant.admin.api_key, ledger)
    key = admin.create_key(principal="crowd", kind="agent", role="writer").expect(201).data
    yield Crowd(admin, Api(http, key["api_key"], ledger), f"crowd-{key['id']}")
    if not runtime.disposable:
        ledger.clean_up(admin)


@pytest.mark.parametrize("query", ["kopi pagi", "coffee morning"], ids=["text", "meaning"])
@pytest.mark.parametrize(
    "inside",
    [
        {"agent_id": "chosen"},
        {"run_id": "chosen"},
        {"kind": ["procedural"]},
        {"kind": ["procedural", "semantic"]},
        {"category": ["skill"]},
        {"tags": ["Chosen"]},
        {"tags": ["chosen", "nobody"], "tags_match": "any"},
        {"priority": ["critical"]},
        {"priority": ["high", "critical"]},
        {"verified": True},
        {"author": ["human"]},
        {"min_confidence": 0.5},
        {"created_after": "after"},
        {"updated_after": "after"},
    ],
    ids=str,
)
def test_better_rows_outside_a_filter_never_hide_the_one_inside(
    api: Api, crowd: Crowd, query: str, inside: dict[str, Any]
) -> None:
    """Field cases 32, 35 and 43: filters applied after the cut under-filtered."""
    filters = {name: crowd.after_ms if value == "after" else value for name, value in inside.items()}
    items = api.found(query, subject_id=crowd.subject, limit=1, **filters)
    assert [m["id"] for m in items] == [crowd.chosen["id"]]


def test_the_crowd_would_win_without_a_filter(api: Api, crowd: Crowd) -> None:
    ids = [m["id"] for m in api.found("kopi pagi", subject_id=crowd.subject, limit=20)]
    assert len(ids) == 20
    assert crowd.chosen["id"] not in ids


@pytest.mark.parametrize(
    "outside",
    [
        {"agent_id": "nobody"},
        {"tags": ["nobody"]},
        {"priority": ["low"]},
        {"author": ["service"]},
        {"min_confidence": 0.95},
        {"created_before": 1},
        {"updated_before": 1},
        {"created_after": 4_102_444_800_000},
        {"tags": ["chosen", "crowd"], "tags_match": "all"},
        {"verified": True, "author": ["agent"]},
    ],
    ids=str,
)
def test_a_filter_that_nobody_passes_gives_nothing(api: Api, crowd: Crowd, outside: dict[str, Any]) -> None:
    """Field case 47."""
    assert api.found("kopi pagi", subject_id=crowd.subject, limit=20, **outside) == []
