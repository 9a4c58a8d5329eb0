"""Reindex: to another model side by side, or the same index put together again; killed at any instant."""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from adapters.sqlite.driver import SqliteDriver
from tests.unit.kernel import FailingDriver, Killed, WordModel, make_access, open_driver, over
from titen_core import limits
from titen_core.errors import ModelError, ModelRejected, ModelUnavailable, NotReady
from titen_core.kernel import Kernel
from titen_core.memories import change, forget
from titen_core.models import Access, Draft, Filters, IndexStatus, Patch, Scope
from titen_core.outbox import drain
from titen_core.protocols import Statement
from titen_core.recall import recall
from titen_core.reindex import ReindexReport, reindex
from titen_core.remember import remember
from titen_core.semantics import SemanticStatus

OLD, NEW = "older", "newer"


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def silent(done: int, total: int) -> None:
    assert done <= total


async def fill(kernel: Kernel, access: Access, count: int = 70) -> list[str]:
    return [(await remember(kernel, access, Draft("s", f"row number {n}"))).memory.id for n in range(count)]


async def ask(kernel: Kernel, access: Access, query: str) -> list[str]:
    """Contents that the vector channel found, best first."""
    kernel.semantics.forget()
    answer = await recall(kernel, access, Scope(), Filters(), query=query, limit=20)
    return [item.memory.content for item in answer.items if item.score.vector_rank is not None]


async def tables(driver: SqliteDriver) -> list[str]:
    rows = await driver.query(Statement("SELECT name FROM sqlite_schema WHERE name LIKE 'vec\\_%' ESCAPE '\\'"))
    return [str(row["name"]) for row in rows]


async def fingerprints(driver: SqliteDriver) -> set[str]:
    rows = await driver.query(Statement("SELECT DISTINCT fingerprint FROM memory_vectors"))
    return {str(row["fingerprint"]).split(":")[1] for row in rows}


def test_the_store_moves_to_another_model(tmp_path: Path) -> None:
    async def case() -> None:
        async with open_driver(tmp_path) as driver:
            old = over(driver, WordModel(OLD))
            access, other = await make_access(old), await make_access(old)
            ids = await fill(old, access)
            await fill(old, other, 3)
            await forget(old, access, ids[0])
            new = over(driver, WordModel(NEW, dimensions=24))
            assert (await new.semantics.state()).status is SemanticStatus.DIMENSION_MISMATCH
            told: list[tuple[int, int]] = []
            report = await reindex(new, lambda done, total: told.append((done, total)))
            assert report == ReindexReport(
                "test:older:16:cosine:l2", "test:newer:24:cosine:l2", embedded=72, reused=0, refused=()
            )
            assert told[0] == (0, 72)
            assert told[-1] == (72, 72)
            assert (await new.semantics.state()).status is SemanticStatus.READY
            assert "row number 7" in await ask(new, access, "row number 7")
            assert "row number 0" not in await ask(new, access, "row number 0")
            assert await ask(new, other, "row number 1")
            assert await fingerprints(driver) == {NEW}
            assert (await new.store.outbox.total()).pending == 0
            old.semantics.forget()
            assert (await old.semantics.state()).status is SemanticStatus.DIMENSION_MISMATCH

    run(case())


def test_a_running_server_of_the_old_model_goes_on_writing_after_the_switch(tmp_path: Path) -> None:
    async def case() -> None:
        async with open_driver(tmp_path) as driver:
            server = over(driver, WordModel(OLD))
            access = await make_access(server)
            ids = await fill(server, access, 5)
            new = over(driver, WordModel(NEW))
            await reindex(new, silent)
            late = await remember(server, access, Draft("s", "written late"))
            assert late.memory.index_status is IndexStatus.PENDING
            await forget(server, access, ids[1])
            await drain(new)
            assert "written late" in await ask(new, access, "written late")
            assert "row number 1" not in await ask(new, access, "row number 1")
            assert await fingerprints(driver) == {NEW}
            assert len(await tables(driver)) > 0

            later = replace(new, clock=lambda: new.clock() + limits.PROBE_KEPT_MS + 1)
            before = len(await tables(driver))
            await reindex(later, silent)
            assert len(await tables(driver)) < before
            assert "written late" in await ask(new, access, "written late")

    run(case())


def test_what_changes_while_it_runs_is_right_afterwards(tmp_path: Path) -> None:
    async def case() -> None:
        async with open_driver(tmp_path) as driver:
            server = over(driver, WordModel(OLD))
            access = await make_access(server)
            ids = await fill(server, access)

            model = WordModel(NEW)
            moving = over(driver, model)
            inner = model.embed

            async def meddle(texts: Any, *, purpose: Any, deadline_ms: int) -> Any:
                vectors = await inner(texts, purpose=purpose, deadline_ms=deadline_ms)
                if len(model.calls) == 2:
                    await change(server, access, ids[0], Patch(content="rewritten before"))
                    await forget(server, access, ids[1])
                    await change(server, access, ids[40], Patch(content="rewritten under way"))
                    await remember(server, access, Draft("s", "born under way"))
                return vectors

            model.embed = meddle  # type: ignore[method-assign]
            await reindex(moving, silent)
            gone = ("row number 0", "row number 1", "row number 40")
            for query in gone:
                assert not set(gone) & set(await ask(moving, access, query))
            while (await drain(moving)).completed:
                pass
            for query in ("rewritten before", "rewritten under way", "born under way"):
                assert (await ask(moving, access, query))[0] == query
            assert (await moving.store.outbox.total()).pending == 0
            (row,) = await driver.query(
                Statement("SELECT count(*) AS n FROM memories WHERE deleted_at IS NULL AND index_status <> 'ready'")
            )
            assert row["n"] == 0

    run(case())


@pytest.mark.parametrize("written", [False, True])
def test_a_kill_at_any_batch_is_made_good_by_running_again(tmp_path: Path, written: bool) -> None:
    async def case() -> None:
        for batches in range(12):
            async with open_driver(tmp_path / str(batches)) as driver:
                kernel = over(driver, WordModel(OLD))
                access = await make_access(kernel)
                await fill(kernel, access)
                killed = False
                try:
                    await reindex(over(FailingDriver(driver, batches, written=written), WordModel(NEW)), silent)
                except Killed:
                    killed = True
                stored = await kernel.store.meta.get("fingerprint") or ""
                serving = over(driver, WordModel(stored.split(":")[1]))
                assert (await serving.semantics.state()).status is SemanticStatus.READY
                assert "row number 9" in await ask(serving, access, "row number 9")
                model = WordModel(NEW)
                new = over(driver, model)
                report = await reindex(new, silent)
                assert report is not None
                assert len([text for call in model.calls for text in call]) + report.reused == 70
                assert "row number 9" in await ask(new, access, "row number 9")
                assert await fingerprints(driver) == {NEW}
                if not killed:
                    return
        raise AssertionError("a reindex of 70 rows takes fewer batches")

    run(case())


def test_one_text_that_is_refused_is_left_to_the_outbox(tmp_path: Path) -> None:
    async def case() -> None:
        def refuses(text: str) -> ModelError | None:
            return ModelRejected("no") if text == "row number 3" else None

        async with open_driver(tmp_path) as driver:
            old = over(driver, WordModel(OLD))
            access = await make_access(old)
            ids = await fill(old, access, 8)
            new = over(driver, WordModel(NEW, refuses=refuses))
            report = await reindex(new, silent)
            assert report is not None
            assert (report.embedded, report.refused) == (7, (ids[3],))
            assert (await new.store.outbox.total()).pending == 1
            healed = over(driver, WordModel(NEW))
            await drain(healed)
            assert "row number 3" in await ask(healed, access, "row number 3")

    run(case())


def test_an_embedder_that_is_away_changes_nothing_and_says_so(tmp_path: Path) -> None:
    async def case() -> None:
        async with open_driver(tmp_path) as driver:
            old = over(driver, WordModel(OLD))
            access = await make_access(old)
            await fill(old, access, 40)
            calls = 0

            def refuses(text: str) -> ModelError | None:
                nonlocal calls
                calls += 1
                return ModelUnavailable("away") if calls > 32 else None

            with pytest.raises(NotReady, match="run reindex again"):
                await reindex(over(driver, WordModel(NEW, refuses=refuses)), silent, attempts=1)
            assert "row number 9" in await ask(old, access, "row number 9")
            report = await reindex(over(driver, WordModel(NEW)), silent)
            assert report is not None
            assert (report.embedded, report.reused) == (8, 32)

    run(case())


@pytest.mark.parametrize("embedder", ["on", "off"])
def test_a_lost_index_is_rebuilt_with_no_model_call(tmp_path: Path, embedder: str) -> None:
    async def case() -> None:
        async with open_driver(tmp_path) as driver:
            model = WordModel(OLD)
            kernel = over(driver, model)
            access = await make_access(kernel)
            await fill(kernel, access, 40)
            index = kernel.semantics.index_for(await model.fingerprint())
            assert index.colocated
            await driver.batch(index.destroy())
            model.calls.clear()
            report = await reindex(kernel if embedder == "on" else over(driver), silent)
            assert report is not None
            assert (report.before, report.embedded, report.reused) == (report.after, 0, 40)
            assert model.calls == []
            assert "row number 9" in await ask(kernel, access, "row number 9")

    run(case())


def test_a_store_without_any_vector_has_nothing_to_reindex(tmp_path: Path) -> None:
    async def case() -> None:
        async with open_driver(tmp_path) as driver:
            kernel = over(driver)
            access = await make_access(kernel)
            await fill(kernel, access, 2)
            assert await reindex(kernel, silent) is None
            report = await reindex(over(driver, WordModel(NEW)), silent)
            assert report is not None
            assert (report.before, report.embedded) == (None, 2)

    run(case())
