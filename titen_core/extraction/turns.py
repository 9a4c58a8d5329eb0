"""What was said in a conversation, as far as it may become a memory.

System and tool turns are instructions and machinery, and text that came out of this memory is known
already: neither is a source, else a memory would confirm itself each time it is recalled.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from titen_core.digest import without_digests

__all__ = ["Speaker", "Turn", "spoken"]


class Speaker(StrEnum):
    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a conversation."""

    speaker: Speaker
    text: str


_SOURCES = frozenset((Speaker.USER, Speaker.ASSISTANT))


def spoken(turns: Sequence[Turn]) -> list[Turn]:
    """The turns that may be sources, without recalled text; empty ones are dropped."""
    sources = [Turn(turn.speaker, without_digests(turn.text)) for turn in turns if turn.speaker in _SOURCES]
    return [turn for turn in sources if turn.text]
