"""wrangler as an empty account would answer it: what `--dry-run` speaks to. It runs nothing."""

import json
from collections.abc import Callable

from vps.cli.cloudflare.deployment import Deployment
from vps.wrangler import WranglerFailed, shown

__all__ = ["Rehearsal"]

DATABASE_ID = "00000000-0000-0000-0000-000000000000"
_NO_ROWS: list[list[dict[str, object]]] = [[]]
_ANSWERS: tuple[tuple[str, list[list[dict[str, object]]]], ...] = (
    ("SELECT EXISTS", [[{"found": 0}]]),
    ("NOT EXISTS (SELECT 1 FROM tenants)", [[], [], [], [{"id": "new", "num": 1, "name": "default", "created_at": 0}]]),
    ("INSERT INTO tenants", [[{"num": 1}]]),
    ("INSERT INTO principals", [[], [{"id": "new"}]]),
)


class Rehearsal:
    """Tells each command, and answers the few whose answer the next step needs."""

    def __init__(self, deployment: Deployment, tell: Callable[[str], None]) -> None:
        self._deployment = deployment
        self._tell = tell
        self._created = False

    def run(self, *arguments: str) -> str:
        self._tell(shown(arguments))
        match arguments[:2]:
            case ("d1", "create"):
                self._created = True
            case ("d1", "list"):
                return json.dumps([{"name": self._deployment.name, "uuid": DATABASE_ID}] if self._created else [])
            case ("d1", "execute"):
                return _rows(arguments[-1])
            case ("deployments", _):
                raise WranglerFailed("there is no Worker yet")
            case ("vectorize", "list" | "list-metadata-index"):
                return "[]"
            case ("vectorize", "info"):
                return "{}"
        return ""


def _rows(sql: str) -> str:
    results = next((rows for told, rows in _ANSWERS if told in sql), _NO_ROWS)
    return json.dumps([{"results": rows} for rows in results])
