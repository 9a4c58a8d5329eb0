"""What every memory of one conversation has in common."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from titen_core.models import UNSET, Draft

__all__ = ["About"]


@dataclass(frozen=True, slots=True)
class About:
    """Whose memories they are and where they come from; UNSET as in a `Draft`."""

    subject_id: str
    agent_id: Any = UNSET
    run_id: Any = UNSET
    source: Any = UNSET
    metadata: Any = UNSET
    expires_at_ms: Any = UNSET

    def draft(self, fields: Mapping[str, Any]) -> Draft:
        """The draft of one memory. Raises ValidationError."""
        common = {name: getattr(self, name) for name in self.__slots__}
        return Draft(**common, **fields)
