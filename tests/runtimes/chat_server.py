"""A small real OpenAI-compatible chat server for tests: it says what it is told to, or breaks as it is told to."""

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

__all__ = ["ChatServer"]

USAGE: Final = {"prompt_tokens": 321, "completion_tokens": 45}

Reply = tuple[int, dict[str, str], bytes]


class ChatServer:
    """`say` and `fail` hold until the next one. `requests` are the bodies it was sent, oldest first."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self._reply: Callable[[dict[str, Any]], Reply] = _saying('{"memories": []}')
        self._http = _Server(("127.0.0.1", 0), _Handler)
        self._http.chat = self
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, name="chat-server", daemon=True
        )
        self._thread.start()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def say(self, text: str) -> None:
        """Answer with this text."""
        self._reply = _saying(text)

    def send(self, body: bytes) -> None:
        """Answer 200 with this body, whatever it is."""
        self._reply = lambda _: (200, {}, body)

    def fail(self, status: int, **headers: str) -> None:
        """Refuse with this status."""
        self._reply = lambda _: (status, headers, b'{"error": "refused"}')

    def stall(self, seconds: float) -> None:
        """Answer, but only after a while."""
        saying = _saying('{"memories": []}')

        def late(request: dict[str, Any]) -> Reply:
            time.sleep(seconds)
            return saying(request)

        self._reply = late

    def without_structure(self, text: str) -> None:
        """Refuse structured output, and answer with this text without it."""
        saying = _saying(text)
        self._reply = lambda request: (400, {}, b"{}") if "response_format" in request else saying(request)

    def answer(self, request: dict[str, Any]) -> Reply:
        self.requests.append(request)
        return self._reply(request)

    def clear(self) -> None:
        self.say('{"memories": []}')
        self.requests.clear()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


def _saying(text: str) -> Callable[[dict[str, Any]], Reply]:
    message = {"role": "assistant", "content": text}
    body = json.dumps({"choices": [{"index": 0, "message": message}], "usage": USAGE}).encode()
    return lambda _: (200, {}, body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    chat: ChatServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A service that stopped waiting has closed the connection; nobody reads the answer."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, headers, content = self.server.chat.answer(json.loads(body))
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        """Silent."""
