"""Full-text search: which rows hold the rarest words of a query, inside one tenant.

The index is one contentless FTS5 table of terms. Every term begins with its tenant (`t7`), so
another tenant's rows neither cost time nor shift a score, and one letter tells what it is:

    t7a            every row of tenant 7          t7k<kind>  t7c<category>
    t7x<word>      a word of the content          t7s t7g t7r t7t<hex>  subject, agent, run, tag

A query asks for each of its words by itself, intersected with the scope terms, and adds up the
weights of the words a row holds. Weights are inverse document frequencies (the BM25 form,
Robertson & Sparck Jones 1976) from the tenant's own counts in `fts5vocab`, in thousandths, so that
sums are exact integers. FTS5's own bm25() counts every tenant's rows and is not used.

A sentence is dominated by its common words. The posting budget keeps the rarest words first until
their postings reach a fifth of the tenant's rows (at least 2,000).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from titen_core import limits
from titen_core.content import fold_tag
from titen_core.models import Access, Filters, Scope
from titen_core.protocols import Row, SqlDriver, Statement
from titen_core.sql.fragments import Fragment
from titen_core.sql.predicates import readable
from titen_core.sql.rows import integer, text
from titen_core.text import QueryTerm, index_terms

__all__ = [
    "CREATE_INDEX",
    "TextAnswer",
    "TextHit",
    "TextIndex",
    "count_stray_text",
    "count_terms",
    "put_text",
    "put_texts",
    "remove_text",
    "text_words",
]

_CREATE_TEXT = """
CREATE VIRTUAL TABLE IF NOT EXISTS memory_text
USING fts5(terms, content='', contentless_delete=1, detail=none, tokenize='ascii')
"""
_CREATE_VOCAB = "CREATE VIRTUAL TABLE IF NOT EXISTS memory_vocab USING fts5vocab(memory_text, 'row')"
CREATE_INDEX = (_CREATE_TEXT, _CREATE_VOCAB)

_SCOPE_TERMS = """
  ' {p}a {p}s' || hex(m.subject_id) || ' {p}k' || m.kind
  || ifnull(' {p}g' || hex(m.agent_id), '') || ifnull(' {p}r' || hex(m.run_id), '')
  || ifnull(' {p}c' || m.category, '')
  || ifnull((SELECT group_concat(' {p}t' || hex(t.value), '') FROM json_each(m.tags_folded) AS t), '')
"""

_SEARCH = """
WITH
  tenant_size(rows) AS (SELECT ifnull(max(v.doc), 0) FROM memory_vocab AS v WHERE v.term = ?),
  scope_size(rows) AS (SELECT ifnull(max(v.doc), 0) FROM memory_vocab AS v WHERE v.term = ?),
  wanted AS MATERIALIZED (
    SELECT q.key AS bit, q.value ->> 0 AS term, q.value ->> 1 AS exact,
           ifnull((SELECT v.doc FROM memory_vocab AS v WHERE v.term = q.value ->> 0), 0) AS docs
    FROM json_each(?) AS q),
  weighed AS MATERIALIZED (
    SELECT bit, term, docs, rows,
           CAST(round(1000 * ln(1 + (rows - docs + 0.5) / (docs + 0.5))) AS INTEGER) AS weight,
           sum(docs) OVER (ORDER BY exact DESC, docs, bit) - docs AS postings_before
    FROM wanted, tenant_size),
  kept AS MATERIALIZED (
    SELECT bit, term, weight FROM weighed, scope_size
    WHERE docs > 0 AND (? OR scope_size.rows <= max(?, weighed.rows / ?)
                        OR postings_before < max(?, weighed.rows / ?))),
  hits AS MATERIALIZED (
    SELECT t.rowid AS seq, sum(k.weight) AS weight, sum(1 << k.bit) AS bits
    FROM kept AS k CROSS JOIN memory_text AS t ON t.memory_text MATCH '"' || k.term || '"' || ?
    GROUP BY t.rowid ORDER BY weight DESC, t.rowid LIMIT ?)
SELECT h.seq, h.weight, h.bits,
       (SELECT sum(weight) FROM weighed) AS total,
       (SELECT count(*) FROM hits) AS pool,
       (SELECT count(*) FROM weighed WHERE docs > 0) - (SELECT count(*) FROM kept) AS dropped
FROM hits AS h CROSS JOIN memories AS m ON m.seq = h.seq
WHERE {readable}
ORDER BY h.weight DESC, h.seq LIMIT ?
"""


@dataclass(frozen=True, slots=True)
class TextHit:
    """A row and the query terms it holds: bit i of `bits` is term i. Weights are in thousandths."""

    seq: int
    weight: int
    bits: int


@dataclass(frozen=True, slots=True)
class TextAnswer:
    """Hits best first, and the weight of the whole query, unknown words included."""

    hits: tuple[TextHit, ...]
    total_weight: int


@dataclass(frozen=True, slots=True)
class TextIndex:
    """Searches and heals the index. Raises SqlError where the index is broken."""

    driver: SqlDriver

    async def search(
        self, access: Access, scope: Scope, filters: Filters, terms: Sequence[QueryTerm], k: int, now_ms: int
    ) -> TextAnswer:
        """The `k` rows that hold the most weight, under access, scope and filters. Two queries at most.

        The second runs when the first may have cut off a row: the pool of best matches was full, or
        the budget left out a word, and fewer than `k` rows remained.
        """
        answer, _ = await self.search_with(None, access, scope, filters, terms, k, now_ms)
        return answer

    async def search_with(
        self,
        companion: Statement | None,
        access: Access,
        scope: Scope,
        filters: Filters,
        terms: Sequence[QueryTerm],
        k: int,
        now_ms: int,
    ) -> tuple[TextAnswer, list[Row]]:
        """`search`, with another reading statement in the same round trip, and that one's rows."""
        if not terms:
            return TextAnswer((), 0), await self._read(companion)
        exhaustive = _has_conditions_without_term(filters)
        statement = _search(access, scope, filters, terms, k, now_ms, exhaustive=exhaustive)
        if companion is None:
            rows, others = await self.driver.query(statement), []
        else:
            rows, others = await self.driver.batch([statement, companion])
        if len(rows) < k and not exhaustive and _may_have_cut(rows):
            rows = await self.driver.query(_search(access, scope, filters, terms, k, now_ms, exhaustive=True))
        return _answer(rows), others

    async def _read(self, statement: Statement | None) -> list[Row]:
        return [] if statement is None else await self.driver.query(statement)

    async def check(self) -> None:
        """Raises SqlError when the index cannot be read."""
        await self.driver.query(Statement("SELECT v.doc FROM memory_vocab AS v WHERE v.term = 't0a'"))
        await self.driver.query(Statement("SELECT rowid FROM memory_text WHERE memory_text MATCH '\"t0a\"'"))

    async def recreate(self) -> None:
        """Drop a broken index and note that it must be filled again. Text search is empty until then."""
        await self.driver.batch(
            [
                Statement("DROP TABLE IF EXISTS memory_vocab"),
                Statement("DROP TABLE IF EXISTS memory_text"),
                *(Statement(sql) for sql in CREATE_INDEX),
                Statement("INSERT OR REPLACE INTO titen_meta (key, value) VALUES ('text_refill', '0')"),
            ]
        )

    async def refill_step(self) -> bool:
        """Fill in the next rows after `recreate`; True while there is more to do. Resumable.

        The note moves on only from where it was read: another process may have made the index anew.
        """
        noted = await self.driver.query(Statement("SELECT value FROM titen_meta WHERE key = 'text_refill'"))
        if not noted:
            return False
        after = text(noted[0]["value"])
        rows = await self.driver.query(Statement(_NEXT_ROWS, (int(after), limits.DRAIN_ITEMS)))
        if not rows:
            await self.driver.batch([Statement(_REFILLED, (after,))])
            return await self.is_refilling()
        await self.driver.batch([*_refill(rows), Statement(_REFILLED_TO, (text(rows[-1]["seq"]), after))])
        return True

    async def is_refilling(self) -> bool:
        """Whether rows are still missing from the index."""
        return bool(await self.driver.query(Statement("SELECT 1 FROM titen_meta WHERE key = 'text_refill'")))


def put_text(tenant_num: int, content: str, where: Fragment) -> list[Statement]:
    """Index the live rows of `memories AS m` that `where` selects under this content's words."""
    words = text_words(tenant_num, content)
    scope_terms = _SCOPE_TERMS.format(p=f"t{int(tenant_num)}")
    return [
        *remove_text(where),
        Statement(
            f"INSERT INTO memory_text (rowid, terms) SELECT m.seq, ? || {scope_terms}"
            f" FROM memories AS m WHERE {where.sql} AND m.deleted_at IS NULL",
            (words, *where.params),
        ),
    ]


def put_texts(access: Access, words: Mapping[str, str], where: Fragment) -> Statement:
    """Index fresh rows of `memories AS m` among those `where` selects, each under its own words (by id).

    For live rows that are not in the index yet. `words` come from `text_words`.
    """
    return Statement(
        _PUT_MANY.format(where=where.sql, scope=_SCOPE_TERMS.format(p=f"t{int(access.tenant_num)}")),
        (json.dumps(list(words.items()), ensure_ascii=False), access.tenant_id, *where.params),
    )


_PUT_MANY = """
INSERT INTO memory_text (rowid, terms) SELECT m.seq, (w.value ->> 1) || {scope}
FROM json_each(?) AS w CROSS JOIN memories AS m ON m.tenant_id = ? AND m.id = w.value ->> 0
WHERE {where} AND m.deleted_at IS NULL
"""


def text_words(tenant_num: int, content: str) -> str:
    """The words of a content as they stand in the index, each behind its tenant."""
    return " ".join(f"t{int(tenant_num)}x{term}" for term in index_terms(content))


def remove_text(where: Fragment) -> list[Statement]:
    """Take the selected rows out of the index. Rows that are not in it are no error."""
    return [
        Statement(
            f"DELETE FROM memory_text WHERE rowid IN (SELECT m.seq FROM memories AS m WHERE {where.sql})",
            where.params,
        )
    ]


def count_terms(tenant_num: int, subject_id: str | None) -> Statement:
    """A SELECT of `n`, how many rows the index still counts under a subject, or terms under a tenant."""
    if subject_id is not None:
        return Statement(
            "SELECT ifnull(max(v.doc), 0) AS n FROM memory_vocab AS v WHERE v.term = ?",
            (f"t{tenant_num}s{_hex(subject_id)}",),
        )
    return Statement(
        "SELECT count(*) AS n FROM memory_vocab AS v WHERE v.term >= ? AND v.term < ?",
        (f"t{tenant_num}a", f"t{tenant_num}{{"),  # what follows the number is a letter; `{` comes after `z`
    )


def count_stray_text() -> Statement:
    """A SELECT of `n`, how many rows of the index have no memory, of any tenant_id."""
    return Statement(
        "SELECT count(*) AS n FROM memory_text WHERE rowid NOT IN"
        " (SELECT m.seq FROM memories AS m WHERE m.deleted_at IS NULL) /* every tenant_id */"
    )


def _search(
    access: Access,
    scope: Scope,
    filters: Filters,
    terms: Sequence[QueryTerm],
    k: int,
    now_ms: int,
    *,
    exhaustive: bool,
) -> Statement:
    prefix = f"t{access.tenant_num}"
    subject = access.subject_id if access.subject_id is not None else scope.subject_id
    smallest_scope = f"{prefix}a" if subject is None else f"{prefix}s{_hex(subject)}"
    wanted = json.dumps([[f"{prefix}x{term.term}", int(term.exact)] for term in terms], ensure_ascii=False)
    condition = readable(access, scope, filters, now_ms)
    budget = (limits.POSTING_BUDGET_MIN, limits.POSTING_BUDGET_SHARE)
    return Statement(
        _SEARCH.format(readable=condition.sql),
        (
            *(f"{prefix}a", smallest_scope, wanted),
            *(int(exhaustive), *budget, *budget),
            *(
                _scope_expression(prefix, subject, scope, filters),
                -1 if exhaustive else limits.TEXT_POOL_ROWS,
            ),
            *condition.params,
            k,
        ),
    )


def _scope_expression(prefix: str, subject: str | None, scope: Scope, filters: Filters) -> str:
    """The scope as further required terms of a MATCH expression. Only hex and enum values enter it."""
    groups = [
        [f"{prefix}s{_hex(subject)}"] if subject is not None else [],
        [f"{prefix}g{_hex(scope.agent_id)}"] if scope.agent_id is not None else [],
        [f"{prefix}r{_hex(scope.run_id)}"] if scope.run_id is not None else [],
        [f"{prefix}k{kind}" for kind in filters.kind],
        [f"{prefix}c{category}" for category in filters.category],
    ]
    tags = [f"{prefix}t{_hex(fold_tag(tag))}" for tag in filters.tags]
    groups += [[tag] for tag in tags] if filters.tags_match == "all" else [tags]
    return "".join(" AND (" + " OR ".join(f'"{term}"' for term in group) + ")" for group in groups if group)


def _has_conditions_without_term(filters: Filters) -> bool:
    """Whether a filter can only be checked on the row, so that no pool may be cut before it."""
    plain = Filters(
        kind=filters.kind,
        category=filters.category,
        tags=filters.tags,
        tags_match=filters.tags_match,
        include_expired=filters.include_expired,
    )
    return filters != plain


def _may_have_cut(rows: Sequence[Row]) -> bool:
    if not rows:
        return True
    return integer(rows[0]["pool"]) >= limits.TEXT_POOL_ROWS or integer(rows[0]["dropped"]) > 0


def _answer(rows: Sequence[Row]) -> TextAnswer:
    hits = tuple(TextHit(integer(row["seq"]), integer(row["weight"]), integer(row["bits"])) for row in rows)
    return TextAnswer(hits, integer(rows[0]["total"]) if rows else 0)


def _hex(name: str) -> str:
    return name.encode().hex()


_NEXT_ROWS = """
SELECT m.seq, m.version, m.content, t.num AS tenant_num, m.tenant_id
FROM memories AS m JOIN tenants AS t ON t.id = m.tenant_id
WHERE m.seq > ? ORDER BY m.seq LIMIT ?
"""


_REFILLED_TO = "UPDATE titen_meta SET value = ? WHERE key = 'text_refill' AND value = ?"
_REFILLED = "DELETE FROM titen_meta WHERE key = 'text_refill' AND value = ?"


_REFILLED_FIELDS = ("tenant_id", "seq", "version", "tenant_num")
_REFILLED_ROWS = """
FROM json_each(?) AS w CROSS JOIN memories AS m
  ON m.tenant_id = w.value ->> 0 AND m.seq = w.value ->> 1 AND m.version = w.value ->> 2
"""
_REFILL = f"""
INSERT INTO memory_text (rowid, terms)
SELECT m.seq, (w.value ->> 4) || {_SCOPE_TERMS.format(p="t' || (w.value ->> 3) || '")}
{_REFILLED_ROWS} WHERE m.deleted_at IS NULL
"""


def _refill(rows: Sequence[Row]) -> list[Statement]:
    """Index these rows of any tenants anew, in two statements, unless they changed since they were read."""
    words = [[*(row[field] for field in _REFILLED_FIELDS), _words_of(row)] for row in rows]
    told = json.dumps(words, ensure_ascii=False)
    return [
        Statement(f"DELETE FROM memory_text WHERE rowid IN (SELECT m.seq {_REFILLED_ROWS})", (told,)),
        Statement(_REFILL, (told,)),
    ]


def _words_of(row: Row) -> str:
    return text_words(integer(row["tenant_num"]), text(row["content"]))
