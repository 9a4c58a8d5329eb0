"""How the Python client cuts an import into requests, and how it adds up what comes back."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from titen_client import ImportReport, Unexpected
from titen_client.calls import Call
from titen_client.exchange import Pause, exchange
from titen_client.operations import export, import_lines
from titen_client.transfer import BODY_BYTES_MAX
from titen_core import limits
from titen_core.transfer.record import SUMMARY_FORMAT


def page(size: int, following: str | None = None) -> list[bytes]:
    """A record line of so many bytes and the page's summary."""
    return [b"x" * (size - 1) + b"\n", summary(following)]


def summary(following: str | None) -> bytes:
    return json.dumps({"format": SUMMARY_FORMAT, "records": 1, "next": following}).encode() + b"\n"


def told(**numbers: Any) -> httpx.Response:
    report = {
        "imported": 0, "unchanged": 0, "failed": 0, "errors": [], "next_line": None, "complete": False, "warning": None,
    }  # fmt: skip
    return httpx.Response(200, json={"data": {**report, **numbers}, "meta": {"request_id": "r"}})


def sent(lines: list[bytes], answer: Callable[[int], httpx.Response]) -> tuple[list[Call[Any]], ImportReport]:
    """The requests of an import and its report; `answer` gets the number of each."""
    calls: list[Call[Any]] = []
    steps, outcome = exchange(import_lines(lines)), None
    try:
        while True:
            step = steps.send(outcome)
            assert not isinstance(step, Pause)
            calls.append(step)
            outcome = answer(len(calls))
    except StopIteration as done:
        return calls, done.value


def test_small_pages_go_together_and_large_ones_alone() -> None:
    lines = [*page(1_000), *page(1_000), *page(600_000), *page(1_000)]
    calls, _ = sent(lines, lambda _: told())
    bodies = [call.body for call in calls]
    assert bodies == [b"".join(lines[:4]), b"".join(lines[4:6]), b"".join(lines[6:])]
    assert all(call.repeatable and call.headers["Content-Type"] == "application/x-ndjson" for call in calls)


def test_a_body_goes_on_where_the_service_stopped_and_lines_count_over_the_whole() -> None:
    lines = [*page(600_000), *page(600_001)]
    error = {"line": 1, "message": "bad"}
    answers = [
        told(imported=1, next_line=2),
        told(unchanged=2, failed=1, errors=[error]),
        told(imported=3, failed=1, errors=[error], complete=True, warning=None),
    ]
    calls, report = sent(lines, lambda number: answers[number - 1])
    assert [call.params["from_line"] for call in calls] == [1, 2, 1]
    assert calls[0].body == calls[1].body != calls[2].body
    assert (report["imported"], report["unchanged"], report["failed"], report["complete"]) == (4, 2, 2, True)
    assert [error["line"] for error in report["errors"]] == [1, 3]
    assert report["next_line"] is None


def test_lines_may_come_as_pages_and_the_last_one_without_its_end() -> None:
    calls, _ = sent([b"".join(page(10)) + b"last"], lambda _: told())
    assert [call.body for call in calls] == [b"".join(page(10)) + b"last\n"]


def test_a_memory_that_speaks_of_summaries_does_not_end_a_page() -> None:
    record = json.dumps({"format": "titen-memory", "content": f'"{SUMMARY_FORMAT}"'}).encode() + b"\n"
    lines = [b"x" * 600_000 + b"\n", record, *page(600_000)]
    calls, _ = sent(lines, lambda _: told())
    assert [call.body for call in calls] == [b"".join(lines)]


def test_nothing_is_one_empty_request() -> None:
    calls, report = sent([], lambda _: told(warning="incomplete"))
    assert [call.body for call in calls] == [b""]
    assert report["warning"] == "incomplete"


def test_a_page_larger_than_a_request_is_refused_before_it_is_sent() -> None:
    assert BODY_BYTES_MAX == limits.IMPORT_BODY_BYTES
    with pytest.raises(ValueError, match="page_size"):
        import_lines([b"x" * 1_000_000] * 9)


def test_an_export_goes_on_to_the_end_and_notices_a_cut_page() -> None:
    call: Call[Any] = export(deleted=True, page_size=1)
    first = call.read(httpx.Response(200, content=b"".join(page(10, "here"))))
    assert not isinstance(first, Call)
    assert first.items == [b"".join(page(10, "here"))]
    assert first.following is not None
    assert first.following.params == {"deleted": "true", "limit": 1, "after": "here"}
    last = first.following.read(httpx.Response(200, content=b"".join(page(10))))
    assert not isinstance(last, Call)
    assert last.following is None
    for cut in (page(10)[0], b"", summary(None)[:-10]):
        with pytest.raises(Unexpected):
            call.read(httpx.Response(200, content=cut))
