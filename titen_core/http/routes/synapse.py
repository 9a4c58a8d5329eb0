"""`/memory…`: the surface that Synapse's agents speak, over the same records as `/v1`.

Answers are bare records and arrays; errors are Titen's. The mind is the key's subject, and with a key
of the whole tenant the `mind_id` that the request names.
"""

from collections.abc import Sequence
from urllib.parse import urlencode

from titen_core import cursors, memories
from titen_core.content import clean_name, clean_query, clean_tags, refusal
from titen_core.errors import HumanRequired
from titen_core.http.decoding import expected_version
from titen_core.http.messages import Response
from titen_core.http.routes.digest import digest_answer
from titen_core.http.routing import Answer, Call, Route
from titen_core.http.schemas.requests import EmptyBody
from titen_core.http.synapse_schemas import (
    MindQuery,
    SynapseBody,
    SynapseChangeBody,
    SynapseDeletedOut,
    SynapseDigestQuery,
    SynapseExpiringQuery,
    SynapseListQuery,
    SynapseMemoryOut,
    SynapseSearchQuery,
    SynapseTagQuery,
)
from titen_core.http.tickets import ticket_of
from titen_core.http.views import synapse_view
from titen_core.models import Access, Action, Filters, Memory, Outcome, PrincipalKind, Scope, Written
from titen_core.policy import confine
from titen_core.recall import recall
from titen_core.remember import remember
from titen_core.times import parse_span

__all__ = ["ROUTES"]


async def synapse_store(call: Call) -> Answer:
    access = _one_mind(call, call.body.mind_id)
    _refuse_a_false_author(access, call.body.source)
    written = await remember(call.kernel, access, call.body.record(_mind(access)), ticket_of(call))
    return _record(written, 201 if written.outcome is Outcome.STORED else 200)


async def synapse_change(call: Call) -> Answer:
    access = _named_mind(call, call.body.mind_id)
    _refuse_a_false_author(access, call.body.source)
    row = await memories.get(call.kernel, access, call.params["id"])
    patch = call.body.record(row.category, row.key)
    version = expected_version(call.request, None)
    return _record(await memories.change(call.kernel, access, row.id, patch, version))


async def synapse_get(call: Call) -> Answer:
    row = await memories.get(call.kernel, _named_mind(call), call.params["id"])
    return Answer(synapse_view(row), headers=(_etag(row),))


async def synapse_delete(call: Call) -> Answer:
    version = expected_version(call.request, None)
    written = await memories.forget(call.kernel, _named_mind(call), call.params["id"], version)
    return Answer({"id": written.memory.id, "status": written.outcome})


async def synapse_verify(call: Call) -> Answer:
    return _record(await memories.verify(call.kernel, _named_mind(call), call.params["id"], None, ticket_of(call)))


async def synapse_list(call: Call) -> Answer:
    category = call.query.category
    return await _page(call, Filters(category=() if category is None else (category,)))


async def synapse_by_tag(call: Call) -> Answer:
    return await _page(call, Filters(tags=clean_tags([call.query.tag], "tag")))


async def synapse_search(call: Call) -> Answer:
    access, query = _one_mind(call), call.query
    filters = Filters(tags=() if query.tag is None else clean_tags([query.tag], "tag"))
    found = await recall(
        call.kernel,
        access,
        Scope(access.subject_id),
        filters,
        query=clean_query(query.q, "q"),
        limit=query.limit,
    )
    channels = f"vector={found.channels.vector}, text={found.channels.text}"
    return Answer([synapse_view(item.memory) for item in found.items], headers=(("X-Titen-Channels", channels),))


async def synapse_expiring(call: Call) -> Answer:
    access, now_ms = _one_mind(call), call.kernel.clock()
    until_ms = now_ms + parse_span("within", call.query.within)
    rows = await call.kernel.store.memories.expiring(
        access, Scope(), until_ms=until_ms, limit=call.query.limit, now_ms=now_ms
    )
    return Answer([synapse_view(row) for row in rows])


async def synapse_recall(call: Call) -> Response:
    return await digest_answer(call, _one_mind(call), call.query.max_tokens, call.query.q)


async def _page(call: Call, filters: Filters) -> Answer:
    """Newest first; where there is more, a `Link` header leads on, since a bare array has no room for it."""
    access, query = _one_mind(call), call.query
    purpose = f"mind {filters}"
    before = None if query.cursor is None else cursors.decode(access, purpose, query.cursor, "cursor")
    rows = await call.kernel.store.memories.page(
        access, Scope(), filters, limit=query.limit + 1, before=before, now_ms=call.kernel.clock()
    )
    page = rows[: query.limit]
    more = len(rows) > query.limit
    return Answer([synapse_view(row) for row in page], headers=_next_page(call, access, purpose, page) if more else ())


def _next_page(call: Call, access: Access, purpose: str, page: Sequence[Memory]) -> tuple[tuple[str, str], ...]:
    following = cursors.encode(access, purpose, (page[-1].created_at_ms, page[-1].id))
    asked = {name: values[0] for name, values in call.request.parameters().items()} | {"cursor": following}
    return (("Link", f'<{call.request.path}?{urlencode(asked)}>; rel="next"'),)


def _named_mind(call: Call, in_body: str | None = None) -> Access:
    """The caller's access, confined to a mind if the key or the request says which. Raises Forbidden."""
    in_query = call.query.mind_id
    if None not in {in_query, in_body} and in_query != in_body:
        raise refusal("mind_id", "differs between query and body; send it once")
    mind_id = in_query if in_body is None else in_body
    return confine(call.granted(), None if mind_id is None else clean_name("mind_id", mind_id))


def _one_mind(call: Call, in_body: str | None = None) -> Access:
    access = _named_mind(call, in_body)
    if access.subject_id is None:
        raise refusal("mind_id", "is required with a key that is not locked to a subject")
    return access


def _mind(access: Access) -> str:
    if access.subject_id is None:
        raise AssertionError("The access names no mind.")
    return access.subject_id


def _refuse_a_false_author(access: Access, claimed: str | None) -> None:
    """An author follows from the credential. To claim less than one is changes nothing, to claim more is refused."""
    if claimed == "user" and access.actor.kind is not PrincipalKind.HUMAN:
        raise HumanRequired("Only a human's key or token may say that a user wrote this; leave source out.")


def _record(written: Written, status: int = 200) -> Answer:
    return Answer(synapse_view(written.memory), status, headers=(_etag(written.memory),))


def _etag(row: Memory) -> tuple[str, str]:
    return "ETag", f'"{row.version}"'


_MEMORY = "/memory/{id}"

ROUTES = (
    Route(
        "POST",
        "/memory",
        Action.WRITE,
        synapse_store,
        "Synapse: store a memory under category and key, or update the one that is there.",
        answer=SynapseMemoryOut,
        bare=True,
        query=MindQuery,
        body=SynapseBody,
        idempotent=True,
        statuses=(201, 200),
        errors=(409,),
    ),
    Route(
        "GET",
        "/memory",
        Action.READ,
        synapse_list,
        "Synapse: the memories of a mind, newest first; a Link header leads to the next page.",
        answer=SynapseMemoryOut,
        many=True,
        bare=True,
        query=SynapseListQuery,
    ),
    Route(
        "GET",
        "/memory/recall",
        Action.READ,
        synapse_recall,
        "Synapse: what is known of a mind, as plain text for a model.",
        query=SynapseDigestQuery,
        media_type="text/plain",
    ),
    Route(
        "GET",
        "/memory/search",
        Action.READ,
        synapse_search,
        "Synapse: the memories that answer a query, best first.",
        answer=SynapseMemoryOut,
        many=True,
        bare=True,
        query=SynapseSearchQuery,
    ),
    Route(
        "GET",
        "/memory/by-tag",
        Action.READ,
        synapse_by_tag,
        "Synapse: the memories that carry a tag, newest first.",
        answer=SynapseMemoryOut,
        many=True,
        bare=True,
        query=SynapseTagQuery,
    ),
    Route(
        "GET",
        "/memory/expiring",
        Action.READ,
        synapse_expiring,
        "Synapse: the memories that expire soon, soonest first.",
        answer=SynapseMemoryOut,
        many=True,
        bare=True,
        query=SynapseExpiringQuery,
    ),
    Route(
        "GET",
        _MEMORY,
        Action.READ,
        synapse_get,
        "Synapse: read one memory.",
        answer=SynapseMemoryOut,
        bare=True,
        query=MindQuery,
        errors=(404,),
    ),
    Route(
        "PUT",
        _MEMORY,
        Action.WRITE,
        synapse_change,
        "Synapse: change the given fields of a memory.",
        answer=SynapseMemoryOut,
        bare=True,
        query=MindQuery,
        body=SynapseChangeBody,
        errors=(404, 409),
    ),
    Route(
        "DELETE",
        _MEMORY,
        Action.WRITE,
        synapse_delete,
        "Synapse: delete a memory softly.",
        answer=SynapseDeletedOut,
        bare=True,
        query=MindQuery,
        errors=(404, 409),
    ),
    Route(
        "POST",
        f"{_MEMORY}/verify",
        Action.VERIFY,
        synapse_verify,
        "Synapse: note that a human confirmed a memory; human principals only.",
        answer=SynapseMemoryOut,
        bare=True,
        query=MindQuery,
        body=EmptyBody,
        body_optional=True,
        idempotent=True,
        errors=(404, 409),
    ),
)
