"""The log: one structured line a request, and nothing in it that anybody told the service."""

import json
import re
from pathlib import Path
from typing import Any

from tests.promises.service import Api, Service, at_once
from tests.promises.store import connected
from tests.runtimes.embedding_server import EmbeddingServer

REQUEST_FIELDS = {
    *("time_ms", "event", "request_id", "operation", "runtime", "tenant", "status"),
    *("duration_ms", "durations_ms", "counts", "flags", "error"),
}
EVENTS = {"request", "housekeeping_failed", "text_index_recreated", "log"}
FAILURES = ("status", "not_json", "nan", "drop", "wrong_count", "dimensions", "without_data", "redirect", "truncated")


class Markers:
    """Words that must not be logged, and where each was put."""

    def __init__(self) -> None:
        self.made: dict[str, str] = {}

    def __call__(self, place: str) -> str:
        return self.made.setdefault(place, f"Zq{place.replace(' ', '')}Wqx{len(self.made)}")

    def secret(self, place: str, key: str | None) -> str:
        assert key is not None
        self.made[place] = key.split("_", 2)[2]  # the secret may hold underscores itself
        return key

    def found_in(self, log: str) -> dict[str, str]:
        lowered = log.lower()
        return {
            place: marker
            for place, marker in self.made.items()
            if marker.lower() in lowered or marker.encode().hex() in lowered
        }


def talk(api: Api, anyone: Api, mark: Markers) -> list[int]:
    """Requests of every outcome, markers everywhere; the statuses."""
    fields: dict[str, Any] = {
        "subject_id": mark("subject"),
        "agent_id": mark("agent"),
        "run_id": mark("run"),
        "category": "fact",
        "key": mark("key"),
        "content": f"Tentang {mark('content')}",
        "tags": [mark("tag")],
        "metadata": {mark("metadata name"): mark("metadata value")},
        "source": {"type": mark("source type"), "ref": mark("source ref")},
    }
    answers = [api.sending(Idempotency_Key=mark("idempotency")).remember(**fields)]
    memory_id = answers[0].body.get("data", {}).get("id", mark("unknown id"))
    wrong_key = f"titen_{mark('key id')}_{mark('key secret')}"
    answers += [
        api.sending(Idempotency_Key=mark("idempotency")).remember(**{**fields, "content": mark("second content")}),
        api.call("POST", "/v1/memories/search", {"query": mark("query"), "subject_id": mark("subject")}),
        api.call("GET", "/v1/memories", subject_id=mark("subject"), tags=mark("tag"), agent_id=mark("agent")),
        api.patch(memory_id, content=f"Lagi {mark('patched')}", metadata={mark("patched name"): 1}),
        api.sending(If_Match=mark("if match")).patch(memory_id, content="x"),
        api.remember(**fields, surprise=mark("unknown field")),
        api.remember(**{**fields, "content": f"{mark('null byte')}\0"}),
        api.remember(**{**fields, "kind": mark("wrong kind")}),
        api.remember(**{**fields, "expires_at": mark("wrong time")}),
        api.remember(**{**fields, "subject_id": mark("long") * 100}),
        api.call("GET", "/v1/memories", **{mark("unknown parameter"): mark("parameter value")}),
        api.call("GET", "/v1/memories", cursor=mark("cursor")),
        api.call("GET", f"/v1/{mark('unknown path')}"),
        api.call("GET", f"/v1/memories/{mark('path id')}"),
        api.call("PUT", "/v1/memories", {mark("wrong method"): mark("wrong method")}),
        api.call("POST", "/v1/memories", f'{{"content": "{mark("no media type")}"}}'.encode()),
        api.sending(Content_Type="application/json").call("POST", "/v1/memories", f'{{"{mark("broken json")}'.encode()),
        api.sending(Content_Type="application/json").call("POST", "/v1/memories", mark("oversize").encode() * 40_000),
        api.sending(Content_Type="application/x-ndjson").call(
            "POST", "/v1/import", f'{{"content": "{mark("import")}"}}\n{mark("import junk")}\n'.encode()
        ),
        api.sending(Authorization=f"Bearer {wrong_key}").call("GET", "/v1/memories"),
        api.sending(Authorization=f"Basic {mark('basic')}").call("GET", "/v1/memories"),
        api.sending(Authorization=mark("bare")).call("GET", "/readyz"),
        api.sending(Origin=f"https://{mark('origin')}", User_Agent=mark("agent header")).call("GET", "/v1/memories"),
        api.sending(X_Request_Id=mark("request id header")).call("GET", "/v1/memories"),
        anyone.call("GET", "/v1/memories", subject_id=mark("anonymous subject")),
        api.call("GET", f"/v1/memories/{memory_id}/history"),
        api.call("GET", "/v1/export"),
        api.call("GET", "/readyz"),
        api.call("GET", "/healthz"),
        api.call("OPTIONS", "/v1/memories"),
        api.delete(memory_id),
    ]
    return [answer.status for answer in answers]


def test_no_marker_reaches_the_log_through_2xx_4xx_and_5xx(tmp_path: Path) -> None:
    mark = Markers()
    settings = {"TITEN_EMBED_API_KEY": mark("embedder key")}
    with EmbeddingServer() as embedder, Service(tmp_path, embedder, settings) as service:
        service.start()
        admin, anyone = service.api, service.as_key(None)
        mark.secret("admin key", admin.key)
        made = admin.call(
            "POST",
            "/v1/keys",
            {"principal": mark("principal"), "kind": "agent", "role": "writer", "label": mark("label")}
            | {"subject_id": mark("locked subject")},
        )
        locked = service.as_key(mark.secret("made key", made.expect(201).data["api_key"]))
        locked.remember(subject_id=mark("foreign subject"), content=mark("forbidden")).expect(403)
        statuses = set(talk(admin, anyone, mark))
        assert {200, 201, 204, 400, 401, 404, 405, 409, 413, 415} <= statuses, statuses
        admin.call(mark("method").upper(), "/v1/memories").expect(400)  # the server's parser refuses it, unlogged
        for mode in FAILURES:  # the embedder fails in each of its ways, in writing and in searching
            embedder.clear()
            embedder.fail(mode)
            content = mark(f"content of {mode}")
            admin.remember(subject_id=mark("subject"), content=content).expect(201)
            admin.search(mark(f"query of {mode}"), subject_id=mark("subject"))
            admin.call("POST", "/v1/repair").expect(200)
        embedder.clear()
        at_once(lambda n: admin.remember(subject_id="s", content=mark(f"parallel {n}")), range(16))
        with connected(service.database) as connection:
            connection.execute("DROP TABLE memory_text")
        statuses = set(talk(admin, anyone, mark))
        with connected(service.database) as connection:
            connection.execute("ALTER TABLE memory_events RENAME TO mislaid")
        statuses |= set(talk(admin, anyone, mark))
        with connected(service.database) as connection:
            connection.execute("ALTER TABLE mislaid RENAME TO memory_events")
            connection.execute(  # a row that cannot be read is a fault nobody foresaw
                "UPDATE memories SET metadata = '[' WHERE rowid = (SELECT min(seq) FROM memories)"
            )
        statuses |= set(talk(admin, anyone, mark))
        assert {500, 503} <= statuses, statuses
        service.restart()
        service.kill()
        assert mark.found_in(service.logged()) == {}
        assert len(service.logged().splitlines()) > 150  # the control: there was a log to search


def test_each_request_is_one_line_with_exactly_the_fields_there_are(tmp_path: Path) -> None:
    with EmbeddingServer() as embedder, Service(tmp_path, embedder) as service:
        service.start()
        before = len(service.process.err.read_text().splitlines())
        mark = Markers()
        count = len(talk(service.api, service.as_key(None), mark))
        with connected(service.database) as connection:
            connection.execute("DROP TABLE memory_text")
        count += len(talk(service.api, service.as_key(None), mark))
        ids = [answer.headers["X-Request-Id"] for answer in at_once(lambda n: service.api.get("x"), range(16))]
        service.stop()
        lines = [json.loads(line) for line in service.process.err.read_text().splitlines()[before:]]
        assert {line["event"] for line in lines} <= EVENTS
        requests = [line for line in lines if line["event"] == "request"]
        assert len(requests) == count + len(ids)
        assert len({line["request_id"] for line in requests}) == len(requests)
        assert set(ids) <= {line["request_id"] for line in requests}
        for line in requests:
            assert set(line) == REQUEST_FIELDS
            assert line["runtime"] == "vps"
            assert line["tenant"] is None or re.fullmatch(r"[0-9a-f]{12}", line["tenant"])
            assert service.tenant_id not in json.dumps(line)
            assert re.fullmatch(r"[a-z_]+", line["operation"]), line
            assert (line["error"] is None) == (line["status"] < 400), line
            assert all(isinstance(spent, float) for spent in line["durations_ms"].values())
            assert all(isinstance(count, int) for count in line["counts"].values())
        for operation in ("remember", "search"):
            embedded = [line for line in requests if line["operation"].startswith(operation) and line["status"] < 300]
            assert any(line["counts"].get("embed") == 1 for line in embedded), operation
            assert all(line["counts"]["sql"] >= 2 and line["durations_ms"]["sql"] > 0 for line in embedded)
        assert service.process.out.read_text().count("\n") == 1
