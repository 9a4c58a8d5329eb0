"""Times as callers write them: integer milliseconds since the epoch, or RFC 3339 with an offset."""

import re
from datetime import UTC, datetime, timedelta

from titen_core import limits
from titen_core.content import refusal

__all__ = ["iso_time", "parse_span", "parse_time"]

# Hours and minutes are bounded here, since Python versions differ on 24:00 and on an offset of +07:60.
_RFC3339 = re.compile(
    r"(\d{4}-\d{2}-\d{2})[Tt ]((?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d)(?:\.(\d{1,9}))?"
    r"([Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)",
    re.ASCII,
)
_DIGITS = re.compile(r"-?\d{1,18}", re.ASCII)
_SPAN = re.compile(r"(\d{1,6})([hdw])", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SPAN_MS = {"h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}


def parse_time(field: str, value: object, *, as_text: bool = False) -> int:
    """Milliseconds since the epoch, UTC. Raises ValidationError naming `field`.

    A time without an offset is refused: the host's time zone must never decide. Digits below a
    millisecond are cut. `as_text`: an integer may come as digits, as it must in a query string.
    """
    if as_text and isinstance(value, str) and _DIGITS.fullmatch(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise _unreadable(field)
    moment = value if isinstance(value, int) else _from_text(field, value)
    if not 0 <= moment <= limits.TIME_MAX_MS:
        raise refusal(field, f"must lie between 0 and {limits.TIME_MAX_MS} milliseconds since the epoch")
    return moment


def parse_span(field: str, value: str) -> int:
    """Milliseconds of a span such as `36h`, `7d` or `2w`. Raises ValidationError naming `field`."""
    found = _SPAN.fullmatch(value)
    span = int(found[1]) * _SPAN_MS[found[2]] if found else 0
    if not 0 < span <= limits.EXPIRING_WITHIN_MAX_MS:
        raise refusal(field, "must be a span of h, d or w such as 36h, 7d or 2w, at most 366d")
    return span


def iso_time(time_ms: int) -> str:
    """A time as RFC 3339 in UTC with `Z`; milliseconds are written where there are any."""
    moment = _EPOCH + timedelta(milliseconds=time_ms)
    precision = "milliseconds" if time_ms % 1000 else "seconds"
    return moment.isoformat(timespec=precision).replace("+00:00", "Z")


def _from_text(field: str, value: str) -> int:
    found = _RFC3339.fullmatch(value)
    if found is None:
        raise _unreadable(field)
    day, clock, fraction, offset = found.groups()
    try:
        moment = datetime.fromisoformat(f"{day}T{clock}{'+00:00' if offset in 'Zz' else offset}").astimezone(UTC)
    except (ValueError, OverflowError) as failure:
        raise _unreadable(field) from failure
    whole_seconds = int((moment - _EPOCH).total_seconds())
    return whole_seconds * 1000 + int((fraction or "0").ljust(3, "0")[:3])


def _unreadable(field: str) -> Exception:
    return refusal(
        field,
        "must be integer milliseconds since the epoch or RFC 3339 with an offset, such as 2026-11-30T09:00:00Z",
    )
