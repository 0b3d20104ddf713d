"""The last commits that changed one file, within a bound of time, while other work goes on."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

from repoagent.history.parse import LOG_FORMAT, FileCommit, parse_log, renamed_from
from repoagent.history.timed import TimedGit
from repoagent.repo.run import GitError, git_output

SECONDS = 0.3
_NAMES = 8  # a file is followed back through that many names
# Whatever the user has set: no following (takes seconds), no colours, no other encoding, no programs.
_LOG = (
    "log", "--no-merges", "--no-follow", "--no-notes", "--no-decorate", "--encoding=UTF-8",
    f"--format={LOG_FORMAT}", "--raw", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color",
)  # fmt: skip
_RENAMES = (
    "diff-tree", "-r", "-z", "-M", "--no-commit-id", "--no-ext-diff", "--no-textconv", "--numstat",
    "--diff-filter=R",
)  # fmt: skip


@dataclass(frozen=True)
class FileHistory:
    """What `git log` said of one file, newest first.

    `partial`: older commits that were asked for may be missing (out of time, or the end of a shallow clone).
    """

    path: str
    commits: tuple[FileCommit, ...]
    partial: bool = False


class Running:
    """A look into a file's history that runs since it was made; a context manager that ends it."""

    def __init__(self, worktree_top: Path, path: str, limit: int, seconds: float) -> None:
        self._top, self._path, self._limit, self._seconds = worktree_top, path, limit, seconds
        self._log = self._start("HEAD", path, limit)
        self._result: FileHistory | None = None

    def result(self) -> FileHistory:
        """The history. Waits until git is done or its `seconds` since the start are over, whichever is first;
        following renames may then take as long again. Raises GitError when git fails.
        """
        if self._result is None:
            self._result = self._collect()
        return self._result

    def close(self) -> None:
        """End git if it still runs."""
        self._log.close()

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(
        self, revision: str, path: str, limit: int, *, counts: bool = True, deadline: float | None = None
    ) -> TimedGit:
        numstat = ("--numstat",) if counts else ()
        args = (*_LOG, *numstat, f"--max-count={limit}", revision, "--", path)
        return TimedGit(self._top, *args, deadline=deadline or time.monotonic() + self._seconds)

    def _collect(self) -> FileHistory:
        try:
            data, late = self._log.read()
        except GitError:
            # No commit yet, or a partial clone without the blobs that counting lines needs.
            head = git_output(self._top, "rev-parse", "--verify", "--quiet", "HEAD", ok=(0, 1))
            if head.returncode:
                return FileHistory(self._path, ())
            try:
                data, late = self._start("HEAD", self._path, self._limit, counts=False).read()
            except GitError:  # one without the trees even
                return FileHistory(self._path, (), True)
        commits = parse_log(data, self._path)
        if not late:
            late = self._follow(commits)
        if commits and not commits[-1].parents and self._is_shallow():
            # The oldest commit of a shallow clone looks as if it had added every file.
            commits[-1] = replace(commits[-1], added=None, removed=None)
            late = True
        return FileHistory(self._path, tuple(commits), late)

    def _follow(self, commits: list[FileCommit]) -> bool:
        """Append what is older, under the names that the file had; True when something may be missing."""
        end = time.monotonic() + self._seconds
        for _ in range(_NAMES):
            if not commits or len(commits) >= self._limit:
                return False
            renamed = commits[-1]
            if renamed.status != "A" or not renamed.parents:
                return False
            try:
                data, late = TimedGit(self._top, *_RENAMES, renamed.commit, deadline=end).read()
                origin = None if late else renamed_from(data, renamed.path)
                if origin is None:
                    return late
                commits[-1] = replace(renamed, status="R", added=origin[1], removed=origin[2])
                left = self._limit - len(commits)
                data, late = self._start(f"{renamed.commit}^", origin[0], left, deadline=end).read()
            except GitError:  # a partial clone without the blobs to compare
                return True
            commits += parse_log(data, origin[0])
            if late:
                return True
        return True

    def _is_shallow(self) -> bool:
        return git_output(self._top, "rev-parse", "--is-shallow-repository").stdout.strip() == b"true"


def start(worktree_top: Path, path: str, limit: int = 8, *, seconds: float = SECONDS) -> Running:
    """Start to look for the last `limit` commits that changed `path`; collect them with `.result()`.

    `path` is relative to the top of the work tree. Merges do not count, renames are followed, names are those
    of `.mailmap`. git gets `seconds` of wall time, then what it has found is the result, marked as partial.
    """
    return Running(worktree_top, path, limit, seconds)


def recent_commits(
    worktree_top: Path, path: str, limit: int = 8, *, seconds: float = SECONDS
) -> list[FileCommit]:
    """The last `limit` commits that changed `path`, newest first: `start` and `result` in one.

    Empty for a file that git does not know and on an unborn branch. Raises GitError.
    """
    with start(worktree_top, path, limit, seconds=seconds) as running:
        return list(running.result().commits)
