"""The text index by itself: weights, scope terms, hostile text."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.unit.service import Service, access_of, counted, draft, open_service
from titen_core import limits
from titen_core.errors import SqlError
from titen_core.memories import change, forget
from titen_core.models import Access, Category, Filters, Patch, Scope
from titen_core.protocols import Row, SqlDriver, Statement
from titen_core.remember import remember
from titen_core.sql.text_index import TextAnswer, TextIndex
from titen_core.text import QueryTerm, query_terms

Case = Callable[[Service, Access], Awaitable[None]]


def run(directory: Path, case: Case) -> None:
    async def whole() -> None:
        async with open_service(directory) as service:
            await case(service, access_of(await service.tenant()))

    asyncio.run(whole())


EVERYWHERE, ANYTHING = Scope(), Filters()


async def look(service: Service, access: Access, query: str, scope: Scope = EVERYWHERE) -> TextAnswer:
    return await service.kernel.store.text.search(access, scope, ANYTHING, query_terms(query), 50, service.clock())


async def store(service: Service, access: Access, *contents: str, subject_id: str = "user_1") -> list[int]:
    written = [await remember(service.kernel, access, draft(content, subject_id)) for content in contents]
    return [one.memory.seq for one in written]


def test_ranks_differ(tmp_path: Path) -> None:
    """A contentless index of the wrong kind answers the same rank for every row."""

    async def case(service: Service, access: Access) -> None:
        await store(service, access, "red green blue", "red green", "red", "yellow", "pink")
        hits = (await look(service, access, "red green blue")).hits
        assert [hit.seq for hit in hits] == [1, 2, 3]
        assert len({hit.weight for hit in hits}) == 3

    run(tmp_path, case)


def test_bits_tell_which_terms_a_row_holds_and_weights_add_up(tmp_path: Path) -> None:
    async def case(service: Service, access: Access) -> None:
        await store(service, access, "red blue", "green", "yellow", "pink")
        answer = await look(service, access, "red green blue violet")
        bits = {hit.seq: hit.bits for hit in answer.hits}
        assert bits == {1: 0b101, 2: 0b010}
        assert answer.total_weight > sum(hit.weight for hit in answer.hits), "an unknown word weighs too"

    run(tmp_path, case)


def test_the_most_terms_a_query_can_have(tmp_path: Path) -> None:
    async def case(service: Service, access: Access) -> None:
        words = " ".join(f"w{chr(97 + n // 26)}{chr(97 + n % 26)}x" for n in range(limits.QUERY_TERMS_COUNT))
        await store(service, access, words, "other")
        [hit] = (await look(service, access, words)).hits
        assert hit.bits == 2**limits.QUERY_TERMS_COUNT - 1

    run(tmp_path, case)


def test_no_terms_no_query(tmp_path: Path) -> None:
    async def case(service: Service, access: Access) -> None:
        await store(service, access, "red")
        assert await service.kernel.store.text.search(access, Scope(), Filters(), [], 5, 0) == TextAnswer((), 0)

    run(tmp_path, case)


@pytest.mark.parametrize(
    "name",
    [
        "user:1",
        'user"1',
        "user'1",
        "user*",
        "NOT user",
        "user OR 1",
        "über",
        "用户",
        "user 1",
        "user_1%",
        "(",
        "-",
        "a" * 256,
    ],
)
def test_names_are_compared_exactly_whatever_they_look_like(tmp_path: Path, name: str) -> None:
    async def case(service: Service, access: Access) -> None:
        await store(service, access, "red", subject_id="user_1")
        await store(service, access, "red", subject_id=name)
        assert [hit.seq for hit in (await look(service, access, "red", Scope(name))).hits] == [2]
        assert [hit.seq for hit in (await look(service, access, "red", Scope(name[:-1] + "~"))).hits] == []
        locked = Access(access.tenant_id, access.tenant_num, name, access.actor, "k")
        assert [hit.seq for hit in (await look(service, locked, "red")).hits] == [2]

    run(tmp_path, case)


@pytest.mark.parametrize(
    "hostile",
    [
        *('"', '""', "'", "*", "red*", "red AND", "NOT red", "NEAR(red, 5)", "terms : red", "{terms} : red", "^red"),
        *("red\0", "red OR t2xred", "t2a", "t1xred", "-red", "+red", "(red", "red)", "\\", "%", "_", "; DROP TABLE x"),
    ],
)
def test_hostile_queries_are_words(tmp_path: Path, hostile: str) -> None:
    async def case(service: Service, access: Access) -> None:
        await store(service, access, "red", "something else")
        stranger = access_of(await service.tenant("other"))
        await store(service, stranger, "red")
        hits = (await look(service, access, hostile)).hits
        assert {hit.seq for hit in hits} <= {1}

    run(tmp_path, case)


def test_terms_of_tenants_with_numbers_alike_do_not_mix(tmp_path: Path) -> None:
    async def case(service: Service, access: Access) -> None:
        tenants = [await service.tenant(str(n)) for n in range(11)]
        for tenant in tenants:
            await store(service, access_of(tenant), f"red {tenant.num}")
        for tenant in tenants:
            answer = await look(service, access_of(tenant), "red")
            assert len(answer.hits) == 1

    run(tmp_path, case)


def test_a_crafted_term_reaches_no_other_tenant(tmp_path: Path) -> None:
    async def case(service: Service, access: Access) -> None:
        stranger = access_of(await service.tenant("other"))
        await store(service, stranger, "red")
        terms = [QueryTerm('x" OR "t2xred', exact=False), QueryTerm("t2xred", exact=True)]
        try:
            answer = await service.kernel.store.text.search(access, Scope(), Filters(), terms, 5, service.clock())
        except SqlError:
            return
        assert answer.hits == ()

    run(tmp_path, case)


def test_checking_a_sound_index_says_nothing(tmp_path: Path) -> None:
    async def case(service: Service, access: Access) -> None:
        await service.kernel.store.text.check()
        await service.driver.batch([Statement("DROP TABLE memory_text")])
        with pytest.raises(SqlError):
            await service.kernel.store.text.check()
        await service.kernel.store.text.recreate()
        await service.kernel.store.text.check()

    run(tmp_path, case)


def test_a_write_that_cannot_update_the_index_is_not_half_done(tmp_path: Path) -> None:
    async def case(service: Service, access: Access) -> None:
        await service.driver.batch([Statement("DROP TABLE memory_text")])
        with pytest.raises(SqlError):
            await store(service, access, "red")
        for table in ("memories", "memory_events", "vector_outbox"):
            assert await counted(service.driver, table) == 0

    run(tmp_path, case)


@dataclass
class Interrupted:
    """A driver in front of which another process makes the index anew, right before the next batch."""

    inner: SqlDriver
    meanwhile: Callable[[], Awaitable[None]] | None

    async def query(self, statement: Statement) -> list[Row]:
        return await self.inner.query(statement)

    async def batch(self, statements: Sequence[Statement]) -> list[list[Row]]:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        return await self.inner.batch(statements)


@pytest.mark.parametrize("steps_before", [1, 2])
def test_an_index_made_anew_during_a_refill_is_filled_from_the_beginning(tmp_path: Path, steps_before: int) -> None:
    """Two processes notice the same broken index, and the later one throws away what the first has filled."""

    async def case(service: Service, access: Access) -> None:
        text = service.kernel.store.text
        seqs = await store(service, access, *(f"kereta nomor {number}" for number in range(limits.DRAIN_ITEMS + 3)))
        await text.recreate()
        for _ in range(steps_before):
            assert await text.refill_step()
        other = TextIndex(Interrupted(service.driver, text.recreate))
        while await other.refill_step():
            pass
        assert {hit.seq for hit in (await look(service, access, "kereta")).hits} == set(seqs)
        assert not await text.is_refilling()

    run(tmp_path, case)


def test_a_refill_brings_every_term_back(tmp_path: Path) -> None:
    """Rows of two tenants, changed, deleted and with every kind of term, in one step."""

    async def case(service: Service, access: Access) -> None:
        other = access_of(await service.tenant("other"))
        whole = replace(
            draft("kereta malam", "user_1"), agent_id="é" * 40, run_id="r", category=Category.PROJECT, tags=("a", "B")
        )
        for whose in (access, other):
            written = [await remember(service.kernel, whose, each) for each in (whole, draft("kopi pagi", "user_2"))]
            await change(service.kernel, whose, written[0].memory.id, Patch(content="kereta pagi"))
        await forget(service.kernel, other, written[1].memory.id)
        terms = Statement("SELECT term, doc, cnt FROM memory_vocab ORDER BY term")
        before = await service.driver.query(terms)
        assert len(before) > 20
        await service.kernel.store.text.recreate()
        assert await service.kernel.store.text.refill_step()
        assert await service.driver.query(terms) == before

    run(tmp_path, case)
