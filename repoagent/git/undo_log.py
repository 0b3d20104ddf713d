"""The log of edits in this work tree: what each one changed, whether it was undone, and which commit contains it."""

from __future__ import annotations

import os
import re
from dataclasses import replace

from repoagent.dataclass import dataclass
from repoagent.errors import NothingDone, Refused
from repoagent.git.objects import Commit, has_object, is_in_history, read_commit
from repoagent.git.process import git, git_output
from repoagent.git.transaction.finish import edit_folder
from repoagent.git.transaction.journal import JournalRecord, load_record
from repoagent.git.worktree import WorkTree, current_branch, layout_of
from repoagent.storage import json_files

_KEYS = {"event", "id", "time", "branch", "commit", "parent", "paths", "no_commit"}
_PRIVATE = ("refs/stash", "refs/worktree/", "refs/bisect/")  # refs that only this user sees
_SEARCHED = 1000  # commits searched for edits whose commit was rewritten


@dataclass(frozen=True)
class Edit:
    """One edit, in `commit` on top of `parent`. `time` is the time of its last event, in ISO 8601."""

    id: str
    time: str
    branch: str | None
    commit: str | None
    parent: str | None
    paths: tuple[str, ...]
    no_commit: bool
    undone: bool


def list_edits(worktree: WorkTree) -> list[Edit]:
    """All edits in this work tree, ordered by when each was last made, undone or redone."""
    edits: dict[str, Edit] = {}
    for line in json_files.read_records(layout_of(worktree).edits):
        if not line.keys() >= _KEYS:
            continue  # written by another program
        edit_id = line["id"]
        known = edits.pop(edit_id, None)
        if line["event"] == "undo" and known:
            edit = replace(known, time=line["time"], undone=True)
            if line.get("moved"):  # the branch was moved away from the commit, which may be an amended one
                edit = replace(edit, commit=line["parent"], parent=line["commit"])
            edits[edit_id] = edit
        elif line["event"] == "edit" or known:
            time, branch, commit, parent = (line[name] for name in ("time", "branch", "commit", "parent"))
            paths, no_commit = tuple(line["paths"]), line["no_commit"]
            edits[edit_id] = Edit(edit_id, time, branch, commit, parent, paths, no_commit, undone=False)
    return list(edits.values())


def find_edit(worktree: WorkTree, edit_id: str | None, *, undone: bool) -> Edit:
    """The edit `edit_id`, by default the last one; with `undone`, among the undone edits, else among the others.

    Raises NothingDone if there are none, Refused if the edit is not among them.
    """
    edits = list_edits(worktree)
    if edit_id is None:
        matching = [edit for edit in edits if edit.undone == undone]
        if not matching:
            raise NothingDone("no edit to redo" if undone else "no edit to undo")
        return matching[-1]
    for edit in edits:
        if edit.id == edit_id:
            if edit.undone != undone:
                raise Refused(f"edit {edit_id} has {'not been undone' if undone else 'already been undone'}")
            return edit
    raise Refused(
        f"no edit {edit_id} in this work tree: `git log` shows an edit's id in its commit's Repoagent-Edit trailer"
    )


def edit_record(worktree: WorkTree, edit: Edit) -> JournalRecord:
    """The record of an edit, with the bytes of its files. Raises Refused if the record has been removed."""
    folder = edit_folder(worktree, edit.id)
    record = load_record(folder) if folder.is_dir() else None
    if record is None:
        raise Refused(f"the files of edit {edit.id} are no longer stored: use `git revert` on its commit")
    return record


def commit_of(worktree: WorkTree, edit: Edit) -> str:
    """The commit in HEAD's history that contains the edit, even after an amend or a rebase.

    Raises Refused if there is none.
    """
    if edit.commit and is_in_history(worktree, "HEAD", edit.commit):
        return edit.commit
    committed = _commits_by_trailer(worktree, edit.id)
    if edit.id in committed:
        return committed[edit.id][0]
    branch = current_branch(worktree)
    if (
        edit.branch != branch
        and edit.commit
        and is_in_history(worktree, f"refs/heads/{edit.branch}", edit.commit)
    ):
        raise Refused(
            f"the commit of edit {edit.id} is not in this branch's history: switch to its branch ({edit.branch}), "
            "or choose another edit"
        )
    others = reversed([other for other in list_edits(worktree) if not other.undone and other.id != edit.id])
    last = next(
        (other for other in others if other.commit and is_in_history(worktree, "HEAD", other.commit)), None
    )
    raise Refused(
        f"the commit of edit {edit.id} is {'no longer' if edit.branch == branch else 'not'} in the history of "
        f"{branch or 'HEAD'}, so there is nothing to undo; any part of the edit still in your files is "
        "uncommitted (see `git diff HEAD`)"
        + ("" if last is None else f"; to undo the last edit in that history: `repoagent undo {last.id}`")
    )


def list_undoable(worktree: WorkTree) -> list[tuple[Edit, str | None, str]]:
    """The edits that can be undone here, newest first, each with its current commit and the commit's subject.

    Without a commit, these are None and "".
    """
    committed = _commits_by_trailer(worktree)
    undoable: list[tuple[Edit, str | None, str]] = []
    for edit in reversed(list_edits(worktree)):
        if edit.undone or not edit_folder(worktree, edit.id).is_dir():
            continue
        if edit.no_commit:
            undoable.append((edit, None, ""))
        elif edit.id in committed:
            undoable.append((edit, *committed[edit.id]))
        elif edit.commit and is_in_history(worktree, "HEAD", edit.commit):  # without trailers
            subject = os.fsdecode(git(worktree.top, "log", "-1", "--format=%s", edit.commit, "--"))
            undoable.append((edit, edit.commit, subject.strip()))
    return undoable


def _commits_by_trailer(worktree: WorkTree, edit_id: str = "[^ ]+") -> dict[str, tuple[str, str]]:
    """For each edit id in a trailer, the newest commit with it, and its subject. `git merge --squash` indents
    trailers."""
    log = git_output(
        worktree.top, "log", f"-n{_SEARCHED}", "--format=%H%n%B%x00", "--extended-regexp",
        f"--grep=^ *Repoagent-Edit: {edit_id}$", "HEAD", "--", ok=(0, 128),
    ).stdout  # fmt: skip
    commits: dict[str, tuple[str, str]] = {}
    for entry in os.fsdecode(log).split("\0"):
        commit, _, message = entry.lstrip("\n").partition("\n")
        for name in re.findall(r"^ *Repoagent-Edit: (\S+)$", message, re.MULTILINE):
            commits.setdefault(name, (commit, message.partition("\n")[0]))
    return commits


def is_whole(worktree: WorkTree, edit: Edit, commit: str) -> bool:
    """Whether the commit contains exactly what the edit committed; its message and parent may differ."""
    if commit == edit.commit or edit.commit is None:
        return commit == edit.commit
    if not has_object(worktree, edit.commit):
        return False
    current, original = read_commit(worktree, commit), read_commit(worktree, edit.commit)
    return (current.changed, current.was) == (original.changed, original.was)


def is_shared(worktree: WorkTree, commit: str) -> bool:
    """Whether the commit is also reachable from another work tree's HEAD or from a ref other than HEAD's branch.

    Private refs, such as the stash, do not count.
    """
    head = git_output(worktree.top, "symbolic-ref", "--quiet", "HEAD", ok=(0, 1)).stdout.decode().strip()
    no_links = "--format=%(if)%(symref)%(then)%(else)%(refname)%(end)"  # the target of a link is listed too
    refs = git(worktree.top, "for-each-ref", no_links, f"--contains={commit}")
    if any(ref != head and not ref.startswith(_PRIVATE) for ref in refs.decode(errors="replace").split()):
        return True
    entries = git(worktree.top, "worktree", "list", "--porcelain").decode(errors="replace").split("\n\n")
    if not worktree.is_linked:
        others = entries[1:]  # the main work tree comes first; for a submodule git does not list its top
    else:
        others = [entry for entry in entries if f"worktree {worktree.top}\n" not in entry + "\n"]
    heads = [line[5:] for entry in others for line in entry.splitlines() if line.startswith("HEAD ")]
    return any(is_in_history(worktree, other, commit) for other in heads if other.strip("0"))


def is_as_stored(worktree: WorkTree, made: Commit) -> bool:
    """Whether git shows the parents that the commit records.

    It does not in a shallow, grafted or replaced history, where HEAD would move elsewhere.
    """
    raw = git(worktree.top, "cat-file", "commit", made.oid, env={"GIT_NO_REPLACE_OBJECTS": "1"})
    lines = raw.partition(b"\n\n")[0].splitlines()
    return [line[7:].decode() for line in lines if line.startswith(b"parent ")] == list(made.parents)
