"""`repoagent hook`: have each commit or push reviewed by git's own hooks, beside those that are there."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import click

from repoagent.cli.program.app import LazyGroup
from repoagent.cli.program.session import Session, json_option, pass_session

if TYPE_CHECKING:
    from repoagent.review.hooks import Found, Hooks

VERSION = 1
NAMES = ("pre-commit", "commit-msg", "pre-push")

EXAMPLES = """\b
Examples:
  repoagent hook install                      review what is committed
  repoagent hook install --commit-msg         the same, and heed its trailers
  repoagent hook install --pre-push
  repoagent hook status
  repoagent hook uninstall

\b
A hook stops git (git commit --no-verify goes past it) only for findings from
the level of review.fail_on on. What keeps it from looking, a model that can't
be reached for one, is said in a line, and git goes on, unless --strict.

With commit-msg in place of pre-commit a trailer of the message counts:
  Review-Ignore: partner-missing docs/api.md

A hook that is there already is kept and runs first; `uninstall` brings it back
as it was. One that belongs to a program (pre-commit, husky, lefthook) or to
the repository is left alone, and what to add there is said."""


class Hook(LazyGroup):
    table: ClassVar[Mapping[str, tuple[str, str]]] = {
        "install": ("repoagent.cli.hook.command:install", "Install the hooks, next to those that exist."),
        "uninstall": ("repoagent.cli.hook.command:uninstall", "Remove them, and restore what was there."),
        "status": ("repoagent.cli.hook.command:status", "Show which hooks are installed, and by whom."),
        "run": ("repoagent.cli.hook.run:command", "Run a hook; for git and hook managers."),
    }


@click.group(cls=Hook, epilog=EXAMPLES, subcommand_metavar="COMMAND [ARGS]...")
def command() -> None:
    """Review each commit or push through git's hooks."""


def _chosen(function: Callable[..., None]) -> Callable[..., None]:
    for name, what in reversed(
        list(
            zip(NAMES, ("what is staged", "what is staged, with its message", "what is pushed"), strict=True)
        )
    ):
        function = click.option(f"--{name}", is_flag=True, help=f"The hook {name}: {what}.")(function)
    return function


@click.command(short_help="Install the hooks, next to those that exist.")
@_chosen
@click.option("--strict", is_flag=True, help="Let git stop also when the review itself fails.")
@click.option(
    "--everywhere", is_flag=True, help="Where core.hooksPath is shared with other repositories too."
)
@json_option
@pass_session
def install(session: Session, /, *, strict: bool, everywhere: bool, as_json: bool, **flags: bool) -> None:
    """Install hooks; without one named, pre-commit.

    Work trees of one repository share its hooks.
    """
    from repoagent.review.hooks import install as install_hooks

    names = _names(flags) or NAMES[:1]
    found = _look()
    told = install_hooks(found, names, _program(), strict=strict, everywhere=everywhere)
    _tell(session, told, as_json=as_json)


@click.command(short_help="Remove them, and restore what was there.")
@_chosen
@json_option
@pass_session
def uninstall(session: Session, /, *, as_json: bool, **flags: bool) -> None:
    """Remove our hooks; without one named, all of them. What was there before is there again."""
    from repoagent.review.hooks import uninstall as uninstall_hooks

    told = uninstall_hooks(_look(), _names(flags) or NAMES)
    _tell(session, told or ["there is no hook of repoagent here"], as_json=as_json)


@click.command(short_help="Show which hooks are installed, and by whom.")
@json_option
@pass_session
def status(session: Session, /, *, as_json: bool) -> None:
    """Show where git looks for hooks here, which are there, and whose they are."""
    found = _look()
    terminal = session.terminal()
    if as_json:
        rows = [
            {
                "name": one.name,
                "path": str(one.path),
                "state": one.state,
                "manager": one.manager.name if one.manager else None,
                "before": one.before,
                "executable": one.runs,
            }
            for one in found.found
        ]
        content = {
            "version": VERSION, "folder": str(found.folder), "whose": found.whose, "off": found.off or None,
            "hooks": rows,
        }  # fmt: skip
        terminal.result(json.dumps(content, indent=2) + "\n")
        return
    if found.off:
        terminal.result(f"git runs no hooks here, since {found.off}\n")
        return
    terminal.result(f"hooks are in {found.folder}{_WHOSE[found.whose]}\n")
    for one in found.found:
        terminal.result(f"{one.name:<10}  {_state(one)}\n")


_WHOSE = {
    "repository": "",
    "team": ", which is part of the repository",
    "everywhere": ", which other repositories use too",
}


def _state(found: Found) -> str:
    before = ", after the one that was there" if found.before else ""
    if found.state == "managed" and found.manager:
        return f"of {found.manager.name}"
    idle = "" if found.runs else ", not executable: git does not run it"
    return {
        "none": "none",
        "ours": f"of repoagent{before}{idle}",
        "changed": f"of repoagent, changed by hand{before}{idle}",
        "legacy": f"of repoagent, run by the one of pre-commit{before}",
        "odd": "something that is no file",
    }.get(found.state, f"another one{idle}")


def _names(flags: Mapping[str, bool]) -> tuple[str, ...]:
    return tuple(name for name in NAMES if flags[name.replace("-", "_")])


def _look() -> Hooks:
    from repoagent.review.hooks import look
    from repoagent.review.read import open_repository

    worktree, _, bare = open_repository(Path.cwd())
    return look(worktree, bare=bare)


def _program() -> tuple[str, ...]:
    """What runs repoagent as it runs now: the script beside this Python, or this Python."""
    script = Path(sys.executable).with_name("repoagent")
    if os.access(script, os.X_OK):
        return (str(script),)
    from repoagent.history.index.background import ITSELF

    return (sys.executable, *ITSELF)


def _tell(session: Session, told: list[str], *, as_json: bool) -> None:
    terminal = session.terminal()
    if as_json:
        terminal.result(json.dumps({"version": VERSION, "done": told}, indent=2) + "\n")
        return
    for sentence in told:
        terminal.note(sentence)
