"""Export files: bodies of whole pages for import, and how far a file that was cut short had come."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

__all__ = ["Piece", "Tail", "last_summary", "pieces", "read_summary"]

SUMMARY_FORMAT = "titen-memory-summary"
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

    A file without summaries is cut anywhere between lines.
    """
    held: list[bytes] = []
    size, first = 0, 1
    for number, line in enumerate(stream, 1):
        if held and size + len(line) > PIECE_BYTES_MAX:
            yield Piece(first, len(held), b"".join(held))
            held, size, first = [], 0, number
        held.append(line)
        size += len(line)
        if size >= PIECE_BYTES and read_summary(line) is not None:
            yield Piece(first, len(held), b"".join(held))
            held, size, first = [], 0, number + 1
    if held:
        yield Piece(first, len(held), b"".join(held))


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
