"""`POST /v1/memories/search`: hybrid recall."""

import time

from titen_core.content import clean_query
from titen_core.http.routes.memories import scope_of
from titen_core.http.routing import Answer, Call, Route
from titen_core.http.schemas.answers import ItemOut, SearchMeta
from titen_core.http.schemas.requests import SearchBody
from titen_core.http.views import channels_view, item_view, scope_view
from titen_core.models import Action
from titen_core.recall import recall
from titen_core.trace import current_trace

__all__ = ["ROUTES"]


async def search_memories(call: Call) -> Answer:
    started = time.perf_counter()
    scope, body = scope_of(call, call.body), call.body
    found = await recall(
        call.kernel,
        call.granted(),
        scope,
        body.filters.filters(),
        query=clean_query(body.query),
        limit=body.limit,
    )
    trace = current_trace()
    trace.counts["results"] = len(found.items)
    trace.flags.update(vector=found.channels.vector, text=found.channels.text)
    took_ms = round((time.perf_counter() - started) * 1000)
    meta = {"scope": scope_view(scope), **channels_view(found.channels), "took_ms": took_ms}
    return Answer([item_view(item) for item in found.items], meta=meta)


ROUTES = (
    Route(
        "POST",
        "/v1/memories/search",
        Action.READ,
        search_memories,
        "Recall the memories that answer a query, by meaning and by words.",
        answer=ItemOut,
        many=True,
        meta=SearchMeta,
        body=SearchBody,
    ),
)
