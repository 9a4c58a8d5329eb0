"""A whole kernel on a real SQLite file, for tests of use cases: `async with open_kernel(tmp_path) as kernel`."""

import contextlib
import hashlib
import math
from array import array
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, cast

from adapters.sqlite.driver import SqliteDriver
from adapters.sqlite.vec import SqliteVecIndex
from titen_core.errors import ModelError
from titen_core.ids import new_id, system_clock
from titen_core.kernel import Kernel
from titen_core.models import Access, Actor, Fingerprint, PrincipalKind
from titen_core.protocols import ModelGateway, Row, SqlDriver, Statement, Vector
from titen_core.semantics import Semantics
from titen_core.sql.store import open_store

__all__ = ["FailingDriver", "Killed", "WordModel", "make_access", "open_driver", "open_kernel", "over"]

MIGRATIONS = Path(__file__).parents[2] / "migrations"


@dataclass
class WordModel:
    """A `ModelGateway` whose vectors count hashed words: equal words are near, and nothing is random."""

    name: str = "words"
    dimensions: int = 16
    refuses: Callable[[str], ModelError | None] = lambda text: None
    calls: list[list[str]] = field(default_factory=list)

    async def fingerprint(self) -> Fingerprint:
        return Fingerprint("test", self.name, self.dimensions)

    async def embed(
        self, texts: Sequence[str], *, purpose: Literal["memory", "query"], deadline_ms: int
    ) -> list[Vector]:
        self.calls.append(list(texts))
        for text in texts:
            refusal = self.refuses(text)
            if refusal is not None:
                raise refusal
        return [self._vector(text) for text in texts]

    async def close(self) -> None:
        return None

    def _vector(self, text: str) -> Vector:
        values = [1e-3] * self.dimensions
        for word in f"{self.name} {text}".lower().split():
            values[hashlib.sha256(word.encode()).digest()[0] % self.dimensions] += 1.0
        length = math.sqrt(math.fsum(value * value for value in values))
        return array("f", (value / length for value in values))


class Killed(BaseException):
    """What a process that is killed would have been: nothing handles it."""


@dataclass
class FailingDriver:
    """A driver that dies right before its n-th batch, or right after the batch was written."""

    inner: SqlDriver
    batches_left: int
    written: bool

    async def query(self, statement: Statement) -> list[Row]:
        return await self.inner.query(statement)

    async def batch(self, statements: Sequence[Statement]) -> list[list[Row]]:
        self.batches_left -= 1
        if self.batches_left < 0 and not self.written:
            raise Killed
        rows = await self.inner.batch(statements)
        if self.batches_left < 0:
            raise Killed
        return rows


@contextlib.asynccontextmanager
async def open_driver(directory: Path) -> AsyncIterator[SqliteDriver]:
    """A migrated database at `titen.db` in the directory, closed at the end."""
    path = directory / "titen.db"
    is_new = not path.exists()
    driver = SqliteDriver(path)
    try:
        if is_new:
            for migration in sorted(MIGRATIONS.glob("*.sql")):
                await driver.script(migration.read_text())
        yield driver
    finally:
        await driver.close()


def over(driver: SqlDriver, gateway: ModelGateway | None = None) -> Kernel:
    """A kernel over any driver of a SQLite file; without a gateway recall is by text only."""
    store = open_store(driver)

    def index_for(fingerprint: Fingerprint) -> SqliteVecIndex:
        return SqliteVecIndex(cast("SqliteDriver", driver), fingerprint)

    return Kernel(store, Semantics(store.meta, gateway, index_for, system_clock))


@contextlib.asynccontextmanager
async def open_kernel(directory: Path, gateway: ModelGateway | None = None) -> AsyncIterator[Kernel]:
    """A kernel over a database in the directory, which may hold one from before."""
    async with open_driver(directory) as driver:
        yield over(driver, gateway)


async def make_access(
    kernel: Kernel, *, subject_id: str | None = None, kind: PrincipalKind = PrincipalKind.HUMAN, name: str = "Ada"
) -> Access:
    """An access to a tenant of its own."""
    tenant = await kernel.store.keys.create_tenant(new_id(system_clock()), "tests", system_clock())
    return Access(tenant.id, tenant.num, subject_id, Actor(name, kind), "key")
