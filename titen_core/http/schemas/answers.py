"""What answers hold, as documented; the views build them without validating again."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, WithJsonSchema

from titen_core.http.schemas.fields import Metadata
from titen_core.models import Author, Category, IndexStatus, Kind, PrincipalKind, Priority, Role

__all__ = [
    "ChannelsOut",
    "DegradedOut",
    "DeletedOut",
    "ErrorAnswer",
    "ErrorOut",
    "EventOut",
    "ExtractedMeta",
    "ExtractedOut",
    "HealthOut",
    "ImportOut",
    "ItemOut",
    "KeyOut",
    "LineErrorOut",
    "ListMeta",
    "MemoryOut",
    "Meta",
    "NewKeyOut",
    "Output",
    "PageMeta",
    "PrincipalOut",
    "ReadyCheckOut",
    "ReadyDetailOut",
    "ReadyOut",
    "RefusedOut",
    "RepairOut",
    "ScopeOut",
    "ScoreOut",
    "SearchMeta",
    "SnapshotOut",
    "SourceOut",
    "TagOut",
    "UsageOut",
    "WrittenOut",
]


class Output(BaseModel):
    """An answer, as documented."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class SourceOut(Output):
    type: str | None
    ref: str | None


class MemoryOut(Output):
    id: str
    subject_id: str
    agent_id: str | None
    run_id: str | None
    kind: Kind
    category: Category | None
    key: str | None
    content: str | None
    tags: list[str]
    priority: Priority
    author: Author
    verified: bool
    verified_at: int | None
    verified_by: str | None
    confidence: float
    source: SourceOut | None
    metadata: Metadata
    version: int
    index_status: IndexStatus
    created_at: int
    updated_at: int
    expires_at: int | None
    deleted_at: int | None


class WrittenOut(MemoryOut):
    status: Literal["stored", "updated", "unchanged", "restored", "verified"]
    semantic_ready: bool


class RefusedOut(Output):
    reason: str
    content: str


class ExtractedOut(Output):
    """What became of `messages`."""

    memories: list[WrittenOut]
    refused: list[RefusedOut]


class DeletedOut(Output):
    id: str
    version: int
    status: Literal["deleted", "unchanged"]


class ScoreOut(Output):
    vector_rank: int | None
    text_rank: int | None
    overlay_rank: int | None
    rrf_score: float
    similarity: float | None


class ItemOut(Output):
    id: str
    content: str
    kind: Kind
    category: Category | None
    key: str | None
    tags: list[str]
    priority: Priority
    author: Author
    verified: bool
    confidence: float
    source: SourceOut | None
    metadata: Metadata
    subject_id: str
    agent_id: str | None
    run_id: str | None
    version: int
    created_at: int
    updated_at: int
    expires_at: int | None
    index_status: IndexStatus
    score: ScoreOut


class SnapshotOut(Output):
    subject_id: str
    agent_id: str | None
    run_id: str | None
    kind: Kind
    category: Category | None
    key: str | None
    content: str
    tags: list[str]
    priority: Priority
    author: Author
    verified: bool
    verified_at: int | None
    verified_by: str | None
    confidence: float
    source: SourceOut | None
    metadata: Metadata
    expires_at: int | None
    deleted_at: int | None


class EventOut(Output):
    id: str
    memory_id: str
    version: int
    event_type: Literal["add", "update", "delete", "restore", "verify"]
    snapshot: SnapshotOut
    actor: str
    created_at: int


class TagOut(Output):
    tag: str
    count: int


class KeyOut(Output):
    id: str
    principal: str
    kind: PrincipalKind
    role: Role
    subject_id: str | None
    label: str
    created_at: int
    expires_at: int | None
    revoked_at: int | None


class NewKeyOut(KeyOut):
    api_key: str


class PrincipalOut(Output):
    tenant_id: str
    principal: str
    kind: PrincipalKind
    role: Role
    key_id: str
    subject_id: str | None
    expires_at: int | None


class RepairOut(Output):
    requeued: int
    completed: int
    postponed: int
    pending: int
    failed: int


class LineErrorOut(Output):
    line: int
    message: str


class ImportOut(Output):
    imported: int
    unchanged: int
    failed: int
    errors: list[LineErrorOut]
    next_line: int | None
    complete: bool
    warning: str | None


class HealthOut(Output):
    status: Literal["ok"]


class ReadyCheckOut(Output):
    name: str
    status: Literal["ok", "degraded", "off", "failed"]
    code: str | None


class ReadyDetailOut(ReadyCheckOut):
    detail: Annotated[
        dict[str, Any],
        WithJsonSchema({"type": "object", "additionalProperties": {"description": "a number, text or null"}}),
    ]


class ReadyOut(Output):
    status: Literal["ready", "degraded", "failed"]
    codes: list[str]
    checks: list[ReadyDetailOut] | None = None


class ScopeOut(Output):
    subject_id: str | None
    agent_id: str | None
    run_id: str | None


class ChannelsOut(Output):
    vector: Literal["ok", "partial", "degraded", "off"]
    text: Literal["ok", "partial", "degraded", "off"]
    overlay: Literal["ok", "partial", "degraded", "off"]


class DegradedOut(Output):
    semantic: bool
    lexical: bool


class Meta(Output):
    request_id: str


class UsageOut(Output):
    input_tokens: int
    output_tokens: int


class ExtractedMeta(Meta):
    """`usage`: what the chat model took; null where it was not asked, or does not tell."""

    usage: UsageOut | None


class PageMeta(Meta):
    next_cursor: str | None
    has_more: bool


class ListMeta(PageMeta):
    scope: ScopeOut


class SearchMeta(Meta):
    scope: ScopeOut
    channels: ChannelsOut
    degraded: DegradedOut
    took_ms: int


class ErrorOut(Output):
    code: str
    message: str
    details: Metadata | None = None


class ErrorAnswer(Output):
    error: ErrorOut
    meta: Meta
