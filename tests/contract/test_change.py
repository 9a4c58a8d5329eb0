"""Change: PATCH, conditional writes, and the history of every change (contract: Change)."""

from collections import Counter
from typing import Any

import pytest

from tests.contract.client import Api
from tests.contract.parallel import at_once

UNKNOWN = "01900000-0000-7000-8000-000000000000"
LATER_MS = 4_102_444_800_000


def test_a_patch_changes_what_it_names_and_nothing_else(api: Api, subject: str) -> None:
    """Field case 56: editing the text wiped the metadata."""
    before = api.stored(
        subject_id=subject,
        content="Drinks tea",
        tags=["drink"],
        metadata={"kept": {"deep": 1}},
        source={"type": "chat", "ref": "turn-1"},
        priority="high",
        expires_at=LATER_MS,
    )
    after = api.patch(before["id"], content="Drinks coffee").expect(200).data
    assert (after["content"], after["version"]) == ("Drinks coffee", 2)
    changed = {"content", "version", "updated_at", "index_status", "verified_at", "status", "semantic_ready"}
    assert {n: v for n, v in after.items() if n not in changed} == {n: v for n, v in before.items() if n not in changed}
    read = api.read(before["id"])
    assert {name: after[name] for name in read} == read


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("content", "New words"),
        ("tags", ["New", "tags"]),
        ("tags", []),
        ("priority", "critical"),
        ("confidence", 0.0),
        ("source", {"type": "chat", "ref": "turn-2"}),
        ("expires_at", LATER_MS),
        ("metadata", {"a": 1}),
    ],
)
def test_each_mutable_field_can_be_patched(api: Api, subject: str, field: str, value: Any) -> None:
    memory = api.stored(subject_id=subject, content="Old words", tags=["old"])
    after = api.patch(memory["id"], **{field: value}).expect(200).data
    assert (after[field], after["version"]) == (value, 2)
    assert api.read(memory["id"])[field] == value


@pytest.mark.parametrize(("field", "cleared"), [("expires_at", None), ("source", None), ("metadata", {})], ids=str)
def test_null_clears(api: Api, subject: str, field: str, cleared: object) -> None:
    given = {"expires_at": LATER_MS, "source": {"type": "chat", "ref": "r"}, "metadata": {"a": 1}}
    memory = api.stored(subject_id=subject, content="Clear my fields", **given)
    after = api.patch(memory["id"], **{field: None}).expect(200).data
    assert after[field] == cleared
    assert {n: after[n] for n in given if n != field} == {n: v for n, v in given.items() if n != field}


def test_null_does_not_clear_the_content(api: Api, subject: str) -> None:
    memory = api.stored(subject_id=subject, content="Needed")
    api.patch(memory["id"], content=None).refused("content")
    assert api.read(memory["id"])["version"] == 1


def test_metadata_merges_by_rfc_7396(api: Api, subject: str) -> None:
    before = {"keep": 1, "drop": 2, "list": [1, 2], "deep": {"keep": "a", "drop": "b"}, "scalar": 1}
    memory = api.stored(subject_id=subject, content="Merge me", metadata=before)
    patch = {
        "drop": None,
        "list": [3],
        "deep": {"drop": None, "new": {"x": 1}},
        "scalar": {"y": 2},
        "none": None,
    }
    after = api.patch(memory["id"], metadata=patch).expect(200).data
    assert after["metadata"] == {
        "keep": 1,
        "list": [3],
        "deep": {"keep": "a", "new": {"x": 1}},
        "scalar": {"y": 2},
    }


def test_a_merge_that_would_outgrow_the_bound_is_refused(api: Api, subject: str) -> None:
    memory = api.stored(subject_id=subject, content="Grow me", metadata={"a": "x" * 5000})
    api.patch(memory["id"], metadata={"b": "y" * 5000}).refused("metadata", "8192")
    assert api.read(memory["id"])["metadata"] == {"a": "x" * 5000}


def test_a_patch_to_the_same_value_is_no_change(api: Api, subject: str) -> None:
    memory = api.stored(subject_id=subject, content="As it was", tags=["a"], metadata={"m": 1})
    after = api.patch(memory["id"], content="As it was", tags=["a"], metadata={"m": 1}).expect(200).data
    assert after["version"] == 1
    assert len(api.events(memory["id"])) == 1


@pytest.mark.parametrize("field", ["subject_id", "agent_id", "run_id", "kind", "category", "key"])
def test_identity_fields_cannot_change(api: Api, subject: str, field: str) -> None:
    fixed = {
        "subject_id": subject,
        "agent_id": "a",
        "run_id": "r",
        "kind": "semantic",
        "category": "fact",
        "key": "k",
    }
    memory = api.stored(**fixed, content="Fixed in place")
    other = {"kind": "episodic", "category": "note"}.get(field, "other")
    api.patch(memory["id"], **{field: other}).refused(field)
    assert api.read(memory["id"])["version"] == 1


@pytest.mark.parametrize("field", ["id", "author", "verified", "version", "created_at", "index_status", "tenant_id"])
def test_server_fields_cannot_be_set(api: Api, subject: str, field: str) -> None:
    """Field case 40: unknown fields were ignored."""
    memory = api.stored(subject_id=subject, content="Mine to say")
    api.patch(memory["id"], **{field: memory.get(field)}).refused(field)
    api.remember(subject_id=subject, content="Not mine to say", **{field: memory.get(field)}).refused(field)
    assert [m["version"] for m in api.all_listed(subject_id=subject)] == [1]


def test_if_match_lets_the_right_version_through(api: Api, subject: str) -> None:
    memory = api.stored(subject_id=subject, content="Version one")
    after = api.sending(If_Match="1").patch(memory["id"], content="Version two").expect(200).data
    assert after["version"] == 2


def test_expected_version_lets_the_right_version_through(api: Api, subject: str) -> None:
    memory = api.stored(subject_id=subject, content="Version one")
    assert api.patch(memory["id"], content="Version two", expected_version=1).expect(200).data["version"] == 2


@pytest.mark.parametrize("how", ["header", "field"])
@pytest.mark.parametrize("version", [1, 3, 9007199254740991])
def test_another_version_is_a_conflict_that_tells_the_current_one(
    api: Api, subject: str, how: str, version: int
) -> None:
    memory = api.stored(subject_id=subject, content="Version one")
    api.patch(memory["id"], content="Version two").expect(200)
    if how == "header":
        answer = api.sending(If_Match=str(version)).patch(memory["id"], content="Lost")
    else:
        answer = api.patch(memory["id"], content="Lost", expected_version=version)
    answer.expect(409, "VERSION_CONFLICT")
    assert 2 in answer.error["details"].values()
    assert api.read(memory["id"])["content"] == "Version two"


@pytest.mark.parametrize("value", ["abc", "1.5", "-1", "1, 2", "9" * 40])
def test_a_malformed_if_match_is_refused(api: Api, subject: str, value: str) -> None:
    memory = api.stored(subject_id=subject, content="Unconditional")
    api.sending(If_Match=value).patch(memory["id"], content="Never").refused("If-Match")
    assert api.read(memory["id"])["version"] == 1


@pytest.mark.parametrize("deleted", [False, True], ids=["live", "deleted"])
def test_content_of_another_row_of_the_same_identity_is_a_duplicate(api: Api, subject: str, deleted: bool) -> None:
    first = api.stored(subject_id=subject, content="Taken words")
    second = api.stored(subject_id=subject, content="Free words")
    if deleted:
        api.delete(first["id"]).expect(200)
    answer = api.patch(second["id"], content="Taken   words").expect(409, "DUPLICATE")
    assert first["id"] in answer.error["details"].values()
    assert api.read(second["id"])["content"] == "Free words"


def test_the_identity_follows_a_patched_content(api: Api, subject: str) -> None:
    memory = api.stored(subject_id=subject, content="Before the edit")
    api.patch(memory["id"], content="After the edit").expect(200)
    assert api.remember(subject_id=subject, content="After the edit").data["id"] == memory["id"]
    assert api.remember(subject_id=subject, content="Before the edit").expect(201).data["id"] != memory["id"]


def test_keyed_rows_may_hold_the_same_content(api: Api, subject: str) -> None:
    api.stored(subject_id=subject, category="fact", key="a", content="The same")
    other = api.stored(subject_id=subject, category="fact", key="b", content="Different")
    assert api.patch(other["id"], content="The same").expect(200).data["content"] == "The same"


def test_an_unknown_or_deleted_memory_cannot_be_patched(api: Api, subject: str) -> None:
    memory = api.stored(subject_id=subject, content="Here for now")
    api.delete(memory["id"]).expect(200)
    api.patch(memory["id"], content="Too late").expect(404, "NOT_FOUND")
    api.patch(UNKNOWN, content="Never there").expect(404, "NOT_FOUND")


def test_of_twenty_conditional_patches_at_once_one_wins(api: Api, subject: str) -> None:
    memory = api.stored(subject_id=subject, content="Contested")
    answers = at_once(lambda n: api.patch(memory["id"], content=f"Mine {n}", expected_version=1), range(20))
    assert Counter(a.status for a in answers) == {200: 1, 409: 19}
    (won,) = (a.data for a in answers if a.status == 200)
    assert api.read(memory["id"])["content"] == won["content"]


def test_twenty_patches_at_once_all_take_effect(api: Api, subject: str) -> None:
    memory = api.stored(subject_id=subject, content="Shared notebook")
    answers = at_once(lambda n: api.patch(memory["id"], metadata={f"m{n}": n}), range(20))
    assert Counter(a.status for a in answers) == {200: 20}
    after = api.read(memory["id"])
    assert after["metadata"] == {f"m{n}": n for n in range(20)}
    assert [e["version"] for e in api.events(memory["id"])] == list(range(1, 22))


def test_content_patches_at_once_leave_one_row_that_search_agrees_with(api: Api, subject: str) -> None:
    words = ["quokka", "wombat", "echidna", "dingo", "possum", "bilby", "numbat", "bandicoot", "cassowary"]
    memory = api.stored(subject_id=subject, content="Nobody yet")
    at_once(lambda word: api.patch(memory["id"], content=word).expect(200), words)
    content = api.read(memory["id"])["content"]
    answers = {word: api.found(word, subject_id=subject) for word in words}
    by_text = [word for word, items in answers.items() if any(m["score"]["text_rank"] for m in items)]
    assert by_text == [content]


def test_every_change_appends_one_event(api: Api, agent: Api, subject: str) -> None:
    memory = agent.stored(subject_id=subject, content="First words", tags=["t"])
    agent.patch(memory["id"], content="Second words").expect(200)
    api.verify(memory["id"]).expect(200)
    api.delete(memory["id"]).expect(200)
    api.restore(memory["id"]).expect(200)
    events = api.events(memory["id"])
    assert [e["event_type"] for e in events] == ["add", "update", "verify", "delete", "restore"]
    assert [e["version"] for e in events] == [1, 2, 3, 4, 5]
    assert {e["memory_id"] for e in events} == {memory["id"]}
    assert len({e["id"] for e in events}) == 5
    assert [e["snapshot"]["content"] for e in events] == ["First words", *["Second words"] * 4]
    names = [caller.principal().data["principal"] for caller in (agent, api)]
    assert [e["actor"] for e in events] == [names[0]] * 2 + [names[1]] * 3
    times = [e["created_at"] for e in events]
    assert times == sorted(times)


def test_history_comes_oldest_first_in_pages(api: Api, subject: str) -> None:
    keyed = {"subject_id": subject, "category": "note", "key": "many"}
    for n in range(7):
        memory = api.remember(**keyed, content=f"Edition {n}").data
    pages: list[list[int]] = []
    cursor: dict[str, str] = {}
    for _ in range(10):
        page = api.history(memory["id"], limit=3, **cursor).expect(200)
        pages.append([e["version"] for e in page.data])
        if not page.meta["has_more"]:
            break
        cursor = {"cursor": page.meta["next_cursor"]}
    assert pages == [[1, 2, 3], [4, 5, 6], [7]]


def test_history_of_an_unknown_memory_is_not_found(api: Api) -> None:
    api.history(UNKNOWN).expect(404, "NOT_FOUND")
