"""The overlay's arithmetic: int8 cosines, exact for the rows that matter."""

import math
import random
from array import array

import pytest

from titen_core import limits
from titen_core.protocols import Vector
from titen_core.ranking import similar_to
from titen_core.sql.vectors import encode_int8

DIMENSIONS = 1024


def unit(values: list[float]) -> Vector:
    length = math.sqrt(sum(value * value for value in values))
    return array("f", [value / length for value in values])


def around(centre: Vector, noise: float, chance: random.Random) -> Vector:
    return unit([value + noise * chance.gauss(0, 1) / math.sqrt(DIMENSIONS) for value in centre])


def cosine(a: Vector, b: Vector) -> float:
    return sum(map(float.__mul__, a, b))


def corpus(seed: int) -> tuple[Vector, list[Vector]]:
    """A query, and as many vectors as the overlay holds, at all distances from it."""
    chance = random.Random(seed)
    query = unit([chance.gauss(0, 1) for _ in range(DIMENSIONS)])
    return query, [around(query, 0.3 + 3 * chance.random(), chance) for _ in range(limits.OVERLAY_ROWS)]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("wanted", [1, 15, limits.OVERLAY_ROWS])
def test_the_nearest_are_those_of_exact_arithmetic(seed: int, wanted: int) -> None:
    query, vectors = corpus(seed)
    found = similar_to(query, [(seq, encode_int8(vector)) for seq, vector in enumerate(vectors)], wanted)
    exact = sorted(range(len(vectors)), key=lambda seq: -cosine(query, vectors[seq]))
    assert len(found) == wanted
    assert found[0][0] == exact[0]
    assert len({seq for seq, _ in found} & set(exact[:wanted])) >= 0.85 * wanted
    assert all(abs(similarity - cosine(query, vectors[seq])) < 0.01 for seq, similarity in found)
    assert [similarity for _, similarity in found] == sorted((share for _, share in found), reverse=True)


def test_few_rows_are_all_compared_and_none_is_no_fault() -> None:
    query, vectors = corpus(7)
    assert similar_to(query, [], 5) == []
    kept = [(seq, encode_int8(vector)) for seq, vector in enumerate(vectors[:3])]
    assert {seq for seq, _ in similar_to(query, kept, 15)} == {0, 1, 2}
