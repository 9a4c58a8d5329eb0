"""MCP over stdio: one JSON-RPC message a line in, one a line out, and nothing else on stdout.

The door is the one of HTTP, called here or over the network; a line becomes a request to it. What modern
requests repeat in headers (2026-07-28, "Streamable HTTP") is taken from the message itself.
"""

import asyncio
import json
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, BinaryIO, Final

from titen_core import limits
from titen_core.mcp.eras import headers_of
from titen_core.nesting import nests_deeper

__all__ = ["Door", "lines_of", "relay"]

Door = Callable[[bytes, Mapping[str, str]], Awaitable[tuple[int, bytes]]]
"""Takes a message and headers, answers HTTP status and body."""

_JSON: Final = {"content-type": "application/json"}
_SERVER_ERROR: Final = -32000
_TOO_LONG: Final = b"[too long]"  # no JSON: the door answers it as such


async def relay(lines: AsyncIterator[bytes], door: Door, out: BinaryIO) -> None:
    """Answer every line in order, until there are no more."""
    async for line in lines:
        message = _parsed(line)
        status, body = await door(line, {**_JSON, **headers_of(message)})
        answer = _answer(message, status, body)
        if answer is not None:
            out.write(json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
            out.flush()


async def lines_of(stream: BinaryIO) -> AsyncIterator[bytes]:
    """The lines that hold something. A thread reads them, since a stream may be a file, a pipe or a terminal."""
    loop, queue = asyncio.get_running_loop(), asyncio.Queue[bytes | None](1)

    def read() -> None:
        try:
            while line := _line(stream):
                asyncio.run_coroutine_threadsafe(queue.put(line), loop).result()
            asyncio.run_coroutine_threadsafe(queue.put(None), loop).result()
        except RuntimeError:  # the loop has ended: nobody wants the rest
            return

    threading.Thread(target=read, name="titen-mcp-stdin", daemon=True).start()
    while (line := await queue.get()) is not None:
        if line.strip():
            yield line


def _line(stream: BinaryIO) -> bytes:
    """The next line; one over the bound of a body is read to its end and not kept."""
    line = stream.readline(limits.BODY_BYTES + 1)
    if len(line) <= limits.BODY_BYTES or line.endswith(b"\n"):
        return line
    while (rest := stream.readline(limits.BODY_BYTES)) and not rest.endswith(b"\n"):
        pass
    return _TOO_LONG


def _parsed(line: bytes) -> Any:
    """The message as far as it can be read; the door is who judges it."""
    text = line.decode("utf-8", "replace")
    if nests_deeper(text, limits.JSON_DEPTH):
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None


def _answer(message: Any, status: int, body: bytes) -> Any:
    """The JSON-RPC answer; None for a notification, whose refusal goes to stderr."""
    answer = _parsed(body) if body else None
    if isinstance(answer, dict) and answer.get("jsonrpc") == "2.0":
        return answer
    if status < 300:
        return None
    told = answer.get("error", {}) if isinstance(answer, dict) else {}
    said = f"{told['code']}: {told['message']}" if "message" in told else f"The service answered {status}."
    identifier = message.get("id") if isinstance(message, dict) else None
    if identifier is None:
        print(said, file=sys.stderr)  # noqa: T201 - stdout belongs to the protocol
        return None
    return {"jsonrpc": "2.0", "id": identifier, "error": {"code": _SERVER_ERROR, "message": said}}
