"""The arguments of a call, held against the tool's schema: what a model is told when they are wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from repoagent.errors import UsageError
from repoagent.work.mcp.shape import Schema

_SHOWN = 200  # characters of a message
_AS_IT_STANDS = ("required", "additionalProperties")  # its message names keys, not values of any length


def checked(name: str, schema: Schema, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, with the defaults of those that were left out. Raises UsageError with the first thing that is
    wrong; values, which may be of any size, are not repeated."""
    from jsonschema import Draft202012Validator

    wrong = sorted(
        Draft202012Validator(schema).iter_errors(dict(arguments)),
        key=lambda error: list(map(str, error.path)),
    )
    if wrong:
        error = wrong[0]
        where = ".".join(str(part)[:40] for part in error.path)
        if error.validator in _AS_IT_STANDS:
            said = error.message[:_SHOWN]
        else:
            said = f"it has to keep to {error.validator} {error.validator_value}"[:_SHOWN]
        raise UsageError(f"{name}: {where + ': ' if where else ''}{said}")
    defaults = {
        key: entry["default"] for key, entry in schema.get("properties", {}).items() if "default" in entry
    }
    return {**defaults, **arguments}
