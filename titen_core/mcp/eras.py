"""Which revision a request speaks, and whether its headers say what its body says.

Modern requests carry their version in `_meta` and repeat it in headers (2026-07-28, "Streamable HTTP":
Request Metadata and Server Validation). Older ones come after `initialize`, and may come without the
header at all, which then means 2025-03-26 (2025-06-18 and 2025-11-25, "Transports": Protocol Version Header).
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from titen_core.mcp.rpc import HEADER_MISMATCH, INVALID_PARAMS, UNSUPPORTED_VERSION, Message, RpcError

__all__ = ["LEGACY", "MODERN", "SUPPORTED", "check_headers", "headers_of", "version_of"]

MODERN = "2026-07-28"
LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26")
SUPPORTED = (MODERN, *LEGACY)

_PREFIX = "io.modelcontextprotocol/"
_VERSION = f"{_PREFIX}protocolVersion"
_CAPABILITIES = f"{_PREFIX}clientCapabilities"
_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


def version_of(headers: Mapping[str, str], message: Message) -> str:
    """The supported version of a request. Raises RpcError with status 400."""
    in_header, in_body = _header(headers, "mcp-protocol-version"), message.meta.get(_VERSION)
    if in_body is None:
        return _without_meta(in_header)
    if not isinstance(in_body, str):
        raise RpcError(INVALID_PARAMS, f"_meta: {_VERSION} must be a string.", status=400)
    if in_header != in_body:
        raise _mismatch("MCP-Protocol-Version", in_header)
    _require_supported(in_body)
    if in_body == MODERN and not isinstance(message.meta.get(_CAPABILITIES), dict):
        raise RpcError(INVALID_PARAMS, f"_meta: {_CAPABILITIES} is required and must be an object.", status=400)
    return in_body


def check_headers(headers: Mapping[str, str], message: Message) -> None:
    """Raise RpcError unless `Mcp-Method` and, where the method has one, `Mcp-Name` agree with the body."""
    method = _header(headers, "mcp-method")
    if method != message.method:
        raise _mismatch("Mcp-Method", method)
    member = _NAMED.get(message.method or "")
    if member is not None:
        name = _header(headers, "mcp-name")
        if name is None or _decoded(name) != message.params.get(member):
            raise _mismatch("Mcp-Name", name)


def headers_of(message: Any) -> dict[str, str]:
    """What an HTTP client repeats of this message in headers: nothing of an older one, or of what is no request."""
    params = message.get("params") if isinstance(message, dict) else None
    meta = params.get("_meta") if isinstance(params, dict) else None
    version = meta.get(_VERSION) if isinstance(meta, dict) else None
    method = message.get("method") if isinstance(message, dict) else None
    if not isinstance(params, dict) or not isinstance(version, str) or not isinstance(method, str):
        return {}
    headers = {"mcp-protocol-version": _encoded(version), "mcp-method": _encoded(method)}
    name = params.get(_NAMED.get(method, ""))
    return {**headers, "mcp-name": _encoded(name)} if isinstance(name, str) else headers


def _header(headers: Mapping[str, str], name: str) -> str | None:
    """A header's value without the white space around it, which is no part of it (RFC 9110, 5.5)."""
    value = headers.get(name)
    return None if value is None else value.strip(" \t")


def _without_meta(in_header: str | None) -> str:
    if in_header is None:
        return "2025-03-26"
    _require_supported(in_header)
    if in_header == MODERN:
        raise RpcError(INVALID_PARAMS, f"_meta: {_VERSION} is required in {MODERN}.", status=400)
    return in_header


def _require_supported(version: str) -> None:
    if version not in SUPPORTED:
        data = {"supported": list(SUPPORTED), "requested": version}
        raise RpcError(UNSUPPORTED_VERSION, "Unsupported protocol version", status=400, data=data)


def _encoded(value: str) -> str:
    """As it is where a header can carry it, else in its Base64 wrapping."""
    if value and not value.startswith("=?") and all("!" <= char <= "~" for char in value):
        return value
    return f"=?base64?{base64.b64encode(value.encode('utf-8', 'replace')).decode()}?="


def _decoded(value: str) -> str | None:
    """A header's value, out of its Base64 wrapping if it has one; None where the wrapping is broken."""
    if not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    try:
        return base64.b64decode(value[len("=?base64?") : -len("?=")], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


def _mismatch(header: str, value: str | None) -> RpcError:
    fault = "is missing" if value is None else "does not match the body"
    return RpcError(HEADER_MISMATCH, f"Header mismatch: {header} {fault}.", status=400)
