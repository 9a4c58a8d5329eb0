"""The ASGI adapter converts and forwards."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from adapters.http.asgi import asgi
from titen_core import limits
from titen_core.http.messages import Request, Response

BASE: dict[str, Any] = {
    "type": "http",
    "method": "POST",
    "path": "/a b",
    "raw_path": b"/a%20b",
    "query_string": b"q=%C3%A9",
    "headers": [(b"X-One", b"1"), (b"x-one", b"2"), (b"Content-Type", b"application/json")],
}


def exchange(
    response: Response, messages: list[dict[str, Any]], **scope: Any
) -> tuple[list[Request], list[dict[str, Any]], int]:
    """The requests an app got, the messages sent back, and how many messages were left unread."""
    seen: list[Request] = []
    sent: list[dict[str, Any]] = []
    waiting = list(messages)

    async def handle(request: Request) -> Response:
        seen.append(request)
        return response

    async def receive() -> dict[str, Any]:
        return waiting.pop(0)

    async def send(message: Any) -> None:
        sent.append(dict(message))

    asyncio.run(asgi(handle)({**BASE, **scope}, receive, send))
    return seen, sent, len(waiting)


def body(*chunks: bytes) -> list[dict[str, Any]]:
    return [
        {"type": "http.request", "body": chunk, "more_body": place < len(chunks)}
        for place, chunk in enumerate(chunks, 1)
    ]


def test_the_request_as_received() -> None:
    (request,), _, _ = exchange(Response(204), body(b"ab", b"c"))
    assert request == Request(
        method="POST",
        path="/a%20b",
        query="q=%C3%A9",
        headers={"x-one": "1, 2", "content-type": "application/json"},
        body=b"abc",
    )


def test_the_response_as_answered() -> None:
    _, (start, end), _ = exchange(Response(201, (("X-A", "b"),), b"hello"), body(b""))
    assert start == {
        "type": "http.response.start",
        "status": 201,
        "headers": [(b"x-a", b"b"), (b"content-length", b"5")],
    }
    assert end == {"type": "http.response.body", "body": b"hello", "more_body": False}


def test_a_streamed_response() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"a"
        yield b"b"

    _, sent, _ = exchange(Response(200, (), chunks()), body(b""))
    assert [message.get("body") for message in sent] == [None, b"a", b"b", b""]
    assert sent[0]["headers"] == []


def test_head_has_the_length_and_no_body() -> None:
    _, (start, end), _ = exchange(Response(200, (), b"hello"), body(b""), method="HEAD")
    assert (b"content-length", b"5") in start["headers"]
    assert end["body"] == b""


def test_reading_stops_at_the_limit() -> None:
    half = b"x" * (limits.BODY_BYTES // 2 + 1)
    (request,), _, unread = exchange(Response(413), body(half, half, half, half))
    assert (request.oversize, request.body, unread) == (True, b"", 2)


def test_a_body_of_exactly_the_limit_passes() -> None:
    (request,), _, _ = exchange(Response(200), body(b"x" * limits.BODY_BYTES))
    assert (request.oversize, len(request.body)) == (False, limits.BODY_BYTES)


def test_an_import_may_be_larger() -> None:
    (request,), _, _ = exchange(Response(200), body(b"x" * (limits.BODY_BYTES + 1)), raw_path=b"/v1/import")
    assert not request.oversize


def test_a_client_that_left_is_not_answered() -> None:
    seen, sent, _ = exchange(Response(200), [*body(b"half", b"")[:1], {"type": "http.disconnect"}])
    assert (seen, sent) == ([], [])


def test_lifespan_and_other_protocols() -> None:
    events = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
    _, sent, _ = exchange(Response(200), events, type="lifespan")
    assert [message["type"] for message in sent] == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert exchange(Response(200), [], type="websocket") == ([], [], 0)


def test_an_answer_without_content_names_no_length() -> None:
    _, sent, _ = exchange(Response(204, (("Allow", "GET"),)), body(b""))
    assert sent[0]["headers"] == [(b"allow", b"GET")]
