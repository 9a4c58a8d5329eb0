"""`titen purge`."""

import asyncio
import json
from pathlib import Path
from typing import Any

import click

from titen_core.purge import Selector
from vps.cli.options import as_json_option, emit, store_options, tenant_option
from vps.faults import EXIT_FAULT, EXIT_USAGE, Fault
from vps.local import open_tenant
from vps.purging import existing, export_doomed, purge_store, write_new_file
from vps.settings import Settings, load_settings

__all__ = ["chosen_selector", "purge", "spoken"]


@click.command
@click.option("--memory", "memories", multiple=True, metavar="ID", help="One memory; may be repeated.")
@click.option("--subject", metavar="ID", help="Everything about one subject, and the keys locked to it.")
@click.option("--whole-tenant", is_flag=True, help="The tenant with all its memories and keys.")
@click.option("--export", "export_to", metavar="FILE", help="First export what will go to FILE.")
@click.option("--no-export", is_flag=True, help="Keep no copy.")
@click.option("--certificate", metavar="FILE", help="Write the certificate here instead of to stdout.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@store_options
@tenant_option
@as_json_option
def purge(
    db: str | None,
    config: str | None,
    tenant: str | None,
    memories: tuple[str, ...],
    subject: str | None,
    whole_tenant: bool,
    export_to: str | None,
    no_export: bool,
    certificate: str | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Remove memories for good, history and vectors included, and write a certificate.

    Deleting hides a memory and can be undone; a purge cannot. Needs --export FILE or --no-export.
    Exit code 1 when something is left, for instance because another process uses the store.

    \b
    Example:
      titen purge --subject user_123 --export user_123.jsonl --certificate user_123.purged.json
      titen purge --memory ID --no-export --yes
    """
    selector = chosen_selector(memories, subject, whole_tenant)
    if (export_to is not None) == no_export:
        raise Fault("Say --export FILE to keep a copy, or --no-export.", EXIT_USAGE)
    for file in (export_to, certificate):
        if file is not None and Path(file).exists():
            raise Fault(f"{file} exists; name another file.")
    settings = load_settings({"db": db}, config)
    if not yes:
        click.confirm(f"Purge {spoken(selector)} from {settings.db} for good?", abort=True, err=True)
    document = asyncio.run(_purged(settings, tenant, selector, export_to))
    if certificate is not None:
        write_new_file(Path(certificate), json.dumps(document, ensure_ascii=False, indent=2) + "\n")
    if certificate is None or as_json:
        emit(document)
    click.echo(_summary(document, certificate), err=True)
    if not document["clean"]:
        click.get_current_context().exit(EXIT_FAULT)


async def _purged(settings: Settings, tenant: str | None, selector: Selector, export_to: str | None) -> dict[str, Any]:
    async with open_tenant(settings, tenant) as (runtime, access):
        for memory_id in selector.memory_ids:
            await existing(runtime.kernel, access, memory_id)
        exported = None
        if export_to is not None:
            records = await export_doomed(runtime.kernel, access, selector, Path(export_to))
            exported = {"file": export_to, "records": records}
        return {"export": exported, **await purge_store(runtime, access, selector)}


def chosen_selector(memories: tuple[str, ...], subject: str | None, whole_tenant: bool) -> Selector:
    """What the options name. Raises Fault."""
    try:
        return Selector(memories, subject, whole_tenant)
    except ValueError:
        raise Fault(
            "Name what to purge: --memory ID, --subject ID or --whole-tenant, one of them.", EXIT_USAGE
        ) from None


def spoken(selector: Selector) -> str:
    """The selector in the words of a question."""
    if selector.tenant:
        return "the whole tenant with its keys"
    if selector.subject_id is not None:
        return f"everything about {selector.subject_id}"
    return "one memory" if len(selector.memory_ids) == 1 else f"{len(selector.memory_ids)} memories"


def _summary(document: dict[str, Any], certificate: str | None) -> str:
    count = len(document["memory_ids"])
    done = f"Purged {count} {'memory' if count == 1 else 'memories'}."
    if certificate is not None:
        done += f" The certificate is in {certificate}."
    if not document["log_emptied"]:
        return f"{done} The store's log still holds old pages: stop what else uses the store and run this again."
    if not document["clean"]:
        return f"{done} Something was left; run this again and see `remaining` in the certificate."
    return done
