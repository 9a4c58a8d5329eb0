"""Times a person types and reads."""

import datetime as dt
import re

import click

from titen_core import limits

__all__ = ["TIME", "parse_time", "shown"]

_SPAN = re.compile(r"([1-9][0-9]{0,8})([smhdw])")
_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


def parse_time(text: str, now_ms: int) -> int:
    """Milliseconds since the epoch from `30d`, an RFC 3339 time with an offset, or milliseconds.

    Raises ValueError.
    """
    span = _SPAN.fullmatch(text.strip())
    if span is not None:
        moment_ms = now_ms + int(span[1]) * _UNIT_MS[span[2]]
    elif text.isascii() and text.isdigit():
        moment_ms = int(text)
    else:
        moment = dt.datetime.fromisoformat(text.strip())
        if moment.tzinfo is None:
            raise ValueError("a time without an offset")
        moment_ms = (moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(milliseconds=1)
    if not 0 <= moment_ms <= limits.TIME_MAX_MS:
        raise ValueError("a time out of range")
    return moment_ms


def shown(moment_ms: int | None) -> str:
    """A time as RFC 3339 in UTC, to the second; a dash for none."""
    if moment_ms is None:
        return "-"
    return dt.datetime.fromtimestamp(moment_ms / 1000, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class _Time(click.ParamType[int]):
    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        from titen_core.ids import system_clock  # noqa: PLC0415

        try:
            return parse_time(str(value), system_clock())
        except (ValueError, OverflowError):
            self.fail("give a span such as 30d or 12h, or a time such as 2030-01-31T12:00:00+07:00", param, ctx)


TIME = _Time()
