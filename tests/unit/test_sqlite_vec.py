"""The vector index on real files: exact filters, high recall, small, and blind to other tenants."""

import asyncio
import random
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapters.sqlite import vec as vec_module
from adapters.sqlite.driver import SqliteDriver
from adapters.sqlite.vec import SqliteVecIndex
from tests.unit.sqlite_rows import MIGRATION, NOW_MS, access, cone, cosine, memory, rows_of, tenant, unit
from titen_core.errors import IndexUnavailable, SqlConstraint
from titen_core.models import Access, Filters, Fingerprint, Kind, Scope
from titen_core.protocols import ColocatedIndex, Statement, Vector

T = TypeVar("T")


@dataclass
class Store:
    """A driver and an index with the schema in place."""

    driver: SqliteDriver
    index: SqliteVecIndex

    async def add(self, tenant_id: str, numbers: Sequence[int], vectors: Sequence[Vector], **fields: Any) -> None:
        statements: list[Statement] = []
        for number, vector in zip(numbers, vectors, strict=True):
            statements.append(memory(tenant_id, number, **fields))
            statements += self.index.put(rows_of(tenant_id, number), vector)
        await self.driver.batch(statements)

    async def find(
        self, vector: Vector, k: int, who: Access | None = None, scope: Scope | None = None, **filters: Any
    ) -> list[tuple[int, float]]:
        answer = await self.index.search(
            who or access(),
            scope or Scope(),
            Filters(**filters),
            vector,
            k,
            NOW_MS,
        )
        assert not answer.partial
        assert all(hit.content_version is None for hit in answer.hits)
        return [(hit.seq, hit.similarity) for hit in answer.hits]


def with_store(
    path: Path, dimensions: int, use: Callable[[Store], Awaitable[T]], tenants: Sequence[str] = ("t1", "t2")
) -> T:
    async def run() -> T:
        driver = SqliteDriver(path)
        try:
            await driver.script(MIGRATION.read_text(encoding="utf-8"))
            await driver.batch([tenant(name) for name in tenants])
            index = SqliteVecIndex(driver, Fingerprint("test", "model", dimensions))
            await index.prepare()
            await index.prepare()
            return await use(Store(driver, index))
        finally:
            await driver.close()

    return asyncio.run(run())


def exact(vector: Vector, stored: Sequence[Vector], k: int) -> list[int]:
    """Row numbers of the nearest, when rows 0.. were stored first and got seq 1.. ."""
    order = sorted(range(len(stored)), key=lambda row: (-round(cosine(vector, stored[row]), 6), row))
    return [row + 1 for row in order[:k]]


def recall(found: Sequence[tuple[int, float]], truth: Sequence[int]) -> float:
    return len({seq for seq, _ in found} & set(truth)) / len(truth)


def test_it_is_a_colocated_index(tmp_path: Path) -> None:
    async def use(store: Store) -> None:
        index: ColocatedIndex = store.index
        description = await index.describe()
        assert (description.dimensions, description.metric) == (3, "cosine")
        assert description.read_after_write
        assert description.processed_through_ms is None

    with_store(tmp_path / "t.db", 3, use)


@pytest.mark.parametrize("dimensions", [3, 64, 130, 384, 1024])
def test_small_scopes_are_answered_exactly(tmp_path: Path, dimensions: int) -> None:
    vectors = cone(dimensions, 150, seed=1)

    async def use(store: Store) -> None:
        await store.add("t1", range(150), vectors)
        for query in cone(dimensions, 5, seed=2):
            found = await store.find(query, 10)
            assert [seq for seq, _ in found] == exact(query, vectors, 10)
            for seq, similarity in found:
                assert similarity == pytest.approx(cosine(query, vectors[seq - 1]), abs=2e-6)
                assert similarity == round(similarity, 6)
            assert found == await store.find(query, 10)

    with_store(tmp_path / "t.db", dimensions, use)


@pytest.mark.parametrize("dimensions", [64, 384])
def test_recall_of_a_few_thousand_vectors_in_a_narrow_cone(tmp_path: Path, dimensions: int) -> None:
    vectors = cone(dimensions, 2_500, seed=3)
    rng = random.Random(4)
    queries = [unit([x + rng.gauss(0, 0.02) for x in rng.choice(vectors)]) for _ in range(12)]

    async def use(store: Store) -> float:
        await store.add("t1", range(2_500), vectors)
        answers = [recall(await store.find(query, 10), exact(query, vectors, 10)) for query in queries]
        return sum(answers) / len(answers)

    assert with_store(tmp_path / "t.db", dimensions, use) >= 0.97


def test_ties_go_to_the_older_row(tmp_path: Path) -> None:
    async def use(store: Store) -> None:
        same = unit([1.0, 2.0, 3.0])
        await store.add("t1", range(6), [same] * 6)
        assert await store.find(same, 3) == [(1, 1.0), (2, 1.0), (3, 1.0)]

    with_store(tmp_path / "t.db", 3, use)


def test_a_hundred_better_rows_outside_the_filter_hide_nothing(tmp_path: Path) -> None:
    (query,) = cone(128, 1, seed=5)
    near = [unit([x + 0.001 * n for x in query]) for n in range(1_400)]
    (far,) = cone(128, 1, seed=6)

    async def use(store: Store) -> None:
        await store.add("t1", range(1_400), near, expires_at=NOW_MS)
        await store.add("t1", [1_400], [far], kind="procedural", subject_id="bob", agent_id="a")
        expected = 1_401
        for answer in (
            await store.find(query, 5),
            await store.find(query, 5, include_expired=True, kind=(Kind.PROCEDURAL,)),
            await store.find(query, 5, include_expired=True, scope=Scope(subject_id="bob")),
            await store.find(query, 5, include_expired=True, scope=Scope(agent_id="a")),
            await store.find(query, 5, include_expired=True, who=access(subject_id="bob")),
        ):
            assert [seq for seq, _ in answer] == [expected]
        assert await store.find(query, 5, who=access(subject_id="bob"), scope=Scope(subject_id="ada")) == []
        assert len(await store.find(query, 5, include_expired=True)) == 5
        assert await store.find(query, 5, who=access("t2")) == []

    with_store(tmp_path / "t.db", 128, use)


ROWS = st.lists(
    st.tuples(
        st.sampled_from(["t1", "t2"]),
        st.sampled_from(["ada", "bob"]),
        st.sampled_from(["semantic", "episodic", "procedural"]),
        st.sampled_from([None, NOW_MS - 1, NOW_MS, NOW_MS + 1]),
        st.sampled_from([None, 5]),
        st.lists(st.integers(-3, 3), min_size=3, max_size=3).filter(any),
    ),
    max_size=40,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    rows=ROWS,
    query=st.lists(st.integers(-3, 3), min_size=3, max_size=3).filter(any),
    locked=st.sampled_from([None, "ada"]),
    subject=st.sampled_from([None, "ada", "bob"]),
    kinds=st.sampled_from([(), (Kind.SEMANTIC,), (Kind.EPISODIC, Kind.PROCEDURAL)]),
    include_expired=st.booleans(),
    k=st.integers(1, 8),
    pool=st.integers(1, 8),
)
def test_answers_equal_brute_force(
    rows: list[tuple[str, str, str, int | None, int | None, list[int]]],
    query: list[int],
    locked: str | None,
    subject: str | None,
    kinds: tuple[Kind, ...],
    include_expired: bool,
    k: int,
    pool: int,
) -> None:
    wanted = unit(query)

    def matches(row: tuple[str, str, str, int | None, int | None, list[int]]) -> bool:
        tenant_id, subject_id, kind, expires_at, deleted_at, _ = row
        return (
            tenant_id == "t1"
            and locked in (None, subject_id)
            and subject in (None, subject_id)
            and (not kinds or kind in kinds)
            and deleted_at is None
            and (include_expired or expires_at is None or expires_at > NOW_MS)
        )

    async def use(store: Store) -> None:
        for number, (tenant_id, subject_id, kind, expires_at, deleted_at, values) in enumerate(rows):
            fields = {
                "subject_id": subject_id,
                "kind": kind,
                "expires_at": expires_at,
                "deleted_at": deleted_at,
            }
            await store.add(tenant_id, [number], [unit(values)], **fields)
        found = await store.find(
            wanted,
            k,
            who=access(subject_id=locked),
            scope=Scope(subject_id=subject),
            kind=kinds,
            include_expired=include_expired,
        )
        inside = [(seq, unit(row[5])) for seq, row in enumerate(rows, 1) if matches(row)]
        scores = sorted((cosine(wanted, vector) for _, vector in inside), reverse=True)[:k]
        assert [similarity for _, similarity in found] == pytest.approx(scores, abs=2e-6)
        assert {seq for seq, _ in found} <= {seq for seq, _ in inside}

    # A tiny pool makes filters drop most of it, so that the second look is exercised as well.
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as directory:
        patch.setattr(vec_module, "SCORED_ROWS_MIN", pool)
        patch.setattr(vec_module, "SCORED_COMPONENTS", 0)
        with_store(Path(directory) / "t.db", 3, use)


def test_put_replaces_and_drop_removes(tmp_path: Path) -> None:
    first, second = cone(128, 2, seed=7)

    async def use(store: Store) -> None:
        await store.add("t1", [0, 1], [first, first])
        await store.driver.batch(store.index.put(rows_of("t1", 1), second))
        assert (await store.find(second, 1))[0] == (2, 1.0)
        assert len(await store.find(second, 9)) == 2
        for _ in range(2):
            await store.driver.batch(store.index.drop(rows_of("t1", 1)))
            assert [seq for seq, _ in await store.find(second, 9)] == [1]
        await store.driver.batch(store.index.put(rows_of("t1", 99), first))
        assert [seq for seq, _ in await store.find(first, 9)] == [1]

    with_store(tmp_path / "t.db", 128, use)


def test_put_belongs_to_the_callers_batch(tmp_path: Path) -> None:
    (vector,) = cone(128, 1, seed=8)

    async def use(store: Store) -> None:
        await store.add("t1", [0], [vector])
        put = store.index.put(rows_of("t1", 1), vector)
        with pytest.raises(SqlConstraint):
            await store.driver.batch([memory("t1", 1), *put, memory("t1", 1)])
        assert [seq for seq, _ in await store.find(vector, 9)] == [1]

    with_store(tmp_path / "t.db", 128, use)


def test_a_tenants_answers_do_not_depend_on_others(tmp_path: Path) -> None:
    own, foreign, queries = cone(128, 900, seed=9), cone(128, 900, seed=10), cone(128, 6, seed=11)
    rows = Statement("SELECT id FROM memories WHERE tenant_id = 't1' ORDER BY seq")

    async def ask(store: Store) -> list[list[tuple[object, float]]]:
        ids = {
            row["seq"]: row["id"] for row in await store.driver.query(Statement(rows.sql.replace("id F", "id, seq F")))
        }
        return [[(ids[seq], score) for seq, score in await store.find(query, 20)] for query in queries]

    async def alone(store: Store) -> list[list[tuple[object, float]]]:
        await store.add("t1", range(900), own)
        before = await ask(store)
        await store.add("t2", range(900), foreign)
        assert await ask(store) == before
        return before

    async def among_others(store: Store) -> list[list[tuple[object, float]]]:
        for start in range(0, 900, 30):
            await store.add("t2", range(start, start + 30), foreign[start : start + 30])
            await store.add("t1", range(start, start + 30), own[start : start + 30])
        return await ask(store)

    expected = with_store(tmp_path / "alone.db", 128, alone)
    assert with_store(tmp_path / "among.db", 128, among_others) == expected


def test_two_models_live_side_by_side(tmp_path: Path) -> None:
    old_vector, new_vector = cone(128, 1, seed=12)[0], cone(64, 1, seed=12)[0]

    async def use(store: Store) -> None:
        await store.add("t1", [0], [old_vector])
        new = Store(store.driver, SqliteVecIndex(store.driver, Fingerprint("test", "model", 64)))
        await new.index.prepare()
        await store.driver.batch(new.index.put(rows_of("t1", 0), new_vector))
        assert len(await store.find(old_vector, 9)) == len(await new.find(new_vector, 9)) == 1
        for _ in range(2):
            await store.driver.batch(store.index.destroy())
        assert len(await new.find(new_vector, 9)) == 1
        with pytest.raises(IndexUnavailable):
            await store.find(old_vector, 9)
        await store.index.prepare()
        assert await store.find(old_vector, 9) == []

    with_store(tmp_path / "t.db", 128, use)


def test_vectors_of_another_size_are_refused(tmp_path: Path) -> None:
    (vector,) = cone(64, 1, seed=13)

    async def use(store: Store) -> None:
        with pytest.raises(ValueError, match="128 dimensions"):
            store.index.put(rows_of("t1", 0), vector)
        with pytest.raises(IndexUnavailable, match="128 dimensions"):
            await store.find(vector, 1)

    with_store(tmp_path / "t.db", 128, use)


@pytest.mark.parametrize(
    "damage", ["DROP TABLE {}_codes", "DROP TABLE {}_floats", "UPDATE {}_floats SET vector = x'00'"]
)
def test_a_broken_index_is_unavailable(tmp_path: Path, damage: str) -> None:
    (vector,) = cone(128, 1, seed=14)

    async def use(store: Store) -> None:
        await store.add("t1", [0], [vector])
        breaker = apsw.Connection(str(tmp_path / "t.db"))
        codes = breaker.execute("SELECT name FROM sqlite_schema WHERE name LIKE 'vec\\_%\\_codes' ESCAPE '\\'").get
        breaker.execute(damage.format(str(codes).removesuffix("_codes")))
        breaker.close()
        with pytest.raises(IndexUnavailable):
            await store.find(vector, 1)

    with_store(tmp_path / "t.db", 128, use)


def test_no_search_scans_a_tenant_table(tmp_path: Path) -> None:
    plans: list[str] = []

    async def use(store: Store) -> None:
        query = store.driver.query

        async def explain(statement: Statement) -> list[object]:
            rows = await query(Statement("EXPLAIN QUERY PLAN " + statement.sql, statement.params))
            plans.extend(str(row["detail"]) for row in rows)
            return []

        store.driver.query = explain  # type: ignore[method-assign, assignment]
        await store.find(cone(128, 1, seed=15)[0], 5, kind=(Kind.SEMANTIC,))
        await store.find(cone(128, 1, seed=15)[0], 5, who=access(subject_id="ada"))

    with_store(tmp_path / "t.db", 128, use)
    searched = [plan for plan in plans if plan.startswith("SEARCH")]
    assert len(searched) >= 16
    scans = {plan.split()[1] for plan in plans if plan.startswith("SCAN")}
    assert scans <= {"CONSTANT", "q", "near", "kept", "given", "json_each"}


def test_many_small_tenants_stay_small(tmp_path: Path) -> None:
    names = [f"tenant{n}" for n in range(100)]
    vectors = cone(1024, 10, seed=16)

    async def use(store: Store) -> None:
        for name in names:
            await store.add(name, range(10), vectors)

    path = tmp_path / "t.db"
    with_store(path, 1024, use, tenants=names)
    # A tenth of 1,000 tenants with ten memories each, whose whole file may take 100 MiB.
    assert path.stat().st_size < 10 * 1024 * 1024


def test_searches_in_flight_when_the_driver_closes(tmp_path: Path) -> None:
    vectors = cone(128, 1_000, seed=17)

    async def use(store: Store) -> None:
        await store.add("t1", range(1_000), vectors)
        searches = [asyncio.create_task(store.find(vector, 10)) for vector in vectors[:32]]
        await asyncio.sleep(0)
        await store.driver.close()
        assert [answer[0][0] for answer in await asyncio.gather(*searches)] == list(range(1, 33))

    with_store(tmp_path / "t.db", 128, use)
