"""What requests may hold: bodies, then query strings.

Requests are strict: unknown fields and wrong types are refused by name. Sizes in bytes and
characters that cannot be stored are checked by `titen_core.content` when a model becomes a record.
"""

import functools
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from titen_core import limits
from titen_core.content import clean_content, clean_metadata, clean_name, clean_tags, refusal
from titen_core.extraction.turns import Speaker, Turn
from titen_core.http.schemas.fields import Confidence, ExpiryTime, Metadata, Name, Tags, Text, lenient, time_of
from titen_core.models import (
    UNSET,
    Author,
    Category,
    Draft,
    Filters,
    Kind,
    Patch,
    PrincipalKind,
    Priority,
    Role,
    Source,
)

__all__ = [
    "DeleteQuery",
    "DigestQuery",
    "EmptyBody",
    "ExpiringQuery",
    "ExportQuery",
    "FilterFields",
    "HistoryQuery",
    "ImportQuery",
    "Input",
    "KeyBody",
    "ListQuery",
    "MessageBody",
    "NoQuery",
    "PatchBody",
    "Query",
    "RememberBody",
    "ScopeQuery",
    "SearchBody",
    "SourceBody",
]

T = TypeVar("T")


class Input(BaseModel):
    """A request body: strict, closed and immutable."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


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
        return self._draft(
            subject_id,
            content=clean_content(self.content or ""),
            key=None if self.key is None else clean_name("key", self.key),
            kind=UNSET if self.kind is None else self.kind,
            category=UNSET if self.category is None else self.category,
            tags=UNSET if self.tags is None else clean_tags(self.tags),
            priority=UNSET if self.priority is None else self.priority,
            confidence=UNSET if self.confidence is None else self.confidence,
        )

    def conversation(self, subject_id: str) -> tuple[list[Turn], Callable[..., Draft]]:
        """The messages, and how a memory of them becomes a draft. Raises ValidationError."""
        for name in ("content", "kind", "category", "key", "tags", "priority", "confidence"):
            if getattr(self, name) is not None:
                raise refusal(name, "cannot be given with messages; the extraction decides it")
        turns = [Turn(Speaker(message.role), message.content or "") for message in self.messages or ()]
        size_bytes = sum(len(turn.text.encode("utf-8", "replace")) for turn in turns)
        if size_bytes > limits.MESSAGES_BYTES:
            raise refusal("messages", f"are {size_bytes} bytes; at most {limits.MESSAGES_BYTES} are allowed")
        self._draft(subject_id, content="")  # what they have in common is checked before the model is asked
        return turns, functools.partial(self._draft, subject_id)

    def _draft(self, subject_id: str, **fields: Any) -> Draft:
        """A draft with these fields, and those that messages may have as well."""
        return Draft(
            subject_id=subject_id,
            agent_id=self._given("agent_id", _name("agent_id")),
            run_id=self._given("run_id", _name("run_id")),
            source=self._given("source", SourceBody.record),
            metadata=self._given("metadata", clean_metadata),
            expires_at_ms=self._given("expires_at", int),
            **fields,
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
    created_after: time_of("created_after") | None = None  # type: ignore[valid-type]
    created_before: time_of("created_before") | None = None  # type: ignore[valid-type]
    updated_after: time_of("updated_after") | None = None  # type: ignore[valid-type]
    updated_before: time_of("updated_before") | None = None  # type: ignore[valid-type]
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


def clean_filter_tags(tags: list[str]) -> tuple[str, ...]:
    """Tags of a filter: not limited to 16, otherwise as on a memory."""
    step = limits.TAGS_COUNT
    return tuple(tag for start in range(0, len(tags), step) for tag in clean_tags(tags[start : start + step]))


def clean_patch(metadata: dict[str, Any]) -> dict[str, Any]:
    """A metadata patch; the merged object is bounded again when it is applied."""
    return clean_metadata(metadata)


def _name(field: str) -> Callable[[str], str]:
    return lambda value: clean_name(field, value)
