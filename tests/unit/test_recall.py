"""Recall at the level of the kernel: scope, filters, gate, refill, and channels that fail."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.kernel import WordModel
from tests.unit.service import DAY_MS, Service, access_of, counted, draft, open_service
from titen_core import limits
from titen_core.errors import IndexUnavailable, ModelAnswerInvalid, ModelRejected, ModelUnavailable
from titen_core.memories import change, forget, restore
from titen_core.models import Access, Author, Category, Filters, Kind, Patch, Priority, Scope
from titen_core.protocols import Statement, VectorAnswer, VectorHit
from titen_core.recall import Recalled, recall
from titen_core.remember import remember

Case = Callable[[Service, Access], Awaitable[None]]


def run(directory: Path, case: Case, gateway: WordModel | None = None) -> None:
    async def whole() -> None:
        async with open_service(directory, gateway) as service:
            await case(service, access_of(await service.tenant()))

    asyncio.run(whole())


async def store(service: Service, access: Access, *contents: str, **fields: Any) -> list[str]:
    """Remember each; answers their ids. At once, so that one transaction takes many."""
    written = await asyncio.gather(
        *(remember(service.kernel, access, draft(content, **fields)) for content in contents)
    )
    return [one.memory.id for one in written]


async def ask(
    service: Service,
    access: Access,
    query: str,
    *,
    limit: int = 5,
    scope: Scope = Scope(),  # noqa: B008 - frozen
    filters: Filters = Filters(),  # noqa: B008 - frozen
) -> Recalled:
    return await recall(service.kernel, access, scope, filters, query=query, limit=limit)


def contents(recalled: Recalled) -> list[str]:
    return [item.memory.content for item in recalled.items]


FILLER = [f"filler number {n} of the train" for n in range(30)]


def test_text_only_says_so_and_finds_by_words(tmp_path: Path) -> None:
    async def case(service: Service, access: Access) -> None:
        await store(service, access, "Prefers the train", "Likes tea")
        found = await ask(service, access, "the train")
        assert contents(found) == ["Prefers the train"]
        assert (found.channels.vector, found.channels.text, found.channels.overlay) == ("off", "ok", "off")
        [item] = found.items
        assert (item.score.vector_rank, item.score.text_rank, item.score.similarity) == (None, 1, None)

    run(tmp_path, case)


def test_nothing_relevant_is_an_empty_answer(tmp_path: Path) -> None:
    async def case(service: Service, access: Access) -> None:
        await store(service, access, "Prefers the train")
        for query in ("zeppelin", "?!", "…", "where is it"):
            assert contents(await ask(service, access, query)) == []

    run(tmp_path, case)


def test_an_exact_identifier_passes_the_gate_and_a_common_word_of_a_sentence_does_not(tmp_path: Path) -> None:
    async def case(service: Service, access: Access) -> None:
        identified, word = await store(service, access, "see POL-358 there", "a note on budgets")
        await store(service, access, *FILLER)
        query = "quarterly zebra umbrella xylophone kangaroo violin budgets POL-358"
        found = {item.memory.id: item.score for item in (await ask(service, access, query, limit=20)).items}
        assert found[identified].text_rank == 1
        assert word not in found or found[word].text_rank is None
        alone = {item.memory.id: item.score for item in (await ask(service, access, "budgets")).items}
        assert alone[word].text_rank == 1

    run(tmp_path, case, WordModel())


def test_without_an_embedder_there_is_no_gate(tmp_path: Path) -> None:
    async def case(service: Service, access: Access) -> None:
        await store(service, access, "a note on budgets", *FILLER)
        query = "quarterly zebra umbrella xylophone kangaroo violin budgets"
        assert contents(await ask(service, access, query)) == ["a note on budgets"]

    run(tmp_path, case)


def test_while_the_embedder_is_down_there_is_no_gate_either(tmp_path: Path) -> None:
    model = WordModel()

    async def case(service: Service, access: Access) -> None:
        await store(service, access, "a note on budgets", *FILLER)
        query = "quarterly zebra umbrella xylophone kangaroo violin budgets"
        model.refuses = lambda text: ModelUnavailable("down")
        found = await ask(service, access, query)
        assert (contents(found), found.channels.vector) == (["a note on budgets"], "degraded")

    run(tmp_path, case, model)


def test_limit_is_the_most_that_comes_back(tmp_path: Path) -> None:
    async def case(service: Service, access: Access) -> None:
        await store(service, access, *FILLER)
        for limit in (1, 7, 20):
            assert len((await ask(service, access, "filler train", limit=limit)).items) == limit

    run(tmp_path, case, WordModel())


INSIDE: dict[str, dict[str, Any]] = {
    "subject": {"subject_id": "user_9"},
    "agent": {"agent_id": "planner"},
    "run": {"run_id": "run_9"},
    "kind": {"kind": Kind.PROCEDURAL},
    "category": {"category": Category.SKILL},
    "tag": {"tags": ("Needle",)},
    "priority": {"priority": Priority.CRITICAL},
    "confidence": {"confidence": 0.95},
}
ASKED: dict[str, dict[str, Any]] = {
    "subject": {"scope": Scope("user_9")},
    "agent": {"scope": Scope(agent_id="planner")},
    "run": {"scope": Scope(run_id="run_9")},
    "kind": {"filters": Filters(kind=(Kind.PROCEDURAL, Kind.EPISODIC))},
    "category": {"filters": Filters(category=(Category.SKILL,))},
    "tag": {"filters": Filters(tags=("nEEDLE", "other"))},
    "priority": {"filters": Filters(priority=(Priority.CRITICAL,))},
    "confidence": {"filters": Filters(min_confidence=0.9)},
}


@pytest.fixture
def small_pool(monkeypatch: pytest.MonkeyPatch) -> int:
    """A pool that thirty rows overflow as 300 overflow the real one."""
    monkeypatch.setattr(limits, "TEXT_POOL_ROWS", 16)
    return 16


@pytest.mark.parametrize("channel", ["text", "both"])
@pytest.mark.parametrize("name", INSIDE)
def test_better_rows_outside_a_filter_hide_nothing(tmp_path: Path, small_pool: int, name: str, channel: str) -> None:
    async def case(service: Service, access: Access) -> None:
        better = [f"night train number {n}" for n in range(2 * small_pool)]
        await store(service, access, *better, confidence=0.5)
        await store(service, access, "one night by ferry", **{"confidence": 0.5, **INSIDE[name]})
        found = await ask(service, access, "night train", limit=1, **ASKED[name])
        assert contents(found) == ["one night by ferry"]
        assert found.items[0].score.text_rank == 1
        assert (found.items[0].score.vector_rank == 1) == (channel == "both")

    run(tmp_path, case, WordModel() if channel == "both" else None)


@pytest.mark.parametrize("author", Author)
def test_author_and_verification_filter_inside_the_channels(tmp_path: Path, small_pool: int, author: Author) -> None:
    async def case(service: Service, access: Access) -> None:
        other = Author.AGENT if author is Author.HUMAN else Author.HUMAN
        writers = {
            who: Access(access.tenant_id, access.tenant_num, None, type(access.actor)("W", who), "k") for who in Author
        }
        await store(service, writers[other], *(f"night train number {n}" for n in range(2 * small_pool)))
        await store(service, writers[author], "one night by ferry")
        for filters in (Filters(author=(author,)), Filters(verified=author is Author.HUMAN)):
            assert contents(await ask(service, access, "night train", limit=1, filters=filters)) == [
                "one night by ferry"
            ]

    run(tmp_path, case, WordModel())


def test_times_filter_on_open_bounds(tmp_path: Path) -> None:
    async def case(service: Service, access: Access) -> None:
        await store(service, access, "early train")
        service.clock.forward(10)
        [late] = await store(service, access, "late train")
        at = service.clock()
        for field, after, before in (
            ("created", Filters(created_after_ms=at - 1), Filters(created_before_ms=at)),
            ("updated", Filters(updated_after_ms=at - 1), Filters(updated_before_ms=at)),
        ):
            assert contents(await ask(service, access, "train", filters=after)) == ["late train"], field
            assert contents(await ask(service, access, "train", filters=before)) == ["early train"], field
        assert contents(await ask(service, access, "train", filters=Filters(created_after_ms=at))) == []
        service.clock.forward(10)
        await change(service.kernel, access, late, Patch(tags=("x",)))
        moved = await ask(service, access, "train", filters=Filters(updated_after_ms=at, created_before_ms=at + 1))
        assert contents(moved) == ["late train"]

    run(tmp_path, case)


def test_tags_match_any_or_all_exactly_and_without_case(tmp_path: Path) -> None:
    async def case(service: Service, access: Access) -> None:
        await store(service, access, "train one", tags=("Red", "a_b"))
        await store(service, access, "train two", tags=("red",))
        await store(service, access, "train three", tags=("redder", "aXb"))
        ask_tags: list[tuple[Filters, set[str]]] = [
            (Filters(tags=("RED",)), {"train one", "train two"}),
            (Filters(tags=("a_b",)), {"train one"}),
            (Filters(tags=("re%",)), set()),
            (Filters(tags=("red", "a_b"), tags_match="any"), {"train one", "train two"}),
            (Filters(tags=("red", "a_b"), tags_match="all"), {"train one"}),
            (Filters(tags=("nobody",), tags_match="all"), set()),
        ]
        for filters, expected in ask_tags:
            assert set(contents(await ask(service, access, "train", filters=filters))) == expected, filters

    run(tmp_path, case)


def test_expired_rows_that_fill_the_pool_hide_nothing(tmp_path: Path, small_pool: int) -> None:
    async def case(service: Service, access: Access) -> None:
        soon = service.clock() + DAY_MS
        better = [f"night train number {n}" for n in range(2 * small_pool)]
        await store(service, access, *better, expires_at_ms=soon)
        await store(service, access, "one night by ferry", "a train by day")
        service.clock.forward(DAY_MS)
        assert set(contents(await ask(service, access, "night train", limit=3))) == {
            "one night by ferry",
            "a train by day",
        }
        shown = await ask(service, access, "night train", limit=3, filters=Filters(include_expired=True))
        assert set(contents(shown)) <= set(better)

    run(tmp_path, case)


def test_deleted_rows_fill_no_pool_and_come_back_when_restored(tmp_path: Path, small_pool: int) -> None:
    async def case(service: Service, access: Access) -> None:
        better = await store(service, access, *(f"night train number {n}" for n in range(2 * small_pool)))
        await store(service, access, "one night by ferry")
        await asyncio.gather(*(forget(service.kernel, access, memory_id) for memory_id in better))
        assert contents(await ask(service, access, "night train")) == ["one night by ferry"]
        assert contents(await ask(service, access, "night train", filters=Filters(include_expired=True))) == [
            "one night by ferry"
        ]
        await restore(service.kernel, access, better[3])
        assert contents(await ask(service, access, "night train"))[0] == "night train number 3"

    run(tmp_path, case, WordModel())


def test_a_word_over_the_posting_budget_is_looked_for_when_too_little_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "POSTING_BUDGET_MIN", 4)

    async def case(service: Service, access: Access) -> None:
        await store(service, access, *FILLER, "a zeppelin")
        found = await ask(service, access, "zeppelin train", limit=10)
        assert contents(found)[0] == "a zeppelin"
        assert len(found.items) == 10
        assert contents(await ask(service, access, "zeppelin train", limit=1)) == ["a zeppelin"]

    run(tmp_path, case)


def test_a_budget_keeps_one_rare_word_from_reading_the_postings_of_a_common_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "POSTING_BUDGET_MIN", 4)

    async def case(service: Service, access: Access) -> None:
        both = (await store(service, access, *FILLER, "a zeppelin and a train", "a zeppelin"))[-2]
        found = await ask(service, access, "zeppelin train", limit=2)
        assert [item.score.text_rank for item in found.items] == [1, 2]
        assert both in {item.memory.id for item in found.items}
        assert set(contents(found)) == {"a zeppelin and a train", "a zeppelin"}

    run(tmp_path, case)


def test_fuller_matches_and_rarer_words_rank_first(tmp_path: Path) -> None:
    async def case(service: Service, access: Access) -> None:
        await store(service, access, *FILLER, "ferry", "zeppelin", "ferry and zeppelin", "ferry once more")
        assert contents(await ask(service, access, "train ferry zeppelin", limit=3)) == [
            *("ferry and zeppelin", "zeppelin", "ferry"),
        ]
        sentence = "filler number 17 of the train"
        assert contents(await ask(service, access, sentence, limit=1)) == [sentence]

    run(tmp_path, case)


@pytest.mark.parametrize("failure", [ModelUnavailable("down"), ModelRejected("no"), ModelAnswerInvalid("NaN")])
def test_an_embedder_that_fails_leaves_the_words(tmp_path: Path, failure: Exception) -> None:
    model = WordModel()

    async def case(service: Service, access: Access) -> None:
        await store(service, access, "Prefers the train")
        model.refuses = lambda text: failure  # type: ignore[assignment,return-value]
        found = await ask(service, access, "train")
        assert contents(found) == ["Prefers the train"]
        assert (found.channels.vector, found.channels.text) == ("degraded", "ok")
        model.refuses = lambda text: None
        assert (await ask(service, access, "train")).channels.vector == "ok"

    run(tmp_path, case, model)


def test_an_index_that_fails_leaves_the_words_and_is_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def case(service: Service, access: Access) -> None:
        await store(service, access, "Prefers the train")
        state = await service.kernel.semantics.state()

        async def broken(*asked: object) -> VectorAnswer:
            raise IndexUnavailable("broken")

        with monkeypatch.context() as patched:
            patched.setattr(type(state.index), "search", broken)
            found = await ask(service, access, "train")
            assert (contents(found), found.channels.vector) == (["Prefers the train"], "degraded")
        assert (await ask(service, access, "train")).channels.vector == "ok"

    run(tmp_path, case, WordModel())


def test_a_hit_of_an_outdated_content_is_no_hit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def case(service: Service, access: Access) -> None:
        [memory_id] = await store(service, access, "Prefers the train")
        row = (await change(service.kernel, access, memory_id, Patch(content="Prefers the ferry"))).memory
        state = await service.kernel.semantics.state()

        def answering(content_version: int) -> Any:
            async def search(*asked: object) -> VectorAnswer:
                return VectorAnswer((VectorHit(row.seq, 0.9, content_version),), partial=True)

            return search

        monkeypatch.setattr(type(state.index), "search", answering(1))
        stale = await ask(service, access, "train")
        assert (contents(stale), stale.channels.vector) == ([], "partial")
        monkeypatch.setattr(type(state.index), "search", answering(2))
        assert contents(await ask(service, access, "train")) == ["Prefers the ferry"]

    run(tmp_path, case, WordModel())


def test_an_outdated_vector_lends_its_rank_to_no_row_that_words_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def case(service: Service, access: Access) -> None:
        changed, other = await store(service, access, "Prefers the train", "A ferry by night")
        stale = (await change(service.kernel, access, changed, Patch(content="No ferry"))).memory
        current = await service.kernel.store.memories.get(access, other)
        assert current is not None
        state = await service.kernel.semantics.state()

        async def search(*asked: object) -> VectorAnswer:
            return VectorAnswer((VectorHit(stale.seq, 0.9, 1), VectorHit(current.seq, 0.5, 1)))

        monkeypatch.setattr(type(state.index), "search", search)
        scores = {item.memory.id: item.score for item in (await ask(service, access, "ferry")).items}
        assert (scores[changed].vector_rank, scores[changed].similarity) == (None, None)
        assert scores[changed].text_rank is not None
        assert scores[other].vector_rank == 1
        assert scores[other].rrf_score > scores[changed].rrf_score

    run(tmp_path, case, WordModel())


async def heal(service: Service) -> None:
    index = service.kernel.store.text
    await index.recreate()
    while await index.refill_step():
        pass


BREAKS = {
    "table dropped": ("DROP TABLE memory_text",),
    "vocabulary dropped": ("DROP TABLE memory_vocab",),
    "structure lost": ("DELETE FROM memory_text_data WHERE id IN (1, 10)",),
    "everything lost": ("DELETE FROM memory_text_data",),
}


@pytest.mark.parametrize("statements", BREAKS.values(), ids=BREAKS)
def test_a_broken_text_index_is_noticed_and_healed(tmp_path: Path, statements: tuple[str, ...]) -> None:
    async def case(service: Service, access: Access) -> None:
        kept, gone, _ = await store(service, access, "Prefers the train", "Missed a train", "Likes tea", tags=("x",))
        await forget(service.kernel, access, gone)
        whole = await ask(service, access, "train")
        await service.driver.batch([Statement(sql) for sql in statements])
        found = await ask(service, access, "train")
        assert (found.channels.vector, found.channels.text) == ("ok", "degraded")
        assert kept in {item.memory.id for item in found.items}, "meaning still finds it"
        await heal(service)
        assert await ask(service, access, "train") == whole
        tagged = await ask(service, access, "train", filters=Filters(tags=("X",)))
        assert tagged.items[0].score.text_rank == 1
        assert gone not in {item.memory.id for item in tagged.items}

    run(tmp_path, case, WordModel())


def test_healing_goes_on_where_it_was_cut_short_and_sees_writes_made_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "DRAIN_ITEMS", 4)

    async def case(service: Service, access: Access) -> None:
        ids = await store(service, access, *FILLER)
        text = service.kernel.store.text
        await text.recreate()
        assert await text.is_refilling()
        assert await text.refill_step()
        await store(service, access, "a new train")
        await change(service.kernel, access, ids[-1], Patch(content="a rewritten train"))
        await forget(service.kernel, access, ids[-2])
        while await text.refill_step():
            pass
        assert not await text.is_refilling()
        assert not await text.refill_step()
        assert await counted(service.driver, "memory_text") == len(FILLER)
        found = await ask(service, access, "new rewritten train", limit=20)
        assert set(contents(found)[:2]) == {"a new train", "a rewritten train"}

    run(tmp_path, case)


@pytest.mark.parametrize("embedded", [True, False])
def test_answers_and_scores_do_not_depend_on_other_tenants(tmp_path: Path, embedded: bool) -> None:
    async def case(service: Service, access: Access) -> None:
        await store(service, access, *FILLER, "the night train to Surabaya", "a ferry at night", "POL-358 is open")
        queries = ("night train", "POL-358", "where does the night ferry go", "filler", "zeppelin over Surabaya")
        before = [await ask(service, access, query, limit=20) for query in queries]
        assert sum(len(found.items) for found in before) > 20
        stranger = access_of(await service.tenant("other"))
        foreign = [f"{query} {n}" for n in range(20) for query in queries]
        await store(service, stranger, *foreign)
        assert [await ask(service, access, query, limit=20) for query in queries] == before
        theirs = [await ask(service, stranger, query, limit=20) for query in queries]
        assert {content for found in theirs for content in contents(found)} <= set(foreign)

    run(tmp_path, case, WordModel() if embedded else None)


def test_a_subjects_key_finds_its_subject_only(tmp_path: Path) -> None:
    async def case(service: Service, access: Access) -> None:
        await store(service, access, "night train one", subject_id="user_1")
        await store(service, access, "night train two", subject_id="user_2")
        locked = Access(access.tenant_id, access.tenant_num, "user_2", access.actor, "k")
        assert contents(await ask(service, locked, "night train")) == ["night train two"]
        assert contents(await ask(service, locked, "night train", scope=Scope("user_1"))) == []
        assert len((await ask(service, access, "night train")).items) == 2

    run(tmp_path, case, WordModel())


def test_recall_changes_nothing(tmp_path: Path) -> None:
    async def case(service: Service, access: Access) -> None:
        await store(service, access, *FILLER)
        rows = "SELECT * FROM memories ORDER BY seq"
        before = await service.driver.query(Statement(rows))
        first = await ask(service, access, "filler train", limit=20)
        service.clock.forward(DAY_MS)
        assert await ask(service, access, "filler train", limit=20) == first
        assert await service.driver.query(Statement(rows)) == before

    run(tmp_path, case, WordModel())
