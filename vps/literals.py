"""Statements written out with their values, for a door that takes SQL text and no parameters.

The one place where values enter SQL text. Everything else binds them.
"""

import math
import re
from collections.abc import Iterator

from titen_core.errors import SqlError
from titen_core.limits import SQL_TEXT_BYTES
from titen_core.protocols import SqlValue, Statement

__all__ = ["literal", "written_out"]

_INTEGER = range(-(2**63), 2**63)
_PART = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/|\?", re.DOTALL)


def literal(value: SqlValue) -> str:
    """One value as SQLite reads it back. Raises SqlError for what no literal can say."""
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, float):
        if not math.isfinite(value):
            raise SqlError("a value is no finite number")
        return _number(repr(value), negative=value < 0)
    if value not in _INTEGER:
        raise SqlError("a number does not fit into 64 bits")
    return _number(str(int(value)), negative=value < 0)


def written_out(statement: Statement) -> str:
    """The statement with a literal in place of each `?`. Raises SqlError."""
    values = iter(statement.params)
    text = _PART.sub(lambda found: _next(values) if found[0] == "?" else found[0], statement.sql).strip()
    if next(values, values) is not values:
        raise SqlError("a statement has more parameters than places for them")
    if len(text.encode()) > SQL_TEXT_BYTES:
        raise SqlError(f"a statement is longer than {SQL_TEXT_BYTES} bytes")
    return text


def _next(values: Iterator[SqlValue]) -> str:
    for value in values:
        return literal(value)
    raise SqlError("a statement has fewer parameters than places for them")


def _text(value: str) -> str:
    if "\0" in value:
        raise SqlError("a text holds the character NUL")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise SqlError("a text holds half a surrogate pair") from None
    return "'" + value.replace("'", "''") + "'"


def _number(text: str, *, negative: bool) -> str:
    """In brackets where a minus before it would make a comment."""
    return f"({text})" if negative else text
