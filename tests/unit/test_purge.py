"""Purge: after it, the marker that a byte search found before is nowhere in the store's directory."""

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from adapters.sqlite.driver import SqliteDriver
from tests.unit.kernel import FailingDriver, Killed, WordModel, make_access, open_driver, over
from titen_core import limits
from titen_core.errors import Forbidden
from titen_core.ids import system_clock
from titen_core.kernel import Kernel
from titen_core.keys import KeyRequest, mint
from titen_core.memories import change, forget, get
from titen_core.models import (
    Access,
    Category,
    Draft,
    Filters,
    Fingerprint,
    Patch,
    PrincipalKind,
    Role,
    Scope,
    Source,
)
from titen_core.outbox import drain
from titen_core.protocols import Statement
from titen_core.purge import Certificate, Selector, purge, remaining
from titen_core.recall import recall
from titen_core.remember import remember
from titen_core.sql.idempotency import Ticket
from titen_core.sql.vectors import encode_vector

MARKER = "zyzzyva"
SUBJECT = "mind-of-" + MARKER


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


async def furnish(kernel: Kernel, access: Access) -> list[str]:
    """Memories whose every part holds the marker; their ids."""
    long = " ".join(f"{MARKER}s{n}" for n in range(700))
    key = KeyRequest("bot", PrincipalKind.AGENT, Role.WRITER, subject_id=SUBJECT, label=MARKER)
    await mint(kernel.store.keys, access.tenant_id, key, system_clock(), kernel.new_id())
    first = Draft(
        SUBJECT,
        f"The {MARKER}s running",
        agent_id="a-" + MARKER,
        run_id="r-" + MARKER,
        category=Category.NOTE,
        key=MARKER,
        tags=(MARKER,),
        source=Source(MARKER, MARKER),
        metadata={MARKER: MARKER + "-value"},
    )
    full = await remember(kernel, access, first, Ticket(MARKER + "-token", MARKER + "-hash"))
    await change(kernel, access, full.memory.id, Patch(content=long, metadata={"more": MARKER * 500}))
    await change(kernel, access, full.memory.id, Patch(content="Short again"))
    ids = [full.memory.id]
    drafts = [Draft(SUBJECT, f"{MARKER} number {n}") for n in range(limits.PURGE_STEP_ROWS + 5)]
    ids += [(await remember(kernel, access, draft)).memory.id for draft in drafts]
    await forget(kernel, access, ids[-1])
    return ids


def found_in(directory: Path, needles: Sequence[bytes]) -> dict[bytes, list[str]]:
    """In which of the store's files each needle stands, in any case."""
    files = {path.name: path.read_bytes().lower() for path in directory.iterdir()}
    return {needle: [name for name, data in files.items() if needle.lower() in data] for needle in needles}


async def settle(driver: SqliteDriver) -> None:
    """What the caller of a purge does last."""
    await driver.checkpoint()


def needles(vector: bytes) -> list[bytes]:
    return [MARKER.encode(), MARKER.encode("utf-16-le"), MARKER.encode().hex().encode(), vector]


async def first_vector(driver: SqliteDriver, access: Access) -> bytes:
    rows = await driver.query(
        Statement("SELECT vector FROM memory_vectors WHERE tenant_id = ? ORDER BY seq LIMIT 1", (access.tenant_id,))
    )
    return str(rows[0]["vector"]).encode()


@pytest.mark.parametrize("kind", ["memories", "subject", "tenant"])
@pytest.mark.parametrize("embedder", ["on", "off"])
def test_nothing_is_left_in_the_directory(tmp_path: Path, kind: str, embedder: str) -> None:
    async def case() -> None:
        async with open_driver(tmp_path) as driver:
            kernel = over(driver, WordModel(dimensions=128))
            access, other = await make_access(kernel), await make_access(kernel)
            ids = await furnish(kernel, access)
            kept = await remember(kernel, access, Draft("other", "Stays here"))
            foreign = await remember(kernel, other, Draft("other", "Stays too"))
            await drain(kernel)
            await settle(driver)
            vector = await first_vector(driver, access)
            before = found_in(tmp_path, needles(vector))
            assert before[MARKER.encode()]
            assert before[MARKER.encode().hex().encode()]
            assert before[vector]

            purging = kernel if embedder == "on" else over(driver)
            selector = {
                "memories": Selector(memory_ids=tuple(ids)),
                "subject": Selector(subject_id=SUBJECT),
                "tenant": Selector(tenant=True),
            }[kind]
            certificate = await purge(purging, access, selector, notes=("A store of tests.",))
            assert certificate.is_clean, certificate.remaining
            assert not any((await remaining(purging, access, selector)).values())
            assert set(certificate.memory_ids) >= set(ids)
            assert MARKER not in str(certificate)
            await settle(driver)
            # A purge of single memories leaves the key that is locked to their subject.
            looked_for = needles(vector) if kind != "memories" else [b"zyzzyva number", vector, b"zyzzyva-value"]
            assert not any(found_in(tmp_path, looked_for).values()), found_in(tmp_path, looked_for)

            if kind != "tenant":
                assert (await get(kernel, access, kept.memory.id)).content == "Stays here"
                answer = await recall(kernel, access, Scope(), Filters(), query="stays", limit=5)
                assert [item.memory.id for item in answer.items] == [kept.memory.id]
            assert (await get(kernel, other, foreign.memory.id)).content == "Stays too"
            assert await driver.integrity_check() == []

    run(case())


def test_a_purged_tenant_leaves_no_row_in_any_table(tmp_path: Path) -> None:
    async def case() -> None:
        async with open_driver(tmp_path) as driver:
            kernel = over(driver, WordModel())
            access = await make_access(kernel)
            await furnish(kernel, access)
            certificate = await purge(kernel, access, Selector(tenant=True))
            assert certificate.removed["memories"] == limits.PURGE_STEP_ROWS + 6
            assert certificate.removed["tenants"] == 1
            tables = await driver.query(
                Statement(
                    "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
                )
            )
            for table in (str(row["name"]) for row in tables):
                if not table.startswith("memory_text") and table not in ("titen_meta", "memory_vocab"):
                    (row,) = await driver.query(Statement(f"SELECT count(*) AS n FROM {table}"))
                    assert row["n"] == 0, table
            (row,) = await driver.query(Statement("SELECT count(*) AS n FROM memory_vocab"))
            assert row["n"] == 0

    run(case())


def test_vectors_of_an_older_model_go_too(tmp_path: Path) -> None:
    async def case() -> None:
        async with open_driver(tmp_path) as driver:
            kernel = over(driver, WordModel())
            access = await make_access(kernel)
            written = await remember(kernel, access, Draft("s", "Two models knew this"))
            old = await WordModel("older").fingerprint()
            index = kernel.semantics.index_for(old)
            assert index.colocated
            await index.prepare()
            (vector,) = await WordModel("older").embed(["x"], purpose="memory", deadline_ms=1)
            rows = Statement("SELECT seq FROM memories WHERE tenant_id = ?", (access.tenant_id,))
            canonical = Statement(
                "INSERT INTO memory_vectors (seq, fingerprint, tenant_id, content_version, vector, vector_int8)"
                " SELECT seq, ?, tenant_id, 1, ?, '' FROM memories WHERE tenant_id = ?",
                (str(old), encode_vector(vector), access.tenant_id),
            )
            await driver.batch([canonical, *index.put(rows, vector)])
            certificate = await purge(over(driver), access, Selector(memory_ids=(written.memory.id,)))
            assert certificate.removed["memory_vectors"] == 2
            assert certificate.is_clean
            assert {"vector_index_1", "vector_index_2"} <= set(certificate.remaining)
            assert (await driver.query(index.stray(access.tenant_id)))[0]["n"] == 0

    run(case())


@pytest.mark.parametrize("written", [False, True])
def test_a_kill_at_any_batch_leaves_whole_memories_and_a_second_run_finishes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: bool
) -> None:
    async def case() -> None:
        monkeypatch.setattr(limits, "PURGE_STEP_ROWS", 2)
        async with open_driver(tmp_path) as driver:
            killed, batches = True, 0
            while killed:
                kernel = over(driver, WordModel())
                access = await make_access(kernel)
                for n in range(4):
                    await remember(kernel, access, Draft("s", f"row {n}"))
                killed = await until_killed(driver, access, batches, written=written)
                batches += 1
                if await kernel.store.keys.tenant(access.tenant_id) is not None:
                    for item in (await recall(kernel, access, Scope(), Filters(), query="row", limit=5)).items:
                        assert item.memory == await get(kernel, access, item.memory.id)
                certificate = await purge(kernel, access, Selector(tenant=True))
                assert certificate.is_clean, certificate.remaining
                assert await kernel.store.keys.tenant(access.tenant_id) is None
            assert batches > 4

    run(case())


async def until_killed(driver: SqliteDriver, access: Access, batches: int, *, written: bool) -> bool:
    try:
        await purge(over(FailingDriver(driver, batches, written=written)), access, Selector(tenant=True))
    except Killed:
        return True
    return False


def test_only_what_the_access_reaches_is_purged(tmp_path: Path) -> None:
    async def case() -> None:
        async with open_driver(tmp_path) as driver:
            kernel = over(driver)
            access, foreign = await make_access(kernel), await make_access(kernel)
            mine = await remember(kernel, access, Draft("s1", "Mine"))
            locked = replace(access, subject_id="s2")
            for caller in (foreign, locked):
                certificate = await purge(kernel, caller, Selector(memory_ids=(mine.memory.id,)))
                assert (certificate.memory_ids, certificate.removed) == ((), {})
            certificate = await purge(kernel, foreign, Selector(subject_id="s1"))
            assert certificate.memory_ids == ()
            for selector in (Selector(tenant=True), Selector(subject_id="s1")):
                with pytest.raises(Forbidden):
                    await purge(kernel, locked, selector)
                with pytest.raises(Forbidden):
                    await remaining(kernel, locked, selector)
            assert (await get(kernel, access, mine.memory.id)).content == "Mine"
            looked = await remaining(kernel, access, Selector(subject_id="s1"))
            assert (looked["memories"], looked["memory_vocab"]) == (1, 1)

    run(case())


def test_a_selector_is_never_ambiguous() -> None:
    for wrong in ({}, {"subject_id": "s", "tenant": True}, {"memory_ids": ("a",), "subject_id": "s"}):
        with pytest.raises(ValueError, match="exactly one"):
            Selector(**wrong)


def test_a_second_purge_finds_nothing_and_says_so(tmp_path: Path) -> None:
    async def case() -> None:
        async with open_driver(tmp_path) as driver:
            kernel = over(driver)
            access = await make_access(kernel)
            await remember(kernel, access, Draft("s", "Once"))
            first = await purge(kernel, access, Selector(subject_id="s"))
            again: Certificate = await purge(kernel, access, Selector(subject_id="s"))
            assert (first.removed["memories"], again.memory_ids) == (1, ())
            assert again.is_clean

    run(case())


@pytest.mark.parametrize(
    "fingerprint",
    [
        Fingerprint("openai-compatible", "bge-m3", 1024),
        Fingerprint("openai-compatible", "nomic-embed:latest", 768),
        Fingerprint("workers-ai", "@cf/baai/bge-m3", 1024),
        Fingerprint("workers-ai", "@cf/baai/bge-m3", 1024, revision="2"),
        Fingerprint("local", "e5", 384, revision="0.3.0"),
    ],
    ids=str,
)
def test_a_fingerprint_is_read_back_as_it_was_written(fingerprint: Fingerprint) -> None:
    assert Fingerprint.parse(str(fingerprint)) == fingerprint
