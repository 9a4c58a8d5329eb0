"""API keys: made once, checked at every request.

A key is `titen_<id>_<secret>`: the id is public, the secret is 32 random bytes. Only SHA-256 of the
secret is stored; with that much entropy a slow password hash would buy nothing.
"""

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass

from titen_core import limits
from titen_core.errors import Unauthenticated
from titen_core.ids import Clock
from titen_core.models import Principal
from titen_core.sql.keys import Keys

__all__ = ["NewSecret", "authenticate", "new_secret"]

_PREFIX = "titen"
_KEY_ID_BYTES = 10


@dataclass(frozen=True, slots=True)
class NewSecret:
    """A fresh key: `api_key` is shown once, `secret_hash` is stored."""

    key_id: str
    api_key: str
    secret_hash: str


def new_secret() -> NewSecret:
    """A fresh random key. The id is base32 without padding, so it holds no underscore."""
    key_id = base64.b32encode(secrets.token_bytes(_KEY_ID_BYTES)).decode().lower()
    secret = secrets.token_urlsafe(limits.KEY_SECRET_BYTES)
    return NewSecret(key_id, f"{_PREFIX}_{key_id}_{secret}", _hash(secret))


async def authenticate(authorization: str | None, keys: Keys, clock: Clock) -> Principal:
    """The principal behind an `Authorization: Bearer …` header.

    Raises Unauthenticated, in the same words for a missing, malformed, unknown, expired or revoked key.
    """
    key_id, secret = _parse(authorization)
    record = await keys.find(key_id) if key_id else None
    stored = record.secret_hash if record is not None else _hash("")
    if not hmac.compare_digest(stored, _hash(secret)) or record is None or record.revoked:
        raise _refused()
    expires = record.principal.expires_at_ms
    if expires is not None and expires <= clock():
        raise _refused()
    return record.principal


def _parse(authorization: str | None) -> tuple[str, str]:
    scheme, _, token = (authorization or "").strip().partition(" ")
    prefix, _, rest = token.strip().partition("_")
    key_id, _, secret = rest.partition("_")
    if scheme.lower() != "bearer" or prefix != _PREFIX or not secret or not (key_id + secret).isascii():
        return "", ""
    return key_id, secret


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _refused() -> Unauthenticated:
    return Unauthenticated("Send a valid API key as `Authorization: Bearer titen_…`.")
