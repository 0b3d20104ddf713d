"""`repoagent apply`: validate and commit a patch from anywhere, as an edit does, without a model."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli.options import (
    COMMIT_CONFLICTS,
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
    from repoagent.edit.apply_input import PatchInput
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
# options that need a repository
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
    help="The blob that the patch was made for, by its path. Repeatable.",
)  # fmt: skip
@click.option(
    "--path", type=click.Path(), metavar="FILE", help="The file to change, if the patch names none."
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
def command(session: Session, /, **values: Any) -> Exit:
    """Apply the patch in FILE, or on standard input, and commit exactly that change.

    A patch is any text that contains changes: a diff, the whole answer of a chat, the output of a program, a mail from
    `git format-patch`. Outside a repository, apply writes the files and commits nothing.
    """
    from repoagent.edit.apply_input import read_patch_input
    from repoagent.git.worktree import NoWorkTree, open_worktree

    options = SimpleNamespace(**values)
    refuse_conflicts(options, COMMIT_CONFLICTS, CONFLICTS)
    patch = read_patch_input(_name(options.file), _read(options.file), Path.cwd())
    if options.file in {None, "-"}:
        _ask_on_the_terminal()
    try:
        worktree = open_worktree(Path.cwd())
    except NoWorkTree:
        worktree = None
        _refuse_without_repository(options)
    settings, terminal = _opened(session, worktree, options)
    if not (options.yes or options.dry_run or terminal.can_ask):
        raise UsageError(
            "cannot ask for confirmation without a terminal; use --yes to apply, or --dry-run to preview"
        )
    from repoagent.cli.ui.echo import hush

    hush(terminal)
    outcome, said = _applied(worktree, options, patch, settings, terminal)
    _show(outcome, terminal, said, as_json=options.as_json)
    return Exit.DONE


def _opened(
    session: Session, worktree: WorkTree | None, options: SimpleNamespace
) -> tuple[Settings, Terminal]:
    from repoagent.git.worktree import layout

    settings, terminal = session.open(
        layout(worktree) if worktree is not None else None,
        {"check": options.check, "check.unconfined": options.check_unconfined, **parse_check(options)},
    )
    if worktree is not None:
        from repoagent.cli.app import settle

        settle(worktree, terminal)
    return settings, terminal


def _applied(
    worktree: WorkTree | None,
    options: SimpleNamespace,
    patch: PatchInput,
    settings: Settings,
    terminal: Terminal,
) -> tuple[ApplyOutcome, set[str]]:
    """Apply it: the outcome, and the sentences already shown."""
    from repoagent.cli.ui.progress import Working
    from repoagent.cli.ui.terminal_interface import TerminalInterface

    cwd = Path.cwd()
    request = _request(options, worktree, settings)
    working = Working(terminal, "")
    commits = worktree is not None and not options.no_commit
    ui = TerminalInterface(
        terminal, working, yes=options.yes, by_hunk=options.by_hunk, commits=commits, model=False
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
            relative(worktree, path, cwd): blob for path, blob in parse_bindings(options.sources).items()
        }
        outcome = apply(worktree, patch, request, settings, ui, prefix=prefix, bindings=bindings)
        return outcome, ui.said
    finally:
        working.quiet()


def _named(worktree: WorkTree, path: str) -> str:
    """The path in the repository: relative to this folder or, if there is no such file, to the top, as in a patch."""
    from repoagent.git.worktree import relative

    found = relative(worktree, path, Path.cwd())
    at_top = not os.path.lexists(worktree.top / found) and os.path.lexists(worktree.top / path)
    return relative(worktree, path, worktree.top) if at_top else found


def _request(options: SimpleNamespace, worktree: WorkTree | None, settings: Settings) -> EditRequest:
    from repoagent.edit.request import EditRequest, Target
    from repoagent.tasks.check import check_of

    path = options.path
    if path is not None and worktree is not None:
        path = _named(worktree, path)
    return EditRequest(
        instruction=_message(options),
        targets=() if path is None else (Target(path),),
        create=True,
        check=check_of(settings),
        strict=options.strict,
        parse_check=settings.switch("edit.parse_check"),
        dry_run=options.dry_run,
        allow_sensitive=options.allow_sensitive,
        sensitive=settings.texts("edit.sensitive"),
        commit=commit_options(options),
    )


def _read(file: str | None) -> bytes:
    """The bytes of the patch. Raises UsageError if it cannot be read."""
    if file is None and sys.stdin.isatty():
        raise UsageError("no patch: use repoagent apply FILE, pipe one in, or use - to type it")
    try:
        if file in {None, "-"}:
            return sys.stdin.buffer.read()
        with Path(str(file)).open("rb") as stream:
            return stream.read()
    except OSError as error:
        raise UsageError(f"cannot read {_name(file)}: {error.strerror}") from error


def _name(file: str | None) -> str:
    from repoagent.edit.apply_input import STANDARD_INPUT

    return STANDARD_INPUT if file in {None, "-"} else str(file)


def _message(options: SimpleNamespace) -> str:
    """The commit message from the command line, "" for none."""
    if options.words:
        text = "\n\n".join(options.words)
    elif options.message_file is not None:
        if options.message_file == "-" and options.file in {None, "-"}:
            raise UsageError(
                "the patch and the message cannot both come from standard input; put one of them in a file"
            )
        text = _read(options.message_file).decode("utf-8-sig", "replace")
    else:
        return ""
    if not text.strip():
        raise UsageError("the commit message is empty")
    return text.strip("\n") + "\n"


def _ask_on_the_terminal() -> None:
    """Reopen standard input, which is at its end, as the terminal: for questions and git's editor."""
    try:
        descriptor = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return
    os.dup2(descriptor, 0)
    os.close(descriptor)
    sys.stdin = open(0, encoding=sys.stdin.encoding, errors="replace", closefd=False)  # noqa: SIM115


def _refuse_without_repository(options: SimpleNamespace) -> None:
    for option in OF_A_COMMIT:
        if is_given(options, option):
            raise UsageError(f"{flag(option)} needs a git repository: outside one, nothing is committed")


def _show(outcome: ApplyOutcome, terminal: Terminal, said: Collection[str], *, as_json: bool) -> None:
    """Print the outcome, with the tolerances if no question has shown them."""
    from repoagent.cli.ui.outcome import VERSION, commit_object, show_commit, show_json
    from repoagent.edit.ui import summary, tolerated

    result = outcome.result
    if as_json:
        content = {
            "version": VERSION,
            "outcome": outcome.kind,
            "edit": outcome.edit_id,
            **commit_object(result),
            "seconds": round(outcome.seconds, 3),
        }
        show_json(content, result, terminal)
        return
    loose = tolerated(result.proposal.placements)
    if loose and not (terminal.tells and result.written):
        terminal.note(f"placed with tolerance: {summary(loose)}")
    show_commit(result, terminal, f"{outcome.seconds:.1f} s", said)
