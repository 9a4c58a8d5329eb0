"""Whether meaning can be searched: off, unavailable, mismatched, and well again."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

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
from titen_core.errors import IndexUnavailable, ModelAnswerInvalid, ModelError, ModelUnavailable
from titen_core.models import Filters, Fingerprint, Scope
from titen_core.protocols import IndexDescription
from titen_core.purge import Selector, purge
from titen_core.recall import recall
from titen_core.remember import remember
from titen_core.semantics import FINGERPRINT_KEY, Semantics
from titen_core.sql.store import open_store


@dataclass
class Tempered(WordModel):
    """A model whose probe fails or hangs as told."""

    probe_error: ModelError | None = None
    hangs: bool = False
    probes: int = 0

    async def fingerprint(self) -> Fingerprint:
        self.probes += 1
        if self.hangs:
            await asyncio.Event().wait()
        if self.probe_error is not None:
            raise self.probe_error
        return await super().fingerprint()


def run(directory: Path, case: Callable[[Service, Tempered], Awaitable[None]]) -> None:
    async def whole() -> None:
        model = Tempered()
        async with open_service(directory, model) as service:
            await case(service, model)

    asyncio.run(whole())


def test_without_a_model_meaning_is_off(tmp_path: Path) -> None:
    async def case() -> None:
        async with open_service(tmp_path) as service:
            state = await service.kernel.semantics.state()
            assert (state.status, state.fingerprint, state.index) == ("off", None, None)
            with pytest.raises(ModelUnavailable):
                await service.kernel.semantics.embed(["a"], purpose="memory", deadline_ms=1)

    asyncio.run(case())


def test_the_first_model_gives_the_store_its_fingerprint(tmp_path: Path) -> None:
    async def case(service: Service, model: Tempered) -> None:
        state = await service.kernel.semantics.state()
        assert state.status == "ready"
        assert state.index is not None
        assert (
            await service.kernel.store.meta.get(FINGERPRINT_KEY) == str(state.fingerprint) == "test:words:16:cosine:l2"
        )

    run(tmp_path, case)


def test_a_good_state_is_kept_a_minute_and_a_bad_one_half_a_second(tmp_path: Path) -> None:
    async def case(service: Service, model: Tempered) -> None:
        semantics, clock = service.kernel.semantics, service.clock
        model.probe_error = ModelUnavailable("down")
        assert (await semantics.state()).status == "unavailable"
        clock.forward(limits.PROBE_FAILED_KEPT_MS - 1)
        await semantics.state()
        assert model.probes == 1
        model.probe_error = None
        clock.forward(1)
        assert (await semantics.state()).status == "ready"
        clock.forward(limits.PROBE_KEPT_MS - 1)
        await semantics.state()
        assert model.probes == 2
        clock.forward(1)
        await semantics.state()
        assert model.probes == 3
        semantics.forget()
        await semantics.state()
        assert model.probes == 4

    run(tmp_path, case)


def test_a_clock_that_steps_back_does_not_keep_a_state_for_ever(tmp_path: Path) -> None:
    async def case(service: Service, model: Tempered) -> None:
        await service.kernel.semantics.state()
        service.clock.forward(-1_000_000)
        await service.kernel.semantics.state()
        assert model.probes == 2

    run(tmp_path, case)


def test_a_model_that_hangs_is_waited_for_with_patience_and_no_longer(tmp_path: Path) -> None:
    async def case(service: Service, model: Tempered) -> None:
        model.hangs = True
        state = await service.kernel.semantics.state(patience_ms=5)
        assert (state.status, state.index) == ("unavailable", None)

    run(tmp_path, case)


OTHERS = [
    (WordModel(name="others"), "FINGERPRINT_MISMATCH"),
    (WordModel(dimensions=32), "EMBEDDING_DIMENSION_MISMATCH"),
    (WordModel(name="others", dimensions=8), "EMBEDDING_DIMENSION_MISMATCH"),
]


@pytest.mark.parametrize(("other", "code"), OTHERS, ids=["name", "dimensions", "both"])
def test_vectors_of_another_model_are_never_mixed_in(tmp_path: Path, other: WordModel, code: str) -> None:
    async def case() -> None:
        async with open_service(tmp_path, WordModel()) as service:
            tenant = await service.tenant()
            access = access_of(tenant)
            await remember(service.kernel, access, draft("Prefers the train"))
        async with open_service(tmp_path, other) as service:
            state = await service.kernel.semantics.state()
            assert (state.status, state.index, state.fingerprint) == (code, None, None)
            assert "titen reindex" in state.message
            written = await remember(service.kernel, access, draft("Prefers the ferry"))
            assert (written.outcome, written.memory.index_status) == ("stored", "pending")
            assert await drain_all(service.kernel) == 0
            assert await counted(service.driver, "vector_outbox", "attempts = 0") == 1
            assert await counted(service.driver, "memory_vectors") == 1
            found = await recall(service.kernel, access, Scope(), Filters(), query="train ferry", limit=5)
            assert (found.channels.vector, len(found.items)) == ("degraded", 2)
        async with open_service(tmp_path, WordModel()) as service:
            assert await drain_all(service.kernel) == 1
            found = await recall(service.kernel, access, Scope(), Filters(), query="ferry", limit=5)
            assert found.items[0].score.vector_rank == 1

    asyncio.run(case())


class Described:
    """An index that only describes itself."""

    colocated = False

    def __init__(self, dimensions: int | None) -> None:
        self._dimensions = dimensions

    async def describe(self) -> IndexDescription:
        if self._dimensions == 0:
            raise IndexUnavailable("down")
        return IndexDescription(self._dimensions, "cosine", read_after_write=False)


@pytest.mark.parametrize(
    ("expected", "described", "status"),
    [
        (None, 16, "ready"),
        (16, 16, "ready"),
        (None, None, "ready"),
        (768, 16, "EMBEDDING_DIMENSION_MISMATCH"),
        (None, 768, "EMBEDDING_DIMENSION_MISMATCH"),
        (None, 0, "unavailable"),
    ],
)
def test_dimensions_are_compared_with_the_setting_and_the_index(
    tmp_path: Path, expected: int | None, described: int | None, status: str
) -> None:
    async def case() -> None:
        async with open_migrated(tmp_path) as driver:
            semantics = Semantics(
                open_store(driver).meta,
                WordModel(),
                lambda fingerprint: Described(described),  # type: ignore[arg-type,return-value]
                Clock(),
                expected_dimensions=expected,
            )
            state = await semantics.state()
            assert state.status == status
            if expected == 768:
                assert await open_store(driver).meta.get(FINGERPRINT_KEY) is None, "a wrong model marks no store"

    asyncio.run(case())


def test_a_probe_asks_for_a_vector_and_remembers_a_good_answer_only(tmp_path: Path) -> None:
    async def case(service: Service, model: Tempered) -> None:
        semantics, clock = service.kernel.semantics, service.clock
        assert (await semantics.probe()).status == "ready"
        assert len(model.calls) == 1
        await semantics.probe()
        assert len(model.calls) == 1
        clock.forward(limits.PROBE_KEPT_MS)
        model.refuses = lambda text: ModelUnavailable("down now")
        for calls in (2, 3):
            state = await semantics.probe()
            assert (state.status, state.message) == ("unavailable", "down now")
            assert len(model.calls) == calls
        model.refuses = lambda text: ModelAnswerInvalid("NaN")
        state = await semantics.probe()
        assert (state.status, state.index) == ("unavailable", None)
        model.refuses = lambda text: None
        assert (await semantics.probe()).status == "ready"

    run(tmp_path, case)


def test_a_vector_of_another_size_is_refused_by_every_path_and_loses_no_memory(tmp_path: Path) -> None:
    """The model behind the name changed while the state of a moment ago still calls it ready."""

    async def case(service: Service, model: Tempered) -> None:
        kernel, access = service.kernel, access_of(await service.tenant())
        assert (await kernel.semantics.state()).status == "ready"
        model.dimensions = 32
        written = await remember(kernel, access, draft("Prefers the train"))
        assert (written.outcome, written.memory.index_status) == ("stored", "pending")
        assert (await kernel.semantics.state()).status == "EMBEDDING_DIMENSION_MISMATCH"

        model.dimensions = 16
        service.clock.forward(limits.PROBE_FAILED_KEPT_MS)
        assert (await kernel.semantics.state()).status == "ready"
        model.dimensions = 32
        assert await drain_all(kernel) == 0
        assert await counted(service.driver, "vector_outbox", "lease IS NULL") == 1
        assert (await kernel.semantics.state()).status == "EMBEDDING_DIMENSION_MISMATCH"

        model.dimensions = 16
        service.clock.forward(limits.OUTBOX_BACKOFF_MAX_MS)
        assert await drain_all(kernel) == 1
        model.dimensions = 32
        found = await recall(kernel, access, Scope(), Filters(), query="train", limit=5)
        assert (found.channels.vector, len(found.items)) == ("degraded", 1)

    run(tmp_path, case)


@pytest.mark.parametrize("written", [False, True], ids=["before the batch", "after the batch"])
def test_a_lost_index_fills_again_though_the_process_dies_making_it(tmp_path: Path, written: bool) -> None:
    async def case() -> None:
        async with open_service(tmp_path, WordModel()) as service:
            access = access_of(await service.tenant())
            await remember(service.kernel, access, draft("Prefers the train"))
            await _lose_the_index(service)
            dying = kernel_over(FailingDriver(service.driver, 0, written), WordModel(), service.clock)
            with pytest.raises(Killed):
                await dying.semantics.state()
        async with open_service(tmp_path, WordModel()) as service:
            assert await drain_all(service.kernel) == 1
            found = await recall(service.kernel, access, Scope(), Filters(), query="train", limit=5)
            assert found.items[0].score.vector_rank == 1

    asyncio.run(case())


def test_a_purge_on_a_store_that_lost_its_index_lets_it_fill_again(tmp_path: Path) -> None:
    async def case(service: Service, model: Tempered) -> None:
        access = access_of(await service.tenant())
        await remember(service.kernel, access, draft("Prefers the train"))
        gone = await remember(service.kernel, access, draft("Prefers the ferry"))
        await _lose_the_index(service)
        assert (await purge(service.kernel, access, Selector((gone.memory.id,)))).is_clean
        assert await drain_all(service.kernel) == 1
        found = await recall(service.kernel, access, Scope(), Filters(), query="train", limit=5)
        assert found.items[0].score.vector_rank == 1

    run(tmp_path, case)


async def _lose_the_index(service: Service) -> None:
    index = (await service.kernel.semantics.state()).index
    assert index is not None
    assert index.colocated
    await service.driver.batch(index.destroy())


def test_looking_at_a_store_that_is_as_it_was_writes_nothing(tmp_path: Path) -> None:
    async def case() -> None:
        async with open_service(tmp_path, WordModel()) as service:
            await service.kernel.semantics.state()
            again = kernel_over(FailingDriver(service.driver, 0, written=False), WordModel(), service.clock)
            assert (await again.semantics.state()).status == "ready"

    asyncio.run(case())
