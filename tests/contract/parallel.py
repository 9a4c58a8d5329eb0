"""The same call from many callers at once."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

__all__ = ["at_once"]

T = TypeVar("T")
R = TypeVar("R")


def at_once(call: Callable[[T], R], arguments: Iterable[T], callers: int = 16) -> list[R]:
    """What `call` returned for each argument, in order; up to `callers` run at the same time."""
    with ThreadPoolExecutor(callers) as pool:
        return list(pool.map(call, arguments))
