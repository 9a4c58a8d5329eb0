"""D1 as a SqlDriver: what is repeated, what is refused before it is sent, and what its errors mean."""

import asyncio
from collections.abc import Sequence

import pytest

from adapters.cloudflare import d1
from adapters.cloudflare.bindings import BindingError
from adapters.cloudflare.d1 import ATTEMPTS_MAX, D1Driver, count_queries
from adapters.cloudflare.failures import sql_error
from titen_core.errors import SqlBusy, SqlConstraint, SqlCorrupt, SqlError, SqlFull, SqlMissing
from titen_core.protocols import Row, SqlValue, Statement

READ = Statement("SELECT 1 AS one")
WRITE = Statement("UPDATE memories SET version = 2 WHERE tenant_id = ?", ("t",))
LOST = "D1_ERROR: Network connection lost."


class Database:
    """A binding that fails as often as it is told, then answers one row a statement."""

    def __init__(self, *failures: str) -> None:
        self.failures = list(failures)
        self.calls = 0

    async def query(self, statement: Statement) -> list[Row]:
        return (await self.batch([statement]))[0]

    async def batch(self, statements: Sequence[Statement]) -> list[list[Row]]:
        self.calls += 1
        if self.failures:
            raise BindingError(self.failures.pop(0))
        return [[{"one": 1}] for _ in statements]


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(d1, "PAUSE_MS", 0)


@pytest.mark.parametrize(
    "lost",
    [
        LOST,
        "D1_ERROR: Internal error while starting up D1 DB storage caused object to be reset.",
        "D1_ERROR: D1 DB reset because its code was updated.",
        "D1_ERROR: Internal error in D1 DB storage caused object to be reset.",
    ],
)
def test_reading_survives_what_d1_calls_transient(lost: str) -> None:
    database = Database(lost, lost)
    assert asyncio.run(D1Driver(database).query(READ)) == [{"one": 1}]
    assert database.calls == 3


def test_reading_gives_up_after_a_few_attempts() -> None:
    database = Database(*[LOST] * 10)
    with pytest.raises(SqlBusy):
        asyncio.run(D1Driver(database).query(READ))
    assert database.calls == ATTEMPTS_MAX


def test_a_batch_that_writes_is_sent_once() -> None:
    """Its first try may have been committed, and the row deleted by somebody since."""
    database = Database(LOST)
    with pytest.raises(SqlBusy):
        asyncio.run(D1Driver(database).batch([READ, WRITE]))
    assert database.calls == 1


def test_a_batch_that_only_reads_is_sent_again() -> None:
    database = Database(LOST)
    statements = [READ, Statement("WITH a AS (SELECT 1) SELECT * FROM a")]
    assert asyncio.run(D1Driver(database).batch(statements)) == [[{"one": 1}], [{"one": 1}]]


@pytest.mark.parametrize("sql", ["WITH a AS (SELECT 1) DELETE FROM memories", "INSERT INTO t SELECT 1"])
def test_a_write_in_a_readers_clothes_is_sent_once(sql: str) -> None:
    database = Database(LOST)
    with pytest.raises(SqlBusy):
        asyncio.run(D1Driver(database).batch([Statement(sql)]))
    assert database.calls == 1


def test_overload_is_not_answered_with_more_load() -> None:
    database = Database("D1_ERROR: D1 DB is overloaded. Too many requests queued.")
    with pytest.raises(SqlBusy):
        asyncio.run(D1Driver(database).query(READ))
    assert database.calls == 1


def test_a_request_that_asked_too_often_is_told_to_come_again() -> None:
    database = Database("Error: Too many API requests by single Worker invocation.")
    with pytest.raises(SqlBusy):
        asyncio.run(D1Driver(database).query(READ))


def test_queries_are_counted_by_request_statement_and_attempt() -> None:
    async def request(database: Database) -> int:
        queries, driver = count_queries(), D1Driver(database)
        await driver.batch([READ, WRITE, WRITE])
        await asyncio.gather(driver.query(READ), driver.query(READ))
        return queries.made

    async def both() -> list[int]:
        return list(await asyncio.gather(request(Database()), request(Database())))

    assert asyncio.run(both()) == [5, 5]
    assert asyncio.run(_reads_twice()) == 4


async def _reads_twice() -> int:
    queries = count_queries()
    await D1Driver(Database(LOST)).batch([READ, READ])
    return queries.made


def test_an_empty_batch_reaches_nobody() -> None:
    database = Database()
    assert asyncio.run(D1Driver(database).batch([])) == []
    assert database.calls == 0


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), 2**53, "half \ud800", bytearray(b"x"), "x" * 2_000_001],
    ids=["nan", "infinity", "big", "surrogate", "bytearray", "long"],
)
def test_what_d1_would_change_silently_is_refused_here(value: SqlValue) -> None:
    database = Database()
    with pytest.raises(SqlError, match="parameter 1") as refused:
        asyncio.run(D1Driver(database).query(Statement("SELECT ?", (value,))))
    assert str(value) not in str(refused.value)
    assert database.calls == 0


def test_more_than_a_hundred_parameters_are_refused_here() -> None:
    with pytest.raises(SqlError, match="SQL_PARAMS_COUNT"):
        asyncio.run(D1Driver(Database()).query(Statement("SELECT 1", tuple(range(101)))))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("D1_ERROR: UNIQUE constraint failed: memories.tenant_id (extended: SQLITE_CONSTRAINT_UNIQUE)", SqlConstraint),
        ("D1_ERROR: CHECK constraint failed: version >= 1: SQLITE_CONSTRAINT", SqlConstraint),
        ("D1_ERROR: no such table: memory_text: SQLITE_ERROR", SqlMissing),
        ("D1_ERROR: no such column: x at offset 7: SQLITE_ERROR", SqlMissing),
        ("D1_ERROR: Exceeded maximum DB size.", SqlFull),
        ("D1_ERROR: database or disk is full: SQLITE_FULL", SqlFull),
        ("D1_ERROR: database disk image is malformed (extended: SQLITE_CORRUPT_VTAB)", SqlCorrupt),
        ("D1_ERROR: D1 DB is overloaded. Requests queued for too long.", SqlBusy),
        ("D1_ERROR: Cannot resolve D1 DB due to transient issue on remote node.", SqlBusy),
        ("D1_ERROR: malformed JSON: SQLITE_ERROR", SqlError),
        ("D1_ERROR: something new", SqlError),
    ],
)
def test_each_text_has_its_class(text: str, kind: type[SqlError]) -> None:
    assert type(sql_error(text)) is kind


def test_no_message_repeats_what_d1_quotes() -> None:
    refused = sql_error('D1_ERROR: fts5: syntax error near "secret": SQLITE_ERROR')
    assert "secret" not in str(refused)
    assert "SQLITE_ERROR" in str(refused)
