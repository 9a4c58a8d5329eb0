"""`/v1/export` and `/v1/import`: leaving and arriving, in bounded steps of JSON Lines."""

import dataclasses

from titen_core.http.decoding import require_media_type
from titen_core.http.messages import Response
from titen_core.http.routing import Answer, Call, Route
from titen_core.http.schemas.answers import ImportOut
from titen_core.http.schemas.requests import ExportQuery, ImportQuery
from titen_core.models import Action
from titen_core.transfer import export_page, import_lines

__all__ = ["ROUTES"]

_NDJSON = "application/x-ndjson"


async def export_memories(call: Call) -> Response:
    query = call.query
    page = await export_page(call.kernel, call.granted(), after=query.after, limit=query.limit, deleted=query.deleted)
    return Response(200, (("Content-Type", _NDJSON),), page.encode())


async def import_memories(call: Call) -> Answer:
    require_media_type(call.request, _NDJSON)
    report = await import_lines(call.kernel, call.granted(), call.request.body, from_line=call.query.from_line)
    return Answer({**dataclasses.asdict(report), "warning": report.warning})


ROUTES = (
    Route(
        "GET",
        "/v1/export",
        Action.EXPORT,
        export_memories,
        "Export memories with their history; the last line tells the cursor of the next page.",
        query=ExportQuery,
        media_type=_NDJSON,
    ),
    Route(
        "POST",
        "/v1/import",
        Action.IMPORT,
        import_memories,
        "Import exported lines; it reports by line, and running it again adds nothing.",
        answer=ImportOut,
        query=ImportQuery,
        body_media_type=_NDJSON,
    ),
)
