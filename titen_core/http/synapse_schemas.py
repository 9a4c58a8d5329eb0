"""Requests and answers of the `/memory` surface: Synapse's anatomy of a memory over Titen's records."""

from typing import Annotated, Literal

from pydantic import Field

from titen_core import limits
from titen_core.content import clean_name, refusal
from titen_core.http.schemas.answers import Output
from titen_core.http.schemas.fields import Confidence, ExpiryTime, Name, Tags, Text, lenient
from titen_core.http.schemas.requests import Input, PatchBody, Query, RememberBody
from titen_core.models import Category, Draft, Patch, Priority

__all__ = [
    "MindQuery",
    "SynapseBody",
    "SynapseChangeBody",
    "SynapseDeletedOut",
    "SynapseDigestQuery",
    "SynapseExpiringQuery",
    "SynapseListQuery",
    "SynapseMemoryOut",
    "SynapseSearchQuery",
    "SynapseTagQuery",
]

Claimed = Literal["user", "agent"]
_Limit = Annotated[int, Field(ge=1, le=limits.LIST_LIMIT_MAX)]
_Cursor = Annotated[str, Field(min_length=1, max_length=2048)]
_Words = Annotated[str, Field(min_length=1, max_length=limits.QUERY_BYTES)]
_Tag = Annotated[str, Field(min_length=1, max_length=limits.TAG_BYTES)]
_OURS = {"source", "mind_id"}


class SynapseBody(Input):
    """One keyed memory. `source` may be `user` only from a human; `mind_id` is the subject."""

    category: lenient(Category)  # type: ignore[valid-type]
    key: Name
    content: Text
    tags: Tags | None = None
    priority: lenient(Priority) | None = None  # type: ignore[valid-type]
    source: Claimed | None = None
    confidence: Confidence | None = None
    expires_at: ExpiryTime | None = None
    mind_id: Name | None = None

    def record(self, subject_id: str) -> Draft:
        """The validated draft. Raises ValidationError."""
        given = self.model_dump(exclude=_OURS, exclude_unset=True)
        return RememberBody(**given).record(clean_name("mind_id", subject_id))


class SynapseChangeBody(Input):
    """Only what shall change; `null` clears. Category and key may be repeated, not changed."""

    category: lenient(Category) | None = None  # type: ignore[valid-type]
    key: Name | None = None
    content: Text | None = None
    tags: Tags | None = None
    priority: lenient(Priority) | None = None  # type: ignore[valid-type]
    source: Claimed | None = None
    confidence: Confidence | None = None
    expires_at: ExpiryTime | None = None
    mind_id: Name | None = None

    def record(self, category: Category | None, key: str | None) -> Patch:
        """The validated patch of a memory that is filed under these two. Raises ValidationError."""
        for name, given, standing in (("category", self.category, category), ("key", self.key, key)):
            if name in self.model_fields_set and given != standing:
                raise refusal(name, "cannot be changed; store a new memory and delete this one")
        given = self.model_dump(exclude={*_OURS, "category", "key"}, exclude_unset=True)
        return PatchBody(**given).record()


class MindQuery(Query):
    mind_id: Name | None = None


class SynapseListQuery(MindQuery):
    category: Category | None = None
    limit: _Limit = limits.LIST_LIMIT_MAX
    cursor: _Cursor | None = None


class SynapseTagQuery(MindQuery):
    tag: _Tag
    limit: _Limit = limits.LIST_LIMIT_MAX
    cursor: _Cursor | None = None


class SynapseSearchQuery(MindQuery):
    q: _Words
    tag: _Tag | None = None
    limit: Annotated[int, Field(ge=1, le=limits.SEARCH_LIMIT_MAX)] = limits.SEARCH_LIMIT_MAX


class SynapseExpiringQuery(MindQuery):
    within: Annotated[str, Field(pattern=r"^[0-9]{1,6}[hdw]$")] = "7d"
    limit: _Limit = limits.LIST_LIMIT_MAX


class SynapseDigestQuery(MindQuery):
    max_tokens: Annotated[int, Field(ge=limits.DIGEST_TOKENS_MIN, le=limits.DIGEST_TOKENS_MAX)] = (
        limits.DIGEST_TOKENS_DEFAULT
    )
    q: _Words | None = None


class SynapseMemoryOut(Output):
    """The seed's anatomy. Times are RFC 3339 in UTC; category and key are null for what `/v1` stored without."""

    id: str
    category: Category | None
    key: str | None
    content: str | None
    tags: list[str]
    priority: Priority
    source: Claimed
    verified: bool
    confidence: float
    expires_at: str | None
    mind_id: str
    created_at: str
    updated_at: str


class SynapseDeletedOut(Output):
    id: str
    status: Literal["deleted", "unchanged"]
