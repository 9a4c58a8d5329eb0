"""Fusing channels into one order. Pure, and the same on both runtimes and every Python."""

import binascii
import math
import operator
import struct
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from titen_core import limits
from titen_core.protocols import Vector

__all__ = ["Ranked", "Score", "fuse", "similar_to"]

_SUMPROD = getattr(math, "sumprod", None)
# Bytes to the digits of a binary number, 1 for what is not negative: of a kept value, where 128 stands for
# zero, and of the byte of a float32 that holds its sign.
_SIGNS = bytes(ord("1" if byte >= 128 else "0") for byte in range(256))
_FLOAT_SIGNS = bytes(ord("0" if byte >= 128 else "1") for byte in range(256))
_SIGN_BYTE = 3 if sys.byteorder == "little" else 0


@dataclass(frozen=True, slots=True)
class Score:
    """Why an item stands where it does. Ranks count from 1; None: the channel did not find it."""

    vector_rank: int | None
    text_rank: int | None
    overlay_rank: int | None
    rrf_score: float
    similarity: float | None


@dataclass(frozen=True, slots=True)
class Ranked:
    """One row of the fused order."""

    seq: int
    score: Score


def fuse(
    vector: Sequence[int],
    text: Sequence[int],
    overlay: Sequence[int],
    similarity: Mapping[int, float],
    *,
    k: int = limits.RRF_K,
) -> list[Ranked]:
    """Reciprocal rank fusion (Cormack, Clarke & Büttcher, SIGIR 2009): score = sum of 1 / (k + rank).

    Vector and overlay are one channel, meaning: the overlay only holds rows that the vector index
    cannot show yet, so where there is one the rows of both are ranked together by similarity.
    Ties go to the row inserted first.
    """
    by_vector, by_text, by_overlay = _ranks(vector), _ranks(text), _ranks(overlay)
    by_meaning = _ranks(sorted({*vector, *overlay}, key=lambda seq: (-similarity.get(seq, 0.0), seq)))
    if not overlay:
        by_meaning = by_vector
    ranked = [
        Ranked(
            seq,
            Score(
                by_vector.get(seq),
                by_text.get(seq),
                by_overlay.get(seq),
                math.fsum(1 / (k + ranks[seq]) for ranks in (by_meaning, by_text) if seq in ranks),
                similarity.get(seq),
            ),
        )
        for seq in {*by_meaning, *by_text}
    ]
    return sorted(ranked, key=lambda row: (-row.score.rrf_score, row.seq))


def similar_to(query: Vector, kept: Sequence[tuple[int, str]], wanted: int) -> list[tuple[int, float]]:
    """(row, cosine) of the `wanted` int8 vectors nearest to a query, nearest first.

    Where more are kept than wanted, those that agree with the query in most signs are looked at: the share
    of differing signs estimates the angle (Charikar 2002), at a fraction of the arithmetic.

    Both sides are l2-normalised, so the cosine is the dot product. A kept vector is base64 of its
    scale (float32) and its values as `round(value / scale) + 128`; with the query quantised alike,
    dot(q, v) = q_scale * v_scale * (sum(q8 * v8) - 128 * sum(q8)), a sum of exact integers.
    """
    if not kept:
        return []
    vectors = [(seq, binascii.a2b_base64(text)) for seq, text in kept]
    looked_at = max(wanted, limits.OVERLAY_EXACT_ROWS)
    if len(vectors) > looked_at:
        vectors = _nearest_by_signs(query, vectors, looked_at)
    values = query.tolist()
    q_scale = (max(map(abs, values)) or 1.0) / 127
    steps = 1 / q_scale
    q8 = [int(value * steps + 128.5) - 128 for value in values]  # to the nearest, at a third of the time of `round`
    shift = 128 * sum(q8)
    found = []
    for seq, data in vectors:
        (scale,) = struct.unpack_from("<f", data)
        found.append((seq, round(q_scale * scale * (_dot(q8, data[4:]) - shift), 6)))
    return sorted(found, key=lambda row: (-row[1], row[0]))[:wanted]


def _nearest_by_signs(query: Vector, vectors: list[tuple[int, bytes]], wanted: int) -> list[tuple[int, bytes]]:
    asked = int(query.tobytes()[_SIGN_BYTE::4].translate(_FLOAT_SIGNS), 2)
    by_difference = [
        ((int(data[4:].translate(_SIGNS), 2) ^ asked).bit_count(), position)
        for position, (_, data) in enumerate(vectors)
    ]
    return [vectors[position] for _, position in sorted(by_difference)[:wanted]]


def _dot(q8: Sequence[int], values: bytes) -> int:
    """Sum of products; `math.sumprod` (Python 3.12) is several times faster where it exists."""
    if _SUMPROD is not None:
        return int(_SUMPROD(q8, values))
    return sum(map(operator.mul, q8, values))


def _ranks(channel: Sequence[int]) -> dict[int, int]:
    ranks: dict[int, int] = {}
    for rank, seq in enumerate(channel, start=1):
        ranks.setdefault(seq, rank)
    return ranks
