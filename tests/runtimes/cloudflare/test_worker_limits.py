"""What a Free plan allows a Worker: 50 D1 queries a request, counted in workerd, each statement of a batch by itself.

Cloudflare says that limits of a query hold for each statement of a batch; how a batch counts for this one
it does not say, so it counts in full here (docs/decisions/0030). What `waitUntil` does after an answer is
part of its request.
"""

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import httpx
import pytest

from tests.runtimes.client import open_client
from tests.runtimes.cloudflare import CloudflareRuntime
from tests.runtimes.cloudflare.bulk import outbox, records, repair, send
from titen_core import limits

pytestmark = pytest.mark.xdist_group("worker")

D1_QUERIES_FREE = 50
Spend = Callable[[Callable[[], Any]], int]


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CloudflareRuntime]:
    started = CloudflareRuntime(tmp_path_factory.mktemp("worker"), cron=False)
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


@pytest.fixture
def spend(runtime: CloudflareRuntime) -> Spend:
    """How many D1 queries something made, what follows its answer included; never more than a Free plan allows."""

    def spent(work: Callable[[], Any]) -> int:
        before = runtime.d1_queries()
        work()
        queries = runtime.d1_queries() - before
        assert queries <= D1_QUERIES_FREE
        return queries

    return spent


def export(api: httpx.Client, query: dict[str, Any], pages: list[str]) -> None:
    pages.append(api.get("/v1/export", params=query).text)


def write(api: httpx.Client, **more: Any) -> None:
    body = {"subject_id": "s", "content": "Kopi pagi", **more}
    api.post("/v1/memories", json=body, headers={"Idempotency-Key": json.dumps(body)}).raise_for_status()


def test_only_a_write_is_followed_by_housekeeping(api: httpx.Client, spend: Spend) -> None:
    body = {"subject_id": "s", "content": "Kopi pagi"}
    assert spend(lambda: api.post("/v1/memories", json=body)) > 15
    assert spend(lambda: api.post("/v1/memories", json=body)) == 2, "the key and the row: nothing changed"
    assert spend(lambda: api.post("/v1/memories/search", json={"query": "kopi"})) == 4
    assert spend(lambda: api.get("/v1/memories")) == 2
    assert spend(lambda: api.post("/v1/keys", json={"principal": "p", "kind": "agent", "role": "reader"})) < 10


def test_writes(api: httpx.Client, spend: Spend) -> None:
    assert spend(lambda: write(api)) > 15
    assert spend(lambda: write(api, priority="high")) > 15
    memory = api.get("/v1/memories").json()["data"][0]["id"]
    spend(lambda: api.patch(f"/v1/memories/{memory}", json={"content": "Teh pagi"}).raise_for_status())
    spend(lambda: api.delete(f"/v1/memories/{memory}").raise_for_status())
    spend(lambda: api.post(f"/v1/memories/{memory}/restore").raise_for_status())


@pytest.mark.parametrize("trouble", ["none", "model", "index", "refused"])
def test_drains(runtime: CloudflareRuntime, api: httpx.Client, spend: Spend, trouble: str) -> None:
    """Twice as many rows are due as a drain takes, whatever becomes of them; then some are gone, too."""
    assert send(api, records(2 * limits.DRAIN_ITEMS, "Baris"))["imported"] == 2 * limits.DRAIN_ITEMS
    if trouble == "index":
        runtime.vectorize.exhaust_quota()
    elif trouble != "none":
        runtime.embedder.fail("status", status=503 if trouble == "model" else 400)
    for _ in range(2):
        assert spend(lambda: repair(api)) > 5
        assert spend(runtime.run_cron) > 5
    runtime.embedder.clear()
    runtime.vectorize.clear()
    for memory in api.get("/v1/memories", params={"limit": 10}).json()["data"]:
        api.delete(f"/v1/memories/{memory['id']}").raise_for_status()
    for _ in range(20):
        spend(runtime.run_cron)
        runtime.look_again_now()
        spend(lambda: repair(api))
        if outbox(api) == {"pending": 0, "failed": 0, "oldest_age_ms": None}:
            return
    raise AssertionError("the outbox does not empty")


def test_an_import_and_an_export(api: httpx.Client, spend: Spend) -> None:
    rows = records(limits.IMPORT_STEP_RECORDS * limits.IMPORT_STEPS_COUNT + 1, "Baris")
    most = [spend(lambda: send(api, rows)), spend(lambda: send(api, rows, len(rows)))]
    assert most[0] > 5 * limits.IMPORT_STEPS_COUNT
    assert spend(lambda: send(api, rows)) > 2 * limits.IMPORT_STEPS_COUNT, "again: all of it is there"
    pages: list[str] = []
    while not pages or (after := json.loads(pages[-1].splitlines()[-1])["next"]):
        query = {"limit": 100, "after": after} if pages else {"limit": 100}
        spend(partial(export, api, query, pages))
    assert len(pages) == limits.IMPORT_STEPS_COUNT + 1


def test_twins_in_an_import(api: httpx.Client, spend: Spend) -> None:
    twins = [{**row, "id": row["id"].replace("7000-8000", "7000-8001")} for row in records(300, "Kembar")]
    rows = [row for pair in zip(records(300, "Kembar"), twins, strict=True) for row in pair]
    assert spend(lambda: send(api, rows)) > 20


def test_a_text_index_made_anew(runtime: CloudflareRuntime, api: httpx.Client, spend: Spend) -> None:
    rows = records(2 * limits.DRAIN_ITEMS, "Baris")
    send(api, rows)
    runtime.break_text_index()
    assert spend(lambda: api.post("/v1/memories/search", json={"query": "baris"}).raise_for_status()) > 10
    rounds = 0
    while "TEXT_INDEX_REFILLING" in api.get("/readyz").json()["data"]["codes"]:
        assert spend(runtime.run_cron) > 5
        rounds += 1
        assert rounds < 40
    assert rounds > 1
    assert api.post("/v1/memories/search", json={"query": "baris"}).json()["meta"]["channels"]["text"] == "ok"
