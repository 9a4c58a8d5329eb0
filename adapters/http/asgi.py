"""ASGI in, `Request` out, `Response` back. Decides nothing.

The server must not cancel the task of a request whose client has gone: a write that has begun ends.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, MutableMapping
from typing import Any

from titen_core.http.messages import Request, Response, body_limit

__all__ = ["AsgiApp", "asgi"]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Message, Receive, Send], Coroutine[Any, Any, None]]


def asgi(handle: Callable[[Request], Awaitable[Response]]) -> AsgiApp:
    """The ASGI callable of an app. Answers nothing but HTTP; a body over its limit is not read on."""

    async def call(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        elif scope["type"] == "http":
            request = await _request(scope, receive)
            if request is not None:
                await _answer(await handle(request), scope["method"], send)

    return call


async def _request(scope: Message, receive: Receive) -> Request | None:
    """The whole request, or None when the client left before it was all here."""
    path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
    limit, body, more = body_limit(scope["method"], path), bytearray(), True
    while more and len(body) <= limit:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        more = message.get("more_body", False)
    oversize = len(body) > limit
    return Request(
        method=scope["method"],
        path=path,
        query=scope["query_string"].decode("latin-1"),
        headers=_joined(scope["headers"]),
        body=b"" if oversize else bytes(body),
        oversize=oversize,
    )


async def _answer(response: Response, method: str, send: Send) -> None:
    headers = [(name.lower().encode(), value.encode()) for name, value in response.headers]
    body = response.body
    has_length = response.status == 204 or any(name == b"content-length" for name, _ in headers)  # RFC 9110, 8.6
    if isinstance(body, bytes) and not has_length:
        headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    if method != "HEAD" and isinstance(body, AsyncIterator):
        async for chunk in body:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    whole = body if method != "HEAD" and isinstance(body, bytes) else b""
    await send({"type": "http.response.body", "body": whole, "more_body": False})


def _joined(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers as one mapping; repeated ones in order, with a comma between (RFC 9110, 5.2)."""
    headers: dict[str, str] = {}
    for name, value in pairs:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return headers


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        kind = (await receive())["type"]
        await send({"type": f"{kind}.complete"})
        if kind == "lifespan.shutdown":
            return
