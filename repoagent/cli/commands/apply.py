"""`repoagent apply`: validate and commit a patch, as `repoagent edit` does, but without a model."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click

from repoagent.cli import options as shared
from repoagent.cli.session import Session, json_option, pass_session
from repoagent.errors import UsageError

EPILOG = """\b
Examples:
  repoagent apply fix.patch
  claude -p "fix the off-by-one in src/app.py, as a diff" | repoagent apply
  repoagent apply answer.md --source src/app.py=9daeafb --check "pytest -q"
"""
CONFLICTS = {"words": ("message_file",)}
OPTION_GROUPS = {  # by their parameters
    "Options": (
        "yes", "by_hunk", "dry_run", "no_commit", "check", "words", "path", "sources", "strict", "branch",
    ),
    "Safety": ("allow_sensitive", "no_parse_check", "check_unconfined"),
    "Commit": ("message_file", "edit_message", "signoff", "sign", "fixup", "no_verify", "include_dirty"),
    "Output": ("as_json",),
}  # fmt: skip


@click.command(cls=shared.Committing, epilog=EPILOG, option_groups=OPTION_GROUPS)
@click.argument("file", required=False, metavar="[FILE|-]", type=click.Path())
@shared.asking
@click.option("--strict", is_flag=True, help="Apply exact matches only, without any tolerance.")
@click.option(
    "--source", "sources", multiple=True, metavar="PATH=BLOB",
    help="The blob that the patch to PATH is based on. Repeatable.",
)  # fmt: skip
@click.option(
    "--path", type=click.Path(), metavar="FILE", help="The file to change, if the patch names none."
)
@click.option("--check", metavar="CMD", help="Commit only if CMD passes; otherwise restore the files.")
@shared.check_unconfined_option
@click.option(
    "-m", "--message", "words", multiple=True, metavar="TEXT", help="The commit message. Repeatable."
)
@click.option("-F", "--message-file", type=click.Path(), metavar="FILE", help="Read the message from FILE.")
@shared.committing
@json_option
@pass_session
def command(session: Session, /, **values: Any) -> None:
    """Apply the patch in FILE, or on standard input, and commit exactly that change.

    A patch is any text that contains changes: a diff, a complete chat reply, the output of a program, or a
    `git format-patch` email.
    """
    from repoagent.cli.app import settle_interrupted_edits
    from repoagent.cli.ui.outcome import show_commit, show_json
    from repoagent.cli.ui.progress import ProgressDisplay
    from repoagent.cli.ui.terminal_interface import TerminalInterface
    from repoagent.edit.apply import apply, parse_bindings, read_patch_input
    from repoagent.edit.request import Target
    from repoagent.git.worktree import layout_of, open_worktree, relative_path

    options = SimpleNamespace(**values)
    shared.refuse_conflicts(options, shared.COMMIT_CONFLICTS, CONFLICTS)
    cwd = Path.cwd()
    patch = read_patch_input(_name(options.file), _read(options.file), cwd)
    if options.file in {None, "-"}:
        _ask_on_the_terminal()
    worktree = open_worktree(cwd)
    flags = {
        "check": options.check,
        "check.unconfined": options.check_unconfined,
        **shared.parse_check(options),
    }
    settings, terminal = session.open(layout_of(worktree), flags)
    settle_interrupted_edits(worktree, terminal)
    shared.require_answers(terminal, options)
    targets: tuple[Target, ...] = ()
    if options.path is not None:  # relative to the current folder or, if there is no such file, to the top
        near = relative_path(worktree, options.path, cwd)
        at_top = not os.path.lexists(worktree.top / near) and os.path.lexists(worktree.top / options.path)
        targets = (Target(relative_path(worktree, options.path, worktree.top) if at_top else near),)
    request = shared.edit_request(options, settings, _message(options), targets=targets, create=True)
    working = ProgressDisplay(terminal, "")
    commits = not options.no_commit
    ui = TerminalInterface(
        terminal, working, yes=options.yes, by_hunk=options.by_hunk, commits=commits, model=False
    )
    try:
        top = relative_path(worktree, "", cwd)
        prefix = "" if top == "." else f"{top}/"
        blobs = parse_bindings(options.sources).items()
        bindings = {relative_path(worktree, path, cwd): blob for path, blob in blobs}
        outcome = apply(worktree, patch, request, settings, ui, prefix=prefix, bindings=bindings)
    finally:
        working.quiet()
    if options.as_json:
        show_json(outcome, terminal)
        return
    show_commit(outcome.result, terminal, f"{outcome.seconds:.1f} s", ui.shown_remarks)


def _read(file: str | None) -> bytes:
    """The bytes of the patch. Raises UsageError if it cannot be read."""
    if file is None and sys.stdin.isatty():
        raise UsageError("no patch: use repoagent apply FILE, pipe one in, or use - to type it")
    try:
        return sys.stdin.buffer.read() if file in {None, "-"} else Path(str(file)).read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {_name(file)}: {error.strerror}") from error


def _name(file: str | None) -> str:
    from repoagent.edit.apply import STANDARD_INPUT

    return STANDARD_INPUT if file in {None, "-"} else str(file)


def _message(options: SimpleNamespace) -> str:
    """The commit message from the command line, "" if none."""
    if options.words:
        text = "\n\n".join(options.words)
    elif options.message_file is None:
        return ""
    elif options.message_file == "-" and options.file in {None, "-"}:
        both = "the patch and the message cannot both come from standard input"
        raise UsageError(f"{both}; put one of them in a file")
    else:
        text = _read(options.message_file).decode("utf-8-sig", "replace")
    if not text.strip():
        raise UsageError("the commit message is empty")
    return text.strip("\n") + "\n"


def _ask_on_the_terminal() -> None:
    """Reopen standard input, which was read to its end, as the terminal: for questions and git's editor."""
    try:
        descriptor = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return
    os.dup2(descriptor, 0)
    os.close(descriptor)
    sys.stdin = open(0, encoding=sys.stdin.encoding, errors="replace", closefd=False)  # noqa: SIM115
