"""What a digest is made of: totals and the first rows in its order, read in one statement."""

from collections.abc import Mapping
from dataclasses import dataclass

from titen_core import limits
from titen_core.models import Access, Filters, Memory, Priority, Scope
from titen_core.protocols import SqlDriver, Statement
from titen_core.sql.predicates import readable
from titen_core.sql.rows import MEMORY_COLUMNS, integer, memory

__all__ = ["DigestRows", "Totals"]


@dataclass(frozen=True, slots=True)
class Totals:
    """How many memories there are to tell of, the ones left out included."""

    verified: int
    unverified: int

    @property
    def total(self) -> int:
        return self.verified + self.unverified


@dataclass(frozen=True, slots=True)
class DigestRows:
    """Reads memories in the order of a digest. Raises the driver's SqlErrors."""

    driver: SqlDriver

    async def read(self, access: Access, *, limit: int, now_ms: int) -> tuple[Totals, list[Memory]]:
        """Totals of the live memories, and the first of them: critical to low, newest change first.

        At most `limit` rows, or every critical one up to DIGEST_CRITICAL_ROWS if those are more.
        """
        where = readable(access, Scope(), Filters(), now_ms)
        sql = _READ.format(where=where.sql)
        params = (*where.params, *where.params, limit, limits.DIGEST_CRITICAL_ROWS, *where.params)
        rows = await self.driver.query(Statement(sql, params))
        if not rows:
            return Totals(0, 0), []
        verified, total = integer(rows[0]["verified_total"]), integer(rows[0]["total"])
        return Totals(verified, total - verified), [memory(row) for row in rows]


_RANK: Mapping[Priority, int] = {Priority.CRITICAL: 0, Priority.HIGH: 1, Priority.NORMAL: 2, Priority.LOW: 3}

_READ = f"""
SELECT {MEMORY_COLUMNS}, totals.total, totals.verified AS verified_total
FROM (SELECT count(*) AS total, total(m.verified) AS verified FROM memories AS m WHERE {{where}}) AS totals
CROSS JOIN memories AS m
WHERE {{where}}
ORDER BY CASE m.priority {" ".join(f"WHEN '{name}' THEN {rank}" for name, rank in _RANK.items())} END,
  m.updated_at DESC, m.seq
LIMIT max(?, min(?, (SELECT count(*) FROM memories AS m WHERE {{where}} AND m.priority = '{Priority.CRITICAL}')))
"""
