"""What one request cost, for its log line: milliseconds by dependency, and counts."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Literal

from titen_core.models import Fingerprint
from titen_core.protocols import ModelGateway, Row, SqlDriver, Statement, Vector

__all__ = ["Trace", "TracedDriver", "TracedGateway", "current_trace", "measured", "traced"]


@dataclass(slots=True)
class Trace:
    """Collected while a request runs. Holds numbers and flags only."""

    durations_ms: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    flags: dict[str, str] = field(default_factory=dict)


_CURRENT: ContextVar[Trace | None] = ContextVar("titen_trace", default=None)


def current_trace() -> Trace:
    """The running request's trace, or one that nobody reads."""
    return _CURRENT.get() or Trace()


@contextmanager
def traced(trace: Trace) -> Iterator[Trace]:
    """Make `trace` the current one; tasks started inside share it."""
    token = _CURRENT.set(trace)
    try:
        yield trace
    finally:
        _CURRENT.reset(token)


@contextmanager
def measured(dependency: str) -> Iterator[None]:
    """Add the time spent inside to the current trace."""
    started = time.perf_counter()
    try:
        yield
    finally:
        trace = current_trace()
        spent_ms = (time.perf_counter() - started) * 1000
        trace.durations_ms[dependency] = trace.durations_ms.get(dependency, 0.0) + spent_ms
        trace.counts[dependency] = trace.counts.get(dependency, 0) + 1


@dataclass(frozen=True, slots=True)
class TracedDriver:
    """A SqlDriver that counts and times its calls."""

    driver: SqlDriver

    async def query(self, statement: Statement) -> list[Row]:
        with measured("sql"):
            return await self.driver.query(statement)

    async def batch(self, statements: Sequence[Statement]) -> list[list[Row]]:
        with measured("sql"):
            return await self.driver.batch(statements)


@dataclass(frozen=True, slots=True)
class TracedGateway:
    """A ModelGateway that counts and times its calls."""

    gateway: ModelGateway

    async def fingerprint(self) -> Fingerprint:
        return await self.gateway.fingerprint()

    async def embed(
        self, texts: Sequence[str], *, purpose: Literal["memory", "query"], deadline_ms: int
    ) -> list[Vector]:
        with measured("embed"):
            return await self.gateway.embed(texts, purpose=purpose, deadline_ms=deadline_ms)

    async def close(self) -> None:
        await self.gateway.close()
