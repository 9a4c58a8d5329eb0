"""Looking at a store's file directly, beside or without a running service."""

import asyncio
import contextlib
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import apsw

from adapters.sqlite.driver import SqliteDriver
from titen_core.protocols import Statement

__all__ = ["connected", "damage", "files_with", "half_memories", "rows"]


def damage(database: Path) -> list[str]:
    """What SQLite finds wrong with the file, and FTS5 with the text index."""

    async def look() -> list[str]:
        driver = SqliteDriver(database)
        try:
            found = await driver.integrity_check()
            await driver.batch([Statement("INSERT INTO memory_text (memory_text) VALUES ('integrity-check')")])
            return found
        finally:
            await driver.close()

    return asyncio.run(look())


@contextlib.contextmanager
def connected(database: Path) -> Iterator[apsw.Connection]:
    """A plain connection, such as an operator's sqlite3 shell has."""
    connection = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READWRITE)
    connection.set_busy_timeout(10_000)
    try:
        yield connection
    finally:
        connection.close()


def rows(database: Path, sql: str, *params: Any) -> list[tuple[Any, ...]]:
    with connected(database) as connection:
        return connection.execute(sql, params).fetchall()


def half_memories(database: Path, *, drained: bool = False) -> list[tuple[Any, ...]]:
    """Memories whose parts don't belong together: row, events, words, and vector or outbox.

    `drained`: nothing may wait in the outbox either.
    """
    found = rows(database, _HALF)
    with connected(database) as connection:
        for (fingerprint,) in connection.execute("SELECT value FROM titen_meta WHERE key = 'fingerprint'"):
            stem = "vec_" + hashlib.sha256(fingerprint.encode()).hexdigest()[:12]
            found += connection.execute(_HALF_INDEXED.format(stem=stem)).fetchall()
        if drained:
            found += connection.execute("SELECT 'waits in the outbox', seq FROM vector_outbox").fetchall()
    return found


_HALF = """
WITH m AS MATERIALIZED (SELECT * FROM memories),
  events AS MATERIALIZED (
    SELECT tenant_id, memory_id, count(*) AS n, max(version) AS last FROM memory_events GROUP BY 1, 2)
SELECT 'events', m.id, m.version, e.n, e.last FROM m
  LEFT JOIN events AS e ON e.tenant_id = m.tenant_id AND e.memory_id = m.id
  WHERE ifnull(e.n, 0) <> m.version OR e.last <> m.version
UNION ALL SELECT 'event without row', e.memory_id, 0, 0, 0 FROM events AS e
  WHERE NOT EXISTS (SELECT 1 FROM m WHERE m.tenant_id = e.tenant_id AND m.id = e.memory_id)
UNION ALL SELECT 'last event tells another content', m.id, m.version, m.content, e.snapshot FROM m
  JOIN memory_events AS e ON e.tenant_id = m.tenant_id AND e.memory_id = m.id AND e.version = m.version
  WHERE e.snapshot ->> 'content' <> m.content
UNION ALL SELECT 'no words', m.id, 0, 0, 0 FROM m
  WHERE m.deleted_at IS NULL AND m.seq NOT IN (SELECT id FROM memory_text_docsize)
UNION ALL SELECT 'words of no live row', d.id, 0, 0, 0 FROM memory_text_docsize AS d
  WHERE d.id NOT IN (SELECT seq FROM m WHERE deleted_at IS NULL)
UNION ALL SELECT 'neither vector nor outbox', m.id, m.content_version, m.index_status, 0 FROM m
  WHERE m.deleted_at IS NULL AND m.seq NOT IN (SELECT seq FROM vector_outbox)
    AND m.seq NOT IN (SELECT v.seq FROM memory_vectors AS v WHERE v.content_version = m.content_version)
UNION ALL SELECT 'status', m.id, m.index_status, o.seq, o.failed FROM m
  LEFT JOIN vector_outbox AS o ON o.seq = m.seq
  WHERE m.deleted_at IS NULL AND (m.index_status = 'ready') = (o.seq IS NOT NULL)
UNION ALL SELECT 'outbox without row', o.seq, 0, 0, 0 FROM vector_outbox AS o
  WHERE o.seq NOT IN (SELECT seq FROM m)
"""

_HALF_INDEXED = """
SELECT 'ready but not indexed', m.id FROM memories AS m
  WHERE m.deleted_at IS NULL AND m.index_status = 'ready'
    AND (m.seq NOT IN (SELECT seq FROM {stem}_floats) OR m.seq NOT IN (SELECT seq FROM {stem}_codes))
UNION ALL SELECT 'code without vector', c.seq FROM {stem}_codes AS c
  WHERE c.seq NOT IN (SELECT seq FROM {stem}_floats)
UNION ALL SELECT 'indexed without row', f.seq FROM {stem}_floats AS f
  WHERE f.seq NOT IN (SELECT seq FROM memories)
"""


def files_with(folder: Path, needles: Mapping[str, bytes]) -> dict[str, list[str]]:
    """By needle, the files below the folder that hold its bytes, in whatever case."""
    contents = {path.name: path.read_bytes().lower() for path in sorted(folder.rglob("*")) if path.is_file()}
    return {
        name: [file for file, content in contents.items() if needle.lower() in content]
        for name, needle in needles.items()
    }
