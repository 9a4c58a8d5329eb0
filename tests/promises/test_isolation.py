"""Promise 2: what is not the caller's answers byte for byte as what does not exist."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.promises.service import Answer, Api, Service, at_once
from tests.runtimes.embedding_server import EmbeddingServer

UNKNOWN = "01900000-0000-7000-8000-000000000000"
CALLS: dict[str, Callable[[Api, str], Answer]] = {
    "get": lambda api, memory_id: api.get(memory_id),
    "patch": lambda api, memory_id: api.patch(memory_id, content="Mine"),
    "patch at a version": lambda api, memory_id: api.sending(If_Match="7").patch(memory_id, content="Mine"),
    "patch to a known content": lambda api, memory_id: api.patch(memory_id, content="Kept apart"),
    "delete": lambda api, memory_id: api.delete(memory_id),
    "delete at a version": lambda api, memory_id: api.sending(If_Match="7").delete(memory_id),
    "history": lambda api, memory_id: api.call("GET", f"/v1/memories/{memory_id}/history"),
    "history cursor": lambda api, memory_id: api.call("GET", f"/v1/memories/{memory_id}/history", cursor="x"),
    "restore": lambda api, memory_id: api.call("POST", f"/v1/memories/{memory_id}/restore"),
    "restore under a key": lambda api, memory_id: api.sending(Idempotency_Key="k").call(
        "POST", f"/v1/memories/{memory_id}/restore"
    ),
    "verify": lambda api, memory_id: api.call("POST", f"/v1/memories/{memory_id}/verify"),
    "slash": lambda api, memory_id: api.call("GET", f"/v1/memories/{memory_id}/"),
}


def without_request_id(answer: Answer) -> tuple[int, bytes, list[tuple[str, str]]]:
    """Everything a caller can see, but for what differs between any two requests."""
    headers = [(name, value) for name, value in answer.headers.items() if name not in {"date", "x-request-id"}]
    return answer.status, re.sub(rb'"request_id":"[^"]+"', b"", answer.content), headers


def test_unknown_foreign_deleted_and_locked_away_are_one_answer(tmp_path: Path) -> None:
    with EmbeddingServer() as embedder, Service(tmp_path, embedder) as service:
        service.start()
        owner, foreign = service.api, service.new_tenant("foreign")
        callers = {
            "admin": foreign,
            "locked agent": service.new_key("--subject", "mine"),
            "locked human admin": service.new_key("--subject", "mine", role="admin", kind="human"),
            "locked reader": service.new_key("--subject", "mine", role="reader", kind="service"),
        }
        live = owner.stored(subject_id="theirs", content="Kept apart", category="fact", key="k")["id"]
        gone = owner.stored(subject_id="theirs", content="Deleted apart")["id"]
        owner.delete(gone).expect(200)
        lapsed = owner.stored(subject_id="theirs", content="Lapsed apart", expires_at=1)["id"]
        before = owner.export(deleted=True)
        for name, caller in callers.items():
            for what, call in CALLS.items():
                unknown = without_request_id(call(caller, UNKNOWN))
                assert unknown[0] in (400, 403, 404), (name, what, unknown)
                for memory_id in (live, gone, lapsed):
                    assert without_request_id(call(caller, memory_id)) == unknown, (name, what)
        assert owner.export(deleted=True) == before


def test_an_import_cannot_tell_or_touch_what_another_tenant_has(tmp_path: Path) -> None:
    """The same lines answer the same beside a tenant that has these ids as in a store that has not."""
    (tmp_path / "empty").mkdir()
    with Service(tmp_path) as service, Service(tmp_path / "empty") as empty:
        service.start()
        empty.start()
        owner, foreign = service.api, service.new_tenant("foreign")
        owner.stored(subject_id="s", content="Theirs", category="fact", key="k")
        line = owner.export().splitlines(keepends=True)[0]

        def bring(api: Api) -> list[Any]:
            sent = api.sending(Content_Type="application/x-ndjson")
            bodies = (line.replace(b"Theirs", b"Altered"), line.replace(b"Theirs", b"Altered"), line)
            return [sent.call("POST", "/v1/import", body).data for body in bodies]

        told = bring(empty.api)
        assert [report["imported"] for report in told] == [1, 0, 0]
        assert bring(foreign) == told
        assert (owner.listed()[0]["content"], owner.listed()[0]["version"]) == ("Theirs", 1)


def test_a_hundred_better_foreign_rows_change_no_byte_of_an_answer(tmp_path: Path) -> None:
    """Scores, ranks, order and meta, over every way of searching and listing."""
    with EmbeddingServer() as embedder, Service(tmp_path, embedder) as service:
        service.start()
        mine, foreign = service.api, service.new_tenant("foreign")
        locked = service.new_key("--subject", "s")
        for number in range(12):
            mine.stored(subject_id=f"s{number % 3 or ''}", content=f"Kereta pagi {number} ke kota", tags=["t"])
        mine.drain()
        readers = {"admin": mine, "locked": locked}

        def answers() -> dict[str, bytes]:
            told = {}
            for name, api in readers.items():
                for query in ("kereta pagi", "morning train", "kota 3", "Kereta pagi 4 ke kota", "nothing at all"):
                    for filters in ({}, {"tags": ["t"]}, {"kind": ["semantic"]}):
                        found = api.search(query, filters=filters)
                        told[f"{name} {query} {filters}"] = re.sub(
                            rb'"(took_ms|request_id)":[^,}]+', b"", found.content
                        )
                told[f"{name} list"] = json.dumps(api.listed()).encode()
                told[f"{name} tags"] = json.dumps(api.call("GET", "/v1/memories/tags").data).encode()
            told["export"] = mine.export(deleted=True)
            told["outbox"] = json.dumps(mine.outbox()).encode()
            return told

        before = answers()
        at_once(
            lambda n: foreign.stored(subject_id="s", content=f"Kereta pagi {n} ke kota, morning train", tags=["t"]),
            range(100),
            8,
        )
        foreign.drain()
        after = answers()
        for name, told in before.items():
            assert after[name] == told, name


def test_a_wrong_key_answers_the_same_whatever_it_resembles(tmp_path: Path) -> None:
    """None, unknown id, wrong secret, revoked, expired: one body, nothing of the tenant."""
    with Service(tmp_path) as service:
        service.start()
        _, key_id, _ = str(service.admin_key).split("_", 2)
        made = service.api.call("POST", "/v1/keys", {"principal": "p", "kind": "agent", "role": "admin"}).data
        service.api.call("DELETE", f"/v1/keys/{made['id']}").expect(200)
        secrets = ("", "x", "0" * 43)
        keys = [made["api_key"], None, "x", f"titen_{key_id}"]
        keys += [f"titen_{shown}_{secret}" for shown in (key_id, "unknown") for secret in secrets]
        bodies = {without_request_id(service.as_key(key).call("GET", "/v1/memories"))[1] for key in keys}
        assert len(bodies) == 1
        assert service.tenant_id.encode() not in bodies.pop()
