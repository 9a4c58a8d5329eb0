"""Times a person types and reads."""

import datetime as dt

import click

from titen_core.errors import ValidationError
from titen_core.ids import system_clock
from titen_core.times import parse_span, parse_time

__all__ = ["TIME", "parse_moment", "shown"]


def parse_moment(text: str, now_ms: int) -> int:
    """Milliseconds since the epoch, from a span such as `30d` from now on or from a time with an offset.

    Raises ValidationError.
    """
    if text[-1:] in {"h", "d", "w"} and text[:-1].isdigit():
        return now_ms + parse_span("time", text)
    return parse_time("time", text, as_text=True)


def shown(moment_ms: int | None) -> str:
    """A time as RFC 3339 in UTC, to the second; a dash for none."""
    if moment_ms is None:
        return "-"
    return dt.datetime.fromtimestamp(moment_ms / 1000, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class _Time(click.ParamType[int]):
    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return parse_moment(str(value).strip(), system_clock())
        except ValidationError:
            self.fail("give a span such as 12h or 30d, or a time such as 2030-01-31T12:00:00+07:00.", param, ctx)


TIME = _Time()
