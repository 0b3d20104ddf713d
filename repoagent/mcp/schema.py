"""The JSON schemas of the tools, and the values between server and tools: `Service`, `Call`, `Told`, `Offer`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from repoagent.dataclass import dataclass

if TYPE_CHECKING:
    from repoagent.llm.media import Media

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


class Progress(Protocol):
    def __call__(self, message: str, done: float | None = None, total: float | None = None) -> None:
        """Say what is being done, and how much of how much is."""
        ...


@dataclass(frozen=True)
class Service:
    """What the server was started with: the folder, whether it may write, and the model that `review` may ask, with
    what that may cost at most (US dollars). `writing` is held by the one call that writes."""

    cwd: Path
    write: bool = False
    model: str | None = None
    max_cost: float | None = None
    writing: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True)
class Call:
    """The arguments, as the tool's schema has them; `cancelled` is set when nobody waits for the answer any more."""

    service: Service
    arguments: Mapping[str, Any]
    cancelled: threading.Event
    progress: Progress


@dataclass(frozen=True)
class Told:
    """The answer, as text for a model and as data in the form of the tool's schema; and an image, where it is one."""

    text: str
    data: Mapping[str, Any]
    image: Media | None = None


@dataclass(frozen=True)
class Offer:
    """A tool. `perform` runs in a thread and raises RepoagentError with a sentence that the client is told. `writes`
    says that it may change files."""

    name: str
    title: str
    description: str
    takes: Schema
    gives: Schema
    perform: Callable[[Call], Told]
    writes: bool = False
    open_world: bool = False
