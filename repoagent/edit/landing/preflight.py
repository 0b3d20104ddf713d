"""What would keep the commit from being made and can be known now: asked before a model is paid."""

from __future__ import annotations

import shlex
import time

from repoagent.edit.draft import Draft
from repoagent.edit.request import EditRequest
from repoagent.errors import Busy, Refused, UsageError
from repoagent.repo import WorkTree, git_output, head_blobs
from repoagent.repo.branches import check_new
from repoagent.repo.index import read_entries
from repoagent.repo.transaction.lock import lock_path
from repoagent.repo.transaction.refusals import left_out, refuse_no_branch

LOCK_SECONDS = (
    2.0  # git's own commands hold the index lock for an instant; what stays longer was left by a kill
)
LOCK_POLL_SECONDS = 0.05


def preflight(worktree: WorkTree, request: EditRequest) -> None:
    """Raise what the commit would raise in the end, as far as it does not depend on the change.

    UsageError for a revision or an identity that is not there; Refused for a branch that can't be made; Busy while
    another program holds the index.
    """
    if request.commit.no_commit or request.dry_run:
        return
    refuse_no_branch(worktree)
    if request.commit.branch is not None:
        check_new(worktree, request.commit.branch)
    if request.commit.fixup is not None:
        _refuse_unknown(worktree, request.commit.fixup)
    _refuse_nobody(worktree)
    _refuse_locked(worktree)


def _refuse_unknown(worktree: WorkTree, revision: str) -> None:
    name = f"{revision}^{{commit}}"
    found = git_output(
        worktree.top, "rev-parse", "--quiet", "--verify", "--end-of-options", name, ok=(0, 1, 128)
    )
    if found.returncode:
        raise UsageError(f"there is no commit {revision} to --fixup")


def _refuse_nobody(worktree: WorkTree) -> None:
    if git_output(worktree.top, "var", "GIT_COMMITTER_IDENT", ok=(0, 1, 128)).returncode:
        raise UsageError(
            "git does not know who commits: set it with `git config --global user.name NAME` and "
            "`git config --global user.email ADDRESS`"
        )


def refuse_untracked(worktree: WorkTree, request: EditRequest, draft: Draft) -> None:
    """Raise Refused for a file that the last commit does not have as it is expected: a commit of the edit would be
    one of more than the edit."""
    if request.commit.no_commit or request.dry_run or request.commit.include_dirty:
        return
    known = head_blobs(worktree, request.paths)
    for path in request.paths:
        exists = draft.sources[path].data is not None
        if exists and path not in known:
            raise Refused(
                f"{path} is not in the last commit, so a commit of the edit would be one of the whole file: commit "
                "it first, or use --include-dirty to commit it whole, or --no-commit to only write it"
            )
        if path in known and not exists:
            raise Refused(_missing(worktree, path))


def _missing(worktree: WorkTree, path: str) -> str:
    entry = read_entries(worktree, [path]).get(path)
    if entry is not None and entry.skip_worktree:
        return left_out(path)
    return (
        f"{path} is missing in the work tree, but the last commit has it: restore it with "
        f"`git restore {shlex.quote(path)}`, or commit its removal first"
    )


def _refuse_locked(worktree: WorkTree) -> None:
    """Refuse when the index stays locked by another program; an edit of ours will be done when we come to it."""
    path = lock_path(worktree)
    deadline = time.monotonic() + LOCK_SECONDS
    while path.exists() and not _is_of_an_edit(worktree):
        if time.monotonic() > deadline:
            raise Busy(
                f"{path} exists: another git command runs in this work tree, try again when it is done. "
                "If none does, one was killed: remove that file"
            )
        time.sleep(LOCK_POLL_SECONDS)


def _is_of_an_edit(worktree: WorkTree) -> bool:
    try:
        with lock_path(worktree).open("rb") as file:
            return file.read(10) == b"repoagent "
    except OSError:
        return False
