"""Finding the route of a request."""

import asyncio
from pathlib import Path

import pytest

from tests.unit.service import open_service
from titen_core.errors import MethodNotAllowed, NotFound
from titen_core.http.routes import ROUTES
from titen_core.http.routing import find_route


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        ("GET", "/", "show_guide"),
        ("GET", "", "show_guide"),
        ("GET", "/v1/memories", "list_memories"),
        ("GET", "/v1/memories/", "list_memories"),
        ("POST", "/v1/memories/", "remember_memory"),
        ("POST", "/v1/memories/search", "search_memories"),
        ("GET", "/v1/memories/tags", "list_tags"),
        ("GET", "/v1/memories/expiring/", "list_expiring"),
        ("GET", "/v1/memories/tagsx", "get_memory"),
        ("HEAD", "/v1/memories/x", "get_memory"),
        ("GET", "/v1/memories/x/history", "memory_history"),
    ],
)
def test_paths_and_their_routes(method: str, path: str, name: str) -> None:
    assert find_route(ROUTES, method, path).route.name == name


@pytest.mark.parametrize(
    ("path", "memory_id"),
    [("x", "x"), ("%61", "a"), ("a%2Fb", "a/b"), ("%E8%AE%BE", "设"), ("a+b", "a+b"), ("%00", "\0"), ("..", "..")],
)
def test_parameters_are_decoded_once(path: str, memory_id: str) -> None:
    assert find_route(ROUTES, "GET", f"/v1/memories/{path}").params == {"id": memory_id}


def test_what_looks_encoded_after_decoding_stays() -> None:
    assert find_route(ROUTES, "GET", "/v1/memories/%2561").params == {"id": "%61"}


@pytest.mark.parametrize(
    "path",
    [
        *("/v1", "/v2/memories", "/V1/memories", "/v1/memories/x/other", "/v1/memories/x/history/y", "//"),
        *(
            "//v1/memories",
            "/v1//memories",
            "/%76%31/memories/tags/x",
            "/v1/memories/%FF",
            "/v1/keys/a/b",
        ),
    ],
)
def test_paths_that_are_none(path: str) -> None:
    with pytest.raises(NotFound):
        find_route(ROUTES, "GET", path)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/v1/memories/x", ["DELETE", "GET", "OPTIONS", "PATCH"]),
        ("DELETE", "/v1/memories", ["GET", "OPTIONS", "POST"]),
        ("GET", "/v1/memories/search", ["OPTIONS", "POST"]),
        ("PATCH", "/v1/memories/tags", ["GET", "OPTIONS"]),
        ("get", "/healthz", ["GET", "OPTIONS"]),
        ("BREW", "/", ["GET", "OPTIONS"]),
    ],
)
def test_a_method_that_a_path_does_not_answer(method: str, path: str, allowed: list[str]) -> None:
    with pytest.raises(MethodNotAllowed) as refused:
        find_route(ROUTES, method, path)
    assert refused.value.details == {"allow": allowed}


def test_every_path_tells_what_it_allows(tmp_path: Path) -> None:
    async def case() -> None:
        async with open_service(tmp_path) as service:
            for route in ROUTES:
                reply = await service.call("OPTIONS", route.path.replace("{id}", "x"))
                assert reply.status == 204
                assert route.method in reply.headers["allow"].split(", ")
            assert (await service.call("TRACE", "/healthz")).headers["allow"] == "GET, OPTIONS"

    asyncio.run(case())
