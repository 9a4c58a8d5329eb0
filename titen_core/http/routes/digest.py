"""`GET /v1/recall`: what is known of a subject, as plain text."""

from titen_core.content import clean_name, clean_query, refusal
from titen_core.digest import digest
from titen_core.http.messages import Response
from titen_core.http.routing import Call, Route
from titen_core.http.schemas.requests import DigestQuery
from titen_core.models import Access, Action
from titen_core.policy import confine

__all__ = ["ROUTES", "digest_answer"]

_TEXT = "text/plain; charset=utf-8"


async def recall_digest(call: Call) -> Response:
    query = call.query
    subject_id = None if query.subject_id is None else clean_name("subject_id", query.subject_id)
    access = confine(call.granted(), subject_id)
    if access.subject_id is None:
        raise refusal("subject_id", "is required with a key that is not locked to a subject")
    return await digest_answer(call, access, query.max_tokens, query.q)


async def digest_answer(call: Call, access: Access, max_tokens: int, q: str | None) -> Response:
    """The digest of an access that is confined to one subject."""
    query = None if q is None else clean_query(q, "q")
    text = await digest(call.kernel, access, max_tokens=max_tokens, query=query)
    return Response(200, (("Content-Type", _TEXT),), text.encode())


ROUTES = (
    Route(
        "GET",
        "/v1/recall",
        Action.READ,
        recall_digest,
        "What is known of a subject, as plain text for a model, most important first; with q, what answers it.",
        query=DigestQuery,
        media_type="text/plain",
    ),
)
