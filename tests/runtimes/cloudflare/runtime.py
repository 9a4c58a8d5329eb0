"""The Worker as a runtime of the contract suite: workerd in a process of its own, started and killed at will.

D1 lives in a directory, Vectorize and Workers AI in this process, so all three outlive a restart.
"""

import asyncio
import atexit
import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from adapters.cloudflare.failures import sql_error
from adapters.cloudflare.vectorize import METADATA_INDEXES
from tests.runtimes.base import Embedder, Key, Tenant
from tests.runtimes.chat_server import ChatServer
from tests.runtimes.cloudflare.backend import Backend
from tests.runtimes.cloudflare.vectorize import VectorizeEmulator
from tests.runtimes.embedding_server import EmbeddingServer
from tests.runtimes.node import NODE
from tests.runtimes.ports import free_port
from titen_core.errors import SqlError
from titen_core.ids import new_id, system_clock
from titen_core.keys import KeyRequest, create_tenant, mint
from titen_core.models import PrincipalKind, Role
from titen_core.protocols import Row, Statement
from titen_core.sql.keys import Keys
from worker.stage import stage

__all__ = ["CloudflareRuntime", "D1Control"]

REPOSITORY: Final = Path(__file__).resolve().parents[3]
HARNESS: Final = Path(__file__).parent / "harness"
DIMENSIONS: Final = 1024
START_TIMEOUT_S: Final = 120  # 3 s on an idle machine
STOP_TIMEOUT_S: Final = 30
CRON_S: Final = 0.5


class D1Control:
    """A `SqlDriver` over the harness: what an operator does with `wrangler d1 execute`."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def query(self, statement: Statement) -> list[Row]:
        return (await self.batch([statement]))[0]

    async def batch(self, statements: Sequence[Statement]) -> list[list[Row]]:
        return await asyncio.to_thread(self._post, [[each.sql, list(each.params)] for each in statements])

    def run(self, *statements: Statement) -> list[list[Row]]:
        """One batch, for callers without an event loop."""
        return self._post([[each.sql, list(each.params)] for each in statements])

    def _post(self, statements: list[list[Any]]) -> list[list[Row]]:
        body = json.dumps({"statements": statements}).encode()
        try:
            with urllib.request.urlopen(urllib.request.Request(self._url, body), timeout=60) as answer:
                rows: list[list[Row]] = json.load(answer)
                return rows
        except urllib.error.HTTPError as refusal:
            raise sql_error(json.load(refusal)) from None


class CloudflareRuntime:
    """`settings` are the Worker's variables. `vectorize` is under the test's control, as `embedder` is.

    `cron`: housekeeping runs every second; without it a test calls `run_cron` where it wants.
    `migrated`: without it the database is empty until `migrate`.
    """

    name = "cloudflare"
    disposable = True

    def __init__(
        self, directory: Path, settings: Mapping[str, str] | None = None, *, cron: bool = True, migrated: bool = True
    ) -> None:
        _check_tools()
        self.vectorize = VectorizeEmulator(DIMENSIONS, indexed=list(METADATA_INDEXES))
        self._embedder = EmbeddingServer(DIMENSIONS).start()
        self.chat = ChatServer()
        self._backend = Backend(self._embedder, self.vectorize, self.chat)
        self._settings = {"TITEN_CHAT_MODEL": "@cf/scripted", **(settings or {})}
        self._directory = directory
        self._log = directory / "worker.log"
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: D1Control | None = None
        self._closed = threading.Event()
        self._cron = threading.Thread(target=self._keep_running_cron, name="cron", daemon=True)
        try:
            self.start()
            if migrated:
                self.migrate()
        except BaseException:
            self.close()
            raise
        if cron:
            self._cron.start()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def backend_url(self) -> str:
        """Where the emulated bindings ask."""
        return self._backend.url

    @property
    def embedder(self) -> Embedder:
        return self._embedder

    @property
    def database(self) -> D1Control:
        """The running Worker's D1."""
        if self._control is None:
            raise RuntimeError("the Worker is not running")
        return self._control

    def new_tenant(self, name: str = "contract", /) -> Tenant:
        return asyncio.run(_new_tenant(Keys(self.database), name))

    def start(self) -> None:
        with self._log.open("ab") as log:
            seen = log.tell()
            self._process = subprocess.Popen(
                [NODE, "serve.mjs", *self._options()],
                cwd=HARNESS,
                stdout=log,
                stderr=log,
                env={**os.environ, "NODE_COMPILE_CACHE": str(HARNESS / "node_modules" / ".cache" / "node")},
                start_new_session=True,  # workerd is a child of its own: `kill` ends both
            )
        self._control = D1Control(self._announced(self._process, seen)["control"])

    def restart(self, **settings: str) -> None:
        self._settings |= settings
        if self._process is not None:
            code = self._stop(signal.SIGTERM)
            if code != 0:
                raise RuntimeError(f"the Worker ended with {code} on SIGTERM:\n{self.logs()[-2000:]}")
        self.start()

    def kill(self) -> None:
        self._stop(signal.SIGKILL)

    def run_cron(self) -> None:
        """What Cloudflare does every five minutes."""
        urllib.request.urlopen(f"{self.base_url}/cdn-cgi/local/scheduled", timeout=60).close()

    def d1_queries(self) -> int:
        """How many the Worker's isolate has made, once nothing that `waitUntil` keeps is under way."""
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while time.monotonic() < deadline:
            with urllib.request.urlopen(f"{self.base_url}/__harness/counts", timeout=60) as answer:
                counts: dict[str, int] = json.load(answer)
            if counts["waiting"] == 0:
                return counts["d1_queries"]
            time.sleep(0.02)
        raise RuntimeError("what follows a request does not end")

    def look_again_now(self) -> None:
        """Make due what waits for another look at the index or at the model."""
        self.database.run(Statement("UPDATE vector_outbox SET next_attempt_at = 0 WHERE failed = 0"))

    def _keep_running_cron(self) -> None:
        """Time passes faster here: `index_status` is then `ready` within seconds."""
        while not self._closed.wait(CRON_S):
            with contextlib.suppress(OSError, RuntimeError, SqlError):  # stopped, killed, or still starting
                self.database.run(Statement(_LOOK_AGAIN))
                self.run_cron()

    def break_text_index(self) -> None:
        self.database.run(Statement("DROP TABLE memory_text"))

    def logs(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def close(self) -> None:
        self._closed.set()
        if self._cron.is_alive():
            self._cron.join()
        if self._process is not None:
            self._stop(signal.SIGTERM)
        self._backend.close()
        self._embedder.close()
        self.chat.close()

    def _options(self) -> Iterator[str]:
        named = {
            "app": _staged(),
            "modules": REPOSITORY / "python_modules",
            "backend": self._backend.url,
            "persist": self._directory / "d1",
            "port": self._port,
            "vars": json.dumps(self._settings),
        }
        for name, value in named.items():
            yield from (f"--{name}", str(value))

    def migrate(self) -> None:
        """As `wrangler d1 migrations apply`: the files in order, noted in the same table."""
        self.database.run(Statement(_MIGRATIONS_TABLE))
        for file in sorted((REPOSITORY / "migrations").glob("*.sql")):
            note = Statement("INSERT INTO d1_migrations (name) VALUES (?)", (file.name,))
            self.database.run(*map(Statement, _statements(file.read_text())), note)

    def _announced(self, process: subprocess.Popen[bytes], seen: int) -> dict[str, str]:
        """The line in which the harness says that the Worker answers, and where."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            printed = self._log.read_bytes()[seen:].decode(errors="replace")
            for line in printed.splitlines(keepends=True):
                if line.startswith('{"worker":') and line.endswith("\n"):
                    announced: dict[str, str] = json.loads(line)
                    return announced
            if process.poll() is not None:
                raise RuntimeError(f"the Worker ended with {process.returncode}:\n{printed[-4000:]}")
            time.sleep(0.05)
        raise RuntimeError(f"the Worker did not answer within {START_TIMEOUT_S} s:\n{printed[-4000:]}")

    def _stop(self, how: signal.Signals) -> int:
        process, self._process, self._control = self._process, None, None
        if process is None:
            raise RuntimeError("the Worker is not running")
        if how is signal.SIGKILL:
            os.killpg(process.pid, how)
        else:
            process.send_signal(how)
        try:
            return process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise


@lru_cache(maxsize=1)
def _staged() -> Path:
    """What a deployment would ship, made once a process."""
    directory = Path(tempfile.mkdtemp(prefix="titen-worker-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return stage(directory / "app")


_LOOK_AGAIN = "UPDATE vector_outbox SET next_attempt_at = 0 WHERE sent_at IS NOT NULL"

_MIGRATIONS_TABLE = """
CREATE TABLE IF NOT EXISTS d1_migrations (
  id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE,
  applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL)
"""


async def _new_tenant(keys: Keys, name: str) -> Tenant:
    now_ms = system_clock()
    tenant = await create_tenant(keys, name, now_ms, new_id(now_ms))
    request = KeyRequest(principal="owner", kind=PrincipalKind.HUMAN, role=Role.ADMIN)
    minted = await mint(keys, tenant.id, request, now_ms, new_id(now_ms))
    return Tenant(tenant.id, Key(minted.key.id, minted.api_key))


def _statements(script: str) -> Iterator[str]:
    """The statements of a migration, one by one: D1 takes no text of several."""
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""
    if pending.strip():
        raise ValueError("the migration ends inside a statement")


def _check_tools() -> None:
    if not (HARNESS / "node_modules").is_dir():
        raise RuntimeError("run `make worker-harness` first")
    if not (REPOSITORY / "python_modules").is_dir():
        raise RuntimeError("run `make worker-vendor` first")
