"""Export: a page of records and a summary line that proves the page whole.

Nothing in it depends on the store it came from but the records: no keys, vectors, index state, row
numbers or export time. A store filled from an export gives the same bytes again.
"""

import hashlib
from collections.abc import Sequence

from titen_core import cursors, limits
from titen_core.content import canonical_json, refusal
from titen_core.kernel import Kernel
from titen_core.models import Access, Memory, MemoryEvent
from titen_core.transfer.record import FORMAT_VERSION, SUMMARY_FORMAT, canonical_events, record_line

__all__ = ["EXPORT_CURSOR", "export_page"]

EXPORT_CURSOR = "export"


async def export_page(kernel: Kernel, access: Access, *, after: str | None, limit: int, deleted: bool = False) -> str:
    """Up to `limit` records in order of (created_at, id), then one summary line.

    Expired memories are included, deleted ones only if `deleted`. A history too long for a line of an
    import begins later. A page ends early once it holds EXPORT_PAGE_EVENTS. The summary's `next` is the
    `after` of the next page, or null at the end.

    Raises ValidationError for `limit` out of 1..EXPORT_LIMIT_MAX and for a foreign or mangled `after`.
    """
    if not 1 <= limit <= limits.EXPORT_LIMIT_MAX:
        raise refusal("limit", f"must be 1 to {limits.EXPORT_LIMIT_MAX}")
    position = None if after is None else await _position(kernel, access, after)
    page = await kernel.store.transfer.page(access, after=position, limit=limit, deleted=deleted)
    records = "".join(_line(memory, events) + "\n" for memory, events in page.rows)
    following = None
    if page.more:
        last, _ = page.rows[-1]
        following = cursors.encode(None, EXPORT_CURSOR, (last.created_at_ms, last.id))
    return records + _summary(records, len(page.rows), following) + "\n"


def _line(memory: Memory, events: Sequence[MemoryEvent]) -> str:
    """The record with as much of its latest history as import takes: a memory changed often must not stay behind."""
    line = record_line(memory, events)
    while (excess := len(line.encode()) - limits.IMPORT_LINE_BYTES) > 0 and len(events) > 1:
        events = events[_oldest_holding(events, excess) :]
        line = record_line(memory, events)
    return line


def _oldest_holding(events: Sequence[MemoryEvent], size_bytes: int) -> int:
    """How many of the oldest events to leave out for about so many bytes; at least one, never all."""
    for count, event in enumerate(events[:-1], 1):
        size_bytes -= len(canonical_json(canonical_events([event])).encode())
        if size_bytes <= 0:
            return count
    return len(events) - 1


async def _position(kernel: Kernel, access: Access, after: str) -> tuple[int, str]:
    """Where the page begins. The cursor is part of the export, so it may not name the tenant it is from."""
    position = cursors.decode(None, EXPORT_CURSOR, after, "after")
    if not await kernel.store.transfer.holds(access, position):
        raise refusal("after", "names no record here; begin the export again without it")
    return position


def _summary(records: str, count: int, following: str | None) -> str:
    return canonical_json(
        {
            "format": SUMMARY_FORMAT,
            "format_version": FORMAT_VERSION,
            "records": count,
            "sha256": hashlib.sha256(records.encode()).hexdigest(),
            "next": following,
        }
    )
