"""The commits of one file, through its renames: from the index if it is complete, else from git, limited by number and
time."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.errors import RepoagentError
from repoagent.git.objects import resolve_commit
from repoagent.git.process import OFFLINE, GitError, git_output
from repoagent.git.worktree import WorkTree, layout_of
from repoagent.history.log import (
    COMMIT_MARK,
    LISTED,
    LOG,
    LOG_FORMAT,
    FileCommit,
    TimedGit,
    counts_of,
    deadline_in,
    find_rename,
    git_offline,
    parse_log,
    raw_fields,
    split_log,
)

SECONDS = 0.3  # of wall time, for a walk
INDEX_SECONDS = 0.5  # for the index to add new commits
ALL = 1_000_000  # commits; more than any file has
_NAMES = 8  # earlier names of a file that are followed
_LOG = (*LOG, "--no-renames", "--raw", LOG_FORMAT)
_LISTED = (*LISTED, "--diff-merges=first-parent")
_MOVES = ("-M", "-l200")
RENAMES = (
    "diff-tree", "-r", "-z", "-M", "--no-commit-id", "--no-ext-diff", "--no-textconv", "--raw", "--diff-filter=R",
)  # fmt: skip


@dataclass(frozen=True)
class FileHistory:
    """The commits of one file, newest first. `partial`: older ones may be missing (out of time, or a shallow clone)."""

    commits: tuple[FileCommit, ...]
    partial: bool = False


def file_log(
    worktree: WorkTree | Path, path: str, limit: int, *, revision: str = "HEAD", seconds: float = SECONDS
) -> FileHistory:
    """All commits of `path`, a file or a directory relative to the top; lines are counted only in the newest `limit`.

    If there is no complete index, git walks the history for at most `seconds` of wall time. Raises GitError if git
    fails.
    """
    top = worktree if isinstance(worktree, Path) else worktree.top
    if isinstance(worktree, WorkTree) and layout_of(worktree).history.is_file():
        import sqlite3

        with suppress(RepoagentError, sqlite3.Error, OSError):  # git can answer without the index
            if history := indexed_log(worktree, path, limit, revision, seconds=min(seconds, INDEX_SECONDS)):
                return history
    history = read_log(top, path, ALL, revision=revision, seconds=seconds)
    newest, older = history.commits[:limit], history.commits[limit:]
    return replace(history, commits=(*_counted(top, newest), *older))


def read_log(
    top: Path,
    path: str,
    limit: int,
    *,
    seconds: float | None = SECONDS,
    revision: str = "HEAD",
    since: int | None = None,
) -> FileHistory:
    """The last `limit` commits that changed a file or directory, from one `git log`; lines are not counted.

    Merges count only if no other commit has changed the path. Renames are followed, and names are those of `.mailmap`.
    After `seconds` of wall time (None: no limit), returns the commits found so far, marked as partial; following
    renames may take as long again. Commits before `since` (seconds since 1970) are left out. Raises GitError if git
    fails.
    """
    age = () if since is None else (f"--max-age={since}",)

    def log(
        *options: str, start: str = revision, name: str = path, deadline: float | None
    ) -> tuple[bytes, bool]:
        walk = (*age, f"--max-count={limit - len(commits)}", "--end-of-options", start, "--", name)
        return TimedGit(top, *_LOG, *options, *walk, deadline=deadline).read()

    commits: list[FileCommit] = []
    try:
        data, partial = log("--no-merges", deadline=deadline_in(seconds))
        if not data and not partial:
            listing = ("ls-tree", "-z", "--full-tree", revision, "--", path)
            if git_output(top, *listing, ok=(0, 128), env=OFFLINE).stdout:
                data, partial = log("--diff-merges=first-parent", deadline=deadline_in(seconds))
    except GitError:
        if resolve_commit(top, revision, ok=(0, 1)) is None:  # no commit yet
            return FileHistory(())
        return FileHistory((), partial=True)  # a partial clone without trees
    commits += parse_log(data, path)
    deadline = deadline_in(seconds)
    for _ in range(_NAMES):
        if partial or not commits or commits[-1].status != "A" or not commits[-1].parents:
            break
        oldest = commits[-1]
        try:
            data, partial = TimedGit(top, *RENAMES, oldest.commit, deadline=deadline).read()
            origin = None if partial else find_rename(data, oldest.path)
            if origin is None:
                break
            commits[-1] = replace(
                oldest, status="R", before=origin.blob, old_mode=origin.mode, was=origin.path
            )
            if len(commits) == limit:
                break
            data, partial = log("--no-merges", start=f"{oldest.commit}^", name=origin.path, deadline=deadline)
        except GitError:  # a partial clone without the blobs to compare
            partial = True
            break
        commits += parse_log(data, origin.path)
    else:
        partial = True
    if commits and not commits[-1].parents and is_shallow(top):
        commits[-1], partial = _at_boundary(commits[-1]), True
    return FileHistory(tuple(commits), partial)


def _at_boundary(commit: FileCommit) -> FileCommit:
    """The oldest commit of a shallow clone, which seems to add every file: its real change is not known."""
    return replace(commit, status="M", added=None, removed=None, before="", old_mode="", touched=())


def is_shallow(top: Path) -> bool:
    """Whether the repository is a shallow clone, which lacks older commits. Raises GitError if git fails."""
    return git_output(top, "rev-parse", "--is-shallow-repository").stdout.strip() == b"true"


def indexed_log(
    worktree: WorkTree, path: str, limit: int, revision: str, *, seconds: float = INDEX_SECONDS
) -> FileHistory | None:
    """Like `file_log`, but without walking the history: git describes only the commits that the index has for the file.

    Returns None if the index is not complete, or if the file cannot be followed through these commits. Raises GitError
    if an object is missing, and any exception that a damaged index causes.
    """
    from repoagent.history.index.index import open_index

    top = worktree.top
    with open_index(worktree, warn=lambda sentence: None) as index:
        if not index.update(revision, seconds=seconds).complete:
            return None
        view = index.view(revision)
        file = view.file(os.fsencode(path))
        numbers = [commit.number for commit in view.commits(file, ALL)] if file is not None else []
        known = view.ids(numbers) if numbers else {}
    if not known:
        return None
    ids = [known[number] for number in numbers if number in known]
    whole = parse_log(git_offline(top, *_LISTED, "--no-patch", LOG_FORMAT, names=ids), path)
    data = git_offline(top, *_LISTED, "--raw", *_MOVES, "--no-abbrev", COMMIT_MARK, names=ids[:limit])
    changes = {
        (header[0], names[-1]): (change, names) for header, each in split_log(data) for change, names in each
    }
    followed: list[FileCommit] = []
    for commit in whole[:limit]:
        change, names = changes.get((commit.commit.encode(), os.fsencode(path)), (None, []))
        if change is None:
            return None
        old_mode, new_mode, before, after, status = raw_fields(change)
        origin = os.fsdecode(names[0])
        followed.append(
            replace(
                commit, path=path, touched=(path,), status=status, before=before, after=after,
                old_mode=old_mode, new_mode=new_mode, was=origin if status == "R" else "",
            )
        )  # fmt: skip
        path = origin
    whole[: len(followed)] = _counted(top, followed)
    cut = not whole[-1].parents and is_shallow(top)
    if cut:
        whole[-1] = _at_boundary(whole[-1])
    return FileHistory(tuple(whole), cut)


def _counted(top: Path, commits: Sequence[FileCommit]) -> tuple[FileCommit, ...]:
    """`commits` of one file or directory with the lines that each added and removed, if git has the blobs. One call."""
    if not commits:
        return ()
    # With the old paths too: without them git shows a rename as an addition.
    paths = dict.fromkeys(path for commit in commits for path in (commit.path, commit.was) if path)
    ids = [commit.commit for commit in commits]
    try:
        data = git_offline(top, *_LISTED, "--numstat", *_MOVES, COMMIT_MARK, "--", *paths, names=ids)
    except GitError:  # a partial clone
        return tuple(commits)
    counts: defaultdict[tuple[str, str], list[tuple[int | None, int | None]]] = defaultdict(list)
    for header, changes in split_log(data):
        for change, names in changes:
            counts[header[0].decode(), os.fsdecode(names[-1])].append(counts_of(change))
    result = []
    for commit in commits:
        lines = [each for path in commit.touched for each in counts[commit.commit, path]]
        known = lines and all(added is not None for added, _ in lines)
        added, removed = (sum(column) for column in zip(*lines, strict=True)) if known else (None, None)
        result.append(replace(commit, added=added, removed=removed))
    return tuple(result)
