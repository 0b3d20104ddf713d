"""The commits of one file, through its renames, from `git log` limited by number and time."""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.git.objects import resolve_commit
from repoagent.git.process import OFFLINE, GitError, git_output
from repoagent.history.log import (
    COMMIT_MARK,
    LISTED,
    LOG,
    LOG_FORMAT,
    FileCommit,
    counts_of,
    deadline_in,
    find_rename,
    git_offline,
    parse_log,
    split_log,
    timed_git,
)

SECONDS = 0.3  # of wall time, for a walk
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
    top: Path, path: str, limit: int, *, revision: str = "HEAD", seconds: float = SECONDS
) -> FileHistory:
    """All commits of `path`, a file or a directory relative to the top. The newest `limit` have the lines that each
    added and removed, if git has the blobs.

    git walks the history for at most `seconds` of wall time. Raises GitError if git fails.
    """
    history = read_log(top, path, ALL, revision=revision, seconds=seconds)
    newest = history.commits[:limit]
    if not newest:
        return history
    # With the old paths too: without them git shows a rename as an addition.
    paths = dict.fromkeys(path for commit in newest for path in (commit.path, commit.was) if path)
    ids = [commit.commit for commit in newest]
    try:
        data = git_offline(top, *_LISTED, "--numstat", *_MOVES, COMMIT_MARK, "--", *paths, names=ids)
    except GitError:  # a partial clone
        return history
    counts: defaultdict[tuple[str, str], list[tuple[int | None, int | None]]] = defaultdict(list)
    for header, changes in split_log(data):
        for change, names in changes:
            counts[header[0].decode(), os.fsdecode(names[-1])].append(counts_of(change))
    counted = []
    for commit in newest:
        lines = [each for path in commit.touched for each in counts[commit.commit, path]]
        known = lines and all(added is not None for added, _ in lines)
        added, removed = (sum(column) for column in zip(*lines, strict=True)) if known else (None, None)
        counted.append(replace(commit, added=added, removed=removed))
    return replace(history, commits=(*counted, *history.commits[limit:]))


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
        return timed_git(top, *_LOG, *options, *walk, deadline=deadline)

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
            data, partial = timed_git(top, *RENAMES, oldest.commit, deadline=deadline)
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
        # the oldest commit of a shallow clone seems to add every file: its real change is not known
        commits[-1] = replace(
            commits[-1], status="M", added=None, removed=None, before="", old_mode="", touched=()
        )
        partial = True
    return FileHistory(tuple(commits), partial)


def is_shallow(top: Path) -> bool:
    """Whether the repository is a shallow clone, which lacks older commits. Raises GitError if git fails."""
    return git_output(top, "rev-parse", "--is-shallow-repository").stdout.strip() == b"true"
