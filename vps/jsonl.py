"""Export files: bodies of whole pages for import, and how far a file that was cut short had come."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from titen_core.transfer.record import FORMAT_VERSION, SUMMARY_FORMAT

__all__ = ["Piece", "Tail", "last_summary", "pieces", "read_summary"]

CUT = "the page goes on"
PIECE_BYTES = 512 * 1024
PIECE_BYTES_MAX = 6 * 1024 * 1024
_SUMMARY_BYTES_MAX = 4096


@dataclass(frozen=True, slots=True)
class Piece:
    """Some lines of a file; the first of them is line `first_line` of the whole, counted from 1."""

    first_line: int
    lines: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Tail:
    """Where the last whole page of a file ends. `following`: the cursor of the next page.

    `complete`: there is no next page.
    """

    end_byte: int
    records: int
    following: str | None
    complete: bool


def pieces(stream: BinaryIO) -> Iterator[Piece]:
    """The file in bodies of about PIECE_BYTES that end with a page, so that a page is checked whole.

    A page too large for one body is cut, and each part gets a summary of its own once the page's own
    was found to be true; what is untrue is passed on for the importing side to refuse.
    """
    held: list[bytes] = []
    size, first, page, part = 0, 1, _Page(), _Page()
    for number, line in enumerate(stream, 1):
        if held and size + len(line) > PIECE_BYTES_MAX:
            yield Piece(first, len(held), b"".join([*held, part.summary(CUT)]))
            held, size, first, part = [], 0, number, _Page(cut=True)
        summary = read_summary(line)
        if summary is not None:
            held.append(part.summary(summary.get("next")) if part.cut and page.is_told_by(summary) else line)
            page, part = _Page(), _Page()
        else:
            held.append(line if line.endswith(b"\n") else line + b"\n")
            page.add(line)
            part.add(line)
        size += len(held[-1])
        if summary is not None and size >= PIECE_BYTES:
            yield Piece(first, len(held), b"".join(held))
            held, size, first = [], 0, number + 1
    if held:
        yield Piece(first, len(held), b"".join(held))


class _Page:
    """Counts and hashes record lines as an export's summary does. `cut`: its beginning is in another body."""

    def __init__(self, *, cut: bool = False) -> None:
        self.cut = cut
        self._records = 0
        self._digest = hashlib.sha256()

    def add(self, line: bytes) -> None:
        """Note a line that is no summary; blank ones do not count."""
        data = line.strip(b" \t\r\n")
        if data:
            self._records += 1
            self._digest.update(data + b"\n")

    def is_told_by(self, summary: dict[str, object]) -> bool:
        """Whether a summary speaks of exactly these lines."""
        return (summary.get("records"), summary.get("sha256")) == (self._records, self._digest.hexdigest())

    def summary(self, following: object) -> bytes:
        """A summary line of these lines."""
        told = {
            "format": SUMMARY_FORMAT,
            "format_version": FORMAT_VERSION,
            "records": self._records,
            "sha256": self._digest.hexdigest(),
            "next": following,
        }
        return json.dumps(told).encode() + b"\n"


def read_summary(line: bytes) -> dict[str, object] | None:
    """The summary on this line, if it is one."""
    if len(line) > _SUMMARY_BYTES_MAX or SUMMARY_FORMAT.encode() not in line:
        return None
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) and found.get("format") == SUMMARY_FORMAT else None


def last_summary(path: Path) -> Tail:
    """How far an export to this file had come: through its last whole page."""
    tail, place = Tail(0, 0, None, complete=False), 0
    with path.open("rb") as stream:
        for line in stream:
            place += len(line)
            summary = read_summary(line) if line.endswith(b"\n") else None
            if summary is not None:
                count, cursor = summary.get("records"), summary.get("next")
                records = tail.records + (count if isinstance(count, int) else 0)
                tail = Tail(place, records, cursor if isinstance(cursor, str) else None, complete=cursor is None)
    return tail
