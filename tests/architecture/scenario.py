"""A walk through every route and every piece of housekeeping, for rules that hold of whatever happens on the way."""

import json
from dataclasses import dataclass, field
from typing import Any

from tests.unit.kernel import WordModel
from tests.unit.service import DAY_MS, HOUR_MS, Clock, Reply, Service, access_of, drain_all, kernel_over
from titen_core.errors import ModelError, ModelRejected, ModelUnavailable
from titen_core.http.routes import ROUTES
from titen_core.http.routing import Route, find_route
from titen_core.models import Filters, PrincipalKind, Role, Scope
from titen_core.purge import Selector, purge, remaining, scrub_text
from titen_core.reindex import reindex
from titen_core.sql.text_index import TextIndex

__all__ = ["Answered", "Mood", "operate", "walk"]


@dataclass
class Mood:
    """What the embedder of the scenario refuses just now."""

    error: ModelError | None = None

    def __call__(self, text: str) -> ModelError | None:
        return self.error


@dataclass(frozen=True)
class Answered:
    """One answer and the route it came from."""

    route: Route
    reply: Reply


@dataclass
class _Walker:
    service: Service
    mood: Mood
    key: str
    answered: list[Answered] = field(default_factory=list)

    async def __call__(self, method: str, target: str, body: object = None, **more: Any) -> Reply:
        reply = await self.service.call(method, target, body, **{"key": self.key, **more})
        self.answered.append(Answered(find_route(ROUTES, method, target.partition("?")[0]).route, reply))
        assert reply.status != 500, (method, target, reply.text)
        return reply


async def walk(service: Service, mood: Mood) -> list[Answered]:
    """Use everything once, well and badly. Answers every answer."""
    tenant = await service.tenant()
    step = _Walker(service, mood, await service.key(tenant))
    locked = await service.key(tenant, role=Role.WRITER, kind=PrincipalKind.AGENT, name="bot", subject_id="user_1")
    await _writes(step, service.clock)
    await _reads(step)
    await _locked(step, locked)
    await _synapse(step, locked)
    await _keys(step)
    await _portability(step, await service.key(await service.tenant("other"), name="Eve"))
    await _misses(step)
    await _housekeeping(step)
    await _open(step)
    return step.answered


async def _writes(step: _Walker, clock: Clock) -> None:
    whole = {
        "subject_id": "user_1",
        "content": "Prefers the night train to Surabaya",
        "agent_id": "planner",
        "run_id": "run_1",
        "kind": "episodic",
        "category": "preference",
        "tags": ["Travel", "train_ride"],
        "priority": "high",
        "confidence": 0.9,
        "source": {"type": "conversation", "ref": "ticket_456#turn_8"},
        "metadata": {"seat": "window", "deep": {"a": [1, None]}},
        "expires_at": clock() + 2 * DAY_MS,
    }
    first = (await step("POST", "/v1/memories", whole, headers={"idempotency-key": "once"})).data["id"]
    await step("POST", "/v1/memories", whole, headers={"idempotency-key": "once"})
    await step("POST", "/v1/memories", {**whole, "priority": "low"}, headers={"idempotency-key": "once"})
    await step("POST", "/v1/memories", whole)
    keyed = {"subject_id": "user_1", "category": "fact", "key": "home", "content": "Lives in Malang"}
    home = (await step("POST", "/v1/memories", keyed)).data["id"]
    await step("POST", "/v1/memories", {**keyed, "content": "Lives in Kediri"})
    await step("PATCH", f"/v1/memories/{first}", {"tags": ["train"], "metadata": {"seat": None}})
    await step("PATCH", f"/v1/memories/{first}", {"content": "Prefers the day train"}, headers={"if-match": "2"})
    await step("PATCH", f"/v1/memories/{first}", {"content": "Prefers a ship"}, headers={"if-match": "1"})
    await step("POST", f"/v1/memories/{home}/verify", headers={"idempotency-key": "sure"})
    await step("POST", f"/v1/memories/{home}/verify", {}, headers={"idempotency-key": "surely"})
    await step("DELETE", f"/v1/memories/{home}?expected_version=99")
    await step("DELETE", f"/v1/memories/{home}")
    await step("DELETE", f"/v1/memories/{home}")
    await step("POST", f"/v1/memories/{home}/restore", headers={"idempotency-key": "back"})
    await step("DELETE", f"/v1/memories/{home}")
    await step("POST", "/v1/memories", keyed)
    for number in range(4):
        await step("POST", "/v1/memories", {"subject_id": "user_2", "content": f"Ticket POL-{number} is closed"})
    step.mood.error = ModelUnavailable("down", retry_after_ms=10)
    await step("POST", "/v1/memories", {"subject_id": "user_2", "content": "Embedded later"})
    step.mood.error = None


async def _reads(step: _Walker) -> None:
    listed = (await step("GET", "/v1/memories?limit=2")).json
    await step("GET", f"/v1/memories?limit=2&cursor={listed['meta']['next_cursor']}")
    memory_id = listed["data"][0]["id"]
    everything = (
        "subject_id=user_1&agent_id=planner&run_id=run_1&kind=episodic&category=preference&tags=train&tags=x"
        "&tags_match=any&priority=high&verified=true&author=human&min_confidence=0.1&created_after=0"
        "&created_before=253402300799999&updated_after=0&updated_before=253402300799999&include_expired=true"
    )
    await step("GET", f"/v1/memories?{everything}")
    await step("GET", f"/v1/memories?{everything.replace('any', 'all')}")
    await step("GET", f"/v1/memories/{memory_id}")
    page = (await step("GET", f"/v1/memories/{memory_id}/history?limit=1")).json
    if page["meta"]["next_cursor"]:
        await step("GET", f"/v1/memories/{memory_id}/history?cursor={page['meta']['next_cursor']}")
    for subject in ("", "subject_id=user_1&"):
        await step("GET", f"/v1/memories/expiring?{subject}within=7d")
        await step("GET", f"/v1/memories/tags?{subject}")
        await step("GET", f"/v1/memories?{subject}")
    await step("GET", "/v1/principal")
    await _searches(step)


async def _searches(step: _Walker) -> None:
    filters = {
        "kind": ["episodic"],
        "category": "preference",
        "tags": ["train"],
        "priority": "high",
        "verified": True,
        "author": "human",
        "min_confidence": 0.1,
        "created_after": 0,
        "updated_before": "9999-01-01T00:00:00Z",
    }
    for scope in ({}, {"subject_id": "user_1"}, {"subject_id": "user_1", "agent_id": "planner", "run_id": "run_1"}):
        for narrowing in ({}, {"kind": "episodic", "tags": ["train"], "tags_match": "all"}, filters):
            await step("POST", "/v1/memories/search", {**scope, "query": "day train POL-1", "filters": narrowing})
    await step("POST", "/v1/memories/search", {"query": "nothing of the sort", "limit": 20})
    step.mood.error = ModelUnavailable("down")
    await step("POST", "/v1/memories/search", {"query": "day train"})
    step.mood.error = None


async def _locked(step: _Walker, locked: str) -> None:
    await step("POST", "/v1/memories", {"content": "The bot's own words"}, key=locked)
    await step("GET", "/v1/memories?limit=1", key=locked)
    await step("GET", "/v1/memories?subject_id=user_2", key=locked)
    await step("POST", "/v1/memories/search", {"query": "own words"}, key=locked)
    await step("GET", "/v1/memories/expiring", key=locked)
    await step("GET", "/v1/memories/tags", key=locked)
    await step("GET", "/v1/keys", key=locked)
    await step("GET", "/v1/principal", key=locked)


async def _synapse(step: _Walker, locked: str) -> None:
    await step("GET", "/v1/recall?subject_id=user_1&max_tokens=100")
    await step("GET", "/v1/recall?subject_id=user_1&q=train")
    await step("GET", "/v1/recall")
    note = {"category": "note", "key": "note_redis", "content": "Try Redis", "tags": ["Cache"], "mind_id": "user_1"}
    made = (await step("POST", "/memory", {**note, "expires_at": "2099-01-01T00:00:00Z"})).json["id"]
    await step("POST", "/memory", {**note, "content": "Try Valkey"}, headers={"idempotency-key": "valkey"})
    await step("POST", "/memory", {"category": "note", "key": "note_redis", "content": "no mind"})
    await step("POST", "/memory", {**note, "source": "user"}, key=locked)
    for target in ("", "/by-tag?tag=cache", "/search?q=valkey&tag=cache", "/expiring?within=2w", "/recall?q=valkey"):
        await step("GET", f"/memory{target}", key=locked)
        await step("GET", f"/memory{target}{'&' if '?' in target else '?'}mind_id=user_1")
    await step("GET", "/memory?category=note&limit=1&mind_id=user_1")
    await step("GET", f"/memory/{made}")
    await step("GET", f"/memory/{made}?mind_id=user_2")
    await step("PUT", f"/memory/{made}", {"content": "Try KeyDB", "key": "note_redis"}, key=locked)
    await step("POST", f"/memory/{made}/verify", key=locked)
    await step("POST", f"/memory/{made}/verify")
    await step("DELETE", f"/memory/{made}", headers={"if-match": "99"})
    await step("DELETE", f"/memory/{made}")
    await step("PUT", f"/memory/{made}", {"priority": "low"})


async def _keys(step: _Walker) -> None:
    wanted = {"principal": "helper", "kind": "agent", "role": "writer", "subject_id": "user_1", "label": "a label"}
    made = (await step("POST", "/v1/keys", wanted)).data
    await step("POST", "/v1/keys", {**wanted, "kind": "service"})
    await step("GET", "/v1/keys")
    await step("DELETE", f"/v1/keys/{made['id']}")
    await step("DELETE", f"/v1/keys/{made['id']}")
    await step("DELETE", "/v1/keys/unknown")


async def _portability(step: _Walker, elsewhere: str) -> None:
    page = await step("GET", "/v1/export?limit=2&deleted=true")
    following = json.loads(page.text.splitlines()[-1])["next"]
    await step("GET", f"/v1/export?after={following}")
    lines = (await step("GET", "/v1/export")).text
    for _ in range(2):
        await step(
            "POST", "/v1/import", lines.encode(), key=elsewhere, headers={"content-type": "application/x-ndjson"}
        )
    await step("POST", "/v1/import?from_line=2", b"{}\n[]\n", headers={"content-type": "application/x-ndjson"})


async def _misses(step: _Walker) -> None:
    for method, path in (("GET", ""), ("PATCH", ""), ("DELETE", ""), ("GET", "/history"), ("POST", "/restore")):
        await step(method, f"/v1/memories/unknown{path}", {} if method == "PATCH" else None)
    await step("GET", "/v1/memories?nonsense=1")
    await step("POST", "/v1/memories", {"content": 7})
    await step("POST", "/v1/memories/search", b"{", headers={"content-type": "text/plain"})
    await step("GET", "/v1/principal", key=None)


async def _housekeeping(step: _Walker) -> None:
    kernel, clock = step.service.kernel, step.service.clock
    step.mood.error = ModelRejected("no")
    await step("POST", "/v1/memories", {"subject_id": "user_3", "content": "Refused for now"})
    for _ in range(10):
        clock.forward(HOUR_MS)
        await drain_all(kernel)
    await step("GET", "/readyz")
    step.mood.error = None
    await step("POST", "/v1/repair")
    await drain_all(kernel)
    await kernel.store.outbox.next_due_ms()
    await kernel.store.outbox.total()
    await _heal(kernel.store.text)
    clock.forward(3 * DAY_MS)
    await kernel.store.idempotency.expire(clock(), 10)


async def _heal(index: TextIndex) -> None:
    await index.recreate()
    await index.check()
    while await index.refill_step():
        pass


async def operate(service: Service) -> None:
    """What an operator does after the walk: move the store to another model, and purge."""
    access, other = (access_of(tenant) for tenant in await service.kernel.store.keys.tenants())
    await reindex(service.kernel, lambda done, total: None)
    moved = kernel_over(service.driver, WordModel("moved", dimensions=128), service.clock)
    await reindex(moved, lambda done, total: None)
    service.clock.forward(30 * DAY_MS)
    await reindex(moved, lambda done, total: None)
    [row] = await moved.store.memories.page(
        access, Scope(), Filters(include_expired=True), limit=1, before=None, now_ms=service.clock()
    )
    for selector in (Selector(memory_ids=(row.id,)), Selector(subject_id="user_1")):
        await purge(moved, access, selector)
        await remaining(moved, access, selector)
    await purge(moved, other, Selector(tenant=True))
    await scrub_text(moved)


async def _open(step: _Walker) -> None:
    for key in (step.key, None):
        for path in ("/", "/healthz", "/readyz", "/openapi.json"):
            await step("GET", path, key=key)
