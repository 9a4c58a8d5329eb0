"""Logs: one structured line a request, and none of content, keys or whole subjects."""

import json
from collections.abc import Callable

import pytest

from tests.contract.client import Api
from tests.runtimes.base import Embedder, Runtime

pytestmark = pytest.mark.needs_control


def test_no_marker_of_a_request_is_ever_logged(
    api: Api, anyone: Api, runtime: Runtime, new_name: Callable[[str], str]
) -> None:
    content, subject, tag = (new_name(stem) for stem in ("markercontent", "markersubject", "markertag"))
    meta, key, query, agent, run = (new_name(f"marker{n}") for n in ("meta", "key", "query", "agent", "run"))
    fields = {"agent_id": agent, "run_id": run, "category": "note", "key": key, "metadata": {meta: meta}}
    memory = api.stored(subject_id=subject, content=content, tags=[tag], source={"ref": meta}, **fields)
    api.found(query, subject_id=subject)
    api.listed(subject_id=subject, tags=tag, agent_id=agent).expect(200)
    api.patch(memory["id"], content=f"{content} again").expect(200)
    api.remember(subject_id=subject, content=content, surprise=content).expect(400)
    api.remember(subject_id=subject, content=f"{content}\0").expect(400)
    api.listed(subject_id=f"{subject}" + "x" * 300).expect(400)
    api.listed(subject_id=subject, **{content: content}).expect(400)
    api.request("POST", "/v1/memories", content=f'{{"content": "{content}'.encode()).expect(415)
    api.get(content).expect(404)
    api.request("GET", f"/v1/{content}").expect(404)
    api.import_lines(f'{{"content": "{content}"}}\n'.encode())
    api.sending(Idempotency_Key=key).remember(subject_id=subject, content=query)
    wrong = f"titen_{new_name('markerid')}_{new_name('markersecret')}"
    anyone.sending(Authorization=f"Bearer {wrong}").principal().expect(401)
    made = api.create_key(principal=new_name("p"), kind="agent", role="reader", subject_id=subject).expect(201)
    Api(api.http, made.data["api_key"]).listed(subject_id="other").expect(403)
    logged = runtime.logs()
    secrets = [api.api_key or "", made.data["api_key"], wrong]
    markers = [content, subject, tag, meta, key, query, agent, run, *(s.split("_", 2)[2] for s in secrets)]
    assert [marker for marker in markers if marker in logged] == []


def test_a_failing_provider_leaks_no_marker(
    api: Api, runtime: Runtime, embedder: Embedder, new_name: Callable[[str], str]
) -> None:
    content, subject = new_name("markercontent"), new_name("markersubject")
    for mode in ("status", "not_json", "nan", "drop", "wrong_count"):
        embedder.clear()
        embedder.fail(mode)
        api.stored(subject_id=subject, content=f"{content} {mode}")
        api.search(f"{content} {mode}", subject_id=subject).expect(200)
    embedder.clear()
    assert [marker for marker in (content, subject) if marker in runtime.logs()] == []
    api.drain()


def test_each_request_leaves_one_structured_line(api: Api, runtime: Runtime, subject: str) -> None:
    good = api.remember(subject_id=subject, content="Leaves a line").expect(201)
    bad = api.remember(subject_id=subject).expect(400)
    lines = runtime.logs().splitlines()
    for answer in (good, bad):
        (line,) = [line for line in lines if answer.meta["request_id"] in line]
        assert answer.status in json.loads(line).values()
    (line,) = [line for line in lines if bad.meta["request_id"] in line]
    assert "VALIDATION_ERROR" in line
