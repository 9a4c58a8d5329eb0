"""Between Python and JavaScript: the only file that touches a JavaScript value.

Structures cross as JSON text: one call each way, and NaN arrives as null instead of as a number. Vectors
cross as a typed array, which copies memory once. The SDK's wrappers around bindings convert element by
element, so the raw bindings are used.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import js
from pyodide.ffi import JsException, jsnull, to_js

from adapters.cloudflare.bindings import BindingError
from titen_core.limits import JSON_DEPTH
from titen_core.nesting import nests_deeper
from titen_core.protocols import Row, SqlValue, Statement, Vector

__all__ = [
    "JsAi",
    "JsD1",
    "JsVectorize",
    "body_bytes",
    "javascript_response",
    "print_line",
    "request_head",
    "setting",
]


class JsD1:
    """A `D1Binding` over `env.DB`."""

    def __init__(self, binding: Any) -> None:
        self._database = _raw(binding)
        self.size_bytes: int | None = None

    async def query(self, statement: Statement) -> list[Row]:
        try:
            answer = await self._prepared(statement).all()
        except JsException as failure:
            _fail(failure)
        rows: list[Row] = _python(answer.results)
        return rows

    async def batch(self, statements: Sequence[Statement]) -> list[list[Row]]:
        try:
            answers = await self._database.batch(to_js([self._prepared(statement) for statement in statements]))
        except JsException as failure:
            _fail(failure)
        told = _python(answers)
        self.size_bytes = told[-1].get("meta", {}).get("size_after", self.size_bytes)
        return [answer["results"] for answer in told]

    def _prepared(self, statement: Statement) -> Any:
        prepared = self._database.prepare(statement.sql)
        return prepared.bind(*map(_parameter, statement.params)) if statement.params else prepared


class JsVectorize:
    """A `VectorizeBinding` over `env.VECTORIZE`."""

    def __init__(self, binding: Any) -> None:
        self._index = _raw(binding)

    async def describe(self) -> Mapping[str, Any]:
        try:
            found: Mapping[str, Any] = _python(await self._index.describe())
        except JsException as failure:
            _fail(failure)
        return found

    async def query(self, vector: Vector, options: Mapping[str, Any]) -> list[tuple[str, float]]:
        try:
            answer = await self._index.query(to_js(vector), _javascript(options))
        except JsException as failure:
            _fail(failure)
        return [(match["id"], float(match["score"])) for match in _python(answer)["matches"]]

    async def upsert(self, vectors: Sequence[tuple[Mapping[str, Any], Vector]]) -> None:
        records = _javascript([record for record, _ in vectors])
        for position, (_, vector) in enumerate(vectors):
            records[position].values = to_js(vector)
        try:
            await self._index.upsert(records)
        except JsException as failure:
            _fail(failure)

    async def present(self, ids: Sequence[str]) -> list[str]:
        try:
            found = await self._index.getByIds(_javascript(list(ids)))
        except JsException as failure:
            _fail(failure)
        return [vector.id for vector in found]  # their values stay in JavaScript

    async def delete(self, ids: Sequence[str]) -> None:
        try:
            await self._index.deleteByIds(_javascript(list(ids)))
        except JsException as failure:
            _fail(failure)


class JsAi:
    """An `AiBinding` over `env.AI`."""

    def __init__(self, binding: Any) -> None:
        self._models = _raw(binding)

    async def run(self, model: str, inputs: Mapping[str, Any]) -> Any:
        try:
            text = js.JSON.stringify(await self._models.run(model, _javascript(inputs)))
        except JsException as failure:
            _fail(failure)
        if text is None or nests_deeper(text, JSON_DEPTH):  # in JSON mode the model decides how deep
            raise BindingError("The model's answer is no value, or nests too deep to be read.")
        return json.loads(text)


def setting(env: Any, name: str) -> Any:
    """A binding or a variable of the Worker, or None where it is not configured."""
    value = getattr(env, name, None)
    return None if value is None or value is jsnull else value


def request_head(request: Any) -> tuple[str, str, list[tuple[str, str]]]:
    """Method, URL and headers of the SDK's Request."""
    incoming = request.js_object
    headers: list[tuple[str, str]] = _python(js.Array.from_(incoming.headers))
    return incoming.method, incoming.url, headers


async def body_bytes(request: Any, limit_bytes: int) -> bytes | None:
    """The body, or None as soon as it is longer than the limit; the rest is then not read.

    Raises `BindingError` where the client left before it was all here.
    """
    incoming = request.js_object
    stream = incoming.body
    if stream is None or stream is jsnull:
        return b""
    if _stated_length(incoming, limit_bytes) <= limit_bytes:
        return await _whole_body(incoming)
    reader, body = stream.getReader(), bytearray()
    try:
        while not (part := await reader.read()).done:
            body += part.value.to_bytes()
            if len(body) > limit_bytes:
                await reader.cancel()
                return None
    except JsException as failure:
        _fail(failure)
    return bytes(body)


def _stated_length(incoming: Any, limit_bytes: int) -> int:
    """What `Content-Length` says; HTTP ends the body there, so it needs no counting. Without one: too long."""
    stated = incoming.headers.get("content-length")
    return int(stated) if isinstance(stated, str) and stated.isascii() and stated.isdigit() else limit_bytes + 1


async def _whole_body(incoming: Any) -> bytes:
    try:
        content: bytes = (await incoming.arrayBuffer()).to_bytes()
    except JsException as failure:
        _fail(failure)
    return content


def print_line(text: str) -> None:
    """One line to the Worker's log. Python's own output would cross to JavaScript letter by letter."""
    js.console.log(text)


def javascript_response(status: int, headers: Sequence[tuple[str, str]], body: bytes | None) -> Any:
    """A JavaScript Response; the body is copied, so that it outlives the Python bytes."""
    content = jsnull if body is None else to_js(body)
    pairs = _javascript([list(pair) for pair in headers])
    return js.Response.new(content, status=status, headers=js.Headers.new(pairs))


def _raw(binding: Any) -> Any:
    return getattr(binding, "_binding", binding)


def _parameter(value: SqlValue) -> Any:
    """As D1 takes it: null and not undefined, text and not a subclass of it, bytes as a typed array."""
    match value:
        case None:
            return jsnull
        case bool():
            return int(value)
        case str():
            return str(value)
        case bytes():
            return to_js(value)
        case _:
            return value


def _python(value: Any) -> Any:
    text = js.JSON.stringify(value)
    return None if text is None else json.loads(text)


def _javascript(value: Any) -> Any:
    return js.JSON.parse(json.dumps(value))


def _fail(failure: JsException) -> NoReturn:
    raise BindingError(str(failure)) from None
