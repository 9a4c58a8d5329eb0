"""Sign-in tokens of humans: JWTs (RFC 7519) that an operator signs with HS256 and one secret.

A token names tenant and person and lives for a day at most. Nothing of it is stored, so it cannot be
revoked one by one: a new secret ends them all. PyJWT does the cryptography; it is imported when the
first token arrives, since most stores never see one and a Worker pays for every import.
"""

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from titen_core import limits
from titen_core.content import clean_name
from titen_core.errors import ValidationError
from titen_core.models import Role

__all__ = ["SIGNED_IN", "Claims", "InvalidToken", "JwtSecret", "is_signed_in", "issue", "looks_like_jwt", "read_claims"]

SIGNED_IN: Final = "jwt:"
"""Begins the name of who signed in with a token, in histories and `verified_by`. No principal of a key may be
called so: a token cannot pose as the holder of a key, nor a key as a person who signed in."""

_ALGORITHM: Final = "HS256"


class InvalidToken(Exception):
    """The token proves nothing. Says nothing more, so that nothing more can be told to its sender."""


@dataclass(frozen=True, slots=True)
class JwtSecret:
    """The shared secret. Raises ValueError when it is shorter than a SHA-256 key should be (RFC 7518, 3.2)."""

    value: str = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.value.encode()) < limits.JWT_SECRET_BYTES:
            raise ValueError(f"the secret of sign-in tokens must be at least {limits.JWT_SECRET_BYTES} bytes")


@dataclass(frozen=True, slots=True)
class Claims:
    """What a token says: this human, in this tenant, until then."""

    tenant_id: str
    name: str
    role: Role
    subject_id: str | None
    expires_at_ms: int


def is_signed_in(name: str) -> bool:
    """Whether a name says, or to a hasty reader seems to say, that its bearer signed in with a token."""
    return unicodedata.normalize("NFKC", name).strip().casefold().startswith(SIGNED_IN)


def looks_like_jwt(token: str) -> bool:
    """Whether it is worth a look: three parts of base64url, not longer than any token of ours."""
    return token.startswith("eyJ") and token.count(".") == 2 and len(token) <= limits.JWT_CHARS


def read_claims(token: str, secret: JwtSecret, now_ms: int) -> Claims:
    """The claims of a token that is signed with the secret and valid now. Raises InvalidToken."""
    payload = _payload(token, secret)
    if "aud" in payload:  # made for another service that has the same secret (RFC 7519, 4.1.3)
        raise InvalidToken
    now_s = now_ms / 1000
    expires_s, earliest_s, issued_s = _time(payload, "exp"), _time(payload, "nbf"), _time(payload, "iat")
    if expires_s is None or expires_s <= now_s - limits.JWT_CLOCK_SKEW_S:
        raise InvalidToken
    if max(earliest_s or 0, issued_s or 0) > now_s + limits.JWT_CLOCK_SKEW_S:
        raise InvalidToken
    # Without `iat` the lifetime counts from now, give or take the skew of the clock that set `exp`.
    if expires_s - (now_s + limits.JWT_CLOCK_SKEW_S if issued_s is None else issued_s) > limits.JWT_LIFETIME_MAX_S:
        raise InvalidToken
    return Claims(
        tenant_id=_name(payload, "tenant"),
        name=_person(payload),
        role=_role(payload),
        subject_id=_name(payload, "subject") if "subject" in payload else None,
        expires_at_ms=int(expires_s * 1000),
    )


def issue(claims: Claims, secret: JwtSecret, now_ms: int) -> str:
    """A signed token with these claims. Raises ValidationError for a lifetime over the bound."""
    if not 0 < claims.expires_at_ms - now_ms <= limits.JWT_LIFETIME_MAX_S * 1000:
        raise ValidationError(f"A token lives for at most {limits.JWT_LIFETIME_MAX_S // 3600} hours.")
    import jwt  # noqa: PLC0415 - see above

    payload: dict[str, Any] = {
        "sub": claims.name,
        "tenant": claims.tenant_id,
        "role": claims.role.value,
        "iat": now_ms // 1000,
        "exp": claims.expires_at_ms // 1000,
    }
    if claims.subject_id is not None:
        payload["subject"] = claims.subject_id
    return jwt.encode(payload, secret.value, algorithm=_ALGORITHM)


def _payload(token: str, secret: JwtSecret) -> Mapping[str, Any]:
    """The signed JSON object. Its claims are checked by us, who have the service's clock."""
    import jwt  # noqa: PLC0415 - see above

    try:
        payload: Mapping[str, Any] = jwt.decode(
            token,
            secret.value,
            algorithms=[_ALGORITHM],
            options={
                "verify_signature": True,
                "verify_exp": False,
                "verify_nbf": False,
                "verify_iat": False,
                "verify_aud": False,
                "verify_iss": False,
                "verify_sub": False,
                "verify_jti": False,
            },
        )
    except Exception as failure:  # whatever a hostile token breaks on the way, it was not a valid one
        raise InvalidToken from failure
    return payload


def _time(payload: Mapping[str, Any], claim: str) -> float | None:
    """A NumericDate in seconds; None where it is absent."""
    if claim not in payload:
        return None
    value = payload[claim]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidToken
    if not 0 <= value <= limits.TIME_MAX_MS / 1000:  # nor NaN, which is in no range
        raise InvalidToken
    return value


def _person(payload: Mapping[str, Any]) -> str:
    name = _name(payload, "sub")
    if len((SIGNED_IN + name).encode()) > limits.NAME_BYTES:
        raise InvalidToken
    return name


def _name(payload: Mapping[str, Any], claim: str) -> str:
    value = payload.get(claim)
    if not isinstance(value, str):
        raise InvalidToken
    try:
        return clean_name(claim, value)
    except ValidationError as failure:
        raise InvalidToken from failure


def _role(payload: Mapping[str, Any]) -> Role:
    try:
        return Role(payload.get("role", Role.WRITER))
    except ValueError as failure:
        raise InvalidToken from failure
