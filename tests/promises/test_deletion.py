"""Promise 3: what was deleted is gone by every way there is, and what was purged leaves no byte."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.promises.service import Api, Service, until
from tests.promises.store import connected, files_with, rows
from tests.runtimes.embedding_server import EmbeddingServer

QUERIES = ("Suka naik kereta malam POL-358", "POL-358", "night train", "kereta")
NEVER = 4_000_000_000_000
MEMORY: dict[str, Any] = {"subject_id": "s", "content": QUERIES[0], "tags": ["rail"], "expires_at": NEVER}


def ways_to_see(api: Api, reader: Api, memory_id: str) -> list[str]:
    """The ways of reading that show the memory."""
    again = api.sending(Idempotency_Key="first").remember(**MEMORY).expect(201)
    seen = {
        "get": api.get(memory_id).status == 200,
        "history": reader.call("GET", f"/v1/memories/{memory_id}/history").status == 200,
        "tags": api.call("GET", "/v1/memories/tags", subject_id="s").data != [],
        "expiring": memory_id in api.call("GET", "/v1/memories/expiring", within="8784h", limit=100).ids,
        "export": memory_id.encode() in api.export(),
        "request sent again": MEMORY["content"].encode() in again.content,
    }
    for query in ({}, {"subject_id": "s"}, {"tags": "rail"}, {"include_expired": "true"}):
        seen[f"list {query}"] = memory_id in [item["id"] for item in api.listed(**query)]
    for words in QUERIES:
        for scope in ({}, {"subject_id": "s"}, {"filters": {"tags": ["rail"]}}, {"filters": {"include_expired": True}}):
            seen[f"search {words} {scope}"] = memory_id in api.search(words, **scope).ids
    return [way for way, shown in seen.items() if shown]


def until_asked(embedder: EmbeddingServer, content: str) -> None:
    until(lambda: any(content in request.inputs for request in embedder.requests), "the drain asked for a vector")


WAYS_COUNT = 5 + 4 + 4 * 4  # all of them but "expiring", which looks a year ahead


def test_a_deleted_memory_is_gone_by_every_way_at_once_and_after_a_restart(tmp_path: Path) -> None:
    with EmbeddingServer() as embedder, Service(tmp_path, embedder) as service:
        service.start()
        reader_key = service.new_key(role="reader").key
        made = service.api.sending(Idempotency_Key="first").remember(**MEMORY).expect(201).data
        service.api.drain()

        def seen() -> list[str]:
            return ways_to_see(service.api, service.as_key(reader_key), made["id"])

        assert len(seen()) == WAYS_COUNT
        assert service.api.delete(made["id"]).data["status"] == "deleted"
        assert seen() == []
        service.restart()
        assert seen() == []
        service.kill()
        service.start()
        assert seen() == []
        assert made["id"].encode() in service.api.export(deleted=True)


def test_a_vector_that_arrives_after_the_deletion_brings_nothing_back(tmp_path: Path) -> None:
    """The drain has read the memory and waits for the embedder while it is deleted."""
    with EmbeddingServer() as embedder, Service(tmp_path, embedder) as service:
        service.start()
        service.api.stored(subject_id="s", content="Warm-up")
        reader_key = service.new_key(role="reader").key
        embedder.fail("status", status=500)
        made = service.api.sending(Idempotency_Key="first").remember(**MEMORY).expect(201).data
        assert made["semantic_ready"] is False
        embedder.forget_requests()
        embedder.clear()
        embedder.fail("delay", ms=3000)
        until(
            lambda: any(QUERIES[0] in request.inputs for request in embedder.requests), "the drain asked for a vector"
        )
        service.api.delete(made["id"]).expect(200)
        assert service.api.outbox()["detail"]["pending"] <= 1
        embedder.clear()
        service.api.drain()
        assert rows(service.database, "SELECT seq FROM memory_vectors WHERE content_version = 2") == []
        assert ways_to_see(service.api, service.as_key(reader_key), made["id"]) == []


def test_a_vector_row_written_after_the_deletion_is_not_shown(tmp_path: Path) -> None:
    """Such as a late upsert of another process would leave it: the row decides, not the index."""
    with EmbeddingServer() as embedder, Service(tmp_path, embedder) as service:
        service.start()
        reader_key = service.new_key(role="reader").key
        made = service.api.sending(Idempotency_Key="first").remember(**MEMORY).expect(201).data
        service.api.drain()
        with connected(service.database) as connection:
            found = connection.execute("SELECT name FROM sqlite_schema WHERE name LIKE 'vec_%' AND type = 'table'")
            tables = [name for (name,) in found if name.endswith(("_floats", "_codes"))]
            kept = {table: connection.execute(f"SELECT * FROM {table}").fetchall() for table in tables}
        assert all(kept.values())
        service.api.delete(made["id"]).expect(200)
        with connected(service.database) as connection:
            for table, copies in kept.items():
                for copy in copies:
                    marks = ", ".join("?" for _ in copy)
                    connection.execute(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", copy)
            assert connection.execute(f"SELECT count(*) FROM {tables[0]}").fetchall() == [(1,)]
        assert ways_to_see(service.api, service.as_key(reader_key), made["id"]) == []
        service.restart()
        assert ways_to_see(service.api, service.as_key(reader_key), made["id"]) == []


# Purge. A marker is a word of letters that nothing else has, so that its stem is its beginning.

PLACES = ("content", "oldcontent", "key", "tag", "oldtag", "meta", "subject", "agent", "run", "source")
MARKERS = {place: f"zq{place}wqxzberlarian" for place in PLACES}


def remembered_everywhere(api: Api) -> Any:
    """A memory whose every part is a marker, changed since, with a record of its request."""
    made = api.sending(Idempotency_Key="purge me").remember(
        subject_id=MARKERS["subject"],
        agent_id=MARKERS["agent"],
        run_id=MARKERS["run"],
        category="fact",
        key=MARKERS["key"],
        content=f"Suka {MARKERS['oldcontent']} sekali",
        tags=[MARKERS["oldtag"]],
        metadata={"note": MARKERS["meta"]},
        source={"type": "conversation", "ref": MARKERS["source"]},
    )
    memory_id = made.expect(201).data["id"]
    api.patch(memory_id, content=f"Suka {MARKERS['content']} sekali", tags=[MARKERS["tag"]]).expect(200)
    return api.get(memory_id).data


def traces(service: Service, embedder: EmbeddingServer, memory: Any) -> dict[str, bytes]:
    """Everything that a store may know of the memory, as bytes."""
    stems = {f"{place} stem": MARKERS[place][: len(f"zq{place}wqxz")].encode() for place in ("content", "oldcontent")}
    hexed = {f"{place} in hex": MARKERS[place].encode().hex().encode() for place in ("subject", "agent", "run", "tag")}
    vector = embedder.vector(memory["content"])
    return {
        **{place: marker.encode() for place, marker in MARKERS.items()},
        **stems,
        **hexed,
        "id": memory["id"].encode(),
        "vector": vector.tobytes(),
        "vector in base64": base64.b64encode(vector.tobytes()),
    }


def missing(service: Service, wanted: dict[str, bytes]) -> set[str]:
    return set(wanted) - set(present(service, wanted))


def present(service: Service, wanted: dict[str, bytes]) -> dict[str, list[str]]:
    found = files_with(service.store, wanted)
    return {name: files for name, files in found.items() if files}


@pytest.mark.parametrize(("deleted_before", "beside_a_server"), [(False, True), (True, False)])
@pytest.mark.parametrize("by", ["memory", "subject", "tenant"])
def test_a_purge_leaves_no_trace(by: str, deleted_before: bool, beside_a_server: bool, tmp_path: Path) -> None:
    with EmbeddingServer() as embedder, Service(tmp_path, embedder) as service:
        service.start()
        others = [service.api.stored(subject_id=f"o{n}", content=f"Tetap {n} di pasar")["id"] for n in range(20)]
        api = service.new_tenant(MARKERS["tag"]) if by == "tenant" else service.api
        memory = remembered_everywhere(api)
        api.drain()
        tenant_id = api.call("GET", "/v1/principal").data["tenant_id"]
        if by == "subject":
            service.new_key("--subject", MARKERS["subject"], kind="service")
        wanted = traces(service, embedder, memory)
        if deleted_before:
            api.delete(memory["id"]).expect(200)
            wanted.pop("vector")  # the index dropped it at once
        if not beside_a_server:
            service.stop()
        assert missing(service, wanted) == set()
        what = {"memory": ["--memory", memory["id"]], "subject": ["--subject", MARKERS["subject"]]}
        export = tmp_path / "kept.jsonl"
        certificate = service.titen(
            "purge", *what.get(by, ["--whole-tenant"]), "--tenant", tenant_id, "--export", str(export), "--yes"
        )
        assert certificate["clean"] is True, certificate
        assert certificate["memory_ids"] == [memory["id"]]
        assert MARKERS["content"] not in json.dumps(certificate)
        assert MARKERS["oldcontent"].encode() in export.read_bytes()
        assert present(service, wanted) == {}
        if not beside_a_server:
            service.start()
        assert sorted(item["id"] for item in service.api.listed()) == sorted(others)
        assert len(service.api.search("pasar").ids) == 20
        assert set(service.api.search(MARKERS["content"]).ids) <= set(others)
        if by != "tenant":
            assert service.api.get(memory["id"]).status == 404
        service.restart()
        assert present(service, wanted) == {}


def test_a_purge_beside_a_drain_that_waits_for_the_embedder_leaves_no_trace(tmp_path: Path) -> None:
    with EmbeddingServer() as embedder, Service(tmp_path, embedder) as service:
        service.start()
        service.api.stored(subject_id="s", content="Warm-up")
        embedder.fail("status", status=500)
        memory = remembered_everywhere(service.api)
        embedder.forget_requests()
        embedder.clear()
        embedder.fail("delay", ms=5000)
        until_asked(embedder, memory["content"])
        certificate = service.titen("purge", "--memory", memory["id"], "--no-export", "--yes")
        assert certificate["clean"] is True, certificate
        embedder.clear()
        service.api.drain()
        wanted = traces(service, embedder, memory)
        assert present(service, wanted) == {}
        service.restart()
        assert present(service, wanted) == {}
