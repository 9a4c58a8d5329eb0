"""The Python client against the OpenAPI document: every path, parameter, field and answer it names is there."""

import json
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

import pytest

from titen_client import answers, clients, fields, operations
from titen_client.calls import Call

DOCUMENT = json.loads((Path(__file__).parents[2] / "titen_core/http/openapi.json").read_text(encoding="utf-8"))
SCHEMAS = DOCUMENT["components"]["schemas"]

# What a thin client leaves to people, operators and other surfaces.
NOT_COVERED = {
    **{f"synapse_{name}": "the same records under Synapse's names" for name in (
        "store", "list", "recall", "search", "by_tag", "expiring", "get", "change", "delete", "verify",
    )},
    "healthz": "for whoever runs the service",
    "readyz": "for whoever runs the service",
    "repair_store": "for whoever runs the service",
    "show_guide": "for people and models",
    "show_openapi": "for tools",
}  # fmt: skip


def every(kind: Any) -> Any:
    """Each field of a TypedDict, with a value that is sent."""
    return dict.fromkeys(get_type_hints(kind), "x")


SCOPE, MEMORY, CONVERSATION = every(fields.Scope), every(fields.MemoryFields), every(fields.ConversationFields)
WITH_EVERYTHING: dict[str, Call[Any]] = {
    "remember": operations.remember("x", idempotency_key="k", **MEMORY),
    "remember_conversation": operations.remember_conversation([], idempotency_key="k", **CONVERSATION),
    "recall": operations.recall("x", limit=1, filters=every(fields.Filters), **SCOPE),
    "digest": operations.digest("x", max_tokens=64, about="x"),
    "get": operations.get("x"),
    "update": operations.update("x", expected_version=1, **every(fields.Changes)),
    "verify": operations.verify("x", expected_version=1, idempotency_key="k"),
    "forget": operations.forget("x", expected_version=1),
    "restore": operations.restore("x", expected_version=1, idempotency_key="k"),
    "memories": operations.memories(filters=every(fields.Filters), page_size=1, **SCOPE),
    "history": operations.history("x", page_size=1),
    "expiring": operations.expiring("7d", limit=1, **SCOPE),
    "tags": operations.tags(**SCOPE),
    "export": operations.export(deleted=True, page_size=1, after="x"),
    "import_lines": operations.import_lines([b"{}"]),
    "principal": operations.principal(),
    "create_key": operations.create_key(
        "x", kind="agent", role="reader", subject_id="x", label="x", expires_at=1
    ),
    "keys": operations.keys(),
    "revoke_key": operations.revoke_key("x"),
}  # fmt: skip
# Set by the client while it goes through pages.
OF_LATER_PAGES = {"memories": {"cursor"}, "history": {"cursor"}}
# Sent by the other of the two forms of one operation.
OF_THE_OTHER_FORM = {
    "remember": {"messages"},
    "remember_conversation": {"content"} | (MEMORY.keys() - CONVERSATION.keys()),
}
REQUESTS = {
    fields.MemoryFields: "RememberBody",
    fields.Message: "MessageBody",
    fields.Source: "SourceBody",
    fields.Changes: "PatchBody",
    fields.Filters: "FilterFields",
    fields.Scope: "SearchBody",
}
ANSWERS = {
    answers.Memory: "MemoryOut",
    answers.Written: "WrittenOut",
    answers.Deleted: "DeletedOut",
    answers.Item: "ItemOut",
    answers.RecallMeta: "SearchMeta",
    answers.RefusedItem: "RefusedOut",
    answers.Usage: "UsageOut",
    answers.Event: "EventOut",
    answers.TagCount: "TagOut",
    answers.Key: "KeyOut",
    answers.NewKey: "NewKeyOut",
    answers.Principal: "PrincipalOut",
    answers.ImportReport: "ImportOut",
}


def documented(call: Call[Any]) -> Any:
    """The operation of a call."""
    asked = call.path.replace("/x", "/{id}")
    return DOCUMENT["paths"][asked][call.method.lower()]


def parameters(operation: Any, place: str) -> set[str]:
    return {parameter["name"] for parameter in operation["parameters"] if parameter["in"] == place}


def test_both_clients_have_every_operation() -> None:
    assert set(WITH_EVERYTHING) == set(operations.__all__)
    for client in (clients.Titen, clients.AsyncTiten):
        made = {name for name, value in vars(client).items() if hasattr(value, "__signature__")}
        assert made == set(operations.__all__), client


def test_every_documented_operation_is_covered_or_named() -> None:
    every_one = {operation["operationId"] for path in DOCUMENT["paths"].values() for operation in path.values()}
    covered = {documented(call)["operationId"] for call in WITH_EVERYTHING.values()}
    assert covered | set(NOT_COVERED) == every_one
    assert covered & set(NOT_COVERED) == set()


@pytest.mark.parametrize("name", operations.__all__)
def test_what_is_sent_is_documented_and_nothing_is_missing(name: str) -> None:
    call = WITH_EVERYTHING[name]
    operation = documented(call)
    assert set(call.params) | OF_LATER_PAGES.get(name, set()) == parameters(operation, "query") - _in_body(call)
    sent = dict(call.headers)
    content_type = sent.pop("Content-Type", None)
    assert set(sent) == parameters(operation, "header") - {"If-Match"}  # expected_version says the same
    assert ([content_type] if content_type else []) == list(operation.get("requestBody", {}).get("content", {}))
    if content_type == "application/json":
        schema = _resolved(operation["requestBody"]["content"][content_type]["schema"])
        assert set(json.loads(call.body or b"")) | OF_THE_OTHER_FORM.get(name, set()) == set(schema["properties"])


@pytest.mark.parametrize("kind", REQUESTS, ids=lambda kind: kind.__name__)
def test_what_may_be_given_is_what_the_service_takes(kind: Any) -> None:
    taken = _resolved(SCHEMAS[REQUESTS[kind]])["properties"]
    for name, annotation in get_type_hints(kind).items():
        assert fits(shape_of_type(annotation), shape_of_schema(taken[name])), name


@pytest.mark.parametrize("kind", ANSWERS, ids=lambda kind: kind.__name__)
def test_an_answer_is_typed_as_it_is_documented(kind: Any) -> None:
    typed, schema = shape_of_type(kind), shape_of_schema(SCHEMAS[ANSWERS[kind]])
    assert fits(typed, schema)
    assert fits(schema, typed)


@pytest.mark.parametrize("identifier", ["", ".", ".."])
def test_an_id_that_would_lead_elsewhere_is_refused(identifier: str) -> None:
    with pytest.raises(ValueError, match="id"):
        operations.forget(identifier)


def test_an_id_is_one_part_of_the_path() -> None:
    assert operations.get("a/../b?c#d").path == "/v1/memories/a%2F..%2Fb%3Fc%23d"


def test_the_comparison_can_fail() -> None:
    memory = shape_of_schema(SCHEMAS["MemoryOut"])
    assert not fits(shape_of_type(answers.Item), memory)
    assert not fits(shape_of_type(str | None), shape_of_type(str))
    assert not fits(shape_of_type(list[int]), shape_of_type(list[str]))
    assert not fits(shape_of_type(Literal["a", "b"]), shape_of_type(Literal["a"]))


def _in_body(call: Call[Any]) -> set[str]:
    return set(json.loads(call.body)) if call.body and call.method != "POST" else set()


def _resolved(schema: Any) -> Any:
    return SCHEMAS[schema["$ref"].rsplit("/", 1)[1]] if "$ref" in schema else schema


# A shape is the set of alternatives that a value may be: a name, or a name with what is inside.

Shape = frozenset[Any]


def fits(given: Shape, taken: Shape) -> bool:
    """Whether all that `given` allows is allowed by `taken`."""
    return all(any(_alternative_fits(one, other) for other in taken) for one in given)


def _alternative_fits(one: Any, other: Any) -> bool:
    if one == other or (isinstance(one, tuple) and one[0] == "enum" and other == "string"):
        return True
    if not (isinstance(one, tuple) and isinstance(other, tuple) and one[0] == other[0]):
        return False
    if one[0] == "enum":
        return bool(one[1] <= other[1])
    if one[0] == "array":
        return fits(one[1], other[1])
    mine, theirs = dict(one[1]), dict(other[1])
    return mine.keys() == theirs.keys() and all(fits(mine[name], theirs[name]) for name in mine)


def shape_of_schema(schema: Any) -> Shape:
    schema = _resolved(schema)
    if "anyOf" in schema:
        return frozenset().union(*(shape_of_schema(choice) for choice in schema["anyOf"]))
    if "enum" in schema or "const" in schema:
        return frozenset({("enum", frozenset(schema.get("enum", [schema.get("const")])))})
    if schema["type"] == "array":
        return frozenset({("array", shape_of_schema(schema["items"]))})
    if "properties" in schema:
        return frozenset(
            {("object", tuple((name, shape_of_schema(value)) for name, value in schema["properties"].items()))}
        )
    return frozenset({schema["type"]})


def _object(fields: Mapping[str, Shape]) -> Shape:
    return frozenset({("object", tuple(sorted(fields.items())))})


SIMPLE = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def shape_of_type(annotation: Any) -> Shape:
    origin, inside = get_origin(annotation), get_args(annotation)
    if annotation in SIMPLE:
        return frozenset({SIMPLE[annotation]})
    if is_typeddict(annotation):
        return frozenset(
            {("object", tuple((name, shape_of_type(value)) for name, value in get_type_hints(annotation).items()))}
        )
    if origin in (Union, types.UnionType):
        return frozenset().union(*(shape_of_type(choice) for choice in inside))
    if origin is Literal:
        return frozenset({("enum", frozenset(inside))})
    if origin is NotRequired:
        return shape_of_type(inside[0])
    if origin in (list, Sequence):
        return frozenset({("array", shape_of_type(inside[0]))})
    assert origin in (dict, Mapping), annotation
    return frozenset({"object"})
