"""Who is calling: by an API key, or as a human with a sign-in token.

A key is `titen_<id>_<secret>`, made once and checked at every request: the id is public, the secret is
32 random bytes. Only SHA-256 of the secret is stored; with that much entropy a slow password hash would
buy nothing.
"""

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass

from titen_core import limits
from titen_core.errors import Unauthenticated
from titen_core.ids import Clock, sha256_hex
from titen_core.jwt_auth import SIGNED_IN, InvalidToken, JwtSecret, looks_like_jwt, read_claims
from titen_core.models import Principal, PrincipalKind
from titen_core.sql.keys import Keys

__all__ = ["NewSecret", "authenticate", "new_secret"]

_PREFIX = "titen"
_KEY_ID_BYTES = 10
_TOKEN_ID_CHARS = 32


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


async def authenticate(
    authorization: str | None, keys: Keys, clock: Clock, jwt_secret: JwtSecret | None = None
) -> Principal:
    """The principal behind an `Authorization: Bearer …` header.

    Without `jwt_secret` no sign-in token is valid. Raises Unauthenticated, in the same words for
    whatever is missing, malformed, unknown, forged, expired or revoked.
    """
    token = _bearer(authorization)
    if looks_like_jwt(token):
        return await _by_token(token, keys, clock, jwt_secret)
    return await _by_key(token, keys, clock)


async def _by_key(token: str, keys: Keys, clock: Clock) -> Principal:
    key_id, secret = _parts(token)
    record = await keys.find(key_id) if key_id else None
    stored = record.secret_hash if record is not None else _hash("")
    if not hmac.compare_digest(stored, _hash(secret)) or record is None or record.revoked:
        raise _refused()
    expires = record.principal.expires_at_ms
    if expires is not None and expires <= clock():
        raise _refused()
    return record.principal


async def _by_token(token: str, keys: Keys, clock: Clock, jwt_secret: JwtSecret | None) -> Principal:
    """A token has no row: its key id is made from tenant, person and lock, so that a repeated request is known."""
    if jwt_secret is None:
        raise _refused()
    try:
        claims = read_claims(token, jwt_secret, clock())
    except InvalidToken:
        raise _refused() from None
    tenant = await keys.tenant(claims.tenant_id)
    if tenant is None:
        raise _refused()
    known_as = "jwt_" + sha256_hex(tenant.id, claims.name, claims.subject_id or "")[:_TOKEN_ID_CHARS]
    return Principal(
        tenant_id=tenant.id,
        tenant_num=tenant.num,
        key_id=known_as,
        principal_id=known_as,
        name=SIGNED_IN + claims.name,
        kind=PrincipalKind.HUMAN,
        role=claims.role,
        subject_id=claims.subject_id,
        expires_at_ms=claims.expires_at_ms,
    )


def _bearer(authorization: str | None) -> str:
    scheme, _, token = (authorization or "").strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _parts(token: str) -> tuple[str, str]:
    """Key id and secret, or two empty texts for what is no key."""
    prefix, _, rest = token.partition("_")
    key_id, _, secret = rest.partition("_")
    if prefix != _PREFIX or not secret or not (key_id + secret).isascii():
        return "", ""
    return key_id, secret


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _refused() -> Unauthenticated:
    return Unauthenticated("Send a valid API key as `Authorization: Bearer titen_…`.")
