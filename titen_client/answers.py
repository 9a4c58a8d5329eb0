"""What the service answers, as its OpenAPI document has it.

Answers are plain dictionaries, typed here and never converted: a field that a newer service adds does no harm.
Times are milliseconds since the epoch, UTC.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypedDict

from titen_client.fields import Author, Category, Kind, PrincipalKind, Priority, Role

__all__ = [
    "ChannelState",
    "Channels",
    "Deleted",
    "Event",
    "Extracted",
    "ImportReport",
    "Item",
    "Key",
    "LineError",
    "Memory",
    "NewKey",
    "Principal",
    "RecallMeta",
    "Recalled",
    "RefusedItem",
    "Snapshot",
    "TagCount",
    "Usage",
    "Written",
]

IndexStatus: TypeAlias = Literal["pending", "ready", "error"]
ChannelState: TypeAlias = Literal["ok", "partial", "degraded", "off"]


class SourceGiven(TypedDict):
    type: str | None
    ref: str | None


class Stated(TypedDict):
    """What memories, items and snapshots have in common."""

    subject_id: str
    agent_id: str | None
    run_id: str | None
    kind: Kind
    category: Category | None
    key: str | None
    tags: list[str]
    priority: Priority
    author: Author
    verified: bool
    confidence: float
    source: SourceGiven | None
    metadata: dict[str, Any]
    expires_at: int | None


class Memory(Stated):
    """`index_status`: whether it can be found by meaning yet. `content` is null once it is deleted."""

    id: str
    content: str | None
    verified_at: int | None
    verified_by: str | None
    version: int
    index_status: IndexStatus
    created_at: int
    updated_at: int
    deleted_at: int | None


class Written(Memory):
    status: Literal["stored", "updated", "unchanged", "restored", "verified"]
    semantic_ready: bool


class Deleted(TypedDict):
    id: str
    version: int
    status: Literal["deleted", "unchanged"]


class Score(TypedDict):
    """Null where a channel did not find the item."""

    vector_rank: int | None
    text_rank: int | None
    overlay_rank: int | None
    rrf_score: float
    similarity: float | None


class Item(Stated):
    """A memory that was recalled."""

    id: str
    content: str
    version: int
    index_status: IndexStatus
    created_at: int
    updated_at: int
    score: Score


class ScopeSearched(TypedDict):
    subject_id: str | None
    agent_id: str | None
    run_id: str | None


class Channels(TypedDict):
    vector: ChannelState
    text: ChannelState
    overlay: ChannelState


class Degraded(TypedDict):
    semantic: bool
    lexical: bool


class RecallMeta(TypedDict):
    """Tells "nothing relevant" from "a channel is down" from "another scope"."""

    request_id: str
    scope: ScopeSearched
    channels: Channels
    degraded: Degraded
    took_ms: int


@dataclass(frozen=True, slots=True)
class Recalled:
    """The items, best first; iterating gives them."""

    items: list[Item]
    meta: RecallMeta

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


class RefusedItem(TypedDict):
    reason: str
    content: str


class Usage(TypedDict):
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Extracted:
    """What became of a conversation. `usage` is what the chat model took; None where it was not asked or is silent."""

    memories: list[Written]
    refused: list[RefusedItem]
    usage: Usage | None


class Snapshot(Stated):
    content: str
    verified_at: int | None
    verified_by: str | None
    deleted_at: int | None


class Event(TypedDict):
    """One change of a memory, and the memory after it."""

    id: str
    memory_id: str
    version: int
    event_type: Literal["add", "update", "delete", "restore", "verify"]
    snapshot: Snapshot
    actor: str
    created_at: int


class TagCount(TypedDict):
    tag: str
    count: int


class Key(TypedDict):
    id: str
    principal: str
    kind: PrincipalKind
    role: Role
    subject_id: str | None
    label: str
    created_at: int
    expires_at: int | None
    revoked_at: int | None


class NewKey(Key):
    """`api_key` is shown this once."""

    api_key: str


class Principal(TypedDict):
    tenant_id: str
    principal: str
    kind: PrincipalKind
    role: Role
    key_id: str
    subject_id: str | None
    expires_at: int | None


class LineError(TypedDict):
    line: int
    message: str


class ImportReport(TypedDict):
    """What became of the lines; `errors` tells the first of the failed ones.

    `complete`: the lines ended as an export does. `warning` says what else is to be known.
    """

    imported: int
    unchanged: int
    failed: int
    errors: list[LineError]
    next_line: int | None
    complete: bool
    warning: str | None
