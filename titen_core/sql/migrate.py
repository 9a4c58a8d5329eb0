"""Applying migrations in order, each once, noted where `wrangler d1 migrations apply` notes its own.

A file and its note are one transaction, and the note comes first: of two processes that migrate at
once, the later one meets the unique name, writes nothing, and looks again.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from titen_core.errors import SqlConstraint
from titen_core.protocols import Row, Statement
from titen_core.sql.rows import text

__all__ = ["Migration", "MigrationRefused", "MigrationTarget", "applied", "migrate", "pending"]

TABLE = """
CREATE TABLE IF NOT EXISTS d1_migrations (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT UNIQUE,
  applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL
)
"""

_NAME = re.compile(r"[0-9]{4}_[a-z0-9_]+\.sql")


class MigrationRefused(Exception):
    """This store can't be migrated by this version; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One file: its name decides the order and is what the store remembers."""

    name: str
    sql: str


class MigrationTarget(Protocol):
    """A database that can run a text of many statements as one transaction."""

    async def query(self, statement: Statement) -> list[Row]:
        """As in `SqlDriver`."""
        ...

    async def script(self, sql: str) -> None:
        """Run all statements of the text, or none. Raises `SqlConstraint` where a unique index refuses."""
        ...


async def migrate(target: MigrationTarget, migrations: Sequence[Migration]) -> list[str]:
    """Apply what is missing, in order; answers the names applied by this call.

    Idempotent, and safe in several processes at once. Raises MigrationRefused; the target's
    SqlErrors pass through, with the failing file undone as a whole.
    """
    by_name = {migration.name: migration for migration in migrations}
    done: list[str] = []
    missing = pending(await applied(target), list(by_name))
    if missing:
        await target.script(TABLE)
    while missing:
        migration = by_name[missing[0]]
        try:
            await target.script(_with_note(migration))
            done.append(migration.name)
        except SqlConstraint:
            # Another process was faster, or the file itself broke a constraint: the notes tell which.
            if migration.name not in await applied(target):
                raise
        missing = pending(await applied(target), list(by_name))
    return done


async def applied(target: MigrationTarget) -> list[str]:
    """Names the store has noted, in order; empty for an empty database.

    Raises MigrationRefused for a database that holds another application's tables.
    """
    rows = await target.query(
        Statement("SELECT name FROM sqlite_schema WHERE type = 'table' AND substr(name, 1, 7) <> 'sqlite_'")
    )
    tables = {text(row["name"]) for row in rows}
    if "d1_migrations" not in tables:
        if tables:
            raise MigrationRefused("The database holds tables of another application; give a file of its own.")
        return []
    return [text(row["name"]) for row in await target.query(Statement("SELECT name FROM d1_migrations ORDER BY id"))]


def pending(noted: Sequence[str], known: Sequence[str]) -> list[str]:
    """Names still to apply, in order. Raises MigrationRefused for unknown names and for holes."""
    ordered = sorted(known)
    strangers = sorted(set(noted) - set(ordered))
    if strangers:
        raise MigrationRefused(
            f"The store has the migration {strangers[0]}, which this version does not know; upgrade titen."
        )
    missing = [name for name in ordered if name not in set(noted)]
    if missing and noted and missing[0] < max(noted):
        raise MigrationRefused(
            f"The store has {max(noted)} but not {missing[0]} before it; restore a backup made by a released titen."
        )
    return missing


def _with_note(migration: Migration) -> str:
    if not _NAME.fullmatch(migration.name):
        raise MigrationRefused(f"{migration.name} is no migration name; expected one such as 0002_what_it_does.sql.")
    return f"INSERT INTO d1_migrations (name) VALUES ('{migration.name}');\n{migration.sql}"
