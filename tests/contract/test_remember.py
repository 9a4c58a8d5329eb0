"""Remember: what is stored, and which two writes are one memory (contract: Identity and duplicates)."""

from collections import Counter
from typing import Any

import pytest

from tests.contract.client import Api
from tests.contract.conftest import MakeCaller
from tests.contract.expired import expired, now_ms
from tests.contract.parallel import at_once

HOUR_MS = 3_600_000


def test_a_new_memory_is_stored_with_every_default(api: Api, subject: str) -> None:
    memory = api.remember(subject_id=subject, content="Prefers window seats").expect(201).data
    assert memory["status"] == "stored"
    assert isinstance(memory["semantic_ready"], bool)
    expected: dict[str, Any] = {
        "subject_id": subject,
        "agent_id": None,
        "run_id": None,
        "kind": "semantic",
        "category": None,
        "key": None,
        "content": "Prefers window seats",
        "tags": [],
        "priority": "normal",
        "source": None,
        "metadata": {},
        "expires_at": None,
        "version": 1,
    }
    assert {name: memory[name] for name in expected} == expected
    assert type(memory["created_at"]) is int
    assert memory["created_at"] == memory["updated_at"]


def test_every_given_field_is_kept(api: Api, subject: str) -> None:
    given = {
        "subject_id": subject,
        "agent_id": "support-agent",
        "run_id": "ticket_456",
        "kind": "procedural",
        "category": "preference",
        "key": "reply_language",
        "content": "Balas dalam bahasa Indonesia.",
        "tags": ["Language", "ꦗꦮ", "a_b%"],
        "priority": "high",
        "confidence": 0.25,
        "source": {"type": "conversation", "ref": "ticket_456#turn_8"},
        "metadata": {"channel": "telegram", "n": 1.5, "deep": {"list": [1, None, True]}},
        "expires_at": now_ms() + HOUR_MS,
    }
    memory = api.stored(**given)
    assert {name: memory[name] for name in given} == given


def test_the_returned_id_can_be_read_at_once(api: Api, subject: str) -> None:
    """Field case 68: near-duplicates returned ids that did not exist."""
    for content in ("The cat sat on the mat.", "The cat sat on the mat", "the cat sat on the mat"):
        answer = api.remember(subject_id=subject, content=content)
        assert api.read(answer.data["id"])["content"] == content


def test_a_read_answers_what_the_write_answered(api: Api, subject: str) -> None:
    stored = api.stored(subject_id=subject, content="Reads agree with writes", tags=["x"])
    read = api.read(stored["id"])
    answered = {name: value for name, value in stored.items() if name not in ("status", "semantic_ready")}
    assert {name: read[name] for name in answered} == answered


def test_content_is_trimmed_and_otherwise_unchanged(api: Api, subject: str) -> None:
    kept = "Cafe\u0301  \u00a0two  spaces\n\ttab \u200bend\U0001f642"
    memory = api.stored(subject_id=subject, content=f" \n\t{kept}\r\n ")
    assert memory["content"] == kept


@pytest.mark.parametrize("name", ["session-agent:main:main", "a/b", "a b", "🙂", "../x?y#z", "é" * 128, "%00"])
def test_any_printable_subject_works_everywhere(api: Api, subject: str, name: str) -> None:
    """Field cases 34 and 49: ids with ':' or many bytes were accepted and failed later."""
    stem = subject[-12:]
    odd = f"{name[: 256 - 2 * len(stem)]}{stem}" if len(name) < 100 else f"{name[:122]}{stem}"
    memory = api.stored(subject_id=odd, agent_id=name, run_id=name, content="Odd names work")
    assert api.listed(subject_id=odd, agent_id=name).expect(200).ids == [memory["id"]]
    assert [m["id"] for m in api.found("odd names", subject_id=odd, run_id=name)] == [memory["id"]]
    assert api.read(memory["id"])["subject_id"] == odd


def test_the_same_again_is_unchanged(api: Api, subject: str) -> None:
    first = api.stored(subject_id=subject, content="Said twice")
    again = api.remember(subject_id=subject, content="Said twice").expect(200).data
    assert (again["id"], again["version"], again["status"]) == (first["id"], 1, "unchanged")
    assert len(api.events(first["id"])) == 1


@pytest.mark.parametrize("respelled", ["Café  au \n lait", "Cafe\u0301 au lait", "  Café au lait  "])
def test_spelling_by_white_space_or_composition_is_the_same_memory(api: Api, subject: str, respelled: str) -> None:
    first = api.stored(subject_id=subject, content="Café au lait")
    assert api.remember(subject_id=subject, content=respelled).expect(200).data["id"] == first["id"]
    assert len(api.all_listed(subject_id=subject)) == 1


@pytest.mark.parametrize(
    "difference",
    [
        {"agent_id": "other"},
        {"run_id": "other"},
        {"kind": "procedural"},
        {"kind": "episodic"},
        {"content": "the same words"},
    ],
    ids=str,
)
def test_a_different_scope_kind_or_letter_is_another_memory(api: Api, subject: str, difference: dict[str, str]) -> None:
    first = api.stored(subject_id=subject, content="The same words")
    second = api.stored(**{"subject_id": subject, "content": "The same words", **difference})
    assert first["id"] != second["id"]


def test_another_subject_is_another_memory(api: Api, subject: str) -> None:
    first = api.stored(subject_id=subject, content="Shared words")
    second = api.stored(subject_id=f"{subject}-2", content="Shared words")
    assert first["id"] != second["id"]


def test_a_semantic_source_is_no_part_of_the_identity(api: Api, subject: str) -> None:
    first = api.stored(subject_id=subject, content="Told in two tickets", source={"ref": "ticket-1"})
    again = api.remember(subject_id=subject, content="Told in two tickets", source={"ref": "ticket-2"})
    assert (again.expect(200).data["id"], again.data["status"]) == (first["id"], "updated")
    assert again.data["source"]["ref"] == "ticket-2"


def test_episodes_with_the_same_words_stay_two(api: Api, subject: str) -> None:
    """Field case 67: deduplication swallowed a session log."""
    event = {"subject_id": subject, "kind": "episodic", "content": "User logged in"}
    first = api.stored(**event, source={"type": "log", "ref": "turn-1"})
    second = api.stored(**event, source={"type": "log", "ref": "turn-2"})
    assert first["id"] != second["id"]


def test_an_episode_told_twice_with_its_source_is_one(api: Api, subject: str) -> None:
    event = {"subject_id": subject, "kind": "episodic", "content": "User left", "source": {"ref": "turn-9"}}
    first = api.stored(**event)
    again = api.remember(**event).expect(200).data
    assert (again["id"], again["status"]) == (first["id"], "unchanged")


def test_omitted_fields_keep_their_value(api: Api, subject: str) -> None:
    given: dict[str, Any] = {"tags": ["kept"], "priority": "critical", "metadata": {"kept": True}}
    first = api.stored(subject_id=subject, content="Keep my fields", **given, source={"type": "chat"})
    again = api.remember(subject_id=subject, content="Keep my fields").expect(200).data
    assert again["status"] == "unchanged"
    assert {name: again[name] for name in given} == given
    assert again["source"] == first["source"]


@pytest.mark.parametrize(
    "change",
    [
        {"tags": ["new"]},
        {"tags": []},
        {"priority": "low"},
        {"confidence": 0.1},
        {"metadata": {"b": 2}},
        {"source": {"type": "chat", "ref": "r"}},
        {"expires_at": 4_102_444_800_000},
    ],
    ids=str,
)
def test_a_given_field_that_differs_updates_the_same_memory(api: Api, subject: str, change: dict[str, Any]) -> None:
    before = {"tags": ["old"], "priority": "normal", "metadata": {"a": 1}}
    first = api.stored(subject_id=subject, content="Change one field", **before)
    again = api.remember(subject_id=subject, content="Change one field", **change).expect(200).data
    assert (again["id"], again["version"], again["status"]) == (first["id"], 2, "updated")
    read = api.read(first["id"])
    (name, value), *_ = change.items()
    assert read[name] == value
    assert {n: read[n] for n in before if n not in change} == {n: v for n, v in before.items() if n not in change}


def test_a_key_holds_one_memory_whose_content_changes(api: Api, subject: str) -> None:
    keyed = {"subject_id": subject, "category": "preference", "key": "editor"}
    first = api.stored(**keyed, content="Uses vim")
    again = api.remember(**keyed, content="Uses emacs").expect(200).data
    assert (again["id"], again["version"], again["status"]) == (first["id"], 2, "updated")
    assert [m["content"] for m in api.all_listed(subject_id=subject)] == ["Uses emacs"]


def test_a_key_written_the_same_again_is_unchanged(api: Api, subject: str) -> None:
    keyed = {"subject_id": subject, "category": "fact", "key": "birthday", "content": "Born in May"}
    first = api.stored(**keyed)
    again = api.remember(**keyed).expect(200).data
    assert (again["id"], again["version"], again["status"]) == (first["id"], 1, "unchanged")


def test_a_key_is_unique_in_its_category_and_subject_only(api: Api, subject: str) -> None:
    ids = {
        api.stored(subject_id=s, category=c, key=k, content="The same content")["id"]
        for s in (subject, f"{subject}-2")
        for c in ("fact", "note")
        for k in ("one", "One")
    }
    assert len(ids) == 8


def test_a_keyed_and_an_unkeyed_memory_with_the_same_words_are_two(api: Api, subject: str) -> None:
    unkeyed = api.stored(subject_id=subject, category="note", content="Lives twice")
    keyed = api.stored(subject_id=subject, category="note", key="k", content="Lives twice")
    assert unkeyed["id"] != keyed["id"]


def test_a_key_needs_a_category(api: Api, subject: str) -> None:
    api.remember(subject_id=subject, key="editor", content="Uses vim").refused("category")
    assert api.all_listed(subject_id=subject) == []


def test_a_tenant_wide_key_names_the_subject(api: Api) -> None:
    api.remember(content="About nobody").refused("subject_id")


def test_a_locked_key_may_leave_the_subject_out(caller: MakeCaller, subject: str) -> None:
    locked = caller("writer", "agent", subject)
    assert locked.stored(content="About my own subject")["subject_id"] == subject


def test_a_deleted_memory_written_again_is_restored(api: Api, subject: str) -> None:
    first = api.stored(subject_id=subject, content="Gone and back", tags=["kept"], expires_at=4_102_444_800_000)
    api.delete(first["id"]).expect(200)
    again = api.remember(subject_id=subject, content="Gone and back").expect(200).data
    assert (again["id"], again["version"], again["status"]) == (first["id"], 3, "restored")
    assert again["expires_at"] is None
    assert again["tags"] == ["kept"]
    assert [e["event_type"] for e in api.events(first["id"])] == ["add", "delete", "restore"]


def test_a_deleted_key_written_again_is_restored_with_the_new_content(api: Api, subject: str) -> None:
    keyed = {"subject_id": subject, "category": "fact", "key": "city"}
    first = api.stored(**keyed, content="Lives in Solo")
    api.delete(first["id"]).expect(200)
    again = api.remember(**keyed, content="Lives in Yogya").expect(200).data
    assert (again["id"], again["version"], again["status"]) == (first["id"], 3, "restored")
    assert again["content"] == "Lives in Yogya"


def test_an_expired_memory_written_again_is_restored(api: Api, subject: str) -> None:
    first = expired(api, subject_id=subject, content="Lapsed and back")
    again = api.remember(subject_id=subject, content="Lapsed and back").expect(200).data
    assert (again["id"], again["version"], again["status"]) == (first["id"], 2, "restored")
    assert again["expires_at"] is None
    assert [m["id"] for m in api.all_listed(subject_id=subject)] == [first["id"]]


def test_a_restoring_write_sets_the_expiry_it_brings(api: Api, subject: str) -> None:
    expired(api, subject_id=subject, content="Lapsed and renewed")
    again = api.remember(subject_id=subject, content="Lapsed and renewed", expires_at=4_102_444_800_000)
    assert (again.data["status"], again.data["expires_at"]) == ("restored", 4_102_444_800_000)


def test_a_hundred_identical_writes_at_once_make_one_row(api: Api, subject: str) -> None:
    fields = {"subject_id": subject, "content": "Said by everybody at once"}
    answers = at_once(lambda _: api.remember(**fields), range(100))
    assert Counter(a.data["status"] for a in answers) == {"stored": 1, "unchanged": 99}
    assert Counter(a.status for a in answers) == {201: 1, 200: 99}
    assert len({a.data["id"] for a in answers}) == 1
    assert len(api.all_listed(subject_id=subject)) == 1
    assert len(api.events(answers[0].data["id"])) == 1


def test_fifty_keyed_writes_at_once_make_one_row_with_a_gapless_history(api: Api, subject: str) -> None:
    keyed = {"subject_id": subject, "category": "context", "key": "counter"}
    answers = at_once(lambda n: api.remember(**keyed, content=f"Value {n}"), range(50))
    assert len({a.data["id"] for a in answers}) == 1
    (memory,) = api.all_listed(subject_id=subject)
    events = api.events(memory["id"])
    assert memory["version"] == 50
    assert [e["version"] for e in events] == list(range(1, 51))
    assert {e["snapshot"]["content"] for e in events} == {f"Value {n}" for n in range(50)}
    assert events[-1]["snapshot"]["content"] == memory["content"]


def test_writes_of_one_identity_race_a_delete_without_losing_either(api: Api, subject: str) -> None:
    fields = {"subject_id": subject, "content": "Contested"}
    memory_id = api.stored(**fields)["id"]
    at_once(lambda n: api.delete(memory_id) if n % 2 else api.remember(**fields), range(40))
    events = api.events(memory_id)
    assert [e["version"] for e in events] == list(range(1, len(events) + 1))
    kinds = [e["event_type"] for e in events]
    assert kinds == ["add", *["delete", "restore"] * (len(kinds) // 2)][: len(kinds)]
