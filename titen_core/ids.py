"""Identifiers, clock and hashes: the only places where time and randomness enter the core."""

import hashlib
import secrets
import time
from collections.abc import Callable

__all__ = ["Clock", "new_id", "sha256_hex", "system_clock"]

Clock = Callable[[], int]
"""Answers milliseconds since the epoch, UTC."""


def system_clock() -> int:
    """The wall clock in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def new_id(now_ms: int) -> str:
    """A UUIDv7 (RFC 9562 section 5.7): 48 bits of time, then 74 random bits."""
    value = (now_ms & (2**48 - 1)) << 80 | secrets.randbits(80)
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def sha256_hex(*parts: str) -> str:
    """SHA-256 over length-prefixed parts, so that ("a", "bc") and ("ab", "c") differ."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(4, "big"))
        digest.update(data)
    return digest.hexdigest()
