"""The export record: one memory with its history as one line of canonical JSON, both ways.

Reading holds a record to the rules of the API, field by field, in its events' snapshots too: what
comes in may be shown later.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from titen_core import limits
from titen_core.content import canonical_json, clean_content, clean_metadata, clean_name, clean_tags, refusal
from titen_core.models import (
    Author,
    Category,
    EventType,
    IndexStatus,
    Kind,
    Memory,
    MemoryEvent,
    Priority,
    Source,
)
from titen_core.sql.memories import default_confidence

__all__ = [
    "FORMAT",
    "FORMAT_VERSION",
    "SUMMARY_FORMAT",
    "Record",
    "canonical_events",
    "canonical_fields",
    "check_format_version",
    "read_record",
    "record_line",
    "snapshot",
]

FORMAT = "titen-memory"
SUMMARY_FORMAT = "titen-memory-summary"
FORMAT_VERSION = 1

E = TypeVar("E", bound=StrEnum)

_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

_SNAPSHOT_NAMES = frozenset(
    (
        *("subject_id", "agent_id", "run_id", "kind", "category", "key", "content", "tags", "priority", "author"),
        *("verified", "verified_at", "verified_by", "confidence", "source", "metadata", "expires_at", "deleted_at"),
    )
)
_NAMES = _SNAPSHOT_NAMES | {"format", "format_version", "id", "created_at", "updated_at", "version", "events"}
_EVENT_NAMES = frozenset(("id", "version", "event_type", "snapshot", "actor", "created_at"))


@dataclass(frozen=True, slots=True)
class Record:
    """A memory as a line told it; `events` None where the line had none."""

    memory: Memory
    events: tuple[MemoryEvent, ...] | None


# Writing


def record_line(memory: Memory, events: Sequence[MemoryEvent]) -> str:
    """The record as canonical JSON, without the line's end."""
    return canonical_json({**canonical_fields(memory), "events": canonical_events(events)})


def canonical_fields(memory: Memory) -> dict[str, Any]:
    """Everything of a record but its history."""
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "id": memory.id,
        "created_at": memory.created_at_ms,
        "updated_at": memory.updated_at_ms,
        "version": memory.version,
        **snapshot(memory),
    }


def canonical_events(events: Sequence[MemoryEvent]) -> list[dict[str, Any]]:
    """The history as it is nested in a record."""
    return [
        {
            "id": event.id,
            "version": event.version,
            "event_type": event.event_type,
            "snapshot": event.snapshot,
            "actor": event.actor,
            "created_at": event.created_at_ms,
        }
        for event in events
    ]


def snapshot(memory: Memory) -> dict[str, Any]:
    """The fields that history keeps of each version; the same as SQL's own SNAPSHOT."""
    source = memory.source
    return {
        "subject_id": memory.subject_id,
        "agent_id": memory.agent_id,
        "run_id": memory.run_id,
        "kind": memory.kind,
        "category": memory.category,
        "key": memory.key,
        "content": memory.content,
        "tags": list(memory.tags),
        "priority": memory.priority,
        "author": memory.author,
        "verified": memory.verified,
        "verified_at": memory.verified_at_ms,
        "verified_by": memory.verified_by,
        "confidence": float(memory.confidence),
        "source": None if source is None else {"type": source.type, "ref": source.ref},
        "metadata": dict(memory.metadata),
        "expires_at": memory.expires_at_ms,
        "deleted_at": memory.deleted_at_ms,
    }


# Reading


def read_record(values: Mapping[str, Any]) -> Record:
    """A record from the JSON object of a line. Raises ValidationError naming the field.

    Fields that may be null may be missing; no other may. `format` was looked at by the caller.
    """
    given = _Fields(values)
    given.refuse_unknown(_NAMES)
    check_format_version(values)
    memory = _memory(given)
    events = values.get("events")
    return Record(memory, None if events is None else _events(memory, events))


def check_format_version(values: Mapping[str, Any]) -> None:
    """Raises ValidationError for a line of another version of the format."""
    version = values.get("format_version")
    if isinstance(version, bool) or not isinstance(version, int) or version != FORMAT_VERSION:
        raise refusal("format_version", f"must be {FORMAT_VERSION}; a newer Titen reads newer exports")


def _memory(given: "_Fields") -> Memory:
    """The row a record stands for; its content counts as new at its version."""
    memory_id, version = given.uuid("id"), given.positive("version")
    created_at_ms, updated_at_ms = given.time("created_at"), given.time("updated_at")
    author, confidence = given.choice("author", Author), given.share("confidence")
    verified = given.flag("verified")
    verified_at_ms, verified_by = given.optional_time("verified_at"), given.optional_name("verified_by")
    if not verified and (verified_at_ms, verified_by) != (None, None):
        raise refusal(given.path("verified"), "must be true where verified_at or verified_by is given")
    key, category = given.optional_name("key"), given.optional_choice("category", Category)
    if key is not None and category is None:
        raise refusal(given.path("category"), "is required when key is given")
    return Memory(
        seq=0,
        id=memory_id,
        subject_id=given.name("subject_id"),
        agent_id=given.optional_name("agent_id"),
        run_id=given.optional_name("run_id"),
        kind=given.choice("kind", Kind),
        category=category,
        key=key,
        content=given.content("content"),
        tags=given.tags("tags"),
        priority=given.choice("priority", Priority),
        author=author,
        verified=verified,
        verified_at_ms=verified_at_ms,
        verified_by=verified_by,
        confidence=confidence,
        confidence_given=confidence != default_confidence(author),
        source=given.source("source"),
        metadata=given.metadata("metadata"),
        created_at_ms=created_at_ms,
        updated_at_ms=updated_at_ms,
        expires_at_ms=given.optional_time("expires_at"),
        deleted_at_ms=given.optional_time("deleted_at"),
        version=version,
        content_version=version,
        index_status=IndexStatus.PENDING,
    )


def _events(memory: Memory, values: Any) -> tuple[MemoryEvent, ...]:
    """The history: versions without a gap, up to the record's own; older ones may be missing."""
    if not isinstance(values, list) or not values:
        raise refusal("events", "must be a list of at least one event, or left out")
    first = memory.version - len(values) + 1
    events = tuple(_event(memory, value, f"events[{i}]", first + i) for i, value in enumerate(values))
    if canonical_json(events[-1].snapshot) != canonical_json(snapshot(memory)):
        raise refusal(f"events[{len(events) - 1}].snapshot", "is the record's own version and must say what it says")
    return events


def _event(memory: Memory, value: Any, where: str, version: int) -> MemoryEvent:
    if not isinstance(value, dict):
        raise refusal(where, "must be an object")
    given = _Fields(value, where + ".")
    given.refuse_unknown(_EVENT_NAMES)
    if given.positive("version") != version:
        raise refusal(given.path("version"), "breaks the order: versions rise by one, up to the record's version")
    return MemoryEvent(
        id=given.uuid("id"),
        memory_id=memory.id,
        version=version,
        event_type=given.choice("event_type", EventType),
        snapshot=_snapshot(memory, value.get("snapshot"), given.path("snapshot")),
        actor=given.name("actor"),
        created_at_ms=given.time("created_at"),
    )


def _snapshot(memory: Memory, value: Any, where: str) -> dict[str, Any]:
    """A snapshot by the rules of a record; it must be of this memory."""
    if not isinstance(value, dict):
        raise refusal(where, "must be an object")
    given = _Fields(value, where + ".")
    given.refuse_unknown(_SNAPSHOT_NAMES)
    borrowed = {"id": memory.id, "version": 1, "created_at": 0, "updated_at": 0}
    then = _memory(_Fields({**value, **borrowed}, where + "."))
    if then.subject_id != memory.subject_id:
        raise refusal(given.path("subject_id"), "must be the record's own")
    return snapshot(then)


@dataclass(frozen=True, slots=True)
class _Fields:
    """Typed access to a JSON object's members; `prefix` leads their names in messages."""

    values: Mapping[str, Any]
    prefix: str = ""

    def path(self, name: str) -> str:
        return self.prefix + name

    def refuse_unknown(self, known: frozenset[str]) -> None:
        for name in self.values:
            if name not in known:
                shown = name[: limits.TAG_BYTES].encode("ascii", "backslashreplace").decode()
                raise refusal(self.path(shown), "is no field of this format")

    def _required(self, name: str) -> Any:
        value = self.values.get(name)
        if value is None:
            raise refusal(self.path(name), "is required")
        return value

    def _text(self, name: str) -> str:
        value = self._required(name)
        if not isinstance(value, str):
            raise refusal(self.path(name), "must be text")
        return value

    def name(self, name: str) -> str:
        return clean_name(self.path(name), self._text(name))

    def optional_name(self, name: str) -> str | None:
        return None if self.values.get(name) is None else self.name(name)

    def content(self, name: str) -> str:
        return clean_content(self._text(name))

    def uuid(self, name: str) -> str:
        value = self._text(name)
        if not _UUID.fullmatch(value):
            raise refusal(self.path(name), "must be a UUID in lower case")
        return value

    def choice(self, name: str, choices: type[E]) -> E:
        value = self._text(name)
        if value not in {choice.value for choice in choices}:
            raise refusal(self.path(name), f"must be one of {', '.join(choices)}")
        return choices(value)

    def optional_choice(self, name: str, choices: type[E]) -> E | None:
        return None if self.values.get(name) is None else self.choice(name, choices)

    def _integer(self, name: str, least: int, most: int) -> int:
        value = self._required(name)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise refusal(self.path(name), f"must be a whole number from {least} to {most}")
        return value

    def positive(self, name: str) -> int:
        return self._integer(name, 1, limits.VERSION_MAX)

    def time(self, name: str) -> int:
        return self._integer(name, 0, limits.TIME_MAX_MS)

    def optional_time(self, name: str) -> int | None:
        return None if self.values.get(name) is None else self.time(name)

    def flag(self, name: str) -> bool:
        value = self._required(name)
        if not isinstance(value, bool):
            raise refusal(self.path(name), "must be true or false")
        return value

    def share(self, name: str) -> float:
        value = self._required(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise refusal(self.path(name), "must be a number from 0.0 to 1.0")
        return float(value)

    def tags(self, name: str) -> tuple[str, ...]:
        value = self.values.get(name)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(tag, str) for tag in value):
            raise refusal(self.path(name), "must be a list of texts")
        return clean_tags(value, self.path(name))

    def metadata(self, name: str) -> dict[str, Any]:
        value = self.values.get(name)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise refusal(self.path(name), "must be an object")
        return clean_metadata(value)

    def source(self, name: str) -> Source | None:
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise refusal(self.path(name), "must be an object")
        given = _Fields(value, self.path(name) + ".")
        given.refuse_unknown(frozenset(("type", "ref")))
        source = Source(given.optional_name("type"), given.optional_name("ref"))
        return None if source == Source() else source
