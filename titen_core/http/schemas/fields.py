"""The kinds of fields that requests and answers are made of."""

from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, Field, ValidationInfo, WithJsonSchema

from titen_core import limits
from titen_core.times import parse_time

__all__ = [
    "AS_TEXT",
    "Confidence",
    "ExpiryTime",
    "Metadata",
    "Name",
    "Tags",
    "Text",
    "lenient",
    "time_of",
]

T = TypeVar("T")

Name = Annotated[str, Field(min_length=1, max_length=limits.NAME_BYTES)]
Text = Annotated[
    str,
    WithJsonSchema(
        {
            "type": "string",
            "minLength": 1,
            "maxLength": limits.CONTENT_BYTES,
            "description": f"1 byte to {limits.CONTENT_BYTES} bytes of UTF-8 after trimming.",
        }
    ),
]
Tags = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=limits.TAG_BYTES)]], Field(max_length=limits.TAGS_COUNT)
]
# Not JsonValue: it recurses, and pydantic-core gives up at 50 levels in a Worker, at 255 elsewhere. What is
# here came out of a JSON parser that counts to JSON_DEPTH.
Metadata = Annotated[
    dict[str, Any],
    WithJsonSchema(
        {
            "type": "object",
            "additionalProperties": {"description": "any JSON value"},
            "description": f"A JSON object of at most {limits.METADATA_BYTES} bytes.",
        }
    ),
]


AS_TEXT = "as_text"
"""Validation context: values come from a query string, where an integer is written in digits."""

_TIME_SCHEMA = WithJsonSchema(
    {
        "anyOf": [
            {"type": "integer", "minimum": 0, "maximum": limits.TIME_MAX_MS},
            {"type": "string", "format": "date-time", "maxLength": 40},
        ],
        "description": "Milliseconds since the epoch, or RFC 3339 with an offset.",
    }
)


def _read_time(field: str) -> BeforeValidator:
    def moment(value: object, info: ValidationInfo) -> int:
        return parse_time(field, value, as_text=bool(info.context and info.context.get(AS_TEXT)))

    return BeforeValidator(moment)


def time_of(field: str) -> Any:
    return Annotated[int, _read_time(field), _TIME_SCHEMA]


def lenient(enum: type[T]) -> Any:
    """The enum in a strict model: its values arrive as text."""
    return Annotated[enum, Field(strict=False)]


ExpiryTime = Annotated[int, _read_time("expires_at"), _TIME_SCHEMA]
Confidence = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
