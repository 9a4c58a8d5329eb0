"""The documents a newcomer reads: the guide at `/` and the OpenAPI document."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.client import Api

ROUTES = {
    ("post", "/v1/memories"),
    ("get", "/v1/memories"),
    ("post", "/v1/memories/search"),
    ("get", "/v1/memories/expiring"),
    ("get", "/v1/memories/tags"),
    ("get", "/v1/memories/{id}"),
    ("patch", "/v1/memories/{id}"),
    ("delete", "/v1/memories/{id}"),
    ("get", "/v1/memories/{id}/history"),
    ("post", "/v1/memories/{id}/restore"),
    ("post", "/v1/memories/{id}/verify"),
    ("get", "/v1/export"),
    ("post", "/v1/import"),
    ("post", "/v1/keys"),
    ("get", "/v1/keys"),
    ("delete", "/v1/keys/{id}"),
    ("get", "/v1/principal"),
    ("post", "/v1/repair"),
    ("get", "/healthz"),
    ("get", "/readyz"),
    ("get", "/"),
    ("get", "/openapi.json"),
}
METHODS = {"get", "put", "post", "delete", "patch", "head", "options", "trace"}


@pytest.fixture
def document(anyone: Api) -> dict[str, Any]:
    document: dict[str, Any] = anyone.request("GET", "/openapi.json").expect(200).body
    return document


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in document["paths"].items():
        for method in METHODS & set(item):
            yield method, path, item[method]


def schemas(node: Any) -> Iterator[dict[str, Any]]:
    """Every schema that says it is an object, wherever it is."""
    if isinstance(node, dict):
        if node.get("type") == "object":
            yield node
        for value in node.values():
            yield from schemas(value)
    elif isinstance(node, list):
        for value in node:
            yield from schemas(value)


def test_it_is_openapi_3_1_with_the_running_version(document: dict[str, Any], anyone: Api) -> None:
    assert document["openapi"].startswith("3.1")
    assert document["info"]["version"] == anyone.request("GET", "/healthz").headers["x-titen-version"]


def test_every_route_of_the_contract_is_in_it(document: dict[str, Any]) -> None:
    named = {
        (method, path.replace("{memory_id}", "{id}").replace("{key_id}", "{id}"))
        for method, path, _ in operations(document)
    }
    assert named >= ROUTES


def test_no_answer_is_left_to_default(document: dict[str, Any]) -> None:
    assert [path for _, path, operation in operations(document) if "default" in operation["responses"]] == []


def test_no_schema_is_a_bare_object(document: dict[str, Any]) -> None:
    bare = [s for s in schemas(document) if not {"properties", "additionalProperties", "$ref", "allOf"} & set(s)]
    assert bare == []


def test_every_operation_tells_its_errors_and_has_a_name(document: dict[str, Any]) -> None:
    ids = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(ids) == len(set(ids))
    for method, path, operation in operations(document):
        assert operation.get("summary") or operation.get("description"), (method, path)
        if path.startswith("/v1/"):
            assert {"401", "403"} <= set(operation["responses"]), (method, path)


def test_request_bodies_refuse_unknown_fields(document: dict[str, Any]) -> None:
    body = document["paths"]["/v1/memories"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    name = body["$ref"].rpartition("/")[2] if "$ref" in body else None
    schema = document["components"]["schemas"][name] if name else body
    assert schema["additionalProperties"] is False


def test_the_guide_leads_a_newcomer(anyone: Api) -> None:
    guide = anyone.request("GET", "/").expect(200)
    for word in ("Titen", "/v1/memories", "/v1/memories/search", "/openapi.json", "Authorization"):
        assert word in guide.content.decode()
    assert guide.headers["content-type"].startswith("text/")


def test_the_guides_paths_are_real(anyone: Api, document: dict[str, Any]) -> None:
    guide = anyone.request("GET", "/").content.decode()
    for path in ("/v1/export", "/v1/import", "/healthz", "/readyz"):
        if path in guide:
            assert path in document["paths"]
