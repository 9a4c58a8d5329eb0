"""What the service does between requests: vectors that are due, old idempotency rows, the text index."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Final

from titen_core.errors import SqlBusy, SqlError, SqlFull
from titen_core.kernel import Kernel
from titen_core.outbox import drain
from titen_core.semantics import SemanticStatus

__all__ = ["Housekeeping"]

IDLE_S: Final = 5.0
PAUSE_S_MIN: Final = 0.2
FAILED_S_MIN: Final = 1.0
FAILED_S_MAX: Final = 60.0
STOP_S_MAX: Final = 5.0
EXPIRED_ROWS: Final = 500

Log = Callable[[Mapping[str, object]], None]


class Housekeeping:
    """One background task. It looks again when woken, when work falls due, and every few seconds.

    No failure ends it: the class of the error is logged and the next round comes after a pause that
    doubles up to a minute.
    """

    def __init__(
        self, kernel: Kernel, wake: asyncio.Event, log: Log, *, idle_s: float = IDLE_S, stop_s: float = STOP_S_MAX
    ) -> None:
        self._kernel = kernel
        self._wake = wake
        self._log = log
        self._idle_s = idle_s
        self._stop_s = stop_s
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, at the next turn of the event loop."""
        self._task = asyncio.create_task(self._run(), name="titen-housekeeping")

    async def stop(self) -> None:
        """Let the present round end, within a few seconds; what it leaves undone stays due."""
        self._stopping.set()
        self._wake.set()
        if self._task is None:
            return
        _, unfinished = await asyncio.wait({self._task}, timeout=self._stop_s)
        for task in unfinished:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def round(self) -> None:
        """Everything that is due now, once. No part keeps another from its turn; raises the first failure."""
        failures: list[Exception] = []
        for part in (self.heal_text, self._expire, self._drain):
            try:
                await part()
            except Exception as failure:  # raised again below
                failures.append(failure)
        if failures:
            raise failures[0]

    async def _run(self) -> None:
        failures = 0
        claimed_before = True
        while not self._stopping.is_set():
            self._wake.clear()
            try:
                if claimed_before:  # by a process that was killed: its rows need not wait for their leases to end
                    await self._kernel.store.outbox.release_leases()
                    claimed_before = False
                await self.round()
                failures = 0
                await self._until_woken(await self._pause_s())
            except Exception as failure:  # nothing may end this task but `stop`
                self._log({"event": "housekeeping_failed", "error": type(failure).__name__})
                await self._until_stopped(min(FAILED_S_MIN * 2**failures, FAILED_S_MAX))
                failures = min(failures + 1, 6)

    async def _drain(self) -> None:
        while not self._stopping.is_set() and (await drain(self._kernel)).more:
            pass

    async def _expire(self) -> None:
        idempotency = self._kernel.store.idempotency
        while not self._stopping.is_set():
            if await idempotency.expire(self._kernel.clock(), EXPIRED_ROWS) < EXPIRED_ROWS:
                return

    async def heal_text(self) -> None:
        """Make a broken text index anew, and fill it; also goes on with a filling that was cut short."""
        index = self._kernel.store.text
        try:
            await index.check()
        except (SqlBusy, SqlFull):
            raise
        except SqlError as failure:
            self._log({"event": "text_index_recreated", "error": type(failure).__name__})
            await index.recreate()
        while not self._stopping.is_set() and await index.refill_step():
            pass

    async def _pause_s(self) -> float:
        """Until the next row falls due, within bounds; leased rows of another process look overdue."""
        if (await self._kernel.semantics.state()).status is not SemanticStatus.READY:
            return self._idle_s
        due_ms = await self._kernel.store.outbox.next_due_ms()
        if due_ms is None:
            return self._idle_s
        return min(max((due_ms - self._kernel.clock()) / 1000, PAUSE_S_MIN), self._idle_s)

    async def _until_woken(self, pause_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), pause_s)

    async def _until_stopped(self, pause_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), pause_s)
