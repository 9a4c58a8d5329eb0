"""The outbox: every memory gets its vector, whatever fails and whenever the process dies."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.kernel import FailingDriver, Killed, WordModel
from tests.unit.service import (
    Clock,
    Service,
    access_of,
    counted,
    draft,
    drain_all,
    kernel_over,
    open_migrated,
    open_service,
)
from titen_core import limits
from titen_core.errors import ModelError, ModelRejected, ModelUnavailable
from titen_core.memories import change, forget, get, restore
from titen_core.models import Access, Filters, IndexStatus, Patch, Scope
from titen_core.outbox import Drained, backoff_ms, drain, repair
from titen_core.protocols import Statement
from titen_core.recall import recall
from titen_core.remember import remember
from titen_core.semantics import FINGERPRINT_KEY


@dataclass
class Moody:
    """What the embedder refuses: nothing, everything, or texts that hold a word."""

    error: ModelError | None = None
    words: tuple[str, ...] = field(default=())

    def __call__(self, text: str) -> ModelError | None:
        if self.words and not any(word in text for word in self.words):
            return None
        return self.error


Case = Callable[[Service, Access, WordModel, Moody], Awaitable[None]]


def run(directory: Path, case: Case) -> None:
    """The case on a service whose embedder is down at first, after it has told its fingerprint."""

    async def whole() -> None:
        mood = Moody()
        model = WordModel(refuses=mood)
        async with open_service(directory, model) as service:
            await service.kernel.semantics.state()
            mood.error = ModelUnavailable("down")
            await case(service, access_of(await service.tenant()), model, mood)

    asyncio.run(whole())


async def store(service: Service, access: Access, *contents: str, subject_id: str = "user_1") -> list[str]:
    return [(await remember(service.kernel, access, draft(content, subject_id))).memory.id for content in contents]


async def status(service: Service, access: Access, memory_id: str) -> str:
    return str((await get(service.kernel, access, memory_id)).index_status)


def test_a_drain_embeds_what_waits_in_one_call(tmp_path: Path) -> None:
    async def case(service: Service, access: Access, model: WordModel, mood: Moody) -> None:
        ids = await store(service, access, "red", "green", "blue")
        mood.error = None
        model.calls.clear()
        assert await drain(service.kernel) == Drained(3, 0, more=False)
        assert model.calls == [["red", "green", "blue"]]
        assert [await status(service, access, one) for one in ids] == ["ready"] * 3
        assert await drain(service.kernel) == Drained(0, 0, more=False)
        assert len(model.calls) == 1

    run(tmp_path, case)


def test_a_drain_does_no_more_than_its_limit_and_says_that_there_is_more(tmp_path: Path) -> None:
    async def case(service: Service, access: Access, model: WordModel, mood: Moody) -> None:
        await store(service, access, "red", "green", "blue")
        mood.error = None
        assert await drain(service.kernel, 2) == Drained(2, 0, more=True)
        assert await drain(service.kernel, 2) == Drained(1, 0, more=False)

    run(tmp_path, case)


def test_halving_leaves_the_one_bad_text_alone(tmp_path: Path) -> None:
    async def case(service: Service, access: Access, model: WordModel, mood: Moody) -> None:
        ids = await store(service, access, *(f"text {n}" for n in range(7)), "poison", *(f"more {n}" for n in range(8)))
        mood.error, mood.words = ModelRejected("no"), ("poison",)
        model.calls.clear()
        assert await drain(service.kernel) == Drained(15, 1, more=False)
        assert len(model.calls) <= 1 + 2 * 4, "a bad one among 16 costs two calls for each halving"
        assert [one for one in ids if await status(service, access, one) != "ready"] == [ids[7]]
        assert await counted(service.driver, "vector_outbox", "attempts = 1 AND failed = 0 AND lease IS NULL") == 1

    run(tmp_path, case)


def test_an_outage_costs_no_attempt_and_tries_no_halves(tmp_path: Path) -> None:
    async def case(service: Service, access: Access, model: WordModel, mood: Moody) -> None:
        await store(service, access, "red", "green", "blue")
        for _ in range(3 * limits.OUTBOX_ATTEMPTS_MAX):
            model.calls.clear()
            assert await drain(service.kernel) == Drained(0, 3, more=False)
            assert len(model.calls) == 1
            service.clock.forward(limits.OUTBOX_BACKOFF_MAX_MS)
        assert await counted(service.driver, "vector_outbox", "attempts = 0 AND failed = 0") == 3
        assert await counted(service.driver, "memories", "index_status = 'pending'") == 3
        mood.error = None
        assert await drain_all(service.kernel) == 3

    run(tmp_path, case)


def test_an_outage_in_the_middle_of_halving_ends_it(tmp_path: Path) -> None:
    async def case(service: Service, access: Access, model: WordModel, mood: Moody) -> None:
        await store(service, access, "bad", "b", "c", "d", "e", "f", "g", "h")

        def refuses(text: str) -> ModelError | None:
            if len(model.calls) > 1:
                return ModelUnavailable("gone")
            return ModelRejected("no") if text == "bad" else None

        model.calls.clear()
        model.refuses = refuses
        assert await drain(service.kernel) == Drained(0, 8, more=False)
        assert len(model.calls) == 2
        assert await counted(service.driver, "vector_outbox", "attempts = 0") == 8

    run(tmp_path, case)


@pytest.mark.parametrize("asked_ms", [1, 90_000, 10 * limits.OUTBOX_BACKOFF_MAX_MS])
def test_the_providers_wish_to_wait_is_honoured_within_a_bound(tmp_path: Path, asked_ms: int) -> None:
    async def case(service: Service, access: Access, model: WordModel, mood: Moody) -> None:
        await store(service, access, "red")
        mood.error = ModelUnavailable("busy", retry_after_ms=asked_ms)
        await drain(service.kernel)
        waits_ms = min(asked_ms, limits.OUTBOX_BACKOFF_MAX_MS)
        assert await service.kernel.store.outbox.next_due_ms() == service.clock() + waits_ms
        mood.error = None
        service.clock.forward(waits_ms - 1)
        assert (await drain(service.kernel)).completed == 0
        service.clock.forward(1)
        assert (await drain(service.kernel)).completed == 1

    run(tmp_path, case)


@given(st.integers(0, 10_000))
def test_backoff_doubles_within_bounds(attempts: int) -> None:
    ceiling = min(limits.OUTBOX_BACKOFF_MIN_MS * 2 ** min(attempts, 60), limits.OUTBOX_BACKOFF_MAX_MS)
    assert ceiling // 2 <= backoff_ms(attempts) <= ceiling


def test_a_text_refused_again_and_again_is_given_up_until_repair(tmp_path: Path) -> None:
    async def case(service: Service, access: Access, model: WordModel, mood: Moody) -> None:
        [memory_id] = await store(service, access, "red")
        outbox = service.kernel.store.outbox
        mood.error = ModelRejected("no")
        for attempt in range(1, limits.OUTBOX_ATTEMPTS_MAX + 1):
            assert await status(service, access, memory_id) == "pending"
            assert not await outbox.any_failed()
            assert await drain(service.kernel) == Drained(0, 1, more=False)
            assert await counted(service.driver, "vector_outbox", "attempts = ?", attempt) == 1
            service.clock.forward(limits.OUTBOX_BACKOFF_MAX_MS)
        assert await status(service, access, memory_id) == "error"
        assert await outbox.any_failed()
        assert (await outbox.counts(access)).failed == (await outbox.total()).failed == 1
        assert await drain(service.kernel) == Drained(0, 0, more=False)
        mood.error = None
        done = await repair(service.kernel, access)
        assert (done.requeued, done.completed, done.pending, done.failed) == (1, 1, 0, 0)
        assert await status(service, access, memory_id) == "ready"
        assert not await outbox.any_failed()

    run(tmp_path, case)


def test_new_words_get_new_attempts(tmp_path: Path) -> None:
    async def case(service: Service, access: Access, model: WordModel, mood: Moody) -> None:
        [memory_id] = await store(service, access, "poison")
        mood.error, mood.words = ModelRejected("no"), ("poison",)
        for _ in range(limits.OUTBOX_ATTEMPTS_MAX):
            await drain(service.kernel)
            service.clock.forward(limits.OUTBOX_BACKOFF_MAX_MS)
        mood.error, mood.words = ModelUnavailable("down"), ()
        await change(service.kernel, access, memory_id, Patch(content="remedy"))
        assert await status(service, access, memory_id) == "pending"
        assert await counted(service.driver, "vector_outbox", "attempts = 0 AND failed = 0 AND target = 2") == 1

    run(tmp_path, case)


def test_repair_touches_the_own_tenants_rows_only(tmp_path: Path) -> None:
    async def case(service: Service, access: Access, model: WordModel, mood: Moody) -> None:
        stranger = access_of(await service.tenant("other"))
        await store(service, access, "red")
        await store(service, stranger, "green")
        mood.error = ModelRejected("no")
        for _ in range(limits.OUTBOX_ATTEMPTS_MAX):
            await drain(service.kernel)
            service.clock.forward(limits.OUTBOX_BACKOFF_MAX_MS)
        done = await repair(service.kernel, access)
        assert (done.requeued, done.failed) == (1, 0)
        assert (await service.kernel.store.outbox.counts(stranger)).failed == 1
        assert await counted(service.driver, "memories", "index_status = 'error'") == 1

    run(tmp_path, case)


def test_a_key_locked_to_a_subject_repairs_and_counts_its_subject_only(tmp_path: Path) -> None:
    async def case(service: Service, access: Access, model: WordModel, mood: Moody) -> None:
        locked = dataclasses.replace(access, subject_id="user_2")
        await store(service, access, "red", "green")
        await store(service, locked, "blue", subject_id="user_2")
        mood.error = ModelRejected("no")
        for _ in range(limits.OUTBOX_ATTEMPTS_MAX):
            await drain(service.kernel)
            service.clock.forward(limits.OUTBOX_BACKOFF_MAX_MS)
        assert (await service.kernel.store.outbox.counts(access)).failed == 3
        assert (await service.kernel.store.outbox.counts(locked)).failed == 1
        done = await repair(service.kernel, locked)
        assert (done.requeued, done.pending, done.failed) == (1, 1, 0)
        assert await counted(service.driver, "memories", "index_status = 'error'") == 2

    run(tmp_path, case)


def test_two_drains_at_once_do_no_work_twice(tmp_path: Path) -> None:
    async def case(service: Service, access: Access, model: WordModel, mood: Moody) -> None:
        texts = [f"text {n}" for n in range(40)]
        await store(service, access, *texts)
        mood.error = None
        model.calls.clear()
        done = await asyncio.gather(*(drain(service.kernel, 16) for _ in range(4)))
        assert sum(one.completed for one in done) == 40
        assert sorted(text for call in model.calls for text in call) == sorted(texts)

    run(tmp_path, case)


def test_a_lease_ends_by_itself(tmp_path: Path) -> None:
    async def case(service: Service, access: Access, model: WordModel, mood: Moody) -> None:
        await store(service, access, "red")
        mood.error = None
        state = await service.kernel.semantics.state()
        assert state.fingerprint is not None
        claim = service.kernel.store.outbox.claim
        assert len(await claim("dead", state.fingerprint, limit=9, now_ms=service.clock())) == 1
        service.clock.forward(limits.OUTBOX_LEASE_MS - 1)
        assert await drain_all(service.kernel) == 0
        service.clock.forward(1)
        assert await drain_all(service.kernel) == 1

    run(tmp_path, case)


def test_a_server_that_has_not_noticed_the_stores_new_model_embeds_nothing_for_it(tmp_path: Path) -> None:
    async def case(service: Service, access: Access, model: WordModel, mood: Moody) -> None:
        await store(service, access, *(f"memory {n}" for n in range(limits.DRAIN_ITEMS)))
        mood.error = None
        model.calls.clear()
        await service.kernel.store.meta.put(FINGERPRINT_KEY, "test:others:16:cosine:l2")
        service.clock.forward(limits.PROBE_KEPT_MS - 1)
        assert await drain(service.kernel) == Drained(0, 0, more=False)
        assert model.calls == []
        assert await counted(service.driver, "vector_outbox", "lease IS NULL") == limits.DRAIN_ITEMS

    run(tmp_path, case)


def test_a_vector_is_stored_only_for_the_words_it_was_made_of(tmp_path: Path) -> None:
    async def case(service: Service, access: Access, model: WordModel, mood: Moody) -> None:
        [memory_id] = await store(service, access, "red")
        state = await service.kernel.semantics.state()
        assert state.fingerprint is not None
        assert state.index is not None
        outbox, clock = service.kernel.store.outbox, service.clock
        [work] = await outbox.claim("slow", state.fingerprint, limit=9, now_ms=clock())
        await change(service.kernel, access, memory_id, Patch(content="green"))
        mood.error = None
        [vector] = await model.embed(["red"], purpose="memory", deadline_ms=1)
        await outbox.complete([(work, vector)], "slow", state.fingerprint, state.index)
        assert await status(service, access, memory_id) == "pending"
        assert await counted(service.driver, "memory_vectors") == 0
        assert await drain_all(service.kernel) == 1
        assert await counted(service.driver, "memory_vectors", "content_version = 2") == 1

    run(tmp_path, case)


def test_a_late_vector_of_a_deleted_memory_is_not_stored(tmp_path: Path) -> None:
    async def case(service: Service, access: Access, model: WordModel, mood: Moody) -> None:
        [memory_id] = await store(service, access, "red")
        state = await service.kernel.semantics.state()
        assert state.fingerprint is not None
        assert state.index is not None
        outbox = service.kernel.store.outbox
        [work] = await outbox.claim("slow", state.fingerprint, limit=9, now_ms=service.clock())
        await forget(service.kernel, access, memory_id)
        mood.error = None
        [vector] = await model.embed(["red"], purpose="memory", deadline_ms=1)
        await outbox.complete([(work, vector)], "slow", state.fingerprint, state.index)
        assert await counted(service.driver, "memory_vectors") == 0
        found = await state.index.search(access, Scope(), Filters(include_expired=True), vector, 9, service.clock())
        assert found.hits == ()
        await restore(service.kernel, access, memory_id)
        assert await drain_all(service.kernel) == 1

    run(tmp_path, case)


def test_a_deletion_that_the_index_was_not_told_of_is_told_later(tmp_path: Path) -> None:
    async def case() -> None:
        async with open_service(tmp_path, WordModel()) as service:
            access = access_of(await service.tenant())
            [memory_id] = await store(service, access, "red")
        async with open_service(tmp_path) as service:  # no embedder, so no index at hand
            await forget(service.kernel, access, memory_id)
            assert await counted(service.driver, "vector_outbox") == 1
        async with open_service(tmp_path, WordModel()) as service:
            await drain_all(service.kernel)
            assert await counted(service.driver, "vector_outbox") == 0
            state = await service.kernel.semantics.state()
            assert state.fingerprint is not None
            index_tables = await service.driver.query(
                Statement("SELECT name FROM sqlite_schema WHERE name LIKE 'vec%floats'")
            )
            assert await counted(service.driver, str(index_tables[0]["name"])) == 0
            assert (await restore(service.kernel, access, memory_id)).memory.index_status is IndexStatus.READY

    asyncio.run(case())


async def _a_day(directory: Path, failing: Callable[[FailingDriver], None] | None) -> int:
    """Writes of every kind and a drain, on a driver that may die on the way; answers the batches begun."""
    async with open_migrated(directory) as opened:
        driver = FailingDriver(opened, batches_left=10_000, written=False)
        clock = Clock()
        mood = Moody()
        kernel = kernel_over(driver, WordModel(refuses=mood), clock)
        tenant = await kernel.store.keys.create_tenant("tenant", "tests", clock())
        access = access_of(tenant)
        await kernel.semantics.state()
        if failing is not None:
            failing(driver)
        before = driver.batches_left
        with suppress(Killed):
            await remember(kernel, access, draft("red at once"))
            mood.error = ModelUnavailable("down")
            late = (await remember(kernel, access, draft("green later"))).memory
            lost = (await remember(kernel, access, draft("violet and gone"))).memory
            await change(kernel, access, late.id, Patch(content="green and changed"))
            await forget(kernel, access, lost.id)
            await restore(kernel, access, lost.id)
            mood.error = None
            await drain(kernel)
        return before - driver.batches_left


@pytest.mark.parametrize("written", [False, True], ids=["before the batch", "after the batch"])
def test_a_process_that_dies_anywhere_loses_nothing(tmp_path: Path, written: bool) -> None:
    (tmp_path / "whole").mkdir()
    batches = asyncio.run(_a_day(tmp_path / "whole", None))
    assert batches >= 8

    async def resumed(directory: Path) -> None:
        async with open_service(directory, WordModel(), clock=Clock()) as service:
            service.clock.forward(limits.OUTBOX_LEASE_MS)
            await drain_all(service.kernel)
            assert await counted(service.driver, "vector_outbox") == 0
            tenant = await service.kernel.store.keys.tenant("tenant")
            assert tenant is not None
            access = access_of(tenant)
            rows = await service.kernel.store.memories.page(
                access, Scope(), Filters(), limit=9, before=None, now_ms=service.clock()
            )
            for row in rows:
                assert row.index_status is IndexStatus.READY
                found = await recall(service.kernel, access, Scope(), Filters(), query=row.content, limit=9)
                [item] = [item for item in found.items if item.memory.id == row.id]
                assert (item.score.vector_rank, item.score.text_rank) == (1, 1)
            versions = await counted(service.driver, "memory_events")
            sums = await service.driver.query(Statement("SELECT ifnull(sum(version), 0) AS n FROM memories"))
            assert versions == sums[0]["n"], "one event for each version"

    for crash_point in range(batches):
        directory = tmp_path / str(crash_point)
        directory.mkdir()

        def failing(driver: FailingDriver, left: int = crash_point) -> None:
            driver.batches_left, driver.written = left, written

        asyncio.run(_a_day(directory, failing))
        asyncio.run(resumed(directory))


def test_work_written_by_a_clock_that_was_ahead_is_not_left_for_a_year(tmp_path: Path) -> None:
    async def case(service: Service, access: Access, model: WordModel, mood: Moody) -> None:
        service.clock.forward(365 * 86_400_000)
        [memory_id] = await store(service, access, "red")
        service.clock.forward(-365 * 86_400_000)
        mood.error = None
        service.kernel.semantics.forget()
        assert await drain_all(service.kernel) == 1
        assert await status(service, access, memory_id) == "ready"

    run(tmp_path, case)
