"""The messages of the commits that take an edit back, or make it again."""

from __future__ import annotations

import os

from repoagent.repo.commits import has_object
from repoagent.repo.run import git
from repoagent.repo.transaction.message import encode
from repoagent.repo.transaction.record import Record
from repoagent.repo.undo.edits import Edit
from repoagent.repo.worktree import WorkTree


def revert_message(worktree: WorkTree, edit: Edit, commit: str, *, whole: bool) -> bytes:
    """As `git revert` says it; `whole` unless the commit holds more than the edit."""
    subject = os.fsdecode(git(worktree.top, "log", "-n1", "--format=%s", "--encoding=UTF-8", commit)).strip()
    what = "" if whole else f"the edit {edit.id} in "
    text = f'Revert "{subject}"\n\nThis reverts {what}commit {commit}.\n\nRepoagent-Undo: {edit.id}\n'
    return encode(worktree, text, "replace")


def message_again(worktree: WorkTree, edit: Edit, record: Record) -> bytes:
    """The message of the commit as it was in the end, with what hooks and people had made of it."""
    if edit.commit and has_object(worktree, edit.commit):
        text = git(worktree.top, "log", "-n1", "--format=%B", "--encoding=UTF-8", edit.commit)
        return encode(worktree, text.decode(errors="replace"), "replace")
    return os.fsencode(record.message or "")
