"""The records the core speaks of. All frozen; a change is a new value.

Times are integer milliseconds since the epoch, UTC, and say so in their names.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Any, Final, Literal, TypeAlias

__all__ = [
    "UNSET",
    "Access",
    "Action",
    "Actor",
    "ApiKey",
    "Author",
    "Category",
    "ChannelState",
    "Draft",
    "EventType",
    "Filters",
    "Fingerprint",
    "IndexStatus",
    "Kind",
    "Memory",
    "MemoryEvent",
    "Outcome",
    "Patch",
    "Principal",
    "PrincipalKind",
    "Priority",
    "Role",
    "Scope",
    "Source",
    "Tenant",
    "Unset",
    "Written",
]


class Kind(StrEnum):
    SEMANTIC = "semantic"
    EPISODIC = "episodic"
    PROCEDURAL = "procedural"


class Category(StrEnum):
    IDENTITY = "identity"
    PREFERENCE = "preference"
    FACT = "fact"
    PROJECT = "project"
    SKILL = "skill"
    MISTAKE = "mistake"
    CONTEXT = "context"
    NOTE = "note"


class Priority(StrEnum):
    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"
    CRITICAL = "critical"


class PrincipalKind(StrEnum):
    HUMAN = "human"
    AGENT = "agent"
    SERVICE = "service"


Author = PrincipalKind
"""Who last wrote a memory's content: the kind of that principal."""


class Role(StrEnum):
    READER = "reader"
    WRITER = "writer"
    ADMIN = "admin"


class IndexStatus(StrEnum):
    PENDING = "pending"
    READY = "ready"
    ERROR = "error"


class EventType(StrEnum):
    ADD = "add"
    UPDATE = "update"
    DELETE = "delete"
    RESTORE = "restore"
    VERIFY = "verify"


class Outcome(StrEnum):
    """What a write did."""

    STORED = "stored"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    RESTORED = "restored"
    DELETED = "deleted"
    VERIFIED = "verified"


class ChannelState(StrEnum):
    """How a recall channel answered; `partial` means filters were applied after its cut."""

    OK = "ok"
    PARTIAL = "partial"
    DEGRADED = "degraded"
    OFF = "off"


class Action(StrEnum):
    """What a caller wants to do; `policy` maps it to the role it needs."""

    READ = "read"
    WRITE = "write"
    VERIFY = "verify"
    EXPORT = "export"
    IMPORT = "import"
    KEYS = "keys"
    REPAIR = "repair"
    READINESS = "readiness"
    NONE = "none"  # liveness, the guide and the OpenAPI document: no key


@dataclass(frozen=True, slots=True)
class Tenant:
    """The isolation boundary. `num` is its short name inside the text index."""

    id: str
    num: int
    name: str
    created_at_ms: int


@dataclass(frozen=True, slots=True)
class Actor:
    """Who did something, by name: what history shows."""

    name: str
    kind: PrincipalKind


@dataclass(frozen=True, slots=True)
class Principal:
    """Who is calling, as the credential says. Only `policy` turns it into an `Access`."""

    tenant_id: str
    tenant_num: int
    key_id: str
    principal_id: str
    name: str
    kind: PrincipalKind
    role: Role
    subject_id: str | None
    expires_at_ms: int | None


@dataclass(frozen=True, slots=True)
class Access:
    """What the caller may touch in this request. Every tenant-data method takes one first.

    `subject_id` None means every subject of the tenant.
    """

    tenant_id: str
    tenant_num: int
    subject_id: str | None
    actor: Actor
    key_id: str


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as it may be listed: without its secret or the hash of it."""

    id: str
    principal: str
    kind: PrincipalKind
    role: Role
    subject_id: str | None
    label: str
    created_at_ms: int
    expires_at_ms: int | None
    revoked_at_ms: int | None


@dataclass(frozen=True, slots=True)
class Source:
    """Where a memory came from: `conversation`, `ticket_456#turn_8`."""

    type: str | None = None
    ref: str | None = None


@dataclass(frozen=True, slots=True)
class Memory:
    """One canonical row. `seq` is the row id of every index and never leaves the service.

    `confidence_given` tells a confidence somebody chose from one that follows the author.
    """

    seq: int
    id: str
    subject_id: str
    agent_id: str | None
    run_id: str | None
    kind: Kind
    category: Category | None
    key: str | None
    content: str
    tags: tuple[str, ...]
    priority: Priority
    author: Author
    verified: bool
    verified_at_ms: int | None
    verified_by: str | None
    confidence: float
    confidence_given: bool
    source: Source | None
    metadata: Mapping[str, Any]
    created_at_ms: int
    updated_at_ms: int
    expires_at_ms: int | None
    deleted_at_ms: int | None
    version: int
    content_version: int
    index_status: IndexStatus


@dataclass(frozen=True, slots=True)
class MemoryEvent:
    """One append-only history row. `snapshot` is the memory's canonical fields after the change."""

    id: str
    memory_id: str
    version: int
    event_type: EventType
    snapshot: Mapping[str, Any]
    actor: str
    created_at_ms: int


class Unset(Enum):
    """A field the caller left out, as opposed to one set to null."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET
MaybeStr: TypeAlias = str | Literal[Unset.UNSET] | None


@dataclass(frozen=True, slots=True)
class Scope:
    """What a read names: None means every one the access allows."""

    subject_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None


@dataclass(frozen=True, slots=True)
class Draft:
    """A memory to remember, validated. UNSET fields keep their value where the identity exists; None clears."""

    subject_id: str
    content: str
    agent_id: str | Literal[Unset.UNSET] | None = UNSET
    run_id: str | Literal[Unset.UNSET] | None = UNSET
    kind: Kind | Literal[Unset.UNSET] = UNSET
    category: Category | Literal[Unset.UNSET] = UNSET
    key: str | None = None
    tags: tuple[str, ...] | Literal[Unset.UNSET] = UNSET
    priority: Priority | Literal[Unset.UNSET] = UNSET
    confidence: float | Literal[Unset.UNSET] = UNSET
    source: Source | Literal[Unset.UNSET] | None = UNSET
    metadata: Mapping[str, Any] | Literal[Unset.UNSET] | None = UNSET
    expires_at_ms: int | Literal[Unset.UNSET] | None = UNSET


@dataclass(frozen=True, slots=True)
class Patch:
    """Fields to change. UNSET leaves a field alone; None clears it."""

    content: str | Literal[Unset.UNSET] = UNSET
    tags: tuple[str, ...] | Literal[Unset.UNSET] = UNSET
    priority: Priority | Literal[Unset.UNSET] = UNSET
    confidence: float | Literal[Unset.UNSET] | None = UNSET
    source: Source | Literal[Unset.UNSET] | None = UNSET
    metadata: Mapping[str, Any] | Literal[Unset.UNSET] | None = UNSET
    expires_at_ms: int | Literal[Unset.UNSET] | None = UNSET


@dataclass(frozen=True, slots=True)
class Filters:
    """Conditions of a search or list. Empty tuples and None put no condition."""

    kind: tuple[Kind, ...] = ()
    category: tuple[Category, ...] = ()
    tags: tuple[str, ...] = ()
    tags_match: Literal["any", "all"] = "any"
    priority: tuple[Priority, ...] = ()
    verified: bool | None = None
    author: tuple[Author, ...] = ()
    min_confidence: float | None = None
    created_after_ms: int | None = None
    created_before_ms: int | None = None
    updated_after_ms: int | None = None
    updated_before_ms: int | None = None
    include_expired: bool = False


@dataclass(frozen=True, slots=True)
class Written:
    """The outcome of one write and the memory as it stands after it."""

    outcome: Outcome
    memory: Memory


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What makes two vectors comparable. Written as `provider:model:dimensions:metric:normalisation`."""

    provider: str
    model: str
    dimensions: int
    metric: Literal["cosine"] = "cosine"
    normalisation: str = "l2"
    revision: str = field(default="")

    def __str__(self) -> str:
        model = f"{self.model}@{self.revision}" if self.revision else self.model
        return f"{self.provider}:{model}:{self.dimensions}:{self.metric}:{self.normalisation}"

    @classmethod
    def parse(cls, text: str) -> "Fingerprint":
        """The inverse of `str`: `str(Fingerprint.parse(text)) == text`. Raises ValueError.

        A model may hold colons, and begin with `@` as Workers AI's do.
        """
        provider, _, rest = text.partition(":")
        model, dimensions, metric, normalisation = rest.rsplit(":", 3)
        if metric != "cosine":
            raise ValueError(f"a fingerprint of an unknown metric: {metric}")
        name, _, revision = model.rpartition("@") if "@" in model[1:] else (model, "", "")
        return cls(provider, name, int(dimensions), "cosine", normalisation, revision)
