"""JSON schemas, in as few words as they can be said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Schema = dict[str, Any]

PATH_LENGTH = 4096
TEXT_LENGTH = 4_000_000  # characters of a patch


def text(description: str, *, most: int = PATH_LENGTH, least: int = 1, **more: Any) -> Schema:
    return {"type": "string", "minLength": least, "maxLength": most, "description": description, **more}


def whole(description: str, least: int, most: int, default: int | None = None) -> Schema:
    found: Schema = {"type": "integer", "minimum": least, "maximum": most, "description": description}
    return found if default is None else {**found, "default": default}


def yes_no(description: str, *, default: bool) -> Schema:
    return {"type": "boolean", "default": default, "description": description}


def some(item: Schema, description: str, *, most: int = 100, least: int = 0) -> Schema:
    return {"type": "array", "items": item, "minItems": least, "maxItems": most, "description": description}


def takes(required: Sequence[str], **properties: Schema) -> Schema:
    """The arguments of a tool."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def gives(**properties: str | Schema) -> Schema:
    """An object of the result, all of whose properties are there. A word stands for a type; `?` after it says that it
    may be null, `*` that it is a list of such."""
    return {
        "type": "object",
        "properties": {name: _meant(given) for name, given in properties.items()},
        "required": list(properties),
    }


def listed(item: Schema) -> Schema:
    return {"type": "array", "items": item}


_TYPES: Mapping[str, str] = {"text": "string", "whole": "integer", "number": "number", "yes": "boolean"}


def _meant(given: str | Schema) -> Schema:
    if not isinstance(given, str):
        return given
    kind = _TYPES[given.rstrip("?*")]
    if given.endswith("*"):
        return listed({"type": kind})
    return {"type": [kind, "null"]} if given.endswith("?") else {"type": kind}
