"""What a memory's text may be, and which two texts are one memory."""

import json
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from titen_core import limits
from titen_core.content import (
    canonical_json,
    clean_content,
    clean_label,
    clean_metadata,
    clean_name,
    clean_query,
    clean_tags,
    content_hash,
    fold_tag,
    identity,
    merge_patch,
)
from titen_core.errors import ValidationError
from titen_core.models import Category, Kind, Source

FIELDS: list[tuple[str, Callable[[str], object], int]] = [
    ("content", clean_content, limits.CONTENT_BYTES),
    ("query", clean_query, limits.QUERY_BYTES),
    ("key", lambda text: clean_name("key", text), limits.NAME_BYTES),
    ("label", lambda text: clean_label("label", text), limits.LABEL_BYTES),
    ("tags", lambda text: clean_tags([text]), limits.TAG_BYTES),
]
every_field = pytest.mark.parametrize(("field", "clean", "bound_bytes"), FIELDS, ids=[field for field, _, _ in FIELDS])


@every_field
@pytest.mark.parametrize("char", ["a", "é", "雨", "🎉"])
def test_a_bound_is_of_bytes_and_inclusive(
    field: str, clean: Callable[[str], object], bound_bytes: int, char: str
) -> None:
    size = len(char.encode())
    fitting = char * (bound_bytes // size)
    fitting += "a" * (bound_bytes - len(fitting.encode()))
    clean(fitting)
    with pytest.raises(ValidationError, match=f"^{field} is {bound_bytes + 1} bytes; at most {bound_bytes}") as refused:
        clean(fitting + "a")
    assert refused.value.details == {"fields": [field]}


@every_field
@pytest.mark.parametrize("char", list(map(chr, (0, 1, 0x1B, 0x1F, 0xD800, 0xDFFF))))
def test_what_cannot_be_stored_is_refused(
    field: str, clean: Callable[[str], object], bound_bytes: int, char: str
) -> None:
    for text in (f"a{char}b", f"{char}b", f"a{char}"):
        with pytest.raises(ValidationError, match="must not hold"):
            clean(text)


@every_field
@pytest.mark.parametrize("char", ["\t", "\n", "\r"])
def test_only_texts_hold_lines_and_tabs(
    field: str, clean: Callable[[str], object], bound_bytes: int, char: str
) -> None:
    if field in {"content", "query"}:
        clean(f"a{char}b")
    else:
        with pytest.raises(ValidationError, match=r"control character U\+00"):
            clean(f"a{char}b")


@every_field
@pytest.mark.parametrize("blank", ["", " ", "\u00a0\u3000"])
def test_blank_is_nothing(field: str, clean: Callable[[str], object], bound_bytes: int, blank: str) -> None:
    if field == "label":
        assert clean(blank) == ""
    else:
        with pytest.raises(ValidationError, match=f"^{field} must"):
            clean(blank)


def test_content_is_trimmed_and_otherwise_unchanged() -> None:
    decomposed = unicodedata.normalize("NFD", "  Café\t\n au  lait ")
    assert clean_content(decomposed) == decomposed.strip()
    assert len(clean_content(" " * 100 + "a" * limits.CONTENT_BYTES)) == limits.CONTENT_BYTES


def test_names_are_kept_as_they_are() -> None:
    assert clean_name("key", " a b ") == " a b "


def test_tags_keep_the_first_spelling_of_each() -> None:
    assert clean_tags([" Travel ", "TRAVEL", "travel", "train_ride", "straße", "STRASSE"]) == (
        *("Travel", "train_ride", "straße"),
    )


def test_sixteen_tags_and_no_more() -> None:
    clean_tags([f"t{number}" for number in range(limits.TAGS_COUNT)])
    with pytest.raises(ValidationError, match=r"holds 17 tags; at most 16"):
        clean_tags([f"t{number}" for number in range(limits.TAGS_COUNT + 1)])


@given(st.text())
def test_folding_a_tag_twice_is_folding_it_once(tag: str) -> None:
    assert fold_tag(fold_tag(tag)) == fold_tag(tag)
    assert fold_tag(unicodedata.normalize("NFD", tag)) == fold_tag(tag)


def test_metadata_is_bounded_as_it_is_stored() -> None:
    room = limits.METADATA_BYTES - len('{"a":""}')
    clean_metadata({"a": "x" * room})
    with pytest.raises(ValidationError, match=f"^metadata is {limits.METADATA_BYTES + 1} bytes"):
        clean_metadata({"a": "x" * (room + 1)})


@pytest.mark.parametrize(
    "hostile",
    [{"a": "\0"}, {"\0": 1}, {"a": ["\ud800"]}, {"a": {"b": [{"\udfff": 1}]}}],
    ids=["a value", "a name", "in a list", "deep"],
)
def test_metadata_without_nul_and_half_characters(hostile: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="metadata must not hold"):
        clean_metadata(hostile)


def test_metadata_may_hold_other_controls() -> None:
    assert clean_metadata({"a\n": "\x1b[0m"}) == {"a\n": "\x1b[0m"}


# RFC 7396, appendix A; those whose target or patch is no object do not occur here.
APPENDIX_A: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ({"a": "b"}, {"a": {"c": None, "d": 1}}, {"a": {"d": 1}}),
]


@pytest.mark.parametrize(("target", "patch", "result"), APPENDIX_A)
def test_merging_as_in_the_rfc(target: dict[str, Any], patch: dict[str, Any], result: dict[str, Any]) -> None:
    before = json.dumps([target, patch])
    assert merge_patch(target, patch) == result
    assert json.dumps([target, patch]) == before, "neither is changed in place"


def test_the_title_example_of_the_rfc() -> None:
    target = {"title": "Goodbye!", "author": {"givenName": "John", "familyName": "Doe"}, "tags": ["a"], "content": "c"}
    patch = {"title": "Hello!", "phoneNumber": "+01", "author": {"familyName": None}, "tags": ["b"]}
    assert merge_patch(target, patch) == {
        "title": "Hello!",
        "author": {"givenName": "John"},
        "tags": ["b"],
        "content": "c",
        "phoneNumber": "+01",
    }


json_objects = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
).filter(lambda value: isinstance(value, dict))


@given(json_objects, json_objects)
def test_merging_twice_is_merging_once(target: dict[str, Any], patch: dict[str, Any]) -> None:
    once = merge_patch(target, patch)
    assert merge_patch(once, patch) == once


@given(json_objects)
def test_canonical_json_does_not_know_the_order_of_names(value: dict[str, Any]) -> None:
    backwards = dict(reversed(list(value.items())))
    assert canonical_json(backwards) == canonical_json(value)
    assert json.loads(canonical_json(value)) == value


def test_canonical_json_refuses_what_is_no_json() -> None:
    with pytest.raises(ValueError):
        canonical_json({"a": float("nan")})


BASE: dict[str, Any] = {
    "subject_id": "user_1",
    "agent_id": None,
    "run_id": None,
    "kind": Kind.SEMANTIC,
    "category": None,
    "key": None,
    "content": "Likes tea",
    "source": None,
}


def ident(**changes: Any) -> str:
    return identity(**{**BASE, **changes})


@given(st.text(min_size=1))
def test_composed_and_decomposed_are_one_memory(content: str) -> None:
    forms = {ident(content=unicodedata.normalize(form, content)) for form in ("NFC", "NFD")}
    assert forms == {ident(content=content)}


@given(st.lists(st.text("abc雨é", min_size=1), min_size=1), st.data())
def test_runs_of_white_space_are_one(words: list[str], data: st.DataObject) -> None:
    space = st.text(" \t\n\r\u00a0\u2003", min_size=1, max_size=3)
    spelled = "".join(word + data.draw(space) for word in words)
    assert content_hash(spelled) == content_hash(" ".join(words))


@given(st.text("ab \n", max_size=6), st.text("ab \n", max_size=6))
def test_other_words_are_another_memory(one: str, other: str) -> None:
    assume(one.split() != other.split())
    assert content_hash(one) != content_hash(other)


def test_case_and_punctuation_matter() -> None:
    assert len({ident(content=text) for text in ("Likes tea", "likes tea", "Likes tea.", "Likestea")}) == 4


@given(st.sampled_from([None, "a", "ab", "b"]), st.sampled_from([None, "a", "ab", "b"]))
def test_agent_and_run_are_part_of_an_unkeyed_identity(agent: str | None, run: str | None) -> None:
    others = [(a, r) for a in (None, "a", "ab", "b") for r in (None, "a", "ab", "b") if (a, r) != (agent, run)]
    assert ident(agent_id=agent, run_id=run) not in {ident(agent_id=a, run_id=r) for a, r in others}


@pytest.mark.parametrize("change", [{"subject_id": "user_2"}, {"kind": Kind.EPISODIC}, {"kind": Kind.PROCEDURAL}])
def test_subject_and_kind_are_part_of_an_unkeyed_identity(change: dict[str, Any]) -> None:
    assert ident(**change) != ident()


@pytest.mark.parametrize("change", [{"category": Category.FACT}, {"source": Source("conversation", "turn_8")}])
def test_category_and_source_are_no_part_of_it(change: dict[str, Any]) -> None:
    assert ident(**change) == ident()


def test_an_episode_is_told_apart_by_where_it_was_told() -> None:
    told = {
        ident(kind=Kind.EPISODIC, source=source)
        for source in (None, Source("a", "turn_1"), Source("a", "turn_2"), Source("b", "turn_2"), Source("a", None))
    }
    assert len(told) == 3


def test_a_key_is_an_identity_by_itself() -> None:
    keyed: dict[str, Any] = {"key": "tea", "category": Category.PREFERENCE}
    same: list[dict[str, Any]] = [{"content": "Hates tea"}, {"agent_id": "a"}, {"run_id": "r"}, {"kind": Kind.EPISODIC}]
    same += [{"source": Source("a", "b")}]
    assert {ident(**keyed, **change) for change in same} == {ident(**keyed)}
    others: list[dict[str, Any]] = [{"key": "Tea"}, {"category": Category.FACT}, {"subject_id": "user_2"}]
    others.append({"key": None})
    assert ident(**keyed) not in {ident(**{**keyed, **change}) for change in others}


def test_parts_of_an_identity_do_not_run_into_each_other() -> None:
    one, other = ({"subject_id": "ab", "key": "c"}, {"subject_id": "a", "key": "bc"})
    assert ident(category=Category.FACT, **one) != ident(category=Category.FACT, **other)
    assert ident(agent_id="x", run_id=None) != ident(agent_id=None, run_id="x")


def test_an_identity_is_the_same_on_every_machine_and_version() -> None:
    """Changing any of these would make every stored memory a stranger to its own words."""
    assert ident() == "82e95dfedba77d93310b68df913ab469fc177233e9bb9fab36c5c522287fe82a"
    assert ident(kind=Kind.EPISODIC, agent_id="a", run_id="r", source=Source("t", "ref"), content="Ça va\n bien") == (
        "17d92ba364b743f3d32c3ee434b61a81e9db04d13ed799c06d8fcf429092e2de"
    )
    assert (
        ident(key="tea", category=Category.PREFERENCE)
        == "8271fff880d05edaf1ff1872ff7b432675214aa517ad569a43fe302483d1646a"
    )
