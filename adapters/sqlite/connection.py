"""One way to open a connection: every setting set by itself, read back, and sqlite-vec loaded."""

import os
import time
from pathlib import Path
from typing import Final

import apsw
import sqlite_vec

from adapters.sqlite.failures import sql_error
from adapters.sqlite.mean import register_vec_mean
from titen_core.errors import SqlError
from titen_core.limits import SQL_PARAMS_COUNT

__all__ = ["create_file", "open_connection"]

STATEMENT_CACHE_COUNT: Final = 128
CACHE_KIB: Final = 4 * 1024
OPEN_RETRY_MS: Final = 20

# What D1 sets on its own connections; SQLite's defaults are wider.
_ENGINE_LIMITS: Final = (
    (apsw.SQLITE_LIMIT_VARIABLE_NUMBER, SQL_PARAMS_COUNT),
    (apsw.SQLITE_LIMIT_COMPOUND_SELECT, 5),
    (apsw.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 50),
    (apsw.SQLITE_LIMIT_FUNCTION_ARG, 32),
    (apsw.SQLITE_LIMIT_COLUMN, 100),
    (apsw.SQLITE_LIMIT_EXPR_DEPTH, 100),
)

# name, value to set, value SQLite answers when asked again
_PRAGMAS: Final[tuple[tuple[str, str | int, str | int], ...]] = (
    ("journal_mode", "WAL", "wal"),
    ("synchronous", "FULL", 2),  # an acknowledged write survives a power cut
    ("secure_delete", "ON", 1),  # FAST would leave long deleted texts readable on freed overflow pages
    ("foreign_keys", "ON", 1),
    ("temp_store", "MEMORY", 2),
    ("mmap_size", 0, 0),  # a truncating checkpoint under a mapped reader is a crash
    ("cache_size", -CACHE_KIB, -CACHE_KIB),
)


def create_file(path: Path) -> None:
    """Create the directory (0700) and the empty database file (0600) if they are missing.

    SQLite gives `-wal` and `-shm` the mode of the file. Existing ones keep theirs. Raises `SqlError`.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # O_EXCL: closing a descriptor of a database in use would drop this process's locks on it.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        raise SqlError(f"the database file cannot be created: {error.strerror}") from error


def open_connection(path: Path, *, busy_timeout_ms: int, read_only: bool) -> apsw.Connection:
    """A connection ready for use. `read_only` ones refuse every write. Raises `SqlError`."""
    try:
        connection = apsw.Connection(
            str(path), flags=apsw.SQLITE_OPEN_READWRITE, statementcachesize=STATEMENT_CACHE_COUNT
        )
    except apsw.Error as error:
        raise sql_error(error) from None
    try:
        _set_up(connection, busy_timeout_ms, read_only)
    except apsw.Error as error:
        connection.close(True)
        raise sql_error(error, system_errno=connection_errno(connection)) from None
    except SqlError:
        connection.close(True)
        raise
    return connection


def connection_errno(connection: apsw.Connection) -> int:
    """The operating system's last error on this connection, 0 when there is none."""
    try:
        return connection.system_errno
    except apsw.Error:
        return 0


def _set_up(connection: apsw.Connection, busy_timeout_ms: int, read_only: bool) -> None:
    connection.set_busy_timeout(busy_timeout_ms)
    for limit, value in _ENGINE_LIMITS:
        connection.limit(limit, value)
    for name, wanted, answer in _PRAGMAS:
        _set_pragma(connection, name, wanted, answer, busy_timeout_ms)
    _load_vec(connection)
    register_vec_mean(connection)
    if read_only:
        _set_pragma(connection, "query_only", "ON", 1, busy_timeout_ms)


def _set_pragma(connection: apsw.Connection, name: str, wanted: str | int, answer: str | int, patience_ms: int) -> None:
    # Two processes that turn a new file to WAL at once get SQLITE_BUSY without the busy timeout.
    give_up = time.monotonic() + patience_ms / 1000
    while True:
        try:
            connection.execute(f"PRAGMA {name} = {wanted}").fetchall()
            break
        except apsw.BusyError:
            if time.monotonic() >= give_up:
                raise
            time.sleep(OPEN_RETRY_MS / 1000)
    got = connection.execute(f"PRAGMA {name}").fetchall()
    if got != [(answer,)]:
        raise SqlError(_refusal(name, wanted))


def _refusal(name: str, wanted: str | int) -> str:
    if name == "journal_mode":
        return "SQLite refused WAL here, as on a network file system; put the database on a local disk"
    return f"SQLite did not accept PRAGMA {name} = {wanted}; use the SQLite that APSW ships"


def _load_vec(connection: apsw.Connection) -> None:
    connection.enable_load_extension(True)
    try:
        connection.load_extension(sqlite_vec.loadable_path())
    except apsw.ExtensionLoadingError:
        raise SqlError("sqlite-vec could not be loaded; install titen with its vps extra again") from None
    finally:
        connection.enable_load_extension(False)
