"""`repoagent undo` and `repoagent redo`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from repoagent.cli.program.session import Session, json_option, pass_session

if TYPE_CHECKING:
    from repoagent.repo import Options, WorkTree
    from repoagent.repo.undo import UndoResult


@click.command()
@click.argument("edit_id", required=False, metavar="[EDIT]")
@json_option
@pass_session
def undo(session: Session, /, edit_id: str | None, as_json: bool) -> None:
    """Take the last edit back, or the one named (its id stands in the commit's Repoagent-Edit trailer).

    The branch moves back when nothing stands on the commit and nobody else has it; otherwise a new commit reverts
    it. Your other work, in the same files too, stays as it is.
    """
    from repoagent.edit.undo import undo as take_back

    _change(session, take_back, edit_id, "took back", as_json)


@click.command()
@click.argument("edit_id", required=False, metavar="[EDIT]")
@json_option
@pass_session
def redo(session: Session, /, edit_id: str | None, as_json: bool) -> None:
    """Make the edit again that was taken back last, or the one named."""
    from repoagent.edit.undo import redo as make_again

    _change(session, make_again, edit_id, "made again", as_json)


def _change(
    session: Session,
    change: Callable[[WorkTree, str | None, Options | None], UndoResult],
    edit_id: str | None,
    done: str,
    as_json: bool,
) -> None:
    from repoagent.cli.program.settle import settle
    from repoagent.repo import layout, open_worktree

    worktree = open_worktree(Path.cwd())
    _, terminal = session.open(layout(worktree))
    settle(worktree, terminal)
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
    where = (
        "it had no commit"
        if result.edit.no_commit
        else f"HEAD is now at {result.commit[:7]}"
        if result.commit
        else "there is no commit any more"
    )
    how = "" if result.moved or result.edit.no_commit else " (a new commit)"
    terminal.done(f"{done} {result.edit.id} in {', '.join(result.paths)}; {where}{how}\n")
