"""`titen repair`: do now what housekeeping would do in time."""

import asyncio
from typing import Any

import click

from titen_core.errors import SqlError
from titen_core.models import Tenant
from titen_core.outbox import drain
from titen_core.semantics import SemanticStatus
from vps.cli.options import as_json_option, emit, say
from vps.cli.progress import bar
from vps.cli.target import Target, target_options
from vps.compose import Runtime, open_runtime, operator_access
from vps.faults import EXIT_FAULT
from vps.housekeeping import Housekeeping
from vps.local import chosen_tenant
from vps.logs import log_line
from vps.storefile import sql_fault

__all__ = ["repair"]


@click.command
@target_options
@as_json_option
def repair(target: Target, as_json: bool) -> None:
    """Try failed work again until nothing is left: vectors that are missing, a broken text index.

    Without --tenant, of every tenant of the store; with --url, of the key's tenant. Exit code 1 when
    something is left undone.

    \b
    Example:
      titen repair
      titen repair --url http://127.0.0.1:8787 --api-key KEY
    """
    report = _there(target) if target.url is not None else asyncio.run(_here(target))
    if as_json:
        emit(report)
    else:
        say(_summary(report))
        if report["message"]:
            say(report["message"])
    if report["pending"] or report["failed"]:
        click.get_current_context().exit(EXIT_FAULT)


def _summary(report: dict[str, Any]) -> str:
    counts = [report[name] for name in ("requeued", "completed", "pending", "failed")]
    if not any(counts):
        return "No vector was missing."
    return "Tried {} again: {} done, {} waiting, {} failed.".format(*counts)


def _there(target: Target) -> dict[str, Any]:
    """Each call does a bounded part, so it is called until one does nothing more."""
    total: dict[str, Any] = {"requeued": 0, "completed": 0, "pending": 0, "failed": 0, "message": None}
    with target.remote() as remote:
        while True:
            answer = remote.answer("POST", "/v1/repair", patient=True).json()["data"]
            total["requeued"] = max(total["requeued"], answer["requeued"])
            total["completed"] += answer["completed"]
            total["pending"], total["failed"] = answer["pending"], answer["failed"]
            if not answer["completed"] or not answer["pending"]:
                return total


async def _here(target: Target) -> dict[str, Any]:
    try:
        async with open_runtime(target.settings, patient=True) as runtime:
            return await _repaired(runtime, target.tenant)
    except SqlError as failure:
        raise sql_fault(failure, target.settings.db) from None


async def _repaired(runtime: Runtime, tenant_id: str | None) -> dict[str, Any]:
    kernel = runtime.kernel
    await Housekeeping(kernel, asyncio.Event(), log_line).heal_text()
    requeued = 0
    for tenant in await _tenants(runtime, tenant_id):
        requeued += await kernel.store.outbox.requeue(operator_access(tenant), kernel.clock())
    completed = 0
    with bar("Embedding", requeued) as progress:
        while True:
            drained = await drain(kernel)
            completed += drained.completed
            progress.update(drained.completed)
            if not drained.more:
                break
    left = await kernel.store.outbox.total()
    state = await kernel.semantics.state()
    return {
        "requeued": requeued,
        "completed": completed,
        "pending": 0 if state.status is SemanticStatus.OFF else left.pending,
        "failed": left.failed,
        "message": None if state.status is SemanticStatus.READY else state.message,
    }


async def _tenants(runtime: Runtime, tenant_id: str | None) -> list[Tenant]:
    if tenant_id is None:
        return await runtime.kernel.store.keys.tenants()
    return [await chosen_tenant(runtime.kernel.store.keys, tenant_id)]
