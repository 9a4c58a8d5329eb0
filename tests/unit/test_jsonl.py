"""Export files: cut into bodies for import, and continued after an interruption."""

import io
import json
from pathlib import Path

import pytest

from vps import jsonl
from vps.jsonl import last_summary, pieces, read_summary


def summary(records: int, following: str | None) -> bytes:
    line = {"format": "titen-memory-summary", "format_version": 1, "records": records, "next": following}
    return json.dumps(line).encode() + b"\n"


RECORD = b'{"format":"titen-memory"}\n'


def test_pieces_end_with_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "PIECE_BYTES", 2 * len(RECORD))
    page = RECORD * 3 + summary(3, "c")
    whole = page + RECORD + summary(1, "d") + RECORD * 2
    found = list(pieces(io.BytesIO(whole)))
    assert b"".join(piece.body for piece in found) == whole
    assert [(piece.first_line, piece.lines) for piece in found] == [(1, 4), (5, 2), (7, 2)]


def test_a_file_without_summaries_is_cut_between_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "PIECE_BYTES_MAX", 2 * len(RECORD))
    found = list(pieces(io.BytesIO(RECORD * 5)))
    assert [(piece.first_line, piece.lines) for piece in found] == [(1, 2), (3, 2), (5, 1)]
    assert not list(pieces(io.BytesIO(b"")))


def test_only_a_summary_is_one() -> None:
    assert read_summary(summary(1, None)) is not None
    assert read_summary(RECORD) is None
    assert read_summary(b'{"format":"titen-memory","content":"titen-memory-summary"}\n') is None
    assert read_summary(b'titen-memory-summary"') is None


def test_the_tail_of_a_file_cut_short(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    whole_pages = RECORD * 2 + summary(2, "cursor")
    file.write_bytes(whole_pages + RECORD + summary(1, "next")[:-9])
    tail = last_summary(file)
    assert (tail.end_byte, tail.records, tail.following, tail.complete) == (len(whole_pages), 2, "cursor", False)
    file.write_bytes(whole_pages + RECORD + summary(1, None))
    tail = last_summary(file)
    assert (tail.records, tail.following, tail.complete) == (3, None, True)
    file.write_bytes(b"")
    assert last_summary(file).end_byte == 0
