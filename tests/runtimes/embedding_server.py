"""A small real OpenAI-compatible embedding server for tests: deterministic, and broken on demand.

    with EmbeddingServer() as server:
        gateway = OpenAIGateway(server.base_url, server.model)
        server.fail("status", status=429, retry_after="2", times=1)

The same can be said over HTTP, for suites whose service runs in another process:

    POST /control {"mode": "status", "status": 503, "times": 2}
    POST /control {"alias": {"kereta": "travel"}}
    POST /control {"clear": true}
    GET  /control -> {"requests": 3, "texts": 40, "faults": [...], "last_keys": [...]}

Vectors are a hashed bag of words: texts that share words, or words of one concept in the thesaurus,
are near (cosine above 0.5 for short texts), others are not (about 0 +- 1/sqrt(dimensions)).
"""

import base64
import contextlib
import hashlib
import json
import math
import re
import socket
import threading
import time
import unicodedata
from array import array
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

__all__ = ["CONCEPTS", "MODES", "EmbeddingServer", "Fault", "RecordedRequest"]

CONCEPTS: Mapping[str, str] = {
    word: concept
    for concept, words in {
        "train": "train railway kereta sepur spoor",
        "travel": "travel trip journey bepergian perjalanan lelungan",
        "coffee": "coffee espresso kopi",
        "tea": "tea teh",
        "drink": "drink minum ngombe minuman",
        "eat": "eat meal makan mangan makanan panganan",
        "rice": "rice nasi sega",
        "morning": "morning pagi esuk",
        "night": "night malam bengi",
        "house": "house home rumah omah griya",
        "work": "work job kerja pekerjaan nyambut gawe",
        "money": "money uang duit dhuwit",
        "child": "child children anak bocah lare",
        "friend": "friend teman kanca",
        "school": "school sekolah pawiyatan",
        "book": "book buku",
        "water": "water air banyu",
        "road": "road street jalan dalan",
        "car": "car mobil",
        "sleep": "sleep tidur turu",
        "like": "like love prefer prefers likes loves suka menyukai seneng",
        "read": "read membaca maca",
        "write": "write menulis nulis",
        "doctor": "doctor physician dokter",
        "sick": "sick ill sakit lara",
        "market": "market pasar peken",
        "deploy": "deploy release rilis",
        "deadline": "deadline tenggat",
    }.items()
    for word in words.split()
}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


STOP_WORDS = _words("""
    a an and are at for i in is it my of on or the to was we with you
    ada adalah aku dan dari di itu ini ke pada saya untuk yang iki iku lan ing saka sing
""")
SHAPES = _words("""
    base64 dimensions duplicate_index infinity integers nan no_index null partial_index shuffled text
    wrong_count zero
""")
ANSWERS = _words("""
    cut_off delay dribble drop hang not_json oversize redirect status truncated without_data
""")
RULES = _words("fail_on_marker max_inputs")
MODES = SHAPES | ANSWERS | RULES


@dataclass
class Fault:
    """One way to answer wrongly. `times` None means until cleared.

    `status` with `retry_after` (sent as it is) or `retry_after_date_s` (sent as an HTTP date that many
    seconds ahead); `ms` for delay and between dribbled bytes; `count` for max_inputs, wrong_count
    (answered vectors more or fewer), dimensions and oversize (bytes); `marker` for fail_on_marker.
    """

    mode: str
    times: int | None = None
    status: int = 503
    retry_after: str | None = None
    retry_after_date_s: int | None = None
    ms: int = 50
    count: int = 1
    marker: str = ""
    location: str = ""

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ValueError(f"unknown mode {self.mode!r}; one of {sorted(MODES)}")

    def applies(self, inputs: Sequence[str]) -> bool:
        """Rules apply to the inputs they name, everything else to each request."""
        if self.mode == "max_inputs":
            return len(inputs) > self.count
        if self.mode == "fail_on_marker":
            return any(self.marker in text for text in inputs)
        return True


@dataclass(frozen=True)
class RecordedRequest:
    """What one call to `/v1/embeddings` brought."""

    path: str
    headers: Mapping[str, str]
    payload: Mapping[str, Any]
    inputs: tuple[str, ...]

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(self.payload)


@dataclass
class Control:
    """Shared by the test and the server's threads, always under `lock`."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    arrived: threading.Condition = field(init=False)
    faults: list[Fault] = field(default_factory=list)
    requests: deque[RecordedRequest] = field(default_factory=lambda: deque(maxlen=1000))
    count: int = 0
    texts: int = 0
    released: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.arrived = threading.Condition(self.lock)

    def record(self, request: RecordedRequest) -> Fault | None:
        """Count the request and take the first fault that applies to it."""
        with self.lock:
            self.requests.append(request)
            self.count += 1
            self.texts += len(request.inputs)
            self.arrived.notify_all()
            fault = next((fault for fault in self.faults if fault.applies(request.inputs)), None)
            if fault is not None and fault.times is not None:
                fault.times -= 1
                if fault.times <= 0:
                    self.faults.remove(fault)
            return fault


class EmbeddingServer:
    """Started with `with` or `start()`, on a loopback port of the system's choice."""

    model = "test-embedder"

    def __init__(self, dimensions: int = 64, concepts: Mapping[str, str] = CONCEPTS) -> None:
        self.dimensions = dimensions
        self._concepts = {word.casefold(): concept for word, concept in concepts.items()}
        self._control = Control()
        self._http = _Server(("127.0.0.1", 0), _Handler)
        self._http.embedding_server = self
        self._thread = threading.Thread(
            target=self._http.serve_forever,
            kwargs={"poll_interval": 0.02},
            name="embedding-server",
            daemon=True,
        )

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> Self:
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop, and break every connection, hanging ones too."""
        self.clear()
        self._http.shutdown()
        self._http.server_close()
        self._http.break_connections()
        self._thread.join()

    @property
    def base_url(self) -> str:
        return f"{self._origin}/v1"

    @property
    def control_url(self) -> str:
        return f"{self._origin}/control"

    @property
    def control(self) -> Control:
        return self._control

    @property
    def requests(self) -> list[RecordedRequest]:
        """The latest requests, at most 1,000."""
        with self._control.lock:
            return list(self._control.requests)

    @property
    def request_count(self) -> int:
        with self._control.lock:
            return self._control.count

    def wait_for_requests(self, count: int, timeout_s: float = 10.0) -> None:
        """Return once so many requests have arrived in all. Raises `TimeoutError`."""
        with self._control.lock:
            if not self._control.arrived.wait_for(lambda: self._control.count >= count, timeout_s):
                raise TimeoutError(f"{self._control.count} of {count} requests arrived")

    def fail(self, mode: str, **how: Any) -> None:
        """Queue a fault; faults are tried in the order they were queued."""
        fault = Fault(mode, **how)
        with self._control.lock:
            self._control.faults.append(fault)

    def clear(self) -> None:
        """Forget all faults and let hanging answers go."""
        with self._control.lock:
            self._control.faults.clear()
            released, self._control.released = self._control.released, threading.Event()
        released.set()

    def forget_requests(self) -> None:
        with self._control.lock:
            self._control.requests.clear()
            self._control.count = self._control.texts = 0

    def alias(self, word: str, concept: str) -> None:
        """From now on `word` means `concept`, and so is near every word that does."""
        with self._control.lock:
            self._concepts = {**self._concepts, word.casefold(): concept}

    def vector(self, text: str, dimensions: int | None = None) -> "array[float]":
        """What the server answers for a text: float32, l2-normalised."""
        size = dimensions or self.dimensions
        sums = [0.0] * size
        for feature, weight in _features(text, self._concepts):
            for place, sign in enumerate(_signs(feature, size)):
                sums[place] += weight * sign
        length = math.sqrt(math.fsum(value * value for value in sums))
        return array("f", [value / length for value in sums])

    @property
    def _origin(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"


def _features(text: str, concepts: Mapping[str, str]) -> list[tuple[str, float]]:
    """A concept alone for a known word, so that synonyms are equal; the word and its trigrams otherwise."""
    words = re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold())
    features: list[tuple[str, float]] = []
    for word in [word for word in words if word not in STOP_WORDS] or words or [text]:
        concept = concepts.get(word) or concepts.get(_stem(word))
        if concept:
            features.append((f"concept:{concept}", 1.0))
            continue
        features.append((f"stem:{_stem(word)}", 0.8))
        padded = f" {word} "
        trigrams = [padded[at : at + 3] for at in range(max(1, len(padded) - 2))]
        features += [(f"trigram:{trigram}", 0.6 / math.sqrt(len(trigrams))) for trigram in trigrams]
    return features


def _stem(word: str) -> str:
    for ending in ("ing", "nya", "kan", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


def _signs(feature: str, size: int) -> list[int]:
    """A random but repeatable direction; two features are nearly at right angles."""
    bits = int.from_bytes(hashlib.shake_256(feature.encode("utf-8", "replace")).digest((size + 7) // 8), "big")
    return [1 if bits >> place & 1 else -1 for place in range(size)]


Item = dict[str, Any]


def _shaped(items: list[Item], fault: Fault, server: EmbeddingServer, inputs: Sequence[str]) -> list[Item]:
    """The items as a server with this fault would send them."""
    match fault.mode:
        case "wrong_count":
            return items + items[:1] * fault.count if fault.count > 0 else items[: fault.count]
        case "shuffled":
            return items[::-1]
        case "no_index":
            return [{"embedding": item["embedding"]} for item in items]
        case "partial_index":
            return [{"embedding": items[0]["embedding"]}, *items[1:]]
        case "duplicate_index":
            return [{**item, "index": 0} for item in items]
        case "dimensions":
            return [*items[:-1], {**items[-1], "embedding": list(server.vector(inputs[-1], fault.count))}]
        case "base64":
            return [{**item, "embedding": _base64(item["embedding"])} for item in items]
        case "integers":
            return [{**item, "embedding": [1, *[0] * (len(item["embedding"]) - 1)]} for item in items]
    odd = {"nan": math.nan, "infinity": math.inf, "null": None, "text": "0.5", "zero": 0.0}[fault.mode]
    last = [0.0] * server.dimensions if fault.mode == "zero" else [odd, *items[-1]["embedding"][1:]]
    return [*items[:-1], {**items[-1], "embedding": last}]


def _base64(values: list[float]) -> str:
    return base64.b64encode(array("f", values).tobytes()).decode()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    embedding_server: EmbeddingServer

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._sockets: set[socket.socket] = set()
        self._sockets_lock = threading.Lock()
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._sockets_lock:
            self._sockets.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._sockets_lock:
            self._sockets.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves early is part of the tests, not news."""

    def break_connections(self) -> None:
        with self._sockets_lock:
            sockets = list(self._sockets)
        for open_socket in sockets:
            with contextlib.suppress(OSError):
                open_socket.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it
        """Quiet."""

    def do_GET(self) -> None:
        if self.path != "/control":
            self._json(404, {"error": "unknown path"})
            return
        control = self.server.embedding_server.control
        with control.lock:
            state = {
                "requests": control.count,
                "texts": control.texts,
                "faults": [asdict(fault) for fault in control.faults],
                "last_keys": sorted(control.requests[-1].keys) if control.requests else [],
            }
        self._json(200, state)

    def do_POST(self) -> None:
        payload = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        if self.path == "/control":
            self._control(payload)
        elif self.path == "/v1/embeddings":
            self._embeddings(payload)
        else:
            self._json(404, {"error": "unknown path"})

    def _control(self, order: dict[str, Any]) -> None:
        server = self.server.embedding_server
        try:
            if order.pop("clear", False):
                server.clear()
            for word, concept in order.pop("alias", {}).items():
                server.alias(word, concept)
            if order:
                server.fail(**order)
        except (TypeError, ValueError) as error:
            self._json(400, {"error": str(error)})
            return
        self._json(200, {"ok": True})

    def _embeddings(self, payload: dict[str, Any]) -> None:
        server = self.server.embedding_server
        given = payload["input"]
        inputs = (given,) if isinstance(given, str) else tuple(given)
        headers = {name.lower(): value for name, value in self.headers.items()}
        fault = server.control.record(RecordedRequest(self.path, headers, payload, inputs))
        items = [
            {"object": "embedding", "index": index, "embedding": list(server.vector(text))}
            for index, text in enumerate(inputs)
        ]
        if fault is None:
            self._answer(items)
        elif fault.mode in SHAPES:
            self._answer(_shaped(items, fault, server, inputs))
        else:
            self._misbehave(fault, items)

    def _answer(self, items: list[Item]) -> None:
        self._json(200, self._body(items))

    def _body(self, items: list[Item]) -> dict[str, Any]:
        return {"object": "list", "model": self.server.embedding_server.model, "data": items}

    def _misbehave(self, fault: Fault, items: list[Item]) -> None:
        body = json.dumps(self._body(items)).encode()
        released = self.server.embedding_server.control.released
        act: dict[str, Callable[[], object]] = {
            "status": lambda: self._status(fault),
            "redirect": lambda: self._send(307, b"", {"Location": fault.location or "/v1/embeddings"}),
            "max_inputs": lambda: self._json(400, {"error": f"at most {fault.count} inputs"}),
            "fail_on_marker": lambda: self._json(500, {"error": "NaN in the output"}),
            "not_json": lambda: self._send(200, b"<html>welcome</html>"),
            "without_data": lambda: self._json(200, {"error": {"message": "no such model"}}),
            "oversize": lambda: self._send(200, b'{"data": [' + b" " * fault.count + b"]}"),
            "delay": lambda: self._delay(body, fault.ms / 1000, released),
            "hang": released.wait,
            "drop": lambda: None,
            "truncated": lambda: self._send(200, body[: len(body) // 2], {"Content-Length": str(len(body))}),
            "cut_off": lambda: self._send(200, body[: len(body) // 2], {"Connection": "close"}),
            "dribble": lambda: self._dribble(body, fault.ms / 1000, released),
        }
        act[fault.mode]()
        self.close_connection = self.close_connection or fault.mode in {
            "hang",
            "drop",
            "truncated",
            "cut_off",
        }

    def _status(self, fault: Fault) -> None:
        headers = {} if fault.retry_after is None else {"Retry-After": fault.retry_after}
        if fault.retry_after_date_s is not None:
            now_s = int(time.time())
            headers["Retry-After"] = formatdate(now_s + fault.retry_after_date_s, usegmt=True)
        self._send(fault.status, b'{"error": {"message": "as ordered"}}', headers)

    def _delay(self, body: bytes, pause_s: float, released: threading.Event) -> None:
        released.wait(pause_s)
        self._send(200, body)

    def _dribble(self, body: bytes, pause_s: float, released: threading.Event) -> None:
        """One byte at a time: each read succeeds quickly, the whole never ends in time."""
        self._send(200, b"", {"Content-Length": str(len(body))})
        for at in range(len(body)):
            self.wfile.write(body[at : at + 1])
            self.wfile.flush()
            if released.wait(pause_s):
                pause_s = 0.0

    def _json(self, status: int, answer: Mapping[str, Any]) -> None:
        self._send(status, json.dumps(answer).encode())

    def _send(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        """`Content-Length` unless the headers give one, or say that the connection ends the body."""
        more = dict(headers or {})
        self.send_response(status)
        if "Content-Length" not in more and "Connection" not in more:
            more["Content-Length"] = str(len(body))
        for name, value in {"Content-Type": "application/json", **more}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
