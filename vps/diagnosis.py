"""What `titen doctor` finds: each part of an installation looked at by itself, changing nothing."""

import shutil
import stat
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from adapters.sqlite.driver import SqliteDriver
from titen_core.errors import ModelError, SqlError
from titen_core.models import Fingerprint
from titen_core.protocols import SqlValue, Statement
from titen_core.semantics import FINGERPRINT_KEY
from titen_core.sql.store import open_store
from vps.compose import open_gateway
from vps.faults import Fault
from vps.schema import check_schema
from vps.settings import EmbedMode, Settings, unknown_variables
from vps.storefile import open_database, require_file

__all__ = ["Finding", "Verdict", "diagnose"]

FREE_BYTES_LOW = 200 * 1024 * 1024
FREE_BYTES_LEAST = 10 * 1024 * 1024
PROBE_MS = 15_000
PROBE_TEXT = "Titen asks whether you are there."


class Verdict(StrEnum):
    OK = "ok"
    WARNING = "warning"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Finding:
    """One part: what was found, and what to do where it is not well."""

    part: str
    verdict: Verdict
    message: str
    detail: dict[str, SqlValue] = field(default_factory=dict)


async def diagnose(settings: Settings) -> AsyncIterator[Finding]:
    """Every part in order, as soon as it was looked at. Raises nothing for a part that is broken."""
    yield _environment()
    for finding in _files(settings.db):
        yield finding
    stored: str | None = None
    try:
        require_file(settings.db)
        async with open_database(settings.db) as driver:
            yield await _versions(driver)
            yield await _integrity(driver)
            await check_schema(driver, settings.db)
            yield Finding("schema", Verdict.OK, "is the one this version needs")
            async for finding in _store(driver):
                yield finding
            stored = await open_store(driver).meta.get(FINGERPRINT_KEY)
    except Fault as fault:
        yield Finding("database", Verdict.BROKEN, fault.message)
    yield await _embedder(settings, stored)


def _environment() -> Finding:
    unknown = unknown_variables()
    if not unknown:
        return Finding("environment", Verdict.OK, "has no unknown TITEN_* variable")
    guesses = [name if guess is None else f"{name} (did you mean {guess}?)" for name, guess in unknown.items()]
    return Finding("environment", Verdict.WARNING, f"sets what no setting reads: {', '.join(guesses)}")


def _files(db: Path) -> list[Finding]:
    paths = [path for path in (db, db.with_name(f"{db.name}.admin-key")) if path.exists()]
    findings = [
        Finding("files", Verdict.WARNING, f"{path} is open to other users; run `chmod 600 {path}`")
        for path in paths
        if stat.S_IMODE(path.stat().st_mode) & (stat.S_IRWXG | stat.S_IRWXO)
    ]
    if paths and not findings:
        findings.append(Finding("files", Verdict.OK, "are this user's alone"))
    standing = next((parent for parent in db.absolute().parents if parent.exists()), Path("/"))
    free = shutil.disk_usage(standing).free
    verdict = Verdict.BROKEN if free < FREE_BYTES_LEAST else Verdict.WARNING if free < FREE_BYTES_LOW else Verdict.OK
    said = f"has {_size(free)} free" + ("" if verdict is Verdict.OK else "; make room before writes are refused")
    return [*findings, Finding("disk", verdict, said, {"free_bytes": free})]


def _size(count: int) -> str:
    return f"{count // 1024**2:,} MiB" if count < 10 * 1024**3 else f"{count // 1024**3:,} GiB"


async def _versions(driver: SqliteDriver) -> Finding:
    row = (await driver.query(Statement("SELECT sqlite_version() AS sqlite, vec_version() AS sqlite_vec")))[0]
    return Finding("sqlite", Verdict.OK, f"is {row['sqlite']!s} with sqlite-vec {row['sqlite_vec']!s}", dict(row))


async def _integrity(driver: SqliteDriver) -> Finding:
    rows = await driver.query(Statement("PRAGMA quick_check"))
    found = [str(next(iter(row.values()))) for row in rows]
    if found == ["ok"]:
        return Finding("database", Verdict.OK, "opens, and its file is sound")
    return Finding("database", Verdict.BROKEN, f"is damaged: {found[0]}; restore a backup, or export what is readable")


async def _store(driver: SqliteDriver) -> AsyncIterator[Finding]:
    store = open_store(driver)
    try:
        await store.text.check()
        refilling = await store.text.is_refilling()
        verdict, said = (Verdict.WARNING, "is being filled again") if refilling else (Verdict.OK, "answers")
    except SqlError:
        verdict, said = Verdict.WARNING, "is broken; a running service mends it, or run `titen repair`"
    yield Finding("text index", verdict, said)
    tenants = await store.keys.tenants()
    yield Finding(
        "tenants",
        Verdict.OK,
        "there is one" if len(tenants) == 1 else f"there are {len(tenants)}",
        {"count": len(tenants)},
    )
    counts = await store.outbox.total()
    said = "has nothing waiting"
    if counts.pending or counts.failed:
        said = f"has {counts.pending} {'memory' if counts.pending == 1 else 'memories'} waiting for a vector"
    if counts.pending and not counts.failed:
        said += "; a running service or `titen repair` makes it"
    if counts.failed:
        said += f" and {counts.failed} given up; look at the embedder, then run `titen repair`"
    detail: dict[str, SqlValue] = {"pending": counts.pending, "failed": counts.failed}
    yield Finding("outbox", Verdict.WARNING if counts.failed else Verdict.OK, said, detail)


async def _embedder(settings: Settings, stored: str | None) -> Finding:
    if settings.embed is EmbedMode.OFF:
        return Finding("embedder", Verdict.OK, "is off: recall is by words only; set TITEN_EMBED to change that")
    try:
        fingerprint = await _probed(settings)
    except Fault as fault:
        return Finding("embedder", Verdict.BROKEN, fault.message)
    except ModelError as failure:
        return Finding("embedder", Verdict.BROKEN, str(failure))
    detail: dict[str, SqlValue] = {
        "fingerprint": str(fingerprint),
        "dimensions": fingerprint.dimensions,
        "store_fingerprint": stored,
    }
    if settings.embed_dims not in {None, fingerprint.dimensions}:
        said = f"returns {fingerprint.dimensions} dimensions, TITEN_EMBED_DIMS expects {settings.embed_dims}"
        return Finding("embedder", Verdict.BROKEN, said, detail)
    if stored not in {None, str(fingerprint)}:
        said = f"is {fingerprint}, the store's vectors are {stored}; configure that one, or run `titen reindex`"
        return Finding("embedder", Verdict.BROKEN, said, detail)
    return Finding("embedder", Verdict.OK, f"answers: {fingerprint}", detail)


async def _probed(settings: Settings) -> Fingerprint:
    gateway = open_gateway(settings)
    if gateway is None:
        raise Fault("no embedder is configured")
    try:
        fingerprint = await gateway.fingerprint()
        await gateway.embed([PROBE_TEXT], purpose="query", deadline_ms=PROBE_MS)
    finally:
        await gateway.close()
    return fingerprint
