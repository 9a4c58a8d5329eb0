"""What requests may hold and what answers hold, as pydantic models: validation and OpenAPI in one.

Requests are strict: unknown fields and wrong types are refused by name. Sizes in bytes and
characters that cannot be stored are checked by `titen_core.content` when a model becomes a record.
"""

from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, WithJsonSchema

from titen_core import limits
from titen_core.content import clean_content, clean_metadata, clean_name, clean_tags, refusal
from titen_core.extraction.about import About
from titen_core.extraction.turns import Speaker, Turn
from titen_core.models import (
    UNSET,
    Author,
    Category,
    Draft,
    Filters,
    IndexStatus,
    Kind,
    Patch,
    PrincipalKind,
    Priority,
    Role,
    Source,
)
from titen_core.times import parse_time

__all__ = [
    "ChannelsOut",
    "Confidence",
    "DegradedOut",
    "DeleteQuery",
    "DeletedOut",
    "DigestQuery",
    "EmptyBody",
    "ErrorAnswer",
    "ErrorOut",
    "EventOut",
    "ExpiringQuery",
    "ExpiryTime",
    "ExportQuery",
    "FilterFields",
    "HealthOut",
    "HistoryQuery",
    "ImportOut",
    "ImportQuery",
    "Input",
    "ItemOut",
    "KeyBody",
    "KeyOut",
    "LineErrorOut",
    "ListMeta",
    "ListQuery",
    "MemoryOut",
    "Meta",
    "Name",
    "NewKeyOut",
    "NoQuery",
    "Output",
    "PageMeta",
    "PatchBody",
    "PrincipalOut",
    "Query",
    "ReadyCheckOut",
    "ReadyDetailOut",
    "ReadyOut",
    "RememberBody",
    "RepairOut",
    "ScopeOut",
    "ScopeQuery",
    "ScoreOut",
    "SearchBody",
    "SearchMeta",
    "SnapshotOut",
    "SourceBody",
    "SourceOut",
    "TagOut",
    "Tags",
    "Text",
    "WrittenOut",
    "lenient",
]

T = TypeVar("T")

Name = Annotated[str, Field(min_length=1, max_length=limits.NAME_BYTES)]
Text = Annotated[
    str,
    WithJsonSchema(
        {
            "type": "string",
            "minLength": 1,
            "maxLength": limits.CONTENT_BYTES,
            "description": f"1 byte to {limits.CONTENT_BYTES} bytes of UTF-8 after trimming.",
        }
    ),
]
Tags = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=limits.TAG_BYTES)]], Field(max_length=limits.TAGS_COUNT)
]
# Not JsonValue: it recurses, and pydantic-core gives up at 50 levels in a Worker, at 255 elsewhere. What is
# here came out of a JSON parser that counts to JSON_DEPTH.
Metadata = Annotated[
    dict[str, Any],
    WithJsonSchema(
        {
            "type": "object",
            "additionalProperties": {"description": "any JSON value"},
            "description": f"A JSON object of at most {limits.METADATA_BYTES} bytes.",
        }
    ),
]


AS_TEXT = "as_text"
"""Validation context: values come from a query string, where an integer is written in digits."""

_TIME_SCHEMA = WithJsonSchema(
    {
        "anyOf": [
            {"type": "integer", "minimum": 0, "maximum": limits.TIME_MAX_MS},
            {"type": "string", "format": "date-time", "maxLength": 40},
        ],
        "description": "Milliseconds since the epoch, or RFC 3339 with an offset.",
    }
)


def _read_time(field: str) -> BeforeValidator:
    def moment(value: object, info: ValidationInfo) -> int:
        return parse_time(field, value, as_text=bool(info.context and info.context.get(AS_TEXT)))

    return BeforeValidator(moment)


def _time(field: str) -> Any:
    return Annotated[int, _read_time(field), _TIME_SCHEMA]


def lenient(enum: type[T]) -> Any:
    """The enum in a strict model: its values arrive as text."""
    return Annotated[enum, Field(strict=False)]


ExpiryTime = Annotated[int, _read_time("expires_at"), _TIME_SCHEMA]
Confidence = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class Input(BaseModel):
    """A request body: strict, closed and immutable."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Output(BaseModel):
    """An answer, as documented."""

    model_config = ConfigDict(extra="forbid", frozen=True)


# Bodies


class SourceBody(Input):
    type: Name | None = None
    ref: Name | None = None

    def record(self) -> Source:
        return Source(
            None if self.type is None else clean_name("source.type", self.type),
            None if self.ref is None else clean_name("source.ref", self.ref),
        )


class MessageBody(Input):
    """One message, as chat completions have them. Only what user and assistant said can become a memory."""

    role: Literal["system", "user", "assistant", "tool"]
    content: Annotated[str, Field(max_length=limits.MESSAGES_BYTES)] | None = None
    name: Name | None = None


class RememberBody(Input):
    """Give `content`, or `messages` to have memories extracted from a conversation.

    Omitted fields keep their value where the same memory exists already. With `messages` go subject_id,
    agent_id, run_id, source, metadata and expires_at; they hold for every memory of the conversation.
    """

    content: Text | None = None
    messages: Annotated[list[MessageBody], Field(min_length=1, max_length=limits.MESSAGES_COUNT)] | None = None
    subject_id: Name | None = None
    agent_id: Name | None = None
    run_id: Name | None = None
    kind: lenient(Kind) | None = None  # type: ignore[valid-type]
    category: lenient(Category) | None = None  # type: ignore[valid-type]
    key: Name | None = None
    tags: Tags | None = None
    priority: lenient(Priority) | None = None  # type: ignore[valid-type]
    confidence: Confidence | None = None
    source: SourceBody | None = None
    metadata: Metadata | None = None
    expires_at: ExpiryTime | None = None

    def record(self, subject_id: str) -> Draft:
        """The validated draft. Raises ValidationError."""
        if self.key is not None and self.category is None:
            raise refusal("category", "is required when key is given")
        return Draft(
            subject_id=subject_id,
            content=clean_content(self.content or ""),
            key=None if self.key is None else clean_name("key", self.key),
            agent_id=self._given("agent_id", _name("agent_id")),
            run_id=self._given("run_id", _name("run_id")),
            kind=UNSET if self.kind is None else self.kind,
            category=UNSET if self.category is None else self.category,
            tags=UNSET if self.tags is None else clean_tags(self.tags),
            priority=UNSET if self.priority is None else self.priority,
            confidence=UNSET if self.confidence is None else self.confidence,
            source=self._given("source", SourceBody.record),
            metadata=self._given("metadata", clean_metadata),
            expires_at_ms=self._given("expires_at", int),
        )

    def conversation(self, subject_id: str) -> tuple[list[Turn], About]:
        """The messages, and what their memories have in common. Raises ValidationError."""
        for name in ("content", "kind", "category", "key", "tags", "priority", "confidence"):
            if getattr(self, name) is not None:
                raise refusal(name, "cannot be given with messages; the extraction decides it")
        turns = [Turn(Speaker(message.role), message.content or "") for message in self.messages or ()]
        size_bytes = sum(len(turn.text.encode("utf-8", "replace")) for turn in turns)
        if size_bytes > limits.MESSAGES_BYTES:
            raise refusal("messages", f"are {size_bytes} bytes; at most {limits.MESSAGES_BYTES} are allowed")
        return turns, About(
            subject_id=subject_id,
            agent_id=self._given("agent_id", _name("agent_id")),
            run_id=self._given("run_id", _name("run_id")),
            source=self._given("source", SourceBody.record),
            metadata=self._given("metadata", clean_metadata),
            expires_at_ms=self._given("expires_at", int),
        )

    def _given(self, name: str, convert: Callable[[Any], T]) -> Any:
        """UNSET when left out, None when null was sent, else the converted value."""
        value = getattr(self, name)
        if value is None:
            return None if name in self.model_fields_set else UNSET
        return convert(value)


class PatchBody(Input):
    """Only what shall change. `null` clears; `metadata` merges member by member (RFC 7396)."""

    content: Text | None = None
    tags: Tags | None = None
    priority: lenient(Priority) | None = None  # type: ignore[valid-type]
    confidence: Confidence | None = None
    source: SourceBody | None = None
    metadata: Metadata | None = None
    expires_at: ExpiryTime | None = None
    expected_version: Annotated[int, Field(ge=1, le=2**53)] | None = None

    def record(self) -> Patch:
        """The validated patch. Raises ValidationError where null makes no sense."""
        if "content" in self.model_fields_set and self.content is None:
            raise refusal("content", "cannot be cleared; delete the memory instead")
        return Patch(
            content=self._given("content", clean_content),
            tags=self._given("tags", clean_tags, cleared=()),
            priority=self._given("priority", Priority, cleared=Priority.NORMAL),
            confidence=self._given("confidence", float),
            source=self._given("source", SourceBody.record),
            metadata=self._given("metadata", clean_patch),
            expires_at_ms=self._given("expires_at", int),
        )

    def _given(self, name: str, convert: Callable[[Any], T], cleared: Any = None) -> Any:
        if name not in self.model_fields_set:
            return UNSET
        value = getattr(self, name)
        return cleared if value is None else convert(value)


class EmptyBody(Input):
    """No fields but the expected version."""

    expected_version: Annotated[int, Field(ge=1, le=2**53)] | None = None


def _some(enum: Any) -> Any:
    return Annotated[
        list[Annotated[enum, Field(strict=False)]],
        Field(max_length=limits.FILTER_VALUES_COUNT),
        BeforeValidator(lambda value: value if isinstance(value, list) else [value]),
    ]


class FilterFields(Input):
    """Conditions; one value or a list of them. A value nobody has gives an empty answer."""

    kind: _some(Kind) = []  # type: ignore[valid-type]
    category: _some(Category) = []  # type: ignore[valid-type]
    tags: _some(Annotated[str, Field(min_length=1, max_length=limits.TAG_BYTES)]) = []  # type: ignore[valid-type]
    tags_match: Literal["any", "all"] = "any"
    priority: _some(Priority) = []  # type: ignore[valid-type]
    verified: bool | None = None
    author: _some(Author) = []  # type: ignore[valid-type]
    min_confidence: Confidence | None = None
    created_after: _time("created_after") | None = None  # type: ignore[valid-type]
    created_before: _time("created_before") | None = None  # type: ignore[valid-type]
    updated_after: _time("updated_after") | None = None  # type: ignore[valid-type]
    updated_before: _time("updated_before") | None = None  # type: ignore[valid-type]
    include_expired: bool = False

    def filters(self) -> Filters:
        """The validated filters. Raises ValidationError."""
        return Filters(
            kind=tuple(self.kind),
            category=tuple(self.category),
            tags=clean_filter_tags(self.tags),
            tags_match=self.tags_match,
            priority=tuple(self.priority),
            verified=self.verified,
            author=tuple(self.author),
            min_confidence=self.min_confidence,
            created_after_ms=self.created_after,
            created_before_ms=self.created_before,
            updated_after_ms=self.updated_after,
            updated_before_ms=self.updated_before,
            include_expired=self.include_expired,
        )


class SearchBody(Input):
    query: Annotated[str, Field(min_length=1, max_length=limits.QUERY_BYTES)]
    subject_id: Name | None = None
    agent_id: Name | None = None
    run_id: Name | None = None
    limit: Annotated[int, Field(ge=1, le=limits.SEARCH_LIMIT_MAX)] = limits.SEARCH_LIMIT_DEFAULT
    filters: FilterFields = FilterFields()


class KeyBody(Input):
    principal: Name
    kind: lenient(PrincipalKind)  # type: ignore[valid-type]
    role: lenient(Role)  # type: ignore[valid-type]
    subject_id: Name | None = None
    label: Annotated[str, Field(max_length=limits.LABEL_BYTES)] = ""
    expires_at: ExpiryTime | None = None


# Query strings. Values arrive as text, so these models are not strict.


class Query(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ScopeQuery(Query):
    subject_id: Name | None = None
    agent_id: Name | None = None
    run_id: Name | None = None


class ListQuery(FilterFields):
    model_config = ConfigDict(extra="forbid", strict=False, frozen=True)

    subject_id: Name | None = None
    agent_id: Name | None = None
    run_id: Name | None = None
    limit: Annotated[int, Field(ge=1, le=limits.LIST_LIMIT_MAX)] = limits.LIST_LIMIT_DEFAULT
    cursor: Annotated[str, Field(min_length=1, max_length=2048)] | None = None


class ExpiringQuery(ScopeQuery):
    within: Annotated[str, Field(pattern=r"^[0-9]{1,6}[hdw]$")] = "7d"
    limit: Annotated[int, Field(ge=1, le=limits.LIST_LIMIT_MAX)] = limits.LIST_LIMIT_DEFAULT


class DigestQuery(Query):
    subject_id: Name | None = None
    max_tokens: Annotated[int, Field(ge=limits.DIGEST_TOKENS_MIN, le=limits.DIGEST_TOKENS_MAX)] = (
        limits.DIGEST_TOKENS_DEFAULT
    )
    q: Annotated[str, Field(min_length=1, max_length=limits.QUERY_BYTES)] | None = None


class HistoryQuery(Query):
    limit: Annotated[int, Field(ge=1, le=limits.LIST_LIMIT_MAX)] = limits.LIST_LIMIT_DEFAULT
    cursor: Annotated[str, Field(min_length=1, max_length=2048)] | None = None


class DeleteQuery(Query):
    expected_version: Annotated[int, Field(ge=1, le=2**53)] | None = None


class ExportQuery(Query):
    after: Annotated[str, Field(min_length=1, max_length=2048)] | None = None
    limit: Annotated[int, Field(ge=1, le=limits.EXPORT_LIMIT_MAX)] = limits.EXPORT_LIMIT_MAX
    deleted: bool = False


class ImportQuery(Query):
    from_line: Annotated[int, Field(ge=1, le=2**31)] = 1


class NoQuery(Query):
    """No parameters."""


# Answers


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


def clean_filter_tags(tags: list[str]) -> tuple[str, ...]:
    """Tags of a filter: not limited to 16, otherwise as on a memory."""
    step = limits.TAGS_COUNT
    return tuple(tag for start in range(0, len(tags), step) for tag in clean_tags(tags[start : start + step]))


def clean_patch(metadata: dict[str, Any]) -> dict[str, Any]:
    """A metadata patch; the merged object is bounded again when it is applied."""
    return clean_metadata(metadata)


def _name(field: str) -> Callable[[str], str]:
    return lambda value: clean_name(field, value)
