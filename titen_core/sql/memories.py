"""The canonical rows: reading them under an access, changing them in guarded batches.

Every mutation writes a fresh operation id into its row; whatever follows in the batch selects the
row by that id, so an operation that lost a race leaves no trace: no event, no term, no vector.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from titen_core.content import canonical_json, fold_tag, identity
from titen_core.models import (
    UNSET,
    Access,
    Actor,
    Draft,
    Filters,
    Kind,
    Memory,
    MemoryEvent,
    Outcome,
    PrincipalKind,
    Priority,
    Scope,
    Source,
    Unset,
    Written,
)
from titen_core.protocols import Row, SqlDriver, Statement
from titen_core.sql.fragments import Fragment, all_of
from titen_core.sql.predicates import live, matching, not_deleted, permitted, readable
from titen_core.sql.rows import MEMORY_COLUMNS, SNAPSHOT, event, integer, memory, text
from titen_core.sql.text_index import put_text, remove_text
from titen_core.sql.vectors import enqueue

__all__ = ["Change", "Entry", "Extra", "Hydrated", "MemoryRows", "default_confidence", "draft_identity", "row_identity"]

T = TypeVar("T")

Extra = Callable[[Fragment], Sequence[Statement]]
"""More statements for the same batch, given the condition that selects the rows it wrote."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One draft to remember: under this id if it is new, by this operation, with more in the same batch."""

    draft: Draft
    memory_id: str
    op: str
    more: Extra


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one row: the new value, to be written only over the version it was made from."""

    before: Memory
    after: Memory
    outcome: Outcome

    @property
    def words_changed(self) -> bool:
        """Whether the text index has to be written again."""
        before, after = self.before, self.after
        return (before.content, before.tags, before.deleted_at_ms) != (
            after.content,
            after.tags,
            after.deleted_at_ms,
        )


@dataclass(frozen=True, slots=True)
class Hydrated:
    """A row behind an index hit, read further only if it is shown: most candidates are not."""

    row: Row

    @property
    def content_version(self) -> int:
        return integer(self.row["content_version"])

    def memory(self) -> Memory:
        return memory(self.row)


@dataclass(frozen=True, slots=True)
class MemoryRows:
    """Reads and writes `memories` and `memory_events`. Raises the driver's SqlErrors."""

    driver: SqlDriver

    # Reading

    async def get(self, access: Access, memory_id: str, *, deleted: bool = False) -> Memory | None:
        """One memory by id, expired ones included, deleted ones only if asked for."""
        where = all_of((permitted(access), Fragment("m.id = ?", (memory_id,))))
        if not deleted:
            where = all_of((where, not_deleted()))
        rows = await self.driver.query(Statement(_SELECT.format(where=where.sql), where.params))
        return memory(rows[0]) if rows else None

    async def find(self, access: Access, identity_hash: str) -> Memory | None:
        """The memory that holds an identity, deleted ones included."""
        where = all_of((permitted(access), Fragment("m.identity = ?", (identity_hash,))))
        rows = await self.driver.query(Statement(_SELECT.format(where=where.sql), where.params))
        return memory(rows[0]) if rows else None

    async def hydrate(
        self, access: Access, scope: Scope, filters: Filters, seqs: Sequence[int], now_ms: int
    ) -> dict[int, Hydrated]:
        """The rows behind index hits, by seq: only those the caller may see now and asked for."""
        where = all_of(
            (
                Fragment("m.seq IN (SELECT value FROM json_each(?))", (json.dumps(list(seqs)),)),
                readable(access, scope, filters, now_ms),
            )
        )
        rows = await self.driver.query(Statement(_SELECT.format(where=where.sql), where.params))
        return {integer(row["seq"]): Hydrated(row) for row in rows}

    async def page(
        self,
        access: Access,
        scope: Scope,
        filters: Filters,
        *,
        limit: int,
        before: tuple[int, str] | None,
        now_ms: int,
    ) -> list[Memory]:
        """Newest first, at most `limit`, continuing after the position (created_at_ms, id)."""
        where = readable(access, scope, filters, now_ms)
        if before is not None:
            where = all_of((where, Fragment("(m.created_at, m.id) < (?, ?)", before)))
        sql = f"{_SELECT.format(where=where.sql)} ORDER BY m.created_at DESC, m.id DESC LIMIT ?"
        return [memory(row) for row in await self.driver.query(Statement(sql, (*where.params, limit)))]

    async def expiring(self, access: Access, scope: Scope, *, until_ms: int, limit: int, now_ms: int) -> list[Memory]:
        """Live memories that expire before `until_ms`, soonest first."""
        where = all_of(
            (
                permitted(access),
                live(now_ms),
                *matching(scope, Filters()),
                Fragment("m.expires_at IS NOT NULL AND m.expires_at <= ?", (until_ms,)),
            )
        )
        sql = f"{_SELECT.format(where=where.sql)} ORDER BY m.expires_at, m.id LIMIT ?"
        return [memory(row) for row in await self.driver.query(Statement(sql, (*where.params, limit)))]

    async def tag_counts(self, access: Access, scope: Scope, *, limit: int, now_ms: int) -> list[tuple[str, int]]:
        """Tags of live memories with how many carry each, most used first; case is folded."""
        where = readable(access, scope, Filters(), now_ms)
        sql = f"""SELECT min(t.value) AS tag, count(*) AS uses
                  FROM memories AS m, json_each(m.tags_folded) AS t
                  WHERE {where.sql} GROUP BY t.value ORDER BY uses DESC, tag LIMIT ?"""
        rows = await self.driver.query(Statement(sql, (*where.params, limit)))
        return [(text(row["tag"]), integer(row["uses"])) for row in rows]

    async def history(self, access: Access, memory_id: str, *, after_version: int, limit: int) -> list[MemoryEvent]:
        """Events of one memory, oldest first, after a version."""
        where = all_of((permitted(access), Fragment("m.id = ?", (memory_id,))))
        sql = f"""SELECT e.id, e.memory_id, e.version, e.event_type, e.actor, e.created_at, e.snapshot
                  FROM memories AS m
                  JOIN memory_events AS e ON e.tenant_id = m.tenant_id AND e.memory_id = m.id
                  WHERE {where.sql} AND e.version > ? ORDER BY e.version LIMIT ?"""
        rows = await self.driver.query(Statement(sql, (*where.params, after_version, limit)))
        return [event(row) for row in rows]

    # Writing

    async def remember(self, access: Access, entries: Sequence[Entry], now_ms: int) -> list[Written]:
        """Create each draft's identity, or update or restore what holds it; all in one atomic batch.

        Two equal drafts at once make one row: the unique index decides, not a look-up.
        """
        batch: list[Statement] = []
        outcomes: list[int] = []
        for entry in entries:
            batch += _remembering(access, entry, now_ms)
            outcomes.append(len(batch) - 1)
        answers = await self.driver.batch(batch)
        rows = [answers[position][0] for position in outcomes]
        return [Written(Outcome(text(row["outcome"])), memory(row)) for row in rows]

    async def swap(self, access: Access, change: Change, *, op: str, now_ms: int, extra: Extra) -> Written | None:
        """Write `change.after` if the row still is what `change.before` says; None if it is not.

        Raises SqlConstraint when another row holds the identity of the new content.
        """
        row = Fragment("m.tenant_id = ? AND m.id = ?", (access.tenant_id, change.before.id))
        mine = all_of((row, Fragment("m.op = ?", (op,))))
        reindexed = Fragment("(m.content_version = m.version OR m.op_kind IN ('restored', 'deleted'))")
        batch = [
            _replace(access, change, op),
            *_text_changes(access, change, mine),
            _append_event(access.actor, op, mine),
            enqueue(all_of((mine, reindexed)), now_ms),
            *extra(mine),
            _outcome(row, op),
        ]
        rows = (await self.driver.batch(batch))[-1]
        if not rows or text(rows[0]["outcome"]) == Outcome.UNCHANGED:
            return None
        return Written(change.outcome, memory(rows[0]))


def _remembering(access: Access, entry: Entry, now_ms: int) -> list[Statement]:
    """Row, terms, event, outbox and what the caller adds; the last statement tells the outcome."""
    draft, op = entry.draft, entry.op
    holds = Fragment("m.tenant_id = ? AND m.identity = ?", (access.tenant_id, draft_identity(draft)))
    mine = all_of((holds, Fragment("m.op = ?", (op,))))
    revived = all_of((mine, Fragment("(m.content_version = m.version OR m.op_kind = 'restored')")))
    return [
        _upsert(access, draft, entry.memory_id, op, now_ms),
        *put_text(access.tenant_num, draft.content, mine),
        _append_event(access.actor, op, mine),
        enqueue(revived, now_ms),
        *entry.more(mine),
        _outcome(holds, op),
    ]


def draft_identity(draft: Draft) -> str:
    """The identity a draft asks for, defaults applied."""
    return identity(
        subject_id=draft.subject_id,
        agent_id=_given(draft.agent_id),
        run_id=_given(draft.run_id),
        kind=_given(draft.kind) or Kind.SEMANTIC,
        category=_given(draft.category),
        key=draft.key,
        content=draft.content,
        source=_given(draft.source),
    )


def row_identity(row: Memory) -> str:
    """The identity a row holds."""
    return identity(
        subject_id=row.subject_id,
        agent_id=row.agent_id,
        run_id=row.run_id,
        kind=row.kind,
        category=row.category,
        key=row.key,
        content=row.content,
        source=row.source,
    )


_SELECT = f"SELECT {MEMORY_COLUMNS} FROM memories AS m WHERE {{where}}"


# The upsert. `op_given` tells the conflict branch which optional fields the caller named.

_OPTIONAL = (
    *("agent_id", "run_id", "kind", "category", "tags", "priority", "confidence"),
    *("source", "metadata", "expires_at"),
)
_BIT = {name: 1 << position for position, name in enumerate(_OPTIONAL)}

_GONE = "(memories.deleted_at IS NOT NULL OR ifnull(memories.expires_at <= excluded.updated_at, 0))"
_REWRITTEN = "(excluded.content IS NOT memories.content)"


def _kept(column: str, name: str) -> str:
    return f"{column} = iif(excluded.op_given & {_BIT[name]}, excluded.{column}, memories.{column})"


def _differs(column: str, name: str) -> str:
    return f"(excluded.op_given & {_BIT[name]} AND excluded.{column} IS NOT memories.{column})"


def _if_rewritten(column: str) -> str:
    return f"{column} = iif({_REWRITTEN}, excluded.{column}, memories.{column})"


_COLUMN_OF = {
    **{name: (name,) for name in _OPTIONAL},
    "tags": ("tags", "tags_folded"),
    "source": ("source_type", "source_ref"),
}
_KEPT = [
    _kept(column, name) for name in _OPTIONAL if name not in {"confidence", "expires_at"} for column in _COLUMN_OF[name]
]

_DIFFERENCES = [_differs(column, name) for name in _OPTIONAL for column in _COLUMN_OF[name]]

_UPSERT = f"""
INSERT INTO memories (
  tenant_id, id, identity, subject_id, agent_id, run_id, kind, category, key, tags, tags_folded, priority,
  author, verified, verified_at, verified_by, confidence, confidence_given, source_type, source_ref,
  created_at, updated_at, expires_at, version, content_version, index_status, op, op_kind, op_given,
  content, metadata)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, 1, 'pending', ?, 'stored', ?, ?, ?)
ON CONFLICT (tenant_id, identity) DO UPDATE SET
  {", ".join(_KEPT)},
  content = excluded.content,
  {_if_rewritten("author")}, {_if_rewritten("verified")},
  {_if_rewritten("verified_at")}, {_if_rewritten("verified_by")},
  confidence = iif(excluded.op_given & {_BIT["confidence"]} OR ({_REWRITTEN} AND NOT memories.confidence_given),
                   excluded.confidence, memories.confidence),
  confidence_given = iif(excluded.op_given & {_BIT["confidence"]}, 1, memories.confidence_given),
  expires_at = iif(excluded.op_given & {_BIT["expires_at"]} OR {_GONE}, excluded.expires_at, memories.expires_at),
  deleted_at = NULL,
  updated_at = max(excluded.updated_at, memories.updated_at),
  version = memories.version + 1,
  content_version = iif({_REWRITTEN}, memories.version + 1, memories.content_version),
  index_status = iif({_REWRITTEN} OR {_GONE}, 'pending', memories.index_status),
  op = excluded.op, op_given = excluded.op_given,
  op_kind = iif({_GONE}, 'restored', 'updated')
WHERE {_GONE} OR {_REWRITTEN}
   OR {" OR ".join(_DIFFERENCES)}
"""


def _upsert(access: Access, draft: Draft, memory_id: str, op: str, now_ms: int) -> Statement:
    tags = _given(draft.tags) or ()
    human = access.actor.kind is PrincipalKind.HUMAN
    confidence = _given(draft.confidence)
    source = _given(draft.source) or Source()
    return Statement(
        _UPSERT,
        (
            *(access.tenant_id, memory_id, draft_identity(draft), draft.subject_id),
            *(_given(draft.agent_id), _given(draft.run_id), _given(draft.kind) or Kind.SEMANTIC),
            *(
                _given(draft.category),
                draft.key,
                *_tag_columns(tags),
                _given(draft.priority) or Priority.NORMAL,
            ),
            *(access.actor.kind, int(human), now_ms if human else None, access.actor.name if human else None),
            default_confidence(access.actor.kind) if confidence is None else confidence,
            int(confidence is not None),
            *(source.type, source.ref, now_ms, now_ms, _given(draft.expires_at_ms)),
            *(op, _given_bits(draft), draft.content, canonical_json(_given(draft.metadata) or {})),
        ),
    )


def default_confidence(author: PrincipalKind) -> float:
    """1.0 for what a human wrote, 0.7 for what an agent or service inferred."""
    return 1.0 if author is PrincipalKind.HUMAN else 0.7


def _given_bits(draft: Draft) -> int:
    values = {name: getattr(draft, name, UNSET) for name in _OPTIONAL}
    values["expires_at"] = draft.expires_at_ms
    return sum(_BIT[name] for name, value in values.items() if value is not UNSET)


def _given(value: T | Literal[Unset.UNSET] | None) -> T | None:
    return None if value is UNSET else value


def _tag_columns(tags: Sequence[str]) -> tuple[str, str]:
    folded = [fold_tag(tag) for tag in tags]
    return json.dumps(list(tags), ensure_ascii=False), json.dumps(folded, ensure_ascii=False)


# The swap of a whole row.

_REPLACE = """
UPDATE memories AS m SET
  identity = ?, tags = ?, tags_folded = ?, priority = ?, author = ?, verified = ?, verified_at = ?,
  verified_by = ?, confidence = ?, confidence_given = ?, source_type = ?,
  source_ref = ?, updated_at = ?, expires_at = ?, deleted_at = ?, version = ?, content_version = ?,
  index_status = ?, op = ?, op_kind = ?, op_given = 0, content = ?, metadata = ?
WHERE m.tenant_id = ? AND m.id = ? AND m.version = ?
"""


def _replace(access: Access, change: Change, op: str) -> Statement:
    after = change.after
    source = after.source or Source()
    return Statement(
        _REPLACE,
        (
            *(row_identity(after), *_tag_columns(after.tags), after.priority),
            *(after.author, int(after.verified), after.verified_at_ms, after.verified_by),
            *(after.confidence, int(after.confidence_given), source.type, source.ref),
            *(after.updated_at_ms, after.expires_at_ms, after.deleted_at_ms, after.version),
            *(after.content_version, after.index_status, op, change.outcome),
            *(after.content, canonical_json(after.metadata)),
            *(access.tenant_id, after.id, change.before.version),
        ),
    )


def _text_changes(access: Access, change: Change, mine: Fragment) -> list[Statement]:
    if not change.words_changed:
        return []
    if change.after.deleted_at_ms is not None:
        return remove_text(mine)
    return put_text(access.tenant_num, change.after.content, mine)


# What every mutation ends with.

_APPEND_EVENT = f"""
INSERT INTO memory_events (tenant_id, memory_id, version, id, event_type, actor, created_at, snapshot)
SELECT m.tenant_id, m.id, m.version, ?,
       CASE m.op_kind WHEN 'stored' THEN 'add' WHEN 'updated' THEN 'update' WHEN 'deleted' THEN 'delete'
                      WHEN 'restored' THEN 'restore' ELSE 'verify' END,
       ?, m.updated_at, {SNAPSHOT}
FROM memories AS m WHERE {{where}}
"""


def _append_event(actor: Actor, event_id: str, mine: Fragment) -> Statement:
    return Statement(_APPEND_EVENT.format(where=mine.sql), (event_id, actor.name, *mine.params))


def _outcome(row: Fragment, op: str) -> Statement:
    return Statement(
        f"SELECT {MEMORY_COLUMNS}, iif(m.op = ?, m.op_kind, 'unchanged') AS outcome FROM memories AS m WHERE {row.sql}",
        (op, *row.params),
    )
