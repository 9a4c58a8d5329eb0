"""A Worker's request in, `Request` out, `Response` back. Decides nothing."""

from collections.abc import Iterable
from typing import Any

from adapters.cloudflare.convert import body_bytes, javascript_response, request_head
from titen_core.http.messages import Request, Response, body_limit

__all__ = ["read_request", "write_response"]

_WITHOUT_BODY = frozenset({204, 304})


async def read_request(incoming: Any) -> Request:
    """The whole request; a body over its limit is not read to its end."""
    method, url, pairs = request_head(incoming)
    path, query = _target(url)
    body = await body_bytes(incoming, body_limit(method, path))
    return Request(
        method=method,
        path=path,
        query=query,
        headers=_joined(pairs),
        body=body or b"",
        oversize=body is None,
    )


async def write_response(response: Response, method: str) -> Any:
    """The Worker's own Response. A streamed body is collected: pages of an export are bounded."""
    if method == "HEAD" or response.status in _WITHOUT_BODY:
        return javascript_response(response.status, response.headers, None)
    body = response.body
    if not isinstance(body, bytes):
        body = b"".join([chunk async for chunk in body])
    return javascript_response(response.status, response.headers, body)


def _target(url: str) -> tuple[str, str]:
    """Path and query as they came, still percent-encoded."""
    _, _, rest = url.partition("://")
    _, slash, target = rest.partition("#")[0].partition("/")
    path, _, query = f"{slash}{target}".partition("?")
    return path or "/", query


def _joined(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Headers as one mapping; repeated ones in order, with a comma between (RFC 9110, 5.2)."""
    headers: dict[str, str] = {}
    for name, value in pairs:
        key = name.lower()
        headers[key] = f"{headers[key]}, {value}" if key in headers else value
    return headers
