"""`repoagent undo` and `repoagent redo`: undo an edit, or redo it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from repoagent.cli.repository import open_repository
from repoagent.cli.session import Session, json_option, pass_session, write_json
from repoagent.errors import NothingDone, UsageError

if TYPE_CHECKING:
    from repoagent.git.transaction.results import Options
    from repoagent.git.undo import UndoResult
    from repoagent.git.worktree import WorkTree

EXAMPLES = """\b
Examples:
  repoagent undo           undo the last edit
  repoagent undo --list    list the edits that can be undone
  repoagent undo 3         undo the third of that list only"""


@click.command(epilog=EXAMPLES)
@click.argument("edit_id", required=False, metavar="[N|EDIT]")
@click.option("-l", "--list", "listed", is_flag=True, help="List the edits that can be undone, newest first.")
@json_option
@pass_session
def undo(session: Session, /, edit_id: str | None, listed: bool, as_json: bool) -> None:
    """Undo the last edit, the Nth of `undo --list`, or EDIT (the id in the Repoagent-Edit trailer of its commit).

    The branch moves back if the commit is its tip and on no other branch, tag or remote; otherwise a new commit
    reverts the edit. Your other changes stay, even in the same files; if the same lines were changed since, undo
    refuses.
    """
    from repoagent.edit.undo import undo as undo_edit

    if listed:
        if edit_id is not None:
            raise UsageError("--list takes no edit")
        _list(session, as_json=as_json)
        return
    _change(session, undo_edit, edit_id, "undid", as_json)


@click.command()
@click.argument("edit_id", required=False, metavar="[EDIT]")
@json_option
@pass_session
def redo(session: Session, /, edit_id: str | None, as_json: bool) -> None:
    """Redo the edit that you undid last, or EDIT."""
    from repoagent.edit.undo import redo as redo_edit

    _change(session, redo_edit, edit_id, "redid", as_json)


def _list(session: Session, *, as_json: bool) -> None:
    from repoagent.cli.ui.output_style import Page
    from repoagent.cli.ui.table import columns
    from repoagent.cli.ui.terminal_text import one_line
    from repoagent.git.undo_log import list_undoable

    repo = open_repository(session)
    terminal, page = repo.terminal, Page.of(repo.terminal)
    found = list_undoable(repo.worktree)
    if as_json:
        edits = [
            {
                "number": number,
                "edit": one.edit.id,
                "time": one.edit.time,
                "commit": one.commit,
                "subject": one.subject,
                "paths": list(one.edit.paths),
            }
            for number, one in enumerate(found, start=1)
        ]
        write_json(terminal, {"edits": edits})
        return
    if not found:
        raise NothingDone("nothing to undo")
    digits = len(str(len(found)))
    for number, one in enumerate(found, start=1):
        when, commit = one.edit.time[:16].replace("T", " "), (one.commit or "-")[:7].ljust(7)
        what = one_line(f"{one.subject or 'not committed'} ({', '.join(one.edit.paths)})")
        head = f"{number:>{digits}}  {when}  "
        room = None if page.width is None else max(page.width - columns(head) - 9, 20)
        terminal.styled(f"{head}{page.paint(commit, 'yellow')}  {page.cut(what, room)}\n")


def _nth(worktree: WorkTree, number: int) -> str:
    """The id of the edit with this number in `undo --list`."""
    from repoagent.git.undo_log import list_undoable

    found = list_undoable(worktree)
    if not 0 < number <= len(found):
        raise UsageError(f"no edit {number}: `repoagent undo --list` lists {len(found)}")
    return found[number - 1].edit.id


def _change(
    session: Session,
    change: Callable[[WorkTree, str | None, Options | None], UndoResult],
    edit_id: str | None,
    done: str,
    as_json: bool,
) -> None:
    from repoagent.cli.app import settle

    repo = open_repository(session)
    worktree, terminal = repo.worktree, repo.terminal
    settle(worktree, terminal)
    if edit_id is not None and edit_id.isdecimal():
        edit_id = _nth(worktree, int(edit_id))
    result = change(worktree, edit_id, None)
    if as_json:
        content = {
            "version": 1,
            "edit": result.edit.id,
            "commit": result.commit,
            "moved": result.moved,
            "paths": list(result.paths),
        }
        terminal.done(json.dumps(content, indent=2) + "\n")
        return
    if result.edit.no_commit:
        terminal.done(f"{done} the uncommitted edit of {', '.join(result.paths)}\n")
        return
    what = f'"{subject}" ' if (subject := _subject(worktree, result.edit.commit)) else ""
    where = f"HEAD is now at {result.commit[:7]}" if result.commit else "the branch has no commits"
    how = "" if result.moved else " (a new commit)"
    from repoagent.cli.ui.terminal_text import clean, fold

    said = f"{done} {what}({(result.edit.commit or '')[:7]}); {where}{how}\n"
    terminal.done(fold(clean(said), terminal.width) if terminal.shows else said)


def _subject(worktree: WorkTree, commit: str | None) -> str:
    """The subject of a commit, "" if git no longer has it."""
    from repoagent.git.process import git_output

    log = git_output(worktree.top, "log", "-1", "--format=%s", commit or "", "--", ok=(0, 128))
    return os.fsdecode(log.stdout).strip()
