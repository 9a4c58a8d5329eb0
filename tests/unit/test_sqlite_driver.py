"""The SQLite driver on real files: atomic, durable, bounded, and clear about what went wrong."""

import asyncio
import json
import multiprocessing
import stat
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import apsw
import pytest

from adapters.sqlite import connection as connection_module
from adapters.sqlite import driver as driver_module
from adapters.sqlite.driver import SqliteDriver
from tests.unit.sqlite_rows import MIGRATION, memory, tenant
from titen_core.errors import SqlBusy, SqlConstraint, SqlCorrupt, SqlError, SqlFull, SqlMissing
from titen_core.limits import SQL_PARAMS_COUNT, SQL_TEXT_BYTES, SQL_VALUE_BYTES
from titen_core.protocols import SqlValue, Statement

T = TypeVar("T")
SECRET = "hunter2secret"


def with_driver(path: Path, use: Callable[[SqliteDriver], Awaitable[T]], busy_timeout_ms: int = 5_000) -> T:
    async def run() -> T:
        driver = SqliteDriver(path, busy_timeout_ms=busy_timeout_ms)
        try:
            if not await driver.query(Statement("SELECT 1 FROM sqlite_schema WHERE name = 'tenants'")):
                await driver.script(MIGRATION.read_text(encoding="utf-8"))
            return await use(driver)
        finally:
            await driver.close()

    return asyncio.run(run())


def meta(key: str, value: str = "v") -> Statement:
    return Statement("INSERT INTO titen_meta (key, value) VALUES (?, ?)", (key, value))


async def keys(driver: SqliteDriver) -> list[SqlValue]:
    return [row["key"] for row in await driver.query(Statement("SELECT key FROM titen_meta ORDER BY key"))]


def beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def size_of(path: Path) -> int | None:
    return path.stat().st_size if path.exists() else None


def bytes_of(path: Path) -> bytes:
    return path.read_bytes()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new" / "titen.db"


def test_batch_returns_the_rows_of_each_statement(path: Path) -> None:
    async def use(driver: SqliteDriver) -> None:
        returning = Statement("INSERT INTO titen_meta VALUES (?, ?) RETURNING key, value", ("a", "1"))
        count = Statement("SELECT count(*) AS n FROM titen_meta")
        assert await driver.batch([returning, meta("b"), count]) == [
            [{"key": "a", "value": "1"}],
            [],
            [{"n": 2}],
        ]
        assert await driver.batch([]) == []

    with_driver(path, use)


def test_a_failing_statement_leaves_nothing_of_its_batch(path: Path) -> None:
    async def use(driver: SqliteDriver) -> None:
        with pytest.raises(SqlConstraint, match=r"titen_meta\.key"):
            await driver.batch([meta("a"), meta("a"), meta("b")])
        with pytest.raises(SqlError, match="malformed JSON"):
            await driver.batch([meta("a"), Statement("SELECT json(?)", (SECRET,))])
        assert await keys(driver) == []

    with_driver(path, use)


def test_neighbours_of_a_failing_batch_commit_in_the_same_group(path: Path) -> None:
    async def use(driver: SqliteDriver) -> None:
        good = [driver.batch([meta(f"g{n:02}"), meta(f"h{n:02}")]) for n in range(20)]
        bad = [driver.batch([meta(f"x{n}"), meta(f"x{n}")]) for n in range(20)]
        pairs = [call for pair in zip(good, bad, strict=True) for call in pair]
        answers = await asyncio.gather(*pairs, return_exceptions=True)
        assert all(isinstance(answer, list) for answer in answers[::2])
        assert all(isinstance(answer, SqlConstraint) for answer in answers[1::2])
        assert len(await keys(driver)) == 40

    with_driver(path, use)


def test_no_batch_of_eight_busy_tasks_is_lost(path: Path) -> None:
    async def use(driver: SqliteDriver) -> None:
        async def write(task: int) -> None:
            for number in range(200):
                await driver.batch([meta(f"{task}-{number}"), meta(f"{task}-{number}-b")])

        await asyncio.gather(*(write(task) for task in range(8)))
        assert len(await keys(driver)) == 8 * 200 * 2

    with_driver(path, use)


def _write_from_another_process(path: str, name: str) -> None:
    async def use(driver: SqliteDriver) -> None:
        async def write(task: int) -> None:
            for number in range(50):
                await driver.batch([meta(f"{name}-{task}-{number}")])

        await asyncio.gather(*(write(task) for task in range(4)))

    with_driver(Path(path), use, busy_timeout_ms=30_000)


def test_two_processes_share_one_file(path: Path) -> None:
    async def nothing(driver: SqliteDriver) -> None:
        assert await keys(driver) == []

    with_driver(path, nothing)
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=_write_from_another_process, args=(str(path), name)) for name in ("a", "b")]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    assert len(with_driver(path, keys)) == 2 * 4 * 50


def test_a_foreign_writer_means_busy_then_recovery(path: Path) -> None:
    async def use(driver: SqliteDriver) -> None:
        foreign = apsw.Connection(str(path))
        foreign.execute("BEGIN IMMEDIATE")
        answers = await asyncio.gather(driver.batch([meta("a")]), driver.batch([meta("b")]), return_exceptions=True)
        assert [type(answer) for answer in answers] == [SqlBusy, SqlBusy]
        foreign.execute("ROLLBACK")
        foreign.close()
        await driver.batch([meta("a")])
        assert await keys(driver) == ["a"]

    with_driver(path, use, busy_timeout_ms=20)


def test_a_cancelled_caller_leaves_its_batch_whole(path: Path) -> None:
    async def use(driver: SqliteDriver) -> None:
        tasks = [asyncio.create_task(driver.batch([meta(f"{n}"), meta(f"{n}b")])) for n in range(50)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await driver.batch([meta("after")])
        written = {str(key) for key in await keys(driver)}
        assert all((f"{n}" in written) == (f"{n}b" in written) for n in range(50))
        assert all(f"{n}" in written for n in range(1, 50, 2))

    with_driver(path, use)


def test_a_query_cannot_write(path: Path) -> None:
    async def use(driver: SqliteDriver) -> None:
        with pytest.raises(SqlError, match="may not write"):
            await driver.query(meta("a"))
        plan = await driver.query(Statement("EXPLAIN QUERY PLAN SELECT * FROM titen_meta WHERE key = ?", ("a",)))
        assert "USING INDEX" in str(plan[0]["detail"])

    with_driver(path, use)


def test_new_files_are_private(path: Path) -> None:
    async def use(driver: SqliteDriver) -> None:
        await driver.batch([meta("a")])
        assert mode_of(path.parent) == 0o700
        for suffix in ("", "-wal", "-shm"):
            assert mode_of(beside(path, suffix)) == 0o600

    with_driver(path, use)


def test_every_connection_has_its_settings(path: Path) -> None:
    path.parent.mkdir()
    connection_module.create_file(path)
    for read_only in (False, True):
        connection = connection_module.open_connection(path, busy_timeout_ms=1, read_only=read_only)
        settings = {"journal_mode": "wal", "synchronous": 2, "secure_delete": 1, "foreign_keys": 1}
        for name, value in {
            **settings,
            "temp_store": 2,
            "mmap_size": 0,
            "query_only": int(read_only),
        }.items():
            assert connection.pragma(name) == value
        assert connection.execute("SELECT vec_version()").fetchall()
        with pytest.raises(apsw.SQLError, match="not authorized"):
            connection.execute("SELECT load_extension('x')")
        connection.close()


def test_a_refused_setting_says_what_to_do(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "_PRAGMAS", (("journal_mode", "MEMORY", "wal"),))
    with pytest.raises(SqlError, match="put the database on a local disk"):
        SqliteDriver(path)


def test_a_file_that_is_no_database_is_called_corrupt(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"not a database at all" * 500)
    with pytest.raises(SqlCorrupt):
        SqliteDriver(path)


@pytest.mark.parametrize(
    ("statement", "limit"),
    [
        (Statement("SELECT 1", (1,) * (SQL_PARAMS_COUNT + 1)), "SQL_PARAMS_COUNT"),
        (Statement("SELECT 1 --" + "é" * (SQL_TEXT_BYTES // 2)), "SQL_TEXT_BYTES"),
        (Statement("SELECT ?", ("é" * (SQL_VALUE_BYTES // 2 + 1),)), "SQL_VALUE_BYTES"),
        (Statement("SELECT ?", (b"x" * (SQL_VALUE_BYTES + 1),)), "SQL_VALUE_BYTES"),
        (Statement("SELECT ?", (2**53,)), "2\\^53"),
        (Statement("SELECT ?", (float("nan"),)), "finite"),
        (Statement("SELECT ?", ([1],)), "list"),  # type: ignore[arg-type]
        (Statement("SELECT ?", ("\ud800",)), "UnicodeEncodeError"),
        (Statement("SELECT ?", (1, 2)), "Bindings"),
        (Statement("SELECT 1 UNION " * 5 + "SELECT 1"), "compound SELECT"),
        (Statement("SELECT 'a' LIKE ?", ("x" * 51,)), "LIKE"),
        (Statement(f"SELECT json_array({', '.join('1' * 33)})"), "too many arguments"),
    ],
)
def test_limits_of_d1_hold_here_too(path: Path, statement: Statement, limit: str) -> None:
    async def use(driver: SqliteDriver) -> None:
        for call in (driver.query(statement), driver.batch([statement])):
            with pytest.raises(SqlError, match=limit):
                await call

    with_driver(path, use)


def test_values_at_the_limit_pass(path: Path) -> None:
    async def use(driver: SqliteDriver) -> None:
        fit = Statement("SELECT length(?) AS n, ? AS i", ("x" * SQL_VALUE_BYTES, 2**53 - 1))
        assert await driver.query(fit) == [{"n": SQL_VALUE_BYTES, "i": 2**53 - 1}]

    with_driver(path, use)


def test_messages_never_hold_a_value(path: Path) -> None:
    match = "SELECT rowid FROM memory_text WHERE memory_text MATCH ?"
    faults = (
        Statement(match, (f"{SECRET}:x",)),
        Statement(match, (f'"{SECRET}',)),
        Statement(match, (f"{SECRET} AND {SECRET[:7]}) (",)),
        Statement("SELECT json(?)", (SECRET,)),
        Statement("SELECT vec_distance_cosine(?, ?)", (SECRET, SECRET)),
        Statement("INSERT INTO tenants VALUES (?, ?, ?, ?)", (SECRET, SECRET, SECRET, SECRET)),
    )

    async def use(driver: SqliteDriver) -> None:
        for fault in faults:
            with pytest.raises(SqlError) as caught:
                await driver.batch([fault])
            assert SECRET[:7] not in str(caught.value)
            assert caught.value.__cause__ is None

    with_driver(path, use)


def test_missing_tables_and_columns_are_named(path: Path) -> None:
    async def use(driver: SqliteDriver) -> None:
        with pytest.raises(SqlMissing, match="no such table: nope"):
            await driver.query(Statement("SELECT 1 FROM nope"))
        with pytest.raises(SqlMissing, match="no such column: nope"):
            await driver.query(Statement("SELECT nope FROM tenants"))

    with_driver(path, use)


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        ("DROP TABLE memory_text", SqlMissing),
        ("DELETE FROM memory_text_data", SqlCorrupt),
        ("DROP TABLE memory_text_data", SqlError),
    ],
)
def test_a_damaged_text_index_is_told_apart(path: Path, damage: str, expected: type[SqlError]) -> None:
    add = Statement("INSERT INTO memory_text (rowid, terms) VALUES (?, ?)", (1, "word other"))
    find = Statement("SELECT rowid FROM memory_text WHERE memory_text MATCH ?", ("word",))

    async def use(driver: SqliteDriver) -> None:
        await driver.batch([add])
        assert len(await driver.query(find)) == 1

    with_driver(path, use)
    breaker = apsw.Connection(str(path))
    breaker.execute(damage)
    breaker.close()

    async def use_again(driver: SqliteDriver) -> None:
        with pytest.raises(expected):
            await driver.query(find)
        with pytest.raises(SqlError):
            await driver.batch([meta("a"), Statement(find.sql, find.params)])
        assert await keys(driver) == []

    with_driver(path, use_again)


def test_a_full_database_fails_only_what_does_not_fit(path: Path) -> None:
    async def use(driver: SqliteDriver) -> None:
        (pages,) = await driver.query(Statement("PRAGMA page_count"))
        await driver.script(f"PRAGMA max_page_count = {int(str(pages['page_count'])) + 20}")
        big = driver.batch([meta("big", "x" * 500_000)])
        answers = await asyncio.gather(
            driver.batch([meta("a")]), big, driver.batch([meta("b")]), return_exceptions=True
        )
        assert isinstance(answers[1], SqlFull)
        assert await keys(driver) == ["a", "b"]
        await driver.batch([meta("c")])
        assert await driver.integrity_check() == []

    with_driver(path, use)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    mount = tmp_path / "disk"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(mount)]
    try:
        done = subprocess.run(command, capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command here")
    if done.returncode:
        pytest.skip("mounting a tmpfs is not permitted here")
    yield mount
    subprocess.run(["umount", str(mount)], check=True)


async def fill(driver: SqliteDriver) -> int:
    """Write until the disk is full; how many batches were acknowledged before."""
    for number in range(100):
        try:
            await driver.batch([meta(f"k{number:03}", "x" * 100_000)])
        except SqlFull:
            return number
    raise AssertionError("the disk never filled up")


def test_a_full_disk_is_said_and_survived(small_disk: Path) -> None:
    async def use(driver: SqliteDriver) -> None:
        written = await fill(driver)
        assert len(await keys(driver)) == written
        await driver.batch([Statement("DELETE FROM titen_meta")])
        await driver.checkpoint()
        await driver.batch([meta("again")])
        assert await keys(driver) == ["again"]
        assert await driver.integrity_check() == []

    filler = small_disk / "filler"
    filler.write_bytes(b"x" * 400_000)

    async def use_and_make_room(driver: SqliteDriver) -> None:
        await fill(driver)
        kept = await keys(driver)
        filler.unlink()
        await driver.batch([meta("more")])
        assert await keys(driver) == [*kept, "more"]
        assert await driver.integrity_check() == []

    with_driver(small_disk / "titen.db", use_and_make_room)


def test_a_script_is_all_or_nothing(path: Path) -> None:
    async def use(driver: SqliteDriver) -> None:
        with pytest.raises(SqlMissing):
            await driver.script("CREATE TABLE one (x); SELECT 1; INSERT INTO nope VALUES (1); CREATE TABLE two (x);")
        await driver.script("CREATE TABLE three (x); INSERT INTO three VALUES (1); SELECT * FROM three;")
        names = Statement("SELECT name FROM sqlite_schema WHERE name IN ('one', 'two', 'three')")
        assert await driver.query(names) == [{"name": "three"}]
        assert await driver.query(Statement("SELECT x FROM three")) == [{"x": 1}]

    with_driver(path, use)


def test_a_checkpoint_empties_the_wal_or_names_the_blocker(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_module, "CHECKPOINT_PAUSE_MS", 1)

    async def use(driver: SqliteDriver) -> None:
        await driver.batch([meta("a")])
        await driver.checkpoint()
        assert size_of(beside(path, "-wal")) == 0
        foreign = apsw.Connection(str(path))
        foreign.execute("BEGIN")
        foreign.execute("SELECT * FROM titen_meta").fetchall()
        await driver.batch([meta("b")])
        with pytest.raises(SqlBusy, match="another process"):
            await driver.checkpoint()
        foreign.execute("COMMIT")
        await driver.checkpoint()
        foreign.close()
        assert size_of(beside(path, "-wal")) == 0

    with_driver(path, use, busy_timeout_ms=5)


def test_deleted_content_leaves_no_trace_after_a_checkpoint(path: Path) -> None:
    # Fails with secure_delete=FAST: whole pages that become free keep what they held.
    async def use(driver: SqliteDriver) -> None:
        rows = [memory("t1", n, content=f"{SECRET} {n} " * 50) for n in range(40)]
        await driver.batch([tenant("t1"), *rows])
        await driver.batch([Statement("DELETE FROM memories WHERE tenant_id = ?", ("t1",))])
        await driver.checkpoint()
        assert SECRET.encode() not in bytes_of(path)

    with_driver(path, use)


def test_integrity_check_reports_damage(path: Path) -> None:
    async def use(driver: SqliteDriver) -> None:
        assert await driver.integrity_check() == []
        await driver.batch([Statement("INSERT INTO memory_text (rowid, terms) VALUES (1, 'word')")])
        await driver.script("DELETE FROM memory_text_data WHERE id > 10")
        assert await driver.integrity_check() != []

    with_driver(path, use)


def test_close_waits_for_what_was_asked(path: Path) -> None:
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
    slow = f"{numbers} SELECT sum(i) AS s FROM n"

    async def run() -> None:
        driver = SqliteDriver(path, readers=3)
        await driver.script(MIGRATION.read_text(encoding="utf-8"))
        searches = [asyncio.create_task(driver.query(Statement(slow))) for _ in range(32)]
        writes = [asyncio.create_task(driver.batch([meta(f"{n}")])) for n in range(8)]
        await asyncio.sleep(0)
        await asyncio.gather(driver.close(), driver.close())
        answers = await asyncio.gather(*searches)
        await asyncio.gather(*writes)
        assert answers == [[{"s": 200010000}]] * 32
        await driver.close()
        for call in (driver.query(Statement(slow)), driver.batch([meta("x")]), driver.checkpoint()):
            with pytest.raises(SqlError, match="closed"):
                await call
        assert size_of(beside(path, "-wal")) is None

    asyncio.run(run())
    assert len(with_driver(path, keys)) == 8


def test_too_many_waiting_calls_are_told_at_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_module, "WAITING_CALLS_MAX", 2)

    async def use(driver: SqliteDriver) -> None:
        calls = (driver.batch([meta(f"{n}")]) for n in range(200))
        answers = await asyncio.gather(*calls, return_exceptions=True)
        refused = sum(isinstance(answer, SqlBusy) for answer in answers)
        assert refused
        assert len(await keys(driver)) == 200 - refused

    with_driver(path, use)


def test_one_driver_serves_one_loop_after_another(path: Path) -> None:
    driver = SqliteDriver(path)
    assert asyncio.run(driver.query(Statement("SELECT 1 AS a"))) == [{"a": 1}]
    assert asyncio.run(driver.query(Statement("SELECT 2 AS a"))) == [{"a": 2}]
    asyncio.run(driver.close())


def test_a_killed_process_loses_no_acknowledged_batch(path: Path) -> None:
    program = f"""
import asyncio, json, os, sys
from adapters.sqlite.driver import SqliteDriver
from titen_core.protocols import Statement
async def main():
    driver = SqliteDriver({str(path)!r})
    await driver.script("CREATE TABLE kept (n INTEGER PRIMARY KEY)")
    for n in range(20):
        await driver.batch([Statement("INSERT INTO kept VALUES (?)", (n,))])
        print(json.dumps(n), flush=True)
    os.kill(os.getpid(), 9)
asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    acknowledged = [json.loads(line) for line in done.stdout.splitlines()]
    assert acknowledged == list(range(20))

    async def use(driver: SqliteDriver) -> None:
        rows = await driver.query(Statement("SELECT n FROM kept ORDER BY n"))
        assert [row["n"] for row in rows] == acknowledged

    with_driver(path, use)
