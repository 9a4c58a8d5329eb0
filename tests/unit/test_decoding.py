"""Bodies, queries and headers: what is refused before anything is done with it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from titen_core import limits
from titen_core.errors import UnsupportedMediaType, ValidationError
from titen_core.http.decoding import decode_body, decode_query, expected_version, require_media_type
from titen_core.http.messages import Request, body_limit
from titen_core.http.schemas.requests import DeleteQuery, EmptyBody, ListQuery, PatchBody, RememberBody, SearchBody


def request(body: bytes = b"", *, query: str = "", **headers: str) -> Request:
    sent = {"content-type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
    return Request("POST", "/v1/memories", query, sent, body)


def remember(body: bytes) -> RememberBody:
    return decode_body(request(body), RememberBody)


def nested(depth: int) -> bytes:
    """A body that nests `depth` deep: the body, its metadata, and lists within."""
    inner = depth - 2
    return b'{"content": "a", "metadata": {"a": ' + b"[" * inner + b"]" * inner + b"}}"


def test_json_may_nest_64_deep() -> None:
    assert remember(nested(limits.JSON_DEPTH)).metadata is not None
    for deeper in (limits.JSON_DEPTH + 1, 1_000, 100_000):
        with pytest.raises(ValidationError, match="nests deeper than 64 levels"):
            remember(nested(deeper))


def test_brackets_inside_texts_do_not_nest() -> None:
    body = json.dumps({"content": '[{"' * 500, "metadata": {"\\": "{" * 500, '"': "\\" + "[" * 100}}).encode()
    assert remember(body).content == '[{"' * 500


@given(st.recursive(st.none() | st.text('[]{}"\\', max_size=4), lambda inner: st.lists(inner, max_size=3)))
def test_depth_is_counted_as_json_nests(value: Any) -> None:
    body = json.dumps({"content": "a" + "[" * 70, "metadata": {"a": value}}).encode()
    assert remember(body).metadata == {"a": value}


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
@pytest.mark.parametrize("field", ['"confidence": {}', '"metadata": {{"a": [{}]}}'])
def test_numbers_that_are_none_are_refused(number: str, field: str) -> None:
    with pytest.raises(ValidationError, match="finite number"):
        remember(('{"content": "a", ' + field.format(number) + "}").encode())


def test_a_number_of_thousands_of_digits_is_no_surprise() -> None:
    with pytest.raises(ValidationError):
        remember(b'{"content": "a", "metadata": {"a": ' + b"9" * 5000 + b"}}")


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b" ", b"{", b"}", b"{'content': 'a'}", b'{"content": "a",}', b'{"content": "a"} x', b"\xef\xbb\xbf{}"),
        *(b'{"content": "a" "b"}', b'{"content": "\\x"}', b'{"content": "\n"}', b'{"content": tru}', b'"', b"{1: 2}"),
    ],
)
def test_what_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(ValidationError, match="not valid JSON"):
        remember(body)


@pytest.mark.parametrize("body", [b"null", b"[]", b'"text"', b"7", b"true"])
def test_a_body_is_an_object(body: bytes) -> None:
    with pytest.raises(ValidationError, match="must be a JSON object"):
        remember(body)


@pytest.mark.parametrize("body", [b'{"content": "\xff"}', b'{"content": "\xed\xa0\x80"}', b'{"content": "\xc0\x80"}'])
def test_a_body_is_utf_8(body: bytes) -> None:
    with pytest.raises(ValidationError, match="not valid UTF-8"):
        remember(body)


@pytest.mark.parametrize("escape", [r"\ud800", r"\udc00x", r"\ude00\ud83d"])
def test_half_a_character_is_refused(escape: str) -> None:
    with pytest.raises(ValidationError, match="content"):
        remember(f'{{"content": "{escape}"}}'.encode()).record("user_1")


@pytest.mark.parametrize(
    "body",
    [b'{"content": "a", "content": "a"}', b'{"content": "a", "metadata": {"x": 1, "x": 2}}', b'{"a":1,"\\u0061":1}'],
)
def test_a_field_is_named_once(body: bytes) -> None:
    with pytest.raises(ValidationError, match="names a field twice"):
        remember(body)


def test_what_is_wrong_is_named() -> None:
    with pytest.raises(ValidationError) as refused:
        remember(b'{"content": 7, "nonsense": 1, "tags": ["a", 2]}')
    assert refused.value.details == {"fields": ["content", "tags.1", "nonsense"]}
    for part in ("content:", "tags.1:", "nonsense: is not known here"):
        assert part in refused.value.message


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("content", 1), ("content", []), ("tags", "a"), ("tags", [1]), ("tags", {}), ("kind", "Semantic")),
        *(("kind", 1), ("category", "other"), ("priority", "urgent"), ("confidence", "0.5"), ("confidence", True)),
        *(("confidence", 1.0000001), ("confidence", -0.1), ("metadata", []), ("metadata", "x"), ("source", "x")),
        *(("source", {"type": 1}), ("source", {"other": "x"}), ("expires_at", "tomorrow"), ("expires_at", 1.5)),
        *(("expires_at", True), ("expires_at", -1), ("subject_id", ""), ("subject_id", 7), ("agent_id", "a" * 257)),
        *(("tags", ["a"] * 17), ("tags", [""]), ("id", "x"), ("version", 1), ("tenant_id", "x"), ("author", "human")),
    ],
)
def test_wrong_types_and_unknown_fields_are_refused(field: str, value: object) -> None:
    with pytest.raises(ValidationError, match=field):
        remember(json.dumps({"content": "a", field: value}).encode())


def test_an_optional_body_may_be_left_out_and_is_strict_otherwise() -> None:
    for body in (b"", b"  \n"):
        assert decode_body(Request("POST", "/", "", {}, body), EmptyBody, optional=True) == EmptyBody()
    with pytest.raises(UnsupportedMediaType):
        decode_body(Request("POST", "/", "", {}, b"{}"), EmptyBody, optional=True)
    with pytest.raises(ValidationError):
        decode_body(request(b'{"a": 1}'), EmptyBody, optional=True)


@pytest.mark.parametrize(
    "kind",
    [
        "application/json",
        "application/json; charset=utf-8",
        "Application/JSON;charset=UTF-8",
        'application/json; charset="utf-8"',
    ],
)
def test_json_in_utf_8_is_taken(kind: str) -> None:
    require_media_type(request(content_type=kind), "application/json")


@pytest.mark.parametrize(
    "kind",
    [
        *("", "text/plain", "application/x-ndjson", "application/json; charset=latin-1", "application/jsonx", "json"),
        *("application/json, text/plain", "multipart/form-data", "application/json; charset=utf-16"),
    ],
)
def test_any_other_type_is_refused(kind: str) -> None:
    with pytest.raises(UnsupportedMediaType, match="application/json"):
        require_media_type(request(content_type=kind), "application/json")


@pytest.mark.parametrize(
    ("header", "version"),
    [
        (None, None),
        ("*", None),
        ("3", 3),
        ('"3"', 3),
        ('W/"3"', 3),
        (" 3 ", 3),
        ("0", 0),
        ("123456789012345", 123456789012345),
    ],
)
def test_forms_of_if_match(header: str | None, version: int | None) -> None:
    asked = request() if header is None else request(if_match=header)
    assert expected_version(asked, None) == version


@pytest.mark.parametrize("header", ["", "abc", "3.0", "-1", '"3", "4"', "١", "1" * 17, "W/", '""', "0x3", "3 4"])
def test_other_forms_of_if_match_are_refused(header: str) -> None:
    with pytest.raises(ValidationError, match="If-Match"):
        expected_version(request(if_match=header), None)


def test_two_ways_to_expect_a_version_must_agree() -> None:
    assert expected_version(request(if_match="3"), 3) == 3
    assert expected_version(request(if_match="*"), 3) == 3
    assert expected_version(request(), 3) == 3
    with pytest.raises(ValidationError, match="differs from If-Match"):
        expected_version(request(if_match="3"), 4)


@pytest.mark.parametrize("version", [0, -1, 2**53 + 1, 1.0, "1", True])
def test_an_expected_version_is_a_whole_number_from_1(version: object) -> None:
    with pytest.raises(ValidationError, match="expected_version"):
        decode_body(request(json.dumps({"expected_version": version}).encode()), PatchBody)


def query(text: str) -> ListQuery:
    return decode_query(request(query=text), ListQuery)


def test_a_query_says_lists_by_repeating() -> None:
    found = query("kind=semantic&kind=episodic&tags=a%20b&tags=%E8%AE%BE&limit=7&verified=true&min_confidence=0.5")
    assert (found.kind, found.tags, found.limit, found.verified) == (["semantic", "episodic"], ["a b", "设"], 7, True)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        *(("limit=1&limit=2", "limit"), ("limit=0", "limit"), ("limit=101", "limit"), ("limit=x", "limit")),
        *(("limit=", "limit"), ("nonsense=1", "nonsense"), ("verified=maybe", "verified"), ("kind=x", "kind")),
        *(
            ("min_confidence=nan", "min_confidence"),
            ("min_confidence=1.1", "min_confidence"),
            ("subject_id=", "subject_id"),
        ),
        *(
            ("created_after=2026-11-30", "created_after"),
            ("created_after=x", "created_after"),
            ("tags_match=some", "tags_match"),
        ),
        *(("include_expired=2", "include_expired"), ("cursor=", "cursor"), ("&".join(["tags=a"] * 65), "tags")),
    ],
)
def test_a_query_that_is_wrong_names_the_parameter(text: str, named: str) -> None:
    with pytest.raises(ValidationError, match=named):
        query(text)


@pytest.mark.parametrize("text", ["subject_id=%FF", "subject_id=%C3", "&".join(f"p{n}=1" for n in range(101))])
def test_a_query_string_is_utf_8_and_short(text: str) -> None:
    with pytest.raises(ValidationError):
        query(text)


def test_a_plus_in_a_time_is_a_space_unless_it_is_encoded() -> None:
    assert query("created_after=2026-11-30T17:00:00%2B07:00").created_after == 1_796_032_800_000
    with pytest.raises(ValidationError, match="created_after"):
        query("created_after=2026-11-30T17:00:00+07:00")


@pytest.mark.parametrize("version", ["0", "x", "1.5", ""])
def test_a_version_in_a_query_is_whole(version: str) -> None:
    with pytest.raises(ValidationError, match="expected_version"):
        decode_query(request(query=f"expected_version={version}"), DeleteQuery)


def test_filters_of_a_search_take_one_or_many() -> None:
    body = b'{"query": "a", "filters": {"kind": "semantic", "tags": ["x"], "author": ["human", "agent"]}}'
    filters = decode_body(request(body), SearchBody).filters.filters()
    assert (filters.kind, filters.tags, filters.author) == (("semantic",), ("x",), ("human", "agent"))


@pytest.mark.parametrize("limit", [0, 21, 1.0, "5", None, True])
def test_a_search_limit_is_a_whole_number_from_1_to_20(limit: object) -> None:
    with pytest.raises(ValidationError, match="limit"):
        decode_body(request(json.dumps({"query": "a", "limit": limit}).encode()), SearchBody)


@given(st.binary(max_size=60))
def test_no_body_is_a_surprise(body: bytes) -> None:
    try:
        decode_body(request(body), SearchBody)
    except (ValidationError, UnsupportedMediaType) as refused:
        assert refused.message  # noqa: PT017 - either way is right


@pytest.mark.parametrize(
    ("method", "path", "bound"),
    [
        ("POST", "/v1/import", limits.IMPORT_BODY_BYTES),
        ("POST", "/v1/import/", limits.IMPORT_BODY_BYTES),
        ("GET", "/v1/import", limits.BODY_BYTES),
        ("POST", "/v1/memories", limits.BODY_BYTES),
    ],
)
def test_only_an_import_is_large(method: str, path: str, bound: int) -> None:
    assert body_limit(method, path) == bound
