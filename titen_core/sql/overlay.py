"""The overlay: rows a remote vector index cannot show yet, read with their canonical int8 vectors."""

from titen_core import limits
from titen_core.models import Access, Filters, Fingerprint, Scope
from titen_core.protocols import Row, Statement
from titen_core.sql.fragments import Fragment, all_of
from titen_core.sql.predicates import readable
from titen_core.sql.rows import integer, text

__all__ = ["overlay_rows", "overlay_statement"]


def overlay_statement(
    access: Access, scope: Scope, filters: Filters, fingerprint: Fingerprint, now_ms: int
) -> Statement:
    """Select the newest OVERLAY_ROWS rows that are pending or changed in the last OVERLAY_WINDOW_MS."""
    fresh = Fragment("(m.index_status <> 'ready' OR m.updated_at > ?)", (now_ms - limits.OVERLAY_WINDOW_MS,))
    condition = all_of((readable(access, scope, filters, now_ms), fresh))
    return Statement(
        f"""SELECT m.seq, v.vector_int8 FROM memories AS m
            JOIN memory_vectors AS v
              ON v.seq = m.seq AND v.fingerprint = ? AND v.content_version = m.content_version
            WHERE {condition.sql} ORDER BY m.updated_at DESC, m.seq DESC LIMIT ?""",
        (str(fingerprint), *condition.params, limits.OVERLAY_ROWS),
    )


def overlay_rows(rows: list[Row]) -> list[tuple[int, str]]:
    """(seq, int8 vector) of what `overlay_statement` found."""
    return [(integer(row["seq"]), text(row["vector_int8"])) for row in rows]
