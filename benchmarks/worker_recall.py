"""CPU time of one recall in the Worker: `python -m benchmarks.worker_recall [results.json]`. Linux only.

workerd runs Python, the emulated D1 and the emulated bindings in one process, so its CPU time is taken twice:
once with Titen in it, once with a JavaScript Worker that makes the very same calls and nothing else. Both
times 200 requests to /healthz are subtracted from 200 recalls. What the second leaves of the first is Python's.

Two corpora: all memories at rest in the index (`recall`), and all of them changed a moment ago (`fresh`), so
that the overlay reads each. The overlay's arithmetic over as many rows as it ever
holds is timed by itself, in Pyodide under Node (`overlay.mjs`).
"""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from adapters.cloudflare.vectorize import VectorizeIndex
from adapters.cloudflare.workers_ai import WorkersAIGateway
from benchmarks.machine import REPOSITORY, machine
from tests.runtimes.client import open_client
from tests.runtimes.cloudflare.emulated_vectorize import EmulatedVectorize
from tests.runtimes.cloudflare.runtime import HARNESS, CloudflareRuntime
from tests.runtimes.node import NODE
from titen_core import limits
from titen_core.http.app import App
from titen_core.http.messages import Request
from titen_core.ids import system_clock
from titen_core.kernel import Kernel
from titen_core.protocols import Row, SqlDriver, Statement, Vector
from titen_core.semantics import Semantics
from titen_core.sql.store import open_store

CORPUS = 50
REQUESTS = 200
ROUNDS = 5
QUERY = "How does the user like to travel at night?"
TOPICS = ("Kereta malam ke Yogyakarta", "Kopi pagi tanpa gula", "Mobil di jalan", "Buku di sekolah", "Rilis POL-")
AGE = Statement("UPDATE memories SET updated_at = updated_at - 3600000")
FRESH = Statement("UPDATE memories SET updated_at = updated_at + 3600000")

Plan = list[dict[str, Any]]


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="titen-bench-") as directory:
        result = measured(Path(directory))
    text = json.dumps(result, indent=2) + "\n"
    if sys.argv[1:]:
        Path(sys.argv[1]).write_text(text)
    print(text, end="")


def measured(directory: Path) -> dict[str, Any]:
    """The figures, in CPU milliseconds a request."""
    runtime = CloudflareRuntime(directory, {"TITEN_EMBED_READ_DEADLINE_MS": "20000"}, cron=False)
    try:
        key = runtime.new_tenant().admin.api_key
        fill(runtime, key)
        figures: dict[str, Any] = {}
        for name, age in (("recall", AGE), ("fresh", FRESH)):
            runtime.database.run(age)
            plan = asyncio.run(calls_of_one_recall(runtime, key))
            whole = cpu_ms_beyond_health(runtime.base_url, key)
            runtime.kill()
            with floor(directory, runtime.backend_url, plan) as url:
                emulators = cpu_ms_beyond_health(url, key)
            runtime.start()
            figures[name] = {
                "workerd_cpu_ms": round(whole, 2),
                "emulators_cpu_ms": round(emulators, 2),
                "python_cpu_ms": round(whole - emulators, 2),
                "d1_calls": sum("d1" in call for call in plan),
                "d1_statements": sum(len(call.get("d1", ())) for call in plan),
            }
    finally:
        runtime.close()
    return {
        "benchmark": "worker_recall",
        "machine": machine(),
        "corpus": {"memories": CORPUS, "dimensions": 1024, "requests": REQUESTS, "rounds": ROUNDS},
        **figures,
        **overlay_arithmetic(),
    }


def overlay_arithmetic() -> dict[str, float]:
    """Of as many rows as a recall wants, and of all of them exactly, which it did before signs came first."""
    wanted = BODY["limit"] * limits.CHANNEL_CANDIDATES_FACTOR
    return {"overlay_arithmetic_ms": arithmetic_ms(wanted), "overlay_exact_ms": arithmetic_ms(limits.OVERLAY_ROWS)}


def arithmetic_ms(wanted: int) -> float:
    script = str(Path(__file__).with_name("overlay.mjs"))
    places = ["--pyodide", str(HARNESS / "node_modules" / "pyodide"), "--repository", str(REPOSITORY)]
    amounts = ["--rows", str(limits.OVERLAY_ROWS), "--wanted", str(wanted)]
    done = subprocess.run([NODE, script, *places, *amounts], capture_output=True, text=True, check=True)
    return float(done.stdout)


def fill(runtime: CloudflareRuntime, key: str) -> None:
    """Memories whose vectors the index shows."""
    with open_client(runtime.base_url, {"Authorization": f"Bearer {key}"}) as api:
        for number in range(CORPUS):
            body = {"subject_id": "user_1", "content": f"{TOPICS[number % len(TOPICS)]} {number}"}
            api.post("/v1/memories", json=body).raise_for_status()
        deadline = time.monotonic() + 60
        while api.post("/v1/repair").json()["data"]["pending"]:
            if time.monotonic() > deadline:
                raise TimeoutError("the outbox does not empty")
            runtime.look_again_now()
            runtime.run_cron()


def cpu_ms_beyond_health(url: str, key: str) -> float:
    """What a recall costs workerd more than a health call does: the least of some rounds of each, interleaved.

    A machine that others share adds to a process's CPU time and takes nothing off, so the least is the truest.
    """
    process = workerd()
    with open_client(url, {"Authorization": f"Bearer {key}"}) as api:
        health, recall = (lambda: _ok(api.get("/healthz"))), (lambda: _ok(api.post("/v1/memories/search", json=BODY)))
        for call in (health, recall):
            spent(process, call)
        rounds = [(spent(process, recall), spent(process, health)) for _ in range(ROUNDS)]
    return min(recalls for recalls, _ in rounds) - min(healths for _, healths in rounds)


BODY: Mapping[str, Any] = {"query": QUERY, "subject_id": "user_1", "limit": 5}


def _ok(answer: httpx.Response) -> None:
    answer.raise_for_status()


def spent(process: int, call: Callable[[], None]) -> float:
    """CPU milliseconds of the process for one call, over REQUESTS of them."""
    before = cpu_s(process)
    for _ in range(REQUESTS):
        call()
    return (cpu_s(process) - before) * 1000 / REQUESTS


def cpu_s(process: int) -> float:
    """User and system time of a process, all threads (proc(5), fields 14 and 15)."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def workerd() -> int:
    """The one workerd that this process's harness started."""
    found = [child for child in _descendants(os.getpid()) if _name(child) == "workerd"]
    if len(found) != 1:
        raise RuntimeError(f"one workerd was expected and {len(found)} are running")
    return found[0]


def _descendants(process: int) -> Iterator[int]:
    for task in Path(f"/proc/{process}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            yield child
            yield from _descendants(child)


def _name(process: int) -> str:
    return Path(f"/proc/{process}/comm").read_text().strip()


@contextlib.contextmanager
def floor(directory: Path, backend: str, plan: Plan) -> Iterator[str]:
    """The JavaScript Worker over the same database, index and model."""
    (directory / "plan.json").write_text(json.dumps(plan))
    places = {"miniflare": HARNESS, "persist": directory / "d1", "backend": backend, "plan": directory / "plan.json"}
    options = [part for name, value in places.items() for part in (f"--{name}", str(value))]
    script = str(Path(__file__).with_name("worker_floor.mjs"))
    process = subprocess.Popen([NODE, script, *options], stdout=subprocess.PIPE, text=True)
    try:
        if process.stdout is None:
            raise RuntimeError("the floor has no output")
        yield json.loads(process.stdout.readline())["worker"]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


# What one recall asks of its bindings: the same core over the same stores, with every call noted.


async def calls_of_one_recall(runtime: CloudflareRuntime, key: str) -> Plan:
    plan: Plan = []
    store = open_store(_NotedDriver(runtime.database, plan))
    index, gateway = VectorizeIndex(_NotedIndex(runtime, plan)), WorkersAIGateway(_NotedModels(runtime, plan))
    semantics = Semantics(store.meta, gateway, lambda _: index, system_clock)
    app = App(Kernel(store, semantics), runtime="benchmark")
    request = Request(
        "POST",
        "/v1/memories/search",
        headers={"authorization": f"Bearer {key}", "content-type": "application/json"},
        body=json.dumps(BODY).encode(),
    )
    await app.handle(request)  # the first one looks at fingerprint and index; an isolate does so once
    plan.clear()
    answer = await app.handle(request)
    if answer.status != 200:
        raise RuntimeError(f"the noted recall answered {answer.status}")
    return plan


class _NotedDriver:
    def __init__(self, driver: SqlDriver, plan: Plan) -> None:
        self._driver, self._plan = driver, plan

    async def query(self, statement: Statement) -> list[Row]:
        self._note([statement])
        return await self._driver.query(statement)

    async def batch(self, statements: Sequence[Statement]) -> list[list[Row]]:
        self._note(statements)
        return await self._driver.batch(statements)

    def _note(self, statements: Sequence[Statement]) -> None:
        self._plan.append({"d1": [[each.sql, list(each.params)] for each in statements]})


class _NotedModels:
    def __init__(self, runtime: CloudflareRuntime, plan: Plan) -> None:
        self._runtime, self._plan = runtime, plan

    async def run(self, model: str, inputs: Mapping[str, Any]) -> Any:
        self._plan.append({"ai": [model, dict(inputs)]})
        url = f"https://workers-binding.ai/run?version=3&model={model}"
        return _asked(self._runtime, url, {"inputs": inputs, "options": {}})


class _NotedIndex(EmulatedVectorize):
    def __init__(self, runtime: CloudflareRuntime, plan: Plan) -> None:
        super().__init__(runtime.vectorize)
        self._plan = plan

    async def query(self, vector: Vector, options: Mapping[str, Any]) -> list[tuple[str, float]]:
        self._plan.append({"vectorize": dict(options)})
        return await super().query(vector, options)


def _asked(runtime: CloudflareRuntime, url: str, body: object) -> Any:
    """What the emulated binding answers there."""
    backend = urlsplit(runtime.backend_url)
    headers = {"MF-URL": url, "Content-Type": "application/json"}
    request = urllib.request.Request(backend.geturl(), json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


if __name__ == "__main__":
    if limits.OVERLAY_ROWS < CORPUS:
        raise SystemExit("the overlay holds fewer rows than the corpus")
    main()
