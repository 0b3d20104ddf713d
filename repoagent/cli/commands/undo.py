"""`repoagent undo` and `repoagent redo`."""

from __future__ import annotations

import json
import os

import click

from repoagent.cli.session import Repository, pass_repository
from repoagent.cli.ui.table import Cell, Column, Page
from repoagent.display_text import one_line, plural, sanitize, wrap_line
from repoagent.errors import NothingDone, UsageError

EXAMPLES = """\b
Examples:
  repoagent undo           undo the last edit
  repoagent undo --list    list the edits that can be undone
  repoagent undo 3         undo only the third edit in that list"""


@click.command(epilog=EXAMPLES)
@click.argument("edit_id", required=False, metavar="[N|EDIT]")
@click.option("-l", "--list", "listed", is_flag=True, help="List the edits that can be undone, newest first.")
@pass_repository
def undo(repo: Repository, /, *, edit_id: str | None, listed: bool) -> None:
    """Undo the last edit, the Nth of `undo --list`, or EDIT (the id in a commit's Repoagent-Edit trailer).

    The branch moves back if the commit is its tip and on no other branch, tag or remote; otherwise a new commit
    reverts the edit. Your other changes are not touched, even in the same files; if the same lines were changed
    again, undo refuses.
    """
    if not listed:
        _change(repo, edit_id)
        return
    if edit_id is not None:
        raise UsageError("--list cannot be combined with EDIT")
    from repoagent.git.undo_log import list_undoable

    edits, rows = [], []
    for number, (edit, made, subject) in enumerate(list_undoable(repo.worktree), start=1):
        facts = {"edit": edit.id, "time": edit.time, "commit": made, "subject": subject}
        edits.append({"number": number, **facts, "paths": list(edit.paths)})
        commit: Cell = ((made or "-")[:7], "yellow")
        words = one_line(subject or "not committed"), one_line(", ".join(edit.paths))
        rows.append((f"{number}", edit.time[:16].replace("T", " "), commit, *words))
    if not edits and not repo.as_json:
        raise NothingDone("nothing to undo")
    repo.emit({"edits": edits}, Page.of(repo.terminal).table(_COLUMNS, rows) if rows else ())


@click.command()
@click.argument("edit_id", required=False, metavar="[EDIT]")
@pass_repository
def redo(repo: Repository, /, *, edit_id: str | None) -> None:
    """Redo the last undone edit, or EDIT."""
    _change(repo, edit_id, redo=True)


_COLUMNS = (
    Column("", right=True),
    Column("time"),
    Column("commit"),
    Column("edit", cut="end", least=20),
    Column("files", cut="end", least=10),
)


def _change(repo: Repository, edit_id: str | None, *, redo: bool = False) -> None:
    from repoagent.edit import undo
    from repoagent.git.process import git_output
    from repoagent.git.undo_log import list_undoable

    worktree, terminal = repo.worktree, repo.terminal
    repo.settle()
    if edit_id is not None and edit_id.isdecimal():
        undoable = list_undoable(worktree)
        if not 0 < int(edit_id) <= len(undoable):
            count = plural(len(undoable), "edit")
            raise UsageError(f"no edit {int(edit_id)}: `repoagent undo --list` lists {count}")
        edit_id = undoable[int(edit_id) - 1][0].id
    result = (undo.redo if redo else undo.undo)(worktree, edit_id)
    edit, done = result.edit, "redid" if redo else "undid"
    if repo.as_json:
        content = {"version": 1, "edit": edit.id, "commit": result.commit, "moved": result.moved}
        terminal.done(json.dumps({**content, "paths": list(result.paths)}, indent=2) + "\n")
    elif edit.no_commit:
        terminal.done(f"{done} the uncommitted edit to {', '.join(result.paths)}\n")
    else:  # git may no longer have the commit
        log = git_output(worktree.top, "log", "-1", "--format=%s", edit.commit or "", "--", ok=(0, 128))
        quoted_subject = f'"{subject}" ' if (subject := os.fsdecode(log.stdout).strip()) else ""
        where = f"HEAD is now at {result.commit[:7]}" if result.commit else "the branch has no commits"
        how = "" if result.moved else " (a new commit)"
        sentence = f"{done} {quoted_subject}({(edit.commit or '')[:7]}); {where}{how}\n"
        terminal.done(wrap_line(sanitize(sentence), terminal.width) if terminal.output_tty else sentence)
