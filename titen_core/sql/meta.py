"""What the store knows about itself: schema, fingerprint, and small notes."""

from dataclasses import dataclass

from titen_core.errors import SqlMissing
from titen_core.protocols import SqlDriver, Statement
from titen_core.sql.rows import text

__all__ = ["LATEST_MIGRATION", "Meta"]

LATEST_MIGRATION = "0001_init.sql"
"""The schema this code was written for; a test holds it to the folder `migrations/`."""


@dataclass(frozen=True, slots=True)
class Meta:
    """Reads and writes `titen_meta`. Raises the driver's SqlErrors."""

    driver: SqlDriver

    async def migrations(self) -> list[str]:
        """Names of applied migrations, in order; empty on an empty database.

        The table is wrangler's own (`d1_migrations`), which our runner writes too.
        """
        try:
            rows = await self.driver.query(Statement("SELECT name FROM d1_migrations ORDER BY id"))
        except SqlMissing:
            return []
        return [text(row["name"]) for row in rows]

    async def get(self, key: str) -> str | None:
        rows = await self.driver.query(Statement("SELECT value FROM titen_meta WHERE key = ?", (key,)))
        return text(rows[0]["value"]) if rows else None

    async def put(self, key: str, value: str) -> None:
        await self.driver.batch([_put(key, value)])

    async def put_if_absent(self, key: str, value: str) -> str:
        """Write unless something is there; answers what is there afterwards."""
        _, rows = await self.driver.batch(
            [
                Statement("INSERT INTO titen_meta (key, value) VALUES (?, ?) ON CONFLICT DO NOTHING", (key, value)),
                Statement("SELECT value FROM titen_meta WHERE key = ?", (key,)),
            ]
        )
        return text(rows[0]["value"])


def _put(key: str, value: str) -> Statement:
    return Statement(
        "INSERT INTO titen_meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (key, value),
    )
