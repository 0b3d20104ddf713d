"""What a tool is (`Tool`), what it gets (`Call`) and gives (`ToolResult`), and a short notation for JSON schemas."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from repoagent.dataclass import dataclass
from repoagent.errors import Refused

if TYPE_CHECKING:
    from repoagent.config.settings import Settings
    from repoagent.edit.guards.off_limits import WhyNot
    from repoagent.git.worktree import WorkTree
    from repoagent.llm.media import Media

Schema = dict[str, Any]

PATH_LENGTH = 4096
PATCH_LENGTH = 4_000_000


def text(description: str, *, maximum: int = PATH_LENGTH, minimum: int = 1, **more: Any) -> Schema:
    return {"type": "string", "minLength": minimum, "maxLength": maximum, "description": description, **more}


def optional_text(description: str, *, maximum: int = PATH_LENGTH, default: str = "") -> Schema:
    return text(description, maximum=maximum, minimum=0, default=default)


def integer(description: str, minimum: int, maximum: int, default: int | None = None) -> Schema:
    schema: Schema = {"type": "integer", "minimum": minimum, "maximum": maximum, "description": description}
    return schema if default is None else {**schema, "default": default}


def boolean(description: str, *, default: bool) -> Schema:
    return {"type": "boolean", "default": default, "description": description}


def array(item: Schema, description: str, *, minimum: int = 0, maximum: int = 100) -> Schema:
    """A list; an optional one is empty by default."""
    schema = {
        "type": "array", "items": item, "minItems": minimum, "maxItems": maximum, "description": description
    }  # fmt: skip
    return schema if minimum else {**schema, "default": []}


def arguments(required: Sequence[str], **properties: Schema) -> Schema:
    """The schema of the arguments of a tool."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def result(value: Any) -> Schema:
    """The schema of a result, from an example of its types: {"path": "string", "last": "string?", "hits": [{...}]}. A
    `?` allows null; a tuple lists the possible values; all properties of an object are required."""
    if isinstance(value, Mapping):
        properties = {name: result(item) for name, item in value.items()}
        return {"type": "object", "properties": properties, "required": list(properties)}
    if isinstance(value, list):
        return {"type": "array", "items": result(value[0])}
    if isinstance(value, tuple):
        return {"enum": list(value)}
    return {"type": [value[:-1], "null"] if value.endswith("?") else value}


class Progress(Protocol):
    def __call__(self, message: str, done: float | None = None, total: float | None = None) -> None:
        """Report what a call is doing, and that `done` of `total` is complete."""
        ...


@dataclass(frozen=True)
class Service:
    """What the server was started with: the folder, whether it may write, the model that `review` may call, and its
    limit in US dollars. `writing` is held by the one call that writes."""

    cwd: Path
    write: bool = False
    model: str | None = None
    max_cost: float | None = None
    writing: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True)
class Call:
    """A call of a tool with valid arguments, in a work tree that is looked up for each call. `why_not` gives the reason
    why a file may not be shown; `cancelled` is set once the client no longer waits for the answer."""

    service: Service
    arguments: Mapping[str, Any]
    cancelled: threading.Event
    progress: Progress
    worktree: WorkTree
    why_not: WhyNot

    def path(self, path: str, *, folder: bool = False) -> str:
        """`path`, relative to the top, normalized; with `folder` it may be one, "." for the top. Raises Refused for a
        path outside the work tree or in `.git`, and for a withheld file."""
        from repoagent.git.files import check_path

        path = path.removeprefix("./").rstrip("/") or path
        if folder and path in (".", "./"):
            return "."
        check_path(path)
        if reason := self.why_not(path):
            raise Refused(reason)
        return path

    def settings(self, flags: Mapping[str, object] | None = None) -> Settings:
        from repoagent.config.layers import load
        from repoagent.git.worktree import layout

        return load(layout(self.worktree), cwd=self.worktree.top, flags=flags)


@dataclass(frozen=True)
class ToolResult:
    """The result as text for a model and as data that match the schema of the tool; for an image, also the image."""

    text: str
    data: Mapping[str, Any]
    image: Media | None = None


@dataclass(frozen=True)
class Tool:
    """`perform` runs in a thread; its RepoagentErrors are sent to the client. `writes`: it may change files.
    `open_world`: it may call a model."""

    name: str
    title: str
    description: str
    arguments: Schema
    result: Schema
    perform: Callable[[Call], ToolResult]
    writes: bool = False
    open_world: bool = False
