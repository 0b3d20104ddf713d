"""The repository of the current folder, its settings and the terminal: the arguments of most commands."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from functools import update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from repoagent.cli.session import Session, emit, json_option, pass_session
from repoagent.errors import NothingDone, UsageError

if TYPE_CHECKING:
    from repoagent.cli.ui.terminal import Terminal
    from repoagent.config.settings import Settings
    from repoagent.git.worktree import WorkTree
    from repoagent.storage.layout import Layout

R = TypeVar("R")


class Repository(NamedTuple):
    """The repository, the settings and the terminal of a command. `as_json`: it has the option --json."""

    worktree: WorkTree
    layout: Layout
    settings: Settings
    terminal: Terminal
    cwd: Path
    as_json: bool = False

    def emit(
        self, content: Mapping[str, object], lines: Iterable[str] = (), *, notes: Iterable[str] = ()
    ) -> None:
        """Print the result of the command; see `session.emit`."""
        emit(self.terminal, content, lines, as_json=self.as_json, notes=notes)

    def relative(self, path: str | Path) -> str:
        """A path of the command line, relative to the top. Raises UsageError for one outside the repository."""
        from repoagent.git.worktree import relative

        return relative(self.worktree, path, self.cwd)

    def settle(self) -> None:
        """Complete or roll back interrupted edits, with a note about each; the first step of a command that writes."""
        from repoagent.cli.app import settle

        settle(self.worktree, self.terminal)

    def shown(self, path: Path) -> str:
        """The path of a file of repoagent: relative to the current folder or, if shorter, absolute."""
        near = os.path.relpath(path, self.cwd)
        return near if len(near) < len(str(path)) else str(path)

    def confirm(self, question: str, choices: tuple[str, str], *, refusal: str, declined: str) -> None:
        """Ask yes or no; `choices` describes both. Raises UsageError(`refusal`) without a terminal or with --json, and
        NothingDone(`declined`) for a no."""
        if self.as_json or not self.terminal.can_ask:
            raise UsageError(refusal)
        if self.terminal.ask(question, dict(zip("yn", choices, strict=True))) == "n":
            raise NothingDone(declined)


def open_repository(
    session: Session, flags: Mapping[str, object] | None = None, *, as_json: bool = False
) -> Repository:
    """The repository of the current folder, with the settings that `flags` override. Raises UsageError outside one."""
    from repoagent.git.worktree import layout, open_worktree

    cwd = Path.cwd()
    worktree = open_worktree(cwd)
    dirs = layout(worktree)
    return Repository(worktree, dirs, *session.open(dirs, flags), cwd, as_json)


def pass_repository(command: Callable[..., R]) -> Callable[..., R]:
    """Decorator: add the option `--json`, and pass the repository of the current folder to the command."""

    @json_option
    @pass_session
    def opened(session: Session, /, *, as_json: bool, **values: Any) -> R:
        return command(open_repository(session, as_json=as_json), **values)

    return update_wrapper(cast("Callable[..., R]", opened), command)


def find_worktree(*, refused_ok: bool = False) -> WorkTree | None:
    """The work tree of the current folder, None outside one. With `refused_ok`, also None for a repository that
    cannot be trusted or read; otherwise that raises UsageError."""
    from repoagent.git.worktree import NoWorkTree, open_worktree

    try:
        return open_worktree(Path.cwd())
    except UsageError as error:
        if refused_ok or isinstance(error, NoWorkTree):
            return None
        raise
