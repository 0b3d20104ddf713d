"""What the commands of `repoagent memory` have in common."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from repoagent.cli.screen.clean import one_line
from repoagent.errors import RepoagentError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from click.shell_completion import CompletionItem

    from repoagent.cli.program.session import Session
    from repoagent.cli.screen.terminal import Terminal
    from repoagent.config import Settings
    from repoagent.memory.overview.find import Named
    from repoagent.repo.worktree import WorkTree
    from repoagent.store import Layout

VERSION = 1
_OFFERED = 500  # paths; a shell shows no more
_UNITS = ("B", "kB", "MB", "GB", "TB")


class Here(NamedTuple):
    """The repository a command is run in, and who it speaks to."""

    worktree: WorkTree
    layout: Layout
    settings: Settings
    terminal: Terminal
    cwd: Path

    def named(self, name: str, *, rekey: bool = False) -> Named:
        """What the person means by `name`; see `memory.overview.find.named`."""
        from repoagent.memory.overview.find import named

        return named(self.layout, self.worktree, name, self.cwd, warn=self.terminal.warn, rekey=rekey)

    def shown(self, path: Path) -> str:
        """A file of ours as the person can name it: from where they are, or whole where that is longer."""
        near = os.path.relpath(path, self.cwd)
        return near if len(near) < len(str(path)) else str(path)


def opened(session: Session, flags: Mapping[str, object] | None = None) -> Here:
    """Open the repository here. Raises UsageError where there is none."""
    from repoagent.repo.worktree import layout, open_worktree

    cwd = Path.cwd()
    worktree = open_worktree(cwd)
    place = layout(worktree)
    return Here(worktree, place, *session.open(place, flags), cwd)


def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Remembered paths that begin like this, as somebody in this folder writes them; any file where there are none.

    Nothing is said of what is wrong: a shell would show it in the middle of what is being typed.
    """
    from click.shell_completion import CompletionItem

    found: list[str] = []
    try:
        found = _remembered(incomplete)
    except (RepoagentError, OSError):
        pass  # no repository here, say
    taken = set(ctx.params.get(param.name or "") or ())
    items = [CompletionItem(path) for path in found if path not in taken and path.isprintable()]
    return items or [CompletionItem(incomplete, type="file")]


def _remembered(incomplete: str) -> list[str]:
    from repoagent.memory.overview.find import by_prefix
    from repoagent.repo.worktree import layout, open_worktree

    cwd = Path(os.path.realpath(Path.cwd()))
    worktree = open_worktree(cwd)
    typed = Path(os.path.normpath(cwd / incomplete))
    beginning = os.path.relpath(typed, worktree.top) if incomplete else os.path.relpath(cwd, worktree.top)
    if not incomplete or incomplete.endswith("/"):
        beginning = "" if beginning == "." else f"{beginning}/"
    if beginning.startswith("../"):
        return []
    paths = by_prefix(layout(worktree), worktree, beginning, _OFFERED)
    begun = incomplete[: incomplete.rfind("/") + 1]  # what the shell compares with is what was typed
    return [begun + os.path.relpath(worktree.top / path, cwd / begun) for path in paths]


def amount(size: float) -> str:
    """A size in bytes as people read it: 812 B, 12.4 kB, 3.1 MB."""
    for unit in _UNITS:
        if size < 1000 or unit == _UNITS[-1]:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1000
    return ""


def count(number: int, thing: str) -> str:
    """How many of a thing: 1 note, 2,000 notes, 3 memories."""
    if number == 1:
        return f"1 {thing}"
    return f"{number:,} {thing[:-1]}ies" if thing.endswith("y") else f"{number:,} {thing}s"


def name(path: str) -> str:
    """A path in a line to a person."""
    return one_line(path)
