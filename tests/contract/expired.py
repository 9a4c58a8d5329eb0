"""Memories whose time has passed."""

import time
from typing import Any

from tests.contract.client import Api, JsonObject

__all__ = ["expired", "now_ms"]

SOON_MS = 60


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def expired(api: Api, **fields: Any) -> JsonObject:
    """A memory that was stored and has expired since."""
    expires_at = now_ms() + SOON_MS
    memory = api.stored(expires_at=expires_at, **fields)
    while now_ms() <= expires_at:
        time.sleep(0.005)
    return memory
