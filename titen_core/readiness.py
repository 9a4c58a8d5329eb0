"""Is this store fit to serve? Each part is looked at by itself, and named by a stable code.

`failed` means that answers would be wrong or missing (503); `degraded` means that everything works,
if less well. An embedder that is switched off is neither.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from titen_core.errors import SqlError
from titen_core.kernel import Kernel
from titen_core.models import Access
from titen_core.semantics import SemanticStatus
from titen_core.sql.meta import LATEST_MIGRATION
from titen_core.sql.outbox import OutboxCounts

__all__ = ["Check", "Health", "Readiness", "readiness"]


class Health(StrEnum):
    OK = "ok"
    OFF = "off"
    DEGRADED = "degraded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Check:
    """One part. `detail` is for an admin's eyes."""

    name: str
    status: Health
    code: str | None = None
    detail: Mapping[str, str | int | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Readiness:
    """Every check; the worst one decides."""

    checks: tuple[Check, ...]

    @property
    def status(self) -> str:
        found = {check.status for check in self.checks}
        if Health.FAILED in found:
            return "failed"
        return "degraded" if Health.DEGRADED in found else "ready"

    @property
    def codes(self) -> list[str]:
        return [check.code for check in self.checks if check.code is not None]


async def readiness(kernel: Kernel, access: Access | None) -> Readiness:
    """Look at everything. `access` adds the own tenant's outbox counts. Never raises for a failed part."""
    schema = await _schema(kernel)
    if schema.status is Health.FAILED:
        return Readiness((schema,))
    return Readiness((schema, await _text(kernel), await _semantics(kernel), await _outbox(kernel, access)))


async def _schema(kernel: Kernel) -> Check:
    try:
        applied = await kernel.store.meta.migrations()
    except SqlError as failure:
        return Check("database", Health.FAILED, "DATABASE_UNAVAILABLE", {"reason": type(failure).__name__})
    detail = {"migration": applied[-1] if applied else None, "expected": LATEST_MIGRATION}
    if LATEST_MIGRATION not in applied:
        return Check("database", Health.FAILED, "SCHEMA_BEHIND", detail)
    if applied[-1] != LATEST_MIGRATION:
        return Check("database", Health.FAILED, "SCHEMA_AHEAD", detail)
    return Check("database", Health.OK, None, detail)


async def _text(kernel: Kernel) -> Check:
    try:
        await kernel.store.text.check()
        refilling = await kernel.store.text.is_refilling()
    except SqlError as failure:
        kernel.wake()
        return Check("text_index", Health.DEGRADED, "TEXT_INDEX_BROKEN", {"reason": type(failure).__name__})
    if refilling:
        return Check("text_index", Health.DEGRADED, "TEXT_INDEX_REFILLING")
    return Check("text_index", Health.OK)


async def _semantics(kernel: Kernel) -> Check:
    state = await kernel.semantics.probe()
    detail: dict[str, str | int | None] = {
        "message": state.message,
        "fingerprint": str(state.fingerprint) if state.fingerprint else None,
    }
    if state.status is SemanticStatus.OFF:
        return Check("embedding", Health.OFF, "EMBEDDING_OFF", detail)
    if state.status is SemanticStatus.UNAVAILABLE:
        return Check("embedding", Health.FAILED, "EMBEDDING_UNAVAILABLE", detail)
    if state.fingerprint is None:
        return Check("embedding", Health.FAILED, state.status, detail)
    detail.update(dimensions=state.fingerprint.dimensions, metric=state.fingerprint.metric)
    return Check("embedding", Health.OK, None, detail)


async def _outbox(kernel: Kernel, access: Access | None) -> Check:
    try:
        any_failed = await kernel.store.outbox.any_failed()
        own = None if access is None else await kernel.store.outbox.counts(access)
    except SqlError as failure:
        return Check("outbox", Health.FAILED, "DATABASE_UNAVAILABLE", {"reason": type(failure).__name__})
    detail = {} if own is None else _outbox_detail(own, kernel.clock())
    if any_failed:
        return Check("outbox", Health.DEGRADED, "OUTBOX_FAILED", detail)
    return Check("outbox", Health.OK, None, detail)


def _outbox_detail(own: OutboxCounts, now_ms: int) -> Mapping[str, int | None]:
    age_ms = None if own.oldest_ms is None else max(0, now_ms - own.oldest_ms)
    return {"pending": own.pending, "failed": own.failed, "oldest_age_ms": age_ms}
