"""From the text of a D1 error to the core's `SqlError` tree. No message repeats the text.

D1 has no error codes of its own: the text holds SQLite's name (`SQLITE_CONSTRAINT`) or a sentence from
https://developers.cloudflare.com/d1/observability/debug-d1/#error-list.
"""

import re
from collections.abc import Sequence
from typing import Final

from titen_core.errors import SqlBusy, SqlConstraint, SqlCorrupt, SqlError, SqlFull, SqlMissing

__all__ = ["is_transient", "sql_error"]

_TRANSIENT: Final = re.compile(
    r"network connection lost|storage caused object to be reset|reset because its code was updated"
    r"|cannot resolve d1 db due to transient issue",
    re.IGNORECASE,
)

_CLASSES: Final[Sequence[tuple[str, type[SqlError], str]]] = (
    (r"exceeded maximum (db |database )?size|database or disk is full|SQLITE_FULL", SqlFull, "the database is full"),
    (
        r"constraint failed|SQLITE_CONSTRAINT|SQLITE_MISMATCH|datatype mismatch",
        SqlConstraint,
        "a constraint refused the batch",
    ),
    (r"no such (table|column)|has no column named", SqlMissing, "a table or column does not exist"),
    (
        r"SQLITE_CORRUPT|SQLITE_NOTADB|disk image is malformed|vtable constructor failed",
        SqlCorrupt,
        "the database or an index is malformed",
    ),
    (
        r"overloaded|too many (api )?(requests|queries)|SQLITE_BUSY|SQLITE_LOCKED|exceeded timeout|timed? ?out",
        SqlBusy,
        "the database is overloaded; try again",
    ),
)
_KNOWN: Final = [(re.compile(pattern, re.IGNORECASE), kind, sentence) for pattern, kind, sentence in _CLASSES]
_CODE: Final = re.compile(r"SQLITE_[A-Z_]+")


def sql_error(text: str) -> SqlError:
    """The `SqlError` that says what D1's text says, with SQLite's code where the text names one."""
    if is_transient(text):
        return SqlBusy("the database did not answer; whether a batch was written is not known")
    for pattern, kind, sentence in _KNOWN:
        if pattern.search(text):
            return kind(_with_code(sentence, text))
    return SqlError(_with_code("D1 could not run the statement", text))


def is_transient(text: str) -> bool:
    """Whether D1 asks for another try. It does not say whether the first one had an effect."""
    return _TRANSIENT.search(text) is not None


def _with_code(sentence: str, text: str) -> str:
    codes = _CODE.findall(text)
    return f"{sentence} ({codes[-1]})" if codes else sentence
