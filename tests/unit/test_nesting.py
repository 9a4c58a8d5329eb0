"""Depth is counted as a JSON parser would, without being one."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from titen_core.nesting import nests_deeper

VALUES = st.recursive(
    st.none() | st.integers() | st.text(alphabet='[]{}"\\\\, a', max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


def depth(value: Any) -> int:
    if isinstance(value, dict | list):
        return 1 + max(map(depth, value.values() if isinstance(value, dict) else value), default=0)
    return 0


@given(VALUES, st.integers(0, 6), st.booleans())
def test_it_is_the_depth_of_the_value(value: Any, bound: int, ascii_only: bool) -> None:
    assert nests_deeper(json.dumps(value, ensure_ascii=ascii_only), bound) == (depth(value) > bound)


@pytest.mark.parametrize("text", ["[" * 1_000_000, '{"a":' * 200_000, '["' + "[" * 100 + '", ' + "[" * 70])
def test_what_never_ends_is_deep(text: str) -> None:
    assert nests_deeper(text, 64)


def test_brackets_in_texts_do_not_count() -> None:
    assert not nests_deeper(json.dumps(["[{" * 1_000, '\\"[[', "]"]), 1)
