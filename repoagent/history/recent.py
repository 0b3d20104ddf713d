"""The last commits that changed one file, within a bound of time, while other work goes on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.history.parse import LOG_FORMAT, FileCommit, Origin, parse_log, renamed
from repoagent.history.timed import TimedGit, deadline_in
from repoagent.repo.run import OFFLINE, GitError, git_output

SECONDS = 0.3
ALL = 1_000_000  # commits; more than any file has
_NAMES = 8  # a file is followed back through that many names
# Whatever the user has set: no following (takes seconds), no colours, no other encoding, no programs.
_LOG = (
    "log", "--no-follow", "--no-notes", "--no-decorate", "--encoding=UTF-8",
    f"--format={LOG_FORMAT}", "--raw", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color",
)  # fmt: skip
RENAMES = (
    "diff-tree", "-r", "-z", "-M", "--no-commit-id", "--no-ext-diff", "--no-textconv", "--raw", "--numstat",
    "--diff-filter=R",
)  # fmt: skip
_NO_MERGES = ("--no-merges",)
_AS_MERGED = ("--diff-merges=first-parent",)  # for a file that only merges have changed


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

    def __init__(
        self,
        worktree_top: Path,
        path: str,
        limit: int,
        seconds: float | None,
        *,
        revision: str = "HEAD",
        counts: bool = True,
        since: int | None = None,
    ) -> None:
        self._top, self._path, self._limit, self._seconds = worktree_top, path, limit, seconds
        self._revision, self._counts = revision, counts
        self._bound = () if since is None else (f"--max-age={since}",)
        self._log = self._start(revision, path, limit)
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
        self,
        revision: str,
        path: str,
        limit: int,
        *,
        counts: bool = True,
        merges: tuple[str, ...] = _NO_MERGES,
        deadline: float | None = None,
    ) -> TimedGit:
        numstat = ("--numstat",) if counts and self._counts else ()
        args = (*_LOG, *numstat, *merges, *self._bound, f"--max-count={limit}", "--end-of-options", revision)
        return TimedGit(self._top, *args, "--", path, deadline=deadline or deadline_in(self._seconds))

    def _collect(self) -> FileHistory:
        try:
            data, late = self._log.read()
        except GitError:
            # No commit yet, or a partial clone without the blobs that counting lines needs.
            if not self._is_commit():
                return FileHistory(self._path, ())
            try:
                data, late = self._start(self._revision, self._path, self._limit, counts=False).read()
            except GitError:  # one without the trees even
                return FileHistory(self._path, (), True)
        commits = parse_log(data, self._path)
        if not commits and not late and self._is_commit() and self._is_there():
            try:
                merged = self._start(self._revision, self._path, self._limit, merges=_AS_MERGED)
                data, late = merged.read()
            except GitError:
                return FileHistory(self._path, (), True)
            commits = parse_log(data, self._path)
        if not late:
            late = self._follow(commits)
        if commits and not commits[-1].parents and is_shallow(self._top):
            commits[-1] = at_boundary(commits[-1])
            late = True
        return FileHistory(self._path, tuple(commits), late)

    def _follow(self, commits: list[FileCommit]) -> bool:
        """Append what is older, under the names that the file had; True when something may be missing."""
        end = deadline_in(self._seconds)
        for _ in range(_NAMES):
            if not commits:
                return False
            oldest = commits[-1]
            if oldest.status != "A" or not oldest.parents:
                return False
            try:
                data, late = TimedGit(self._top, *RENAMES, oldest.commit, deadline=end).read()
                origin = None if late else renamed(data, oldest.path)
                if origin is None:
                    return late
                commits[-1] = _moved(oldest, origin)
                left = self._limit - len(commits)
                if left < 1:
                    return False
                data, late = self._start(f"{oldest.commit}^", origin.path, left, deadline=end).read()
            except GitError:  # a partial clone without the blobs to compare
                return True
            commits += parse_log(data, origin.path)
            if late:
                return True
        return True

    def _is_commit(self) -> bool:
        asked = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{self._revision}^{{commit}}")
        return git_output(self._top, *asked, ok=(0, 1)).returncode == 0

    def _is_there(self) -> bool:
        listed = git_output(
            self._top,
            "ls-tree",
            "-z",
            "--full-tree",
            self._revision,
            "--",
            self._path,
            ok=(0, 128),
            env=OFFLINE,
        )
        return bool(listed.stdout)


def start(
    worktree_top: Path,
    path: str,
    limit: int = 8,
    *,
    seconds: float | None = SECONDS,
    revision: str = "HEAD",
    counts: bool = True,
    since: int | None = None,
) -> Running:
    """Start to look for the last `limit` commits that changed `path`; collect them with `.result()`.

    `path` is relative to the top of the work tree, a file or a directory. Merges do not count (unless nothing else
    has changed it), renames are followed, names are those of `.mailmap`. git gets `seconds` of wall time, then what
    it has found is the result, marked as partial; None is no limit. Without `counts` no lines are counted, which is
    much quicker. Commits made before `since` (seconds since 1970) are left out.
    """
    return Running(worktree_top, path, limit, seconds, revision=revision, counts=counts, since=since)


def at_boundary(commit: FileCommit) -> FileCommit:
    """The oldest commit of a shallow clone, which looks as if it had added every file: what it did is not known."""
    return replace(commit, status="M", added=None, removed=None, before="", old_mode="")


def is_shallow(top: Path) -> bool:
    """Whether this clone lacks what is older than some boundary."""
    return git_output(top, "rev-parse", "--is-shallow-repository").stdout.strip() == b"true"


def _moved(commit: FileCommit, origin: Origin) -> FileCommit:
    """The commit that seemed to add a file, as the rename that it is."""
    return replace(
        commit,
        status="R",
        added=origin.added,
        removed=origin.removed,
        before=origin.blob,
        old_mode=origin.mode,
        was=origin.path,
    )


def recent_commits(
    worktree_top: Path, path: str, limit: int = 8, *, seconds: float = SECONDS
) -> list[FileCommit]:
    """The last `limit` commits that changed `path`, newest first: `start` and `result` in one.

    Empty for a file that git does not know and on an unborn branch. Raises GitError.
    """
    with start(worktree_top, path, limit, seconds=seconds) as running:
        return list(running.result().commits)
