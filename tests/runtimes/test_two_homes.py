"""One core in two homes: a VPS process and the Worker in workerd, beside each other.

The same embedder answers both. What differs by nature is blanked before answers are compared: ids, times,
cursors, keys, and how far the vector index is (`overlay`, the parts of a score, a write's `semantic_ready`).
"""

import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from tests.contract.client import Api
from tests.contract.test_transfer import bring, furnish, page_of, whole
from tests.runtimes.base import Runtime
from tests.runtimes.client import open_client
from tests.runtimes.cloudflare import CloudflareRuntime
from tests.runtimes.cloudflare.runtime import DIMENSIONS
from tests.runtimes.conversation import LEAST_REQUESTS, Conversation, said_and_settled
from tests.runtimes.vps import VpsRuntime
from titen_core.ids import new_id, system_clock

pytestmark = [pytest.mark.xdist_group("two_homes"), pytest.mark.slow]

WAIT_S = 240.0
PATIENT = {"TITEN_EMBED_WRITE_DEADLINE_MS": "20000", "TITEN_EMBED_READ_DEADLINE_MS": "20000"}


@dataclass
class Homes:
    """Both runtimes, and a client for each."""

    vps: VpsRuntime
    worker: CloudflareRuntime
    clients: dict[str, httpx.Client] = field(default_factory=dict)

    def admin(self, home: Runtime) -> Api:
        """A human admin of a new tenant there."""
        return Api(self.clients[home.name], home.new_tenant().admin.api_key)


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Homes]:
    with ExitStack() as opened:
        vps = VpsRuntime(tmp_path_factory.mktemp("vps"), PATIENT, dimensions=DIMENSIONS)
        opened.callback(vps.close)
        vps.new_tenant()  # the first one comes with the store and is named otherwise
        worker = CloudflareRuntime(tmp_path_factory.mktemp("worker"), PATIENT, cron=False)
        opened.callback(worker.close)
        found = Homes(vps, worker)
        for home in (vps, worker):
            found.clients[home.name] = opened.enter_context(_client(home))
        yield found


def _client(home: Runtime) -> httpx.Client:
    return open_client(home.base_url)


def drain(home: Runtime, api: Api) -> None:
    """Until nothing of the tenant waits; the pause between two looks at a remote index is left out."""
    deadline = time.monotonic() + WAIT_S
    while api.repair().expect(200).data["pending"]:
        assert time.monotonic() < deadline, home.logs()[-500:]
        if isinstance(home, CloudflareRuntime):
            home.look_again_now()
        else:
            time.sleep(0.05)


def test_both_homes_answer_alike(homes: Homes) -> None:
    told: dict[str, Conversation] = {}
    for home in (homes.vps, homes.worker):
        api = homes.admin(home)
        told[home.name] = said_and_settled(api, lambda home=home, api=api: drain(home, api))  # type: ignore[misc]
    on_vps, on_worker = told["vps"].lines, told["cloudflare"].lines
    assert len(on_vps) >= LEAST_REQUESTS
    for here, there in zip(on_vps, on_worker, strict=True):
        assert there == here


def test_a_store_moves_to_the_worker_and_back_unchanged(homes: Homes, tmp_path: Path) -> None:
    origin, worker = homes.admin(homes.vps), homes.admin(homes.worker)
    agent = origin.create_key(principal="bot", kind="agent", role="writer").expect(201).data
    furnish(origin, Api(origin.http, agent["api_key"]))
    drain(homes.vps, origin)
    exported = whole(origin, deleted="true")
    assert exported.count(b"\n") > 5
    assert bring(worker, exported)["errors"] == []
    drain(homes.worker, worker)
    again = whole(worker, deleted="true")
    assert records_of(again) == records_of(exported)
    home = VpsRuntime(tmp_path, PATIENT, dimensions=DIMENSIONS)
    try:
        with _client(home) as client:
            back = Api(client, home.new_tenant().admin.api_key)
            assert bring(back, again)["errors"] == []
            drain(home, back)
            assert records_of(whole(back, deleted="true")) == records_of(exported)
    finally:
        home.close()


def records_of(exported: bytes) -> list[bytes]:
    """The records' lines, as they are; the last line of a page is its summary."""
    return [line for line in exported.split(b"\n") if b'"content"' in line]


IMPORTED, REFUSED, GROUP = 800, 200, 20
TEMPLATE = "The first of many"
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def test_of_a_thousand_writes_two_hundred_find_the_model_away(homes: Homes) -> None:
    """800 arrive by import, since a thousand single requests to workerd take minutes on two cores."""
    tenant, embedder = homes.worker.new_tenant(), homes.worker.embedder
    api = Api(homes.clients[homes.worker.name], tenant.admin.api_key)
    try:
        template = api.stored(subject_id="s", content=TEMPLATE)
        [line] = records_of(whole(api))
        api.delete(template["id"]).expect(200)
        lines = [_like(line, _content(number)) for number in range(IMPORTED)]
        assert bring(api, page_of(lines))["errors"] == []
        embedder.fail("status", status=503)
        for number in range(IMPORTED, IMPORTED + REFUSED):
            stored = api.stored(subject_id="s", content=_content(number))
            assert stored["semantic_ready"] is False
        for group in range((IMPORTED + REFUSED) // GROUP):
            found = {item["content"] for item in api.found(f"GRP-{group}", limit=GROUP)}
            assert found == {_content(number) for number in range(group * GROUP, (group + 1) * GROUP)}
        assert _pending(api) >= REFUSED
    finally:
        embedder.clear()
    drain(homes.worker, api)
    assert _pending(api) == 0
    assert len(homes.worker.vectorize.ids(tenant.id)) == IMPORTED + REFUSED


def _content(number: int) -> str:
    return f"Nota {number} GRP-{number // GROUP}"


def _like(line: bytes, content: str) -> bytes:
    """An exported line with another content, and ids of its own."""
    ids: dict[str, str] = {}
    text = line.decode().replace(TEMPLATE, content)
    return UUID.sub(lambda found: ids.setdefault(found[0], new_id(system_clock())), text).encode() + b"\n"


def _pending(api: Api) -> int:
    checks = {check["name"]: check for check in api.readyz().body["data"]["checks"]}
    pending: int = checks["outbox"]["detail"]["pending"]
    return pending


def test_an_empty_database_is_said_to_be_behind(tmp_path: Path) -> None:
    home = CloudflareRuntime(tmp_path, cron=False, migrated=False)
    try:
        with _client(home) as client:
            anyone = Api(client, None)
            assert client.get("/healthz").status_code == 200
            refused = client.get("/readyz")
            assert (refused.status_code, refused.json()["data"]["codes"]) == (503, ["SCHEMA_BEHIND"])
            anyone.sending(Authorization="Bearer titen_a_b").principal().expect(503, "NOT_READY")
            home.run_cron()
            home.migrate()
            deadline = time.monotonic() + WAIT_S
            while client.get("/readyz").json()["data"]["status"] != "ready":  # what was seen is kept for a moment
                assert time.monotonic() < deadline
                time.sleep(0.1)
            Api(client, home.new_tenant().admin.api_key).stored(subject_id="s", content="The first")
    finally:
        home.close()
