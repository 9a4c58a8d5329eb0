"""D1's limits, checked before a statement reaches a database: the same fault, first and in both homes.

Bounds that SQLite can hold by itself (terms of a compound SELECT, bytes of a LIKE pattern, arguments
of a function) are set on each connection; see `sqlite/connection.py`.
Source: developers.cloudflare.com/d1/platform/limits
"""

import math
from typing import Final

from titen_core.errors import SqlError
from titen_core.limits import SQL_PARAMS_COUNT, SQL_TEXT_BYTES, SQL_VALUE_BYTES
from titen_core.protocols import SqlValue, Statement

__all__ = ["check_statement"]

SAFE_INTEGER_MAX: Final = 2**53 - 1  # D1's numbers are JavaScript's
_UTF8_BYTES_MAX: Final = 4


def check_statement(statement: Statement) -> None:
    """Raises `SqlError` that names the limit; never the value."""
    _check_text(statement.sql)
    if len(statement.params) > SQL_PARAMS_COUNT:
        raise SqlError(f"a statement takes at most {SQL_PARAMS_COUNT} parameters (SQL_PARAMS_COUNT)")
    for position, value in enumerate(statement.params, 1):
        _check_value(position, value)


def _check_text(sql: str) -> None:
    if _longer_than(sql, SQL_TEXT_BYTES):
        raise SqlError(f"a statement is at most {SQL_TEXT_BYTES} bytes of SQL (SQL_TEXT_BYTES)")


def _check_value(position: int, value: SqlValue) -> None:
    match value:
        case None:
            return
        case str():
            too_long = _longer_than(value, SQL_VALUE_BYTES)
        case bytes():
            too_long = len(value) > SQL_VALUE_BYTES
        case int() | float():
            _check_number(position, value)
            return
        case _:
            raise SqlError(f"parameter {position} is a {type(value).__name__}; only text, numbers, bytes and None pass")
    if too_long:
        raise SqlError(f"parameter {position} is over {SQL_VALUE_BYTES} bytes (SQL_VALUE_BYTES)")


def _check_number(position: int, value: float) -> None:
    if isinstance(value, int):
        if abs(value) > SAFE_INTEGER_MAX:
            raise SqlError(f"parameter {position} is beyond 2^53 - 1, the largest whole number D1 keeps")
    elif not math.isfinite(value):
        raise SqlError(f"parameter {position} is not a finite number")


def _longer_than(text: str, size_bytes: int) -> bool:
    if len(text) * _UTF8_BYTES_MAX <= size_bytes:
        return False
    return len(text) > size_bytes or len(text.encode("utf-8", "surrogatepass")) > size_bytes
