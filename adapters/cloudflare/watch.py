"""What the logs warn about before it hurts: a tenant that writes fast, a limit that comes near.

Works on what is known anyway: the log lines of requests, the size in D1's answers, the index's description.
An isolate sees its own requests only, so fast writing may go unnoticed here; the overlay, which every
recall reads from D1, tells it all the same (`OVERLAY_FULL`). Limits: developers.cloudflare.com, the pages
"Limits" and "Pricing" of D1 and Vectorize.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from titen_core import limits
from titen_core.http.app import Log
from titen_core.ids import Clock

__all__ = ["Watch"]

D1_BYTES_MAX: Final = {"Free": 500_000_000, "Paid": 10_000_000_000}
VECTORS_MAX: Final = {"Free": 4_882, "Paid": 10_000_000}  # Free: five million dimensions of an account
NAMESPACES_MAX: Final = {"Free": 1_000, "Paid": 50_000}  # of an index: one a tenant
NEAR_SHARE: Final = 0.8
TENANTS_KEPT: Final = 1_000

_WRITES: Final = frozenset(
    {"remember_memory", "change_memory", "delete_memory", "restore_memory", "verify_memory", "import_memories"}
)
_FAILED_FROM: Final = 400


class Watch:
    """Passes lines on and adds warnings; the same warning at most once in OVERLAY_WINDOW_MS."""

    def __init__(self, log: Log, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._writes: dict[object, deque[int]] = {}
        self._warned: dict[tuple[object, ...], int] = {}

    def line(self, line: Mapping[str, Any]) -> None:
        """Log a line; if it is a request's, see what it tells."""
        self._log(line)
        if line.get("event") != "request" or line["tenant"] is None or line["status"] >= _FAILED_FROM:
            return
        if line["operation"] in _WRITES:
            self._wrote(line["tenant"])
        if line["counts"].get("fresh", 0) >= limits.OVERLAY_ROWS:
            self._warn("OVERLAY_FULL", tenant=line["tenant"], rows=limits.OVERLAY_ROWS)

    def database(self, size_bytes: int | None) -> None:
        """The size that D1 told last."""
        if size_bytes is not None:
            self._near("D1_SIZE", size_bytes, D1_BYTES_MAX)

    def index(self, description: Mapping[str, Any]) -> None:
        """What Vectorize says of its index; its documentation and its types name the count differently."""
        count = description.get("vectorCount", description.get("vectorsCount"))
        if isinstance(count, int):
            self._near("VECTORIZE_VECTORS", count, VECTORS_MAX)

    def tenants(self, count: int) -> None:
        """How many namespaces there are."""
        self._near("VECTORIZE_NAMESPACES", count, NAMESPACES_MAX)

    def _wrote(self, tenant: object) -> None:
        now_ms = self._clock()
        if tenant not in self._writes and len(self._writes) >= TENANTS_KEPT:
            self._writes.clear()
        times = self._writes.setdefault(tenant, deque(maxlen=limits.OVERLAY_ROWS + 1))
        times.append(now_ms)
        if len(times) > limits.OVERLAY_ROWS and times[0] > now_ms - limits.OVERLAY_WINDOW_MS:
            self._warn(
                "TENANT_WRITES", tenant=tenant, more_than=limits.OVERLAY_ROWS, within_ms=limits.OVERLAY_WINDOW_MS
            )

    def _near(self, code: str, value: int, limits_by_plan: Mapping[str, int]) -> None:
        """Who is beyond the limit of Free has the one of Paid; before it, nobody tells which it is."""
        plan = "Free" if value <= limits_by_plan["Free"] else "Paid"
        if value >= limits_by_plan[plan] * NEAR_SHARE:
            self._warn(code, value=value, limit=limits_by_plan[plan], plan=plan)

    def _warn(self, code: str, **detail: object) -> None:
        now_ms = self._clock()
        about = (code, detail.get("tenant"))
        if now_ms - self._warned.get(about, -limits.OVERLAY_WINDOW_MS) < limits.OVERLAY_WINDOW_MS:
            return
        if len(self._warned) >= TENANTS_KEPT:
            self._warned.clear()
        self._warned[about] = now_ms
        self._log({"event": "warning", "code": code, **detail})
