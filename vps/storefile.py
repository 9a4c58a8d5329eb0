"""Opening the store's file, with its foreseeable faults as sentences."""

import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

from adapters.sqlite.driver import SqliteDriver
from titen_core.errors import SqlBusy, SqlCorrupt, SqlError, SqlFull, SqlMissing
from vps.faults import Fault
from vps.schema import check_schema

__all__ = ["open_database", "open_store_file", "require_file", "sql_fault"]

READERS = 2
READERS_SERVING = 4


@contextlib.asynccontextmanager
async def open_store_file(path: Path, *, readers: int = READERS) -> AsyncIterator[SqliteDriver]:
    """The driver of an existing store with this version's schema, closed at the end. Raises Fault."""
    require_file(path)
    async with open_database(path, readers=readers) as driver:
        await check_schema(driver, path)
        yield driver


@contextlib.asynccontextmanager
async def open_database(path: Path, *, readers: int = READERS) -> AsyncIterator[SqliteDriver]:
    """The driver of the file, created if it is missing, whatever its schema. Raises Fault.

    SqlErrors raised inside become Faults too.
    """
    try:
        driver = _open(path, readers)
        try:
            yield driver
        finally:
            await driver.close()
    except SqlError as failure:
        raise sql_fault(failure, path) from None


def sql_fault(failure: SqlError, path: Path) -> Fault:
    """What a driver's error means to the person who named the file."""
    if isinstance(failure, SqlBusy):
        return Fault(f"{path} is held by another process; try again, or stop that process.")
    if isinstance(failure, SqlFull):
        return Fault(f"The disk that holds {path} is full; free some space and try again.")
    if isinstance(failure, SqlCorrupt):
        return Fault(f"{path} is not a Titen store or is damaged; name another file or restore a backup.")
    if isinstance(failure, SqlMissing):
        return Fault(f"{path} lacks a table that it should have; run `titen repair --db {path}`, or restore a backup.")
    return Fault(f"{path} cannot be used: {failure}.")


def _open(path: Path, readers: int) -> SqliteDriver:
    _require_usable(path)
    return SqliteDriver(path, readers=readers)


def require_file(path: Path) -> None:
    """Raises Fault where there is no file."""
    if not path.exists():
        raise Fault(f"There is no store at {path}; create one with `titen init --db {path}`.")


def _require_usable(path: Path) -> None:
    """SQLite says "unable to open database file" to all of these; a person wants to know which."""
    if path.is_dir():
        raise Fault(f"{path} is a directory; name a file, such as {path / 'titen.db'}.")
    if path.exists():
        if not os.access(path, os.R_OK | os.W_OK):
            raise Fault(f"{path} cannot be read and written by this user; change its owner or name another file.")
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise Fault(f"The directory {path.parent} cannot be written; SQLite keeps its log beside the store.")
        return
    standing = next((parent for parent in path.absolute().parents if parent.exists()), Path("/"))
    if not standing.is_dir() or not os.access(standing, os.W_OK | os.X_OK):
        raise Fault(f"{path} cannot be created: {standing} cannot be written by this user; name another place.")
