"""`serve` and `up` as real processes over real HTTP."""

import json
import shlex
import signal
import socket
import stat
import subprocess
import time
from pathlib import Path

import httpx
import pytest

from tests.runtimes.embedding_server import EmbeddingServer
from tests.vps.conftest import Store
from tests.vps.process import Service, running, titen


def _client(service: Service, api_key: str) -> httpx.Client:
    return httpx.Client(base_url=service.url, headers={"Authorization": f"Bearer {api_key}"}, trust_env=False)


def test_serve_prints_one_line_and_says_that_it_is_text_only(store: Store) -> None:
    with running("serve", "--db", store.db, "--port", "0") as service:
        assert service.embeddings == "off"
        assert service.port != 0
        with _client(service, store.api_key) as client:
            assert client.get("/readyz").json()["data"]["codes"] == ["EMBEDDING_OFF"]
        assert service.stop() == 0
        assert len(service.lines) == 1
    sentences = [line for line in service.err.splitlines() if not line.startswith("{")]
    assert len(sentences) == 1
    assert "by words only" in sentences[0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly(store: Store, number: int) -> None:
    with running("serve", "--db", store.db, "--port", "0") as service:
        with _client(service, store.api_key) as client:
            body = {"subject_id": "u", "content": "kept over a restart"}
            assert client.post("/v1/memories", json=body).status_code == 201
        assert service.stop(number) == 0
    assert not store.db.with_name("titen.db-wal").exists()
    with running("serve", "--db", store.db, "--port", "0") as service, _client(service, store.api_key) as client:
        found = client.post("/v1/memories/search", json={"query": "restart"}).json()["data"]
        assert [item["content"] for item in found] == ["kept over a restart"]


def test_every_request_is_one_json_line_without_content_or_key(store: Store) -> None:
    with running("serve", "--db", store.db, "--port", "0") as service:
        with _client(service, store.api_key) as client:
            client.post("/v1/memories", json={"subject_id": "u-marker", "content": "content-marker"})
            client.get("/v1/memories", params={"marker-query": "x"})
            client.get("/marker-path")
        service.stop()
    lines = [json.loads(line) for line in service.err.splitlines() if line.startswith("{")]
    assert [line["status"] for line in lines] == [201, 400, 404]
    assert "marker" not in service.err
    assert store.api_key not in service.err


def test_bodies_over_the_bound_are_refused_while_reading(service: Service, store: Store) -> None:
    with _client(service, store.api_key) as client:
        large = client.post("/v1/memories", content=b"x" * 3_000_000, headers={"Content-Type": "application/json"})
        assert large.status_code == 413
        assert client.get("/healthz").status_code == 200


def test_an_endless_body_is_not_collected(service: Service, store: Store) -> None:
    """A chunked body without end gets its answer after the bound, not after the end."""
    with socket.create_connection(("127.0.0.1", service.port), timeout=20) as raw:
        raw.sendall(
            f"POST /v1/memories HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {store.api_key}\r\n"
            "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        )
        chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
        for _ in range(8):
            raw.sendall(chunk)
        assert raw.recv(64).startswith(b"HTTP/1.1 413 ")


def test_head_is_answered_without_a_body(service: Service) -> None:
    with httpx.Client(trust_env=False) as client:
        answer = client.head(f"{service.url}/healthz")
    assert answer.status_code == 200
    assert answer.content == b""
    assert "server" not in answer.headers


def test_a_port_in_use_is_one_sentence(store: Store) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        ran = titen("serve", "--db", store.db, "--port", str(holder.getsockname()[1]))
    assert (ran.code, ran.out) == (1, "")
    assert "is in use" in ran.err
    assert "Traceback" not in ran.err


def test_bad_settings_are_usage_errors(store: Store) -> None:
    serve = ("serve", "--db", store.db)
    assert titen(*serve, "--port", "70000").code == 2
    assert titen(*serve, "--port", "0", "--host", "nowhere.invalid").code == 2
    assert titen(*serve, env={"TITEN_EMBED": "maybe"}).code == 2
    endpoint = titen(*serve, env={"TITEN_EMBED": "endpoint"})
    assert endpoint.code == 2
    assert "TITEN_EMBED_BASE_URL" in endpoint.err


def test_an_endpoint_is_used_and_named(store: Store) -> None:
    with EmbeddingServer() as server:
        env = {"TITEN_EMBED": "", "TITEN_EMBED_BASE_URL": server.base_url, "TITEN_EMBED_MODEL": server.model}
        with running("serve", "--db", store.db, "--port", "0", env=env) as service:
            assert service.embeddings.startswith(f"openai-compatible:{server.model}:")
            with _client(service, store.api_key) as client:
                made = client.post("/v1/memories", json={"subject_id": "u", "content": "naik kereta"}).json()
                assert made["data"]["semantic_ready"] is True
                asked = {"subject_id": "u", "query": "railway"}
                assert client.post("/v1/memories/search", json=asked).json()["data"]


def test_an_endpoint_that_is_down_does_not_hold_up_the_start(store: Store) -> None:
    env = {"TITEN_EMBED": "", "TITEN_EMBED_BASE_URL": "http://127.0.0.1:9/v1", "TITEN_EMBED_MODEL": "m"}
    with running("serve", "--db", store.db, "--port", "0", env=env) as service:
        assert service.embeddings == "not ready"
        with _client(service, store.api_key) as client:
            made = client.post("/v1/memories", json={"subject_id": "u", "content": "still kept"})
            assert made.status_code == 201
            assert made.json()["data"]["semantic_ready"] is False


def test_vectors_follow_when_the_endpoint_comes_back(store: Store) -> None:
    with EmbeddingServer() as server:
        env = {"TITEN_EMBED": "", "TITEN_EMBED_BASE_URL": server.base_url, "TITEN_EMBED_MODEL": server.model}
        with running("serve", "--db", store.db, "--port", "0", env=env) as service:
            server.fail("status", status=503, times=1)
            with _client(service, store.api_key) as client:
                made = client.post("/v1/memories", json={"subject_id": "u", "content": "naik kereta"}).json()["data"]
                assert made["semantic_ready"] is False
                for _ in range(100):
                    if client.get(f"/v1/memories/{made['id']}").json()["data"]["index_status"] == "ready":
                        break
                    time.sleep(0.1)
                else:
                    pytest.fail("the vector never came")


def test_up_makes_everything_and_keeps_the_key(tmp_path: Path) -> None:
    db = tmp_path / "data" / "titen.db"
    key_file = tmp_path / "data" / "titen.db.admin-key"
    with running("up", "--db", db, "--port", "0") as service:
        service.wait_for_line("Ctrl-C")
        first = "\n".join(service.lines)
        api_key = key_file.read_text().strip()
        assert key_file.read_text() == f"{api_key}\n"
        assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
        assert first.count(api_key) == 1
        with _client(service, api_key) as client:
            caller = client.get("/v1/principal").json()["data"]
            assert (caller["kind"], caller["role"]) == ("human", "admin")
        assert service.stop() == 0
    with running("up", "--db", db, "--port", "0") as service:
        service.wait_for_line("Ctrl-C")
        again = "\n".join(service.lines)
        assert api_key not in again
        assert str(key_file) in again
        assert key_file.read_text() == f"{api_key}\n"
        service.stop()
    assert api_key not in service.err


def test_up_with_bad_settings_makes_nothing(tmp_path: Path) -> None:
    ran = titen("up", "--db", tmp_path / "new" / "titen.db", env={"TITEN_EMBED": "endpoint"})
    assert (ran.code, ran.out) == (2, "")
    assert "TITEN_EMBED_BASE_URL" in ran.err
    assert not (tmp_path / "new").exists()


def test_the_printed_commands_work_when_pasted(tmp_path: Path) -> None:
    directory = tmp_path / "a folder"
    with running("up", "--db", directory / "titen.db", "--port", "0") as service:
        service.wait_for_line("Ctrl-C")
        remember, recall = [part for part in "\n".join(service.lines).split("\n\n") if part.startswith("  curl ")]
        assert json.loads(_pasted(remember))["data"]["status"] == "stored"
        answer = json.loads(_pasted(recall.replace("How does the user like to travel?", "kereta")))
        assert answer["data"][0]["content"] == "Pengguna lebih suka naik kereta"


def _pasted(command: str) -> str:
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=30, check=True)
    assert shlex.split(command)[0] == "curl"
    return done.stdout


def test_mcp_behind_a_proxy_answers_to_its_public_name(store: Store) -> None:
    environment = {"TITEN_PUBLIC_HOSTS": "memory.example"}
    hosts = ("memory.example", "MEMORY.example:443", "localhost", "other.example", "a.memory.example")
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    with (
        running("serve", "--db", store.db, "--port", "0", env=environment) as service,
        _client(service, store.api_key) as client,
    ):
        found = [client.post("/mcp", json=ping, headers={"Host": host}).status_code for host in hosts]
    assert found == [200, 200, 200, 403, 403]
