"""From an APSW exception to the core's `SqlError` tree, without a parameter's value in any message."""

import errno
import re
from collections.abc import Sequence
from typing import Final

import apsw

from titen_core.errors import SqlBusy, SqlConstraint, SqlCorrupt, SqlError, SqlFull, SqlMissing
from titen_core.protocols import SqlValue, Statement

__all__ = ["sql_error"]

_MISSING: Final = re.compile(r"no such (table|column)|has no column named")
_VTAB_BROKEN: Final = "vtable constructor failed"
_DISK_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})  # EFBIG: the file may not grow
_FULL_RESULTS: Final = frozenset({apsw.SQLITE_FULL, apsw.SQLITE_IOERR_SHMSIZE})

_CLASSES: Final[Sequence[tuple[tuple[type[Exception], ...], type[SqlError], str]]] = (
    ((apsw.BusyError, apsw.LockedError), SqlBusy, "another process holds the database; try again"),
    ((apsw.FullError,), SqlFull, "the disk, or the database's page limit, is full; free some space"),
    ((apsw.ConstraintError, apsw.MismatchError), SqlConstraint, "a constraint refused the batch"),
    (
        (apsw.CorruptError, apsw.NotADBError, apsw.FormatError),
        SqlCorrupt,
        "the database or an index is malformed",
    ),
    ((apsw.ReadOnlyError,), SqlError, "a query may not write, and a read-only file takes no batch"),
)


def sql_error(error: Exception, statement: Statement | None = None, system_errno: int = 0) -> SqlError:
    """The `SqlError` that says what `error` says. `system_errno` is the connection's last one."""
    kind, sentence = _classify(error, system_errno)
    detail = _safe_detail(error, statement)
    return kind(f"{sentence} ({detail})")


def _classify(error: Exception, system_errno: int) -> tuple[type[SqlError], str]:
    if _says_full(error, system_errno):
        return SqlFull, "the disk is full; free some space"
    for raised, kind, sentence in _CLASSES:
        if isinstance(error, raised):
            return kind, sentence
    if isinstance(error, apsw.SQLError):
        return _classify_logic_error(str(error))
    return SqlError, "SQLite could not run the statement"


def _says_full(error: Exception, system_errno: int) -> bool:
    if not isinstance(error, apsw.IOError | apsw.CantOpenError):
        return False
    return system_errno in _DISK_FULL or getattr(error, "extendedresult", None) in _FULL_RESULTS


def _classify_logic_error(message: str) -> tuple[type[SqlError], str]:
    if _MISSING.search(message):
        return SqlMissing, "a table or column does not exist"
    if _VTAB_BROKEN in message:
        return SqlCorrupt, "a virtual table has lost its storage"
    return SqlError, "SQLite could not run the statement"


def _safe_detail(error: Exception, statement: Statement | None) -> str:
    """SQLite's own words where they come from the SQL text or the schema, else only its code.

    FTS5 and JSON messages may quote a parameter: `fts5: syntax error near "..."`.
    """
    code = _code(error)
    if not isinstance(error, apsw.Error):
        return code
    message = str(error)
    if statement is not None and _quotes_a_parameter(message, statement):
        return code
    return f"{code}: {message}"


def _code(error: Exception) -> str:
    result: int | None = getattr(error, "extendedresult", None)
    if not result:
        return type(error).__name__
    return str(apsw.mapping_extended_result_codes.get(result) or apsw.mapping_result_codes.get(result))


def _quotes_a_parameter(message: str, statement: Statement) -> bool:
    foreign = [word for word in re.findall(r"\w+", message) if word not in statement.sql]
    values = [_text_of(value) for value in statement.params if value is not None]
    return any(word in value for word in foreign for value in values)


def _text_of(value: SqlValue) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
