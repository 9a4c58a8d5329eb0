"""Export files: cut into bodies for import, and continued after an interruption."""

import hashlib
import io
import json
from pathlib import Path

import pytest

from titen_core.errors import ValidationError
from titen_core.transfer.lines import PageCheck, read_lines
from vps import jsonl
from vps.jsonl import last_summary, pieces, read_summary


def summary(records: int, following: str | None) -> bytes:
    line = {"format": "titen-memory-summary", "format_version": 1, "records": records, "next": following}
    return json.dumps(line).encode() + b"\n"


def true_summary(records: int, following: str | None) -> bytes:
    line = json.loads(summary(records, following))
    return json.dumps({**line, "sha256": hashlib.sha256(RECORD * records).hexdigest()}).encode() + b"\n"


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
    found = list(pieces(io.BytesIO((RECORD * 5).rstrip())))
    assert [(piece.first_line, piece.lines) for piece in found] == [(1, 2), (3, 2), (5, 1)]
    assert b"".join(line for piece in found for line in piece.body.splitlines(True)[: piece.lines]) == RECORD * 5
    assert not list(pieces(io.BytesIO(b"")))


def check(body: bytes) -> PageCheck:
    """A body as the importing side checks it. Raises ValidationError for a summary that is not true."""
    page = PageCheck()
    for line in read_lines(body):
        values = json.loads(line.data)
        if values["format"] == "titen-memory-summary":
            page.summary(values)
        else:
            page.record(line)
    return page


@pytest.mark.parametrize("room", range(2, 9))
def test_a_page_too_large_for_one_body_is_checked_in_parts(monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    monkeypatch.setattr(jsonl, "PIECE_BYTES_MAX", room * len(RECORD))
    whole = RECORD * 3 + true_summary(3, "c") + RECORD * 7 + true_summary(7, None)
    found = list(pieces(io.BytesIO(whole)))
    assert [check(piece.body).complete for piece in found] == [False] * (len(found) - 1) + [True]
    assert sum(piece.body.count(b'"titen-memory"') for piece in found) == 10


def test_a_cut_page_whose_summary_is_untrue_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "PIECE_BYTES_MAX", 2 * len(RECORD))
    *parts, last = pieces(io.BytesIO(RECORD * 5 + true_summary(6, None)))
    for piece in parts:
        check(piece.body)
    with pytest.raises(ValidationError):
        check(last.body)


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
