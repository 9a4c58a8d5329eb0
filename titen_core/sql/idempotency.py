"""Idempotency keys: a repeated request finds what the first one did, never its content.

The row is written last in the request's own batch; a clash on its primary key rolls the whole
batch back, so two equal requests at once act once.
"""

from dataclasses import dataclass

from titen_core import limits
from titen_core.ids import sha256_hex
from titen_core.models import Access, Outcome
from titen_core.protocols import SqlDriver, Statement
from titen_core.sql.fragments import Fragment
from titen_core.sql.rows import integer, text

__all__ = ["Done", "Idempotency", "Ticket", "part", "record"]


@dataclass(frozen=True, slots=True)
class Ticket:
    """One request under one Idempotency-Key: hashes only."""

    token: str
    request_hash: str


def part(ticket: Ticket | None, position: int) -> Ticket | None:
    """The ticket of one of several memories that a request writes; the first has the request's own."""
    if ticket is None or position == 0:
        return ticket
    return Ticket(sha256_hex(ticket.token, str(position)), ticket.request_hash)


@dataclass(frozen=True, slots=True)
class Done:
    """What an earlier request with the same key did."""

    request_hash: str
    memory_id: str
    version: int
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Idempotency:
    """Looks up and forgets tickets. Raises the driver's SqlErrors."""

    driver: SqlDriver

    async def find(self, access: Access, ticket: Ticket, now_ms: int) -> Done | None:
        """What this API key did under this ticket in the last 24 hours."""
        rows = await self.driver.query(
            Statement(
                "SELECT request_hash, memory_id, version, outcome FROM idempotency"
                " WHERE key_id = ? AND token = ? AND tenant_id = ? AND created_at > ?",
                (access.key_id, ticket.token, access.tenant_id, now_ms - limits.IDEMPOTENCY_KEPT_MS),
            )
        )
        if not rows:
            return None
        row = rows[0]
        return Done(
            text(row["request_hash"]),
            text(row["memory_id"]),
            integer(row["version"]),
            Outcome(text(row["outcome"])),
        )

    async def expire(self, now_ms: int, limit: int) -> int:
        """Forget rows over 24 hours old, of every tenant, at most `limit`; answers how many."""
        rows = await self.driver.batch(
            [
                Statement(
                    "DELETE FROM idempotency WHERE (key_id, token) IN (SELECT i.key_id, i.token"
                    " FROM idempotency AS i WHERE i.created_at <= ? LIMIT ?) /* every tenant_id */ RETURNING token",
                    (now_ms - limits.IDEMPOTENCY_KEPT_MS, limit),
                )
            ]
        )
        return len(rows[0])


def record(
    access: Access, ticket: Ticket | None, row: Fragment, op: str, outcome: Outcome | None, now_ms: int
) -> list[Statement]:
    """Statements that note the outcome of operation `op` on the selected row, if there is a ticket.

    `outcome` None takes what the row says the operation did, or `unchanged` when it did nothing.
    """
    if ticket is None:
        return []
    return [
        Statement(
            "DELETE FROM idempotency WHERE key_id = ? AND token = ? AND tenant_id = ? AND created_at <= ?",
            (access.key_id, ticket.token, access.tenant_id, now_ms - limits.IDEMPOTENCY_KEPT_MS),
        ),
        Statement(
            f"""INSERT INTO idempotency
                  (key_id, token, tenant_id, request_hash, memory_id, version, outcome, created_at)
                SELECT ?, ?, m.tenant_id, ?, m.id, m.version,
                       ifnull(?, iif(m.op = ?, m.op_kind, 'unchanged')), ?
                FROM memories AS m WHERE {row.sql}""",
            (access.key_id, ticket.token, ticket.request_hash, outcome, op, now_ms, *row.params),
        ),
    ]
