"""Remember, at the level of the kernel: identities, defaults, and what one batch leaves behind."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.unit.kernel import WordModel
from tests.unit.service import DAY_MS, Service, access_of, counted, draft, drain_all, open_service
from titen_core import limits
from titen_core.errors import ModelAnswerInvalid, ModelError, ModelRejected, ModelUnavailable, SqlError
from titen_core.memories import forget, get, history, verify
from titen_core.models import (
    Access,
    Category,
    Filters,
    IndexStatus,
    Kind,
    Memory,
    PrincipalKind,
    Scope,
    Source,
    Written,
)
from titen_core.protocols import Row, SqlDriver, Statement
from titen_core.recall import recall
from titen_core.remember import remember

Case = Callable[[Service, Access], Awaitable[None]]


def run(directory: Path, case: Case, gateway: WordModel | None = None) -> None:
    """The case on a fresh service with an access to a tenant, as a human."""

    async def whole() -> None:
        async with open_service(directory, gateway or WordModel()) as service:
            await case(service, access_of(await service.tenant()))

    asyncio.run(whole())


def robot(access: Access) -> Access:
    """The same tenant, as an agent."""
    return Access(access.tenant_id, access.tenant_num, None, type(access.actor)("bot", PrincipalKind.AGENT), "bot_key")


async def footprint(service: Service) -> dict[str, int]:
    """How many rows each table holds."""
    tables = ("memories", "memory_events", "memory_vectors", "vector_outbox", "memory_text", "idempotency")
    return {table: await counted(service.driver, table) for table in tables}


def test_a_new_memory_has_row_event_terms_and_vector_and_nothing_to_do(tmp_path: Path) -> None:
    async def case(service: Service, access: Access) -> None:
        written = await remember(service.kernel, access, draft("Likes tea"))
        row = written.memory
        assert (written.outcome, row.version, row.content_version) == ("stored", 1, 1)
        assert (row.kind, row.priority, row.category, row.key) == ("semantic", "normal", None, None)
        assert (row.tags, dict(row.metadata), row.source, row.expires_at_ms) == ((), {}, None, None)
        assert row.created_at_ms == row.updated_at_ms == service.clock()
        assert row.index_status is IndexStatus.READY
        assert await footprint(service) == {
            "memories": 1,
            "memory_events": 1,
            "memory_vectors": 1,
            "vector_outbox": 0,
            "memory_text": 1,
            "idempotency": 0,
        }
        [event] = await history(service.kernel, access, row.id, after_version=0, limit=9, deleted=False)
        assert (event.event_type, event.version, event.actor) == ("add", 1, "Ada")
        assert (event.snapshot["content"], event.snapshot["author"]) == ("Likes tea", "human")

    run(tmp_path, case)


@pytest.mark.parametrize(("kind", "confidence"), [("human", 1.0), ("agent", 0.7), ("service", 0.7)])
def test_who_writes_decides_author_confidence_and_verification(tmp_path: Path, kind: str, confidence: float) -> None:
    async def case(service: Service, access: Access) -> None:
        writer = Access(access.tenant_id, access.tenant_num, None, type(access.actor)("W", PrincipalKind(kind)), "k")
        row = (await remember(service.kernel, writer, draft("Likes tea"))).memory
        human = kind == "human"
        assert (row.author, row.confidence, row.confidence_given) == (kind, confidence, False)
        assert (row.verified, row.verified_by) == (human, "W" if human else None)
        assert row.verified_at_ms == (service.clock() if human else None)

    run(tmp_path, case)


def test_doubted_is_a_confidence_too(tmp_path: Path) -> None:
    async def case(service: Service, access: Access) -> None:
        row = (await remember(service.kernel, access, draft("Likes tea", confidence=0.0))).memory
        assert (row.confidence, row.confidence_given) == (0.0, True)

    run(tmp_path, case)


SAME = [
    pytest.param({}, {}, "unchanged", id="nothing given"),
    pytest.param({"tags": ("a",)}, {}, "unchanged", id="omitted field keeps its value"),
    pytest.param({"tags": ("a",)}, {"tags": ("a",)}, "unchanged", id="equal field"),
    pytest.param({"tags": ("a",)}, {"tags": ("b",)}, "updated", id="another tag"),
    pytest.param({"tags": ("a",)}, {"tags": ("A",)}, "updated", id="a tag spelled otherwise"),
    pytest.param({"priority": "low"}, {"priority": "high"}, "updated", id="another priority"),
    pytest.param({}, {"confidence": 0.5}, "updated", id="another confidence"),
    pytest.param({}, {"category": Category.FACT}, "updated", id="a category"),
    pytest.param({"source": Source("a", "b")}, {"source": None}, "updated", id="source cleared"),
    pytest.param({"source": Source("a", "b")}, {"source": Source("a", "c")}, "updated", id="another source"),
    pytest.param({"metadata": {"a": 1}}, {"metadata": {"a": 1}}, "unchanged", id="equal metadata"),
    pytest.param({"metadata": {"a": 1}}, {"metadata": {"b": 1}}, "updated", id="metadata is replaced"),
    pytest.param({"metadata": {"a": 1}}, {"metadata": {"a": True}}, "updated", id="true is not 1"),
    pytest.param({"metadata": {"a": 0.0}}, {"metadata": {"a": False}}, "updated", id="false is not 0.0"),
    pytest.param({"metadata": {"a": 1}}, {"metadata": None}, "updated", id="metadata cleared"),
    pytest.param({}, {"metadata": None}, "unchanged", id="nothing to clear"),
    pytest.param({}, {"expires_at_ms": 1_900_000_000_000}, "updated", id="an expiry"),
]


@pytest.mark.parametrize(("first", "second", "outcome"), SAME)
def test_writing_an_identity_again(tmp_path: Path, first: dict[str, Any], second: dict[str, Any], outcome: str) -> None:
    async def case(service: Service, access: Access) -> None:
        before = (await remember(service.kernel, access, draft("Likes tea", **first))).memory
        service.clock.forward(5)
        again = await remember(service.kernel, access, draft("Likes tea", **second))
        changed = outcome == "updated"
        assert (again.outcome, again.memory.id) == (outcome, before.id)
        assert again.memory.version == (2 if changed else 1)
        assert again.memory.updated_at_ms == before.updated_at_ms + (5 if changed else 0)
        assert again.memory.created_at_ms == before.created_at_ms
        assert await counted(service.driver, "memory_events") == again.memory.version
        for name, value in {**first, **second}.items():
            assert getattr(again.memory, name) == ({} if name == "metadata" and value is None else value)
        assert repr(dict(again.memory.metadata)) == repr(dict({**first, **second}.get("metadata") or {})), (
            "1 and true are told apart"
        )

    run(tmp_path, case)


def test_other_spellings_of_the_words_are_the_same_memory_in_its_new_spelling(tmp_path: Path) -> None:
    async def case(service: Service, access: Access) -> None:
        first = await remember(service.kernel, access, draft("Likes  café"))
        again = await remember(service.kernel, access, draft("Likes cafe\u0301"))
        assert (again.outcome, again.memory.id) == ("updated", first.memory.id)
        assert again.memory.content == "Likes cafe\u0301"

    run(tmp_path, case)


def test_scopes_keep_memories_apart(tmp_path: Path) -> None:
    async def case(service: Service, access: Access) -> None:
        drafts = [
            *(draft("Likes tea"), draft("Likes tea", subject_id="user_2"), draft("Likes tea", agent_id="a")),
            *(draft("Likes tea", run_id="a"), draft("Likes tea", agent_id="a", run_id="a")),
            *(draft("Likes tea", kind=Kind.PROCEDURAL), draft("Likes tea", kind=Kind.EPISODIC)),
            draft("Likes tea", kind=Kind.EPISODIC, source=Source("chat", "turn_1")),
            draft("Likes tea", kind=Kind.EPISODIC, source=Source("chat", "turn_2")),
            draft("Likes tea", category=Category.FACT, key="tea"),
        ]
        written = [await remember(service.kernel, access, one) for one in drafts]
        assert {one.outcome for one in written} == {"stored"}
        again = [await remember(service.kernel, access, one) for one in drafts]
        assert [one.memory.id for one in again] == [one.memory.id for one in written]
        assert {one.outcome for one in again} == {"unchanged"}
        assert await counted(service.driver, "memories") == len(drafts)

    run(tmp_path, case)


def test_a_key_is_overwritten_whatever_else_is_said(tmp_path: Path) -> None:
    async def case(service: Service, access: Access) -> None:
        keyed: dict[str, Any] = {"category": Category.FACT, "key": "home"}
        first = (await remember(service.kernel, access, draft("Lives in Malang", tags=("x",), **keyed))).memory
        second = await remember(service.kernel, access, draft("Lives in Kediri", agent_id="a", **keyed))
        row = second.memory
        assert (second.outcome, row.id, row.version, row.content_version) == ("updated", first.id, 2, 2)
        assert (row.content, row.tags, row.agent_id) == ("Lives in Kediri", ("x",), "a")
        assert await words_find(service, access, "Malang") == []
        assert await words_find(service, access, "Kediri") == [row.id]

    run(tmp_path, case)


async def words_find(service: Service, access: Access, query: str) -> list[str]:
    found = await recall(service.kernel, access, Scope(), Filters(), query=query, limit=9)
    return [item.memory.id for item in found.items if item.score.text_rank is not None]


def test_author_and_verification_follow_who_rewrites_a_key(tmp_path: Path) -> None:
    async def case(service: Service, access: Access) -> None:
        keyed: dict[str, Any] = {"category": Category.FACT, "key": "home"}
        await remember(service.kernel, access, draft("Lives in Malang", **keyed))
        touched = (await remember(service.kernel, robot(access), draft("Lives in Malang", tags=("x",), **keyed))).memory
        assert (touched.author, touched.verified, touched.confidence) == ("human", True, 1.0)
        rewritten = (await remember(service.kernel, robot(access), draft("Lives in Kediri", **keyed))).memory
        assert (rewritten.author, rewritten.verified, rewritten.confidence) == ("agent", False, 0.7)
        assert (rewritten.verified_at_ms, rewritten.verified_by) == (None, None)
        returned = (await remember(service.kernel, access, draft("Lives in Solo", **keyed))).memory
        assert (returned.author, returned.verified, returned.confidence) == ("human", True, 1.0)

    run(tmp_path, case)


def test_a_given_confidence_stays_when_another_rewrites(tmp_path: Path) -> None:
    async def case(service: Service, access: Access) -> None:
        keyed: dict[str, Any] = {"category": Category.FACT, "key": "home"}
        await remember(service.kernel, access, draft("Lives in Malang", confidence=0.4, **keyed))
        row = (await remember(service.kernel, robot(access), draft("Lives in Kediri", **keyed))).memory
        assert (row.confidence, row.confidence_given) == (0.4, True)

    run(tmp_path, case)


def test_a_humans_check_of_an_agents_words_stays_when_they_are_repeated(tmp_path: Path) -> None:
    async def case(service: Service, access: Access) -> None:
        row = (await remember(service.kernel, robot(access), draft("Likes tea"))).memory
        await verify(service.kernel, access, row.id)
        again = await remember(service.kernel, robot(access), draft("Likes tea"))
        assert (again.outcome, again.memory.verified, again.memory.author) == ("unchanged", True, "agent")

    run(tmp_path, case)


@pytest.mark.parametrize("gone", ["deleted", "expired"])
def test_what_is_gone_is_restored(tmp_path: Path, gone: str) -> None:
    async def case(service: Service, access: Access) -> None:
        expiry = service.clock() + DAY_MS
        first = (await remember(service.kernel, access, draft("Likes tea", tags=("x",), expires_at_ms=expiry))).memory
        if gone == "deleted":
            await forget(service.kernel, access, first.id)
        else:
            service.clock.forward(DAY_MS)
        version = 3 if gone == "deleted" else 2
        again = await remember(service.kernel, access, draft("Likes tea"))
        row = again.memory
        assert (again.outcome, row.id, row.version) == ("restored", first.id, version)
        assert (row.expires_at_ms, row.deleted_at_ms, row.tags) == (None, None, ("x",))
        assert row.created_at_ms == first.created_at_ms
        assert row.index_status is IndexStatus.READY
        events = await history(service.kernel, access, row.id, after_version=0, limit=9, deleted=False)
        assert [event.version for event in events] == list(range(1, version + 1))
        assert events[-1].event_type == "restore"
        assert await words_find(service, access, "tea") == [row.id]
        assert await counted(service.driver, "vector_outbox") == 0

    run(tmp_path, case)


def test_one_moment_before_its_expiry_a_memory_is_not_gone(tmp_path: Path) -> None:
    async def case(service: Service, access: Access) -> None:
        await remember(service.kernel, access, draft("Likes tea", expires_at_ms=service.clock() + DAY_MS))
        service.clock.forward(DAY_MS - 1)
        assert (await remember(service.kernel, access, draft("Likes tea"))).outcome == "unchanged"

    run(tmp_path, case)


@pytest.mark.parametrize(
    "failure",
    [ModelUnavailable("down"), ModelRejected("no"), ModelAnswerInvalid("NaN")],
    ids=lambda e: type(e).__name__,
)
def test_an_embedder_that_fails_costs_the_vector_only(tmp_path: Path, failure: ModelError) -> None:
    model = WordModel()

    async def case(service: Service, access: Access) -> None:
        await remember(service.kernel, access, draft("The first is embedded"))
        model.refuses = lambda text: failure if "tea" in text else None
        written = await remember(service.kernel, access, draft("Likes tea"))
        assert (written.outcome, written.memory.index_status) == ("stored", "pending")
        assert await words_find(service, access, "tea") == [written.memory.id]
        assert await counted(service.driver, "vector_outbox") == 1
        assert await counted(service.driver, "memory_events") == 2
        model.refuses = lambda text: None
        service.clock.forward(limits.OUTBOX_BACKOFF_MAX_MS)
        assert await drain_all(service.kernel) == 1
        assert (await get(service.kernel, access, written.memory.id)).index_status is IndexStatus.READY
        assert await counted(service.driver, "memory_vectors") == 2

    run(tmp_path, case, model)


def test_a_hundred_equal_writes_at_once_are_one_memory(tmp_path: Path) -> None:
    async def case(service: Service, access: Access) -> None:
        written = await asyncio.gather(*(remember(service.kernel, access, draft("Likes tea")) for _ in range(100)))
        assert sorted(one.outcome for one in written) == ["stored", *["unchanged"] * 99]
        assert len({one.memory.id for one in written}) == 1
        left = await footprint(service)
        assert (left["memories"], left["memory_events"], left["memory_vectors"], left["memory_text"]) == (1, 1, 1, 1)

    run(tmp_path, case)


def test_fifty_writes_of_one_key_at_once_have_a_history_without_gaps(tmp_path: Path) -> None:
    async def case(service: Service, access: Access) -> None:
        keyed: dict[str, Any] = {"category": Category.FACT, "key": "n"}
        written: Sequence[Written] = await asyncio.gather(
            *(remember(service.kernel, access, draft(f"number {n}", **keyed)) for n in range(50))
        )
        assert sorted(one.outcome for one in written) == ["stored", *["updated"] * 49]
        row = await get(service.kernel, access, written[0].memory.id)
        events = await history(service.kernel, access, row.id, after_version=0, limit=99, deleted=False)
        assert [event.version for event in events] == list(range(1, 51))
        assert events[-1].snapshot["content"] == row.content
        assert row.version == row.content_version == 50
        assert await counted(service.driver, "memories") == await counted(service.driver, "memory_text") == 1
        last_word = row.content.split()[1]
        assert await words_find(service, access, last_word) == [row.id]
        await drain_all(service.kernel)
        assert await counted(service.driver, "memory_vectors", "content_version = 50") == 1

    run(tmp_path, case)


@dataclass
class Spoiling:
    """A driver that adds a statement that fails at the end of the next batch that stores a memory."""

    inner: SqlDriver
    armed: bool = False

    async def query(self, statement: Statement) -> list[Row]:
        return await self.inner.query(statement)

    async def batch(self, statements: Sequence[Statement]) -> list[list[Row]]:
        if self.armed and any("INTO memories" in statement.sql for statement in statements):
            self.armed = False
            return await self.inner.batch([*statements, Statement("SELECT json('no json')")])
        return await self.inner.batch(statements)


def test_a_batch_that_fails_leaves_nothing_at_all(tmp_path: Path) -> None:
    async def case() -> None:
        spoiling: list[Spoiling] = []

        def wrap(driver: SqlDriver) -> SqlDriver:
            spoiling.append(Spoiling(driver))
            return spoiling[0]

        async with open_service(tmp_path, WordModel(), wrap=wrap) as service:
            access = access_of(await service.tenant())
            kept: Memory = (await remember(service.kernel, access, draft("Likes tea"))).memory
            before = await footprint(service)
            for content in ("Likes tea", "Likes coffee"):
                spoiling[0].armed = True
                with pytest.raises(SqlError):
                    await remember(service.kernel, access, draft(content, tags=("x",)))
            assert await footprint(service) == before
            assert await get(service.kernel, access, kept.id) == kept
            assert await words_find(service, access, "coffee") == []

    asyncio.run(case())


def test_without_an_embedder_a_memory_waits_and_costs_no_attempt(tmp_path: Path) -> None:
    async def case() -> None:
        async with open_service(tmp_path) as service:
            access = access_of(await service.tenant())
            assert (await remember(service.kernel, access, draft("Likes tea"))).memory.index_status == "pending"
            assert await drain_all(service.kernel) == 0
            assert await counted(service.driver, "vector_outbox", "attempts = 0 AND lease IS NULL") == 1
        async with open_service(tmp_path, WordModel()) as service:
            assert await drain_all(service.kernel) == 1
            assert await counted(service.driver, "memories", "index_status = 'ready'") == 1

    asyncio.run(case())
