"""From an `Idempotency-Key` header to a ticket: hashes only, so that nothing of the request is kept."""

from titen_core import limits
from titen_core.content import canonical_json, refusal
from titen_core.http.routing import Call
from titen_core.ids import sha256_hex
from titen_core.sql.idempotency import Ticket

__all__ = ["ticket_of"]


def ticket_of(call: Call) -> Ticket | None:
    """The request's ticket, or None without the header. Raises ValidationError for a bad key.

    Two requests are the same when method, path and the decoded body are; white space and the order
    of members do not matter.
    """
    key = call.request.headers.get("idempotency-key")
    if key is None:
        return None
    if not key or len(key.encode("utf-8", "replace")) > limits.IDEMPOTENCY_KEY_BYTES:
        raise refusal("Idempotency-Key", f"must be 1 to {limits.IDEMPOTENCY_KEY_BYTES} bytes")
    body = canonical_json(call.body.model_dump(mode="json", exclude_unset=True))
    path = call.request.path.rstrip("/")
    version = call.request.headers.get("if-match", "")
    return Ticket(sha256_hex(key), sha256_hex(call.request.method, path, version, body))
