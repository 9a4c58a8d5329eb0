"""Rows as records: the one place that knows the columns of `memories`.

D1 answers whole REALs as integers and integers as floats, so every number is converted by its
column's type.
"""

import json
from typing import Any

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
from titen_core.protocols import Row, SqlValue

__all__ = [
    "MEMORY_COLUMNS",
    "SNAPSHOT",
    "event",
    "integer",
    "memory",
    "optional_integer",
    "optional_text",
    "snapshot_of",
    "text",
]

_COLUMNS = (
    *(
        "seq",
        "id",
        "subject_id",
        "agent_id",
        "run_id",
        "kind",
        "category",
        "key",
        "content",
        "tags",
        "priority",
    ),
    *(
        "author",
        "verified",
        "verified_at",
        "verified_by",
        "confidence",
        "confidence_given",
        "source_type",
        "source_ref",
        "metadata",
    ),
    *("created_at", "updated_at", "expires_at", "deleted_at", "version", "content_version", "index_status"),
)
MEMORY_COLUMNS = ", ".join(f"m.{column}" for column in _COLUMNS)

SNAPSHOT = """json_array(
  json_object(
    'subject_id', m.subject_id, 'agent_id', m.agent_id, 'run_id', m.run_id, 'kind', m.kind,
    'category', m.category, 'key', m.key, 'content', m.content, 'tags', json(m.tags),
    'priority', m.priority, 'metadata', json(m.metadata)),
  json_object(
    'author', m.author, 'verified', json(iif(m.verified, 'true', 'false')),
    'verified_at', m.verified_at, 'verified_by', m.verified_by, 'confidence', m.confidence,
    'source', iif(m.source_type IS NULL AND m.source_ref IS NULL, NULL,
                  json_object('type', m.source_type, 'ref', m.source_ref)),
    'expires_at', m.expires_at, 'deleted_at', m.deleted_at))"""
"""A memory's canonical fields after a change, as history keeps them: in two objects, since D1 allows
a function 32 arguments. `snapshot_of` makes them one again."""


def memory(row: Row) -> Memory:
    """A row selected with MEMORY_COLUMNS as a Memory."""
    category = optional_text(row["category"])
    source = Source(optional_text(row["source_type"]), optional_text(row["source_ref"]))
    return Memory(
        seq=integer(row["seq"]),
        id=text(row["id"]),
        subject_id=text(row["subject_id"]),
        agent_id=optional_text(row["agent_id"]),
        run_id=optional_text(row["run_id"]),
        kind=Kind(text(row["kind"])),
        category=Category(category) if category is not None else None,
        key=optional_text(row["key"]),
        content=text(row["content"]),
        tags=() if row["tags"] == "[]" else tuple(json.loads(text(row["tags"]))),
        priority=Priority(text(row["priority"])),
        author=Author(text(row["author"])),
        verified=bool(row["verified"]),
        verified_at_ms=optional_integer(row["verified_at"]),
        verified_by=optional_text(row["verified_by"]),
        confidence=float(row["confidence"] or 0.0),
        confidence_given=bool(row["confidence_given"]),
        source=None if source == Source() else source,
        metadata={} if row["metadata"] == "{}" else json.loads(text(row["metadata"])),
        created_at_ms=integer(row["created_at"]),
        updated_at_ms=integer(row["updated_at"]),
        expires_at_ms=optional_integer(row["expires_at"]),
        deleted_at_ms=optional_integer(row["deleted_at"]),
        version=integer(row["version"]),
        content_version=integer(row["content_version"]),
        index_status=IndexStatus(text(row["index_status"])),
    )


def event(row: Row) -> MemoryEvent:
    """A row of `memory_events` as a MemoryEvent."""
    return MemoryEvent(
        id=text(row["id"]),
        memory_id=text(row["memory_id"]),
        version=integer(row["version"]),
        event_type=EventType(text(row["event_type"])),
        snapshot=snapshot_of(text(row["snapshot"])),
        actor=text(row["actor"]),
        created_at_ms=integer(row["created_at"]),
    )


def snapshot_of(stored: str) -> dict[str, Any]:
    """A kept snapshot as one object: written here in two parts, or by an import in one."""
    value = json.loads(stored)
    snapshot: dict[str, Any] = {**value[0], **value[1]} if isinstance(value, list) else value
    snapshot["confidence"] = float(snapshot["confidence"])
    return snapshot


def text(value: SqlValue) -> str:
    return str(value)


def optional_text(value: SqlValue) -> str | None:
    return None if value is None else str(value)


def integer(value: SqlValue) -> int:
    return int(value or 0)


def optional_integer(value: SqlValue) -> int | None:
    return None if value is None else int(value)
