"""List: newest first, stable cursors, honest filters."""

import time
from typing import Any

import pytest

from tests.contract.client import Api, JsonObject
from tests.contract.parallel import at_once


def fill(api: Api, subject: str, count: int) -> list[str]:
    """Ids in the order of their creation."""
    return [api.stored(subject_id=subject, content=f"Row {n}")["id"] for n in range(count)]


def apart(api: Api, subject: str, contents: list[str], **fields: Any) -> list[JsonObject]:
    """Memories with different times of creation."""
    memories = []
    for content in contents:
        memories.append(api.stored(subject_id=subject, content=content, **fields))
        time.sleep(0.003)
    return memories


def test_the_newest_comes_first(api: Api, subject: str) -> None:
    ids = fill(api, subject, 5)
    assert api.listed(subject_id=subject).expect(200).ids == ids[::-1]


def test_a_page_holds_twenty_unless_said(api: Api, subject: str) -> None:
    at_once(lambda n: api.stored(subject_id=subject, content=f"Row {n}"), range(22))
    answer = api.listed(subject_id=subject).expect(200)
    assert (len(answer.data), answer.meta["has_more"]) == (20, True)
    assert len(api.listed(subject_id=subject, limit=22).data) == 22


def test_the_last_page_says_so(api: Api, subject: str) -> None:
    fill(api, subject, 2)
    answer = api.listed(subject_id=subject, limit=2).expect(200)
    assert (answer.meta["has_more"], answer.meta["next_cursor"]) == (False, None)


def test_pages_cover_everything_once_even_while_rows_arrive(api: Api, subject: str) -> None:
    ids = fill(api, subject, 11)
    seen: list[str] = []
    cursor: JsonObject = {}
    for _ in range(20):
        page = api.listed(subject_id=subject, limit=3, **cursor).expect(200)
        seen += page.ids
        api.stored(subject_id=subject, content=f"Newcomer {len(seen)}")
        if not page.meta["has_more"]:
            break
        cursor = {"cursor": page.meta["next_cursor"]}
    assert seen == ids[::-1]


def test_rows_of_the_same_instant_are_paged_without_gaps(api: Api, subject: str) -> None:
    answers = at_once(lambda n: api.stored(subject_id=subject, content=f"Burst {n}"), range(40))
    seen: list[str] = []
    cursor: JsonObject = {}
    while True:
        page = api.listed(subject_id=subject, limit=7, **cursor).expect(200)
        seen += page.ids
        if not page.meta["has_more"]:
            break
        cursor = {"cursor": page.meta["next_cursor"]}
    assert len(seen) == len(set(seen)) == 40
    assert set(seen) == {m["id"] for m in answers}


def test_a_cursor_survives_the_deletion_of_its_row(api: Api, subject: str) -> None:
    ids = fill(api, subject, 6)
    page = api.listed(subject_id=subject, limit=3).expect(200)
    api.delete(page.ids[-1]).expect(200)
    rest = api.listed(subject_id=subject, limit=3, cursor=page.meta["next_cursor"]).expect(200)
    assert rest.ids == ids[:3][::-1]


@pytest.mark.parametrize("cursor", ["garbage", "e30", "AAAA", "%00", "1", "x" * 3000, "Ω", "eyJhIjoxfQ=="])
def test_a_cursor_that_is_none_is_refused(api: Api, subject: str, cursor: str) -> None:
    api.listed(subject_id=subject, cursor=cursor).refused("cursor")


def test_a_listed_memory_is_the_one_that_is_read(api: Api, subject: str) -> None:
    memory = api.stored(subject_id=subject, content="One shape", tags=["a"], metadata={"x": 1})
    api.wait_until_indexed(memory["id"])
    (item,) = api.listed(subject_id=subject).data
    assert item == api.read(memory["id"])


def test_an_unknown_subject_has_nothing(api: Api, subject: str) -> None:
    answer = api.listed(subject_id=subject).expect(200)
    assert (answer.data, answer.meta["has_more"]) == ([], False)


@pytest.mark.parametrize(
    ("fields", "inside"),
    [
        ({"agent_id": "a"}, {"agent_id": "a"}),
        ({"run_id": "r"}, {"run_id": "r"}),
        ({"kind": "procedural"}, {"kind": "procedural"}),
        ({"category": "skill"}, {"category": "skill"}),
        ({"tags": ["x"]}, {"tags": "X"}),
        ({"priority": "low"}, {"priority": "low"}),
        ({"confidence": 0.95}, {"min_confidence": 0.95}),
    ],
    ids=str,
)
def test_each_filter_keeps_the_matching_rows(agent: Api, subject: str, fields: JsonObject, inside: JsonObject) -> None:
    agent.stored(subject_id=subject, content="Plain row")
    memory = agent.stored(subject_id=subject, content="Special row", **fields)
    assert agent.listed(subject_id=subject, **inside).expect(200).ids == [memory["id"]]


def test_author_and_verified_filter(api: Api, agent: Api, subject: str) -> None:
    human = api.stored(subject_id=subject, content="By a human")
    other = agent.stored(subject_id=subject, content="By an agent")
    assert api.listed(subject_id=subject, author="human").ids == [human["id"]]
    assert api.listed(subject_id=subject, author="agent").ids == [other["id"]]
    assert api.listed(subject_id=subject, verified=True).ids == [human["id"]]
    assert api.listed(subject_id=subject, verified=False).ids == [other["id"]]
    assert api.listed(subject_id=subject, author="service").ids == []


def test_filters_add_up(api: Api, subject: str) -> None:
    api.stored(subject_id=subject, content="one", tags=["x"], priority="low")
    both = api.stored(subject_id=subject, content="two", tags=["x"], priority="high")
    api.stored(subject_id=subject, content="three", priority="high")
    assert api.listed(subject_id=subject, tags="x", priority="high").ids == [both["id"]]


def test_pages_keep_their_filter(api: Api, subject: str) -> None:
    for n in range(8):
        api.stored(subject_id=subject, content=f"Row {n}", tags=["even" if n % 2 == 0 else "odd"])
    contents = [m["content"] for m in api.all_listed(subject_id=subject, tags="even")]
    first = api.listed(subject_id=subject, tags="even", limit=2)
    second = api.listed(subject_id=subject, tags="even", limit=2, cursor=first.meta["next_cursor"])
    assert contents == ["Row 6", "Row 4", "Row 2", "Row 0"]
    assert [m["content"] for m in first.data + second.data] == contents


def test_created_and_updated_windows_are_two_things(api: Api, subject: str) -> None:
    """Field case 61: the "created" window filtered on the update time."""
    old, new = apart(api, subject, ["Old row", "New row"])
    time.sleep(0.003)
    between = old["created_at"] + 1
    updated = api.patch(old["id"], content="Old row, edited").expect(200).data["updated_at"]
    assert api.listed(subject_id=subject, created_before=between).ids == [old["id"]]
    assert api.listed(subject_id=subject, created_after=between).ids == [new["id"]]
    assert api.listed(subject_id=subject, updated_after=updated - 1).ids == [old["id"]]
    assert api.listed(subject_id=subject, updated_before=updated - 1).ids == [new["id"]]


def spellings(instant_ms: int) -> dict[str, int | str]:
    """The same instant as milliseconds and as RFC 3339 with three offsets."""
    seconds, ms = divmod(instant_ms, 1000)

    def at(hours: int, suffix: str) -> str:
        return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds + hours * 3600))}.{ms:03d}{suffix}"

    return {"ms": instant_ms, "z": at(0, "Z"), "east": at(7, "+07:00"), "west": at(-7, "-07:00")}


def test_the_same_instant_in_four_spellings_is_the_same(api: Api, subject: str) -> None:
    """Field case 59: a time with `Z` found nothing."""
    first, _ = apart(api, subject, ["First row", "Second row"])
    for spelling in spellings(first["created_at"] + 1).values():
        assert api.listed(subject_id=subject, created_before=spelling).expect(200).ids == [first["id"]]
        items = api.found("row", subject_id=subject, created_before=spelling)
        assert [m["id"] for m in items] == [first["id"]]


def test_an_expiry_in_four_spellings_is_stored_the_same(api: Api, subject: str) -> None:
    """Field cases 58 and 59: times in US Pacific."""
    for name, spelling in spellings(4_102_444_800_123).items():
        memory = api.stored(subject_id=subject, content=f"Expires {name}", expires_at=spelling)
        assert memory["expires_at"] == 4_102_444_800_123


@pytest.mark.parametrize(
    "nobody",
    [
        {"agent_id": "nobody"},
        {"run_id": "nobody"},
        {"tags": "nobody"},
        {"category": "mistake"},
        {"min_confidence": 1.0, "author": "agent"},
        {"created_before": 0},
        {"updated_after": 253_402_300_799_999},
    ],
    ids=str,
)
def test_a_filter_value_nobody_has_gives_nothing(api: Api, subject: str, nobody: JsonObject) -> None:
    """Field case 47."""
    fill(api, subject, 2)
    assert api.listed(subject_id=subject, **nobody).expect(200).data == []
