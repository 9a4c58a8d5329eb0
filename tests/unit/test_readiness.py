"""Readiness: what is degraded, what is failed, and who is told how much."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from adapters.sqlite.driver import SqliteDriver
from tests.unit.kernel import WordModel
from tests.unit.service import Clock, Reply, Service, access_of, draft, drain_all, kernel_over, open_service
from titen_core import limits
from titen_core.errors import ModelRejected, ModelUnavailable, SqlBusy, SqlError
from titen_core.http.app import App
from titen_core.http.messages import Request
from titen_core.models import Role
from titen_core.protocols import Row, SqlDriver, Statement
from titen_core.remember import remember
from titen_core.sql.meta import LATEST_MIGRATION

Case = Callable[[Service, str], Awaitable[None]]


def run(directory: Path, case: Case, gateway: WordModel | None = None) -> None:
    async def whole() -> None:
        async with open_service(directory, gateway) as service:
            await case(service, await service.key(await service.tenant()))

    asyncio.run(whole())


def check(reply: Reply, name: str) -> Any:
    return next(found for found in reply.data["checks"] if found["name"] == name)


async def ready(service: Service, key: str | None = None) -> Reply:
    return await service.call("GET", "/readyz", key=key)


def test_a_sound_service_is_ready(tmp_path: Path) -> None:
    async def case(service: Service, key: str) -> None:
        reply = await ready(service, key)
        assert (reply.status, reply.data["status"], reply.data["codes"]) == (200, "ready", [])
        assert check(reply, "database")["detail"] == {"migration": LATEST_MIGRATION, "expected": LATEST_MIGRATION}
        embedding = check(reply, "embedding")
        assert (embedding["status"], embedding["detail"]["dimensions"], embedding["detail"]["metric"]) == (
            *("ok", 16, "cosine"),
        )
        assert check(reply, "outbox")["detail"] == {"pending": 0, "failed": 0, "oldest_age_ms": None}

    run(tmp_path, case, WordModel())


def test_details_are_for_admins(tmp_path: Path) -> None:
    async def case(service: Service, key: str) -> None:
        tenant = await service.tenant("other")
        for less in (None, "nonsense", await service.key(tenant, role=Role.WRITER)):
            reply = await ready(service, less)
            assert (reply.status, reply.data) == (200, {"status": "ready", "codes": ["EMBEDDING_OFF"]})
        assert (await ready(service, key)).data["checks"]

    run(tmp_path, case)


@pytest.mark.parametrize(
    ("statement", "status", "code"),
    [
        ("DELETE FROM d1_migrations", 503, "SCHEMA_BEHIND"),
        ("DROP TABLE d1_migrations", 503, "SCHEMA_BEHIND"),
        ("INSERT INTO d1_migrations (name) VALUES ('9999_future.sql')", 503, "SCHEMA_AHEAD"),
        ("DROP TABLE memory_text", 200, "TEXT_INDEX_BROKEN"),
        ("DROP TABLE memory_vocab", 200, "TEXT_INDEX_BROKEN"),
        ("INSERT INTO titen_meta (key, value) VALUES ('text_refill', '0')", 200, "TEXT_INDEX_REFILLING"),
        ("DROP TABLE vector_outbox", 503, "DATABASE_UNAVAILABLE"),
    ],
)
def test_a_store_that_is_not_as_it_should_be(tmp_path: Path, statement: str, status: int, code: str) -> None:
    async def case(service: Service, key: str) -> None:
        await service.driver.batch([Statement(statement)])
        for who in (None, key):
            reply = await ready(service, who)
            assert (reply.status, reply.data["codes"][-1]) == (status, code)
            assert reply.data["status"] == ("failed" if status == 503 else "degraded")

    run(tmp_path, case, WordModel())


def test_an_empty_database_is_not_ready_and_alive(tmp_path: Path) -> None:
    async def case() -> None:
        driver = SqliteDriver(tmp_path / "empty.db")
        try:
            app = App(kernel_over(driver, None, Clock()), runtime="tests")
            for who in ({}, {"authorization": "Bearer titen_a_b"}):
                assert (await app.handle(Request("GET", "/readyz", headers=who))).status == 503
                assert (await app.handle(Request("GET", "/healthz", headers=who))).status == 200
            reply = await app.handle(Request("GET", "/v1/principal", headers={"authorization": "Bearer titen_a_b"}))
            assert reply.status == 503
        finally:
            await driver.close()

    asyncio.run(case())


@dataclass
class Broken:
    """A driver that answers nothing."""

    inner: SqlDriver
    error: SqlError | None = None

    async def query(self, statement: Statement) -> list[Row]:
        if self.error is not None:
            raise self.error
        return await self.inner.query(statement)

    async def batch(self, statements: Sequence[Statement]) -> list[list[Row]]:
        return await self.inner.batch(statements)


@pytest.mark.parametrize("error", [SqlError("input/output error"), SqlBusy("locked")], ids=["broken", "busy"])
def test_a_store_that_cannot_be_read_is_named_whoever_asks(tmp_path: Path, error: SqlError) -> None:
    async def whole() -> None:
        async with open_service(tmp_path, wrap=Broken) as service:
            key = await service.key(await service.tenant())
            assert isinstance(service.driver, Broken)
            service.driver.error = error
            for caller in (None, key):
                reply = await ready(service, caller)
                assert (reply.status, reply.data) == (503, {"status": "failed", "codes": ["DATABASE_UNAVAILABLE"]})
                assert (await service.call("GET", "/healthz", key=caller)).status == 200

    asyncio.run(whole())


def test_a_configured_embedder_that_is_down_fails(tmp_path: Path) -> None:
    model = WordModel(refuses=lambda text: ModelUnavailable("connection refused"))

    async def case(service: Service, key: str) -> None:
        reply = await ready(service, key)
        assert (reply.status, reply.data["codes"]) == (503, ["EMBEDDING_UNAVAILABLE"])
        assert check(reply, "embedding")["detail"]["message"] == "connection refused"
        model.refuses = lambda text: None
        assert (await ready(service)).status == 200

    run(tmp_path, case, model)


@pytest.mark.parametrize(
    ("other", "code"),
    [(WordModel(name="others"), "FINGERPRINT_MISMATCH"), (WordModel(dimensions=8), "EMBEDDING_DIMENSION_MISMATCH")],
)
def test_another_model_than_the_stores_fails_by_name(tmp_path: Path, other: WordModel, code: str) -> None:
    async def first(service: Service, key: str) -> None:
        assert (await ready(service)).status == 200

    async def second(service: Service, key: str) -> None:
        reply = await ready(service, key)
        assert (reply.status, reply.data["codes"]) == (503, [code])
        assert "titen reindex" in check(reply, "embedding")["detail"]["message"]

    run(tmp_path, first, WordModel())
    run(tmp_path, second, other)


def test_given_up_work_degrades_and_counts_are_the_own_tenants(tmp_path: Path) -> None:
    model = WordModel()

    async def case(service: Service, key: str) -> None:
        await service.kernel.semantics.state()
        model.refuses = lambda text: ModelRejected("no") if text == "red" else None
        await remember(service.kernel, access_of(await service.tenant("other")), draft("red"))
        service.clock.forward(5)
        assert (await ready(service, key)).data["codes"] == []
        for _ in range(limits.OUTBOX_ATTEMPTS_MAX):
            await drain_all(service.kernel)
            service.clock.forward(limits.OUTBOX_BACKOFF_MAX_MS)
        reply = await ready(service, key)
        assert (reply.status, reply.data["status"], reply.data["codes"]) == (200, "degraded", ["OUTBOX_FAILED"])
        assert check(reply, "outbox")["detail"] == {"pending": 0, "failed": 0, "oldest_age_ms": None}

    run(tmp_path, case, model)


def test_waiting_work_is_no_fault_and_has_an_age(tmp_path: Path) -> None:
    async def case(service: Service, key: str) -> None:
        created = await service.call("POST", "/v1/memories", {"subject_id": "u", "content": "red"}, key=key)
        assert created.status == 201
        service.clock.forward(1234)
        reply = await ready(service, key)
        assert reply.status == 200
        assert check(reply, "outbox")["detail"] == {"pending": 1, "failed": 0, "oldest_age_ms": 1234}

    run(tmp_path, case)
