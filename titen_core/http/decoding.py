"""From bytes and query strings to validated models, with errors that name the field and the bound."""

import json
from collections.abc import Mapping
from typing import Any, NoReturn, TypeVar, get_origin

import pydantic

from titen_core import limits
from titen_core.content import refusal
from titen_core.errors import UnsupportedMediaType, ValidationError
from titen_core.http.messages import Request
from titen_core.http.schemas.fields import AS_TEXT
from titen_core.nesting import nests_deeper

__all__ = ["decode_body", "decode_query", "expected_version", "parse_json", "require_media_type", "validated"]

M = TypeVar("M", bound=pydantic.BaseModel)

_ERRORS_SHOWN = 5
_VERSION_DIGITS = 16


def decode_body(request: Request, model: type[M], *, optional: bool = False) -> M:
    """The JSON body as `model`. An empty body counts as `{}` where `optional`.

    Raises UnsupportedMediaType or ValidationError.
    """
    if optional and not request.body.strip():
        return validated(model, {})
    require_media_type(request, "application/json")
    return validated(model, parse_json(request.body))


def decode_query(request: Request, model: type[M]) -> M:
    """The query string as `model`; a parameter may repeat only where the model holds a list."""
    found: dict[str, Any] = {}
    for name, values in request.parameters().items():
        field = model.model_fields.get(name)
        if field is not None and _holds_list(field.annotation):
            found[name] = values
        elif len(values) > 1:
            raise refusal(name, "must be given once")
        else:
            found[name] = values[0]
    return validated(model, found, as_text=True)


def require_media_type(request: Request, expected: str) -> None:
    """Raises UnsupportedMediaType unless the body says it is `expected`, in UTF-8."""
    kind, _, parameters = request.headers.get("content-type", "").partition(";")
    charset = parameters.strip().lower()
    if kind.strip().lower() != expected or charset not in {"", "charset=utf-8", 'charset="utf-8"'}:
        raise UnsupportedMediaType(f"Send the body as `Content-Type: {expected}`, in UTF-8.")


def expected_version(request: Request, named: int | None) -> int | None:
    """The version a change is conditional on: `If-Match` or `expected_version`, which must agree."""
    header = request.headers.get("if-match")
    if header is None or header.strip() == "*":
        return named
    digits = header.strip().removeprefix("W/").strip('"')
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _VERSION_DIGITS):
        raise refusal("If-Match", "must be a version such as 3")
    if named is not None and named != int(digits):
        raise refusal("expected_version", "differs from If-Match; send one of them")
    return int(digits)


def parse_json(body: bytes) -> Any:
    """A JSON value within our bounds: UTF-8, finite, no member twice, not too deep. Raises ValidationError."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as failure:
        raise ValidationError("The body is not valid UTF-8.") from failure
    if nests_deeper(text, limits.JSON_DEPTH):
        raise ValidationError(f"The body nests deeper than {limits.JSON_DEPTH} levels.")
    try:
        return json.loads(
            text, parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_refuse_repeated
        )
    except (ValueError, RecursionError) as failure:
        raise ValidationError("The body is not valid JSON.") from failure


def _refuse_constant(name: str) -> NoReturn:
    raise ValidationError(f"The body holds {name}, which is not JSON; send a finite number.")


def _finite(text: str) -> float:
    value = float(text)
    if value in {float("inf"), float("-inf")}:
        raise ValidationError("The body holds a number too large to represent; send a finite number.")
    return value


def _refuse_repeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValidationError("The body names a field twice; name each once.")
    return found


def validated(model: type[M], value: Any, *, as_text: bool = False) -> M:
    """A JSON value as `model`. Raises ValidationError."""
    if not isinstance(value, Mapping):
        raise ValidationError("The body must be a JSON object.")
    try:
        return model.model_validate(value, context={AS_TEXT: as_text})
    except pydantic.ValidationError as failure:
        raise _readable(failure) from None


def _readable(failure: pydantic.ValidationError) -> ValidationError:
    problems = failure.errors(include_url=False, include_context=False, include_input=False)
    fields = [".".join(str(part) for part in problem["loc"]) or "body" for problem in problems]
    sentences = [
        f"{field}: {_sentence(problem['type'], problem['msg'])}"
        for field, problem in zip(fields, problems, strict=True)
    ]
    shown = "; ".join(sentences[:_ERRORS_SHOWN])
    return ValidationError(f"{shown}.", details={"fields": list(dict.fromkeys(fields))[:_ERRORS_SHOWN]})


def _sentence(kind: str, message: str) -> str:
    known = {
        "extra_forbidden": "is not known here; remove it or check its spelling",
        "missing": "is required",
        "string_unicode": "must be valid Unicode without half of a surrogate pair",
    }
    return known.get(kind, message[:1].lower() + message[1:])


def _holds_list(annotation: Any) -> bool:
    return annotation is list or get_origin(annotation) is list
