"""The two clients. Both send the same calls; they differ only in how they wait."""

import asyncio
import os
import time
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import httpx

from titen_client import operations
from titen_client.calls import Call
from titen_client.exchange import Outcome, Pause, exchange
from titen_client.methods import async_method, async_paged, method, paged

__all__ = ["TIMEOUT_S", "AsyncTiten", "Titen"]

TIMEOUT_S: Final = 90.0
"""Longer than a service waits for its chat model, unless told otherwise."""

T = TypeVar("T")

# Services close a connection that was idle for 5 s: a request sent in that instant would be lost.
_LIMITS: Final = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=2.0)


class Titen:
    """A Titen service and one key. Closes its connections at the end of `with`. Safe to share between threads.

    Every method raises a `TitenError`: `Refused` with a code and what helps, `Unreachable`, or `Unexpected`.
    """

    def __init__(
        self, url: str, api_key: str, *, timeout_s: float = TIMEOUT_S, transport: httpx.BaseTransport | None = None
    ) -> None:
        self._http = httpx.Client(
            base_url=_checked_url(url),
            headers=_headers(api_key),
            timeout=timeout_s,
            limits=_LIMITS,
            transport=transport,
        )

    @classmethod
    def from_env(cls) -> Self:
        """The service of TITEN_URL with the key of TITEN_API_KEY. Raises ValueError for one that is not set."""
        return cls(*_from_env())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def perform(self, call: Call[T]) -> T:
        """The answer to a call of `titen_client.operations`."""
        steps, outcome = exchange(call), None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as done:
                answer: T = done.value
                return answer
            outcome = self._do(step)

    def _do(self, step: Call[Any] | Pause) -> Outcome:
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return None
        try:
            return self._http.request(**_parts(step))
        except httpx.RequestError as failure:
            return failure

    remember = method(operations.remember)
    remember_conversation = method(operations.remember_conversation)
    recall = method(operations.recall)
    digest = method(operations.digest)
    get = method(operations.get)
    update = method(operations.update)
    verify = method(operations.verify)
    forget = method(operations.forget)
    restore = method(operations.restore)
    memories = paged(operations.memories)
    history = paged(operations.history)
    expiring = method(operations.expiring)
    tags = method(operations.tags)
    export = paged(operations.export)
    import_lines = method(operations.import_lines)
    principal = method(operations.principal)
    create_key = method(operations.create_key)
    keys = method(operations.keys)
    revoke_key = method(operations.revoke_key)


class AsyncTiten:
    """`Titen` for asyncio: calls are awaited, pages are iterated with `async for`."""

    def __init__(
        self, url: str, api_key: str, *, timeout_s: float = TIMEOUT_S, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._http = httpx.AsyncClient(
            base_url=_checked_url(url),
            headers=_headers(api_key),
            timeout=timeout_s,
            limits=_LIMITS,
            transport=transport,
        )

    @classmethod
    def from_env(cls) -> Self:
        """The service of TITEN_URL with the key of TITEN_API_KEY. Raises ValueError for one that is not set."""
        return cls(*_from_env())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def perform(self, call: Call[T]) -> T:
        """The answer to a call of `titen_client.operations`."""
        steps, outcome = exchange(call), None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as done:
                answer: T = done.value
                return answer
            outcome = await self._do(step)

    async def _do(self, step: Call[Any] | Pause) -> Outcome:
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return None
        try:
            return await self._http.request(**_parts(step))
        except httpx.RequestError as failure:
            return failure

    remember = async_method(operations.remember)
    remember_conversation = async_method(operations.remember_conversation)
    recall = async_method(operations.recall)
    digest = async_method(operations.digest)
    get = async_method(operations.get)
    update = async_method(operations.update)
    verify = async_method(operations.verify)
    forget = async_method(operations.forget)
    restore = async_method(operations.restore)
    memories = async_paged(operations.memories)
    history = async_paged(operations.history)
    expiring = async_method(operations.expiring)
    tags = async_method(operations.tags)
    export = async_paged(operations.export)
    import_lines = async_method(operations.import_lines)
    principal = async_method(operations.principal)
    create_key = async_method(operations.create_key)
    keys = async_method(operations.keys)
    revoke_key = async_method(operations.revoke_key)


def _parts(call: Call[Any]) -> dict[str, Any]:
    return {
        "method": call.method,
        "url": call.path,
        "params": call.params,
        "headers": call.headers,
        "content": call.body,
    }


def _checked_url(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise ValueError("The URL must start with http:// or https://, such as http://127.0.0.1:8787.")
    try:
        httpx.URL(url)
    except httpx.InvalidURL as failure:
        raise ValueError(f"The URL cannot be read: {failure}") from None
    return url.rstrip("/")


def _headers(api_key: str) -> dict[str, str]:
    """Checked here, since a library below would repeat a malformed key in its error."""
    if not (api_key and api_key.isascii() and api_key.isprintable() and " " not in api_key):
        raise ValueError("The API key has characters that no key has, or is empty; copy it again.")
    return {"Authorization": f"Bearer {api_key}", "User-Agent": "titen-client"}


def _from_env() -> tuple[str, str]:
    url, api_key = os.environ.get("TITEN_URL"), os.environ.get("TITEN_API_KEY")
    if not url or not api_key:
        raise ValueError("Set TITEN_URL, such as http://127.0.0.1:8787, and TITEN_API_KEY.")
    return url, api_key
