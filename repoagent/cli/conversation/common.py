"""What the commands of the group share: the place where they are run, the names they take, the answers they give."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from repoagent.cli.screen.clean import one_line
from repoagent.dataclass import dataclass
from repoagent.errors import RepoagentError

if TYPE_CHECKING:
    from repoagent.cli.program.session import Session
    from repoagent.cli.screen.terminal import Terminal
    from repoagent.config import Settings
    from repoagent.memory.conversations.past import Change
    from repoagent.memory.conversations.places import Here, Place
    from repoagent.repo import WorkTree
    from repoagent.store import Layout

F = TypeVar("F", bound=Callable[..., Any])
VERSION = 1
GROUP = "repoagent conversation"


def examples(*lines: str, more: str = "") -> str:
    """The end of a command's help: what comes behind `repoagent conversation` in each example, and `more`."""
    shown = "\n".join(f"  {GROUP} {line}" for line in lines)
    return f"\b\nExamples:\n{shown}{more}"


def complete_name(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The names that begin so; nothing where there is no repository, for a shell has no use for errors."""
    from repoagent.cli.program.session import find_layout
    from repoagent.memory.conversations.names import names

    try:
        layout = find_layout()
        return [] if layout is None else [name for name in names(layout) if name.startswith(incomplete)]
    except (RepoagentError, OSError):
        return []


def name_argument(parameter: str = "name", metavar: str = "NAME") -> Callable[[F], F]:
    """The argument that names a conversation that is there."""
    return click.argument(parameter, metavar=metavar, shell_complete=complete_name)


@dataclass(frozen=True)
class Desk:
    """Where a command is run, with the terminal and the settings that hold there."""

    worktree: WorkTree
    layout: Layout
    here: Here
    settings: Settings
    terminal: Terminal


def open_desk(session: Session, flags: Mapping[str, object] | None = None) -> Desk:
    """Open the repository that we are in. Raises UsageError outside of one."""
    from repoagent.memory.conversations import here
    from repoagent.repo.worktree import layout, open_worktree

    cwd = Path.cwd()
    worktree = open_worktree(cwd)
    place = layout(worktree)
    settings, terminal = session.open(place, flags)

    def why_not(path: str) -> str:
        from repoagent.edit.verify.scope import gate

        return gate(worktree.top, [path])(path) or ""

    at = here(place, worktree, cwd, why_not=why_not, warn=terminal.warn)
    return Desk(worktree, place, at, settings, terminal)


def say_change(
    desk: Desk, command: str, place: Place, done: Change, sentence: str, *, as_json: bool, **more: object
) -> None:
    """What a command has done: a sentence, or JSON data."""
    if as_json:
        value = {
            "version": VERSION,
            "command": command,
            "name": place.name,
            "kind": place.kind,
            "path": str(place.path),
            "changed": done.before != done.after,
            "before": done.before or None,
            "after": done.after or None,
            **more,
        }
        desk.terminal.result(json.dumps(value, indent=2) + "\n")
        return
    desk.terminal.styled(f"{one_line(sentence)}\n")


def turns(count: int) -> str:
    """ "1 turn", "12 turns"."""
    return f"{count:,} turn{'s' * (count != 1)}"


def word(name: str) -> str:
    """A name as it can be typed in a shell."""
    import shlex

    return shlex.quote(name)
