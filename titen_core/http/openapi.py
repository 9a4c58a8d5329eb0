"""The OpenAPI 3.1 document, made from the route table and the models.

It is a build artifact (`titen_core/http/openapi.json`): building the models' schemas at run time
would cost a Worker more than a recall. `python -m titen_core.http.openapi` writes it; a test holds
it to the routes.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pydantic
from pydantic.json_schema import models_json_schema

from titen_core import __version__
from titen_core.http.plain_schema import plain_properties
from titen_core.http.routes import ROUTES
from titen_core.http.routing import Route
from titen_core.http.schemas.answers import ErrorAnswer, Meta
from titen_core.models import Action

__all__ = ["ARTIFACT", "build_openapi", "render"]

ARTIFACT = Path(__file__).with_name("openapi.json")

_REF = "#/components/schemas/{model}"

_REASONS = {
    200: "Done.",
    201: "Stored as a new memory or key.",
    400: "Something in the request is wrong; the message names the field and the bound.",
    401: "No valid API key.",
    403: "The key may not do this.",
    404: "Unknown, deleted, or out of this key's reach.",
    405: "The path does not answer this method.",
    409: "The change clashes with the present state.",
    413: "The body is too large.",
    415: "The body's content type is not accepted.",
    429: "A limit of the tenant is reached.",
    500: "A fault on the service's side.",
    502: "The chat model failed or answered junk; nothing was stored.",
    503: "Not ready or busy; try again.",
    507: "The store has no space left.",
}


def build_openapi(routes: Sequence[Route]) -> dict[str, Any]:
    """The whole document as a JSON value."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Titen",
            "version": __version__,
            "summary": "A memory service for AI agents.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "securitySchemes": {"api_key": {"type": "http", "scheme": "bearer", "description": "titen_<id>_<secret>"}},
            "schemas": _schemas(routes),
        },
    }


def render(document: dict[str, Any]) -> str:
    """The document as the artifact holds it."""
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "parameters": _parameters(route),
        "responses": _responses(route),
        "security": [] if route.action is Action.NONE else [{"api_key": []}],
    }
    if route.body is not None:
        content = {"application/json": {"schema": _ref(route.body)}}
        operation["requestBody"] = {"required": not route.body_optional, "content": content}
    elif route.body_media_type != "application/json":
        schema = {"type": "string", "description": "One JSON record a line."}
        operation["requestBody"] = {"required": True, "content": {route.body_media_type: {"schema": schema}}}
    return operation


def _parameters(route: Route) -> list[dict[str, Any]]:
    named = [segment[1:-1] for segment in route.path.split("/") if segment.startswith("{")]
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}} for name in named
    ]
    for name, schema in plain_properties(route.query).items():
        required = route.query.model_fields[name].is_required()
        parameters.append({"name": name, "in": "query", "required": required, "schema": schema})
    if route.idempotent:
        parameters.append(_header("Idempotency-Key", {"type": "string", "minLength": 1, "maxLength": 255}))
    if route.method in {"PATCH", "PUT", "DELETE"} and route.path in {"/v1/memories/{id}", "/memory/{id}"}:
        parameters.append(_header("If-Match", {"type": "string", "pattern": '^"?[1-9][0-9]{0,9}"?$'}))
    return parameters


def _header(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "header", "required": False, "schema": schema}


def _responses(route: Route) -> dict[str, Any]:
    good = {str(status): _success(route, status) for status in route.statuses}
    statuses = {400, 500, 503, 507, *route.errors}
    if route.action is not Action.NONE:
        statuses |= {401, 403}
    if route.body is not None or route.body_media_type != "application/json":
        statuses |= {413, 415}
    error = {"application/json": {"schema": _ref(ErrorAnswer)}}
    bad = {
        str(status): {"description": _REASONS[status], "content": error}
        for status in sorted(statuses)
        if status not in route.statuses
    }
    return {**good, **bad}


def _success(route: Route, status: int) -> dict[str, Any]:
    if route.answer is None:
        schema = {"type": "string"} if route.media_type != "application/json" else _open_object()
        return {"description": _REASONS[status], "content": {route.media_type: {"schema": schema}}}
    data: dict[str, Any] = {"type": "array", "items": _ref(route.answer)} if route.many else _ref(route.answer)
    if route.bare:
        return {"description": _REASONS[status], "content": {"application/json": {"schema": data}}}
    schema = _envelope(data, route.meta or Meta)
    if status == 200 and route.or_answer is not None:
        schema = {"anyOf": [schema, _envelope(_ref(route.or_answer), route.or_meta or Meta)]}
    return {"description": _REASONS[status], "content": {"application/json": {"schema": schema}}}


def _envelope(data: dict[str, Any], meta: type[pydantic.BaseModel]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"data": data, "meta": _ref(meta)},
        "required": ["data", "meta"],
        "additionalProperties": False,
    }


def _open_object() -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["openapi", "info", "paths"],
        "properties": {"openapi": {"type": "string"}},
        "additionalProperties": {"description": "as OpenAPI 3.1 says"},
    }


def _schemas(routes: Sequence[Route]) -> dict[str, Any]:
    models: list[type[pydantic.BaseModel]] = [ErrorAnswer, Meta]
    for route in routes:
        named = (route.body, route.answer, route.meta, route.or_answer, route.or_meta)
        models += [model for model in named if model is not None]
    unique = list(dict.fromkeys(models))
    _, schema = models_json_schema([(model, "validation") for model in unique], ref_template=_REF)
    definitions: dict[str, Any] = schema["$defs"]
    return {name: definitions[name] for name in sorted(definitions)}


def _ref(model: type[pydantic.BaseModel]) -> dict[str, str]:
    return {"$ref": _REF.format(model=model.__name__)}


if __name__ == "__main__":
    ARTIFACT.write_text(render(build_openapi(ROUTES)), encoding="utf-8")
