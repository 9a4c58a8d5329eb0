"""Cursors: where a listing goes on, as text that only the same listing takes back.

A cursor is no secret. It carries a check over who asked for what, so that one of another tenant, of
another subject's key or of another listing is refused instead of silently read as a position.
"""

import base64
import binascii
import json

from titen_core.content import refusal
from titen_core.ids import sha256_hex
from titen_core.models import Access

__all__ = ["decode", "encode"]

_CURSOR_CHARS_MAX = 2_048
_CHECK_CHARS = 16
_NUMBER_MAX = 2**53  # the largest that every store's SQL and JavaScript hold exactly


def encode(access: Access | None, purpose: str, position: tuple[int, str]) -> str:
    """The cursor for a position (time in milliseconds, id) of the listing `purpose`.

    Without an access it is the same in every store that holds the record; the listing then has to
    ask itself whether the caller has it.
    """
    text = json.dumps([*position, _check(access, purpose, position)], ensure_ascii=False, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode(access: Access | None, purpose: str, cursor: str, field: str) -> tuple[int, str]:
    """The position behind a cursor made for this access and purpose.

    Raises ValidationError naming `field` for any other text.
    """
    match _read(cursor):
        case [int(time_ms), str(name), str(check)] if check == _check(access, purpose, (time_ms, name)):
            return time_ms, name
    raise refusal(field, "is not a cursor of this listing; pass one exactly as it was answered, or leave it out")


def _check(access: Access | None, purpose: str, position: tuple[int, str]) -> str:
    bound = () if access is None else (access.tenant_id, access.subject_id or "")
    return sha256_hex(*bound, purpose, str(position[0]), position[1])[:_CHECK_CHARS]


def _read(cursor: str) -> object:
    if not cursor.isascii() or len(cursor) > _CURSOR_CHARS_MAX:
        return None
    padded = cursor + "=" * (-len(cursor) % 4)
    try:
        value: object = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True).decode())
    except (binascii.Error, ValueError, RecursionError):
        return None
    return value if _is_plain(value) else None


def _is_plain(value: object) -> bool:
    """Whether hashing it again and asking SQL for it is safe.

    No booleans for integers, none out of bounds, no half surrogate pairs: who knows how a cursor is
    made can make one, so a true check says nothing about the position.
    """
    if not isinstance(value, list) or len(value) != 3 or isinstance(value[0], bool):
        return False
    return all(
        0 <= part <= _NUMBER_MAX if isinstance(part, int) else isinstance(part, str) and _is_encodable(part)
        for part in value
    )


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
