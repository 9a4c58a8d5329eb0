"""A deployed D1 database as a `SqlDriver`, for the operator: each batch is one `wrangler d1 execute`.

`--command` and not `--file`: a file is an import, which answers no rows and stops the database meanwhile.
The statements of one command are one transaction.
"""

import json
from collections.abc import Sequence

from adapters.cloudflare.failures import sql_error
from titen_core.errors import SqlError
from titen_core.protocols import Row, Statement
from vps.literals import written_out
from vps.wrangler import CommandRunner, WranglerFailed

__all__ = ["WranglerD1"]


class WranglerD1:
    """Implements `SqlDriver`. Raises WranglerFailed too, where wrangler cannot reach the database at all."""

    def __init__(self, wrangler: CommandRunner, database: str, config: str) -> None:
        self._wrangler = wrangler
        self._where = (database, "--remote", "--json", "--config", config)

    async def query(self, statement: Statement) -> list[Row]:
        return (await self.batch([statement]))[0]

    async def batch(self, statements: Sequence[Statement]) -> list[list[Row]]:
        if not statements:
            return []
        sql = ";\n".join(written_out(statement) for statement in statements)
        try:
            out = self._wrangler.run("d1", "execute", *self._where, "--command", sql)
        except WranglerFailed as failure:
            if "SQLITE_" in failure.reason:
                raise sql_error(failure.reason) from None
            raise
        return _results(out, len(statements))


def _results(out: str, count: int) -> list[list[Row]]:
    try:
        results: list[list[Row]] = [list(each["results"]) for each in json.loads(out)]
    except (ValueError, KeyError, TypeError):
        raise SqlError("wrangler answered something else than rows") from None
    if len(results) != count:
        raise SqlError(f"wrangler answered {len(results)} results to {count} statements")
    return results
