"""The HTTP client of the contract tests: thin, typed, and suspicious of every answer."""

import json
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import httpx
import pytest

__all__ = ["Answer", "Api", "JsonObject", "Ledger", "dump_lines", "parse_lines"]

JsonObject: TypeAlias = dict[str, Any]

ERROR_STATUS = {
    "VALIDATION_ERROR": 400,
    "UNAUTHENTICATED": 401,
    "FORBIDDEN": 403,
    "HUMAN_REQUIRED": 403,
    "NOT_FOUND": 404,
    "METHOD_NOT_ALLOWED": 405,
    "VERSION_CONFLICT": 409,
    "DUPLICATE": 409,
    "IDEMPOTENCY_CONFLICT": 409,
    "PAYLOAD_TOO_LARGE": 413,
    "UNSUPPORTED_MEDIA_TYPE": 415,
    "RATE_LIMITED": 429,
    "QUOTA_EXCEEDED": 429,
    "INTERNAL": 500,
    "EXTRACTION_FAILED": 502,
    "EXTRACTION_UNAVAILABLE": 503,
    "NOT_READY": 503,
    "BUSY": 503,
    "STORAGE_FULL": 507,
}
# What a 5xx must never show: stacks, SQL, paths.
FORBIDDEN_IN_5XX = (
    "Traceback",
    'File "',
    "SELECT ",
    "INSERT ",
    "UPDATE ",
    "sqlite",
    "apsw",
    ".py",
    ".db",
    "/tmp",
)
FILTERS = {
    "kind",
    "category",
    "tags",
    "tags_match",
    "priority",
    "verified",
    "author",
    "min_confidence",
    "created_after",
    "created_before",
    "updated_after",
    "updated_before",
    "include_expired",
}
# Documents rather than envelopes.
BARE_PATHS = ("/", "/openapi.json", "/v1/export", "/v1/recall")
BARE_SURFACE = "/memory"
WAIT_S = 30


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP answer, its JSON parsed; `body` is None where it is not JSON."""

    status: int
    headers: httpx.Headers
    content: bytes
    body: Any

    @property
    def data(self) -> Any:
        assert self.status < 400, self.describe()
        return self.body["data"]

    @property
    def meta(self) -> JsonObject:
        meta: JsonObject = self.body["meta"]
        return meta

    @property
    def error(self) -> JsonObject:
        assert self.status >= 400, self.describe()
        error: JsonObject = self.body["error"]
        return error

    @property
    def code(self) -> str:
        return str(self.error["code"])

    @property
    def message(self) -> str:
        return str(self.error["message"])

    @property
    def ids(self) -> list[str]:
        """The ids of a list or search answer, in its order."""
        return [item["id"] for item in self.data]

    @property
    def lines(self) -> list[JsonObject]:
        """The records of a JSONL answer."""
        return parse_lines(self.content)

    def describe(self) -> str:
        return f"{self.status} {self.content[:600]!r}"

    def expect(self, status: int, code: str | None = None) -> "Answer":
        """This answer, after asserting its status and error code."""
        assert self.status == status, self.describe()
        if code is not None:
            assert self.code == code, self.describe()
        return self

    def refused(self, *words: str) -> "Answer":
        """This answer, after asserting that it is a 400 whose message holds the words."""
        self.expect(400, "VALIDATION_ERROR")
        for word in words:
            assert word in self.message, f"{word!r} is not in {self.message!r}"
        return self


class Ledger:
    """What the tests created, so that a live deployment can be left as it was found."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._memories: dict[str, Api] = {}
        self._keys: dict[str, Api] = {}

    def note(self, api: "Api", method: str, path: str, answer: Answer) -> None:
        if method != "POST" or answer.status >= 400:
            return
        with self._lock:
            if path == "/v1/memories" and answer.body is not None:
                self._memories[answer.data["id"]] = api
            elif path == BARE_SURFACE:
                self._memories[answer.body["id"]] = api
            elif path == "/v1/keys":
                self._keys[answer.data["id"]] = api

    def clean_up(self, admin: "Api") -> None:
        for memory_id in self._memories:
            admin.delete(memory_id)
        for key_id in self._keys:
            admin.revoke_key(key_id)
        self._memories.clear()
        self._keys.clear()


class Api:
    """One caller: a base URL with one API key, or without any."""

    def __init__(self, http: httpx.Client, api_key: str | None, ledger: Ledger | None = None) -> None:
        self.http = http
        self.api_key = api_key
        self.ledger = ledger
        self.headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}

    def sending(self, **headers: str) -> "Api":
        """The same caller, who sends these headers too; `_` in a name stands for `-`."""
        other = Api(self.http, self.api_key, self.ledger)
        other.headers |= {name.replace("_", "-"): value for name, value in headers.items()}
        return other

    def request(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        params: Mapping[str, Any] | None = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        response = self.http.request(
            method,
            path,
            json=json,
            params=params,
            content=content,
            headers={**self.headers, **(headers or {})},
        )
        answer = _checked(method, path.partition("?")[0], response)
        if self.ledger is not None:
            self.ledger.note(self, method, path, answer)
        return answer

    def remember(self, **fields: Any) -> Answer:
        return self.request("POST", "/v1/memories", json=fields)

    def extract(self, *said: str, **fields: Any) -> Answer:
        """Send a conversation: user and assistant in turns."""
        turns = [{"role": ("user", "assistant")[place % 2], "content": text} for place, text in enumerate(said)]
        return self.request("POST", "/v1/memories", json={"messages": turns, **fields})

    def stored(self, **fields: Any) -> JsonObject:
        """Remember something new and return the memory."""
        answer = self.remember(**fields).expect(201)
        memory: JsonObject = answer.data
        return memory

    def search(self, query: str, **fields: Any) -> Answer:
        """Recall; `fields` are scope, limit and filters alike."""
        named = {name: value for name, value in fields.items() if name not in FILTERS}
        filters = {name: value for name, value in fields.items() if name in FILTERS}
        body = {"query": query, **named, **({"filters": filters} if filters else {})}
        return self.request("POST", "/v1/memories/search", json=body)

    def found(self, query: str, **fields: Any) -> list[JsonObject]:
        """The items of a successful recall."""
        items: list[JsonObject] = self.search(query, **fields).expect(200).data
        return items

    def listed(self, **params: Any) -> Answer:
        return self.request("GET", "/v1/memories", params=params)

    def get(self, memory_id: str) -> Answer:
        return self.request("GET", f"/v1/memories/{memory_id}")

    def read(self, memory_id: str) -> JsonObject:
        memory: JsonObject = self.get(memory_id).expect(200).data
        return memory

    def patch(self, memory_id: str, **fields: Any) -> Answer:
        return self.request("PATCH", f"/v1/memories/{memory_id}", json=fields)

    def delete(self, memory_id: str) -> Answer:
        return self.request("DELETE", f"/v1/memories/{memory_id}")

    def restore(self, memory_id: str) -> Answer:
        return self.request("POST", f"/v1/memories/{memory_id}/restore")

    def verify(self, memory_id: str) -> Answer:
        return self.request("POST", f"/v1/memories/{memory_id}/verify")

    def history(self, memory_id: str, **params: Any) -> Answer:
        return self.request("GET", f"/v1/memories/{memory_id}/history", params=params)

    def events(self, memory_id: str) -> list[JsonObject]:
        """The whole history of a memory, over all pages."""
        events: list[JsonObject] = []
        params: JsonObject = {}
        while True:
            page = self.history(memory_id, **params).expect(200)
            events += page.data
            if page.meta.get("next_cursor") is None:
                return events
            params = {"cursor": page.meta["next_cursor"]}

    def expiring(self, **params: Any) -> Answer:
        return self.request("GET", "/v1/memories/expiring", params=params)

    def tags(self, **params: Any) -> Answer:
        return self.request("GET", "/v1/memories/tags", params=params)

    def create_key(self, **fields: Any) -> Answer:
        return self.request("POST", "/v1/keys", json=fields)

    def revoke_key(self, key_id: str) -> Answer:
        return self.request("DELETE", f"/v1/keys/{key_id}")

    def principal(self) -> Answer:
        return self.request("GET", "/v1/principal")

    def repair(self) -> Answer:
        return self.request("POST", "/v1/repair")

    def readyz(self) -> Answer:
        return self.request("GET", "/readyz")

    def export(self, **params: Any) -> Answer:
        return self.request("GET", "/v1/export", params=params)

    def import_lines(self, lines: bytes | Iterable[JsonObject], **params: Any) -> Answer:
        body = lines if isinstance(lines, bytes) else dump_lines(lines)
        headers = {"Content-Type": "application/x-ndjson"}
        return self.request("POST", "/v1/import", content=body, params=params, headers=headers)

    def all_listed(self, **params: Any) -> list[JsonObject]:
        """Every listed memory, over all pages."""
        memories: list[JsonObject] = []
        cursor: JsonObject = {}
        while True:
            page = self.listed(limit=100, **params, **cursor).expect(200)
            memories += page.data
            if not page.meta["has_more"]:
                return memories
            cursor = {"cursor": page.meta["next_cursor"]}

    def wait_until_indexed(self, *memory_ids: str) -> None:
        """Return when vector search can find these memories."""
        deadline = time.monotonic() + WAIT_S
        for memory_id in memory_ids:
            while (status := self.read(memory_id)["index_status"]) != "ready":
                if self.search("anything", limit=1).meta["channels"]["vector"] == "off":
                    pytest.skip("this deployment has no embedder")
                assert time.monotonic() < deadline, f"{memory_id} is still {status}"
                time.sleep(0.05)

    def drain(self) -> None:
        """Return when nothing of the tenant is waiting for the vector index; needs an admin key."""
        deadline = time.monotonic() + WAIT_S
        while True:
            self.repair().expect(200)
            waiting = [m["id"] for m in self.all_listed() if m["index_status"] != "ready"]
            if not waiting:
                return
            assert time.monotonic() < deadline, f"still waiting for the index: {waiting[:3]}"
            time.sleep(0.2)


def parse_lines(content: bytes) -> list[JsonObject]:
    return [json.loads(line) for line in content.decode().split("\n") if line]


def dump_lines(records: Iterable[JsonObject]) -> bytes:
    return b"".join(json.dumps(record, ensure_ascii=False).encode() + b"\n" for record in records)


def _checked(method: str, path: str, response: httpx.Response) -> Answer:
    """The answer, after asserting what holds for every one (contract: HTTP)."""
    headers = response.headers
    is_json = headers.get("content-type", "").partition(";")[0] == "application/json"
    body = json.loads(response.content) if is_json and response.content else None
    answer = Answer(response.status_code, headers, response.content, body)
    where = f"{method} {path}: {answer.describe()}"
    assert headers.get("x-request-id"), where
    assert headers.get("x-titen-version"), where
    assert headers.get("cache-control") == "no-store", where
    if answer.status >= 500:
        for trace in FORBIDDEN_IN_5XX:
            assert trace not in response.text, where
    if method == "HEAD":
        assert response.content == b"", where
    elif answer.status >= 400:
        _check_error(answer, where, is_readiness=path.rstrip("/") == "/readyz")
    elif response.content and not _is_bare(path.rstrip("/") or "/"):
        assert isinstance(body, dict), where
        assert set(body) == {"data", "meta"}, where
        assert body["meta"]["request_id"] == headers["x-request-id"], where
    return answer


def _is_bare(path: str) -> bool:
    return path in BARE_PATHS or path == BARE_SURFACE or path.startswith(f"{BARE_SURFACE}/")


def _check_error(answer: Answer, where: str, *, is_readiness: bool) -> None:
    assert isinstance(answer.body, dict), where
    assert answer.body["meta"]["request_id"] == answer.headers["x-request-id"], where
    if is_readiness and "data" in answer.body:
        return
    assert set(answer.body) == {"error", "meta"}, where
    error = answer.body["error"]
    assert set(error) <= {"code", "message", "details"}, where
    assert ERROR_STATUS[error["code"]] == answer.status, where
    assert isinstance(error["message"], str), where
    assert error["message"], where
