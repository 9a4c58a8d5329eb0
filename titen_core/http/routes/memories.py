"""`/v1/memories`: remember, list, read, change, delete, restore, verify."""

import dataclasses

from titen_core import cursors, limits, memories
from titen_core.content import clean_name, refusal
from titen_core.http.decoding import expected_version
from titen_core.http.routing import Answer, Call, Route
from titen_core.http.schemas.answers import (
    DeletedOut,
    EventOut,
    ExtractedMeta,
    ExtractedOut,
    ListMeta,
    MemoryOut,
    PageMeta,
    TagOut,
    WrittenOut,
)
from titen_core.http.schemas.requests import (
    DeleteQuery,
    EmptyBody,
    ExpiringQuery,
    HistoryQuery,
    ListQuery,
    PatchBody,
    RememberBody,
    ScopeQuery,
)
from titen_core.http.tickets import ticket_of
from titen_core.http.views import event_view, memory_view, scope_view, written_view
from titen_core.models import Action, Outcome, Principal, Role, Scope, Written
from titen_core.policy import narrow
from titen_core.remember import remember
from titen_core.times import parse_span

__all__ = ["ROUTES", "scope_of"]


async def remember_memory(call: Call) -> Answer:
    access, body = call.granted(), call.body
    if body.content is None and body.messages is None:
        raise refusal("content", "is required; or send messages to have memories extracted from them")
    subject_id = narrow(access, body.subject_id)
    if subject_id is None:
        raise refusal("subject_id", "is required with a key that is not locked to a subject")
    subject_id = clean_name("subject_id", subject_id)
    if body.messages is not None:
        return await _extracted(call, subject_id)
    written = await remember(call.kernel, access, body.record(subject_id), ticket_of(call))
    return _written(written, 201 if written.outcome is Outcome.STORED else 200)


async def _extracted(call: Call, subject_id: str) -> Answer:
    from titen_core.extraction.extract import extract  # noqa: PLC0415 - a Worker's other requests do without

    turns, to_draft = call.body.conversation(subject_id)
    done = await extract(call.kernel, call.granted(), turns, to_draft, ticket_of(call))
    data = {
        "memories": [written_view(written) for written in done.written],
        "refused": [dataclasses.asdict(refused) for refused in done.refused],
    }
    return Answer(data, meta={"usage": None if done.usage is None else dataclasses.asdict(done.usage)})


async def list_memories(call: Call) -> Answer:
    access, query = call.granted(), call.query
    scope, filters = scope_of(call, query), query.filters()
    purpose = f"list {scope} {filters}"
    before = None if query.cursor is None else cursors.decode(access, purpose, query.cursor, "cursor")
    rows = await call.kernel.store.memories.page(
        access, scope, filters, limit=query.limit + 1, before=before, now_ms=call.kernel.clock()
    )
    page, more = rows[: query.limit], len(rows) > query.limit
    following = cursors.encode(access, purpose, (page[-1].created_at_ms, page[-1].id)) if more else None
    meta = {"next_cursor": following, "has_more": more, "scope": scope_view(scope)}
    return Answer([memory_view(row) for row in page], meta=meta)


async def list_expiring(call: Call) -> Answer:
    now_ms = call.kernel.clock()
    rows = await call.kernel.store.memories.expiring(
        call.granted(),
        scope_of(call, call.query),
        until_ms=now_ms + parse_span("within", call.query.within),
        limit=call.query.limit,
        now_ms=now_ms,
    )
    return Answer([memory_view(row) for row in rows])


async def list_tags(call: Call) -> Answer:
    counts = await call.kernel.store.memories.tag_counts(
        call.granted(), scope_of(call, call.query), limit=limits.TAG_NAMES_COUNT, now_ms=call.kernel.clock()
    )
    return Answer([{"tag": tag, "count": count} for tag, count in counts])


async def get_memory(call: Call) -> Answer:
    row = await memories.get(call.kernel, call.granted(), call.params["id"])
    return Answer(memory_view(row), headers=(_etag(row.version),))


async def change_memory(call: Call) -> Answer:
    version = expected_version(call.request, call.body.expected_version)
    written = await memories.change(call.kernel, call.granted(), call.params["id"], call.body.record(), version)
    return _written(written)


async def delete_memory(call: Call) -> Answer:
    version = expected_version(call.request, call.query.expected_version)
    written = await memories.forget(call.kernel, call.granted(), call.params["id"], version)
    return Answer({"id": written.memory.id, "version": written.memory.version, "status": written.outcome})


async def memory_history(call: Call) -> Answer:
    access, query = call.granted(), call.query
    purpose = f"history {call.params['id']}"
    after = 0 if query.cursor is None else cursors.decode(access, purpose, query.cursor, "cursor")[0]
    events = await memories.history(
        call.kernel,
        access,
        call.params["id"],
        after_version=after,
        limit=query.limit + 1,
        deleted=_may_see_deleted(call.principal),
    )
    page, more = events[: query.limit], len(events) > query.limit
    following = cursors.encode(access, purpose, (page[-1].version, "")) if more else None
    return Answer([event_view(event) for event in page], meta={"next_cursor": following, "has_more": more})


async def restore_memory(call: Call) -> Answer:
    version = expected_version(call.request, call.body.expected_version)
    return _written(await memories.restore(call.kernel, call.granted(), call.params["id"], version, ticket_of(call)))


async def verify_memory(call: Call) -> Answer:
    version = expected_version(call.request, call.body.expected_version)
    return _written(await memories.verify(call.kernel, call.granted(), call.params["id"], version, ticket_of(call)))


def scope_of(call: Call, named: ScopeQuery | ListQuery) -> Scope:
    """The scope a read means: names checked, the subject narrowed to what the key allows."""
    names = {
        field: None if value is None else clean_name(field, value)
        for field, value in (("agent_id", named.agent_id), ("run_id", named.run_id))
    }
    subject_id = None if named.subject_id is None else clean_name("subject_id", named.subject_id)
    return Scope(narrow(call.granted(), subject_id), names["agent_id"], names["run_id"])


def _written(written: Written, status: int = 200) -> Answer:
    return Answer(written_view(written), status, headers=(_etag(written.memory.version),))


def _etag(version: int) -> tuple[str, str]:
    return "ETag", f'"{version}"'


def _may_see_deleted(principal: Principal | None) -> bool:
    return principal is not None and principal.role is not Role.READER


_MEMORY = "/v1/memories/{id}"

ROUTES = (
    Route(
        "POST",
        "/v1/memories",
        Action.WRITE,
        remember_memory,
        "Remember one fact, or update or restore the memory that already says it; or extract facts from messages.",
        answer=WrittenOut,
        or_answer=ExtractedOut,
        or_meta=ExtractedMeta,
        body=RememberBody,
        idempotent=True,
        statuses=(201, 200),
        errors=(409, 502),
    ),
    Route(
        "GET",
        "/v1/memories",
        Action.READ,
        list_memories,
        "List memories, newest first.",
        answer=MemoryOut,
        many=True,
        meta=ListMeta,
        query=ListQuery,
    ),
    Route(
        "GET",
        "/v1/memories/expiring",
        Action.READ,
        list_expiring,
        "Memories that expire soon, soonest first.",
        answer=MemoryOut,
        many=True,
        query=ExpiringQuery,
    ),
    Route(
        "GET",
        "/v1/memories/tags",
        Action.READ,
        list_tags,
        "Tags in use, with how many memories carry each.",
        answer=TagOut,
        many=True,
        query=ScopeQuery,
    ),
    Route("GET", _MEMORY, Action.READ, get_memory, "Read one memory.", answer=MemoryOut, errors=(404,)),
    Route(
        "PATCH",
        _MEMORY,
        Action.WRITE,
        change_memory,
        "Change the given fields of a memory.",
        answer=WrittenOut,
        body=PatchBody,
        errors=(404, 409),
    ),
    Route(
        "DELETE",
        _MEMORY,
        Action.WRITE,
        delete_memory,
        "Delete a memory softly; it can be restored.",
        answer=DeletedOut,
        query=DeleteQuery,
        errors=(404, 409),
    ),
    Route(
        "GET",
        f"{_MEMORY}/history",
        Action.READ,
        memory_history,
        "Every change of a memory, oldest first.",
        answer=EventOut,
        many=True,
        meta=PageMeta,
        query=HistoryQuery,
        errors=(404,),
    ),
    Route(
        "POST",
        f"{_MEMORY}/restore",
        Action.WRITE,
        restore_memory,
        "Bring a deleted memory back.",
        answer=WrittenOut,
        body=EmptyBody,
        body_optional=True,
        idempotent=True,
        errors=(404, 409),
    ),
    Route(
        "POST",
        f"{_MEMORY}/verify",
        Action.VERIFY,
        verify_memory,
        "Note that a human confirmed a memory; human principals only.",
        answer=WrittenOut,
        body=EmptyBody,
        body_optional=True,
        idempotent=True,
        errors=(404, 409),
    ),
)
