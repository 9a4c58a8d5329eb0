"""Identifiers and hashes."""

import uuid

from hypothesis import given
from hypothesis import strategies as st

from titen_core.ids import new_id, sha256_hex, system_clock

times = st.integers(0, 2**48 - 1)


@given(times)
def test_an_id_is_a_uuid_of_version_7(now_ms: int) -> None:
    made = uuid.UUID(new_id(now_ms))
    assert made.variant == uuid.RFC_4122
    assert made.version == 7
    assert made.int >> 80 == now_ms


@given(times)
def test_an_id_is_written_in_lower_case_with_hyphens(now_ms: int) -> None:
    made = new_id(now_ms)
    assert str(uuid.UUID(made)) == made


@given(times, times)
def test_ids_sort_by_time(one_ms: int, other_ms: int) -> None:
    if one_ms != other_ms:
        assert (new_id(one_ms) < new_id(other_ms)) == (one_ms < other_ms)


def test_ids_of_one_moment_differ_in_all_their_random_bits() -> None:
    made = [uuid.UUID(new_id(1)).int for _ in range(2000)]
    assert len(set(made)) == len(made)
    changed = 0
    for value in made:
        changed |= value ^ made[0]
    random_bits = (2**80 - 1) & ~(0xF << 76) & ~(0x3 << 62)
    assert changed == random_bits


@given(st.lists(st.text(max_size=4), max_size=4), st.lists(st.text(max_size=4), max_size=4))
def test_a_hash_knows_where_its_parts_end(one: list[str], other: list[str]) -> None:
    assert (sha256_hex(*one) == sha256_hex(*other)) == (one == other)


def test_a_hash_is_the_same_on_every_machine() -> None:
    # printf '\0\0\0\1a\0\0\0\2bc' | sha256sum
    assert sha256_hex("a", "bc") == "b534ce16ac9c8b36823f39a395ce8e0e3c7ad9605b82b5444f18cadacd217a5d"
    assert sha256_hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_the_clock_counts_milliseconds_of_this_century() -> None:
    assert 1_700_000_000_000 < system_clock() < 4_000_000_000_000
