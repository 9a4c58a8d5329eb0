"""The failure model: what happens when a part fails (contract: Failure model), on a runtime of its own."""

import threading
import time
import uuid
from collections.abc import Callable, Iterator

import httpx
import pytest

from tests.contract.client import Api
from tests.contract.conftest import start_runtime
from tests.contract.parallel import at_once
from tests.runtimes.base import Runtime
from tests.runtimes.client import open_client

pytestmark = pytest.mark.needs_control

MEANT = "Suka minum kopi pagi"
BY_MEANING = "likes to drink coffee in the morning"
SLOW_MS = 3_000


@pytest.fixture(scope="module")
def running(runtime_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    """A runtime that tests may break, with deadlines that a slow provider misses soon."""
    started = start_runtime(
        runtime_name,
        tmp_path_factory,
        TITEN_EMBED_WRITE_DEADLINE_MS="1500",
        TITEN_EMBED_READ_DEADLINE_MS="1000",
    )
    yield started
    started.close()


@pytest.fixture(scope="module")
def owner(running: Runtime) -> Iterator[Api]:
    with open_client(running.base_url) as client:
        yield Api(client, running.new_tenant().admin.api_key)


@pytest.fixture
def breakable(running: Runtime, owner: Api) -> Iterator[Runtime]:
    """The runtime with a healthy provider; healed after the test, by a restart where the test failed."""
    yield running
    running.embedder.clear()
    if owner.readyz().status != 200:
        running.restart()


def healed(runtime: Runtime, api: Api) -> None:
    runtime.embedder.clear()
    api.drain()


FAULTS_ON_WRITE: dict[str, dict[str, object]] = {
    "500": {"mode": "status", "status": 500},
    "503": {"mode": "status", "status": 503},
    "401": {"mode": "status", "status": 401},
    "429": {"mode": "status", "status": 429},
    "slow": {"mode": "delay", "ms": SLOW_MS},
    "dribble": {"mode": "dribble", "ms": 50},
    "hang": {"mode": "hang"},
    "drop": {"mode": "drop"},
    "truncated": {"mode": "truncated"},
    "cut off": {"mode": "cut_off"},
    "not json": {"mode": "not_json"},
    "without data": {"mode": "without_data"},
    "too many": {"mode": "wrong_count", "count": 1},
    "too few": {"mode": "wrong_count", "count": -1},
    "nan": {"mode": "nan"},
    "infinity": {"mode": "infinity"},
    "null": {"mode": "null"},
    "text": {"mode": "text"},
    "zero": {"mode": "zero"},
    "other dimensions": {"mode": "dimensions", "count": 32},
}


@pytest.mark.parametrize("fault", FAULTS_ON_WRITE.values(), ids=FAULTS_ON_WRITE.keys())
def test_a_write_survives_a_provider_that_fails(
    breakable: Runtime, owner: Api, subject: str, fault: dict[str, object]
) -> None:
    """Field cases 20 and 29; blueprint 20.1, case 6: stored, found by words, embedded later."""
    mode = str(fault["mode"])
    breakable.embedder.fail(mode, **{name: value for name, value in fault.items() if name != "mode"})
    stored = owner.remember(subject_id=subject, content=MEANT).expect(201).data
    assert (stored["semantic_ready"], stored["index_status"]) == (False, "pending")
    answer = owner.search("kopi", subject_id=subject).expect(200)
    assert (answer.ids, answer.data[0]["score"]["text_rank"]) == ([stored["id"]], 1)
    healed(breakable, owner)
    (item,) = owner.found(BY_MEANING, subject_id=subject)
    assert (item["index_status"], item["score"]["vector_rank"]) == ("ready", 1)
    assert item["score"]["similarity"] > 0.8


@pytest.mark.parametrize(
    "fault",
    [
        {"mode": "status", "status": 500},
        {"mode": "delay", "ms": SLOW_MS},
        {"mode": "dribble", "ms": 50},
        {"mode": "nan"},
        {"mode": "not_json"},
        {"mode": "dimensions", "count": 32},
    ],
    ids=lambda fault: str(fault["mode"]),
)
def test_a_recall_degrades_to_text_and_says_so(
    breakable: Runtime, owner: Api, subject: str, fault: dict[str, object]
) -> None:
    memory = owner.stored(subject_id=subject, content=MEANT)
    owner.wait_until_indexed(memory["id"])
    mode = str(fault["mode"])
    breakable.embedder.fail(mode, **{name: value for name, value in fault.items() if name != "mode"})
    answer = owner.search("minum kopi", subject_id=subject).expect(200)
    assert answer.ids == [memory["id"]]
    assert answer.meta["degraded"] == {"semantic": True, "lexical": False}
    assert (answer.meta["channels"]["vector"], answer.meta["channels"]["text"]) == ("degraded", "ok")
    assert answer.data[0]["score"]["vector_rank"] is None
    breakable.embedder.clear()
    recovered = owner.search("minum kopi", subject_id=subject).expect(200)
    assert recovered.meta["degraded"]["semantic"] is False
    assert recovered.data[0]["score"]["vector_rank"] == 1


@pytest.mark.parametrize("mode", ["shuffled", "base64", "no_index"])
def test_an_unusual_answer_is_understood_and_pairs_are_right(
    breakable: Runtime, owner: Api, subject: str, mode: str
) -> None:
    """Field case 29: a wrong pair is never stored."""
    breakable.embedder.fail("status", status=503)
    meanings = {
        "Suka minum kopi": "coffee drink",
        "Anak tidur malam": "child sleep night",
        "Rumah dekat pasar": "house market",
        "Membaca buku sekolah": "read school book",
        "Dokter sakit": "physician ill",
    }
    for content in meanings:
        owner.stored(subject_id=subject, content=content)
    breakable.embedder.clear()
    breakable.embedder.fail(mode)
    owner.drain()
    for content, query in meanings.items():
        first = owner.found(query, subject_id=subject)[0]
        assert (first["content"], first["score"]["vector_rank"]) == (content, 1)
        assert first["score"]["similarity"] > 0.6


@pytest.mark.parametrize("wish", [{"retry_after": "1"}, {"retry_after_date_s": 1}], ids=["seconds", "date"])
def test_a_throttled_embedding_waits_and_then_succeeds(
    breakable: Runtime, owner: Api, subject: str, wish: dict[str, object]
) -> None:
    """Field case 28: 429 was treated as final."""
    breakable.embedder.fail("status", status=429, times=1, **wish)
    stored = owner.remember(subject_id=subject, content=MEANT).expect(201).data
    assert stored["semantic_ready"] is False
    owner.wait_until_indexed(stored["id"])
    assert owner.found(BY_MEANING, subject_id=subject)[0]["score"]["vector_rank"] == 1


def test_the_backlog_drains_by_itself(breakable: Runtime, owner: Api, subject: str) -> None:
    """Field case 31: rows without a vector never healed."""
    breakable.embedder.fail("status", status=500)
    ids = [owner.stored(subject_id=subject, content=f"Backlog {n}")["id"] for n in range(5)]
    breakable.embedder.clear()
    owner.wait_until_indexed(*ids)


def test_a_batch_that_is_too_large_for_the_provider_is_split(breakable: Runtime, owner: Api, subject: str) -> None:
    """Field case 25: the provider takes at most ten inputs."""
    breakable.embedder.fail("status", status=503)
    at_once(lambda n: owner.stored(subject_id=subject, content=f"Batch row {n}"), range(40))
    breakable.embedder.clear()
    breakable.embedder.fail("max_inputs", count=10)
    owner.drain()


def test_one_bad_text_does_not_hold_up_the_others(breakable: Runtime, owner: Api, subject: str) -> None:
    """Field case 26: the same batch was retried for ever."""
    breakable.embedder.fail("fail_on_marker", marker="indigestible")
    bad = owner.stored(subject_id=subject, content="An indigestible text")
    good = [owner.stored(subject_id=subject, content=f"A digestible text {n}")["id"] for n in range(6)]
    owner.repair().expect(200)
    owner.wait_until_indexed(*good)
    assert owner.read(bad["id"])["index_status"] in ("pending", "error")
    assert owner.found("indigestible", subject_id=subject)[0]["id"] == bad["id"]
    healed(breakable, owner)
    assert owner.read(bad["id"])["index_status"] == "ready"


def test_an_edit_while_the_provider_is_down_leaves_the_last_words(breakable: Runtime, owner: Api, subject: str) -> None:
    memory = owner.stored(subject_id=subject, content=MEANT)
    owner.wait_until_indexed(memory["id"])
    breakable.embedder.fail("status", status=500)
    owner.patch(memory["id"], content="Sekolah dekat pasar").expect(200)
    assert owner.read(memory["id"])["index_status"] == "pending"
    assert owner.found("sekolah", subject_id=subject)[0]["id"] == memory["id"]
    healed(breakable, owner)
    old = owner.found(BY_MEANING, subject_id=subject)
    assert all((m["score"]["similarity"] or 0) < 0.5 for m in old)
    assert owner.found("school market", subject_id=subject)[0]["score"]["similarity"] > 0.6


def test_a_provider_of_other_dimensions_fails_readiness_and_nothing_else(
    breakable: Runtime, owner: Api, subject: str
) -> None:
    """Field case 17; blueprint 20.1, case 7."""
    kept = owner.stored(subject_id=subject, content=MEANT)
    owner.wait_until_indexed(kept["id"])
    breakable.embedder.fail("dimensions", count=32)
    breakable.restart()
    refused = owner.readyz()
    assert refused.status == 503
    assert b"EMBEDDING_DIMENSION_MISMATCH" in refused.content or b"FINGERPRINT_MISMATCH" in refused.content
    stored = owner.remember(subject_id=subject, content="Written under a mismatch").expect(201).data
    assert stored["semantic_ready"] is False
    for query, memory in (("kopi", kept), ("mismatch", stored)):
        answer = owner.search(query, subject_id=subject).expect(200)
        assert (answer.ids, answer.meta["degraded"]["semantic"]) == ([memory["id"]], True)
    assert owner.read(kept["id"])["index_status"] == "ready"
    breakable.embedder.clear()
    breakable.restart()
    owner.readyz().expect(200)
    owner.drain()
    assert owner.found(BY_MEANING, subject_id=subject)[0]["score"]["vector_rank"] == 1


def test_a_dead_provider_fails_readiness_but_not_the_start(breakable: Runtime, owner: Api, subject: str) -> None:
    breakable.embedder.fail("status", status=500)
    breakable.restart()
    owner.request("GET", "/healthz").expect(200)
    assert owner.readyz().status == 503
    memory = owner.stored(subject_id=subject, content="Stored without a provider")
    assert owner.found("stored without", subject_id=subject)[0]["id"] == memory["id"]
    breakable.embedder.clear()
    breakable.restart()
    owner.readyz().expect(200)


def test_without_an_embedder_everything_works_by_text_and_the_backlog_is_embedded_later(
    breakable: Runtime, owner: Api, subject: str
) -> None:
    breakable.restart(TITEN_EMBED="off")
    try:
        asked = breakable.embedder.request_count
        stored = owner.remember(subject_id=subject, content=MEANT).expect(201).data
        assert (stored["semantic_ready"], stored["index_status"]) == (False, "pending")
        answer = owner.search("kopi", subject_id=subject).expect(200)
        assert answer.ids == [stored["id"]]
        assert answer.meta["channels"]["vector"] == "off"
        owner.readyz().expect(200)
        owner.repair().expect(200)
        assert owner.read(stored["id"])["index_status"] == "pending"
        assert breakable.embedder.request_count == asked
    finally:
        breakable.restart(TITEN_EMBED="endpoint")
    owner.drain()
    assert owner.found(BY_MEANING, subject_id=subject)[0]["score"]["vector_rank"] == 1


def test_a_broken_text_index_is_noticed_and_heals_without_a_restart(
    breakable: Runtime, owner: Api, subject: str
) -> None:
    """Field case 14: "full text unavailable" was remembered until a restart."""
    kept = owner.stored(subject_id=subject, content=MEANT)
    owner.wait_until_indexed(kept["id"])
    breakable.break_text_index()
    during = owner.search(BY_MEANING, subject_id=subject).expect(200)
    assert during.ids == [kept["id"]]
    answer = during
    for _ in range(200):
        answer = owner.search("kopi", subject_id=subject).expect(200)
        if not answer.meta["degraded"]["lexical"] and answer.data[0]["score"]["text_rank"]:
            break
        time.sleep(0.05)
    assert answer.meta["degraded"]["lexical"] is False
    assert (answer.ids, answer.data[0]["score"]["text_rank"]) == ([kept["id"]], 1)
    later = owner.stored(subject_id=subject, content="Written after the healing: echidna")
    assert owner.found("echidna", subject_id=subject)[0]["id"] == later["id"]


def test_a_write_onto_a_broken_text_index_is_whole_or_nothing(breakable: Runtime, owner: Api, subject: str) -> None:
    breakable.break_text_index()
    answer = owner.remember(subject_id=subject, content="All or nothing: wombat")
    listed = owner.all_listed(subject_id=subject)
    assert len(listed) == (1 if answer.status == 201 else 0), answer.describe()
    owner.remember(subject_id=subject, content="All or nothing: wombat")
    for _ in range(200):
        if owner.found("wombat", subject_id=subject):
            break
        owner.remember(subject_id=subject, content="All or nothing: wombat")
        time.sleep(0.05)
    assert len(owner.found("wombat", subject_id=subject)) == 1


def test_a_restart_keeps_everything(breakable: Runtime, owner: Api, subject: str) -> None:
    kept = owner.stored(subject_id=subject, content=MEANT, tags=["kept"])
    gone = owner.stored(subject_id=subject, content="Minum kopi malam, dihapus")
    owner.delete(gone["id"]).expect(200)
    owner.drain()
    before = owner.read(kept["id"])
    breakable.restart()
    assert owner.read(kept["id"]) == before
    for query in (BY_MEANING, "kopi"):
        assert [m["id"] for m in owner.found(query, subject_id=subject)] == [kept["id"]]
    owner.get(gone["id"]).expect(404)
    assert [e["event_type"] for e in owner.events(gone["id"])] == ["add", "delete"]


def test_an_orderly_end_during_searches_is_clean(breakable: Runtime, owner: Api, subject: str) -> None:
    """Field case 23: the native extension crashed when closed during use; restart() asserts the exit code."""
    owner.stored(subject_id=subject, content=MEANT)
    stop = threading.Event()

    def search(_: int) -> None:
        while not stop.is_set():
            try:
                owner.search(BY_MEANING, subject_id=subject)
            except httpx.TransportError:
                stop.wait(0.05)

    searching = threading.Thread(target=lambda: at_once(search, range(32), callers=32))
    enough = threading.Timer(2, stop.set)
    searching.start()
    enough.start()
    try:
        breakable.restart()
    finally:
        stop.set()
        searching.join()
    assert len(owner.found("kopi", subject_id=subject)) == 1


@pytest.mark.parametrize("round_", range(2))
def test_whatever_was_acknowledged_is_there_after_a_kill(
    breakable: Runtime, owner: Api, new_name: Callable[[str], str], round_: int
) -> None:
    """Blueprint 20.1, case 11: killed under load, then complete, and the index is repaired."""
    subject = new_name("subject")
    acknowledged: list[tuple[str, str]] = []
    enough = threading.Event()

    def write(writer: int) -> None:
        for n in range(10_000):
            content = f"{subject} writer {writer} row {n} mark {uuid.uuid4().hex}"
            try:
                answer = owner.remember(subject_id=subject, content=content)
            except httpx.TransportError:
                return
            acknowledged.append((answer.expect(201).data["id"], content))
            if len(acknowledged) >= 60 + 10 * round_:
                enough.set()

    writing = threading.Thread(target=lambda: at_once(write, range(8)))
    writing.start()
    try:
        assert enough.wait(60)
    finally:
        breakable.kill()
        writing.join()
        breakable.start()
    kept = {m["id"]: m["content"] for m in owner.all_listed(subject_id=subject)}
    assert {memory_id: kept.get(memory_id) for memory_id, _ in acknowledged} == dict(acknowledged)
    owner.drain()
    sample = acknowledged[-1]
    assert sample[0] in [m["id"] for m in owner.found(sample[1].split()[-1], subject_id=subject)]
    assert [e["version"] for e in owner.events(sample[0])] == [1]


def test_what_was_deleted_stays_deleted_after_a_kill(breakable: Runtime, owner: Api, subject: str) -> None:
    ids = [owner.stored(subject_id=subject, content=f"Minum kopi {n}")["id"] for n in range(5)]
    for memory_id in ids[:3]:
        owner.delete(memory_id).expect(200)
    breakable.kill()
    breakable.start()
    assert set(owner.listed(subject_id=subject).ids) == set(ids[3:])
    owner.drain()
    assert {m["id"] for m in owner.found("coffee drink", subject_id=subject)} <= set(ids[3:])
