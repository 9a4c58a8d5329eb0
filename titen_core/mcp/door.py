"""One HTTP request to the MCP endpoint, its caller known: read, check, answer. Nothing is kept between requests.

No session is made or looked at, and answers are single JSON objects, never streams; both are the server's to choose
(2026-07-28 and 2025-11-25, "Streamable HTTP"). So it does not matter which of the two types `Accept` names.
"""

import json
from typing import Any

from titen_core.errors import ValidationError
from titen_core.http.decoding import require_media_type
from titen_core.http.messages import Request, Response
from titen_core.mcp.calls import Caller
from titen_core.mcp.eras import MODERN, check_headers, version_of
from titen_core.mcp.methods import answer
from titen_core.mcp.rpc import INVALID_REQUEST, PARSE_ERROR, Message, RpcError, read_message

__all__ = ["respond"]


async def respond(caller: Caller, request: Request) -> Response:
    """The response to a POST. Raises UnsupportedMediaType; every fault of the message becomes a JSON-RPC error."""
    require_media_type(request, "application/json")
    try:
        message = read_message(request.body)
    except ValidationError as failure:
        return _failed(None, RpcError(PARSE_ERROR, failure.message, status=400))
    except RpcError as failure:
        return _failed(None, failure)
    if message.id is None:
        return _accepted(request, message)
    try:
        version = version_of(request.headers, message)
        if version == MODERN:
            check_headers(request.headers, message)
        return _json(200, {"jsonrpc": "2.0", "id": message.id, "result": await answer(caller, message, version)})
    except RpcError as failure:
        return _failed(message.id, failure)


def _accepted(request: Request, message: Message) -> Response:
    """202 without a body. The modern revision has no responses from clients, so one is refused there."""
    if message.method is None and request.headers.get("mcp-protocol-version") == MODERN:
        return _failed(None, RpcError(INVALID_REQUEST, "Clients send requests and notifications only.", status=400))
    return Response(202)


def _failed(message_id: str | int | None, failure: RpcError) -> Response:
    known = {} if message_id is None else {"id": message_id}
    return _json(failure.status, {"jsonrpc": "2.0", **known, "error": failure.shown()})


def _json(status: int, value: dict[str, Any]) -> Response:
    body = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Response(status, (("Content-Type", "application/json"),), body.encode("utf-8", "replace"))
