"""The one way an answer of a model becomes a `Vector`: finite, of length one, float32."""

import math
import operator
from array import array
from collections.abc import Sequence

from titen_core.errors import ModelAnswerInvalid
from titen_core.protocols import Vector

__all__ = ["normalised"]


def normalised(values: Sequence[float]) -> Vector:
    """The values divided by their Euclidean length.

    The sum is `math.fsum`, exact whatever the order or size of the terms, so the same answer gives
    the same bytes on every machine. Raises `ModelAnswerInvalid` for NaN, an infinity, a zero vector,
    and one so large or small that its length is not a number.
    """
    length = _length(values)
    if not math.isfinite(length):
        raise ModelAnswerInvalid("The embedder answered a vector that holds NaN or an infinity.")
    if length == 0.0:
        raise ModelAnswerInvalid("The embedder answered a zero vector, which has no direction.")
    return array("f", [value / length for value in values])


def _length(values: Sequence[float]) -> float:
    try:
        return math.sqrt(math.fsum(map(operator.mul, values, values)))
    except OverflowError:
        return math.inf
