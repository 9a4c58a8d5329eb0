"""D1 as a `SqlDriver`.

What may be repeated after a transient error is decided here once (docs/decisions/0021): reading, up to
`ATTEMPTS_MAX` times. A batch that writes is never sent twice: its first try may have been committed, and
another caller may have changed or deleted the row since.
"""

import asyncio
import random
import re
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeVar

from adapters.bounds import check_statement
from adapters.cloudflare.bindings import BindingError, D1Binding
from adapters.cloudflare.failures import is_transient, sql_error
from titen_core.errors import SqlError
from titen_core.protocols import Row, Statement

__all__ = ["D1Driver", "Queries", "count_queries"]

ATTEMPTS_MAX: Final = 3
SQL_KEPT: Final = 64  # texts of statements, at most a few KiB each
PAUSE_MS: Final = 40  # before the second attempt; twice that before the third

_READING: Final = re.compile(r"\s*(SELECT|WITH)\b", re.IGNORECASE)
_WRITING: Final = re.compile(r"\b(INSERT|UPDATE|DELETE|REPLACE)\b", re.IGNORECASE)

T = TypeVar("T")


@dataclass(slots=True)
class Queries:
    """How many statements were sent: each of a batch and each attempt counts, as it does for D1's limits."""

    made: int = 0


_QUERIES: ContextVar[Queries | None] = ContextVar("titen_d1_queries", default=None)


def count_queries() -> Queries:
    """Count from here on what the running request, and the tasks it starts, send."""
    queries = Queries()
    _QUERIES.set(queries)
    return queries


class D1Driver:
    """Implements `SqlDriver` over a D1 binding. Holds no connection and no state."""

    def __init__(self, database: D1Binding) -> None:
        self._database = database

    async def query(self, statement: Statement) -> list[Row]:
        """See `SqlDriver.query`. Repeated after a transient error."""
        _check(statement)
        return await _answered(lambda: self._database.query(statement), statements=1, repeatable=True)

    async def batch(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """See `SqlDriver.batch`. No statements: an empty list, since D1 refuses such a batch.

        `SqlBusy` may mean that the batch was written and its answer lost.
        """
        for statement in statements:
            _check(statement)
        if not statements:
            return []
        return await _answered(
            lambda: self._database.batch(statements),
            statements=len(statements),
            repeatable=all(_only_reads(statement.sql) for statement in statements),
        )


async def _answered(call: Callable[[], Awaitable[T]], *, statements: int, repeatable: bool) -> T:
    queries = _QUERIES.get()
    for attempt in range(1, ATTEMPTS_MAX + 1):
        if queries is not None:
            queries.made += statements
        try:
            return await call()
        except BindingError as failure:
            text = str(failure)
            if not repeatable or attempt == ATTEMPTS_MAX or not is_transient(text):
                raise sql_error(text) from None
        await asyncio.sleep(PAUSE_MS * attempt * random.uniform(0.5, 1.5) / 1000)  # noqa: S311 - spreads load
    raise AssertionError("the last attempt returns or raises")


@lru_cache(maxsize=SQL_KEPT)
def _only_reads(sql: str) -> bool:
    return bool(_READING.match(sql)) and not _WRITING.search(sql)


def _check(statement: Statement) -> None:
    check_statement(statement)
    for position, value in enumerate(statement.params, 1):
        if isinstance(value, str) and not _is_unicode(value):
            raise SqlError(f"parameter {position} holds half a surrogate pair, which D1 would silently replace")


def _is_unicode(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
