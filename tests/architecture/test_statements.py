"""Rules that every SQL statement of the core keeps, checked on all of them that a whole scenario sends."""

import asyncio
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import apsw
import pytest

from adapters.sqlite.connection import open_connection
from tests.architecture.scenario import Mood, operate, walk
from tests.unit.kernel import WordModel
from tests.unit.service import RecordingDriver, open_migrated, open_service
from titen_core import limits
from titen_core.protocols import SqlDriver, Statement

TENANT_TABLES = (
    *("memories", "memory_events", "memory_vectors", "vector_outbox", "idempotency", "api_keys", "principals"),
)
_NAMES_A_TENANT_TABLE = re.compile(rf"\b({'|'.join(TENANT_TABLES)}|vec_[0-9a-f]+_(codes|floats|centres))\b")
_TEXT_LITERAL = re.compile(r"'(?:[^']|'')*'")
_OTHER_PLACEHOLDER = re.compile(r"\?\d|[:@$][A-Za-z_]")
_ACROSS_TENANTS = "/* every tenant_id */"
"""What housekeeping writes into a statement that serves all tenants at once, so that a reader sees it is meant."""

_DDL = ("CREATE", "DROP")


@dataclass(frozen=True)
class Recorded:
    """Distinct statements, each with the parameters it had first: those of requests and housekeeping, and all."""

    served: list[Statement]
    everything: list[Statement]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Everything that the scenario sends."""

    async def record() -> Recorded:
        recorders: list[RecordingDriver] = []

        def recording(driver: SqlDriver) -> SqlDriver:
            recorders.append(RecordingDriver(driver))
            return recorders[0]

        mood = Mood()
        async with open_service(
            tmp_path_factory.mktemp("walk"), WordModel(dimensions=128, refuses=mood), wrap=recording
        ) as service:
            await walk(service, mood)
            served = _distinct(recorders[0].statements)
            await operate(service)
            return Recorded(served, _distinct(recorders[0].statements))

    return asyncio.run(record())


def _distinct(statements: Sequence[Statement]) -> list[Statement]:
    return list({statement.sql: statement for statement in reversed(statements)}.values())


@pytest.fixture(scope="module")
def statements(recorded: Recorded) -> list[Statement]:
    """Every statement, an operator's included."""
    return recorded.everything


@pytest.fixture(scope="module")
def served(recorded: Recorded) -> list[Statement]:
    """What requests and housekeeping send. An operator's reindex and purge may read whole tables: they serve nobody."""
    return recorded.served


def test_the_scenario_reaches_the_whole_of_the_core(statements: list[Statement]) -> None:
    reached = " ".join(statement.sql for statement in statements)
    for table in TENANT_TABLES:
        assert f"INTO {table}" in reached, f"nothing was written to {table}"
        assert f"FROM {table}" in reached, f"nothing was read from {table}"
    assert "MATCH" in reached
    assert "vec_distance_cosine" in reached


def test_a_statement_on_a_tenant_table_names_the_tenant(statements: list[Statement]) -> None:
    nameless = [
        statement.sql
        for statement in statements
        if not statement.sql.lstrip().startswith(_DDL)
        and _NAMES_A_TENANT_TABLE.search(statement.sql)
        and "tenant_id" not in statement.sql
    ]
    assert not nameless, "\n".join(nameless)


def test_only_housekeeping_of_queues_serves_all_tenants_at_once(served: list[Statement]) -> None:
    touched = {
        name.group(1)
        for statement in served
        if _ACROSS_TENANTS in statement.sql
        for name in _NAMES_A_TENANT_TABLE.finditer(statement.sql)
    }
    assert touched == {"vector_outbox", "idempotency"}


def test_placeholders_are_plain_and_few(statements: list[Statement]) -> None:
    for statement in statements:
        bare = _TEXT_LITERAL.sub("''", statement.sql)
        assert not _OTHER_PLACEHOLDER.search(bare), statement.sql
        assert bare.count("?") == len(statement.params) <= limits.SQL_PARAMS_COUNT, statement.sql


def test_a_statement_is_one_statement_and_leaves_transactions_to_the_driver(statements: list[Statement]) -> None:
    for statement in statements:
        bare = _TEXT_LITERAL.sub("''", statement.sql)
        assert ";" not in bare, statement.sql
        assert not re.match(r"\s*(BEGIN|COMMIT|ROLLBACK|SAVEPOINT|RELEASE|PRAGMA|ATTACH)\b", bare), statement.sql
        assert "TRIGGER" not in bare, statement.sql


def test_no_plan_scans_a_tenant_table(served: list[Statement], tmp_path: Path) -> None:
    """On an empty schema: no statistics, so the plan is the one that every new store has."""
    asyncio.run(_create(tmp_path, [s for s in served if s.sql.lstrip().startswith("CREATE")]))
    connection = open_connection(tmp_path / "titen.db", busy_timeout_ms=1000, read_only=False)
    try:
        scans = [
            f"{step}: {statement.sql}"
            for statement in served
            if not statement.sql.lstrip().startswith(_DDL)
            for step in _full_scans(connection, statement)
        ]
    finally:
        connection.close()
    assert not scans, "\n".join(scans)


async def _create(directory: Path, tables: Iterable[Statement]) -> None:
    async with open_migrated(directory) as driver:
        await driver.batch(list(tables))


def _full_scans(connection: apsw.Connection, statement: Statement) -> list[str]:
    """Steps of the plan that read a whole tenant table. Aliases are resolved by the statement's own text."""
    plan = [str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {statement.sql}", statement.params)]
    return [step for step in plan if step.startswith("SCAN") and _is_tenant_table(step.split()[1], statement.sql)]


def _is_tenant_table(name: str, sql: str) -> bool:
    if _NAMES_A_TENANT_TABLE.fullmatch(name):
        return True
    return re.search(rf"{_NAMES_A_TENANT_TABLE.pattern}\s+AS\s+{re.escape(name)}\b", sql) is not None
