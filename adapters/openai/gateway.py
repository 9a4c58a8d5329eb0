"""Vectors from any server that speaks `POST /v1/embeddings` as OpenAI defines it.

Known to be spoken by Ollama, llama.cpp, LM Studio, vLLM, text-embeddings-inference, LiteLLM and the
hosted providers. What differs between them is met here, so that the core sees either one good vector
per text or one of three named errors.
"""

import asyncio
import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Final, Literal

from adapters.openai.answers import vectors_of
from adapters.openai.exchange import Exchange, Service
from titen_core.errors import ModelAnswerInvalid, ModelRejected
from titen_core.limits import EMBED_BATCH_TEXTS
from titen_core.models import Fingerprint
from titen_core.protocols import Vector

__all__ = ["OpenAIGateway"]

EMBEDDINGS: Final = Service(
    name="The embedder",
    settings="TITEN_EMBED_",
    path="/embeddings",
    refusals=frozenset({400, 413, 422, 500}),  # 500: llama.cpp and others say it of a text that is too long
    answer_bytes_max=16 * 1024 * 1024,  # 32 texts of 4,096 dimensions are 3 MiB of JSON, 24 characters a number
)

PROBE_DEADLINE_MS: Final = 10_000
PROBE_TEXT: Final = "Titen remembers."


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
        answer_bytes_max: int = EMBEDDINGS.answer_bytes_max,
        probe_deadline_ms: int = PROBE_DEADLINE_MS,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        if not model.strip():
            raise ValueError("the embedding model has no name; set TITEN_EMBED_MODEL")
        service = dataclasses.replace(EMBEDDINGS, answer_bytes_max=answer_bytes_max)
        self._exchange = Exchange(service, base_url, api_key, now_s)
        self._model = model.strip()
        self._expected_dimensions = expected_dimensions
        self._probe_deadline_ms = probe_deadline_ms
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
        await self._exchange.close()

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
        # `stream` and `encoding_format` are sent because some servers default to the other answer.
        payload = {"model": self._model, "input": list(texts), "stream": False, "encoding_format": "float"}
        return vectors_of(await self._exchange.post(payload, deadline_ms), len(texts))
