"""A tool (`Tool`), its input (`Call`) and output (`ToolResult`); the decorator `tool` turns a function into a tool."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from repoagent.dataclass import dataclass
from repoagent.errors import Refused

if TYPE_CHECKING:
    from repoagent.api.repository import Repository
    from repoagent.edit.guards.off_limits import WhyNot
    from repoagent.git.worktree import WorkTree
    from repoagent.llm.media import Media

Schema = dict[str, Any]

PATH_LENGTH = 4096
_TYPES = {"int": "integer", "bool": "boolean", "number": "number", "": "string"}


def text(description: str, maximum: int = PATH_LENGTH, **more: Any) -> Schema:
    """The schema of a non-empty string; `more` has further keywords."""
    return {"type": "string", "minLength": 1, "maxLength": maximum, "description": description, **more}


def integer(description: str, minimum: int, maximum: int) -> Schema:
    """The schema of an integer; both limits are inclusive."""
    return {"type": "integer", "minimum": minimum, "maximum": maximum, "description": description}


def boolean(description: str) -> Schema:
    """The schema of a boolean argument of a tool."""
    return {"type": "boolean", "description": description}


def array(item: Schema, description: str, minimum: int = 0, maximum: int = 100) -> Schema:
    """The schema of a list of `minimum` to `maximum` values, each with the schema `item`."""
    return {
        "type": "array", "items": item, "minItems": minimum, "maxItems": maximum, "description": description
    }  # fmt: skip


def shape(fields: str = "", **more: Any) -> Schema:
    """The schema of an object with these properties, all required. `fields` are names with types, such as "path
    lines:int[] last:number?"; the default is a string, `[]` is a list, `?` allows null. `more` has schemas by name; [X]
    is a list of X."""
    properties: Schema = {}
    for word in fields.split():
        name, _, kind = word.partition(":")
        bare = _TYPES[kind.rstrip("?[]")]
        null = [bare, "null"] if word.endswith("?") else bare
        properties[name.rstrip("?[]")] = (
            {"type": "array", "items": {"type": bare}} if word.endswith("[]") else {"type": null}
        )
    for name, value in more.items():
        properties[name] = {"type": "array", "items": value[0]} if isinstance(value, list) else value
    return {"type": "object", "properties": properties, "required": list(properties)}


class Progress(Protocol):
    def __call__(self, message: str, done: float | None = None, total: float | None = None) -> None:
        """Report the current step of a call, and that `done` of `total` is complete."""
        ...


@dataclass(frozen=True)
class Service:
    """The options of the server: the folder, whether it may write, the model that `review` may call, and the limit on
    its cost in US dollars. A call that writes holds the lock `writing`."""

    cwd: Path
    write: bool = False
    model: str | None = None
    max_cost: float | None = None
    writing: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True)
class Call:
    """A tool call, in a work tree that is looked up each time. `why_not` returns the reason why a file may not be
    shown; `cancelled` is set once the client no longer waits for the answer."""

    service: Service
    cancelled: threading.Event
    progress: Progress
    worktree: WorkTree
    why_not: WhyNot

    @property
    def repository(self) -> Repository:
        from repoagent.api.repository import Repository
        from repoagent.storage.layout import to_stderr

        return Repository.of(self.worktree, to_stderr)

    def path(self, path: str, *, folder: bool = False) -> str:
        """`path`, relative to the top, normalized; with `folder` it may be a folder, "." for the top. Raises Refused
        for a path outside the work tree or in `.git`, and for a withheld file."""
        from repoagent.git.files import check_path

        path = path.removeprefix("./").rstrip("/") or path
        if folder and path in (".", "./"):
            return "."
        check_path(path)
        if reason := self.why_not(path):
            raise Refused(reason)
        return path


@dataclass(frozen=True)
class ToolResult:
    """The result as text for a model, and as data that matches the tool's schema; for an image, also the image."""

    text: str
    data: Mapping[str, Any]
    image: Media | None = None


@dataclass(frozen=True)
class Tool:
    """A tool of the server. `perform` runs in a thread, with valid arguments; its RepoagentErrors are sent to the
    client. `writes`: it may change files. `open_world`: it may call a model."""

    name: str
    title: str
    description: str
    arguments: Schema
    result: Schema
    perform: Callable[..., ToolResult]
    writes: bool = False
    open_world: bool = False


def tool(
    title: str, description: str, result: Schema, **properties: Schema
) -> Callable[[Callable[..., ToolResult]], Tool]:
    """Turn a function of a `Call` into a tool. Its keyword parameters are the tool's arguments, described by
    `properties`. A parameter without a default is required; a default of None is left out of the schema."""

    def make(function: Callable[..., ToolResult]) -> Tool:
        _, *parameters = inspect.signature(function).parameters.values()
        schemas, required = {}, []
        for parameter in parameters:
            schema, default = properties[parameter.name], parameter.default
            if default is parameter.empty:
                required.append(parameter.name)
            elif default is not None:
                default = list(default) if isinstance(default, tuple) else default
                schema = {**schema, "default": default, **({"minLength": 0} if default == "" else {})}
            schemas[parameter.name] = schema
        arguments = {
            "type": "object", "properties": schemas, "required": required, "additionalProperties": False
        }  # fmt: skip
        return Tool(function.__name__, title, description, arguments, result, function)

    return make
