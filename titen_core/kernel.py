"""The capabilities a use case works with, composed by hand in each entrypoint."""

from collections.abc import Callable
from dataclasses import dataclass, field

from titen_core import limits
from titen_core.ids import Clock, new_id, system_clock
from titen_core.protocols import ChatModel
from titen_core.semantics import Semantics
from titen_core.sql.store import SqlStore

__all__ = ["Deadlines", "Kernel"]


@dataclass(frozen=True, slots=True)
class Deadlines:
    """How long a request waits for the models, in milliseconds."""

    embed_write_ms: int = limits.EMBED_WRITE_DEADLINE_MS
    embed_read_ms: int = limits.EMBED_READ_DEADLINE_MS
    chat_ms: int = limits.CHAT_DEADLINE_MS


def _nobody_listens() -> None:
    return None


@dataclass(frozen=True, slots=True)
class Kernel:
    """Store, semantics, clock, and a chat model where there is one. `wake` asks for housekeeping soon."""

    store: SqlStore
    semantics: Semantics
    clock: Clock = system_clock
    deadlines: Deadlines = field(default_factory=Deadlines)
    wake: Callable[[], None] = _nobody_listens
    chat: ChatModel | None = None

    def new_id(self) -> str:
        """A fresh UUIDv7 at the kernel's time."""
        return new_id(self.clock())
