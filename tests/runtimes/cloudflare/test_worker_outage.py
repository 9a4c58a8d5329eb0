"""A thousand writes, two hundred of them while Workers AI is down: none is lost, hidden or left behind."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.runtimes.client import open_client
from tests.runtimes.cloudflare import CloudflareRuntime
from tests.runtimes.cloudflare.bulk import outbox, records, repair, send

pytestmark = pytest.mark.xdist_group("worker")

WRITES = 1_000
WITHOUT_MODEL = 200
GROUP = 20  # as many as one search shows
WRITERS = 4
WAIT_S = 120.0


@pytest.fixture
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CloudflareRuntime]:
    started = CloudflareRuntime(tmp_path_factory.mktemp("worker"), cron=False)
    yield started
    started.close()


def test_a_thousand_writes_survive_an_outage(runtime: CloudflareRuntime) -> None:
    """800 arrive by import, whose vectors are made later anyway; the model refuses the other 200 to their faces."""
    contents = [f"Catatan kelompok-{number // GROUP} nomor {number}" for number in range(WRITES)]
    tenant = runtime.new_tenant()
    with open_client(runtime.base_url, headers={"Authorization": f"Bearer {tenant.admin.api_key}"}) as api:
        rows = [
            {**row, "content": content}
            for row, content in zip(records(WRITES, ""), contents[WITHOUT_MODEL:], strict=False)
        ]
        next_line: int | None = 1
        while next_line is not None:
            next_line = send(api, rows, next_line)["next_line"]
        runtime.embedder.fail("status", status=503)
        with ThreadPoolExecutor(WRITERS) as writers:
            list(writers.map(lambda content: write(api, content), contents[:WITHOUT_MODEL]))
        assert {number for group in range(WRITES // GROUP) for number in found_by_words(api, group)} == set(contents)
        assert outbox(api)["pending"] >= WITHOUT_MODEL
        runtime.embedder.clear()
        deadline = time.monotonic() + WAIT_S
        while repair(api) and time.monotonic() < deadline:
            runtime.look_again_now()
        assert outbox(api) == {"pending": 0, "failed": 0, "oldest_age_ms": None}
        assert len(runtime.vectorize.ids(tenant.id)) == WRITES
        answer = api.post("/v1/memories/search", json={"query": "kelompok-7", "limit": GROUP}).json()
        assert answer["meta"]["channels"]["vector"] == "ok"
        assert {item["index_status"] for item in answer["data"]} == {"ready"}


def write(api: httpx.Client, content: str) -> None:
    answer = api.post("/v1/memories", json={"subject_id": "s", "content": content})
    assert answer.status_code == 201, answer.text
    assert answer.json()["data"]["semantic_ready"] is False


def found_by_words(api: httpx.Client, group: int) -> list[str]:
    answer = api.post("/v1/memories/search", json={"query": f"kelompok-{group}", "limit": GROUP})
    assert answer.status_code == 200, answer.text
    return [item["content"] for item in answer.json()["data"] if item["score"]["text_rank"]]
