"""`titen cloudflare purge`."""

import asyncio
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import click

from adapters.cloudflare.vectorize import vector_id
from titen_core.errors import IndexUnavailable
from titen_core.ids import system_clock
from titen_core.kernel import Kernel
from titen_core.protocols import IndexDescription, VectorAnswer
from titen_core.purge import Selector, purge
from titen_core.semantics import Semantics
from titen_core.sql.keys import Keys
from titen_core.sql.store import open_store
from vps.cli.cloudflare import operations
from vps.cli.cloudflare.options import Place, place_options
from vps.cli.options import as_json_option, emit, say, tenant_option
from vps.cli.purge import chosen_selector, spoken
from vps.compose import operator_access
from vps.faults import EXIT_FAULT, Fault
from vps.local import chosen_tenant
from vps.purging import NOTE, existing, write_new_file

__all__ = ["purge_deployment"]

TIME_TRAVEL = (
    "D1 Time Travel keeps what was removed for 7 days on Workers Free and 30 days on Workers Paid, and can restore it; "
    "it cannot be shortened, and after a restore the purge has to be repeated."
)
VECTORS = "Vectorize was asked to delete the vectors, which it does within minutes; `remaining` does not count them."


@click.command("purge")
@click.option("--memory", "memories", multiple=True, metavar="ID", help="One memory; may be repeated.")
@click.option("--subject", metavar="ID", help="Everything about one subject, and the keys locked to it.")
@click.option("--whole-tenant", is_flag=True, help="The tenant with all its memories and keys.")
@click.option("--certificate", metavar="FILE", help="Write the certificate here instead of to stdout.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@place_options
@tenant_option
@as_json_option
def purge_deployment(
    place: Place,
    tenant: str | None,
    memories: tuple[str, ...],
    subject: str | None,
    whole_tenant: bool,
    certificate: str | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Remove memories for good, history and vectors included, and write a certificate.

    Deleting hides a memory and can be undone; a purge cannot. Export first with `titen export --url`.
    D1 Time Travel keeps what was removed for 7 or 30 days; the certificate says so.

    \b
    Example:
      titen cloudflare purge --subject user_123 --certificate user_123.purged.json
    """
    selector = chosen_selector(memories, subject, whole_tenant)
    if certificate is not None and Path(certificate).exists():
        raise Fault(f"{certificate} exists; name another file.")
    if not yes:
        click.confirm(f"Purge {spoken(selector)} from {place.deployment.name} for good?", abort=True, err=True)
    document = asyncio.run(_purged(place, tenant, selector))
    if certificate is not None:
        write_new_file(Path(certificate), json.dumps(document, ensure_ascii=False, indent=2) + "\n")
    if certificate is None or as_json:
        emit(document)
    say(f"Purged: {len(document['memory_ids'])}.", as_json=True)
    if not document["clean"]:
        say("Something was left; run this again and see `remaining` in the certificate.", as_json=True)
        click.get_current_context().exit(EXIT_FAULT)


async def _purged(place: Place, tenant_id: str | None, selector: Selector) -> dict[str, Any]:
    access = operator_access(await chosen_tenant(Keys(place.d1), tenant_id))
    store = open_store(place.d1)
    kernel = Kernel(store, Semantics(store.meta, None, lambda _: _Vectors(place), system_clock))
    for memory_id in selector.memory_ids:
        await existing(kernel, access, memory_id)
    certificate = await purge(kernel, access, selector, notes=(NOTE, TIME_TRAVEL, VECTORS))
    return {**dataclasses.asdict(certificate), "clean": certificate.is_clean}


class _Vectors:
    """The deployment's `RemoteIndex`, of which wrangler lets an operator only delete."""

    colocated: Literal[False] = False

    def __init__(self, place: Place) -> None:
        self._place = place

    async def delete(self, ids: Sequence[tuple[int, int]]) -> None:
        names = sorted({vector_id(*each) for each in ids})
        for command in operations.delete_vectors(self._place.deployment, names):
            self._place.wrangler.run(*command)

    async def describe(self) -> IndexDescription:
        raise _unavailable()

    async def search(self, *_: object, **__: object) -> VectorAnswer:
        raise _unavailable()

    async def upsert(self, *_: object, **__: object) -> None:
        raise _unavailable()

    async def shown(self, *_: object, **__: object) -> set[tuple[int, int]]:
        raise _unavailable()


def _unavailable() -> IndexUnavailable:
    return IndexUnavailable("wrangler only deletes vectors.")
