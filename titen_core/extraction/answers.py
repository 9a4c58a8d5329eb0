"""Reading what a chat model answered: one tolerant look for the JSON in it.

Models without structured output wrap it in fences, think aloud before it (with braces in the thoughts)
and chat after it. The last list of memories that can be read is the answer; what it holds is judged
elsewhere.
"""

import json
import re
from typing import Any, Final

from titen_core import limits
from titen_core.nesting import nests_deeper

__all__ = ["Unreadable", "read_answer"]

_THOUGHTS: Final = re.compile(r"<(think|thinking|reasoning|thought)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_END_OF_THOUGHTS: Final = re.compile(r"</(think|thinking|reasoning|thought)>", re.IGNORECASE)
_START: Final = re.compile(r"\{\s*\"memories\"\s*:|\[\s*(?=[{\]])")
_STARTS_MAX: Final = 64  # each may cost a pass over the whole answer
_DECODER: Final = json.JSONDecoder()


class Unreadable(Exception):
    """There is no list of memories in the answer."""


def read_answer(text: str) -> list[Any]:
    """The items of the answer, of whatever type they are. Raises Unreadable."""
    said = _without_thoughts(text).strip()
    if nests_deeper(said, limits.JSON_DEPTH):
        raise Unreadable
    try:
        found = _items(json.loads(said))
    except ValueError:
        found = _last_list_in(said)
    if found is None:
        raise Unreadable
    return found


def _without_thoughts(text: str) -> str:
    """Without reasoning blocks; some templates swallow the opening mark and leave the closing one."""
    rest = _THOUGHTS.sub("", text)
    closings = list(_END_OF_THOUGHTS.finditer(rest))
    return rest[closings[-1].end() :] if closings else rest


def _last_list_in(text: str) -> list[Any] | None:
    """The last readable list of memories that stands in the text and in no other; None where there is none."""
    found: list[Any] | None = None
    position = 0
    for _ in range(_STARTS_MAX):
        start = _START.search(text, position)
        if start is None:
            break
        try:
            value, position = _DECODER.raw_decode(text, start.start())
        except ValueError:
            position = start.start() + 1
            continue
        items = _items(value)
        found = found if items is None else items
    return found


def _items(value: Any) -> list[Any] | None:
    """The list in `{"memories": […]}`, or a bare list of objects."""
    if isinstance(value, dict):
        value = value.get("memories")
        return value if isinstance(value, list) else None
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        return value
    return None
