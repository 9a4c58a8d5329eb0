"""Whatever a generator makes of the served OpenAPI document, the service answers as documented."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from adapters.http.asgi import AsgiApp, asgi
from tests.unit.kernel import WordModel
from tests.unit.service import open_service
from titen_core.http.messages import Request, Response
from titen_core.http.openapi import ARTIFACT


@schemathesis.check
def bad_data_is_refused(context: Any, response: Any, case: schemathesis.Case[Any]) -> bool | None:
    """As `negative_data_rejection`, which does not know that a body may also be refused for its size."""
    return None if response.status_code == 413 else negative_data_rejection(context, response, case)


CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    bad_data_is_refused,
]
EXAMPLES = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


Operation: TypeAlias = APIOperation[Any, Any, Any, Any]


@schemathesis.serializer("application/x-ndjson")
def _lines(context: Any, value: Any) -> bytes:
    return str(value).encode("utf-8", "replace")


@dataclass(frozen=True)
class Live:
    """The real app on a real file, an admin's key and a memory to ask for."""

    app: AsgiApp
    headers: dict[str, str]
    memory_id: str


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with asyncio.Runner() as runner:
        opened = open_service(tmp_path_factory.mktemp("fuzz"), WordModel())
        service = runner.run(opened.__aenter__())
        key = runner.run(service.key(runner.run(service.tenant())))
        made = runner.run(service.call("POST", "/v1/memories", {"subject_id": "u", "content": "tea"}, key=key))
        served = runner.run(service.call("GET", "/openapi.json"))
        assert json.loads(served.text) == json.loads(ARTIFACT.read_text(encoding="utf-8"))
        try:
            yield Live(asgi(service.app.handle), {"Authorization": f"Bearer {key}"}, made.data["id"])
        finally:
            runner.run(opened.__aexit__(None, None, None))


def _operations() -> dict[str, Operation]:
    schema = schemathesis.openapi.from_dict(json.loads(ARTIFACT.read_text(encoding="utf-8")))
    found = [result.ok() for result in schema.get_all_operations() if isinstance(result, Ok)]
    return {operation.label: operation for operation in found}


def _takes_something(operation: Operation) -> bool:
    """Whether there is anything to get wrong; an import reports bad lines instead of refusing the body."""
    definition = operation.definition.raw
    return bool(definition["parameters"] or "requestBody" in definition) and operation.path != "/v1/import"


OPERATIONS = _operations()
FALLIBLE = {label: operation for label, operation in OPERATIONS.items() if _takes_something(operation)}


def _try(app: AsgiApp, headers: dict[str, str], operation: Operation, mode: GenerationMode, memory_id: str) -> None:
    @EXAMPLES
    @given(operation.as_strategy(generation_mode=mode))
    def answers(case: schemathesis.Case[Any]) -> None:
        if mode is GenerationMode.POSITIVE and operation.path.startswith("/v1/memories/{id}"):
            case.path_parameters = {"id": memory_id}
        case.call_and_validate(app=app, base_url="http://titen", headers=headers, checks=CHECKS)

    answers()


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_what_the_document_allows_is_answered_as_documented(live: Live, operation: Operation) -> None:
    _try(live.app, live.headers, operation, GenerationMode.POSITIVE, live.memory_id)


@pytest.mark.parametrize("operation", FALLIBLE.values(), ids=FALLIBLE)
def test_what_the_document_forbids_is_refused_as_documented(live: Live, operation: Operation) -> None:
    _try(live.app, live.headers, operation, GenerationMode.NEGATIVE, live.memory_id)


@pytest.mark.parametrize(
    ("status", "body", "mode"),
    [
        (500, {"error": {"code": "INTERNAL", "message": "m"}, "meta": {"request_id": "r"}}, GenerationMode.POSITIVE),
        (418, {"error": {"code": "TEAPOT", "message": "m"}, "meta": {"request_id": "r"}}, GenerationMode.POSITIVE),
        (200, {"data": {}, "meta": {"request_id": "r"}}, GenerationMode.POSITIVE),
        (200, {"data": [], "meta": {"request_id": "r"}}, GenerationMode.NEGATIVE),
    ],
    ids=["server error", "undocumented status", "undocumented answer", "bad request accepted"],
)
def test_the_checks_can_fail(status: int, body: dict[str, Any], mode: GenerationMode) -> None:
    async def handle(request: Request) -> Response:
        return Response(status, (("Content-Type", "application/json"),), json.dumps(body).encode())

    with pytest.raises((FailureGroup, BaseExceptionGroup)):
        _try(asgi(handle), {}, OPERATIONS["GET /v1/memories/tags"], mode, "")
