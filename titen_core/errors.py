"""What can go wrong, as one tree.

TitenError                     carries code, HTTP status, a message that says what to do
├── ValidationError            VALIDATION_ERROR 400
├── Unauthenticated            UNAUTHENTICATED 401
├── Forbidden                  FORBIDDEN 403
│   └── HumanRequired          HUMAN_REQUIRED 403
├── NotFound                   NOT_FOUND 404
├── MethodNotAllowed           METHOD_NOT_ALLOWED 405
├── Conflict                   409
│   ├── VersionConflict        VERSION_CONFLICT
│   ├── Duplicate              DUPLICATE
│   └── IdempotencyConflict    IDEMPOTENCY_CONFLICT
├── PayloadTooLarge            PAYLOAD_TOO_LARGE 413
├── UnsupportedMediaType       UNSUPPORTED_MEDIA_TYPE 415
├── QuotaExceeded              QUOTA_EXCEEDED 429
├── InternalError              INTERNAL 500
├── ExtractionFailed           EXTRACTION_FAILED 502
├── Unavailable                503
│   ├── ExtractionUnavailable  EXTRACTION_UNAVAILABLE
│   ├── NotReady               NOT_READY
│   └── Busy                   BUSY
└── StorageFull                STORAGE_FULL 507

ModelError                     what a ModelGateway raises; never reaches a caller as it is
├── ModelUnavailable           down, slow, throttled: the same call may succeed later
├── ModelRejected              this input was refused; another may pass
└── ModelAnswerInvalid         the answer cannot be used (count, index, NaN, dimensions)

SqlError                       what a SqlDriver raises
├── SqlConstraint              a unique index or CHECK refused the batch
├── SqlBusy                    another writer held the database for too long
├── SqlFull                    no space left; nothing of the batch was written
├── SqlMissing                 a table or column does not exist
└── SqlCorrupt                 the engine calls the file or a table malformed

IndexUnavailable               what a VectorIndex raises when it cannot answer
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
    "IndexUnavailable",
    "InternalError",
    "MethodNotAllowed",
    "ModelAnswerInvalid",
    "ModelError",
    "ModelRejected",
    "ModelUnavailable",
    "NotFound",
    "NotReady",
    "PayloadTooLarge",
    "QuotaExceeded",
    "SqlBusy",
    "SqlConstraint",
    "SqlCorrupt",
    "SqlError",
    "SqlFull",
    "SqlMissing",
    "StorageFull",
    "TitenError",
    "Unauthenticated",
    "Unavailable",
    "UnsupportedMediaType",
    "ValidationError",
    "VersionConflict",
]


class TitenError(Exception):
    """An answer to a caller: a stable code, an HTTP status and a sentence that says what to do.

    `details` is shown to the caller as it is, so it never holds content, secrets, SQL or paths.
    """

    code: ClassVar[str] = "INTERNAL"
    status: ClassVar[int] = 500

    def __init__(
        self,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details = details
        self.retry_after_s = retry_after_s


class ValidationError(TitenError):
    code = "VALIDATION_ERROR"
    status = 400


class Unauthenticated(TitenError):
    code = "UNAUTHENTICATED"
    status = 401


class Forbidden(TitenError):
    code = "FORBIDDEN"
    status = 403


class HumanRequired(Forbidden):
    code = "HUMAN_REQUIRED"


class NotFound(TitenError):
    code = "NOT_FOUND"
    status = 404


class MethodNotAllowed(TitenError):
    code = "METHOD_NOT_ALLOWED"
    status = 405


class Conflict(TitenError):
    status = 409


class VersionConflict(Conflict):
    code = "VERSION_CONFLICT"


class Duplicate(Conflict):
    code = "DUPLICATE"


class IdempotencyConflict(Conflict):
    code = "IDEMPOTENCY_CONFLICT"


class PayloadTooLarge(TitenError):
    code = "PAYLOAD_TOO_LARGE"
    status = 413


class UnsupportedMediaType(TitenError):
    code = "UNSUPPORTED_MEDIA_TYPE"
    status = 415


class QuotaExceeded(TitenError):
    code = "QUOTA_EXCEEDED"
    status = 429


class InternalError(TitenError):
    code = "INTERNAL"
    status = 500


class ExtractionFailed(TitenError):
    code = "EXTRACTION_FAILED"
    status = 502


class Unavailable(TitenError):
    status = 503


class ExtractionUnavailable(Unavailable):
    code = "EXTRACTION_UNAVAILABLE"


class NotReady(Unavailable):
    code = "NOT_READY"


class Busy(Unavailable):
    code = "BUSY"


class StorageFull(TitenError):
    code = "STORAGE_FULL"
    status = 507


class ModelError(Exception):
    """A model call failed. The message holds no input text and no secret."""


class ModelUnavailable(ModelError):
    """Down, slow or throttled; `retry_after_ms` is the provider's own wish, if it named one."""

    def __init__(self, message: str, *, retry_after_ms: int | None = None) -> None:
        super().__init__(message)
        self.retry_after_ms = retry_after_ms


class ModelRejected(ModelError):
    """The provider refused this input (too long, too many, or an error of its own on it)."""


class ModelAnswerInvalid(ModelError):
    """The answer does not pair one finite vector of the right size with each input."""


class SqlError(Exception):
    """A statement or batch failed; nothing of the batch was written."""


class SqlConstraint(SqlError):
    """A unique index, CHECK or NOT NULL refused the batch."""


class SqlBusy(SqlError):
    """Another writer held the database longer than the busy timeout."""


class SqlFull(SqlError):
    """No space left on the device or in the account."""


class SqlMissing(SqlError):
    """A table or column does not exist: the schema is behind, or an index was dropped."""


class SqlCorrupt(SqlError):
    """The engine reports a malformed database or virtual table."""


class IndexUnavailable(Exception):
    """The vector index cannot answer now; canonical rows are not affected."""
