"""What can go wrong, as exceptions. Each says what happened and what helps.

TitenError
├── Unreachable               nothing answered, or not in time
├── Unexpected                something answered, but not as Titen does
└── Refused                   Titen refused: code, status, details, request id
    ├── ValidationError, Unauthenticated, NotFound, MethodNotAllowed
    ├── Forbidden             the key may not do this
    │   └── HumanRequired
    ├── Conflict              somebody or something was first
    │   └── VersionConflict, Duplicate, IdempotencyConflict
    ├── PayloadTooLarge, UnsupportedMediaType, QuotaExceeded
    └── InternalError, ExtractionFailed, ExtractionUnavailable, NotReady, Busy, StorageFull
"""

from collections.abc import Mapping
from typing import Any, ClassVar

__all__ = [
    "Busy",
    "Conflict",
    "Duplicate",
    "ExtractionFailed",
    "ExtractionUnavailable",
    "Forbidden",
    "HumanRequired",
    "IdempotencyConflict",
    "InternalError",
    "MethodNotAllowed",
    "NotFound",
    "NotReady",
    "PayloadTooLarge",
    "QuotaExceeded",
    "Refused",
    "StorageFull",
    "TitenError",
    "Unauthenticated",
    "Unexpected",
    "Unreachable",
    "UnsupportedMediaType",
    "ValidationError",
    "VersionConflict",
    "refusal",
]


class TitenError(Exception):
    """`message` says what happened, `repair` what helps."""

    repair: ClassVar[str] = "Try again; if it stays, look at the service's log."

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Unreachable(TitenError):
    """Nothing answered. A call that may not be repeated blindly may still have been carried out."""

    repair = "Check the URL and that the service runs, then try again."


class Unexpected(TitenError):
    """Something else than Titen seems to be at this address."""

    repair = "Check the URL: it must be that of a Titen service."

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Refused(TitenError):
    """`code` is one of docs/reference/errors.md; `retry_after_s` is set where waiting helps."""

    code: str = ""

    def __init__(
        self,
        message: str,
        *,
        code: str,
        status: int,
        details: Mapping[str, Any] | None = None,
        request_id: str | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.details = details or {}
        self.request_id = request_id
        self.retry_after_s = retry_after_s

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class ValidationError(Refused):
    code = "VALIDATION_ERROR"
    repair = "Correct the field that the message names."


class Unauthenticated(Refused):
    code = "UNAUTHENTICATED"
    repair = "Use a key of this service that is neither expired nor revoked."


class Forbidden(Refused):
    code = "FORBIDDEN"
    repair = "Use a key whose role and subject allow this."


class HumanRequired(Forbidden):
    code = "HUMAN_REQUIRED"
    repair = "Use the key or token of a human."


class NotFound(Refused):
    code = "NOT_FOUND"
    repair = "Check the id and the key's subject; a deleted memory can be restored."


class MethodNotAllowed(Refused):
    code = "METHOD_NOT_ALLOWED"
    repair = "Use a client and a service of the same version."


class Conflict(Refused):
    """The change clashes with the present state."""


class VersionConflict(Conflict):
    code = "VERSION_CONFLICT"
    repair = "Read the memory again and decide anew; details['version'] is the present one."


class Duplicate(Conflict):
    code = "DUPLICATE"
    repair = "Use the memory that says this already; details['id'] is its id."


class IdempotencyConflict(Conflict):
    code = "IDEMPOTENCY_CONFLICT"
    repair = "Give each request an idempotency_key of its own, or none."


class PayloadTooLarge(Refused):
    code = "PAYLOAD_TOO_LARGE"
    repair = "Send smaller parts."


class UnsupportedMediaType(Refused):
    code = "UNSUPPORTED_MEDIA_TYPE"
    repair = "Use a client and a service of the same version."


class QuotaExceeded(Refused):
    code = "QUOTA_EXCEEDED"
    repair = "Remove what is no longer used, or ask who runs the service."


class InternalError(Refused):
    code = "INTERNAL"
    repair = "Tell who runs the service the request_id: its log says where it failed."


class ExtractionFailed(Refused):
    code = "EXTRACTION_FAILED"
    repair = "Nothing was stored: try again, or remember the facts one by one."


class ExtractionUnavailable(Refused):
    code = "EXTRACTION_UNAVAILABLE"
    repair = "Configure a chat model at the service, or remember the facts one by one."


class NotReady(Refused):
    code = "NOT_READY"
    repair = "Nothing was written: try again in a moment; /readyz says what is missing."


class Busy(Refused):
    code = "BUSY"
    repair = "Nothing was written: try again after retry_after_s."


class StorageFull(Refused):
    code = "STORAGE_FULL"
    repair = "Nothing was written: free space at the service."


def refusal(code: str, message: str, **facts: Any) -> Refused:
    """The exception of a code; `Refused` itself for one that this version does not know."""
    return _BY_CODE.get(code, Refused)(message, code=code, **facts)


def _below(kind: type[Refused]) -> list[type[Refused]]:
    return [kind, *(found for child in kind.__subclasses__() for found in _below(child))]


_BY_CODE = {kind.code: kind for kind in _below(Refused) if kind.code}
