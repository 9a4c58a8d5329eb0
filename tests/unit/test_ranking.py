"""Fusion: one order from several, the same on every machine."""

import math
import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from titen_core import limits
from titen_core.ranking import Ranked, fuse

channels = st.lists(st.integers(1, 60), unique=True, max_size=40)


def order(ranked: list[Ranked]) -> list[int]:
    return [row.seq for row in ranked]


@given(channels, channels, channels)
def test_every_row_of_every_channel_comes_once_best_first(vector: list[int], text: list[int], fresh: list[int]) -> None:
    ranked = fuse(vector, text, fresh, {})
    assert sorted(order(ranked)) == sorted({*vector, *text, *fresh})
    scores = [row.score.rrf_score for row in ranked]
    assert scores == sorted(scores, reverse=True)
    assert all(math.isfinite(score) and score > 0 for score in scores)


@given(channels, channels)
def test_ties_go_to_the_row_inserted_first(vector: list[int], text: list[int]) -> None:
    ranked = fuse(vector, text, [], {})
    for one, other in pairwise(ranked):
        if one.score.rrf_score == other.score.rrf_score:
            assert one.seq < other.seq


@given(channels, channels)
def test_meaning_and_words_weigh_the_same(vector: list[int], text: list[int]) -> None:
    assert order(fuse(vector, text, [], {})) == order(fuse(text, vector, [], {}))


@given(channels, channels)
def test_a_ranks_share_is_that_of_cormack_and_others(vector: list[int], text: list[int]) -> None:
    for row in fuse(vector, text, [], {}):
        ranks = [channel.index(row.seq) + 1 for channel in (vector, text) if row.seq in channel]
        assert row.score.rrf_score == math.fsum(1 / (limits.RRF_K + rank) for rank in ranks)
        assert (row.score.vector_rank, row.score.text_rank) == (
            vector.index(row.seq) + 1 if row.seq in vector else None,
            text.index(row.seq) + 1 if row.seq in text else None,
        )


@given(channels.filter(lambda found: len(found) > 1), channels, st.data())
def test_a_better_rank_never_lowers_a_row(vector: list[int], text: list[int], data: st.DataObject) -> None:
    position = data.draw(st.integers(1, len(vector) - 1))
    raised = [*vector[: position - 1], vector[position], vector[position - 1], *vector[position + 1 :]]
    seq = vector[position]
    assert order(fuse(raised, text, [], {})).index(seq) <= order(fuse(vector, text, [], {})).index(seq)


@given(channels, channels, channels, st.integers(0, 2**16))
def test_the_names_of_the_rows_do_not_matter(vector: list[int], text: list[int], fresh: list[int], seed: int) -> None:
    """Renaming rows in an order-preserving way changes nothing else."""
    steps = random.Random(seed)
    renamed = {seq: seq * 1000 + steps.randrange(1000) for seq in {*vector, *text, *fresh}}
    before = fuse(vector, text, fresh, {})
    new_vector, new_text, new_fresh = ([renamed[seq] for seq in channel] for channel in (vector, text, fresh))
    after = fuse(new_vector, new_text, new_fresh, {})
    assert [(renamed[row.seq], row.score) for row in before] == [(row.seq, row.score) for row in after]


def test_a_row_counts_once_for_meaning() -> None:
    both = fuse([1], [], [1], {})[0]
    assert both.score.rrf_score == fuse([1], [], [], {})[0].score.rrf_score
    assert (both.score.vector_rank, both.score.overlay_rank) == (1, 1)


def test_rows_of_vector_and_overlay_are_ranked_together_by_similarity() -> None:
    nearness = {9: 0.9, 8: 0.5, 1: 0.7}
    ranked = fuse([9, 8], [], [1], nearness)
    assert order(ranked) == [9, 1, 8]
    assert [(row.score.vector_rank, row.score.overlay_rank) for row in ranked] == [(1, None), (None, 1), (2, None)]


def test_a_row_in_vector_and_overlay_counts_once() -> None:
    twice = fuse([1], [], [1], {1: 0.5})[0].score
    assert twice.rrf_score == fuse([1], [], [], {1: 0.5})[0].score.rrf_score


def test_a_row_in_two_channels_stands_above_one_in_either() -> None:
    assert order(fuse([5, 3], [7, 3], [], {})) == [3, 5, 7]


def test_without_an_overlay_similarity_is_shown_and_never_ranks() -> None:
    ranked = fuse([1, 2], [], [], {1: -0.5, 2: 0.9})
    assert [(row.seq, row.score.similarity) for row in ranked] == [(1, -0.5), (2, 0.9)]
    assert fuse([], [1], [], {})[0].score.similarity is None


def test_a_row_named_twice_keeps_its_better_rank() -> None:
    assert [(row.seq, row.score.vector_rank) for row in fuse([4, 5, 4], [], [], {})] == [(4, 1), (5, 2)]


def test_nothing_found_is_an_empty_order() -> None:
    assert fuse([], [], [], {}) == []


@pytest.mark.parametrize("k", [1, 60])
def test_k_flattens_the_head(k: int) -> None:
    assert fuse([1], [], [], {}, k=k)[0].score.rrf_score == 1 / (k + 1)
