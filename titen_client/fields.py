"""What a caller may give, by the names of the HTTP API.

A field that is left out is not sent: it keeps its value, or its default. `None` is sent, and clears.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

__all__ = [
    "Author",
    "Category",
    "Changes",
    "ConversationFields",
    "Filters",
    "Kind",
    "MemoryFields",
    "Message",
    "PrincipalKind",
    "Priority",
    "Role",
    "Scope",
    "Source",
    "Time",
]

Kind: TypeAlias = Literal["semantic", "episodic", "procedural"]
Category: TypeAlias = Literal["identity", "preference", "fact", "project", "skill", "mistake", "context", "note"]
Priority: TypeAlias = Literal["low", "normal", "high", "critical"]
Author: TypeAlias = Literal["human", "agent", "service"]
PrincipalKind: TypeAlias = Author
Role: TypeAlias = Literal["reader", "writer", "admin"]
Time: TypeAlias = int | str
"""Milliseconds since the epoch, or RFC 3339 with an offset."""


class Source(TypedDict, total=False):
    """Where a memory came from."""

    type: str | None
    ref: str | None


class Message(TypedDict):
    """One message, as chat completions have them."""

    role: Literal["system", "user", "assistant", "tool"]
    content: NotRequired[str | None]
    name: NotRequired[str | None]


class Scope(TypedDict, total=False):
    """Whom it is about, and which agent and run. A key that is locked to a subject needs no `subject_id`."""

    subject_id: str | None
    agent_id: str | None
    run_id: str | None


class ConversationFields(Scope, total=False):
    """What holds for every memory of a conversation."""

    source: Source | None
    metadata: Mapping[str, Any] | None
    expires_at: Time | None


class MemoryFields(ConversationFields, total=False):
    """What a memory may have beside its content. A `key` needs a `category`."""

    kind: Kind | None
    category: Category | None
    key: str | None
    tags: Sequence[str] | None
    priority: Priority | None
    confidence: float | None


class Changes(TypedDict, total=False):
    """What of a memory can change. `metadata` is merged member by member."""

    content: str
    tags: Sequence[str] | None
    priority: Priority | None
    confidence: float | None
    source: Source | None
    metadata: Mapping[str, Any] | None
    expires_at: Time | None


class Filters(TypedDict, total=False):
    """Conditions on what is found; where several values make sense, one of them is enough."""

    kind: Sequence[Kind]
    category: Sequence[Category]
    tags: Sequence[str]
    tags_match: Literal["any", "all"]
    priority: Sequence[Priority]
    verified: bool
    author: Sequence[Author]
    min_confidence: float
    created_after: Time
    created_before: Time
    updated_after: Time
    updated_before: Time
    include_expired: bool
