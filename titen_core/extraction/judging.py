"""Which items of the answer become memories, and why the others do not."""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from titen_core import limits
from titen_core.content import clean_content, clean_tags
from titen_core.errors import ValidationError
from titen_core.extraction.turns import Turn
from titen_core.models import UNSET, Category, Draft, Kind

__all__ = ["Refused", "ToDraft", "judged"]

ToDraft = Callable[..., Draft]

_ONE_TOO_MANY: Final = f"at most {limits.EXTRACTED_COUNT} memories are taken from one conversation"
_ACTIONS: Final = ("action", "event", "operation", "op")
_SECRET: Final = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----|\btiten_[a-z2-7]{16}_[\w-]{20,}|\b(sk|pk|rk)[-_][\w-]{16,}"
    r"|\bAKIA[0-9A-Z]{16}\b"
    r"|\bgh[opsur]_\w{30,}|\bglpat-[\w-]{18,}|\bxox[abprs]-[\w-]{10,}|\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]{10,}"
    r"|\b(password|passwd|kata sandi|sandi|tembung sandi|api[ _-]?key|secret)\b\s*(is|:|=|adalah|yaiku)\s*\S{6,}",
    re.IGNORECASE,
)
"""Forms of keys that providers document, and a password with its value: no list of this kind is complete."""


@dataclass(frozen=True, slots=True)
class Refused:
    """An item that was not stored. `content` is its beginning, empty where it has none."""

    reason: str
    content: str


def judged(items: Sequence[Any], sources: Sequence[Turn], to_draft: ToDraft) -> tuple[list[Draft], list[Refused]]:
    """The drafts to store and the refused items, each in the answer's order.

    At most EXTRACTED_COUNT drafts; of the refused at most EXTRACT_REFUSED_COUNT are told.
    """
    scripts = _scripts(turn.text for turn in sources)
    drafts: list[Draft] = []
    refused: list[Refused] = []
    for item in items:
        try:
            draft = to_draft(**_fields(item, scripts))
        except ValidationError as failure:
            refused.append(Refused(failure.message, _beginning(item)))
        else:
            if len(drafts) < limits.EXTRACTED_COUNT:
                drafts.append(draft)
            else:
                refused.append(Refused(_ONE_TOO_MANY, _beginning(item)))
    return drafts, refused[: limits.EXTRACT_REFUSED_COUNT]


def _fields(item: Any, scripts: Mapping[str, int]) -> dict[str, Any]:
    """The fields of one memory. Raises ValidationError with the reason."""
    if not isinstance(item, dict):
        raise ValidationError("it is no object")
    _check_action(item)
    content = item.get("content")
    if not isinstance(content, str):
        raise ValidationError("content: must be text")
    content = clean_content(content)
    _check_script(content, scripts)
    if _SECRET.search(content):
        raise ValidationError("it looks like a credential")
    return {"content": content, "kind": _kind(item), "category": _category(item), "tags": _tags(item)}


def _check_action(item: Mapping[str, Any]) -> None:
    """Extraction adds. A model that wants to change or delete a memory is not asked to."""
    for name in _ACTIONS:
        value = item.get(name)
        if value is not None and str(value).strip().upper() != "ADD":
            raise ValidationError("only ADD is taken; memories are changed and deleted by their owner")


def _kind(item: Mapping[str, Any]) -> Any:
    kind = item.get("kind")
    if kind is None:
        return UNSET
    if kind == Kind.PROCEDURAL:
        raise ValidationError("kind: procedural memories are never extracted")
    if kind not in tuple(Kind):
        raise ValidationError("kind: must be semantic or episodic")
    return Kind(kind)


def _category(item: Mapping[str, Any]) -> Any:
    category = item.get("category")
    if category is None:
        return UNSET
    if category not in tuple(Category):
        raise ValidationError(f"category: must be one of {', '.join(Category)}")
    return Category(category)


def _tags(item: Mapping[str, Any]) -> Any:
    tags = item.get("tags")
    if not tags and (tags is None or tags == []):
        return UNSET
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise ValidationError("tags: must be a list of texts")
    return clean_tags(tags)


def _check_script(content: str, scripts: Mapping[str, int]) -> None:
    """A memory in letters that nobody used in the conversation is not in its language.

    Languages that share a script cannot be told apart so simply; there the instructions must do.
    """
    used = _scripts([content])
    if used and scripts and max(used, key=lambda script: used[script]) not in scripts:
        raise ValidationError("it is not in the language of the conversation")


def _scripts(texts: Iterable[str]) -> Counter[str]:
    """How often letters of each script occur, by the first word of their Unicode names."""
    letters = Counter(char for text in texts for char in text if char.isalpha())
    scripts: Counter[str] = Counter()
    for char, count in letters.items():
        scripts[unicodedata.name(char, "UNKNOWN").split()[0]] += count
    return scripts


def _beginning(item: Any) -> str:
    content = item.get("content") if isinstance(item, dict) else item
    if not isinstance(content, str):
        return ""
    return content.encode("utf-8", "replace").decode()[: limits.EXTRACT_REFUSED_CHARS]
