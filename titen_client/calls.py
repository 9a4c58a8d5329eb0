"""A call: one request to the service, and how its answer is read. Nothing here opens a connection."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import httpx

from titen_client.errors import Unexpected

__all__ = ["Call", "Page", "data_of", "envelope", "json_body", "query"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """`read` gets a success, and answers what the caller wants, or the next call on the way to it.

    `repeatable`: doing it twice is the same as doing it once, so it may be sent again after a silence.
    """

    method: str
    path: str
    read: "Callable[[httpx.Response], T | Call[T]]"
    params: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    repeatable: bool = False


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Part of a longer answer, and the call that gives the next part."""

    items: Sequence[T]
    following: "Call[Page[T]] | None"


def envelope(response: httpx.Response) -> Any:
    """`{"data", "meta"}`. Raises Unexpected."""
    try:
        answer = response.json()
    except ValueError:
        answer = None
    if not isinstance(answer, dict) or not {"data", "meta"} <= answer.keys():
        raise Unexpected(f"The answer with status {response.status_code} is not one of Titen.", response.status_code)
    return answer


def data_of(response: httpx.Response) -> Any:
    """The `data` of an answer. Raises Unexpected."""
    return envelope(response)["data"]


def json_body(value: Any) -> bytes:
    """A JSON body in ASCII; NaN and infinities raise ValueError, since JSON has none."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


def query(**given: Any) -> dict[str, Any]:
    """Query parameters: what is None is left out, a sequence is repeated."""
    return {name: value for name, value in given.items() if value is not None}
