"""What only the Worker can get wrong: a late index, cron, its own request and response, D1's bounds.

Housekeeping runs where a test says so (`run_cron`), and the index shows writes when a test says so.
"""

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.runtimes.client import open_client
from tests.runtimes.cloudflare import CloudflareRuntime
from titen_core.limits import BODY_BYTES
from titen_core.protocols import Statement

pytestmark = pytest.mark.xdist_group("worker")

WAIT_S = 20.0


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CloudflareRuntime]:
    started = CloudflareRuntime(tmp_path_factory.mktemp("worker"), {"TITEN_EMBED_READ_DEADLINE_MS": "5000"}, cron=False)
    yield started
    started.close()


@pytest.fixture
def api(runtime: CloudflareRuntime) -> Iterator[httpx.Client]:
    """An admin of a tenant of its own; provider and index are healed afterwards."""
    headers = {"Authorization": f"Bearer {runtime.new_tenant().admin.api_key}"}
    with open_client(runtime.base_url, headers=headers) as client:
        yield client
    runtime.embedder.clear()
    runtime.vectorize.clear()


def remember(api: httpx.Client, content: str, **fields: Any) -> dict[str, Any]:
    answer = api.post("/v1/memories", json={"subject_id": "s", "content": content, **fields})
    assert answer.status_code == 201, answer.text
    stored: dict[str, Any] = answer.json()["data"]
    return stored


def search(api: httpx.Client, query: str, **fields: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    answer = api.post("/v1/memories/search", json={"query": query, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()["data"], answer.json()["meta"]["channels"]


def status(api: httpx.Client, memory: dict[str, Any]) -> str:
    return str(api.get(f"/v1/memories/{memory['id']}").json()["data"]["index_status"])


def work_through(runtime: CloudflareRuntime, api: httpx.Client, *memories: dict[str, Any]) -> None:
    """Cron, as often as it takes, with the pause between two looks left out."""
    deadline = time.monotonic() + WAIT_S
    while any(status(api, memory) != "ready" for memory in memories):
        assert time.monotonic() < deadline, f"still waiting: {runtime.logs()[-500:]}"
        runtime.look_again_now()
        runtime.run_cron()


def test_a_memory_is_found_by_meaning_before_the_index_shows_it(runtime: CloudflareRuntime, api: httpx.Client) -> None:
    runtime.vectorize.hold()
    memory = remember(api, "Kereta malam")
    (found,), channels = search(api, "railway at night")
    assert found["id"] == memory["id"]
    assert (found["score"]["overlay_rank"], found["score"]["vector_rank"], found["score"]["text_rank"]) == (
        1,
        None,
        None,
    )
    assert channels == {"vector": "ok", "text": "ok", "overlay": "ok"}
    assert status(api, memory) == "pending"


def test_it_is_ready_once_the_index_shows_it(runtime: CloudflareRuntime, api: httpx.Client) -> None:
    runtime.vectorize.hold()
    memory = remember(api, "Kopi pagi")
    runtime.run_cron()
    runtime.look_again_now()
    runtime.run_cron()
    assert status(api, memory) == "pending"
    runtime.vectorize.release()
    work_through(runtime, api, memory)
    (found,), _ = search(api, "coffee in the morning")
    assert found["score"]["vector_rank"] == 1


@pytest.mark.parametrize("tells_acceptance", [False, True])
def test_the_last_write_before_a_quiet_night_becomes_ready(
    runtime: CloudflareRuntime, api: httpx.Client, tells_acceptance: bool
) -> None:
    """Whatever `processedUpToDatetime` says of it."""
    runtime.vectorize.tells_acceptance = tells_acceptance
    memory = remember(api, "Teh di rumah")
    work_through(runtime, api, memory)
    runtime.vectorize.tells_acceptance = False


def test_an_outdated_vector_never_brings_a_memory_back(runtime: CloudflareRuntime, api: httpx.Client) -> None:
    changed, deleted = remember(api, "Mobil di jalan"), remember(api, "Buku di sekolah")
    work_through(runtime, api, changed, deleted)
    runtime.vectorize.hold()
    api.patch(f"/v1/memories/{changed['id']}", json={"content": "Nasi dan teh"}).raise_for_status()
    api.delete(f"/v1/memories/{deleted['id']}").raise_for_status()
    runtime.run_cron()
    (found,), _ = search(api, "car on the road")
    assert found["score"]["similarity"] < 0.5, "that of its new words, from the overlay"
    assert deleted["id"] not in {item["id"] for item in search(api, "a book for school")[0]}
    (found,), _ = search(api, "rice", limit=1)
    assert (found["id"], found["content"]) == (changed["id"], "Nasi dan teh")
    runtime.vectorize.release()
    work_through(runtime, api, changed)
    tenant = api.get("/v1/principal").json()["data"]["tenant_id"]
    assert len(runtime.vectorize.ids(tenant)) == 1, "old vectors are deleted from the index"


def test_an_exhausted_quota_leaves_words_and_the_overlay(runtime: CloudflareRuntime, api: httpx.Client) -> None:
    runtime.vectorize.exhaust_quota()
    assert search(api, "money")[1]["vector"] == "degraded", "from here on it knows that the index is away"
    memory = remember(api, "Uang di pasar")
    runtime.run_cron()
    for _ in range(2):
        (found,), channels = search(api, "money")
        assert (found["id"], channels["vector"], channels["overlay"]) == (memory["id"], "degraded", "ok")
    runtime.vectorize.clear()
    work_through(runtime, api, memory)


def test_a_filter_without_an_index_neither_leaks_nor_hides(runtime: CloudflareRuntime, api: httpx.Client) -> None:
    tagged, plain = remember(api, "Minum kopi", tags=["ya"]), remember(api, "Minum espresso")
    work_through(runtime, api, tagged, plain)
    found, channels = search(api, "coffee", filters={"tags": ["ya"]})
    assert [item["id"] for item in found] == [tagged["id"]]
    assert channels["vector"] == "ok", "the index had fewer vectors than it was asked for"
    for number in range(4):
        plain = remember(api, f"Minum kopi {number}")
    work_through(runtime, api, plain)
    found, channels = search(api, "coffee", filters={"tags": ["ya"]}, limit=1)
    assert [item["id"] for item in found] == [tagged["id"]]
    assert channels["vector"] == "partial"


def test_a_field_that_changed_since_the_vector_was_written_neither_leaks_nor_hides(
    runtime: CloudflareRuntime, api: httpx.Client
) -> None:
    memory = remember(api, "Mobil di jalan", priority="low")
    work_through(runtime, api, memory)
    runtime.vectorize.hold()
    api.patch(f"/v1/memories/{memory['id']}", json={"priority": "high"}).raise_for_status()
    assert search(api, "car on the road", filters={"priority": ["low"]})[0] == []
    (found,), _ = search(api, "car on the road", filters={"priority": ["high"]})
    assert (found["id"], found["score"]["overlay_rank"]) == (memory["id"], 1)


def test_more_than_a_hundred_candidates_with_filters_fit_into_d1s_bounds(
    runtime: CloudflareRuntime, api: httpx.Client
) -> None:
    old = [remember(api, f"Minum espresso {number}", category="fact") for number in range(61)]
    work_through(runtime, api, *old)
    age = "UPDATE memories SET updated_at = updated_at - 600000 WHERE tenant_id = ?"
    runtime.database.run(Statement(age, (api.get("/v1/principal").json()["data"]["tenant_id"],)))
    runtime.vectorize.hold()
    for number in range(61):
        remember(api, f"POL-77 {number}", category="fact")
    found, _ = search(api, "coffee POL-77", filters={"category": ["fact"]}, limit=20)
    assert len(found) == 20
    lines = [json.loads(line) for line in runtime.logs().splitlines() if line.startswith('{"event":"request"')]
    assert lines[-1]["counts"]["candidates"] > 100


def test_a_tenant_that_writes_fast_is_named_in_the_log(runtime: CloudflareRuntime, api: httpx.Client) -> None:
    for number in range(65):
        remember(api, f"Langkah {number}")
    warnings = [json.loads(line) for line in runtime.logs().splitlines() if line.startswith('{"event":"warning"')]
    own = json.loads(runtime.logs().strip().splitlines()[-1])
    assert "TENANT_WRITES" in {warning["code"] for warning in warnings if warning["tenant"] == own["tenant"]}


def test_long_names_work_in_every_filter(runtime: CloudflareRuntime, api: httpx.Client) -> None:
    one, two = "é" * 40, "é" * 39 + "e"
    memory = remember(api, "Tidur malam", subject_id=one, agent_id=one, run_id=one)
    other = remember(api, "Tidur pagi", subject_id=two, agent_id=two, run_id=two)
    work_through(runtime, api, memory, other)
    found, _ = search(api, "sleep", subject_id=one, agent_id=one, run_id=one, limit=20)
    assert [item["id"] for item in found] == [memory["id"]]


def test_many_candidates_with_filters_fit_into_d1s_bounds(api: httpx.Client) -> None:
    for number in range(60):
        remember(api, f"Kerja bagian {number}", tags=["a", "b"], category="project", priority="high")
    filters = {"kind": ["semantic"], "category": ["project", "fact"], "tags": ["a", "b"], "priority": ["high"]}
    found, _ = search(api, "work part", filters={**filters, "tags_match": "all", "min_confidence": 0.1}, limit=20)
    assert len(found) == 20


def test_a_broken_text_index_is_healed_after_the_request_that_found_it(
    runtime: CloudflareRuntime, api: httpx.Client
) -> None:
    memory = remember(api, "Tenggat TKT-99")
    runtime.break_text_index()
    assert search(api, "TKT-99")[1]["text"] == "degraded"
    deadline = time.monotonic() + WAIT_S
    while [item["id"] for item in search(api, "TKT-99")[0] if item["score"]["text_rank"]] != [memory["id"]]:
        assert time.monotonic() < deadline
        runtime.run_cron()


def test_bodies_and_headers_cross_unchanged(api: httpx.Client) -> None:
    content = "Zürich 設備 \U0001f600 don't\ttab"
    memory = remember(api, content, metadata={"n": None, "f": 1.5, "i": 2**53 - 1})
    read = api.get(f"/v1/memories/{memory['id']}").json()["data"]
    assert (read["content"], read["metadata"]) == (content, {"n": None, "f": 1.5, "i": 2**53 - 1})
    assert api.get("/v1/memories", params={"subject_id": "ü &+%"}).json()["data"] == []
    assert api.options("/v1/memories").status_code == 204


def test_a_body_over_its_limit_is_refused_with_and_without_a_length(api: httpx.Client) -> None:
    large = b'{"content": "' + b"x" * BODY_BYTES + b'"}'
    json_type = {"Content-Type": "application/json"}
    assert api.post("/v1/memories", content=large, headers=json_type).status_code == 413
    parts = (large[start : start + 65_536] for start in range(0, len(large), 65_536))
    assert api.post("/v1/memories", content=parts, headers=json_type).status_code == 413
    assert api.get("/healthz").status_code == 200


def test_half_a_surrogate_pair_is_refused_and_not_replaced(api: httpx.Client) -> None:
    body = b'{"subject_id": "s", "content": "half \\ud800"}'
    answer = api.post("/v1/memories", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400


def test_old_idempotency_rows_go_by_cron(runtime: CloudflareRuntime, api: httpx.Client) -> None:
    headers = {"Idempotency-Key": "once"}
    api.post("/v1/memories", json={"subject_id": "s", "content": "Sekali"}, headers=headers).raise_for_status()
    tenant = api.get("/v1/principal").json()["data"]["tenant_id"]
    count = Statement("SELECT count(*) AS n FROM idempotency WHERE tenant_id = ?", (tenant,))
    assert runtime.database.run(count)[0][0]["n"] == 1
    runtime.database.run(Statement("UPDATE idempotency SET created_at = 0 WHERE tenant_id = ?", (tenant,)))
    runtime.run_cron()
    assert runtime.database.run(count)[0][0]["n"] == 0


def test_what_was_stored_outlives_a_kill(runtime: CloudflareRuntime, api: httpx.Client) -> None:
    memory = remember(api, "Teman lama")
    runtime.kill()
    runtime.start()
    assert api.get(f"/v1/memories/{memory['id']}").json()["data"]["content"] == "Teman lama"
    assert search(api, "an old friend")[0][0]["id"] == memory["id"]
