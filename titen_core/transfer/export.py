"""Export: a page of records and a summary line that proves the page whole.

Nothing in it depends on the store it came from but the records: no keys, vectors, index state, row
numbers or export time. A store filled from an export gives the same bytes again.
"""

import hashlib

from titen_core import cursors, limits
from titen_core.content import canonical_json, refusal
from titen_core.kernel import Kernel
from titen_core.models import Access
from titen_core.transfer.record import FORMAT_VERSION, SUMMARY_FORMAT, record_line

__all__ = ["EXPORT_CURSOR", "export_page"]

EXPORT_CURSOR = "export"


async def export_page(kernel: Kernel, access: Access, *, after: str | None, limit: int, deleted: bool = False) -> str:
    """Up to `limit` records in order of (created_at, id), then one summary line.

    Expired memories are included, deleted ones only if `deleted`. A page ends early once it
    holds EXPORT_PAGE_EVENTS. The summary's `next` is the `after` of the next page, or null at the end.

    Raises ValidationError for `limit` out of 1..EXPORT_LIMIT_MAX and for a foreign or mangled `after`.
    """
    if not 1 <= limit <= limits.EXPORT_LIMIT_MAX:
        raise refusal("limit", f"must be 1 to {limits.EXPORT_LIMIT_MAX}")
    position = None if after is None else await _position(kernel, access, after)
    page = await kernel.store.transfer.page(access, after=position, limit=limit, deleted=deleted)
    records = "".join(record_line(memory, events) + "\n" for memory, events in page.rows)
    following = None
    if page.more:
        last, _ = page.rows[-1]
        following = cursors.encode(None, EXPORT_CURSOR, (last.created_at_ms, last.id))
    return records + _summary(records, len(page.rows), following) + "\n"


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
