"""The HTTP side of workerd's Ai and Vectorize bindings: what Cloudflare would answer, on a loopback port.

Embeddings come from the same `EmbeddingServer` as the VPS's, so its vectors and its faults are the same.
"""

import base64
import http.client
import json
import math
import threading
from array import array
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import urlsplit

from tests.runtimes.chat_server import ChatServer
from tests.runtimes.cloudflare.vectorize import VectorizeEmulator, VectorizeError
from tests.runtimes.embedding_server import EmbeddingServer

__all__ = ["Backend"]

BLAMES_THE_INPUT: Final = frozenset({400, 413, 422, 500})
BAD_INPUT: Final = 5006
NO_CAPACITY: Final = 3040
NO_JSON_MODE: Final = 5024


class Backend:
    """Answers both bindings until closed."""

    def __init__(self, embedder: EmbeddingServer, vectorize: VectorizeEmulator, chat: ChatServer) -> None:
        self.chat = chat
        self.embedder = embedder
        self.vectorize = vectorize
        self._http = _Server(("127.0.0.1", 0), _Handler)
        self._http.backend = self
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, name="cloudflare-backend", daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/"

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    backend: Backend

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A Worker that stopped waiting has closed the connection; nobody reads the answer."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        """Silent."""

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        asked = urlsplit(self.headers["MF-URL"])  # miniflare's proxy tells what the binding called
        if asked.hostname == "vector-search":
            self._vectorize(asked.path.strip("/"), body)
        elif asked.hostname == "workers-binding.ai":
            self._ai(json.loads(body)["inputs"], body)
        else:
            self._send(404, json.dumps({"error": f"nobody is {asked.hostname}"}))

    def _ai(self, inputs: dict[str, Any], body: str) -> None:
        if "messages" in inputs:
            self._send(*_chatted(self.server.backend.chat, inputs))
        else:
            self._send(*_embedded(self.server.backend.embedder, body))

    def _vectorize(self, operation: str, body: str) -> None:
        try:
            answer = self.server.backend.vectorize.answer(operation, body)
        except VectorizeError as error:
            self._send(error.status, json.dumps({"code": error.code, "error": str(error)}))
        else:
            self._send(200, json.dumps(answer))

    def _send(self, status: int, body: str) -> None:
        content = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("MF-Forwarded-Response", "1")  # or miniflare takes it for a fault of its own
        self.end_headers()
        self.wfile.write(content)


def _embedded(embedder: EmbeddingServer, body: str) -> tuple[int, str]:
    """What Workers AI says where an OpenAI-compatible server says this."""
    inputs = json.loads(body)["inputs"]["text"]
    origin = urlsplit(embedder.base_url)
    connection = http.client.HTTPConnection(origin.netloc)
    try:
        connection.request("POST", f"{origin.path}/embeddings", json.dumps({"model": embedder.model, "input": inputs}))
        response = connection.getresponse()
        content = response.read().decode()
    except (http.client.HTTPException, OSError):
        return _refused(502, NO_CAPACITY, "Capacity temporarily exceeded, please try again.")
    finally:
        connection.close()
    if response.status in BLAMES_THE_INPUT:
        return _refused(400, BAD_INPUT, "Error: invalid input")
    if response.status != 200:
        return _refused(429, NO_CAPACITY, "Capacity temporarily exceeded, please try again.")
    return 200, _as_workers_ai(content)


def _chatted(chat: ChatServer, inputs: dict[str, Any]) -> tuple[int, str]:
    """What Workers AI says where an OpenAI-compatible server says this."""
    status, _, content = chat.answer(inputs)
    if status in BLAMES_THE_INPUT - {500}:
        structured = "response_format" in inputs
        return _refused(400, NO_JSON_MODE if structured else BAD_INPUT, "Error: JSON Mode couldn't be met")
    if status != 200:
        return _refused(429, NO_CAPACITY, "Capacity temporarily exceeded, please try again.")
    text = content.decode("utf-8", "replace")
    try:
        answer = json.loads(text)
        said = answer["choices"][0]["message"]["content"]
    except (ValueError, LookupError, TypeError):
        return 200, json.dumps({"answer": text})
    return 200, json.dumps({"response": said, "usage": answer.get("usage")})


def _refused(status: int, code: int, description: str) -> tuple[int, str]:
    return status, json.dumps({"internalCode": code, "name": "AiError", "description": f"AiError: {description}"})


def _as_workers_ai(content: str) -> str:
    """Rows in the order of the texts. What is no list of embeddings passes as it is."""
    try:
        items = json.loads(content)["data"]
        if all(item.get("index") is not None for item in items):
            by_index = {item["index"]: item for item in items}
            items = [by_index[index] for index in sorted(by_index)]
        rows = [_row(item.get("embedding")) for item in items]
    except (ValueError, KeyError, TypeError, AttributeError):
        return content
    return json.dumps({"shape": [len(rows), len(rows[0]) if rows else 0], "data": rows, "pooling": "cls"})


def _row(embedding: Any) -> Any:
    """JSON has no NaN and no infinity: JavaScript writes null for both."""
    if isinstance(embedding, str):
        embedding = array("f", base64.b64decode(embedding)).tolist()
    if not isinstance(embedding, list):
        return embedding
    return [None if isinstance(value, float) and not math.isfinite(value) else value for value in embedding]
