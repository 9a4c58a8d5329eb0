"""Purging a store's own file: export first if wanted, remove, empty the log, and look again."""

import dataclasses
import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from titen_core import limits
from titen_core.content import canonical_json
from titen_core.errors import SqlBusy
from titen_core.kernel import Kernel
from titen_core.models import Access, Memory
from titen_core.purge import Selector, purge
from titen_core.transfer import export_page
from titen_core.transfer.record import FORMAT_VERSION, SUMMARY_FORMAT, record_line
from vps.compose import Runtime
from vps.faults import Fault
from vps.jsonl import read_summary

__all__ = ["existing", "export_doomed", "purge_store", "write_new_file"]

FILE_MODE = 0o600
NOTE = "Copies made elsewhere (backups, exports, snapshots of the disk) are not touched by a purge."


async def purge_store(runtime: Runtime, access: Access, selector: Selector) -> dict[str, Any]:
    """Remove what the selector names from the file and its log; answers the certificate.

    `log_emptied` is False where another process kept the old pages of the log in use.
    """
    certificate = await purge(runtime.kernel, access, selector, notes=(NOTE,))
    try:
        await runtime.driver.checkpoint()
        log_emptied = True
    except SqlBusy:
        log_emptied = False
    return {
        **dataclasses.asdict(certificate),
        "log_emptied": log_emptied,
        "clean": certificate.is_clean and log_emptied,
    }


async def export_doomed(kernel: Kernel, access: Access, selector: Selector, path: Path) -> int:
    """Write what is about to go, deleted memories included, to a new file, durably; answers how many.

    Raises Fault.
    """
    pages = _memories(kernel, access, selector) if selector.memory_ids else _pages(kernel, access, selector)
    body, records = [], 0
    async for page, count in pages:
        body.append(page)
        records += count
    write_new_file(path, "".join(body))
    return records


def write_new_file(path: Path, text: str) -> None:
    """Create a file for this user's eyes and force it to the disk. Raises Fault, also where it exists."""
    try:
        with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, FILE_MODE), "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
    except FileExistsError:
        raise Fault(f"{path} exists; name another file.") from None
    except OSError as failure:
        raise Fault(f"{path} cannot be written: {failure.strerror}.") from None


async def _pages(kernel: Kernel, access: Access, selector: Selector) -> AsyncIterator[tuple[str, int]]:
    """A subject's or the whole tenant's: an access that is locked to the subject sees just that."""
    locked = dataclasses.replace(access, subject_id=selector.subject_id)
    after: str | None = None
    while True:
        page = await export_page(kernel, locked, after=after, limit=limits.EXPORT_LIMIT_MAX, deleted=True)
        summary = read_summary(page.rstrip("\n").rpartition("\n")[2].encode()) or {}
        yield page, int(str(summary.get("records", 0)))
        if summary.get("next") is None:
            return
        after = str(summary["next"])


async def _memories(kernel: Kernel, access: Access, selector: Selector) -> AsyncIterator[tuple[str, int]]:
    rows = [await existing(kernel, access, memory_id) for memory_id in dict.fromkeys(selector.memory_ids)]
    rows.sort(key=lambda row: (row.created_at_ms, row.id))
    histories = await kernel.store.transfer.histories(access, [row.id for row in rows])
    lines = "".join(record_line(row, histories.get(row.id, ())) + "\n" for row in rows)
    summary = {
        "format": SUMMARY_FORMAT,
        "format_version": FORMAT_VERSION,
        "records": len(rows),
        "sha256": hashlib.sha256(lines.encode()).hexdigest(),
        "next": None,
    }
    yield f"{lines}{canonical_json(summary)}\n", len(rows)


async def existing(kernel: Kernel, access: Access, memory_id: str) -> Memory:
    """A memory of the tenant, deleted or not. Raises Fault."""
    row = await kernel.store.memories.get(access, memory_id, deleted=True)
    if row is None:
        raise Fault(f"The tenant has no memory {memory_id}; nothing was purged.")
    return row
