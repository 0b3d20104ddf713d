"""Tools of installed packages: the entry-point group `repoagent.tools`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from repoagent.agent import Action, Observation, Tool
from repoagent.dataclass import dataclass
from repoagent.errors import Refused, RepoagentError, UsageError
from repoagent.work.texts import cut, one_line

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "repoagent.tools"

T = TypeVar("T")


def _nothing(event: Mapping[str, object]) -> None:
    pass


@dataclass(frozen=True)
class Context:
    """What the function of an entry point is given.

    top: of the work tree. settings: what the person's configuration says under `tool.NAME`, NAME being that of the
    entry point; texts. audit: writes an event to `audit.jsonl`.
    """

    top: Path
    settings: Mapping[str, str]
    audit: Callable[[Mapping[str, object]], None] = _nothing


@dataclass(frozen=True)
class PluginTool(Tool):
    """A tool that says whether it only reads; a plain `Tool` is asked about as one that may do anything."""

    reads_only: bool = False


def installed() -> tuple[EntryPoint, ...]:
    """The entry points there are, by name."""
    from importlib.metadata import entry_points

    return tuple(sorted(entry_points(group=GROUP), key=lambda point: point.name))


class Defect(Refused):
    """Something is wrong in code that is not ours; worded as the end of a sentence."""


def tools_of(point: EntryPoint, context: Context) -> list[Tool]:
    """The tools that an entry point makes. Raises Defect, whatever is wrong with it."""
    return _contained(lambda: list(_checked(point.load()(context))))


def _checked(made: object) -> Iterator[Tool]:
    for tool in made if isinstance(made, Iterable) else [made]:
        if not isinstance(tool, Tool):
            raise Defect(f"returns {type(tool).__name__} where a Tool has to be")
        yield tool


def contained(tool: Tool) -> Tool:
    """The same tool, but what is wrong in it is told to the model, and does not end the run."""

    def perform(action: Action) -> Observation:
        try:
            seen: object = _contained(lambda: tool.perform(action))
        except Defect as error:
            return Observation(tool.name, f"the tool {tool.name} {error}.", ok=False)
        except (Refused, UsageError) as error:
            return Observation(tool.name, str(error), ok=False)
        if not isinstance(seen, Observation):
            return Observation(tool.name, f"the tool {tool.name} did not say what came of it.", ok=False)
        return seen

    return replace(tool, perform=perform)


def _contained(make: Callable[[], T]) -> T:
    """What `make` returns. Anything may come out of other people's code, and here it is a sentence."""
    try:
        return make()
    except RepoagentError:
        raise
    except (Exception, SystemExit) as error:
        said = cut(one_line(str(error)), 200)
        raise Defect(f"failed: {type(error).__name__}" + (f": {said}" if said else "")) from error
