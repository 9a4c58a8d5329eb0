"""Rows on their way out of a store and into it: whole records with their history.

Reading is two statements a page. Writing is one batch a step, set-based from JSON arrays, and hangs
on the step's operation id: terms, events and outbox rows follow only rows that were really inserted.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from titen_core import limits
from titen_core.content import canonical_json, fold_tag
from titen_core.models import Access, Memory, MemoryEvent, Source
from titen_core.protocols import SqlDriver, Statement
from titen_core.sql.fragments import Fragment, all_of
from titen_core.sql.memories import row_identity
from titen_core.sql.predicates import not_deleted, permitted
from titen_core.sql.rows import MEMORY_COLUMNS, event, integer, memory, text
from titen_core.sql.text_index import put_texts
from titen_core.sql.vectors import enqueue

__all__ = ["Page", "Recorded", "Transfer"]

Recorded = tuple[Memory, Sequence[MemoryEvent]]
"""A memory and its whole history, oldest event first."""


@dataclass(frozen=True, slots=True)
class Page:
    """Records in order of (created_at, id). `more`: another page follows the last of them."""

    rows: tuple[Recorded, ...]
    more: bool


@dataclass(frozen=True, slots=True)
class Transfer:
    """Reads and writes whole records. Raises the driver's SqlErrors."""

    driver: SqlDriver

    async def page(self, access: Access, *, after: tuple[int, str] | None, limit: int, deleted: bool) -> Page:
        """At most `limit` records after a position, fewer once EXPORT_PAGE_EVENTS are passed, at least one.

        Events are counted and not weighed: how they are written differs between stores, and a page
        must end at the same record in each. Rows and events are read one after the other, so events of
        a change in between are left out: a record's history ends with the record's version.
        """
        found = await self.driver.query(_page(access, after, limit + 1, deleted=deleted))
        kept: list[Memory] = []
        events = 0
        for row in found[:limit]:
            if events > limits.EXPORT_PAGE_EVENTS:
                break
            kept.append(memory(row))
            events += integer(row["events"])
        histories = await self.histories(access, [row.id for row in kept])
        rows = tuple((row, _until(row.version, histories.get(row.id, ()))) for row in kept)
        return Page(rows, more=len(kept) < len(found))

    async def holds(self, access: Access, position: tuple[int, str]) -> bool:
        """Whether the caller has a record at this position, deleted ones included."""
        where = all_of((permitted(access), Fragment("m.created_at = ? AND m.id = ?", position)))
        return bool(await self.driver.query(Statement(f"SELECT 1 FROM memories AS m WHERE {where.sql}", where.params)))

    async def histories(self, access: Access, memory_ids: Sequence[str]) -> Mapping[str, Sequence[MemoryEvent]]:
        """All events of these memories, oldest first."""
        if not memory_ids:
            return {}
        where = _among(access, memory_ids)
        found: dict[str, list[MemoryEvent]] = {}
        for row in await self.driver.query(Statement(_HISTORIES.format(where=where.sql), where.params)):
            found.setdefault(text(row["memory_id"]), []).append(event(row))
        return found

    async def standing(self, access: Access, memories: Sequence[Memory]) -> list[Memory]:
        """What the caller already has under these memories' ids or identities, deleted rows included."""
        ids = json.dumps([row.id for row in memories])
        identities = json.dumps([row_identity(row) for row in memories])
        where = all_of((permitted(access), Fragment(_SAME, (ids, identities))))
        rows = await self.driver.query(
            Statement(f"SELECT {MEMORY_COLUMNS} FROM memories AS m WHERE {where.sql}", where.params)
        )
        return [memory(row) for row in rows]

    async def insert(
        self, access: Access, records: Sequence[Recorded], words: Mapping[str, str], *, op: str, now_ms: int
    ) -> set[str]:
        """Write the records as they are; answers the ids really written.

        A record whose id or identity is taken is left out whole. Ids must differ within `records`.
        `words` has the text index's words of each live one; vectors come through the outbox.
        """
        memories = [row for row, _ in records]
        ids = json.dumps([row.id for row in memories])
        mine = Fragment(
            "m.tenant_id = ? AND m.id IN (SELECT value FROM json_each(?)) AND m.op = ?", (access.tenant_id, ids, op)
        )
        written = await self.driver.batch(
            [
                Statement(_INSERT_MEMORIES, (access.tenant_id, op, _rows(memories))),
                Statement(_INSERT_EVENTS, (_events(records), access.tenant_id, op)),
                put_texts(access, words, mine),
                enqueue(all_of((mine, not_deleted())), now_ms),
            ]
        )
        return {text(row["id"]) for row in written[0]}


_SAME = """(m.id IN (SELECT value FROM json_each(?)) OR m.identity IN (SELECT value FROM json_each(?)))"""

_PAGE = f"""
SELECT {MEMORY_COLUMNS},
       (SELECT count(*) FROM memory_events AS e WHERE e.tenant_id = m.tenant_id AND e.memory_id = m.id) AS events
FROM memories AS m WHERE {{where}}
ORDER BY m.created_at, m.id LIMIT ?
"""

_HISTORIES = """
SELECT e.id, e.memory_id, e.version, e.event_type, e.actor, e.created_at, e.snapshot
FROM memories AS m JOIN memory_events AS e ON e.tenant_id = m.tenant_id AND e.memory_id = m.id
WHERE {where} ORDER BY e.memory_id, e.version
"""

_FROM_RECORD = (
    *("id", "identity", "subject_id", "agent_id", "run_id", "kind", "category", "key", "tags", "tags_folded"),
    *("priority", "author", "verified", "verified_at", "verified_by", "confidence", "confidence_given"),
    *("source_type", "source_ref", "created_at", "updated_at", "expires_at", "deleted_at"),
    *("version", "content_version", "content", "metadata"),
)

_INSERT_MEMORIES = f"""
INSERT INTO memories (tenant_id, op, op_kind, op_given, index_status, {", ".join(_FROM_RECORD)})
SELECT ?, ?, 'stored', 0, 'pending', {", ".join(f"r.value ->> '{name}'" for name in _FROM_RECORD)}
FROM json_each(?) AS r WHERE true ORDER BY r.key
ON CONFLICT DO NOTHING
RETURNING id
"""

_INSERT_EVENTS = """
INSERT INTO memory_events (tenant_id, memory_id, version, id, event_type, actor, created_at, snapshot)
SELECT m.tenant_id, m.id, r.value ->> 'version', r.value ->> 'id', r.value ->> 'event_type',
       r.value ->> 'actor', r.value ->> 'created_at', r.value -> 'snapshot'
FROM json_each(?) AS r CROSS JOIN memories AS m ON m.tenant_id = ? AND m.id = r.value ->> 'memory_id'
WHERE m.op = ? ORDER BY r.key
"""


def _page(access: Access, after: tuple[int, str] | None, limit: int, *, deleted: bool) -> Statement:
    where = permitted(access)
    if not deleted:
        where = all_of((where, not_deleted()))
    if after is not None:
        where = all_of((where, Fragment("(m.created_at, m.id) > (?, ?)", after)))
    return Statement(_PAGE.format(where=where.sql), (*where.params, limit))


def _until(version: int, events: Sequence[MemoryEvent]) -> Sequence[MemoryEvent]:
    return [noted for noted in events if noted.version <= version]


def _among(access: Access, memory_ids: Iterable[str]) -> Fragment:
    ids = json.dumps(list(memory_ids))
    return all_of((permitted(access), Fragment("m.id IN (SELECT value FROM json_each(?))", (ids,))))


def _rows(memories: Sequence[Memory]) -> str:
    return canonical_json([_row(row) for row in memories])


def _row(row: Memory) -> dict[str, Any]:
    source = row.source or Source()
    return {
        "id": row.id,
        "identity": row_identity(row),
        "subject_id": row.subject_id,
        "agent_id": row.agent_id,
        "run_id": row.run_id,
        "kind": row.kind,
        "category": row.category,
        "key": row.key,
        "tags": canonical_json(row.tags),
        "tags_folded": canonical_json([fold_tag(tag) for tag in row.tags]),
        "priority": row.priority,
        "author": row.author,
        "verified": row.verified,
        "verified_at": row.verified_at_ms,
        "verified_by": row.verified_by,
        "confidence": row.confidence,
        "confidence_given": row.confidence_given,
        "source_type": source.type,
        "source_ref": source.ref,
        "created_at": row.created_at_ms,
        "updated_at": row.updated_at_ms,
        "expires_at": row.expires_at_ms,
        "deleted_at": row.deleted_at_ms,
        "version": row.version,
        "content_version": row.content_version,
        "content": row.content,
        "metadata": canonical_json(row.metadata),
    }


def _events(records: Sequence[Recorded]) -> str:
    return canonical_json(
        [
            {
                "memory_id": row.id,
                "id": noted.id,
                "version": noted.version,
                "event_type": noted.event_type,
                "actor": noted.actor,
                "created_at": noted.created_at_ms,
                "snapshot": noted.snapshot,
            }
            for row, events in records
            for noted in events
        ]
    )
