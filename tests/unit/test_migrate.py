"""Migrations: in order, each once and whole, and never over what is not understood."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from adapters.sqlite.driver import SqliteDriver
from titen_core.errors import SqlError
from titen_core.protocols import Statement
from titen_core.sql.meta import LATEST_MIGRATION
from titen_core.sql.migrate import Migration, MigrationRefused, applied, migrate, pending
from vps.schema import bundled_migrations

ONE = Migration("0001_one.sql", "CREATE TABLE one (a TEXT) STRICT;\nCREATE TABLE also (a TEXT) STRICT;")
TWO = Migration("0002_two.sql", "INSERT INTO one (a) VALUES ('x');")
BROKEN = Migration("0002_two.sql", "INSERT INTO one (a) VALUES ('x');\nINSERT INTO nothing VALUES (1);")


@contextlib.asynccontextmanager
async def opened(directory: Path) -> AsyncIterator[SqliteDriver]:
    driver = SqliteDriver(directory / "titen.db")
    try:
        yield driver
    finally:
        await driver.close()


async def rows(driver: SqliteDriver, sql: str) -> Sequence[object]:
    return [next(iter(row.values())) for row in await driver.query(Statement(sql))]


def test_applies_in_order_and_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path) as driver:
            assert await migrate(driver, [TWO, ONE]) == ["0001_one.sql", "0002_two.sql"]
            assert await migrate(driver, [ONE, TWO]) == []
            assert await rows(driver, "SELECT count(*) FROM one") == [1]

    asyncio.run(main())


def test_applies_only_what_is_missing(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path) as driver:
            await migrate(driver, [ONE])
            assert await migrate(driver, [ONE, TWO]) == ["0002_two.sql"]

    asyncio.run(main())


def test_the_notes_are_in_wranglers_own_table(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path) as driver:
            await migrate(driver, [ONE, TWO])
            columns = await driver.query(
                Statement("SELECT name, type, \"notnull\" FROM pragma_table_info('d1_migrations')")
            )
            assert [tuple(row.values()) for row in columns] == [
                ("id", "INTEGER", 0),
                ("name", "TEXT", 0),
                ("applied_at", "TIMESTAMP", 1),
            ]
            assert await rows(driver, "SELECT name FROM d1_migrations ORDER BY id") == ["0001_one.sql", "0002_two.sql"]

    asyncio.run(main())


def test_a_store_that_wrangler_migrated_is_up_to_date(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path) as driver:
            await driver.script(
                "CREATE TABLE d1_migrations(id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE,"
                " applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL);"
                "INSERT INTO d1_migrations (name) VALUES ('0001_one.sql');" + ONE.sql
            )
            assert await migrate(driver, [ONE]) == []

    asyncio.run(main())


def test_a_file_that_fails_leaves_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path) as driver:
            with pytest.raises(SqlError):
                await migrate(driver, [ONE, BROKEN])
            assert await rows(driver, "SELECT count(*) FROM one") == [0]
            assert await applied(driver) == ["0001_one.sql"]
            assert await migrate(driver, [ONE, TWO]) == ["0002_two.sql"]

    asyncio.run(main())


def test_a_file_that_breaks_a_constraint_is_no_endless_loop(tmp_path: Path) -> None:
    bad = Migration("0002_two.sql", "CREATE TABLE u (a TEXT UNIQUE) STRICT;\nINSERT INTO u VALUES ('x'), ('x');")

    async def main() -> None:
        async with opened(tmp_path) as driver:
            with pytest.raises(SqlError):
                await migrate(driver, [ONE, bad])

    asyncio.run(main())


def test_two_connections_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path) as first, opened(tmp_path) as second:
            done = await asyncio.gather(*(migrate(driver, [ONE, TWO]) for driver in (first, second) * 4))
            assert sorted(name for names in done for name in names) == ["0001_one.sql", "0002_two.sql"]
            assert await rows(first, "SELECT count(*) FROM one") == [1]

    asyncio.run(main())


def test_another_applications_database(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path) as driver:
            await driver.script("CREATE TABLE notes (body TEXT)")
            with pytest.raises(MigrationRefused, match="another application"):
                await migrate(driver, [ONE])
            assert await rows(driver, "SELECT name FROM sqlite_schema") == ["notes"]

    asyncio.run(main())


def test_a_name_that_is_no_migration(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path) as driver:
            with pytest.raises(MigrationRefused, match="no migration name"):
                await migrate(driver, [Migration("0001_x'; DROP TABLE y.sql", "")])

    asyncio.run(main())


def test_pending() -> None:
    known = ["0001_a.sql", "0002_b.sql", "0003_c.sql"]
    assert pending([], known) == known
    assert pending(known[:1], known) == known[1:]
    assert pending(known, known) == []
    with pytest.raises(MigrationRefused, match=r"0009_z\.sql.*upgrade"):
        pending([*known, "0009_z.sql"], known)
    with pytest.raises(MigrationRefused, match=r"0002_b\.sql"):
        pending(["0001_a.sql", "0003_c.sql"], known)


def test_the_code_names_the_last_bundled_migration() -> None:
    assert bundled_migrations()[-1].name == LATEST_MIGRATION
