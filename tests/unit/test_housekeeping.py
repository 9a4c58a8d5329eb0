"""Housekeeping on a real SQLite file."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Literal

import pytest

from adapters.sqlite.driver import SqliteDriver
from tests.unit.kernel import WordModel, make_access, open_driver, over
from titen_core import limits
from titen_core.errors import ModelUnavailable
from titen_core.ids import system_clock
from titen_core.kernel import Kernel
from titen_core.models import Access, Draft, Filters, IndexStatus, Scope
from titen_core.protocols import Row, Statement, Vector
from titen_core.recall import recall
from titen_core.remember import remember
from titen_core.sql.idempotency import Ticket
from vps.housekeeping import Housekeeping


class Log:
    """Keeps the lines."""

    def __init__(self) -> None:
        self.events: list[object] = []

    def __call__(self, line: object) -> None:
        assert isinstance(line, dict)
        self.events.append(line["event"])


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(20):
        while not await condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def is_ready(kernel: Kernel, access: Access, memory_id: str) -> bool:
    row = await kernel.store.memories.get(access, memory_id)
    return row is not None and row.index_status is IndexStatus.READY


async def found(kernel: Kernel, access: Access, query: str) -> list[str]:
    answer = await recall(kernel, access, Scope(), Filters(), query=query, limit=5)
    return [item.memory.content for item in answer.items]


def test_a_vector_that_was_missed_comes_when_woken(tmp_path: Path) -> None:
    async def main() -> None:
        model = WordModel(refuses=lambda _: ModelUnavailable("down"))
        async with open_driver(tmp_path) as driver:
            wake = asyncio.Event()
            kernel = dataclasses.replace(over(driver, model), wake=wake.set)
            access = await make_access(kernel)
            written = await remember(kernel, access, Draft("u", "naik kereta"))
            assert written.memory.index_status is IndexStatus.PENDING
            model.refuses = lambda _: None
            housekeeping = Housekeeping(kernel, wake, Log(), idle_s=60)
            housekeeping.start()
            await until(lambda: is_ready(kernel, access, written.memory.id))
            await housekeeping.stop()

    asyncio.run(main())


def test_work_of_another_process_is_found_by_the_timer(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_driver(tmp_path) as driver:
            kernel = over(driver, WordModel())
            access = await make_access(kernel)
            housekeeping = Housekeeping(kernel, asyncio.Event(), Log(), idle_s=0.05)
            housekeeping.start()
            written = await remember(over(driver), access, Draft("u", "naik kereta"))
            await until(lambda: is_ready(kernel, access, written.memory.id))
            await housekeeping.stop()

    asyncio.run(main())


def test_a_text_index_that_is_gone_is_made_again_and_filled(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_driver(tmp_path) as driver:
            kernel, log = over(driver), Log()
            access = await make_access(kernel)
            for number in range(limits.DRAIN_ITEMS + 3):
                await remember(kernel, access, Draft("u", f"word{number} kereta"))
            await driver.script("DROP TABLE memory_vocab; DROP TABLE memory_text")
            assert await found(kernel, access, "word7") == []
            await Housekeeping(kernel, asyncio.Event(), log).round()
            assert (await found(kernel, access, "word7"))[0] == "word7 kereta"
            assert log.events == ["text_index_recreated"]
            assert not await kernel.store.text.is_refilling()

    asyncio.run(main())


def test_a_filling_that_was_cut_short_goes_on(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_driver(tmp_path) as driver:
            kernel = over(driver)
            access = await make_access(kernel)
            for number in range(limits.DRAIN_ITEMS + 3):
                await remember(kernel, access, Draft("u", f"word{number}"))
            await kernel.store.text.recreate()
            assert await kernel.store.text.refill_step()
            await Housekeeping(kernel, asyncio.Event(), Log()).round()
            last = f"word{limits.DRAIN_ITEMS + 2}"
            assert (await found(kernel, access, last))[0] == last

    asyncio.run(main())


def test_idempotency_rows_are_forgotten_after_a_day(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_driver(tmp_path) as driver:
            kernel = over(driver)
            access = await make_access(kernel)
            ticket = Ticket("token", "request")
            await remember(kernel, access, Draft("u", "once"), ticket)
            housekeeping = Housekeeping(kernel, asyncio.Event(), Log())
            await housekeeping.round()
            count = Statement("SELECT count(*) AS n FROM idempotency")
            assert (await driver.query(count))[0]["n"] == 1
            later = dataclasses.replace(kernel, clock=lambda: system_clock() + limits.IDEMPOTENCY_KEPT_MS + 1)
            await Housekeeping(later, asyncio.Event(), Log()).round()
            assert (await driver.query(count))[0]["n"] == 0

    asyncio.run(main())


class Flaky:
    """A driver that fails a few times in a row before it works."""

    def __init__(self, inner: SqliteDriver, failures: int) -> None:
        self._inner = inner
        self.failures = failures

    async def query(self, statement: Statement) -> list[Row]:
        if self.failures:
            self.failures -= 1
            raise RuntimeError("not an SqlError at all: secret")
        return await self._inner.query(statement)

    async def batch(self, statements: Sequence[Statement]) -> list[list[Row]]:
        return await self._inner.batch(statements)


def test_no_failure_ends_it_and_none_is_told_in_words(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_driver(tmp_path) as driver:
            access = await make_access(over(driver))
            written = await remember(over(driver), access, Draft("u", "kereta"))
            kernel = over(driver, WordModel())
            store = dataclasses.replace(
                kernel.store, text=dataclasses.replace(kernel.store.text, driver=Flaky(driver, 1))
            )
            lines: list[object] = []
            housekeeping = Housekeeping(
                dataclasses.replace(kernel, store=store), asyncio.Event(), lines.append, idle_s=0.1
            )
            housekeeping.start()
            await until(lambda: is_ready(kernel, access, written.memory.id))
            await housekeeping.stop()
            assert lines == [{"event": "housekeeping_failed", "error": "RuntimeError"}]

    asyncio.run(main())


def test_a_text_index_that_cannot_be_healed_holds_up_no_vector(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_driver(tmp_path) as driver:
            access = await make_access(over(driver))
            written = await remember(over(driver), access, Draft("u", "kereta"))
            kernel = over(driver, WordModel())
            text = dataclasses.replace(kernel.store.text, driver=Flaky(driver, 1_000))
            kernel = dataclasses.replace(kernel, store=dataclasses.replace(kernel.store, text=text))
            with pytest.raises(RuntimeError):
                await Housekeeping(kernel, asyncio.Event(), Log()).round()
            assert await is_ready(kernel, access, written.memory.id)

    asyncio.run(main())


def test_what_a_killed_process_had_claimed_is_taken_up_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_driver(tmp_path) as driver:
            kernel = over(driver, WordModel())
            access = await make_access(kernel)
            written = await remember(over(driver), access, Draft("u", "kereta"))
            state = await kernel.semantics.state()
            assert state.fingerprint is not None
            assert await kernel.store.outbox.claim("dead", state.fingerprint, limit=9, now_ms=system_clock())
            housekeeping = Housekeeping(kernel, asyncio.Event(), Log(), idle_s=0.05)
            housekeeping.start()
            await until(lambda: is_ready(kernel, access, written.memory.id))
            await housekeeping.stop()

    asyncio.run(main())


def test_stop_does_not_wait_for_a_slow_embedder(tmp_path: Path) -> None:
    class Slow(WordModel):
        async def embed(
            self, texts: Sequence[str], *, purpose: Literal["memory", "query"], deadline_ms: int
        ) -> list[Vector]:
            await asyncio.sleep(3600)
            return []

    async def main() -> None:
        async with open_driver(tmp_path) as driver:
            access = await make_access(over(driver))
            await remember(over(driver), access, Draft("u", "kereta"))
            housekeeping = Housekeeping(over(driver, Slow()), asyncio.Event(), Log(), stop_s=0.1)
            housekeeping.start()
            await asyncio.sleep(0.2)
            async with asyncio.timeout(5):
                await housekeeping.stop()
            assert await driver.integrity_check() == []

    asyncio.run(main())
