"""What a memory's text may be, and which two texts are the same memory.

Validation answers `ValidationError`s that name the field and the bound. Nothing here looks at a
store: two runtimes and two Python versions must agree on every identity.
"""

import json
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from titen_core import limits
from titen_core.errors import ValidationError
from titen_core.ids import sha256_hex
from titen_core.models import Category, Kind, Source

__all__ = [
    "canonical_json",
    "clean_content",
    "clean_label",
    "clean_metadata",
    "clean_name",
    "clean_query",
    "clean_tags",
    "content_hash",
    "fold_tag",
    "identity",
    "merge_patch",
    "refusal",
]

_ALLOWED_CONTROLS = frozenset("\t\n\r")
_ALL_BUT_NUL = frozenset(chr(point) for point in range(1, 0x20))


def refusal(field: str, sentence: str) -> ValidationError:
    """The error for one bad field: a sentence that begins with its name, and the name by itself."""
    return ValidationError(f"{field} {sentence}.", details={"fields": [field]})


def clean_content(text: str) -> str:
    """The text as it is kept: trimmed, otherwise unchanged.

    Raises ValidationError for blank text, control characters, lone surrogates and over 8 KiB.
    """
    _refuse_unstorable("content", text, _ALLOWED_CONTROLS)
    trimmed = text.strip()
    if not trimmed:
        raise refusal("content", "must hold at least one character that is not white space")
    _refuse_longer("content", trimmed, limits.CONTENT_BYTES)
    return trimmed


def clean_name(field: str, text: str) -> str:
    """An identifier or label (subject_id, agent_id, key, source.ref ...): 1 to 256 bytes, unchanged.

    Raises ValidationError naming `field`.
    """
    _refuse_unstorable(field, text, frozenset())
    if not text.strip():
        raise refusal(field, "must not be blank")
    _refuse_longer(field, text, limits.NAME_BYTES)
    return text


def clean_label(field: str, text: str) -> str:
    """A label people read: up to 128 bytes, may be empty. Raises ValidationError naming `field`."""
    _refuse_unstorable(field, text, frozenset())
    _refuse_longer(field, text, limits.LABEL_BYTES)
    return text.strip()


def clean_query(text: str, field: str = "query") -> str:
    """A search query: 1 byte to 8 KiB, not blank. Raises ValidationError naming `field`."""
    _refuse_unstorable(field, text, _ALLOWED_CONTROLS)
    if not text.strip():
        raise refusal(field, "must hold at least one character that is not white space")
    _refuse_longer(field, text, limits.QUERY_BYTES)
    return text


def clean_tags(tags: Sequence[str], field: str = "tags") -> tuple[str, ...]:
    """Tags trimmed, the first spelling of each kept. Raises ValidationError on count, size or blanks."""
    if len(tags) > limits.TAGS_COUNT:
        raise refusal(field, f"holds {len(tags)} tags; at most {limits.TAGS_COUNT} are allowed")
    kept: dict[str, str] = {}
    for tag in tags:
        _refuse_unstorable(field, tag, frozenset())
        trimmed = tag.strip()
        if not trimmed:
            raise refusal(field, "must not hold a blank tag")
        _refuse_longer(field, trimmed, limits.TAG_BYTES)
        kept.setdefault(fold_tag(trimmed), trimmed)
    return tuple(kept.values())


def clean_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON object of at most 8 KiB without NUL, nested as deep as a body may hold it. Raises ValidationError."""
    _refuse_deeper("metadata", metadata, limits.METADATA_DEPTH)
    for text in _strings(metadata):
        _refuse_unstorable("metadata", text, _ALL_BUT_NUL)
    _refuse_longer("metadata", canonical_json(metadata), limits.METADATA_BYTES)
    return dict(metadata)


def merge_patch(target: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """RFC 7396: members of `patch` replace those of `target`, null removes, objects merge."""
    merged = dict(target)
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, Mapping):
            inner = merged.get(name)
            merged[name] = merge_patch(inner if isinstance(inner, Mapping) else {}, value)
        else:
            merged[name] = value
    return merged


def canonical_json(value: Any) -> str:
    """JSON with sorted names, no white space and characters as they are."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def fold_tag(tag: str) -> str:
    """The form in which tags are compared: without case, exactly."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", tag).casefold())


def content_hash(content: str) -> str:
    """SHA-256 over the NFC text with runs of white space folded to one space.

    White space is ASCII's and NO-BREAK SPACE's kind as `str.split` knows it; these have not
    changed between Unicode versions, unlike newly assigned letters, which NFC leaves alone.
    """
    return sha256_hex(" ".join(unicodedata.normalize("NFC", content).split()))


def identity(
    *,
    subject_id: str,
    agent_id: str | None,
    run_id: str | None,
    kind: Kind,
    category: Category | None,
    key: str | None,
    content: str,
    source: Source | None,
) -> str:
    """The hash under the tenant's unique index that makes two writes one memory.

    Keyed: subject, category, key. Unkeyed: subject, agent, run, kind and content hash; an episodic
    memory adds its source's ref, so that two events told in the same words stay two.
    """
    if key is not None:
        return sha256_hex("keyed", subject_id, category or "", key)
    ref = source.ref if kind is Kind.EPISODIC and source is not None else None
    return sha256_hex("unkeyed", subject_id, agent_id or "", run_id or "", kind, content_hash(content), ref or "")


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, member in value.items():
            yield name
            yield from _strings(member)
    elif isinstance(value, list):
        for member in value:
            yield from _strings(member)


def _refuse_deeper(field: str, value: Any, bound: int) -> None:
    level: list[Any] = [value]
    for _ in range(bound):
        level = [member for held in level for member in _members(held)]
    if any(isinstance(held, Mapping | list) for held in level):
        raise refusal(field, f"nests deeper than {bound} levels")


def _members(value: Any) -> Collection[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list) else ()


def _refuse_unstorable(field: str, text: str, allowed: frozenset[str]) -> None:
    for char in text:
        point = ord(char)
        if point < 0x20 and char not in allowed:
            raise refusal(field, f"must not hold the control character U+{point:04X}")
        if 0xD800 <= point <= 0xDFFF:
            raise refusal(field, "must not hold half of a surrogate pair; send valid Unicode")


def _refuse_longer(field: str, text: str, bound_bytes: int) -> None:
    size = len(text.encode())
    if size > bound_bytes:
        raise refusal(field, f"is {size} bytes; at most {bound_bytes} are allowed")
