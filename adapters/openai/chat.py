"""A chat model behind any server that speaks `POST /v1/chat/completions` as OpenAI defines it."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import httpx

from adapters.openai.answers import retry_after_ms
from titen_core import __version__
from titen_core.errors import ModelAnswerInvalid, ModelError, ModelRejected, ModelUnavailable
from titen_core.limits import CHAT_ANSWER_BYTES
from titen_core.protocols import ChatAnswer, ChatUsage

__all__ = ["OpenAIChat"]

REFUSED: Final = frozenset({400, 404, 413, 422})
"""So do servers without structured output answer `response_format`: they are asked again without it, once."""


class OpenAIChat:
    """A `ChatModel` over HTTP. `base_url` as in the provider's manual: `http://127.0.0.1:11434/v1`.

    The conversation goes to that URL and nowhere else: redirects are not followed, proxies and `.netrc`
    are not read. One belongs to one event loop. Raises `ValueError` for a URL, model or key that cannot be right.
    """

    def __init__(
        self, base_url: str, model: str, api_key: str | None = None, *, now_s: Callable[[], float] = time.time
    ) -> None:
        if not model.strip():
            raise ValueError("the chat model has no name; set TITEN_CHAT_MODEL")
        self._url = _completions_url(base_url)
        self._headers = _headers(api_key)
        self._model = model.strip()
        self._now_s = now_s
        self._structured = True
        self._client: httpx.AsyncClient | None = None
        self._closed = False

    async def complete(
        self, *, instructions: str, question: str, schema: Mapping[str, object], deadline_ms: int
    ) -> ChatAnswer:
        """One exchange; a second one where the server refuses structured output, which is then not asked again."""
        messages = [{"role": "system", "content": instructions}, {"role": "user", "content": question}]
        payload: dict[str, Any] = {"model": self._model, "messages": messages, "temperature": 0, "stream": False}
        try:
            async with asyncio.timeout(deadline_ms / 1000):
                return _answer(await self._asked(payload, schema))
        except TimeoutError:
            raise ModelUnavailable(f"The chat model did not answer within {deadline_ms} ms.") from None
        except (httpx.TransportError, httpx.DecodingError) as error:
            # Without the cause: its text and its request may hold the key or the conversation.
            raise ModelUnavailable(
                f"The chat model could not be reached or broke off ({type(error).__name__}); "
                "check that it runs and that the base URL is right (TITEN_CHAT_BASE_URL)."
            ) from None

    async def close(self) -> None:
        """Close the connections. Idempotent; a later call raises `ModelUnavailable`."""
        self._closed = True
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _asked(self, payload: Mapping[str, Any], schema: Mapping[str, object]) -> bytes:
        if self._structured:
            form = {"type": "json_schema", "json_schema": {"name": "memories", "strict": True, "schema": dict(schema)}}
            try:
                return await self._exchange({**payload, "response_format": form})
            except ModelRejected:
                pass
        body = await self._exchange(payload)
        self._structured = False
        return body

    async def _exchange(self, payload: Mapping[str, Any]) -> bytes:
        """A good answer's body. Raises ModelRejected where another request may pass, else another ModelError."""
        content = json.dumps(payload, ensure_ascii=False).encode("utf-8", "replace")
        async with self._open_client().stream("POST", self._url, content=content) as response:
            if response.is_success:
                return await _read(response)
            raise self._refusal(response)

    def _refusal(self, response: httpx.Response) -> ModelError:
        """What a status means. The body is not read: providers quote the input in it."""
        status = response.status_code
        if status in REFUSED:
            return ModelRejected(f"The chat model refused the request with status {status}; check TITEN_CHAT_MODEL.")
        if status in {408, 425, 429} or status >= 500:
            wish = retry_after_ms(response.headers.get("retry-after"), self._now_s())
            return ModelUnavailable(f"The chat model is busy or down (status {status}).", retry_after_ms=wish)
        return ModelUnavailable(f"The chat model answered status {status}; check the TITEN_CHAT_* settings.")

    def _open_client(self) -> httpx.AsyncClient:
        if self._closed:
            raise ModelUnavailable("The chat model's connection is closed.")
        if self._client is None:
            self._client = httpx.AsyncClient(
                headers=self._headers,
                timeout=None,  # noqa: S113 - the deadline is around the whole exchange
                follow_redirects=False,
                trust_env=False,
            )
        return self._client


async def _read(response: httpx.Response) -> bytes:
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > CHAT_ANSWER_BYTES:
            raise ModelAnswerInvalid(f"The chat model's answer is over {CHAT_ANSWER_BYTES} bytes.")
    return bytes(body)


def _answer(body: bytes) -> ChatAnswer:
    try:
        answer = json.loads(body)
        content = answer["choices"][0]["message"]["content"]
    except (ValueError, RecursionError, LookupError, TypeError):
        raise ModelAnswerInvalid("The chat model's answer has no message; check TITEN_CHAT_BASE_URL.") from None
    if not isinstance(content, str):
        raise ModelAnswerInvalid("The chat model's answer holds no text.")
    return ChatAnswer(content, _usage(answer.get("usage")))


def _usage(told: Any) -> ChatUsage | None:
    if not isinstance(told, dict):
        return None
    read, written = told.get("prompt_tokens"), told.get("completion_tokens")
    return ChatUsage(read, written) if type(read) is int and type(written) is int else None


def _completions_url(base_url: str) -> httpx.URL:
    try:
        url = httpx.URL(base_url.strip())
    except httpx.InvalidURL:
        raise ValueError("TITEN_CHAT_BASE_URL is not a URL") from None
    if url.scheme not in {"http", "https"} or not url.host:
        raise ValueError("TITEN_CHAT_BASE_URL must start with http:// or https:// and name a host")
    path = url.path.rstrip("/") or "/v1"
    end = "/chat/completions"
    return url.copy_with(path=path if path.endswith(end) else f"{path}{end}", fragment=None)


def _headers(api_key: str | None) -> dict[str, str]:
    headers = {
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "Content-Type": "application/json",
        "User-Agent": f"titen/{__version__}",
    }
    key = (api_key or "").strip()
    if key and not (key.isascii() and key.isprintable()):
        raise ValueError("TITEN_CHAT_API_KEY holds a character that no HTTP header can carry")
    return {**headers, "Authorization": f"Bearer {key}"} if key else headers
