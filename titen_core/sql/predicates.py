"""Who may see which row, as SQL: the one place where an `Access` becomes a WHERE clause.

Every statement on tenant data takes its condition from here, over the alias `m` of `memories`.
"""

import json
from collections.abc import Iterable, Iterator, Sequence

from titen_core.content import fold_tag
from titen_core.models import Access, Filters, Scope
from titen_core.sql.fragments import Fragment, all_of

__all__ = ["live", "matching", "not_deleted", "permitted", "readable"]


def permitted(access: Access) -> Fragment:
    """Rows of the caller's tenant and, where the key is locked, of its subject."""
    tenant = Fragment("m.tenant_id = ?", (access.tenant_id,))
    if access.subject_id is None:
        return tenant
    return all_of((tenant, Fragment("m.subject_id = ?", (access.subject_id,))))


def not_deleted() -> Fragment:
    """Rows that were not deleted, expired ones included."""
    return Fragment("m.deleted_at IS NULL")


def live(now_ms: int) -> Fragment:
    """Rows that recall may show at this moment: neither deleted nor expired."""
    return Fragment("m.deleted_at IS NULL AND (m.expires_at IS NULL OR m.expires_at > ?)", (now_ms,))


def matching(scope: Scope, filters: Filters) -> list[Fragment]:
    """The caller's own narrowing, one fragment a condition; expiry is `live`'s business."""
    return [*_scope_conditions(scope), *_filter_conditions(filters)]


def readable(access: Access, scope: Scope, filters: Filters, now_ms: int) -> Fragment:
    """Everything a read must satisfy: permission, life, scope and filters."""
    alive = not_deleted() if filters.include_expired else live(now_ms)
    return all_of((permitted(access), alive, *matching(scope, filters)))


def _scope_conditions(scope: Scope) -> Iterator[Fragment]:
    for column, value in (
        ("subject_id", scope.subject_id),
        ("agent_id", scope.agent_id),
        ("run_id", scope.run_id),
    ):
        if value is not None:
            yield Fragment(f"m.{column} = ?", (value,))


def _filter_conditions(filters: Filters) -> Iterator[Fragment]:
    yield from _one_of("kind", filters.kind)
    yield from _one_of("category", filters.category)
    yield from _one_of("priority", filters.priority)
    yield from _one_of("author", filters.author)
    if filters.verified is not None:
        yield Fragment("m.verified = ?", (int(filters.verified),))
    if filters.min_confidence is not None:
        yield Fragment("m.confidence >= ?", (filters.min_confidence,))
    yield from _tag_conditions(filters)
    yield from _between("created_at", filters.created_after_ms, filters.created_before_ms)
    yield from _between("updated_at", filters.updated_after_ms, filters.updated_before_ms)


def _one_of(column: str, values: Sequence[str]) -> Iterator[Fragment]:
    if values:
        yield Fragment(f"m.{column} IN (SELECT value FROM json_each(?))", (_json(values),))


def _tag_conditions(filters: Filters) -> Iterator[Fragment]:
    folded = sorted({fold_tag(tag) for tag in filters.tags})
    groups = [[tag] for tag in folded] if filters.tags_match == "all" else [folded]
    for group in groups if folded else ():
        yield Fragment(
            "EXISTS (SELECT 1 FROM json_each(m.tags_folded) AS t WHERE t.value IN (SELECT value FROM json_each(?)))",
            (_json(group),),
        )


def _between(column: str, after_ms: int | None, before_ms: int | None) -> Iterator[Fragment]:
    if after_ms is not None:
        yield Fragment(f"m.{column} > ?", (after_ms,))
    if before_ms is not None:
        yield Fragment(f"m.{column} < ?", (before_ms,))


def _json(values: Iterable[str]) -> str:
    return json.dumps(list(values), ensure_ascii=False)
