"""A Titen service as its users have it: a process of its own, a real file, HTTP on loopback."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from tests.runtimes.embedding_server import EmbeddingServer

__all__ = ["ROOT", "Answer", "Api", "Process", "Service", "at_once", "until"]

ROOT = Path(__file__).parents[2]
START_S = 60
STOP_S = 40
WAIT_S = 60
_ANSWERS = re.compile(r"^Titen \S+ answers on (\S+) \(embeddings: (.*)\)$", re.MULTILINE)

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP answer."""

    status: int
    headers: httpx.Headers
    content: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.content)

    @property
    def data(self) -> Any:
        assert self.status < 400, self
        return self.body["data"]

    @property
    def meta(self) -> Any:
        return self.body["meta"]

    @property
    def code(self) -> str:
        return str(self.body["error"]["code"])

    @property
    def ids(self) -> list[str]:
        return [item["id"] for item in self.data]

    def expect(self, status: int, code: str | None = None) -> "Answer":
        assert self.status == status, self
        assert code is None or self.code == code, self
        return self


@dataclass(frozen=True)
class Api:
    """Calls under one key. Connection failures pass through as `httpx.TransportError`."""

    http: httpx.Client
    key: str | None
    headers: Mapping[str, str] = field(default_factory=dict)

    def call(self, method: str, path: str, body: Any = None, **query: Any) -> Answer:
        headers = {**({"Authorization": f"Bearer {self.key}"} if self.key else {}), **self.headers}
        content = body
        if isinstance(body, dict):
            content = json.dumps(body).encode()
            headers.setdefault("Content-Type", "application/json")
        got = self.http.request(method, path, content=content, headers=headers, params=query)
        return Answer(got.status_code, got.headers, got.content)

    def sending(self, **headers: str) -> "Api":
        """The same caller with further headers; `_` is written `-`."""
        return Api(self.http, self.key, {name.replace("_", "-"): value for name, value in headers.items()})

    def remember(self, **fields: Any) -> Answer:
        return self.call("POST", "/v1/memories", fields)

    def stored(self, **fields: Any) -> Any:
        return self.remember(**fields).expect(201).data

    def get(self, memory_id: str) -> Answer:
        return self.call("GET", f"/v1/memories/{memory_id}")

    def patch(self, memory_id: str, **fields: Any) -> Answer:
        return self.call("PATCH", f"/v1/memories/{memory_id}", fields)

    def delete(self, memory_id: str) -> Answer:
        return self.call("DELETE", f"/v1/memories/{memory_id}")

    def search(self, query: str, **fields: Any) -> Answer:
        return self.call("POST", "/v1/memories/search", {"query": query, "limit": 20, **fields}).expect(200)

    def listed(self, **query: Any) -> list[Any]:
        """Every page of the list."""
        items: list[Any] = []
        while True:
            page = self.call("GET", "/v1/memories", limit=100, **query).expect(200)
            items += page.data
            if not page.meta["has_more"]:
                return items
            query["cursor"] = page.meta["next_cursor"]

    def export(self, *, deleted: bool = False) -> bytes:
        """Every page of the export."""
        pages, query = b"", {"deleted": str(deleted).lower()}
        while True:
            page = self.call("GET", "/v1/export", **query).expect(200).content
            pages += page
            following = json.loads(page.splitlines()[-1])["next"]
            if following is None:
                return pages
            query["after"] = following

    def outbox(self) -> Any:
        """What readiness tells an admin of the outbox, and whether everything is ready."""
        checks = self.call("GET", "/readyz").body["data"]["checks"]
        return next(check for check in checks if check["name"] == "outbox")

    def drain(self) -> None:
        """Have all vectors made. Repairing also takes over what a killed process had claimed."""

        def drained() -> bool:
            left = self.call("POST", "/v1/repair").expect(200).data
            return not left["pending"] and not left["failed"]

        until(drained, "the outbox drained to zero")


class Process:
    """A running `titen serve`; ended by its id."""

    def __init__(self, arguments: Iterable[str], environment: Mapping[str, str], directory: Path, name: str) -> None:
        self.out, self.err = directory / f"{name}.out", directory / f"{name}.err"
        with self.out.open("wb") as out, self.err.open("ab") as err:
            self._popen = subprocess.Popen(
                [sys.executable, "-m", "vps.launcher", *arguments], cwd=ROOT, env=environment, stdout=out, stderr=err
            )
        try:
            self.base_url, self.embeddings = self._announced()
        except BaseException:
            self.end(signal.SIGKILL)
            raise
        self.http = httpx.Client(base_url=self.base_url, timeout=60, limits=httpx.Limits(max_connections=128))

    def _announced(self) -> tuple[str, str]:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            found = _ANSWERS.search(self.out.read_text())
            if found:
                return found[1], found[2]
            assert self._popen.poll() is None, self.err.read_text()[-2000:]
            time.sleep(0.01)
        raise AssertionError(f"no answer within {START_S} s: {self.err.read_text()[-2000:]}")

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def is_running(self) -> bool:
        return self._popen.poll() is None

    def send(self, number: signal.Signals) -> None:
        self._popen.send_signal(number)

    def wait(self) -> int:
        return self._popen.wait(STOP_S)

    def end(self, number: signal.Signals) -> int:
        """The exit code after the signal; a process that ignores it is killed, and the test fails."""
        self._popen.send_signal(number)
        try:
            return self._popen.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
            raise

    def close(self) -> None:
        self.http.close()
        if self.is_running:
            self.end(signal.SIGKILL)


class Service:
    """A store of its own with an admin key, and any number of processes on it.

    `embedder` None serves by words only. Further TITEN_* variables come in `settings`, by full name.
    """

    def __init__(
        self, directory: Path, embedder: EmbeddingServer | None = None, settings: Mapping[str, str] | None = None
    ) -> None:
        self.directory = directory
        self.store = directory / "store"
        self.database = self.store / "titen.db"
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("TITEN_")},
            **embedded_by(embedder),
            **(settings or {}),
        }
        self.processes: list[Process] = []
        self._api: Api | None = None
        created = self.titen("init")
        self.tenant_id: str = created["tenant_id"]
        self.admin_key: str = created["api_key"]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self.processes:
            process.close()

    @property
    def process(self) -> Process:
        return self.processes[-1]

    @property
    def api(self) -> Api:
        """The admin at the newest process."""
        return Api(self.process.http, self.admin_key)

    def as_key(self, key: str | None) -> Api:
        return Api(self.process.http, key)

    def start(self, **settings: str) -> Process:
        """One more process on the store."""
        self.environment |= settings
        place = ["--db", str(self.database), "--host", "127.0.0.1", "--port", "0"]
        process = Process(["serve", *place], self.environment, self.directory, f"serve-{len(self.processes)}")
        self.processes.append(process)
        return process

    def stop(self) -> None:
        code = self.process.end(signal.SIGTERM)
        self.process.close()
        assert code == 0, self.logged()[-2000:]

    def restart(self, **settings: str) -> None:
        self.stop()
        self.start(**settings)

    def kill(self) -> None:
        self.process.end(signal.SIGKILL)
        self.process.close()

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """One `titen` command on the store."""
        return subprocess.run(
            [sys.executable, "-m", "vps.launcher", *arguments, "--db", str(self.database)],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=START_S,
            check=False,
        )

    def titen(self, *arguments: str) -> Any:
        """The JSON answer of one `titen` command that succeeds."""
        done = self.run(*arguments, "--json")
        assert done.returncode == 0, f"titen {' '.join(arguments)}: {done.stderr}"
        return json.loads(done.stdout)

    def new_tenant(self, name: str) -> Api:
        """An admin of one more tenant."""
        tenant = self.titen("tenant", "create", "--name", name)["tenant_id"]
        owner = ["--role", "admin", "--kind", "human", "--principal", "owner"]
        return self.as_key(self.titen("key", "create", "--tenant", tenant, *owner)["api_key"])

    def new_key(self, *options: str, kind: str = "agent", role: str = "writer") -> Api:
        """A further key of the first tenant."""
        made = ["--tenant", self.tenant_id, "--role", role, "--kind", kind, "--principal", f"{kind}-{role}"]
        return self.as_key(self.titen("key", "create", *made, *options)["api_key"])

    def logged(self) -> str:
        """All that the processes wrote, to either stream."""
        return "".join(
            path.read_text(errors="replace") for process in self.processes for path in (process.out, process.err)
        )


def embedded_by(embedder: EmbeddingServer | None) -> dict[str, str]:
    """The settings that use this embedder, with patience for a machine that is busy with other tests."""
    if embedder is None:
        return {"TITEN_EMBED": "off"}
    return {
        "TITEN_EMBED": "endpoint",
        "TITEN_EMBED_BASE_URL": embedder.base_url,
        "TITEN_EMBED_MODEL": embedder.model,
        "TITEN_EMBED_WRITE_DEADLINE_MS": "30000",
        "TITEN_EMBED_READ_DEADLINE_MS": "30000",
    }


def at_once(call: Callable[[T], R], arguments: Iterable[T], callers: int = 16) -> list[R]:
    """What `call` returned for each argument; up to `callers` run at the same time."""
    with ThreadPoolExecutor(callers) as pool:
        return list(pool.map(call, arguments))


def until(happened: Callable[[], bool], what: str) -> None:
    """Wait for it. Fails after WAIT_S."""
    deadline = time.monotonic() + WAIT_S
    while not happened():
        assert time.monotonic() < deadline, f"not within {WAIT_S} s: {what}"
        time.sleep(0.05)
