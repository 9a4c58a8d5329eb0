"""The VPS runtime: a real process on a real SQLite file, embeddings over real HTTP."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import apsw

from tests.runtimes.base import Embedder, Key, Tenant
from tests.runtimes.chat_server import ChatServer
from tests.runtimes.embedding_server import EmbeddingServer
from tests.runtimes.ports import free_port

__all__ = ["VpsRuntime"]

_REPOSITORY = Path(__file__).resolve().parents[2]
_KEPT_VARIABLES = ("HOME", "LANG", "LC_ALL", "PATH", "SYSTEMROOT", "TMPDIR")
_START_TIMEOUT_S = 60
_STOP_TIMEOUT_S = 60


class VpsRuntime:
    """`titen serve` in its own directory. `settings` are further TITEN_* variables of the process."""

    name = "vps"
    disposable = True

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None, *, dimensions: int = 64) -> None:
        self._embedder = EmbeddingServer(dimensions).start()
        self.chat = ChatServer()
        self._database = directory / "titen.db"
        self._log = directory / "service.log"
        self._port = free_port()
        self._environment: dict[str, str] = {
            **{name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ},
            "TITEN_EMBED": "endpoint",
            "TITEN_EMBED_BASE_URL": self._embedder.base_url,
            "TITEN_EMBED_MODEL": self._embedder.model,
            "TITEN_CHAT_BASE_URL": self.chat.base_url,
            "TITEN_CHAT_MODEL": "scripted",
            **(settings or {}),
        }
        self._process: subprocess.Popen[bytes] | None = None
        created = self._titen("init")
        self._first: Tenant | None = Tenant(created["tenant_id"], Key(created["key_id"], created["api_key"]))
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def embedder(self) -> Embedder:
        return self._embedder

    def new_tenant(self, name: str = "contract", /) -> Tenant:
        if self._first is not None:
            first, self._first = self._first, None
            return first
        tenant_id: str = self._titen("tenant", "create", "--name", name)["tenant_id"]
        owner = ["--role", "admin", "--kind", "human", "--principal", "owner"]
        created = self._titen("key", "create", "--tenant", tenant_id, *owner)
        return Tenant(tenant_id, Key(created["key_id"], created["api_key"]))

    def start(self) -> None:
        command = [sys.executable, "-m", "vps.launcher", "serve"]
        place = ["--db", str(self._database), "--host", "127.0.0.1", "--port", str(self._port)]
        with self._log.open("ab") as log:
            seen = log.tell()
            self._process = subprocess.Popen(
                [*command, *place], cwd=_REPOSITORY, env=self._environment, stdout=log, stderr=log
            )
        self._wait_until_it_answers(self._process, seen)

    def restart(self, **settings: str) -> None:
        self._environment |= settings
        if self._process is not None:
            code = self._stop(signal.SIGTERM)
            if code not in (0, -signal.SIGTERM):
                raise RuntimeError(f"the service ended with {code} on SIGTERM:\n{self.logs()[-2000:]}")
        self.start()

    def kill(self) -> None:
        self._stop(signal.SIGKILL)

    def break_text_index(self) -> None:
        connection = apsw.Connection(str(self._database))
        try:
            connection.set_busy_timeout(10_000)
            connection.execute("DROP TABLE memory_text")
        finally:
            connection.close()

    def logs(self) -> str:
        return self._log.read_text(errors="replace")

    def close(self) -> None:
        if self._process is not None:
            self._stop(signal.SIGTERM)
        self._embedder.close()
        self.chat.close()

    def _titen(self, *arguments: str) -> dict[str, Any]:
        """Run one `titen` command on the store and return its JSON answer."""
        done = subprocess.run(
            [sys.executable, "-m", "vps.launcher", *arguments, "--db", str(self._database), "--json"],
            cwd=_REPOSITORY,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=_START_TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"titen {' '.join(arguments)} failed with {done.returncode}:\n{done.stderr}")
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def _wait_until_it_answers(self, process: subprocess.Popen[bytes], seen: int) -> None:
        """The service prints one line when it answers; the port is then open."""
        deadline = time.monotonic() + _START_TIMEOUT_S
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise RuntimeError(f"the service ended with {process.returncode}:\n{self.logs()[-4000:]}")
            if self._log.stat().st_size > seen and _answers(self._port):
                return
            time.sleep(0.02)
        raise RuntimeError(f"the service did not answer within {_START_TIMEOUT_S} s:\n{self.logs()[-4000:]}")

    def _stop(self, how: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            raise RuntimeError("the service is not running")
        process.send_signal(how)
        try:
            return process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
