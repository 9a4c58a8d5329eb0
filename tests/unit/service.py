"""A whole service on a real SQLite file and a clock that tests move: `async with open_service(tmp_path) as service`."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from adapters.sqlite.driver import SqliteDriver
from adapters.sqlite.vec import SqliteVecIndex
from titen_core.http.app import App
from titen_core.http.messages import Request, Response
from titen_core.jwt_auth import JwtSecret
from titen_core.kernel import Deadlines, Kernel
from titen_core.keys import KeyRequest, create_tenant, mint
from titen_core.models import Access, Actor, Draft, PrincipalKind, Role, Tenant
from titen_core.outbox import drain
from titen_core.protocols import ModelGateway, Row, SqlDriver, SqlValue, Statement
from titen_core.semantics import Semantics
from titen_core.sql.migrate import Migration, migrate
from titen_core.sql.store import open_store

__all__ = [
    "DAY_MS",
    "HOUR_MS",
    "Clock",
    "RecordingDriver",
    "Reply",
    "Service",
    "access_of",
    "counted",
    "draft",
    "drain_all",
    "kernel_over",
    "open_migrated",
    "open_service",
]

MIGRATIONS = Path(__file__).parents[2] / "migrations"
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


@dataclass
class Clock:
    """Milliseconds since the epoch, at a standstill unless a test moves it."""

    now_ms: int = 1_800_000_000_000

    def __call__(self) -> int:
        return self.now_ms

    def forward(self, span_ms: int) -> None:
        self.now_ms += span_ms


@dataclass
class RecordingDriver:
    """A driver that remembers every statement it was given."""

    inner: SqlDriver
    statements: list[Statement] = field(default_factory=list)

    async def query(self, statement: Statement) -> list[Row]:
        self.statements.append(statement)
        return await self.inner.query(statement)

    async def batch(self, statements: Sequence[Statement]) -> list[list[Row]]:
        self.statements += statements
        return await self.inner.batch(statements)


@dataclass(frozen=True)
class Reply:
    """An answer, read."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def data(self) -> Any:
        return self.json["data"]

    @property
    def meta(self) -> Any:
        return self.json["meta"]

    @property
    def code(self) -> str | None:
        error = self.json.get("error")
        return None if error is None else str(error["code"])


@dataclass(frozen=True)
class Service:
    """The app with everything below it within reach."""

    app: App
    kernel: Kernel
    clock: Clock
    driver: SqlDriver

    async def tenant(self, name: str = "tests") -> Tenant:
        return await create_tenant(self.kernel.store.keys, name, self.clock(), self.kernel.new_id())

    async def key(
        self,
        tenant: Tenant,
        *,
        role: Role = Role.ADMIN,
        kind: PrincipalKind = PrincipalKind.HUMAN,
        name: str = "Ada",
        subject_id: str | None = None,
        expires_at_ms: int | None = None,
    ) -> str:
        request = KeyRequest(name, kind, role, subject_id, expires_at_ms=expires_at_ms)
        minted = await mint(self.kernel.store.keys, tenant.id, request, self.clock(), self.kernel.new_id())
        return minted.api_key

    async def call(
        self,
        method: str,
        target: str,
        body: object = None,
        *,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """One request. A body that is not bytes goes as JSON."""
        path, _, query = target.partition("?")
        sent = dict(headers or {})
        if key is not None:
            sent["authorization"] = f"Bearer {key}"
        if body is not None:
            sent.setdefault("content-type", "application/json")
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        response = await self.app.handle(Request(method, path, query, sent, raw))
        return Reply(response.status, {name.lower(): value for name, value in response.headers}, _text(response))


def _text(response: Response) -> str:
    assert isinstance(response.body, bytes)
    return response.body.decode()


@contextlib.asynccontextmanager
async def open_migrated(directory: Path) -> AsyncIterator[SqliteDriver]:
    """The database `titen.db` in the directory; a new one is a copy of one migrated as every runtime does it."""
    path = directory / "titen.db"
    if not path.exists():
        path.write_bytes(_migrated_file())
    driver = SqliteDriver(path)
    try:
        yield driver
    finally:
        await driver.close()


@cache
def _migrated_file() -> bytes:
    """Made once, in a thread that has no event loop yet."""
    with TemporaryDirectory() as directory, ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, _migrate(Path(directory))).result()
        return (Path(directory) / "titen.db").read_bytes()


async def _migrate(directory: Path) -> None:
    driver = SqliteDriver(directory / "titen.db")
    try:
        files = sorted(MIGRATIONS.glob("*.sql"))
        await migrate(driver, [Migration(file.name, file.read_text(encoding="utf-8")) for file in files])
    finally:
        await driver.close()


def kernel_over(driver: SqlDriver, gateway: ModelGateway | None, clock: Callable[[], int]) -> Kernel:
    """A kernel at the clock's time; without a gateway recall is by text only."""
    store = open_store(driver)
    semantics = Semantics(store.meta, gateway, lambda fingerprint: SqliteVecIndex(driver, fingerprint), clock)
    return Kernel(store, semantics, clock, Deadlines())


@contextlib.asynccontextmanager
async def open_service(
    directory: Path,
    gateway: ModelGateway | None = None,
    *,
    wrap: Callable[[SqlDriver], SqlDriver] = lambda driver: driver,
    clock: Clock | None = None,
    jwt_secret: JwtSecret | None = None,
) -> AsyncIterator[Service]:
    """A service over a database in the directory, which may hold one from before."""
    async with open_migrated(directory) as opened:
        driver, clock = wrap(opened), clock or Clock()
        kernel = kernel_over(driver, gateway, clock)
        yield Service(App(kernel, runtime="tests", jwt_secret=jwt_secret), kernel, clock, driver)


def access_of(
    tenant: Tenant,
    *,
    subject_id: str | None = None,
    kind: PrincipalKind = PrincipalKind.HUMAN,
    name: str = "Ada",
    key_id: str = "key",
) -> Access:
    """What a principal of the tenant may touch."""
    return Access(tenant.id, tenant.num, subject_id, Actor(name, kind), key_id)


def draft(content: str, subject_id: str = "user_1", **fields: Any) -> Draft:
    """A memory to remember."""
    return Draft(subject_id, content, **fields)


async def drain_all(kernel: Kernel) -> int:
    """Drain until nothing due is left; how many rows were completed."""
    completed = 0
    while True:
        drained = await drain(kernel)
        completed += drained.completed
        if not drained.more:
            return completed


async def counted(driver: SqlDriver, table: str, where: str = "1 = 1", *params: SqlValue) -> int:
    """How many rows of a table satisfy a condition."""
    rows = await driver.query(Statement(f"SELECT count(*) AS n FROM {table} WHERE {where}", params))
    return int(str(rows[0]["n"]))
