"""The one thread that loads, runs and releases the embedded model.

Freeing the model while another thread embeds is a segmentation fault, so no other thread ever touches
it. Work is a queue of calls, each a list of windows; after every window the thread looks at the queue
again, so a query waits for one window at most, not for a long memory.
"""

import atexit
import heapq
import itertools
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from adapters.local.engine import Engine
from adapters.vectors import normalised
from titen_core.errors import ModelError, ModelUnavailable
from titen_core.protocols import Vector

__all__ = ["Call", "EmbedThread"]

_order: Final = itertools.count()


@dataclass(order=True)
class Call:
    """One `embed` call. Sorted by rank (queries before memories), then by deadline, then by arrival.

    `windows` pairs each window with the place of its text; `deadline_s` is of `time.monotonic`.
    """

    rank: int
    deadline_s: float
    order: int = field(init=False, default_factory=lambda: next(_order))
    texts_count: int = field(compare=False)
    windows: Sequence[tuple[int, str]] = field(compare=False)
    future: "Future[list[Vector]]" = field(init=False, compare=False, default_factory=Future)
    _sums: dict[int, list[float]] = field(init=False, compare=False, default_factory=dict)
    _done: int = field(init=False, compare=False, default=0)

    @property
    def is_done(self) -> bool:
        return self._done == len(self.windows)

    def embed_next(self, engine: Engine) -> None:
        """Embed one window and add its vector, weighted by its bytes, to those of its text."""
        place, window = self.windows[self._done]
        weight = len(window.encode()) or 1
        weighted = [value * weight for value in engine.vector(window)]
        before = self._sums.get(place)
        if before is not None:
            weighted = [sum(pair) for pair in zip(before, weighted, strict=True)]
        self._sums[place] = weighted
        self._done += 1

    def answer(self) -> None:
        """The direction of each text's sum of windows, which is that of their mean."""
        vectors = [normalised(self._sums[place]) for place in range(self.texts_count)]
        with suppress(InvalidStateError):  # the caller went away meanwhile
            self.future.set_result(vectors)

    def fail(self, error: ModelError) -> None:
        with suppress(InvalidStateError):
            self.future.set_exception(error)


class EmbedThread:
    """Started by the first call, ended by `close` or by the end of the process, whichever is first."""

    def __init__(self, load: Callable[[], Engine], *, idle_release_s: float, queue_calls: int) -> None:
        self._load = load
        self._idle_release_s = idle_release_s
        self._queue_calls = queue_calls
        self._changed = threading.Condition()
        self._calls: list[Call] = []
        self._closed = False
        self._thread: threading.Thread | None = None

    def submit(self, call: Call) -> None:
        """Queue the call. Raises `ModelUnavailable` where the queue is full or closed."""
        with self._changed:
            if self._closed:
                raise ModelUnavailable("The embedded embedder is closed.")
            if len(self._calls) >= self._queue_calls:
                self._forget_cancelled()
            if len(self._calls) >= self._queue_calls:
                raise ModelUnavailable("The embedded embedder has too many calls waiting.")
            heapq.heappush(self._calls, call)
            if self._thread is None:
                self._thread = self._start()
            self._changed.notify()

    def close(self) -> None:
        """Fail what waits, let the running window end, free the model, join. Idempotent."""
        with self._changed:
            self._closed = True
            self._changed.notify()
            thread = self._thread
        if thread is not None:
            thread.join()
        atexit.unregister(self.close)

    def _start(self) -> threading.Thread:
        """A daemon, so that a process without `close` can end; `atexit` then still ends it in order."""
        thread = threading.Thread(target=self._run, name="titen-embed", daemon=True)
        thread.start()
        atexit.register(self.close)
        return thread

    def _run(self) -> None:
        while self._wait(None):
            self._serve_until_idle()
        with self._changed:
            calls, self._calls = self._calls, []
        for call in calls:
            call.fail(ModelUnavailable("The embedded embedder is closed."))

    def _serve_until_idle(self) -> None:
        engine: Engine | None = None
        try:
            while self._wait(self._idle_release_s):
                engine = self._step(self._take(), engine)
        finally:
            if engine is not None:
                engine.release()

    def _step(self, call: Call, engine: Engine | None) -> Engine | None:
        """One window of one call, which then waits its turn for the next. Returns the engine in use."""
        if call.future.cancelled():
            return engine
        if time.monotonic() >= call.deadline_s:
            call.fail(ModelUnavailable("The embedded embedder did not get to this call in time."))
            return engine
        failure: ModelError | None = None
        try:
            engine = engine or self._load()
            call.embed_next(engine)
            if call.is_done:
                call.answer()
            else:
                self._put_back(call)
        except ModelError as error:
            failure = error.with_traceback(None)
        except Exception as error:
            failure = ModelUnavailable(f"The embedded embedder failed ({type(error).__name__}).")
        if failure is not None:
            call.fail(failure)
        return engine

    def _wait(self, timeout_s: float | None) -> bool:
        """Whether there is work; False after the timeout or `close`."""
        with self._changed:
            self._changed.wait_for(lambda: self._calls or self._closed, timeout_s)
            return bool(self._calls) and not self._closed

    def _take(self) -> Call:
        with self._changed:
            return heapq.heappop(self._calls)

    def _put_back(self, call: Call) -> None:
        with self._changed:
            heapq.heappush(self._calls, call)

    def _forget_cancelled(self) -> None:
        self._calls = [call for call in self._calls if not call.future.cancelled()]
        heapq.heapify(self._calls)
