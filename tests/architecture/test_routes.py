"""Rules of the route table and of the OpenAPI document that is made from it."""

import ast
import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

import titen_core
from tests.architecture.scenario import Answered, Mood, walk
from tests.unit.kernel import WordModel
from tests.unit.service import open_service
from titen_core.http.openapi import ARTIFACT, build_openapi, render
from titen_core.http.routes import ROUTES
from titen_core.models import Action

CORE = Path(str(titen_core.__file__)).parent
DOCUMENT = json.loads(ARTIFACT.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> list[Answered]:
    async def walked() -> list[Answered]:
        mood = Mood()
        directory = tmp_path_factory.mktemp("walk")
        async with open_service(directory, WordModel(refuses=mood)) as service:
            return await walk(service, mood)

    return asyncio.run(walked())


def test_only_open_doors_need_no_key() -> None:
    assert all(isinstance(route.action, Action) for route in ROUTES)
    assert {route.path for route in ROUTES if route.action is Action.NONE} == {
        *("/", "/healthz", "/readyz", "/openapi.json")
    }


def test_a_reading_action_never_writes_and_a_changing_method_never_reads() -> None:
    reading = {Action.READ, Action.EXPORT, Action.NONE}
    for route in ROUTES:
        changes = route.method in {"POST", "PUT", "PATCH", "DELETE"} and route.name != "search_memories"
        lists_keys = route.method == "GET" and route.action is Action.KEYS
        assert (route.action in reading) != changes or lists_keys, route.name


def test_names_of_operations_are_unique() -> None:
    names = [route.name for route in ROUTES]
    assert len(set(names)) == len(names)


def test_only_policy_makes_an_access() -> None:
    makers = {
        file.relative_to(CORE).as_posix()
        for file in sorted(CORE.rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and _makes_access(node)
    }
    assert makers == {"policy.py"}


def _makes_access(call: ast.Call) -> bool:
    """`Access(...)`, or `replace(access, ...)`, which makes one as well."""
    name = _last_name(call.func)
    return name == "Access" or (
        name in {"replace", "__replace__"} and any(_last_name(argument) == "access" for argument in call.args)
    )


def _last_name(node: ast.expr) -> str | None:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None


def test_the_artifact_is_what_the_routes_make() -> None:
    made = render(build_openapi(ROUTES))
    assert ARTIFACT.read_text(encoding="utf-8") == made, "run: python -m titen_core.http.openapi"


def test_answers_are_documented_one_by_one() -> None:
    for path, operations in DOCUMENT["paths"].items():
        for method, operation in operations.items():
            assert "default" not in operation["responses"], (method, path)
            assert all(status.isdigit() for status in operation["responses"]), (method, path)


def test_an_object_says_what_is_in_it() -> None:
    bare = [
        where
        for where, node in _nodes(DOCUMENT, "")
        if isinstance(node, dict)
        and node.get("type") == "object"
        and not node.get("properties")
        and "additionalProperties" not in node
    ]
    assert bare == []


def _nodes(value: Any, where: str) -> Iterator[tuple[str, Any]]:
    yield where, value
    for name, member in value.items() if isinstance(value, dict) else enumerate(value) if _is_list(value) else ():
        yield from _nodes(member, f"{where}/{name}")


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def test_every_route_was_walked(answered: list[Answered]) -> None:
    good = {answer.route.name for answer in answered if answer.reply.status < 300}
    assert good == {route.name for route in ROUTES}


def test_every_answer_is_as_documented(answered: list[Answered]) -> None:
    for answer in answered:
        route, reply = answer.route, answer.reply
        responses = DOCUMENT["paths"][route.path][route.method.lower()]["responses"]
        assert str(reply.status) in responses, (route.name, reply.status, reply.text)
        media_type = reply.headers["content-type"].partition(";")[0]
        content = responses[str(reply.status)]["content"]
        assert media_type in content, (route.name, reply.status, media_type)
        if media_type == "application/json":
            schema = {**content[media_type]["schema"], "components": DOCUMENT["components"]}
            problems = [error.message for error in jsonschema_rs.Draft202012Validator(schema).iter_errors(reply.json)]
            assert problems == [], (route.name, reply.text)
