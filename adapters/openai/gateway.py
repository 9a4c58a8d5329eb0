"""Vectors from any server that speaks `POST /v1/embeddings` as OpenAI defines it.

Known to be spoken by Ollama, llama.cpp, LM Studio, vLLM, text-embeddings-inference, LiteLLM and the
hosted providers. What differs between them is met here, so that the core sees either one good vector
per text or one of three named errors.
"""

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

import httpx

from adapters.openai.answers import retry_after_ms, vectors_of
from titen_core import __version__
from titen_core.errors import ModelAnswerInvalid, ModelError, ModelRejected, ModelUnavailable
from titen_core.limits import EMBED_BATCH_TEXTS
from titen_core.models import Fingerprint
from titen_core.protocols import Vector

__all__ = ["OpenAIGateway"]

ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
"""32 texts of 4,096 dimensions are 3 MiB of JSON with 24 characters a number."""

PROBE_DEADLINE_MS: Final = 10_000
PROBE_TEXT: Final = "Titen remembers."

CONNECTIONS_MAX: Final = 8

CHECK_SETTINGS: Final = "check the base URL, the model name and the API key (TITEN_EMBED_*)"


class OpenAIGateway:
    """A `ModelGateway` over HTTP.

    `base_url` is what the provider's own manual calls the base URL, with or without the last slash:
    `http://127.0.0.1:11434/v1`. A URL without any path gets `/v1`; a URL that already ends in
    `/embeddings` is used as it is. `expected_dimensions` is checked, never sent. Raises `ValueError`
    for a URL, model or key that cannot be right.

    Texts go to that URL and nowhere else: redirects are not followed, and proxies and `.netrc` of the
    environment are not read. One gateway belongs to one event loop, the one of its first call.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        api_key: str | None = None,
        expected_dimensions: int | None = None,
        *,
        answer_bytes_max: int = ANSWER_BYTES_MAX,
        probe_deadline_ms: int = PROBE_DEADLINE_MS,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        if not model.strip():
            raise ValueError("the embedding model has no name; set TITEN_EMBED_MODEL")
        self._url = _embeddings_url(base_url)
        self._headers = _headers(api_key)
        self._model = model.strip()
        self._expected_dimensions = expected_dimensions
        self._answer_bytes_max = answer_bytes_max
        self._probe_deadline_ms = probe_deadline_ms
        self._now_s = now_s
        self._client: httpx.AsyncClient | None = None
        self._closed = False
        self._fingerprint: Fingerprint | None = None
        self._probing = asyncio.Lock()

    async def fingerprint(self) -> Fingerprint:
        """Provider, model and the dimensions a probe found; `expected_dimensions` does not colour it.

        A vector of other dimensions in a later `embed` makes it forget, so that the next call finds
        what the endpoint has become.
        """
        async with self._probing:
            if self._fingerprint is None:
                self._fingerprint = await self._probe()
            return self._fingerprint

    async def embed(
        self, texts: Sequence[str], *, purpose: Literal["memory", "query"], deadline_ms: int
    ) -> list[Vector]:
        """One vector per text; `purpose` is not sent, since the protocol has no word for it.

        No retry happens here: the outbox knows better when to try again.
        """
        del purpose
        if not texts:
            return []
        if len(texts) > EMBED_BATCH_TEXTS:
            raise ModelRejected(f"A call takes at most {EMBED_BATCH_TEXTS} texts.")
        vectors = await self._vectors(texts, deadline_ms)
        self._check_dimensions(len(vectors[0]))
        return vectors

    async def close(self) -> None:
        """Close the connections. Idempotent; a later call raises `ModelUnavailable`."""
        self._closed = True
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _probe(self) -> Fingerprint:
        vectors = await self._vectors([PROBE_TEXT], self._probe_deadline_ms)
        return Fingerprint(provider="openai-compatible", model=self._model, dimensions=len(vectors[0]))

    def _check_dimensions(self, found: int) -> None:
        known = self._fingerprint
        if known is not None and known.dimensions != found:
            self._fingerprint = None
            raise ModelAnswerInvalid(
                f"The embedder answered {found} dimensions where its probe had {known.dimensions}; "
                "another model seems to be behind the same name."
            )
        if self._expected_dimensions not in {None, found}:
            raise ModelAnswerInvalid(
                f"The embedder answered {found} dimensions; TITEN_EMBED_DIMS expects {self._expected_dimensions}."
            )

    async def _vectors(self, texts: Sequence[str], deadline_ms: int) -> list[Vector]:
        """One exchange. httpx bounds each read, not their sum, hence the timeout around everything."""
        try:
            async with asyncio.timeout(deadline_ms / 1000):
                body = await self._exchange(_request_body(self._model, texts))
        except TimeoutError:
            raise ModelUnavailable(f"The embedder did not answer within {deadline_ms} ms.") from None
        except (httpx.TransportError, httpx.DecodingError) as error:
            # Without the cause: its text and its request may hold the key or the texts.
            raise ModelUnavailable(
                f"The embedder could not be reached or broke off ({type(error).__name__}); "
                "check that it runs and that the base URL is right (TITEN_EMBED_BASE_URL)."
            ) from None
        return vectors_of(body, len(texts))

    async def _exchange(self, content: bytes) -> bytes:
        async with self._open_client().stream("POST", self._url, content=content) as response:
            if not response.is_success:
                raise self._refusal(response)
            return await self._read(response)

    async def _read(self, response: httpx.Response) -> bytes:
        body = bytearray()
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > self._answer_bytes_max:
                raise ModelAnswerInvalid(f"The embedder's answer is over {self._answer_bytes_max} bytes.")
        return bytes(body)

    def _refusal(self, response: httpx.Response) -> ModelError:
        """What a status means. The body is not read: providers quote the input in it."""
        status = response.status_code
        if status in {400, 413, 422, 500}:
            return ModelRejected(f"The embedder refused the texts with status {status}.")
        if status in {408, 425, 429} or status >= 500:
            wish = retry_after_ms(response.headers.get("retry-after"), self._now_s())
            return ModelUnavailable(f"The embedder is busy or down (status {status}).", retry_after_ms=wish)
        if response.is_redirect:
            return ModelUnavailable(
                f"The embedder redirects (status {status}), which is not followed; "
                "set TITEN_EMBED_BASE_URL to the final address."
            )
        return ModelUnavailable(f"The embedder answered status {status}; {CHECK_SETTINGS}.")

    def _open_client(self) -> httpx.AsyncClient:
        if self._closed:
            raise ModelUnavailable("The embedding gateway is closed.")
        if self._client is None:
            self._client = httpx.AsyncClient(
                headers=self._headers,
                timeout=None,  # noqa: S113 - the deadline is around the whole exchange
                follow_redirects=False,
                trust_env=False,
                limits=httpx.Limits(max_connections=CONNECTIONS_MAX, max_keepalive_connections=CONNECTIONS_MAX),
            )
        return self._client


def _request_body(model: str, texts: Sequence[str]) -> bytes:
    """`stream` and `encoding_format` are sent because some servers default to the other answer."""
    payload: dict[str, Any] = {
        "model": model,
        "input": list(texts),
        "stream": False,
        "encoding_format": "float",
    }
    # A lone surrogate has no UTF-8 form; it becomes "?" rather than an error that quotes the text.
    return json.dumps(payload, ensure_ascii=False).encode("utf-8", "replace")


def _embeddings_url(base_url: str) -> httpx.URL:
    try:
        url = httpx.URL(base_url.strip())
    except httpx.InvalidURL:
        raise ValueError("TITEN_EMBED_BASE_URL is not a URL") from None
    if url.scheme not in {"http", "https"} or not url.host:
        raise ValueError("TITEN_EMBED_BASE_URL must start with http:// or https:// and name a host")
    path = url.path.rstrip("/") or "/v1"
    return url.copy_with(path=path if path.endswith("/embeddings") else f"{path}/embeddings", fragment=None)


def _headers(api_key: str | None) -> dict[str, str]:
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
        raise ValueError("TITEN_EMBED_API_KEY holds a character that no HTTP header can carry")
    return {**headers, "Authorization": f"Bearer {key}"}
