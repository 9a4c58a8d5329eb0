"""Fusing channels into one order. Pure, and the same on both runtimes and every Python."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from titen_core import limits

__all__ = ["Ranked", "Score", "fuse"]


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

    The overlay holds rows the vector index cannot show yet, so a row counts once for meaning: by the
    better of its vector and overlay ranks. Ties go to the row inserted first.
    """
    by_vector, by_text, by_overlay = _ranks(vector), _ranks(text), _ranks(overlay)
    ranked = [
        Ranked(seq, _score(by_vector.get(seq), by_text.get(seq), by_overlay.get(seq), similarity.get(seq), k))
        for seq in {*by_vector, *by_text, *by_overlay}
    ]
    return sorted(ranked, key=lambda row: (-row.score.rrf_score, row.seq))


def _ranks(channel: Sequence[int]) -> dict[int, int]:
    ranks: dict[int, int] = {}
    for rank, seq in enumerate(channel, start=1):
        ranks.setdefault(seq, rank)
    return ranks


def _score(
    vector_rank: int | None, text_rank: int | None, overlay_rank: int | None, similarity: float | None, k: int
) -> Score:
    meaning = min((rank for rank in (vector_rank, overlay_rank) if rank is not None), default=None)
    shares = [1 / (k + rank) for rank in (meaning, text_rank) if rank is not None]
    return Score(vector_rank, text_rank, overlay_rank, math.fsum(shares), similarity)
