"""Workers AI as a `ChatModel`: the model that TITEN_CHAT_MODEL names, behind the Worker's own binding."""

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Any, Final

from adapters.chat_usage import usage_of
from adapters.cloudflare.bindings import AiBinding, BindingError
from titen_core.errors import ModelAnswerInvalid, ModelRejected, ModelUnavailable
from titen_core.limits import CHAT_ANSWER_BYTES, CHAT_ANSWER_TOKENS
from titen_core.protocols import ChatAnswer

__all__ = ["WorkersAIChat"]

_NO_STRUCTURE: Final = re.compile(r"\b50(2[45])\b|JSON (Mode|Schema)", re.IGNORECASE)
"""How a model says that it cannot answer by a schema (Workers AI, "JSON Mode")."""

_REFUSED: Final = re.compile(r"\b(3003|3006|3030|50(0[4-7]|1[0-9]))\b")


class WorkersAIChat:
    """One model. Where it has no JSON mode it is asked without, from then on."""

    def __init__(self, models: AiBinding, model: str) -> None:
        self._models = models
        self._model = model
        self._structured = True

    async def complete(
        self, *, instructions: str, question: str, schema: Mapping[str, object], deadline_ms: int
    ) -> ChatAnswer:
        messages = [{"role": "system", "content": instructions}, {"role": "user", "content": question}]
        inputs: dict[str, Any] = {"messages": messages, "temperature": 0, "max_tokens": CHAT_ANSWER_TOKENS}
        try:
            async with asyncio.timeout(deadline_ms / 1000):
                return _answer(await self._asked(inputs, schema))
        except TimeoutError:
            raise ModelUnavailable(f"The chat model did not answer within {deadline_ms} ms.") from None
        except BindingError as failure:
            if _REFUSED.search(str(failure)):
                raise ModelRejected("Workers AI refused the request; check TITEN_CHAT_MODEL.") from None
            raise ModelUnavailable("Workers AI is busy, down, or out of its daily allocation.") from None

    async def close(self) -> None:
        """Nothing is held open."""

    async def _asked(self, inputs: Mapping[str, Any], schema: Mapping[str, object]) -> Any:
        if self._structured:
            form = {"type": "json_schema", "json_schema": dict(schema)}
            try:
                return await self._models.run(self._model, {**inputs, "response_format": form})
            except BindingError as failure:
                if not _NO_STRUCTURE.search(str(failure)):
                    raise
                self._structured = False
        return await self._models.run(self._model, inputs)


def _answer(answer: Any) -> ChatAnswer:
    """`response` is text, or in JSON mode the value itself; newer models answer as OpenAI's do."""
    found = answer if isinstance(answer, dict) else {}
    said = found["response"] if "response" in found else _first_choice(found)
    text = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
    if said is None or len(text.encode("utf-8", "replace")) > CHAT_ANSWER_BYTES:
        raise ModelAnswerInvalid("Workers AI answered without a text, or with far too much of it.")
    return ChatAnswer(text, usage_of(found))


def _first_choice(answer: Mapping[str, Any]) -> Any:
    try:
        return answer["choices"][0]["message"]["content"]
    except (LookupError, TypeError):
        return None
