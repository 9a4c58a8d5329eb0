"""Requests: what is refused, with the field and the bound named and nothing changed (contract: HTTP)."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.contract.client import Answer, Api

HUGE = 10**400
SURROGATE = b'"x\\ud83d"'


@contextmanager
def nothing_changes(api: Api, subject: str) -> Iterator[None]:
    before = [(m["id"], m["version"]) for m in api.all_listed(subject_id=subject, include_expired=True)]
    yield
    after = [(m["id"], m["version"]) for m in api.all_listed(subject_id=subject, include_expired=True)]
    assert after == before


def post_raw(api: Api, body: bytes, path: str = "/v1/memories", **headers: str) -> Answer:
    return api.request("POST", path, content=body, headers={"Content-Type": "application/json", **headers})


def nested(depth: int) -> Any:
    value: Any = "leaf"
    for _ in range(depth):
        value = {"a": value}
    return value


# --- Bounds: exactly at, and one above. Sizes are UTF-8 bytes.

AT_AND_ABOVE: dict[str, tuple[str, Any, Any, str]] = {
    "content": ("content", "c" * 8192, "c" * 8193, "8192"),
    "content in bytes": ("content", "é" * 4096, "é" * 4096 + "x", "8192"),
    "agent_id": ("agent_id", "é" * 128, "é" * 128 + "x", "256"),
    "run_id": ("run_id", "r" * 256, "r" * 257, "256"),
    "key": ("key", "🙂" * 64, "🙂" * 64 + "x", "256"),
    "tag": ("tags", ["t" * 64], ["t" * 65], "64"),
    "tag in bytes": ("tags", ["é" * 32], ["é" * 33], "64"),
    "tags": ("tags", [f"t{n}" for n in range(16)], [f"t{n}" for n in range(17)], "16"),
    "source.type": ("source", {"type": "s" * 256}, {"type": "s" * 257}, "256"),
    "source.ref": ("source", {"ref": "s" * 256}, {"ref": "s" * 257}, "256"),
    "metadata": ("metadata", {"m": "x" * 8184}, {"m": "x" * 8185}, "8192"),
    "confidence above": ("confidence", 1.0, 1.0000001, "1"),
    "confidence below": ("confidence", 0.0, -0.0000001, "0"),
    "expires_at": ("expires_at", 253_402_300_799_999, 253_402_300_800_000, "253402300799999"),
}


@pytest.mark.parametrize("case", AT_AND_ABOVE.values(), ids=AT_AND_ABOVE.keys())
def test_a_field_may_reach_its_bound(api: Api, subject: str, case: tuple[str, Any, Any, str]) -> None:
    field, at, _, _ = case
    memory = api.stored(**{"subject_id": subject, "content": "At the bound", "category": "note", field: at})
    read = api.read(memory["id"])[field]
    assert (read if field != "source" else {n: read[n] for n in at}) == at


@pytest.mark.parametrize("case", AT_AND_ABOVE.values(), ids=AT_AND_ABOVE.keys())
def test_a_field_over_its_bound_is_refused(api: Api, subject: str, case: tuple[str, Any, Any, str]) -> None:
    field, _, above, bound = case
    with nothing_changes(api, subject):
        fields = {"subject_id": subject, "content": "Over the bound", "category": "note", field: above}
        api.remember(**fields).refused(field, bound)


@pytest.mark.parametrize("case", AT_AND_ABOVE.values(), ids=AT_AND_ABOVE.keys())
def test_a_patch_over_the_bound_is_refused(api: Api, subject: str, case: tuple[str, Any, Any, str]) -> None:
    field, _, above, bound = case
    if field in ("agent_id", "run_id", "key"):
        bound = ""
    memory = api.stored(subject_id=subject, content="Stays as it is")
    api.patch(memory["id"], **{field: above}).refused(field, bound)
    assert api.read(memory["id"])["version"] == 1


def test_a_subject_may_reach_its_bound_and_no_more(api: Api, subject: str) -> None:
    longest = subject.ljust(256, "s")
    assert api.stored(subject_id=longest, content="Long name")["subject_id"] == longest
    api.remember(subject_id=f"{longest}s", content="Too long a name").refused("subject_id", "256")
    api.listed(subject_id=f"{longest}s").refused("subject_id", "256")
    api.search("x", subject_id=f"{longest}s").refused("subject_id", "256")


def test_a_query_may_reach_its_bound_and_no_more(api: Api, subject: str) -> None:
    api.search("é" * 4096, subject_id=subject).expect(200)
    api.search("é" * 4096 + "x", subject_id=subject).refused("query", "8192")


@pytest.mark.parametrize("query", ["", " ", "\n\t ", "a\0b", None, 5, ["a"], {"a": 1}, True])
def test_a_query_that_is_none_is_refused(api: Api, subject: str, query: object) -> None:
    api.request("POST", "/v1/memories/search", json={"query": query, "subject_id": subject}).refused("query")


@pytest.mark.parametrize("limit", [0, -1, 21, 10**9, "5", 5.5, True, None, [5], HUGE])
def test_a_search_limit_is_never_capped_in_silence(api: Api, subject: str, limit: object) -> None:
    """Field case 41."""
    body = {"query": "x", "subject_id": subject, "limit": limit}
    answer = api.request("POST", "/v1/memories/search", json=body).refused("limit")
    if type(limit) is int and limit != HUGE:
        assert ("20" if limit > 20 else "1") in answer.message


@pytest.mark.parametrize("limit", ["0", "-1", "101", "1000000000", "5.5", "five", "", "1e2", "٥", "9" * 400])
def test_a_list_limit_is_never_capped_in_silence(api: Api, subject: str, limit: str) -> None:
    """Field case 41."""
    answer = api.listed(subject_id=subject, limit=limit).refused("limit")
    if limit in ("0", "-1", "101"):
        assert ("100" if limit == "101" else "1") in answer.message


def test_the_largest_limits_are_fine(api: Api, subject: str) -> None:
    api.search("x", subject_id=subject, limit=20).expect(200)
    api.listed(subject_id=subject, limit=100).expect(200)
    api.listed(subject_id=subject, limit=1).expect(200)


# --- Types and values.

WRONG: list[tuple[str, Any]] = [
    *[
        ("content", value)
        for value in (None, 5, True, ["a"], {"a": 1}, "", " ", "\u00a0\u2003\n", "a\0b", "\x07", "a\x1b[0m")
    ],
    *[("subject_id", value) for value in (None, 5, True, ["a"], "", " ", "a\0b", "a\nb", "\x1f")],
    *[("agent_id", value) for value in (5, ["a"], "", "a\0b")],
    *[("run_id", value) for value in (5, {"a": 1}, "", "a\0b")],
    *[("kind", value) for value in (5, "", "Semantic", "fact", ["semantic"])],
    *[("category", value) for value in (5, "", "Fact", "semantic", ["fact"])],
    *[("key", value) for value in (5, "", "a\0b", ["k"])],
    *[("tags", value) for value in ("a", {"a": 1}, [1], [None], [""], [" "], ["a\0b"], [["a"]], 5)],
    *[("priority", value) for value in (1, "", "urgent", "HIGH", ["high"])],
    *[("confidence", value) for value in ("0.5", True, [0.5], 2, -1, HUGE, -HUGE)],
    *[("source", value) for value in ("chat", ["a"], {"type": 5}, {"ref": "a\0b"}, {"url": "x"}, 5)],
    *[("metadata", value) for value in ("a", ["a"], 5, True, {"a\0b": 1}, {"a": "b\0"}, {"a": ["\0"]})],
    *[
        ("expires_at", value)
        for value in (
            "tomorrow",
            "2099-01-01",
            "2099-01-01T00:00:00",
            "2099-01-01 00:00:00",
            "2099-13-01T00:00:00Z",
            "2099-01-01T00:00:00+25:00",
            "",
            True,
            -1,
            1.5,
            HUGE,
            [1],
            "4102444800000",
        )
    ],
]


@pytest.mark.parametrize(("field", "value"), WRONG, ids=[f"{f}={v!r:.40}" for f, v in WRONG])
def test_a_wrong_value_is_refused_by_name(api: Api, subject: str, field: str, value: Any) -> None:
    """Field case 83 and others: NUL, blanks, wrong types, naive times."""
    body = {"subject_id": subject, "content": "Right but for one", "category": "note", field: value}
    with nothing_changes(api, subject):
        post_raw(api, json.dumps(body).encode()).refused(field)


@pytest.mark.parametrize("field", ["content", "tags", "priority", "confidence", "source", "metadata", "expires_at"])
def test_a_patch_refuses_wrong_values_too(api: Api, subject: str, field: str) -> None:
    memory = api.stored(subject_id=subject, content="Stays as it is")
    for name, value in WRONG:
        if name == field and value is not None:
            body = json.dumps({field: value}).encode()
            headers = {"Content-Type": "application/json"}
            answer = api.request("PATCH", f"/v1/memories/{memory['id']}", content=body, headers=headers)
            answer.refused(field)
    assert api.read(memory["id"])["version"] == 1


@pytest.mark.parametrize(
    "literal",
    ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1e400", "nan", "0x10", "01", "+1", ".5", "1."],
)
@pytest.mark.parametrize("field", ["confidence", "metadata"])
def test_numbers_that_json_does_not_have_are_refused(api: Api, subject: str, field: str, literal: str) -> None:
    value = literal if field == "confidence" else f'{{"n": {literal}}}'
    body = f'{{"subject_id": "{subject}", "content": "Not a number", "{field}": {value}}}'
    with nothing_changes(api, subject):
        post_raw(api, body.encode()).refused()


@pytest.mark.parametrize("digits", [20, 400, 5000])
def test_huge_integers_in_metadata_never_break_the_service(api: Api, subject: str, digits: int) -> None:
    body = f'{{"subject_id": "{subject}", "content": "Big", "metadata": {{"n": {"9" * digits}}}}}'
    answer = post_raw(api, body.encode())
    assert answer.status in (201, 400), answer.describe()
    if answer.status == 201:
        assert api.read(answer.data["id"])["metadata"] == {"n": int("9" * digits)}
        assert api.found("big", subject_id=subject)[0]["metadata"] == {"n": int("9" * digits)}


SURROGATES: dict[str, str] = {
    "content": '{"subject_id": "%s", "content": "x\\ud83d"}',
    "low half": '{"subject_id": "%s", "content": "x\\ude00y"}',
    "reversed": '{"subject_id": "%s", "content": "\\ude00\\ud83d"}',
    "tag": '{"subject_id": "%s", "content": "x", "tags": ["\\ud83d"]}',
    "key": '{"subject_id": "%s", "content": "x", "category": "note", "key": "\\ud83d"}',
    "agent_id": '{"subject_id": "%s", "content": "x", "agent_id": "\\ud83d"}',
    "metadata": '{"subject_id": "%s", "content": "x", "metadata": {"a": ["\\ud83d"]}}',
    "metadata name": '{"subject_id": "%s", "content": "x", "metadata": {"\\ud83d": 1}}',
    "subject": '{"subject_id": "%s\\ud83d", "content": "x"}',
    "unknown field": '{"subject_id": "%s", "content": "x", "\\ud83d": 1}',
}


@pytest.mark.parametrize("body", SURROGATES.values(), ids=SURROGATES.keys())
def test_half_a_surrogate_pair_is_refused(api: Api, subject: str, body: str) -> None:
    """Field case 82: a lone surrogate crashed the SQLite bind."""
    with nothing_changes(api, subject):
        post_raw(api, (body % subject).encode()).refused()


def test_half_a_surrogate_pair_in_a_query_is_refused(api: Api, subject: str) -> None:
    """Field case 82."""
    body = f'{{"subject_id": "{subject}", "query": "x\\ud83d"}}'
    post_raw(api, body.encode(), "/v1/memories/search").refused("query")


def test_a_whole_surrogate_pair_is_a_character(api: Api, subject: str) -> None:
    body = f'{{"subject_id": "{subject}", "content": "x\\ud83d\\ude42"}}'
    assert post_raw(api, body.encode()).expect(201).data["content"] == "x🙂"


def test_json_may_nest_to_the_bound_and_no_deeper(api: Api, subject: str) -> None:
    api.stored(subject_id=subject, content="Deep", metadata=nested(63))
    with nothing_changes(api, subject):
        api.remember(subject_id=subject, content="Deeper", metadata=nested(64)).refused("64")


@pytest.mark.parametrize("opening", [b"[", b'{"a":'], ids=["arrays", "objects"])
def test_absurdly_deep_json_is_refused(api: Api, opening: bytes) -> None:
    post_raw(api, opening * (200_000 // len(opening))).refused()


MALFORMED: dict[str, bytes] = {
    "empty": b"",
    "blank": b"  ",
    "cut": b'{"content": "x"',
    "trailing": b'{"content": "x"} x',
    "two": b"{}{}",
    "array": b"[]",
    "string": b'"x"',
    "number": b"5",
    "null": b"null",
    "single quotes": b"{'content': 'x'}",
    "comment": b'{"content": "x" /* y */}',
    "trailing comma": b'{"content": "x",}',
    "raw control": b'{"content": "a\x01b", "subject_id": "s"}',
    "invalid utf-8": b'{"content": "\xff\xfe", "subject_id": "s"}',
    "overlong": b'{"content": "\xc0\x80", "subject_id": "s"}',
    "encoded surrogate": b'{"content": "\xed\xa0\xbd", "subject_id": "s"}',
    "utf-16": '{"content": "x"}'.encode("utf-16"),
    "repeated name": b'{"content": "x", "content": "y", "subject_id": "s-repeated"}',
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED.keys())
@pytest.mark.parametrize("path", ["/v1/memories", "/v1/memories/search", "/v1/keys"])
def test_malformed_json_is_refused(api: Api, path: str, body: bytes) -> None:
    if body == MALFORMED["repeated name"]:
        answer = post_raw(api, body, path)
        assert answer.status < 500
    else:
        post_raw(api, body, path).refused()


def test_a_missing_field_is_named(api: Api, subject: str) -> None:
    api.remember(subject_id=subject).refused("content")
    api.request("POST", "/v1/memories/search", json={"subject_id": subject}).refused("query")


UNKNOWN_FIELDS: dict[str, Callable[[Api, str, str], Answer]] = {
    "remember": lambda api, s, _: api.remember(subject_id=s, content="x", surprise=1),
    "search": lambda api, s, _: api.request(
        "POST", "/v1/memories/search", json={"subject_id": s, "query": "x", "surprise": 1}
    ),
    "patch": lambda api, _, m: api.patch(m, surprise=1),
    "key": lambda api, s, _: api.create_key(principal=s, kind="agent", role="reader", surprise=1),
    "list": lambda api, s, _: api.listed(subject_id=s, surprise=1),
    "expiring": lambda api, s, _: api.expiring(subject_id=s, within="7d", surprise=1),
    "tags": lambda api, s, _: api.tags(subject_id=s, surprise=1),
    "get": lambda api, _, m: api.request("GET", f"/v1/memories/{m}", params={"surprise": 1}),
    "history": lambda api, _, m: api.history(m, surprise=1),
    "delete": lambda api, _, m: api.request("DELETE", f"/v1/memories/{m}", params={"surprise": 1}),
    "restore": lambda api, _, m: api.request("POST", f"/v1/memories/{m}/restore", params={"surprise": 1}),
    "verify": lambda api, _, m: api.request("POST", f"/v1/memories/{m}/verify", params={"surprise": 1}),
    "keys": lambda api, _, __: api.request("GET", "/v1/keys", params={"surprise": 1}),
    "principal": lambda api, _, __: api.request("GET", "/v1/principal", params={"surprise": 1}),
    "repair": lambda api, _, __: api.request("POST", "/v1/repair", params={"surprise": 1}),
    "export": lambda api, _, __: api.export(surprise=1),
    "import": lambda api, _, __: api.import_lines(b"{}\n", surprise=1),
    "remember, query": lambda api, s, _: api.request(
        "POST", "/v1/memories", json={"subject_id": s, "content": "x"}, params={"surprise": 1}
    ),
}


@pytest.mark.parametrize("call", UNKNOWN_FIELDS.values(), ids=UNKNOWN_FIELDS.keys())
def test_an_unknown_field_or_parameter_is_named(
    api: Api, subject: str, call: Callable[[Api, str, str], Answer]
) -> None:
    """Field case 40: unknown names were ignored."""
    memory = api.stored(subject_id=subject, content="Stays as it is")
    with nothing_changes(api, subject):
        call(api, subject, memory["id"]).refused("surprise")


@pytest.mark.parametrize("alias", ["q", "n_results", "top_k", "user_id", "k"])
def test_the_names_of_other_services_are_not_ignored(api: Api, subject: str, alias: str) -> None:
    """Field case 40: the client sent `q`, the server wanted `query`, and searched for nothing."""
    body = {"subject_id": subject, "query": "x", alias: "5"}
    answer = api.request("POST", "/v1/memories/search", json=body).refused()
    assert alias in answer.error["details"]["fields"]


WRONG_FILTERS: list[tuple[str, Any]] = [
    ("kind", ["unknown"]),
    ("category", ["unknown"]),
    ("priority", ["unknown"]),
    ("author", ["user"]),
    ("tags_match", "none"),
    ("verified", "maybe"),
    ("min_confidence", 1.5),
    ("min_confidence", -0.5),
    ("min_confidence", "x"),
    ("created_after", "yesterday"),
    ("created_before", "2030-01-01T00:00:00"),
    ("updated_after", -1),
    ("updated_before", 253_402_300_800_000),
    ("include_expired", "maybe"),
    ("tags", ["x" * 65]),
    ("agent_id", "x" * 257),
    ("run_id", ""),
]


@pytest.mark.parametrize(("field", "value"), WRONG_FILTERS, ids=[f"{f}={v!r:.30}" for f, v in WRONG_FILTERS])
def test_a_wrong_filter_is_refused_by_name(api: Api, subject: str, field: str, value: Any) -> None:
    """Field case 59 and contract: a naive time is refused, a filter is never ignored."""
    api.listed(subject_id=subject, **{field: value}).refused(field)
    api.search("x", subject_id=subject, **{field: value}).refused(field)


def test_a_repeated_parameter_that_takes_one_value_is_refused(api: Api, subject: str) -> None:
    api.listed(subject_id=[subject, "other"]).refused("subject_id")


# --- Bodies and content types.


@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain",
        "application/xml",
        "application/x-www-form-urlencoded",
        "application/x-ndjson",
        "json",
        "",
    ],
)
def test_another_content_type_is_unsupported(api: Api, subject: str, content_type: str) -> None:
    body = json.dumps({"subject_id": subject, "content": "x"}).encode()
    with nothing_changes(api, subject):
        post_raw(api, body, **{"Content-Type": content_type}).expect(415, "UNSUPPORTED_MEDIA_TYPE")


@pytest.mark.parametrize("content_type", ["application/json", "Application/JSON; charset=UTF-8"])
def test_parameters_and_case_of_the_content_type_do_not_matter(api: Api, subject: str, content_type: str) -> None:
    body = json.dumps({"subject_id": subject, "content": "x"}).encode()
    post_raw(api, body, **{"Content-Type": content_type}).expect(201)


def test_import_takes_jsonl_only(api: Api) -> None:
    post_raw(api, b"{}\n", "/v1/import").expect(415, "UNSUPPORTED_MEDIA_TYPE")


def test_a_body_may_reach_its_bound_and_no_more(api: Api, subject: str) -> None:
    body = json.dumps({"subject_id": subject, "content": "Padded"}).encode()
    post_raw(api, body.ljust(256 * 1024)).expect(201)
    post_raw(api, body.ljust(256 * 1024 + 1)).expect(413, "PAYLOAD_TOO_LARGE")


def test_a_huge_body_is_refused_without_a_declared_length(api: Api) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(40):
            yield b" " * 16_384

    headers = {**api.headers, "Content-Type": "application/json"}
    answer = api.http.post("/v1/memories", content=chunks(), headers=headers)
    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == "PAYLOAD_TOO_LARGE"


# --- Routes and methods.


@pytest.mark.parametrize(
    "path", ["/v1/memories", "/v1/memories/tags", "/v1/principal", "/v1/keys", "/healthz", "/readyz"]
)
def test_a_trailing_slash_changes_nothing(api: Api, path: str) -> None:
    plain, slashed = api.request("GET", path), api.request("GET", f"{path}/")
    assert (plain.status, slashed.status) == (200, 200)
    if path != "/readyz":
        assert plain.data == slashed.data


def test_a_trailing_slash_takes_posts_too(api: Api, subject: str) -> None:
    made = api.request("POST", "/v1/memories/", json={"subject_id": subject, "content": "Slashed"}).expect(201)
    assert api.request("GET", f"/v1/memories/{made.data['id']}/").expect(200).data["content"] == "Slashed"


@pytest.mark.parametrize(
    "path",
    ["/v1", "/v2/memories", "/v1/memory", "/v1/memories/a/b/c", "/nowhere", "/v1/memories//history"],
)
def test_an_unknown_route_is_not_found(api: Api, path: str) -> None:
    api.request("GET", path).expect(404, "NOT_FOUND")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/v1/memories", {"GET", "POST"}),
        ("DELETE", "/v1/memories", {"GET", "POST"}),
        ("PATCH", "/v1/memories", {"GET", "POST"}),
        ("GET", "/v1/memories/search", {"POST"}),
        ("PUT", "/v1/memories/0190", {"GET", "PATCH", "DELETE"}),
        ("POST", "/v1/memories/0190", {"GET", "PATCH", "DELETE"}),
        ("GET", "/v1/memories/0190/restore", {"POST"}),
        ("POST", "/healthz", {"GET"}),
        ("GET", "/v1/import", {"POST"}),
        ("POST", "/v1/export", {"GET"}),
        ("PROPFIND", "/v1/memories", {"GET", "POST"}),
    ],
)
def test_another_method_is_not_allowed_and_the_answer_tells_which_are(
    api: Api, method: str, path: str, allowed: set[str]
) -> None:
    answer = api.request(method, path).expect(405, "METHOD_NOT_ALLOWED")
    told = {name.strip() for name in answer.headers["allow"].split(",")}
    assert allowed <= told <= allowed | {"HEAD", "OPTIONS"}


@pytest.mark.parametrize("path", ["/healthz", "/v1/memories", "/v1/principal", "/"])
def test_head_answers_as_get_without_a_body(api: Api, path: str) -> None:
    assert api.request("HEAD", path).status in (200, 405)


def test_options_never_opens_the_api_to_other_origins(api: Api) -> None:
    """Field case 73: CORS `*` let any page read a local store."""
    headers = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    for method in ("OPTIONS", "GET"):
        answer = api.request(method, "/v1/memories", headers=headers)
        assert answer.status < 500
        assert not [name for name in answer.headers if name.startswith("access-control-")]


@pytest.mark.parametrize(
    "memory_id",
    [
        "x",
        "1",
        "%00",
        "..%2f..",
        "a%20b",
        "'",
        "0" * 3000,
        "🙂",
        "%ff",
        "null",
        "01900000-0000-7000-8000-0000",
    ],
)
def test_an_id_that_is_none_is_not_found(api: Api, memory_id: str) -> None:
    for answer in (api.get(memory_id), api.delete(memory_id), api.history(memory_id)):
        assert answer.status in (400, 404), answer.describe()


def test_every_answer_has_its_own_request_id(api: Api) -> None:
    ids = {api.request("GET", "/healthz").meta["request_id"] for _ in range(5)}
    assert len(ids) == 5


def test_a_sent_request_id_does_not_forge_headers(api: Api) -> None:
    answer = api.request("GET", "/healthz", headers={"X-Request-Id": "abc; x=y"})
    assert answer.status == 200


def test_times_are_integers_in_every_answer(api: Api, subject: str) -> None:
    """Field case 58."""
    memory = api.stored(subject_id=subject, content="Clockwork", expires_at="2099-12-31T23:59:59.5+07:00")
    assert memory["expires_at"] == 4_102_419_599_500
    for item in (
        api.read(memory["id"]),
        *api.found("clockwork", subject_id=subject),
        *api.events(memory["id"]),
    ):
        times = {name: value for name, value in item.items() if name.endswith("_at") and value is not None}
        assert all(type(value) is int for value in times.values())
