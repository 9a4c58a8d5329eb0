"""The tokens a chat call took, as OpenAI's API and Workers AI both tell it."""

from collections.abc import Mapping
from typing import Any

from titen_core.protocols import ChatUsage

__all__ = ["usage_of"]


def usage_of(answer: Mapping[str, Any]) -> ChatUsage | None:
    """`usage.prompt_tokens` and `usage.completion_tokens`; None unless both are whole numbers."""
    told = answer.get("usage")
    if not isinstance(told, dict):
        return None
    read, written = told.get("prompt_tokens"), told.get("completion_tokens")
    return ChatUsage(read, written) if type(read) is int and type(written) is int else None
