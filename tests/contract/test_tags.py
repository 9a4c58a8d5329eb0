"""Tags: compared without case, exactly; counted; any or all."""

from typing import Any

import pytest

from tests.contract.client import Api
from tests.contract.expired import expired


def by_tags(api: Api, how: str, subject: str, tags: list[str], **more: Any) -> set[str]:
    """Contents that the filter lets through, by list or by search."""
    if how == "list":
        return {m["content"] for m in api.listed(subject_id=subject, tags=tags, **more).expect(200).data}
    return {m["content"] for m in api.found("tagged row", subject_id=subject, tags=tags, **more)}


both = pytest.mark.parametrize("how", ["list", "search"])


@both
@pytest.mark.parametrize("spelling", ["docker", "Docker", "DOCKER"])
def test_case_does_not_matter(api: Api, subject: str, how: str, spelling: str) -> None:
    """Field case 16: tag `Docker`, filter `docker`."""
    api.stored(subject_id=subject, content="Tagged row one", tags=["Docker"])
    api.stored(subject_id=subject, content="Tagged row two", tags=["dockerfile"])
    assert by_tags(api, how, subject, [spelling]) == {"Tagged row one"}


@both
@pytest.mark.parametrize(("tag", "near"), [("a_b", "axb"), ("50%", "50x"), ("%", "any"), ("_", "q"), ("*", "star")])
def test_wildcards_are_ordinary_characters(api: Api, subject: str, how: str, tag: str, near: str) -> None:
    api.stored(subject_id=subject, content="Tagged row with it", tags=[tag])
    api.stored(subject_id=subject, content="Tagged row near it", tags=[near])
    assert by_tags(api, how, subject, [tag]) == {"Tagged row with it"}


@both
@pytest.mark.parametrize("tag", ["no such tag", "tag", "tagged", "", "prod uction", '"', "a,b"])
def test_an_absent_tag_gives_nothing_rather_than_everything(api: Api, subject: str, how: str, tag: str) -> None:
    """Field case 47: the filter also returned untagged rows, and a clean-up deleted them."""
    api.stored(subject_id=subject, content="Tagged row one", tags=["production"])
    api.stored(subject_id=subject, content="Tagged row without")
    if tag:
        assert by_tags(api, how, subject, [tag]) == set()
    elif how == "list":
        api.listed(subject_id=subject, tags=[tag]).refused("tags")
    else:
        api.search("tagged row", subject_id=subject, tags=[tag]).refused("tags")


@both
def test_any_and_all(api: Api, subject: str, how: str) -> None:
    """Field case 44: no AND across tags."""
    for content, tags in {
        "row ab": ["a", "b"],
        "row a": ["a"],
        "row b": ["B"],
        "row c": ["c"],
        "row": [],
    }.items():
        api.stored(subject_id=subject, content=f"Tagged {content}", tags=tags)
    assert by_tags(api, how, subject, ["a", "b"]) == {"Tagged row ab", "Tagged row a", "Tagged row b"}
    assert by_tags(api, how, subject, ["a", "b"], tags_match="any") == by_tags(api, how, subject, ["a", "b"])
    assert by_tags(api, how, subject, ["A", "b"], tags_match="all") == {"Tagged row ab"}
    assert by_tags(api, how, subject, ["a", "zzz"], tags_match="all") == set()


def test_one_tag_in_two_spellings_is_one(api: Api, subject: str) -> None:
    memory = api.stored(subject_id=subject, content="Twice the same", tags=["Go", "go", "GO"])
    assert [tag.casefold() for tag in memory["tags"]] == ["go"]


def test_tags_are_counted_without_case_over_live_memories(api: Api, subject: str) -> None:
    api.stored(subject_id=subject, content="one", tags=["Go", "db"])
    api.stored(subject_id=subject, content="two", tags=["go"])
    api.stored(subject_id=f"{subject}-2", content="three", tags=["go", "other"])
    gone = api.stored(subject_id=subject, content="four", tags=["go", "gone"])
    api.delete(gone["id"]).expect(200)
    expired(api, subject_id=subject, content="five", tags=["go", "lapsed"])
    counted = api.tags(subject_id=subject).expect(200).data
    assert {entry["tag"].casefold(): entry["count"] for entry in counted} == {"go": 2, "db": 1}


def test_a_changed_tag_is_found_by_its_new_name_only(api: Api, subject: str) -> None:
    memory = api.stored(subject_id=subject, content="Tagged row", tags=["old"])
    api.patch(memory["id"], tags=["new"]).expect(200)
    for how in ("list", "search"):
        assert by_tags(api, how, subject, ["old"]) == set()
        assert by_tags(api, how, subject, ["new"]) == {"Tagged row"}
