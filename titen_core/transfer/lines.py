"""The lines of an import body, and the summaries that prove its pages whole."""

import hashlib
import io
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from titen_core import limits
from titen_core.errors import ValidationError
from titen_core.nesting import nests_deeper
from titen_core.transfer.record import SUMMARY_FORMAT, check_format_version

__all__ = ["Line", "PageCheck", "read_json", "read_lines"]

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Line:
    """One line that is not blank, without its end and byte order mark. Numbers begin at 1."""

    number: int
    data: bytes

    @property
    def may_be_summary(self) -> bool:
        """A cheap look, so that lines that are passed over need no parsing."""
        return len(self.data) < 1024 and SUMMARY_FORMAT.encode() in self.data


def read_lines(body: bytes) -> Iterator[Line]:
    """The lines of a body that hold something, whatever ends them, one at a time: a body may have millions."""
    for number, data in enumerate(io.BytesIO(body), 1):
        stripped = data.removeprefix(_BOM).strip(b" \t\r\n")
        if stripped:
            yield Line(number, stripped)


def read_json(data: bytes) -> Mapping[str, Any]:
    """The JSON object of a line: UTF-8, finite numbers, nested at most IMPORT_LINE_DEPTH. Raises ValidationError."""
    if len(data) > limits.IMPORT_LINE_BYTES:
        raise ValidationError(f"The line is {len(data)} bytes; at most {limits.IMPORT_LINE_BYTES} are allowed.")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise ValidationError("The line is not valid UTF-8.") from None
    if nests_deeper(text, limits.IMPORT_LINE_DEPTH):
        raise ValidationError(f"The line nests deeper than {limits.IMPORT_LINE_DEPTH} levels.")
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except ValueError:
        raise ValidationError("The line is not valid JSON.") from None
    if not isinstance(value, dict):
        raise ValidationError("The line must be a JSON object.")
    _check_numbers(value)
    return value


def _check_numbers(value: Any) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValidationError("The line holds a number too large to keep.")
    if isinstance(value, dict | list):
        for member in value.values() if isinstance(value, dict) else value:
            _check_numbers(member)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


class PageCheck:
    """Counts and hashes the record lines since the last summary, and remembers how the body ended."""

    def __init__(self) -> None:
        self._start_page()
        self.complete = False

    def _start_page(self) -> None:
        self._records = 0
        self._digest = hashlib.sha256()

    def record(self, line: Line) -> None:
        """Note a line that is no summary."""
        self._records += 1
        self._digest.update(line.data + b"\n")
        self.complete = False

    def summary(self, values: Mapping[str, Any]) -> None:
        """Compare a summary with what went before it. Raises ValidationError when they differ."""
        records, digest = self._records, self._digest.hexdigest()
        self._start_page()
        self.complete = False
        check_format_version(values)
        if values.get("records") != records:
            raise ValidationError(
                f"The summary counts {values.get('records')!r:.20} records, {records} came before it; export again."
            )
        if values.get("sha256") != digest:
            raise ValidationError("The lines before this summary are not the ones it was made for; export again.")
        self.complete = values.get("next") is None
