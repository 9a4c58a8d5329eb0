"""Leaving and arriving: JSON Lines in bounded requests, however long the whole is."""

import io
import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

import httpx

from titen_client.answers import ImportReport, LineError
from titen_client.calls import Call, Page, data_of, query
from titen_client.errors import Unexpected

__all__ = ["BODY_BYTES_MAX", "export", "import_lines"]

BODY_BYTES_MAX: Final = 8 * 1024 * 1024
"""What the service takes as one import."""

_BODY_BYTES: Final = 512 * 1024
_SUMMARY_BYTES_MAX: Final = 4096
_SUMMARY_FORMAT: Final = "titen-memory-summary"


def export(*, deleted: bool = False, page_size: int | None = None, after: str | None = None) -> Call[Page[bytes]]:
    """The memories with their history as JSON Lines, page by page; each page ends with a line that proves it whole.

    With `deleted`, tombstones too. To go on with an export that was cut short, give the `next` of its last
    whole page as `after`.
    """
    params = query(deleted="true" if deleted else None, limit=page_size, after=after)

    def read(response: httpx.Response) -> Page[bytes]:
        following = _next_of(response)
        return Page(
            [response.content],
            None if following is None else export(deleted=deleted, page_size=page_size, after=following),
        )

    return Call("GET", "/v1/export", read, params=params, repeatable=True)


def import_lines(lines: Iterable[bytes]) -> Call[ImportReport]:
    """Take in the lines of an export, such as a file opened with "rb", or the pages of `export`.

    Bad lines are reported and the others taken. Running it again adds nothing. Raises ValueError where a page is
    larger than a request may be: export with a smaller `page_size` then, or use `titen import`, which can cut one.
    """
    bodies = _bodies(_pages(line for chunk in lines for line in io.BytesIO(chunk)))
    total = ImportReport(imported=0, unchanged=0, failed=0, errors=[], next_line=None, complete=False, warning=None)
    return _step(next(bodies, b""), 1, bodies, total, lines_before=0)


def _step(
    body: bytes, from_line: int, rest: Iterator[bytes], total: ImportReport, lines_before: int
) -> Call[ImportReport]:
    """One request, and after it the next one of the same body or of the rest."""

    def read(response: httpx.Response) -> ImportReport | Call[ImportReport]:
        report: ImportReport = data_of(response)
        summed = _sum(total, report, lines_before)
        if report["next_line"] is not None:
            return _step(body, report["next_line"], rest, summed, lines_before)
        following = next(rest, None)
        return summed if following is None else _step(following, 1, rest, summed, lines_before + body.count(b"\n"))

    headers = {"Content-Type": "application/x-ndjson"}
    params = query(from_line=from_line)
    return Call("POST", "/v1/import", read, params=params, headers=headers, body=body, repeatable=True)


def _sum(total: ImportReport, report: ImportReport, lines_before: int) -> ImportReport:
    """Both together; lines are counted over the whole, and the last report says how it ended."""
    errors = [LineError(line=error["line"] + lines_before, message=error["message"]) for error in report["errors"]]
    return ImportReport(
        imported=total["imported"] + report["imported"],
        unchanged=total["unchanged"] + report["unchanged"],
        failed=total["failed"] + report["failed"],
        errors=[*total["errors"], *errors],
        next_line=None,
        complete=report["complete"],
        warning=report["warning"],
    )


def _bodies(pages: Iterable[bytes]) -> Iterator[bytes]:
    """Pages together, up to about _BODY_BYTES: each request costs a round trip."""
    held = b""
    for page in pages:
        if held and len(held) + len(page) > _BODY_BYTES:
            yield held
            held = b""
        held += page
    if held:
        yield held


def _pages(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Lines up to a summary and with it, since the service checks each page whole."""
    held: list[bytes] = []
    size = 0
    for line in lines:
        held.append(line if line.endswith(b"\n") else line + b"\n")
        size += len(held[-1])
        if size > BODY_BYTES_MAX:
            raise ValueError("A page of this export is larger than one request may be; use a smaller page_size.")
        if _summary(line) is not None:
            yield b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)


def _next_of(response: httpx.Response) -> str | None:
    """The cursor of the next page. Raises Unexpected for a page without its summary."""
    summary = _summary(response.content.rstrip(b"\n").rsplit(b"\n", 1)[-1])
    if summary is None or "next" not in summary:
        raise Unexpected("A page of the export came without its last line; it is not whole.", response.status_code)
    following: str | None = summary["next"]
    return following


def _summary(line: bytes) -> dict[str, Any] | None:
    """The summary on this line, if it is one; a memory may well speak of summaries."""
    if len(line) > _SUMMARY_BYTES_MAX or _SUMMARY_FORMAT.encode() not in line:
        return None
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) and found.get("format") == _SUMMARY_FORMAT else None
