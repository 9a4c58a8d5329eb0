"""Changing, verifying, deleting and restoring single memories, at the level of the kernel."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.kernel import WordModel
from tests.unit.service import DAY_MS, Service, access_of, counted, draft, drain_all, open_service
from titen_core import limits
from titen_core.errors import Busy, Duplicate, ModelUnavailable, NotFound, ValidationError, VersionConflict
from titen_core.memories import change, forget, get, history, restore, verify
from titen_core.models import (
    Access,
    Actor,
    Category,
    Filters,
    IndexStatus,
    Kind,
    Memory,
    Patch,
    PrincipalKind,
    Priority,
    Scope,
    Source,
)
from titen_core.recall import recall
from titen_core.remember import remember
from titen_core.text import query_terms

Case = Callable[[Service, Access, Memory], Awaitable[None]]
WHOLE: dict[str, Any] = {
    "tags": ("a",),
    "priority": Priority.HIGH,
    "source": Source("chat", "turn_1"),
    "metadata": {"a": 1, "b": {"c": 2}},
    "category": Category.FACT,
    "agent_id": "planner",
}


def run(directory: Path, case: Case, gateway: WordModel | None = None, **fields: Any) -> None:
    """The case on a fresh service with one memory, by a human."""

    async def whole() -> None:
        async with open_service(directory, gateway or WordModel()) as service:
            access = access_of(await service.tenant())
            row = (await remember(service.kernel, access, draft("Likes tea", **{**WHOLE, **fields}))).memory
            service.clock.forward(7)
            await case(service, access, row)

    asyncio.run(whole())


def robot(access: Access) -> Access:
    return Access(access.tenant_id, access.tenant_num, None, Actor("bot", PrincipalKind.AGENT), "bot_key")


async def kinds_of_events(service: Service, access: Access, memory_id: str) -> list[str]:
    events = await history(service.kernel, access, memory_id, after_version=0, limit=100, deleted=True)
    assert [event.version for event in events] == list(range(1, len(events) + 1))
    return [str(event.event_type) for event in events]


CHANGES: list[tuple[Patch, dict[str, Any]]] = [
    (Patch(content="Likes coffee"), {"content": "Likes coffee", "content_version": 2}),
    (Patch(tags=("b", "c")), {"tags": ("b", "c")}),
    (Patch(tags=()), {"tags": ()}),
    (Patch(priority=Priority.LOW), {"priority": "low"}),
    (Patch(confidence=0.0), {"confidence": 0.0, "confidence_given": True}),
    (Patch(source=None), {"source": None}),
    (Patch(source=Source(None, "x")), {"source": Source(None, "x")}),
    (Patch(metadata={"a": None, "b": {"d": 3}}), {"metadata": {"b": {"c": 2, "d": 3}}}),
    (Patch(metadata={"a": True}), {"metadata": {"a": True, "b": {"c": 2}}}),
    (Patch(metadata=None), {"metadata": {}}),
    (Patch(expires_at_ms=1_900_000_000_000), {"expires_at_ms": 1_900_000_000_000}),
]


@pytest.mark.parametrize(("patch", "changed"), CHANGES, ids=[str(number) for number in range(len(CHANGES))])
def test_a_patch_changes_what_it_names_and_nothing_else(tmp_path: Path, patch: Patch, changed: dict[str, Any]) -> None:
    async def case(service: Service, access: Access, row: Memory) -> None:
        written = await change(service.kernel, access, row.id, patch)
        wanted = {**{name: getattr(row, name) for name in Memory.__slots__}, **changed}
        wanted.update(version=2, updated_at_ms=row.updated_at_ms + 7)
        if "content" in changed:
            wanted["verified_at_ms"] = service.clock()
        assert {name: getattr(written.memory, name) for name in Memory.__slots__} == wanted
        assert repr(written.memory.metadata) == repr(wanted["metadata"])
        assert written.memory == await get(service.kernel, access, row.id)
        assert await kinds_of_events(service, access, row.id) == ["add", "update"]
        assert await counted(service.driver, "vector_outbox") == 0

    run(tmp_path, case)


UNCHANGED = [
    *(Patch(), Patch(content="Likes tea"), Patch(tags=("a",)), Patch(priority=Priority.HIGH), Patch(metadata={})),
    *(Patch(metadata={"a": 1}), Patch(metadata={"z": None}), Patch(expires_at_ms=None), Patch(confidence=None)),
    Patch(source=Source("chat", "turn_1")),
]


@pytest.mark.parametrize("patch", UNCHANGED, ids=[str(number) for number in range(len(UNCHANGED))])
def test_a_patch_that_says_nothing_new_writes_nothing(tmp_path: Path, patch: Patch) -> None:
    async def case(service: Service, access: Access, row: Memory) -> None:
        written = await change(service.kernel, access, row.id, patch)
        assert (written.outcome, written.memory) == ("unchanged", row)
        assert await kinds_of_events(service, access, row.id) == ["add"]

    run(tmp_path, case)


def test_an_agents_rewriting_clears_verification_and_defaulted_confidence(tmp_path: Path) -> None:
    async def case(service: Service, access: Access, row: Memory) -> None:
        touched = (await change(service.kernel, robot(access), row.id, Patch(tags=("x",)))).memory
        assert (touched.author, touched.verified, touched.confidence) == ("human", True, 1.0)
        rewritten = (await change(service.kernel, robot(access), row.id, Patch(content="Likes coffee"))).memory
        assert (rewritten.author, rewritten.verified, rewritten.confidence) == ("agent", False, 0.7)
        assert (rewritten.verified_at_ms, rewritten.verified_by) == (None, None)
        chosen = (await change(service.kernel, access, row.id, Patch(confidence=0.3))).memory
        assert (chosen.author, chosen.verified, chosen.confidence) == ("agent", False, 0.3)
        human = (await change(service.kernel, access, row.id, Patch(content="Likes milk"))).memory
        assert (human.author, human.verified, human.confidence) == ("human", True, 0.3)
        cleared = (await change(service.kernel, access, row.id, Patch(confidence=None))).memory
        assert (cleared.confidence, cleared.confidence_given) == (1.0, False)

    run(tmp_path, case)


def test_metadata_is_bounded_after_merging(tmp_path: Path) -> None:
    async def case(service: Service, access: Access, row: Memory) -> None:
        with pytest.raises(ValidationError, match="metadata is"):
            await change(service.kernel, access, row.id, Patch(metadata={"more": "x" * 5000}))
        assert (await get(service.kernel, access, row.id)).version == 1
        await change(service.kernel, access, row.id, Patch(metadata={"big": None, "more": "x" * 5000}))

    run(tmp_path, case, metadata={"big": "x" * 5000})


@pytest.mark.parametrize("expected", [0, 2, 99])
def test_another_version_than_expected_is_a_conflict_that_tells_the_present_one(tmp_path: Path, expected: int) -> None:
    async def case(service: Service, access: Access, row: Memory) -> None:
        for write in (
            change(service.kernel, access, row.id, Patch(tags=("x",)), expected),
            change(service.kernel, access, row.id, Patch(), expected),
            verify(service.kernel, access, row.id, expected),
            forget(service.kernel, access, row.id, expected),
            restore(service.kernel, access, row.id, expected),
        ):
            with pytest.raises(VersionConflict) as refused:
                await write
            assert refused.value.details == {"version": 1}
        assert await get(service.kernel, access, row.id) == row

    run(tmp_path, case)


def test_words_of_another_memory_are_a_duplicate_even_of_a_deleted_one(tmp_path: Path) -> None:
    async def case(service: Service, access: Access, row: Memory) -> None:
        other = (await remember(service.kernel, access, draft("Likes coffee", agent_id="planner"))).memory
        for _ in range(2):
            with pytest.raises(Duplicate) as refused:
                await change(service.kernel, access, row.id, Patch(content="Likes  coffee"))
            assert refused.value.details == {"id": other.id}
            await forget(service.kernel, access, other.id)
        assert await get(service.kernel, access, row.id) == row
        await change(service.kernel, access, row.id, Patch(content="likes Tea"))

    run(tmp_path, case)


def test_an_episode_moves_to_the_identity_of_its_new_source(tmp_path: Path) -> None:
    async def case(service: Service, access: Access, row: Memory) -> None:
        turn_2: dict[str, Any] = {"kind": Kind.EPISODIC, "agent_id": "planner", "source": Source("chat", "turn_2")}
        other = (await remember(service.kernel, access, draft("Likes tea", **turn_2))).memory
        with pytest.raises(Duplicate) as refused:
            await change(service.kernel, access, row.id, Patch(source=Source("mail", "turn_2")))
        assert refused.value.details == {"id": other.id}
        await change(service.kernel, access, row.id, Patch(source=Source("chat", "turn_3")))
        again = await remember(
            service.kernel, access, draft("Likes tea", **{**turn_2, "source": Source("b", "turn_3")})
        )
        assert again.memory.id == row.id

    run(tmp_path, case, kind=Kind.EPISODIC)


def test_a_keyed_memory_may_say_what_another_says(tmp_path: Path) -> None:
    async def case(service: Service, access: Access, row: Memory) -> None:
        await remember(service.kernel, access, draft("Likes coffee"))
        await change(service.kernel, access, row.id, Patch(content="Likes coffee"))

    run(tmp_path, case, key="drink")


def test_verifying_is_noted_once(tmp_path: Path) -> None:
    async def case(service: Service, access: Access, row: Memory) -> None:
        inferred = (await remember(service.kernel, robot(access), draft("Likes milk"))).memory
        written = await verify(service.kernel, access, inferred.id)
        assert (written.outcome, written.memory.verified, written.memory.version) == ("verified", True, 2)
        assert (written.memory.verified_by, written.memory.verified_at_ms) == ("Ada", service.clock())
        assert (written.memory.author, written.memory.confidence) == ("agent", 0.7)
        service.clock.forward(7)
        again = await verify(service.kernel, access, inferred.id)
        assert (again.outcome, again.memory) == ("unchanged", written.memory)
        assert await kinds_of_events(service, access, inferred.id) == ["add", "verify"]

    run(tmp_path, case)


async def found(service: Service, access: Access, query: str) -> list[str]:
    recalled = await recall(service.kernel, access, Scope(), Filters(include_expired=True), query=query, limit=20)
    return [item.memory.id for item in recalled.items]


def test_a_deleted_memory_is_nowhere_and_its_history_is_for_writers(tmp_path: Path) -> None:
    async def case(service: Service, access: Access, row: Memory) -> None:
        kernel = service.kernel
        assert await found(service, access, "Likes tea") == [row.id]
        gone = await forget(kernel, access, row.id)
        assert (gone.outcome, gone.memory.version, gone.memory.deleted_at_ms) == ("deleted", 2, service.clock())
        again = await forget(kernel, access, row.id)
        assert (again.outcome, again.memory.version) == ("unchanged", 2)
        for look in (
            get(kernel, access, row.id),
            change(kernel, access, row.id, Patch(tags=())),
            verify(kernel, access, row.id),
            history(kernel, access, row.id, after_version=0, limit=9, deleted=False),
        ):
            with pytest.raises(NotFound):
                await look
        assert await found(service, access, "Likes tea") == []
        assert await kinds_of_events(service, access, row.id) == ["add", "delete"]
        assert await counted(service.driver, "memory_text") == 0
        assert await counted(service.driver, "vector_outbox") == 0

    run(tmp_path, case)


def test_a_restored_memory_is_what_it_was_with_the_vector_it_had(tmp_path: Path) -> None:
    model = WordModel()

    async def case(service: Service, access: Access, row: Memory) -> None:
        await forget(service.kernel, access, row.id)
        asked = len(model.calls)
        back = await restore(service.kernel, access, row.id)
        assert (back.outcome, back.memory.version, back.memory.deleted_at_ms) == ("restored", 3, None)
        assert back.memory.index_status is IndexStatus.READY
        assert len(model.calls) == asked, "nothing is embedded again"
        assert (back.memory.content, back.memory.tags, back.memory.metadata) == (row.content, row.tags, row.metadata)
        assert await found(service, access, "Likes tea") == [row.id]
        again = await restore(service.kernel, access, row.id)
        assert (again.outcome, again.memory) == ("unchanged", back.memory)
        assert await kinds_of_events(service, access, row.id) == ["add", "delete", "restore"]

    run(tmp_path, case, model)


def test_restoring_lifts_an_expiry_that_has_passed_and_no_other(tmp_path: Path) -> None:
    async def case(service: Service, access: Access, row: Memory) -> None:
        assert row.expires_at_ms is not None
        await forget(service.kernel, access, row.id)
        assert (await restore(service.kernel, access, row.id)).memory.expires_at_ms == row.expires_at_ms
        await forget(service.kernel, access, row.id)
        service.clock.forward(DAY_MS)
        assert (await restore(service.kernel, access, row.id)).memory.expires_at_ms is None

    run(tmp_path, case, expires_at_ms=1_800_000_000_000 + DAY_MS)


def test_a_memory_deleted_before_it_was_embedded_is_embedded_after_its_return(tmp_path: Path) -> None:
    model = WordModel()

    async def case(service: Service, access: Access, row: Memory) -> None:
        model.refuses = lambda text: ModelUnavailable("down")
        late = (await remember(service.kernel, access, draft("Likes milk"))).memory
        await forget(service.kernel, access, late.id)
        assert await counted(service.driver, "vector_outbox") == 0
        assert (await restore(service.kernel, access, late.id)).memory.index_status is IndexStatus.PENDING
        model.refuses = lambda text: None
        assert await drain_all(service.kernel) == 1
        assert (await get(service.kernel, access, late.id)).index_status is IndexStatus.READY

    run(tmp_path, case, model)


@pytest.mark.parametrize("field", ["tenant", "subject"])
def test_what_is_out_of_reach_is_unknown(tmp_path: Path, field: str) -> None:
    async def case(service: Service, access: Access, row: Memory) -> None:
        stranger = (
            access_of(await service.tenant("other"))
            if field == "tenant"
            else Access(access.tenant_id, access.tenant_num, "user_2", access.actor, "key_2")
        )
        messages = set()
        for memory_id in (row.id, "unknown"):
            for attempt in (
                get(service.kernel, stranger, memory_id),
                change(service.kernel, stranger, memory_id, Patch(content="Mine now")),
                verify(service.kernel, stranger, memory_id),
                forget(service.kernel, stranger, memory_id),
                restore(service.kernel, stranger, memory_id),
                history(service.kernel, stranger, memory_id, after_version=0, limit=9, deleted=True),
            ):
                with pytest.raises(NotFound) as refused:
                    await attempt
                messages.add(refused.value.message)
        assert len(messages) == 1
        assert await get(service.kernel, access, row.id) == row

    run(tmp_path, case)


def test_twenty_patches_at_once_all_count(tmp_path: Path) -> None:
    async def case(service: Service, access: Access, row: Memory) -> None:
        written = await asyncio.gather(
            *(change(service.kernel, access, row.id, Patch(metadata={f"n{n}": n})) for n in range(20))
        )
        assert sorted(one.memory.version for one in written) == list(range(2, 22))
        last = await get(service.kernel, access, row.id)
        assert last.version == 21
        assert last.metadata == {**WHOLE["metadata"], **{f"n{n}": n for n in range(20)}}
        assert await kinds_of_events(service, access, row.id) == ["add", *["update"] * 20]

    run(tmp_path, case)


def test_of_twenty_conditional_patches_one_wins(tmp_path: Path) -> None:
    words = [chr(ord("a") + n) * 5 for n in range(20)]

    async def case(service: Service, access: Access, row: Memory) -> None:
        outcomes = await asyncio.gather(
            *(change(service.kernel, access, row.id, Patch(content=word), 1) for word in words),
            return_exceptions=True,
        )
        losers = [outcome for outcome in outcomes if isinstance(outcome, VersionConflict)]
        assert len(losers) == 19
        last = await get(service.kernel, access, row.id)
        assert last.version == 2
        for word in words:
            by_words = await service.kernel.store.text.search(
                access, Scope(), Filters(), query_terms(word), 9, service.clock()
            )
            assert [hit.seq for hit in by_words.hits] == ([row.seq] if last.content == word else [])
        assert await counted(service.driver, "memory_vectors", "content_version = 2") == 1
        assert await kinds_of_events(service, access, row.id) == ["add", "update"]

    run(tmp_path, case)


def test_changes_deletes_and_restores_at_once_leave_a_history_without_gaps(tmp_path: Path) -> None:
    async def case(service: Service, access: Access, row: Memory) -> None:
        kernel = service.kernel
        await asyncio.gather(
            *(change(kernel, access, row.id, Patch(metadata={"n": n})) for n in range(8)),
            *(forget(kernel, access, row.id) for _ in range(8)),
            *(restore(kernel, access, row.id) for _ in range(8)),
            return_exceptions=True,
        )
        await restore(kernel, access, row.id)
        last = await get(kernel, access, row.id)
        assert len(await kinds_of_events(service, access, row.id)) == last.version
        await drain_all(kernel)
        assert await found(service, access, "Likes tea") == [row.id]
        assert (await get(kernel, access, row.id)).index_status is IndexStatus.READY
        assert await counted(service.driver, "memory_text") == 1

    run(tmp_path, case)


def test_a_clock_that_steps_back_never_makes_a_change_older_than_the_last(tmp_path: Path) -> None:
    async def case(service: Service, access: Access, row: Memory) -> None:
        service.clock.forward(-DAY_MS)
        written = await change(service.kernel, access, row.id, Patch(tags=("x",)))
        assert written.memory.updated_at_ms == row.updated_at_ms

    run(tmp_path, case)


def test_a_row_that_never_stands_still_is_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CAS_ATTEMPTS", 0)

    async def case(service: Service, access: Access, row: Memory) -> None:
        with pytest.raises(Busy) as refused:
            await change(service.kernel, access, row.id, Patch(tags=("x",)))
        assert refused.value.retry_after_s is not None

    run(tmp_path, case)
