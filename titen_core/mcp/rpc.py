"""JSON-RPC 2.0 as MCP narrows it: one message at a time, ids that are text or integers, three kinds of error.

Specification 2026-07-28, "Overview": Messages and Error Codes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from titen_core.http.decoding import parse_json

__all__ = [
    "HEADER_MISMATCH",
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "METHOD_NOT_FOUND",
    "PARSE_ERROR",
    "UNSUPPORTED_VERSION",
    "Message",
    "RpcError",
    "read_message",
]

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
HEADER_MISMATCH = -32020
UNSUPPORTED_VERSION = -32022


class RpcError(Exception):
    """An error of the protocol: what the client program did wrong, with the HTTP status that goes with it."""

    def __init__(self, code: int, message: str, *, status: int = 200, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status
        self.data = data

    def shown(self) -> dict[str, Any]:
        """The `error` member."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        return error if self.data is None else {**error, "data": dict(self.data)}


@dataclass(frozen=True, slots=True)
class Message:
    """A request, a notification (`method` without `id`), or a response of the client (no `method`)."""

    method: str | None
    id: str | int | None = None
    params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def meta(self) -> Mapping[str, Any]:
        """`params._meta`, or nothing where it is no object."""
        meta = self.params.get("_meta")
        return meta if isinstance(meta, dict) else {}


def read_message(body: bytes) -> Message:
    """The one message of a body. Raises RpcError; ValidationError where it is no JSON we take."""
    value = parse_json(body)
    if isinstance(value, list):
        raise _invalid("Send one message a request; batches are not part of MCP.")
    if not isinstance(value, dict) or value.get("jsonrpc") != "2.0":
        raise _invalid('Send a JSON object with "jsonrpc": "2.0".')
    if "method" not in value and ("result" in value or "error" in value):
        return Message(None)
    method, params = value.get("method"), value.get("params", {})
    if not isinstance(method, str):
        raise _invalid("method must be a string.")
    if not isinstance(params, dict):
        raise _invalid("params must be an object.")
    if "id" not in value:
        return Message(method, None, params)
    message_id = value["id"]
    if isinstance(message_id, bool) or not isinstance(message_id, str | int):
        raise _invalid("id must be a string or an integer.")
    return Message(method, message_id, params)


def _invalid(message: str) -> RpcError:
    return RpcError(INVALID_REQUEST, message, status=400)
