"""SQLite as a `SqlDriver`: one writer thread with group commit, a few reader threads, APSW below.

An await inside an open transaction could be cancelled and leave it open, so a batch is one call on
the writer's thread. Batches that wait there share one transaction and one fsync.
"""

import asyncio
import contextlib
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final, Generic, TypeAlias, TypeVar, cast

import apsw

from adapters.bounds import check_statement
from adapters.sqlite.connection import connection_errno, create_file, open_connection
from adapters.sqlite.failures import sql_error
from titen_core.errors import SqlBusy, SqlError
from titen_core.protocols import Row, Statement

__all__ = ["SqliteDriver"]

GROUP_BATCHES_MAX: Final = 32
WAITING_CALLS_MAX: Final = 1024
CHECKPOINT_ATTEMPTS: Final = 10
CHECKPOINT_PAUSE_MS: Final = 50
READERS_MAX: Final = 16

T = TypeVar("T")
Rows: TypeAlias = list[list[Row]]


class SqliteDriver:
    """Implements `SqlDriver` over one SQLite file.

    `query` runs on a reader connection that cannot write; `batch` on the one writer, durable when
    it returns. Safe for any number of tasks of one event loop; several processes may share a file.
    At most 1,024 calls wait for each kind of thread; one more raises `SqlBusy` at once.

    `PRAGMA optimize` is never run: query plans stay the ones asserted on an empty schema.
    """

    def __init__(self, path: str | Path, *, readers: int = 2, busy_timeout_ms: int = 5_000) -> None:
        """Open the file, creating it (0600) and its directory (0700) if missing.

        Raises `SqlError` when the file can't be opened or a setting is refused.
        """
        if not 1 <= readers <= READERS_MAX:
            raise ValueError(f"readers must be 1 to {READERS_MAX}")
        self._path = Path(path)
        self._busy_timeout_ms = busy_timeout_ms
        create_file(self._path)
        self._guard = threading.Lock()
        self._closed = False
        connections = self._open(readers)
        self._writer = _Writer(connections[0])
        self._readers = _Readers(connections[1:])

    def _open(self, readers: int) -> list[apsw.Connection]:
        opened: list[apsw.Connection] = []
        try:
            for position in range(readers + 1):
                opened.append(  # noqa: PERF401 - what was opened is closed when a later one fails
                    open_connection(self._path, busy_timeout_ms=self._busy_timeout_ms, read_only=position > 0)
                )
        except SqlError:
            for connection in opened:
                connection.close(True)
            raise
        return opened

    async def query(self, statement: Statement) -> list[Row]:
        """See `SqlDriver.query`. A statement that writes raises `SqlError`."""
        check_statement(statement)
        return await self._submit(self._readers.calls, _Call(lambda reader: _run(reader, statement)))

    async def batch(self, statements: Sequence[Statement]) -> Rows:
        """See `SqlDriver.batch`. No statements: an empty list, and no transaction."""
        for statement in statements:
            check_statement(statement)
        if not statements:
            return []
        return await self._submit(self._writer.calls, _Batch(tuple(statements)))

    async def script(self, sql: str) -> None:
        """Run a text of many statements in one transaction of its own: all or nothing.

        For migrations: D1's limits on a statement do not apply to the text as a whole.
        """
        await self._submit(self._writer.calls, _Call(lambda writer: _run_script(writer, sql)))

    async def checkpoint(self) -> None:
        """Move the whole WAL into the database file and truncate it to zero bytes.

        Raises `SqlBusy` when another process goes on reading. Idempotent.
        """
        await self._submit(self._writer.calls, _Call(_truncate_wal))

    async def integrity_check(self) -> list[str]:
        """What SQLite finds wrong with the file, one sentence each; empty when all is well."""
        return await self._submit(self._readers.calls, _Call(lambda _: self._find_damage()))

    def _find_damage(self) -> list[str]:
        # A connection of its own: FTS5 checks against the structure that a connection has cached.
        reader = open_connection(self._path, busy_timeout_ms=self._busy_timeout_ms, read_only=True)
        try:
            found = [str(row[0]) for row in reader.execute("PRAGMA integrity_check").fetchall()]
        finally:
            reader.close(True)
        return [] if found == ["ok"] else found

    async def close(self) -> None:
        """Finish the waiting calls, truncate the WAL and join the threads. Idempotent.

        Later calls raise `SqlError`.
        """
        with self._guard:
            first = not self._closed
            self._closed = True
            if first:
                self._readers.stop()
                self._writer.stop()
        await asyncio.to_thread(self._join)

    def _join(self) -> None:
        self._readers.join()
        self._writer.join()

    async def _submit(self, calls: "queue.SimpleQueue[Any]", job: "_Job[T]") -> T:
        with self._guard:
            if self._closed:
                raise SqlError("the database is closed")
            if calls.qsize() >= WAITING_CALLS_MAX:
                raise SqlBusy("too many calls wait for the database; try again")
            calls.put(job)
        return await asyncio.wrap_future(job.future)


class _Job(Generic[T]):
    """Something a thread does with its connection; `future` carries the answer to the caller's loop."""

    def __init__(self) -> None:
        self.future: Future[T] = Future()

    def claim(self) -> bool:
        """False when the caller was cancelled first; from here on nothing can cancel the job."""
        return self.future.set_running_or_notify_cancel()


class _Batch(_Job[Rows]):
    """Statements to run inside the writer's current transaction."""

    def __init__(self, statements: tuple[Statement, ...]) -> None:
        super().__init__()
        self.statements = statements


class _Call(_Job[T]):
    """Work that needs a connection outside of any transaction."""

    def __init__(self, work: Callable[[apsw.Connection], T]) -> None:
        super().__init__()
        self._work = work

    def run(self, connection: apsw.Connection) -> None:
        if not self.claim():
            return
        try:
            answer = self._work(connection)
        except Exception as error:  # the caller gets it; the thread lives on
            self.future.set_exception(_as_sql_error(error, connection))
        else:
            self.future.set_result(answer)


class _Readers:
    """Threads that each own a connection and share one queue of reading calls."""

    def __init__(self, connections: Sequence[apsw.Connection]) -> None:
        self.calls: queue.SimpleQueue[_Call[Any] | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._serve, args=(connection,), name="titen-sql-reader", daemon=True)
            for connection in connections
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        for _ in self._threads:
            self.calls.put(None)

    def join(self) -> None:
        for thread in self._threads:
            thread.join()

    def _serve(self, connection: apsw.Connection) -> None:
        while (job := self.calls.get()) is not None:
            job.run(connection)
            del job  # an answered call keeps no rows alive while the thread waits
        connection.close(True)


class _Writer:
    """The thread that owns the writing connection."""

    def __init__(self, connection: apsw.Connection) -> None:
        self.calls: queue.SimpleQueue[_Job[Any] | None] = queue.SimpleQueue()
        self._connection = connection
        self._thread = threading.Thread(target=self._serve, name="titen-sql-writer", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self.calls.put(None)

    def join(self) -> None:
        self._thread.join()

    def _serve(self) -> None:
        waiting: deque[_Job[Any] | None] = deque()
        while (job := waiting.popleft() if waiting else self.calls.get()) is not None:
            if isinstance(job, _Batch):
                _commit_group(self._connection, self._group(job, waiting))
            elif isinstance(job, _Call):
                job.run(self._connection)
            del job  # an answered call keeps no rows alive while the thread waits
        _close_writer(self._connection)

    def _group(self, first: _Batch, waiting: "deque[_Job[Any] | None]") -> list[_Batch]:
        """`first` and the batches right behind it that wait already and still have a caller."""
        while len(waiting) < GROUP_BATCHES_MAX and not self.calls.empty():
            waiting.append(self.calls.get())
        group = [first]
        while waiting and len(group) < GROUP_BATCHES_MAX and isinstance(waiting[0], _Batch):
            group.append(cast("_Batch", waiting.popleft()))
        return [batch for batch in group if batch.claim()]


def _commit_group(writer: apsw.Connection, group: Sequence[_Batch]) -> None:
    """Run the batches in one transaction, each all or nothing by itself, and answer their callers."""
    if not group:
        return
    try:
        outcomes = _run_group(writer, group)
    except _TransactionLost as lost:
        # A full disk, say, rolls everything back by itself: the neighbours get a transaction each.
        lost.batch.future.set_exception(lost.error)
        for batch in group:
            if batch is not lost.batch:
                _commit_group(writer, (batch,))
        return
    except Exception as error:  # BEGIN or COMMIT failed: nothing of the group was written
        _roll_back(writer)
        outcomes = [_as_sql_error(error, writer) for _ in group]
    for batch, outcome in zip(group, outcomes, strict=True):
        if isinstance(outcome, SqlError):
            batch.future.set_exception(outcome)
        else:
            batch.future.set_result(outcome)


class _TransactionLost(Exception):
    """`batch` failed in a way that ended the whole transaction."""

    def __init__(self, batch: _Batch, error: SqlError) -> None:
        super().__init__()
        self.batch = batch
        self.error = error


def _run_group(writer: apsw.Connection, group: Sequence[_Batch]) -> list[Rows | SqlError]:
    writer.execute("BEGIN IMMEDIATE")  # a deferred one that turns to writing ignores the busy timeout
    outcomes: list[Rows | SqlError] = []
    for batch in group:
        try:
            outcomes.append(_run_in_savepoint(writer, batch.statements))
        except SqlError as error:
            if not writer.in_transaction:
                raise _TransactionLost(batch, error) from None
            outcomes.append(error)
        except Exception as error:  # the savepoint itself failed: half a batch may be in there
            lost = _TransactionLost(batch, _as_sql_error(error, writer))
            _roll_back(writer)
            raise lost from None
    writer.execute("COMMIT" if any(isinstance(outcome, list) for outcome in outcomes) else "ROLLBACK")
    return outcomes


def _run_in_savepoint(writer: apsw.Connection, statements: Sequence[Statement]) -> Rows:
    writer.execute("SAVEPOINT batch")
    try:
        rows = [_run(writer, statement) for statement in statements]
    except SqlError:
        if writer.in_transaction:
            writer.execute("ROLLBACK TO batch")
            writer.execute("RELEASE batch")
        raise
    writer.execute("RELEASE batch")
    return rows


def _run(connection: apsw.Connection, statement: Statement) -> list[Row]:
    """Run one statement to its end; a cursor left half-way would hold its snapshot open."""
    cursor = connection.cursor()
    try:
        cursor.execute(statement.sql, statement.params)
        try:
            names = [column[0] for column in cursor.get_description()]
        except apsw.ExecutionCompleteError:
            return []
        return [dict(zip(names, row, strict=True)) for row in cursor]
    except (apsw.Error, ValueError, MemoryError) as error:
        raise sql_error(error, statement, connection_errno(connection)) from None
    finally:
        cursor.close(True)


def _run_script(writer: apsw.Connection, sql: str) -> None:
    writer.execute("BEGIN IMMEDIATE")
    try:
        for _ in writer.execute(sql):  # APSW runs the later statements only as the rows are read
            pass
        writer.execute("COMMIT")
    except BaseException:
        _roll_back(writer)
        raise


def _roll_back(writer: apsw.Connection) -> None:
    """End an open transaction. Where even that fails, the next BEGIN fails too, and nothing is lost."""
    if writer.in_transaction:
        with contextlib.suppress(apsw.Error):
            writer.execute("ROLLBACK")


def _truncate_wal(writer: apsw.Connection) -> None:
    for attempt in range(CHECKPOINT_ATTEMPTS):
        if attempt:
            time.sleep(CHECKPOINT_PAUSE_MS / 1000)
        busy, _, _ = writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0]
        if not busy:
            return
    raise SqlBusy("the write-ahead log cannot be emptied while another process reads the database; stop it")


def _close_writer(writer: apsw.Connection) -> None:
    with contextlib.suppress(apsw.Error):  # what stays in the WAL is read from there at the next start
        writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    writer.close(True)


def _as_sql_error(error: Exception, connection: apsw.Connection) -> SqlError:
    return error if isinstance(error, SqlError) else sql_error(error, system_errno=connection_errno(connection))
