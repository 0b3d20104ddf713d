"""What a tool is for the server, and one call of it: plain values, without the protocol."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from repoagent.dataclass import dataclass
from repoagent.work.mcp.shape import Schema

if TYPE_CHECKING:
    from repoagent.llm.media import Media


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
