"""A chat model behind any server that speaks `POST /v1/chat/completions` as OpenAI defines it."""

import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from adapters.chat_usage import usage_of
from adapters.openai.exchange import Exchange, Service
from titen_core.errors import ModelAnswerInvalid, ModelRejected
from titen_core.limits import CHAT_ANSWER_BYTES
from titen_core.protocols import ChatAnswer

__all__ = ["OpenAIChat"]

CHAT: Final = Service(
    name="The chat model",
    settings="TITEN_CHAT_",
    path="/chat/completions",
    refusals=frozenset({400, 404, 413, 422}),
    answer_bytes_max=CHAT_ANSWER_BYTES,
)


class OpenAIChat:
    """A `ChatModel` over HTTP. `base_url` as in `Exchange`. Raises `ValueError` for what cannot be right."""

    def __init__(
        self, base_url: str, model: str, api_key: str | None = None, *, now_s: Callable[[], float] = time.time
    ) -> None:
        if not model.strip():
            raise ValueError("the chat model has no name; set TITEN_CHAT_MODEL")
        self._model = model.strip()
        self._exchange = Exchange(CHAT, base_url, api_key, now_s)
        self._structured = True

    async def complete(
        self, *, instructions: str, question: str, schema: Mapping[str, object], deadline_ms: int
    ) -> ChatAnswer:
        """One exchange; a second one where the server refuses structured output, which it is then not asked again."""
        ends_s = time.monotonic() + deadline_ms / 1000
        messages = [{"role": "system", "content": instructions}, {"role": "user", "content": question}]
        payload: dict[str, Any] = {"model": self._model, "messages": messages, "temperature": 0, "stream": False}
        if self._structured:
            form = {"type": "json_schema", "json_schema": {"name": "memories", "strict": True, "schema": dict(schema)}}
            try:
                return _answer(await self._exchange.post({**payload, "response_format": form}, _left_ms(ends_s)))
            except ModelRejected:  # perhaps for `response_format`: how servers that have none refuse it
                pass
        answer = _answer(await self._exchange.post(payload, _left_ms(ends_s)))
        self._structured = False
        return answer

    async def close(self) -> None:
        """Close the connections. Idempotent; a later call raises `ModelUnavailable`."""
        await self._exchange.close()


def _left_ms(ends_s: float) -> int:
    return max(1, round((ends_s - time.monotonic()) * 1000))


def _answer(body: bytes) -> ChatAnswer:
    try:
        answer = json.loads(body)
        content = answer["choices"][0]["message"]["content"]
    except (ValueError, RecursionError, LookupError, TypeError):
        raise ModelAnswerInvalid("The chat model's answer has no message; check TITEN_CHAT_BASE_URL.") from None
    if not isinstance(content, str):
        raise ModelAnswerInvalid("The chat model's answer holds no text.")
    return ChatAnswer(content, usage_of(answer))
