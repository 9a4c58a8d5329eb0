"""Times as callers write them."""

import contextlib
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from titen_core import limits
from titen_core.errors import ValidationError
from titen_core.times import parse_span, parse_time

MOMENT_MS = 1_796_032_800_123  # 2026-11-30T10:00:00.123Z
SPELLINGS = (
    "2026-11-30T10:00:00.123Z",
    "2026-11-30t10:00:00.123z",
    "2026-11-30 10:00:00.123Z",
    "2026-11-30T10:00:00.123+00:00",
    "2026-11-30T10:00:00.123-00:00",
    "2026-11-30T17:00:00.123+07:00",
    "2026-11-30T00:30:00.123-09:30",
    "2026-12-01T09:59:00.123+23:59",
    "2026-11-30T10:00:00.123456789Z",
    "2026-11-30T10:00:00.1239Z",
    str(MOMENT_MS),
    MOMENT_MS,
)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_one_moment_spelled_many_ways(spelling: str | int) -> None:
    assert parse_time("expires_at", spelling, as_text=True) == MOMENT_MS


def test_digits_are_a_time_only_where_everything_is_text() -> None:
    with pytest.raises(ValidationError, match="expires_at"):
        parse_time("expires_at", str(MOMENT_MS))


@pytest.mark.parametrize(
    "naive_or_worse",
    [
        *("2026-11-30T10:00:00", "2026-11-30 10:00:00", "2026-11-30", "10:00:00Z", "", " ", "now", "--5", "-", "+5"),
        *("2026-11-30T10:00Z", "20261130T100000Z", "2026-W49-1T10:00:00Z", "2026-11-30T10:00:00+0700"),
        *("2026-11-30T10:00:00+07", "2026-13-01T10:00:00Z", "2026-02-29T10:00:00Z", "2026-11-30T25:00:00Z"),
        *("2026-11-30T24:00:00Z", "2026-11-30T10:60:00Z", "2026-11-30T10:00:60Z", "2026-11-30T10:00:00+24:00"),
        *(
            "2026-11-30T10:00:00+07:60",
            "2026-11-30T10:00:00.Z",
            "2026-11-30T10:00:00.1234567890Z",
            "１７９６０３２８００",
        ),
        *("2026-11-30T10:00:00Z\n", "٢٠٢٦-11-30T10:00:00Z", "1e3", "0x10", "1_000", "9" * 400),
        *(1.5, 1796032800123.0, True, False, None, [], {}, b"1"),
    ],
)
def test_what_is_no_moment_is_refused_by_name(naive_or_worse: object) -> None:
    with pytest.raises(ValidationError, match="expires_at must") as refused:
        parse_time("expires_at", naive_or_worse)
    assert refused.value.details == {"fields": ["expires_at"]}


@pytest.mark.parametrize("bound", [0, limits.TIME_MAX_MS, "1970-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z"])
def test_the_bounds_are_moments(bound: object) -> None:
    assert parse_time("t", bound) in {0, limits.TIME_MAX_MS}


@pytest.mark.parametrize(
    "beyond",
    [
        *(-1, limits.TIME_MAX_MS + 1, str(limits.TIME_MAX_MS + 1), "-1", 10**30),
        *("1969-12-31T23:59:59.999Z", "9999-12-31T23:59:59-00:01", "0001-01-01T00:00:00+00:01", "0000-01-01T00:00:00Z"),
    ],
)
def test_one_beyond_a_bound_is_refused(beyond: object) -> None:
    with pytest.raises(ValidationError):
        parse_time("t", beyond)


@given(st.integers(0, limits.TIME_MAX_MS), st.integers(-23 * 60 - 59, 23 * 60 + 59))
def test_round_trip_through_any_offset(moment_ms: int, offset_min: int) -> None:
    try:
        spelled = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=moment_ms)).astimezone(
            timezone(timedelta(minutes=offset_min))
        )
    except OverflowError:
        return
    assert parse_time("t", spelled.isoformat(timespec="milliseconds")) == moment_ms
    assert parse_time("t", spelled.isoformat(sep=" ", timespec="microseconds")) == moment_ms


@given(st.text(alphabet="0123456789-:.TZ+ tz", max_size=40))
def test_no_text_is_a_surprise(text: str) -> None:
    with contextlib.suppress(ValidationError):
        assert 0 <= parse_time("t", text) <= limits.TIME_MAX_MS


@pytest.mark.parametrize("zone", ["Asia/Jakarta", "America/Los_Angeles", "UTC"])
def test_the_hosts_time_zone_changes_nothing(zone: str) -> None:
    script = f"""
import time; time.tzset()
from titen_core.times import parse_time
assert {{parse_time("t", text, as_text=True) for text in {SPELLINGS!r}}} == {{{MOMENT_MS}}}
"""
    subprocess.run(
        [sys.executable, "-c", script], check=True, cwd=Path(__file__).parents[2], env={**os.environ, "TZ": zone}
    )


@pytest.mark.parametrize(
    ("span", "span_ms"), [("1h", 3_600_000), ("36h", 129_600_000), ("7d", 604_800_000), ("2w", 1_209_600_000)]
)
def test_spans(span: str, span_ms: int) -> None:
    assert parse_span("within", span) == span_ms


def test_the_longest_span() -> None:
    assert parse_span("within", "366d") == limits.EXPIRING_WITHIN_MAX_MS


@pytest.mark.parametrize("span", ["0d", "367d", "8785h", "53w", "7", "d", "7D", "-1d", "1.5d", "7d ", "٧d", "7m", ""])
def test_what_is_no_span_is_refused(span: str) -> None:
    with pytest.raises(ValidationError, match="within must be a span"):
        parse_span("within", span)
