"""How deep JSON nests, found before anything recurses over it.

A parser that recurses raises RecursionError where it can; in a Worker the stack of WebAssembly ends first,
and the isolate with it.
"""

import re
from typing import Final

__all__ = ["nests_deeper"]

_MARK: Final = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[{\]}]', re.DOTALL)


def nests_deeper(text: str, bound: int) -> bool:
    """Whether arrays and objects stand inside each other in more than `bound` levels, strings left out."""
    if text.count("[") + text.count("{") <= bound:
        return False
    depth = 0
    for mark in _MARK.finditer(text):
        if mark[0] in "[{":
            depth += 1
            if depth > bound:
                return True
        elif mark[0] in "]}":
            depth -= 1
    return False
