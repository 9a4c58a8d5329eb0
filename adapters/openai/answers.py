"""Reading what an OpenAI-compatible embedding server answers: the body and `Retry-After`."""

import base64
import binascii
import json
import math
import sys
from array import array
from collections.abc import Sequence
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, Final

from adapters.vectors import normalised
from titen_core.errors import ModelAnswerInvalid, ModelUnavailable
from titen_core.protocols import Vector

__all__ = ["retry_after_ms", "vectors_of"]

RETRY_AFTER_MAX_MS: Final = 60 * 60 * 1000


def vectors_of(body: bytes, count: int) -> list[Vector]:
    """The answer's vectors in the order of the texts.

    Raises `ModelUnavailable` for a body that was cut off, `ModelAnswerInvalid` for anything else that
    does not pair one vector with each text.
    """
    items = _in_order(_items(body), count)
    vectors = [normalised(_numbers(item.get("embedding"))) for item in items]
    if len({len(vector) for vector in vectors}) > 1:
        raise ModelAnswerInvalid("The embedder answered vectors of differing dimensions.")
    return vectors


def retry_after_ms(value: str | None, now_s: float) -> int | None:
    """The wait a `Retry-After` header asks for, in seconds or as an HTTP date (RFC 9110 10.2.3).

    At most `RETRY_AFTER_MAX_MS`; None where there is no header, or one that is garbage or in the past.
    """
    if value is None:
        return None
    wait_s = _seconds(value.strip())
    if wait_s is None:
        wait_s = _seconds_until(value.strip(), now_s)
    if wait_s is None or wait_s < 0:
        return None
    return min(math.ceil(wait_s * 1000), RETRY_AFTER_MAX_MS)


def _items(body: bytes) -> list[dict[str, Any]]:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        if _cut_off(body):
            raise ModelUnavailable("The embedder's answer was cut off.") from None
        raise ModelAnswerInvalid("The embedder did not answer JSON; check the base URL.") from None
    items = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ModelAnswerInvalid("The embedder's answer has no list `data` of objects.")
    return items


def _cut_off(body: bytes) -> bool:
    """A server that closes the connection early leaves an object without its end."""
    text = body.strip()
    return not text or (text.startswith(b"{") and not text.endswith(b"}"))


def _in_order(items: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """By `index`, which must name each text once; as given where no item has an index."""
    if len(items) != count:
        raise ModelAnswerInvalid(f"The embedder answered {len(items)} vectors for {count} texts.")
    if all(item.get("index") is None for item in items):
        return items
    by_index = {item["index"]: item for item in items if type(item.get("index")) is int}
    if by_index.keys() != set(range(count)):
        raise ModelAnswerInvalid(f"The embedder's indexes are not 0 to {count - 1}, each once.")
    return [by_index[index] for index in range(count)]


def _numbers(embedding: object) -> Sequence[float]:
    if isinstance(embedding, str):
        return _decoded(embedding)
    if not isinstance(embedding, list) or not embedding:
        raise ModelAnswerInvalid("The embedder answered something that is not a vector.")
    if not all(type(value) is float or type(value) is int for value in embedding):
        raise ModelAnswerInvalid("The embedder answered a vector with null or a value that is no number.")
    try:
        return [float(value) for value in embedding]
    except OverflowError:
        raise ModelAnswerInvalid("The embedder answered a number beyond all floats.") from None


def _decoded(embedding: str) -> Sequence[float]:
    """Base64 of little-endian float32, which some servers send whatever `encoding_format` says."""
    try:
        data = base64.b64decode(embedding, validate=True)
        values = array("f", data)
    except (ValueError, binascii.Error):
        raise ModelAnswerInvalid("The embedder answered a string that is no base64 of float32.") from None
    if not values:
        raise ModelAnswerInvalid("The embedder answered an empty vector.")
    if sys.byteorder == "big":
        values.byteswap()
    return values


def _seconds(value: str) -> float | None:
    try:
        seconds = float(value)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) else None


def _seconds_until(value: str, now_s: float) -> float | None:
    try:
        moment = parsedate_to_datetime(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - now_s
    except (ValueError, OverflowError):
        return None
