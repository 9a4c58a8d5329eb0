"""The route table's row, and finding the row of a request."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import pydantic

from titen_core.errors import MethodNotAllowed, NotFound
from titen_core.http.messages import Request, Response
from titen_core.http.schemas.requests import NoQuery, Query
from titen_core.kernel import Kernel
from titen_core.models import Access, Action, Principal

__all__ = ["Answer", "Call", "Handler", "Matched", "Route", "find_route"]


@dataclass(frozen=True, slots=True)
class Call:
    """Everything a handler may look at: the request, decoded, and what its caller may touch."""

    kernel: Kernel
    request: Request
    request_id: str
    params: Mapping[str, str]
    query: Any
    body: Any
    principal: Principal | None
    access: Access | None

    def granted(self) -> Access:
        """The access of a route that needs a key."""
        if self.access is None:
            raise AssertionError("This route's action gives no access.")
        return self.access


@dataclass(frozen=True, slots=True)
class Answer:
    """`data` for the envelope, with more `meta` members where there are any."""

    data: Any
    status: int = 200
    meta: Mapping[str, Any] = field(default_factory=dict)
    headers: tuple[tuple[str, str], ...] = ()


Handler = Callable[[Call], Awaitable[Answer | Response]]


@dataclass(frozen=True, slots=True)
class Route:
    """One line of the API: what it needs, what it takes, what it answers.

    `action` decides the role; `Action.NONE` needs no key. `answer` is the model of `data` (in a list
    where `many`; without the envelope where `bare`), or `or_answer` with `or_meta` where a 200 has two forms;
    `errors` are the statuses beyond those every route can give.
    """

    method: str
    path: str
    action: Action
    handler: Handler
    summary: str
    answer: type[pydantic.BaseModel] | None = None
    many: bool = False
    bare: bool = False
    meta: type[pydantic.BaseModel] | None = None
    or_answer: type[pydantic.BaseModel] | None = None
    or_meta: type[pydantic.BaseModel] | None = None
    query: type[Query] | type[pydantic.BaseModel] = NoQuery
    body: type[pydantic.BaseModel] | None = None
    body_optional: bool = False
    idempotent: bool = False
    statuses: Sequence[int] = (200,)
    errors: Sequence[int] = ()
    media_type: str = "application/json"
    body_media_type: str = "application/json"
    operation: str = ""

    @property
    def name(self) -> str:
        """The operation's name in logs and in OpenAPI."""
        return self.operation or self.handler.__name__


@dataclass(frozen=True, slots=True)
class Matched:
    """A route and the values of its path parameters, decoded."""

    route: Route
    params: Mapping[str, str]


def find_route(routes: Sequence[Route], method: str, path: str) -> Matched:
    """The route of a method and a raw path; one trailing slash is ignored.

    Raises NotFound, or MethodNotAllowed with the allowed methods in `details`.
    """
    segments = _segments(path)
    matches = [
        Matched(route, params) for route in routes if (params := _match(_segments(route.path), segments)) is not None
    ]
    most_literal = max((_literals(match.route) for match in matches), default=0)
    matches = [match for match in matches if _literals(match.route) == most_literal]
    wanted = "GET" if method == "HEAD" else method
    for match in matches:
        if match.route.method == wanted:
            return match
    if not matches:
        raise NotFound("There is nothing at this path; see GET / for what there is.")
    allowed = sorted({match.route.method for match in matches} | {"OPTIONS"})
    raise MethodNotAllowed(f"This path answers {', '.join(allowed)}.", details={"allow": allowed})


def _segments(path: str) -> list[str]:
    trimmed = path.removeprefix("/")
    return trimmed.removesuffix("/").split("/") if trimmed else []


def _match(template: Sequence[str], segments: Sequence[str]) -> dict[str, str] | None:
    if len(template) != len(segments):
        return None
    params: dict[str, str] = {}
    for pattern, segment in zip(template, segments, strict=True):
        if pattern.startswith("{"):
            try:
                params[pattern[1:-1]] = unquote(segment, errors="strict")
            except UnicodeDecodeError:
                return None
        elif pattern != segment:
            return None
    return params


def _literals(route: Route) -> int:
    return sum(not segment.startswith("{") for segment in _segments(route.path))
