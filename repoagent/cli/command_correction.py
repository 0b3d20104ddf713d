"""Correct a command line with a mistyped file, or a task instead of a command, and run it if the user agrees."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from repoagent.cli.session import Session
from repoagent.errors import NothingDone, UsageError
from repoagent.git.similar_paths import NoSuchFile

if TYPE_CHECKING:
    from repoagent.cli.ui.terminal import Terminal

# commands that change nothing and cost nothing: they use the corrected file name without asking
READ_ONLY = {"context", "conversation show", "history", "memory list", "memory show", "neighbors", "outline"}
READ_ONLY |= {"recall", "review", "uses"}
_FILE = re.compile(
    r"(--[\w-]+=|file:|)([^:]*)(:\S+|)"
)  # FILE, FILE:10-40, FILE::symbol, file:FILE, --option=FILE
_DECIDED = {"-y", "--yes", "-n", "--dry-run", "--show-prompt"}


class Task(UsageError):
    """A task instead of a file or a command. `command` is the command before it, "" if none."""

    def __init__(self, problem: str, task: str, command: str = "") -> None:
        self.problem, self.task, self.command = problem, task, command
        super().__init__(f"{problem}; did you mean `repoagent run {shlex.quote(task)}`?")


def corrected(error: UsageError, ctx: click.Context, name: str, arguments: Sequence[str]) -> list[str] | None:
    """The corrected arguments, None without a clear correction. Raises NothingDone if the user declines."""
    terminal = (ctx.find_object(Session) or Session()).terminal()
    if isinstance(error, Task):
        start = arguments.index(error.command or error.task)
        instead = [*arguments[:start], "run", *arguments[start + bool(error.command) :]]
        question = f"{error.problem}. Run this as a task with `{name} run`"
        return instead if _agreed(terminal, question) else None
    if not isinstance(error, NoSuchFile) or error.match is None:
        return None
    match, wrong = os.path.relpath(error.match), os.path.relpath(error.path)
    instead = [_with_match(argument, error.path, match) for argument in arguments]
    if instead == [*arguments]:
        return None
    command = arguments[arguments.index(ctx.invoked_subcommand or "") :][:2]
    is_free = {" ".join(command), command[0]} & READ_ONLY and "--summary" not in arguments
    if is_free or _DECIDED.intersection(arguments):
        terminal.note(f"no such file: {wrong}; using {match}", "dim")
        return instead
    return instead if _agreed(terminal, f"no such file: {wrong}. Use {match}") else None


def _with_match(argument: str, missing: Path, match: str) -> str:
    """`argument` with `match` for the missing file, unless the user chose its folder."""
    parts = _FILE.fullmatch(argument)
    if parts is None or parts[2].startswith(("./", "../", "/")):
        return argument
    is_missing = Path(os.path.normpath(Path(os.path.realpath(Path.cwd()), parts[2]))) == missing
    return f"{parts[1]}{match}{parts[3]}" if is_missing else argument


def _agreed(terminal: Terminal, question: str) -> bool:
    if not terminal.can_ask:
        return False
    if terminal.ask(question, {"y": "yes", "n": "no, do nothing"}, default="y") == "n":
        raise NothingDone("nothing was done")
    return True
