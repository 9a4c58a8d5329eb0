"""What extracting memories from conversations costs on Workers AI: tokens, neurons, USD for a thousand."""

import json
import math
from dataclasses import dataclass
from typing import Final

from titen_core.extraction.prompt import ANSWER_SCHEMA, INSTRUCTIONS

__all__ = [
    "CHARACTERS_PER_TOKEN",
    "CHAT_MODELS",
    "CHAT_PRICES_AS_OF",
    "DEFAULT_CHAT_MODEL",
    "ExtractionTokens",
    "estimate_tokens",
    "neurons_of",
    "usd_per_thousand",
]

CHAT_PRICES_AS_OF: Final = "2026-08-28"  # the date on developers.cloudflare.com/workers-ai/platform/pricing
USD_PER_NEURON: Final = 0.011 / 1_000
CHARACTERS_PER_TOKEN: Final = 3  # 4 for English, fewer for other languages
MEMORIES_PER_EXTRACTION: Final = 3
CHARACTERS_AROUND_MEMORY: Final = 110  # the JSON that a memory comes in
DEFAULT_CHAT_MODEL: Final = "@cf/meta/llama-3.3-70b-instruct-fp8-fast"

CHAT_MODELS: Final = {
    "@cf/ibm-granite/granite-4.0-h-micro": (1_542, 10_158),
    "@cf/qwen/qwen3-30b-a3b-fp8": (4_625, 30_475),
    "@cf/meta/llama-3.1-8b-instruct-fp8-fast": (4_119, 34_868),
    "@cf/zai-org/glm-4.7-flash": (5_500, 36_400),
    "@cf/google/gemma-4-26b-a4b-it": (9_091, 27_273),
    "@cf/meta/llama-3.1-8b-instruct-fp8": (13_778, 26_128),
    "@cf/openai/gpt-oss-20b": (18_182, 27_273),
    "@cf/meta/llama-4-scout-17b-16e-instruct": (24_545, 77_273),
    "@cf/openai/gpt-oss-120b": (31_818, 68_182),
    "@cf/mistralai/mistral-small-3.1-24b-instruct": (31_876, 50_488),
    "@cf/aisingapore/gemma-sea-lion-v4-27b-it": (31_876, 50_488),
    DEFAULT_CHAT_MODEL: (26_668, 204_805),
}
"""Neurons for a million tokens, read and written."""


@dataclass(frozen=True, slots=True)
class ExtractionTokens:
    """Tokens of one extraction, as `meta.usage` tells them."""

    input_tokens: int
    output_tokens: int


def estimate_tokens(characters_per_conversation: int, characters_per_memory: int) -> ExtractionTokens:
    """One call: the instructions, the form of the answer and the conversation; then a few memories as JSON.

    A model that reasons before it answers writes more.
    """
    told = len(INSTRUCTIONS) + len(json.dumps(ANSWER_SCHEMA)) + characters_per_conversation
    written = MEMORIES_PER_EXTRACTION * (CHARACTERS_AROUND_MEMORY + characters_per_memory)
    return ExtractionTokens(math.ceil(told / CHARACTERS_PER_TOKEN), math.ceil(written / CHARACTERS_PER_TOKEN))


def neurons_of(tokens: ExtractionTokens, model: str) -> float:
    """Neurons of one extraction."""
    read, written = CHAT_MODELS[model]
    return (tokens.input_tokens * read + tokens.output_tokens * written) / 1_000_000


def usd_per_thousand(tokens: ExtractionTokens, model: str) -> float:
    """USD for 1,000 extractions, before the free neurons of a day."""
    return 1_000 * neurons_of(tokens, model) * USD_PER_NEURON
