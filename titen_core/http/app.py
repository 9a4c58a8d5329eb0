"""`Request -> Response`: find the route, know the caller, decode, act, and answer in one envelope.

The order is fixed: a caller without a valid key learns nothing about what they sent. Every fault
becomes a named error; nothing of an exception's text reaches the caller unless it is ours.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from titen_core import __version__
from titen_core.auth import authenticate
from titen_core.errors import InternalError, MethodNotAllowed, PayloadTooLarge, SqlError, TitenError, Unauthenticated
from titen_core.http.decoding import decode_body, decode_query
from titen_core.http.failures import named_failure
from titen_core.http.messages import Request, Response, body_limit
from titen_core.http.routes import ROUTES
from titen_core.http.routing import Answer, Call, Matched, find_route
from titen_core.ids import sha256_hex
from titen_core.jwt_auth import JwtSecret
from titen_core.kernel import Kernel
from titen_core.models import Action, Principal
from titen_core.policy import grant
from titen_core.trace import Trace, traced

__all__ = ["App", "Log"]

_MCP_PATHS = frozenset({"/mcp", "/mcp/"})

Log = Callable[[Mapping[str, object]], None]
"""Takes one structured line. It holds numbers, names and hashes: no content, key or full subject."""


def _silent(line: Mapping[str, object]) -> None:
    del line


@dataclass(slots=True)
class _Exchange:
    """What is known of a request while it runs, for the envelope and the log line."""

    request_id: str
    operation: str = "none"
    tenant_id: str | None = None
    error: str | None = None
    trace: Trace = field(default_factory=Trace)


class App:
    """The whole HTTP surface over one kernel."""

    def __init__(
        self,
        kernel: Kernel,
        *,
        runtime: str,
        log: Log = _silent,
        cors_origins: frozenset[str] = frozenset(),
        jwt_secret: JwtSecret | None = None,
        mcp_hosts: frozenset[str] | None = None,
    ) -> None:
        self._kernel = kernel
        self._runtime = runtime
        self._log = log
        self._cors_origins = cors_origins
        self._jwt_secret = jwt_secret
        self._mcp_hosts = mcp_hosts

    async def handle(self, request: Request) -> Response:
        """Answer one request. Never raises."""
        exchange = _Exchange(self._kernel.new_id())
        started = time.perf_counter()
        with traced(exchange.trace):
            response = await self._answered(request, exchange)
        self._log(self._line(exchange, response.status, (time.perf_counter() - started) * 1000))
        return self._finished(request, response, exchange)

    async def _answered(self, request: Request, exchange: _Exchange) -> Response:
        try:
            return await self._served(request, exchange)
        except Exception as failure:
            named = named_failure(failure, self._kernel)
            if named is not None:
                return _error(named, exchange)
            exchange.trace.flags["exception"] = _place(failure)
            return _error(InternalError("Something went wrong on our side; nothing was half done."), exchange)

    async def _served(self, request: Request, exchange: _Exchange) -> Response:
        if request.path in _MCP_PATHS:
            return await self._mcp(request, exchange)
        if request.method == "OPTIONS":
            return _options(request)
        matched = find_route(ROUTES, request.method, request.path)
        exchange.operation = matched.route.name
        principal = await self._caller(request, matched.route.action)
        if principal is not None:
            exchange.tenant_id = principal.tenant_id
        call = self._call(request, matched, principal, exchange)
        answer = await matched.route.handler(call)
        if isinstance(answer, Response):
            return answer
        return _bare(answer) if matched.route.bare else _envelope(answer, exchange)

    async def _mcp(self, request: Request, exchange: _Exchange) -> Response:
        # Imported here, so that a Worker pays for MCP only when somebody speaks it.
        from titen_core.mcp.calls import Caller  # noqa: PLC0415
        from titen_core.mcp.door import respond  # noqa: PLC0415
        from titen_core.mcp.guard import guard  # noqa: PLC0415

        exchange.operation = "mcp"
        if request.method == "OPTIONS":
            return Response(204, (("Allow", "OPTIONS, POST"),))
        guard(request, self._cors_origins, self._mcp_hosts)
        principal = await self._authenticated(request.headers.get("authorization"))
        exchange.tenant_id = principal.tenant_id
        _refuse_oversize(request)
        return await respond(Caller(self._kernel, principal, exchange.request_id), request)

    async def _caller(self, request: Request, action: Action) -> Principal | None:
        """Who is calling. Open routes look at a key too, but do without one, and without a store to look it up in."""
        authorization = request.headers.get("authorization")
        if action is Action.NONE:
            return await self._optional_caller(authorization)
        return await self._authenticated(authorization)

    async def _optional_caller(self, authorization: str | None) -> Principal | None:
        if authorization is None:
            return None
        try:
            return await self._authenticated(authorization)
        except (Unauthenticated, SqlError):
            return None

    async def _authenticated(self, authorization: str | None) -> Principal:
        return await authenticate(authorization, self._kernel.store.keys, self._kernel.clock, self._jwt_secret)

    def _call(self, request: Request, matched: Matched, principal: Principal | None, exchange: _Exchange) -> Call:
        route = matched.route
        access = None if principal is None or route.action is Action.NONE else grant(principal, route.action)
        _refuse_oversize(request)
        return Call(
            kernel=self._kernel,
            request=request,
            request_id=exchange.request_id,
            params=matched.params,
            query=decode_query(request, route.query),
            body=None if route.body is None else decode_body(request, route.body, optional=route.body_optional),
            principal=principal,
            access=access,
        )

    def _finished(self, request: Request, response: Response, exchange: _Exchange) -> Response:
        headers = (
            *response.headers,
            ("X-Request-Id", exchange.request_id),
            ("X-Titen-Version", __version__),
            ("Cache-Control", "no-store"),
            *self._cors(request),
        )
        return Response(response.status, headers, response.body)

    def _cors(self, request: Request) -> tuple[tuple[str, str], ...]:
        origin = request.headers.get("origin")
        if origin is None or origin not in self._cors_origins:
            return ()
        return (
            ("Access-Control-Allow-Origin", origin),
            ("Access-Control-Allow-Headers", "authorization, content-type, idempotency-key, if-match"),
            ("Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, DELETE"),
            ("Vary", "Origin"),
        )

    def _line(self, exchange: _Exchange, status: int, duration_ms: float) -> dict[str, object]:
        trace = exchange.trace
        return {
            "event": "request",
            "request_id": exchange.request_id,
            "operation": exchange.operation,
            "runtime": self._runtime,
            "tenant": None if exchange.tenant_id is None else sha256_hex(exchange.tenant_id)[:12],
            "status": status,
            "duration_ms": round(duration_ms, 2),
            "durations_ms": {name: round(spent, 2) for name, spent in trace.durations_ms.items()},
            "counts": dict(trace.counts),
            "flags": dict(trace.flags),
            "error": exchange.error,
        }


def _refuse_oversize(request: Request) -> None:
    if request.oversize:
        bound = body_limit(request.method, request.path)
        raise PayloadTooLarge(f"The body is larger than {bound} bytes; send it in smaller parts.")


def _place(failure: BaseException) -> str:
    """The kind of a fault and the line it came from. Its text may hold anything, so it is not kept."""
    trace = failure.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    kind = type(failure).__name__
    if trace is None:
        return kind
    return f"{kind} at {trace.tb_frame.f_globals.get('__name__', '?')}:{trace.tb_lineno}"


def _envelope(answer: Answer, exchange: _Exchange) -> Response:
    body = {"data": answer.data, "meta": {"request_id": exchange.request_id, **answer.meta}}
    return Response(answer.status, (("Content-Type", "application/json"), *answer.headers), _json(body))


def _bare(answer: Answer) -> Response:
    return Response(answer.status, (("Content-Type", "application/json"), *answer.headers), _json(answer.data))


def _error(failure: TitenError, exchange: _Exchange) -> Response:
    exchange.error = failure.code
    shown: dict[str, Any] = {"code": failure.code, "message": failure.message}
    if failure.details is not None:
        shown["details"] = dict(failure.details)
    headers = [("Content-Type", "application/json")]
    if failure.retry_after_s is not None:
        headers.append(("Retry-After", str(failure.retry_after_s)))
    if isinstance(failure, Unauthenticated):
        headers.append(("WWW-Authenticate", "Bearer"))
    if isinstance(failure, MethodNotAllowed) and failure.details is not None:
        headers.append(("Allow", ", ".join(failure.details["allow"])))
    body = {"error": shown, "meta": {"request_id": exchange.request_id}}
    return Response(failure.status, tuple(headers), _json(body))


def _options(request: Request) -> Response:
    """What a path allows. Asking needs no key and tells nothing that the guide does not."""
    try:
        find_route(ROUTES, "OPTIONS", request.path)
    except MethodNotAllowed as failure:
        allowed = ", ".join((failure.details or {})["allow"])
        return Response(204, (("Allow", allowed),))
    return Response(204)


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
