"""From any fault to the named error a caller may see, for every door alike."""

from titen_core.errors import Busy, NotReady, SqlBusy, SqlCorrupt, SqlFull, SqlMissing, StorageFull, TitenError
from titen_core.kernel import Kernel

__all__ = ["named_failure"]


def named_failure(failure: Exception, kernel: Kernel) -> TitenError | None:
    """The error to show, or None for a fault of ours. Wakes housekeeping where the store needs repair."""
    if isinstance(failure, TitenError):
        return failure
    if isinstance(failure, SqlBusy):
        return Busy("The store is busy; try again.", retry_after_s=1)
    if isinstance(failure, SqlFull):
        return StorageFull("The store has no space left; nothing was written. Free some and try again.")
    if isinstance(failure, SqlMissing | SqlCorrupt):
        kernel.wake()
        return NotReady("Part of the store is being repaired; nothing was written. Try again.", retry_after_s=1)
    return None
