"""`repoagent apply`: a patch from anywhere, on the way that an edit goes, with no model."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli.options import (
    LANDING_CONFLICTS,
    Committing,
    asking,
    check_unconfined_option,
    commit_options,
    committing,
    flag,
    is_given,
    parse_check,
    refuse_conflicts,
)
from repoagent.cli.session import Session, json_option, pass_session
from repoagent.errors import Exit, UsageError

if TYPE_CHECKING:
    from repoagent.cli.ui.terminal import Terminal
    from repoagent.config.settings import Settings
    from repoagent.edit.apply_input import Given
    from repoagent.edit.apply_patch import ApplyOutcome
    from repoagent.edit.request import EditRequest
    from repoagent.git.worktree import WorkTree

EPILOG = """\b
Examples:
  repoagent apply fix.patch
  claude -p "fix the off-by-one in src/app.py, as a diff" | repoagent apply
  repoagent apply answer.md --source src/app.py=9daeafb --check "pytest -q"
"""
CONFLICTS = {"words": ("message_file",)}
# what has no meaning outside of a repository
OF_A_COMMIT = (
    "branch", "edit_message", "signoff", "sign", "fixup", "no_verify", "include_dirty",
    "sources", "words", "message_file",
)  # fmt: skip


OPTION_GROUPS = {  # by their parameters
    "Options": (
        "yes", "by_hunk", "dry_run", "no_commit", "check", "words", "path", "sources", "strict", "branch",
    ),
    "Safety": ("allow_sensitive", "no_parse_check", "check_unconfined"),
    "Commit": ("message_file", "edit_message", "signoff", "sign", "fixup", "no_verify", "include_dirty"),
    "Output": ("as_json",),
}  # fmt: skip


@click.command(cls=Committing, epilog=EPILOG, option_groups=OPTION_GROUPS)
@click.argument("file", required=False, metavar="[FILE|-]", type=click.Path())
@asking
@click.option("--strict", is_flag=True, help="Apply exact matches only, without any tolerance.")
@click.option(
    "--source", "sources", multiple=True, metavar="PATH=BLOB",
    help="The blob that the patch was made for. Repeatable.",
)  # fmt: skip
@click.option(
    "--path", type=click.Path(), metavar="FILE", help="The file to change, for a patch that names none."
)
@click.option("--check", metavar="CMD", help="Commit only if CMD passes; otherwise restore the files.")
@check_unconfined_option
@click.option(
    "-m", "--message", "words", multiple=True, metavar="TEXT", help="The commit message. Repeatable."
)
@click.option("-F", "--message-file", type=click.Path(), metavar="FILE", help="Read the message from FILE.")
@committing
@json_option
@pass_session
def command(session: Session, /, **options: Any) -> Exit:
    """Apply the patch in FILE, or on standard input, and commit exactly that change.

    A patch is any text with changes in it: a chat's whole answer, what a program has printed, a diff, a mail of `git
    format-patch`. Outside of a repository the files are written, and nothing is committed.
    """
    from repoagent.edit.apply_input import read_given
    from repoagent.git.worktree import NoWorkTree, open_worktree

    given = SimpleNamespace(**options)
    refuse_conflicts(given, LANDING_CONFLICTS, CONFLICTS)
    patch = read_given(_name(given.file), _read(given.file), Path.cwd())
    if given.file in {None, "-"}:
        _ask_on_the_terminal()
    try:
        worktree = open_worktree(Path.cwd())
    except NoWorkTree:
        worktree = None
        _refuse_without_repository(given)
    settings, terminal = _opened(session, worktree, given)
    if not (given.yes or given.dry_run or terminal.can_ask):
        raise UsageError(
            "there is no terminal to ask on: say --yes to apply without a question, or --dry-run to see"
        )
    from repoagent.cli.ui.echo import hush

    hush(terminal)
    outcome, said = _applied(worktree, given, patch, settings, terminal)
    _show(outcome, terminal, said, as_json=given.as_json)
    return Exit.DONE


def _opened(session: Session, worktree: WorkTree | None, given: SimpleNamespace) -> tuple[Settings, Terminal]:
    from repoagent.git.worktree import layout

    settings, terminal = session.open(
        layout(worktree) if worktree is not None else None,
        {"check": given.check, "check.unconfined": given.check_unconfined, **parse_check(given)},
    )
    if worktree is not None:
        from repoagent.cli.app import settle

        settle(worktree, terminal)
    return settings, terminal


def _applied(
    worktree: WorkTree | None, given: SimpleNamespace, patch: Given, settings: Settings, terminal: Terminal
) -> tuple[ApplyOutcome, set[str]]:
    """Apply it; how that ended, and what was told of it on the way."""
    from repoagent.cli.ui.confirm import TerminalInterface
    from repoagent.cli.ui.progress import Working

    cwd = Path.cwd()
    request = _request(given, worktree, settings)
    working = Working(terminal, "")
    commits = worktree is not None and not given.no_commit
    ui = TerminalInterface(
        terminal, working, yes=given.yes, by_hunk=given.by_hunk, commits=commits, model=False
    )
    try:
        if worktree is None:
            from repoagent.edit.apply_patch import apply_outside

            return apply_outside(cwd, patch, request, ui), ui.said
        from repoagent.edit.apply_input import parse_bindings
        from repoagent.edit.apply_patch import apply
        from repoagent.git.worktree import relative

        top = relative(worktree, "", cwd)
        prefix = "" if top == "." else f"{top}/"
        bindings = {
            relative(worktree, path, cwd): blob for path, blob in parse_bindings(given.sources).items()
        }
        outcome = apply(worktree, patch, request, settings, ui, prefix=prefix, bindings=bindings)
        return outcome, ui.said
    finally:
        working.quiet()


def _named(worktree: WorkTree, path: str) -> str:
    """A path of the person's: relative to the folder, or where there is no such file to the top, as in a patch."""
    from repoagent.git.worktree import relative

    found = relative(worktree, path, Path.cwd())
    at_top = not os.path.lexists(worktree.top / found) and os.path.lexists(worktree.top / path)
    return relative(worktree, path, worktree.top) if at_top else found


def _request(given: SimpleNamespace, worktree: WorkTree | None, settings: Settings) -> EditRequest:
    from repoagent.edit.request import EditRequest, Target
    from repoagent.tasks.check import check_of

    path = given.path
    if path is not None and worktree is not None:
        path = _named(worktree, path)
    return EditRequest(
        instruction=_message(given),
        targets=() if path is None else (Target(path),),
        create=True,
        check=check_of(settings),
        strict=given.strict,
        parse_check=settings.switch("edit.parse_check"),
        dry_run=given.dry_run,
        allow_sensitive=given.allow_sensitive,
        sensitive=settings.texts("edit.sensitive"),
        commit=commit_options(given),
    )


def _read(file: str | None) -> bytes:
    """The bytes of the patch. Raises UsageError where there are none to read."""
    if file is None and sys.stdin.isatty():
        raise UsageError("say which patch: repoagent apply FILE (or pipe one in, or - to type it)")
    try:
        if file in {None, "-"}:
            return sys.stdin.buffer.read()
        with Path(str(file)).open("rb") as stream:
            return stream.read()
    except OSError as error:
        raise UsageError(f"{_name(file)} can't be read: {error.strerror}") from error


def _name(file: str | None) -> str:
    from repoagent.edit.apply_input import STANDARD_INPUT

    return STANDARD_INPUT if file in {None, "-"} else str(file)


def _message(given: SimpleNamespace) -> str:
    """The commit message that the person gives, "" for none."""
    if given.words:
        text = "\n\n".join(given.words)
    elif given.message_file is not None:
        if given.message_file == "-" and given.file in {None, "-"}:
            raise UsageError(
                "standard input can't be both the patch and its message: give one of them as a file"
            )
        text = _read(given.message_file).decode("utf-8-sig", "replace")
    else:
        return ""
    if not text.strip():
        raise UsageError("the commit message is empty: nothing was done")
    return text.strip("\n") + "\n"


def _ask_on_the_terminal() -> None:
    """Standard input is read to its end: questions, and git's editor, get the terminal itself where there is one."""
    try:
        descriptor = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return
    os.dup2(descriptor, 0)
    os.close(descriptor)
    sys.stdin = open(0, encoding=sys.stdin.encoding, errors="replace", closefd=False)  # noqa: SIM115


def _refuse_without_repository(given: SimpleNamespace) -> None:
    for option in OF_A_COMMIT:
        if is_given(given, option):
            raise UsageError(
                f"{flag(option)} needs a repository, and there is none here: nothing is committed"
            )


def _show(outcome: ApplyOutcome, terminal: Terminal, said: Collection[str], *, as_json: bool) -> None:
    """Print how it ended: with tolerances, if they were not shown with the question."""
    from repoagent.cli.ui.outcome import VERSION, landed_object, show_landed, show_object
    from repoagent.edit.ui import summary, tolerated

    landed = outcome.landed
    if as_json:
        content = {
            "version": VERSION,
            "outcome": outcome.kind,
            "edit": outcome.edit_id,
            **landed_object(landed),
            "seconds": round(outcome.seconds, 3),
        }
        show_object(content, landed, terminal)
        return
    loose = tolerated(landed.proposal.placements)
    if loose and not (terminal.tells and landed.written):
        terminal.note(f"placed with tolerance: {summary(loose)}")
    show_landed(landed, terminal, f"{outcome.seconds:.1f} s", said)
