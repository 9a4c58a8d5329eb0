"""Rows for tests that use the real schema: one tenant or several, few fields that matter."""

import random
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from titen_core.models import Access, Actor, PrincipalKind
from titen_core.protocols import Statement, Vector

MIGRATION = Path(__file__).parents[2] / "migrations" / "0001_init.sql"
NOW_MS = 1_000_000

_DEFAULTS: dict[str, Any] = {
    "subject_id": "ada",
    "agent_id": None,
    "kind": "semantic",
    "priority": "normal",
    "author": "agent",
    "verified": 0,
    "confidence": 0.5,
    "confidence_given": 0,
    "created_at": 1,
    "updated_at": 1,
    "expires_at": None,
    "deleted_at": None,
    "version": 1,
    "content_version": 1,
    "index_status": "ready",
    "op": "o",
    "op_kind": "stored",
    "op_given": 0,
    "content": "text",
}


def access(tenant_id: str = "t1", subject_id: str | None = None) -> Access:
    return Access(tenant_id, 1, subject_id, Actor("tester", PrincipalKind.AGENT), "key")


def tenant(tenant_id: str) -> Statement:
    return Statement("INSERT INTO tenants (id, name, created_at) VALUES (?, ?, 0)", (tenant_id, tenant_id))


def memory(tenant_id: str, number: int, **fields: Any) -> Statement:
    row = {**_DEFAULTS, **fields, "tenant_id": tenant_id, "id": f"m{number}", "identity": f"i{number}"}
    return Statement(
        f"INSERT INTO memories ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", tuple(row.values())
    )


def rows_of(tenant_id: str, number: int) -> Statement:
    return Statement("SELECT seq FROM memories WHERE tenant_id = ? AND id = ?", (tenant_id, f"m{number}"))


def unit(values: Sequence[float]) -> Vector:
    length = sum(value * value for value in values) ** 0.5
    return array("f", [value / length for value in values])


def cone(dimensions: int, count: int, seed: int) -> list[Vector]:
    """Clustered vectors in a narrow cone, as embedding models give them: cosines of .6 to .95."""
    rng = random.Random(seed)
    axis = [rng.gauss(0, 1) for _ in range(dimensions)]
    centres = [[rng.gauss(0, 0.6) for _ in range(dimensions)] for _ in range(12)]
    vectors = []
    for _ in range(count):
        centre, spread = rng.choice(centres), rng.uniform(0.2, 0.5)
        noise = [rng.gauss(0, spread) for _ in range(dimensions)]
        vectors.append(unit([a + c + n for a, c, n in zip(axis, centre, noise, strict=True)]))
    return vectors


def cosine(left: Vector, right: Vector) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))
