"""A tool (`Tool`) and its input (`ToolCall`); the decorator `tool` turns a function into a tool."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from repoagent.dataclass import dataclass
from repoagent.errors import Refused

if TYPE_CHECKING:
    from repoagent.api.repository import Repository
    from repoagent.edit.guards.off_limits import WhyNot
    from repoagent.git.worktree import WorkTree
    from repoagent.llm.media import Media

Schema = dict[str, Any]
Answer: TypeAlias = "str | tuple[str, Media]"

PATH_LENGTH = 4096


def text(description: str, maximum: int = PATH_LENGTH) -> Schema:
    """Return the schema of a non-empty string of at most `maximum` characters."""
    return {"type": "string", "minLength": 1, "maxLength": maximum, "description": description}


def integer(description: str, maximum: int) -> Schema:
    """Return the schema of an integer from 1 to `maximum`, inclusive."""
    return {"type": "integer", "minimum": 1, "maximum": maximum, "description": description}


def boolean(description: str) -> Schema:
    return {"type": "boolean", "description": description}


def array(item: Schema, description: str, minimum: int = 0, maximum: int = 100) -> Schema:
    """Return the schema of a list of `minimum` to `maximum` values, each with the schema `item`."""
    return {
        "type": "array", "items": item, "minItems": minimum, "maxItems": maximum, "description": description
    }  # fmt: skip


class Progress(Protocol):
    def __call__(self, message: str, done: float | None = None, total: float | None = None) -> None:
        """Report the current step of a call, and that `done` of `total` is complete."""
        ...


@dataclass(frozen=True)
class Service:
    """The options of the server.

    `review` may call `model`; `max_cost`, in US dollars, limits its cost. A call that writes holds the lock `writing`.
    """

    cwd: Path
    write: bool = False
    model: str | None = None
    max_cost: float | None = None
    writing: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True)
class ToolCall:
    """A tool call.

    `why_not` returns the reason why a file may not be shown. `cancelled` is set once the client no longer waits for the
    answer.
    """

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
        """Return `path` normalized. With `folder`, it may be a folder, and "." means the top of the work tree.

        Raises Refused for a path outside the work tree or in `.git`, and for a withheld file.
        """
        from repoagent.git.files import check_path

        path = path.removeprefix("./").rstrip("/") or path
        if folder and path in (".", "./"):
            return "."
        check_path(path)
        if reason := self.why_not(path):
            raise Refused(reason)
        return path


@dataclass(frozen=True)
class Tool:
    """A tool of the server.

    `perform` runs in a thread, with valid arguments, and returns a text and possibly an image; its RepoagentErrors are
    sent to the client. `writes`: the tool may change files. `open_world`: it may call a model.
    """

    name: str
    title: str
    description: str
    arguments: Schema
    perform: Callable[..., Answer]
    writes: bool = False
    open_world: bool = False


def tool(title: str, description: str, **properties: Schema) -> Callable[[Callable[..., Answer]], Tool]:
    """Turn a function of a `ToolCall` into a tool whose arguments are the other parameters, described by `properties`.

    A parameter without a default is required; a default of None is left out of the schema.
    """

    def make(function: Callable[..., Answer]) -> Tool:
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
        return Tool(function.__name__, title, description, arguments, function)

    return make
