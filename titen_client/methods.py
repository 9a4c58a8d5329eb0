"""From an operation to a method of a client: the signature stays, only the waiting is added."""

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from titen_client.calls import Call, Page

__all__ = ["async_method", "async_paged", "method", "paged"]

F = TypeVar("F")
P = ParamSpec("P")
T = TypeVar("T")


class Performs(Protocol):
    """A client that waits for the answer to a call."""

    def perform(self, call: Call[T]) -> T: ...


class AsyncPerforms(Protocol):
    async def perform(self, call: Call[T]) -> T: ...


def method(make: Callable[P, Call[T]]) -> Callable[Concatenate[Performs, P], T]:
    """A method that makes a call and answers what it reads."""

    @functools.wraps(make)
    def run(self: Performs, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.perform(make(*args, **kwargs))

    return _signed(run, make)


def paged(make: Callable[P, Call[Page[T]]]) -> Callable[Concatenate[Performs, P], Iterator[T]]:
    """A method that gives what all pages hold; a page is asked for when it is needed."""

    @functools.wraps(make)
    def run(self: Performs, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        following: Call[Page[T]] | None = make(*args, **kwargs)
        while following is not None:
            page = self.perform(following)
            yield from page.items
            following = page.following

    return _signed(run, make)


def async_method(make: Callable[P, Call[T]]) -> Callable[Concatenate[AsyncPerforms, P], Coroutine[Any, Any, T]]:
    @functools.wraps(make)
    async def run(self: AsyncPerforms, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.perform(make(*args, **kwargs))

    return _signed(run, make)


def async_paged(make: Callable[P, Call[Page[T]]]) -> Callable[Concatenate[AsyncPerforms, P], AsyncIterator[T]]:
    @functools.wraps(make)
    async def run(self: AsyncPerforms, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        following: Call[Page[T]] | None = make(*args, **kwargs)
        while following is not None:
            page = await self.perform(following)
            for item in page.items:
                yield item
            following = page.following

    return _signed(run, make)


def _signed(made: F, make: Callable[..., Any]) -> F:
    """The method, with the operation's signature after `self`, for `help` and editors."""
    signature = inspect.signature(make)
    me = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    made.__signature__ = signature.replace(parameters=[me, *signature.parameters.values()])  # type: ignore[attr-defined]
    return made
