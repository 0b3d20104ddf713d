"""The edits of the past in this work tree: what each changed, and whether it is taken back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from repoagent.dataclass import dataclass
from repoagent.errors import NothingDone, Refused
from repoagent.repo.transaction.archive import edit_folder
from repoagent.repo.transaction.journaled import load
from repoagent.repo.transaction.record import Record
from repoagent.repo.worktree import WorkTree, layout
from repoagent.store import jsonl

_KEYS = {"event", "id", "time", "branch", "commit", "parent", "paths", "no_commit"}


@dataclass(frozen=True)
class Edit:
    """One edit: `commit` is the one that holds it (None without a commit) on top of `parent`; `undone` says
    whether it is taken back now. `time` is that of its last event, ISO 8601."""

    id: str
    time: str
    branch: str | None
    commit: str | None
    parent: str | None
    paths: tuple[str, ...]
    no_commit: bool
    undone: bool


def list_edits(worktree: WorkTree) -> list[Edit]:
    """All edits made in this work tree, by the time that each was last made, taken back or made again."""
    edits: dict[str, Edit] = {}
    for line in jsonl.read(layout(worktree).edits):
        if not line.keys() >= _KEYS:
            continue  # not ours
        known = edits.pop(line["id"], None)
        if line["event"] == "undo" and known:
            edits[known.id] = _taken_back(known, line)
        elif line["event"] == "edit" or known:
            edits[line["id"]] = _edit(line)
    return list(edits.values())


def find_edit(worktree: WorkTree, edit_id: str | None, *, undone: bool) -> Edit:
    """The edit of this name, or the last one that is `undone` or not. Raises NothingDone when there is none,
    and Refused when it is in the other state."""
    edits = list_edits(worktree)
    if edit_id is None:
        fitting = [edit for edit in edits if edit.undone == undone]
        if not fitting:
            raise NothingDone("there is no edit to make again" if undone else "there is no edit to take back")
        return fitting[-1]
    for edit in edits:
        if edit.id == edit_id:
            if edit.undone != undone:
                raise Refused(f"the edit {edit_id} is {'not taken back' if undone else 'taken back already'}")
            return edit
    raise Refused(
        f"no edit {edit_id} is known here: its id stands in its commit as Repoagent-Edit (`git log`)"
    )


def edit_record(worktree: WorkTree, edit: Edit) -> Record:
    """What the edit changed, with the bytes before and after. Raises Refused when it is not kept any more."""
    folder = edit_folder(worktree, edit.id)
    record = load(folder) if folder.is_dir() else None
    if record is None:
        raise Refused(
            f"the bytes of the edit {edit.id} are not kept any more: use `git revert` for its commit"
        )
    return record


def _taken_back(edit: Edit, line: Mapping[str, Any]) -> Edit:
    """The edit with the commit that the branch was moved away from, where it was: it may be an amended one."""
    if line.get("moved"):
        edit = replace(edit, commit=line["parent"], parent=line["commit"])
    return replace(edit, time=line["time"], undone=True)


def _edit(line: Mapping[str, Any]) -> Edit:
    return Edit(
        line["id"],
        line["time"],
        line["branch"],
        line["commit"],
        line["parent"],
        tuple(line["paths"]),
        line["no_commit"],
        undone=False,
    )
