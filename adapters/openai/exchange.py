"""One POST to an OpenAI-compatible server, within a deadline: what embeddings and chat have in common.

It goes to the configured URL and nowhere else: redirects are not followed, and proxies and `.netrc` of the
environment are not read. No error quotes a body, a header or a key.
"""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx

from adapters.openai.answers import retry_after_ms
from titen_core import __version__
from titen_core.errors import ModelAnswerInvalid, ModelError, ModelRejected, ModelUnavailable

__all__ = ["Exchange", "Service"]

CONNECTIONS_MAX: Final = 8


@dataclass(frozen=True, slots=True)
class Service:
    """Which service of the server it is, as errors name it and as its settings are called.

    `refusals` are the statuses that blame the request: another one may pass.
    """

    name: str
    settings: str
    path: str
    refusals: frozenset[int]
    answer_bytes_max: int


class Exchange:
    """The connections to one service. They belong to one event loop, the one of the first call.

    `base_url` is what the provider's own manual calls the base URL, with or without the last slash:
    `http://127.0.0.1:11434/v1`. A URL without any path gets `/v1`; one that already ends in the service's
    path is used as it is. Raises `ValueError` for a URL or key that cannot be right.
    """

    def __init__(
        self, service: Service, base_url: str, api_key: str | None, now_s: Callable[[], float] = time.time
    ) -> None:
        self._service = service
        self._url = _url(service, base_url)
        self._headers = _headers(service, api_key)
        self._now_s = now_s
        self._client: httpx.AsyncClient | None = None
        self._closed = False

    async def post(self, payload: Mapping[str, Any], deadline_ms: int) -> bytes:
        """The body of a good answer. httpx bounds each read, not their sum, hence the timeout around everything.

        Raises `ModelRejected`, `ModelUnavailable` or `ModelAnswerInvalid`.
        """
        name = self._service.name
        try:
            async with asyncio.timeout(deadline_ms / 1000):
                return await self._answered(payload)
        except TimeoutError:
            raise ModelUnavailable(f"{name} did not answer within {deadline_ms} ms.") from None
        except (httpx.TransportError, httpx.DecodingError) as error:
            # Without the cause: its text and its request may hold the key or the texts.
            raise ModelUnavailable(
                f"{name} could not be reached or broke off ({type(error).__name__}); "
                f"check that it runs and that the base URL is right ({self._service.settings}BASE_URL)."
            ) from None

    async def close(self) -> None:
        """Close the connections. Idempotent; a later call raises `ModelUnavailable`."""
        self._closed = True
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _answered(self, payload: Mapping[str, Any]) -> bytes:
        # A lone surrogate has no UTF-8 form; it becomes "?" rather than an error that quotes the text.
        content = json.dumps(payload, ensure_ascii=False).encode("utf-8", "replace")
        async with self._open_client().stream("POST", self._url, content=content) as response:
            if not response.is_success:
                raise self._refusal(response)
            return await self._read(response)

    async def _read(self, response: httpx.Response) -> bytes:
        bound, body = self._service.answer_bytes_max, bytearray()
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > bound:
                raise ModelAnswerInvalid(f"{self._service.name}'s answer is over {bound} bytes.")
        return bytes(body)

    def _refusal(self, response: httpx.Response) -> ModelError:
        """What a status means. The body is not read: providers quote the input in it."""
        name, settings, status = self._service.name, self._service.settings, response.status_code
        if status in self._service.refusals:
            return ModelRejected(f"{name} refused the request with status {status}.")
        if status in {408, 425, 429} or status >= 500:
            wish = retry_after_ms(response.headers.get("retry-after"), self._now_s())
            return ModelUnavailable(f"{name} is busy or down (status {status}).", retry_after_ms=wish)
        if response.is_redirect:
            return ModelUnavailable(
                f"{name} redirects (status {status}), which is not followed; "
                f"set {settings}BASE_URL to the final address."
            )
        return ModelUnavailable(
            f"{name} answered status {status}; check the base URL, the model name and the API key ({settings}*)."
        )

    def _open_client(self) -> httpx.AsyncClient:
        if self._closed:
            raise ModelUnavailable(f"{self._service.name} was closed.")
        if self._client is None:
            self._client = httpx.AsyncClient(
                headers=self._headers,
                timeout=None,  # noqa: S113 - the deadline is around the whole exchange
                follow_redirects=False,
                trust_env=False,
                limits=httpx.Limits(max_connections=CONNECTIONS_MAX, max_keepalive_connections=CONNECTIONS_MAX),
            )
        return self._client


def _url(service: Service, base_url: str) -> httpx.URL:
    setting = f"{service.settings}BASE_URL"
    try:
        url = httpx.URL(base_url.strip())
    except httpx.InvalidURL:
        raise ValueError(f"{setting} is not a URL") from None
    if url.scheme not in {"http", "https"} or not url.host:
        raise ValueError(f"{setting} must start with http:// or https:// and name a host")
    path = url.path.rstrip("/") or "/v1"
    return url.copy_with(path=path if path.endswith(service.path) else f"{path}{service.path}", fragment=None)


def _headers(service: Service, api_key: str | None) -> dict[str, str]:
    headers = {
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "Content-Type": "application/json",
        "User-Agent": f"titen/{__version__}",
    }
    key = (api_key or "").strip()
    if not key:
        return headers
    if not (key.isascii() and key.isprintable()):
        raise ValueError(f"{service.settings}API_KEY holds a character that no HTTP header can carry")
    return {**headers, "Authorization": f"Bearer {key}"}
