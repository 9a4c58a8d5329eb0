"""Records as JSON values: the shapes that `schemas` documents, built without validating again."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from titen_core.models import (
    ApiKey,
    IndexStatus,
    Memory,
    MemoryEvent,
    Outcome,
    Principal,
    PrincipalKind,
    Scope,
    Source,
    Written,
)
from titen_core.ranking import Score
from titen_core.recall import Channels, Found
from titen_core.times import iso_time

__all__ = [
    "channels_view",
    "event_view",
    "item_view",
    "key_view",
    "memory_view",
    "principal_view",
    "scope_view",
    "synapse_view",
    "written_view",
]


def memory_view(row: Memory) -> dict[str, Any]:
    """A memory; a deleted one (only a replayed request shows it) without its content."""
    shown = row.deleted_at_ms is None
    return {
        "id": row.id,
        "subject_id": row.subject_id,
        "agent_id": row.agent_id,
        "run_id": row.run_id,
        "kind": row.kind,
        "category": row.category,
        "key": row.key,
        "content": row.content if shown else None,
        "tags": list(row.tags) if shown else [],
        "priority": row.priority,
        "author": row.author,
        "verified": row.verified,
        "verified_at": row.verified_at_ms,
        "verified_by": row.verified_by,
        "confidence": row.confidence,
        "source": _source(row.source) if shown else None,
        "metadata": dict(row.metadata) if shown else {},
        "version": row.version,
        "index_status": row.index_status,
        "created_at": row.created_at_ms,
        "updated_at": row.updated_at_ms,
        "expires_at": row.expires_at_ms,
        "deleted_at": row.deleted_at_ms,
    }


def written_view(written: Written) -> dict[str, Any]:
    """The outcome of a write first, then the memory as it stands."""
    row = written.memory
    ready = row.index_status is IndexStatus.READY
    outcome: Outcome = written.outcome
    return {"id": row.id, "version": row.version, "status": outcome, "semantic_ready": ready, **memory_view(row)}


def item_view(found: Found) -> dict[str, Any]:
    """One recalled memory with its score; never its embedding."""
    view = memory_view(found.memory)
    for name in ("verified_at", "verified_by", "deleted_at"):
        del view[name]
    return {**view, "score": _score(found.score)}


def event_view(event: MemoryEvent) -> dict[str, Any]:
    """One history row."""
    return {
        "id": event.id,
        "memory_id": event.memory_id,
        "version": event.version,
        "event_type": event.event_type,
        "snapshot": dict(event.snapshot),
        "actor": event.actor,
        "created_at": event.created_at_ms,
    }


def key_view(key: ApiKey) -> dict[str, Any]:
    """A key without its secret."""
    return {
        "id": key.id,
        "principal": key.principal,
        "kind": key.kind,
        "role": key.role,
        "subject_id": key.subject_id,
        "label": key.label,
        "created_at": key.created_at_ms,
        "expires_at": key.expires_at_ms,
        "revoked_at": key.revoked_at_ms,
    }


def principal_view(principal: Principal) -> dict[str, Any]:
    """Who the caller's key is."""
    return {
        "tenant_id": principal.tenant_id,
        "principal": principal.name,
        "kind": principal.kind,
        "role": principal.role,
        "key_id": principal.key_id,
        "subject_id": principal.subject_id,
        "expires_at": principal.expires_at_ms,
    }


def scope_view(scope: Scope) -> dict[str, Any]:
    """The scope that was really searched; null means every one of the tenant."""
    return dataclasses.asdict(scope)


def channels_view(channels: Channels) -> Mapping[str, Any]:
    """How the channels answered, and what that means for the caller."""
    return {
        "channels": {"vector": channels.vector, "text": channels.text, "overlay": channels.overlay},
        "degraded": {"semantic": channels.vector == "degraded", "lexical": channels.text == "degraded"},
    }


def synapse_view(row: Memory) -> dict[str, Any]:
    """A memory in Synapse's anatomy: its source is who wrote it, its mind the subject, its times are text."""
    shown = row.deleted_at_ms is None
    return {
        "id": row.id,
        "category": row.category,
        "key": row.key,
        "content": row.content if shown else None,
        "tags": list(row.tags) if shown else [],
        "priority": row.priority,
        "source": "user" if row.author is PrincipalKind.HUMAN else "agent",
        "verified": row.verified,
        "confidence": row.confidence,
        "expires_at": None if row.expires_at_ms is None else iso_time(row.expires_at_ms),
        "mind_id": row.subject_id,
        "created_at": iso_time(row.created_at_ms),
        "updated_at": iso_time(row.updated_at_ms),
    }


def _score(score: Score) -> dict[str, Any]:
    """Field by field: `dataclasses.asdict` copies deeply, which costs ten times as much."""
    return {
        "vector_rank": score.vector_rank,
        "text_rank": score.text_rank,
        "overlay_rank": score.overlay_rank,
        "rrf_score": score.rrf_score,
        "similarity": score.similarity,
    }


def _source(source: Source | None) -> dict[str, Any] | None:
    return None if source is None else {"type": source.type, "ref": source.ref}
