"""Health, readiness, repair, the guide and the OpenAPI document."""

from titen_core.errors import TitenError
from titen_core.http.documents import guide, openapi_document
from titen_core.http.messages import Response
from titen_core.http.routing import Answer, Call, Route
from titen_core.http.schemas.answers import HealthOut, ReadyOut, RepairOut
from titen_core.models import Access, Action
from titen_core.outbox import repair
from titen_core.policy import grant
from titen_core.readiness import Readiness, readiness

__all__ = ["ROUTES"]


async def healthz(call: Call) -> Answer:
    del call
    return Answer({"status": "ok"})


async def readyz(call: Call) -> Answer:
    admin = _admin_access(call)
    found = await readiness(call.kernel, admin)
    answer: dict[str, object] = {"status": found.status, "codes": found.codes}
    if admin is not None:
        answer["checks"] = _details(found)
    return Answer(answer, 503 if found.status == "failed" else 200)


async def repair_store(call: Call) -> Answer:
    report = await repair(call.kernel, call.granted())
    return Answer(
        {
            "requeued": report.requeued,
            "completed": report.completed,
            "postponed": report.postponed,
            "pending": report.pending,
            "failed": report.failed,
        }
    )


async def show_guide(call: Call) -> Response:
    del call
    return Response(200, (("Content-Type", "text/plain; charset=utf-8"),), guide().encode())


async def show_openapi(call: Call) -> Response:
    del call
    return Response(200, (("Content-Type", "application/json"),), openapi_document())


def _admin_access(call: Call) -> Access | None:
    """The access of an admin key, if one was sent; anyone else sees status and codes only."""
    try:
        return None if call.principal is None else grant(call.principal, Action.READINESS)
    except TitenError:
        return None


def _details(found: Readiness) -> list[dict[str, object]]:
    return [
        {"name": check.name, "status": check.status, "code": check.code, "detail": dict(check.detail)}
        for check in found.checks
    ]


ROUTES = (
    Route("GET", "/healthz", Action.NONE, healthz, "Whether the process answers.", answer=HealthOut),
    Route(
        "GET",
        "/readyz",
        Action.NONE,
        readyz,
        "Whether the service is fit to answer; an admin key sees the details.",
        answer=ReadyOut,
        statuses=(200, 503),
    ),
    Route(
        "POST",
        "/v1/repair",
        Action.REPAIR,
        repair_store,
        "Queue the own tenant's failed index work again and do some of it now.",
        answer=RepairOut,
    ),
    Route(
        "GET",
        "/",
        Action.NONE,
        show_guide,
        "A guide to this API, for people and models.",
        media_type="text/plain",
    ),
    Route("GET", "/openapi.json", Action.NONE, show_openapi, "This API as OpenAPI 3.1."),
)
