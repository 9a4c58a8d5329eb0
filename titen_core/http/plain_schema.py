"""JSON Schemas as readers of parameters and tools want them, made from pydantic's."""

from typing import Any

import pydantic

__all__ = ["plain_properties"]


def plain_properties(model: type[pydantic.BaseModel]) -> dict[str, Any]:
    """Each field's schema without references, titles, defaults and the `null` of optional fields."""
    schema = model.model_json_schema()
    definitions = schema.get("$defs", {})
    return {name: _plain(value, definitions) for name, value in schema.get("properties", {}).items()}


def _plain(schema: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_plain(part, definitions) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {name: _plain(value, definitions) for name, value in schema.items() if name not in {"title", "default"}}
    if "$ref" in kept:
        return {**_plain(definitions[kept.pop("$ref").rsplit("/", 1)[1]], definitions), **kept}
    choices = [choice for choice in kept.get("anyOf", []) if choice != {"type": "null"}]
    if len(choices) == 1:
        del kept["anyOf"]
        return {**choices[0], **kept}
    return {**kept, "anyOf": choices} if choices else kept
