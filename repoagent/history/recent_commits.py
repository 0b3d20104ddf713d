"""The last commits of some files, read by one `git log` within a time limit.

Used while there is no index: the commits that the log has printed before the time limit count. Renames are not
followed, and a neighbor's commits that do not touch these files are unknown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from repoagent.git.objects import resolve_commit
from repoagent.git.process import OFFLINE, GitError, git
from repoagent.history import cochange
from repoagent.history.cochange import MOST_FILES, HistoryCommit
from repoagent.history.log import LOG, deadline_in, split_log, timed_git

_COMMITS = 100
_NAMESAKES = 50
_PATHS_A_CALL = 500
_LOG = (*LOG, "--no-renames", "--raw", "--no-abbrev", "--no-merges", "--full-diff", "--format=%x01%H%x00%ct")


def read_recent(
    top: Path,
    *paths: str,
    seconds: float | None,
    revision: str = "HEAD",
    commits: int = _COMMITS,
    since: int | None = None,
) -> RecentView:
    """The newest `commits` commits at `revision` that changed some files or folders, and were committed after `since`
    (seconds since 1970); empty on an unborn branch and for an unknown file. `seconds` is wall time, None for no limit.
    """
    bound = () if since is None else (f"--max-age={since}",)
    walk = (f"--max-count={commits}", *bound, "--end-of-options", revision, "--", *paths)
    try:
        data, late = timed_git(top, *_LOG, *walk, deadline=deadline_in(seconds))
    except GitError:  # no commit yet, or a partial clone without its trees
        data, late = b"", resolve_commit(top, revision) is not None
    return RecentView(top, revision, data, late=late)


class RecentView:
    """The output of a `git log` as a `HistoryView` for the co-change score.

    `late` means that there may be more commits. The existing files are those in the revision's tree or, for HEAD, in
    git's index, which also contains newly added files.
    """

    def __init__(self, top: Path, revision: str, log: bytes, *, late: bool) -> None:
        self._top, self._revision, self.late = top, revision, late
        commits = list(split_log(log, 2))
        if late:
            del commits[-1:]  # it may be cut off
        self._ids = [oid.decode("ascii") for (oid, _), _ in commits]
        self._paths: list[bytes] = []
        self._files: dict[bytes, int] = {}
        self._commits: list[HistoryCommit] = []
        self._of_file: dict[int, list[HistoryCommit]] = defaultdict(list)
        self._listing: list[bytes] | None = None
        for age, ((_, time), changes) in enumerate(commits):
            files = [
                self._number(path) for path in dict.fromkeys(path for _, names in changes for path in names)
            ]
            small = tuple(files) if len(files) <= MOST_FILES else ()
            commit = HistoryCommit(len(commits) - age, int(time or 0), 0, len(files), small)
            self._commits.append(commit)
            for file in files:
                self._of_file[file].append(commit)

    def ids(self, numbers: Iterable[int]) -> dict[int, str]:
        return {number: self._ids[len(self._ids) - number] for number in numbers}

    def file(self, path: bytes) -> int | None:
        return self._files.get(path)

    def commits(self, file: int, limit: int) -> list[HistoryCommit]:
        return self._of_file[file][:limit]

    def many(self, files: Sequence[int], limit: int) -> dict[int, list[HistoryCommit]]:
        return {file: self.commits(file, limit) for file in files}

    def latest(self, limit: int) -> list[HistoryCommit]:
        return self._commits[:limit]

    def namesakes(self, stem: bytes) -> list[int]:
        return [self._number(path) for path in self._tree() if cochange.name_stem(path) == stem][:_NAMESAKES]

    def folder(self, directory: bytes, limit: int) -> list[int]:
        def last(path: bytes) -> int:
            commits = self._of_file.get(self._files.get(path, -1))
            return commits[0].time if commits else 0

        inside = [path for path in self._tree() if path.rpartition(b"/")[0] == directory]
        return [self._number(path) for path in sorted(inside, key=last, reverse=True)[:limit]]

    def paths(self, files: Sequence[int]) -> dict[int, bytes]:
        alive = set(self._listing or ())
        if self._listing is None:
            with suppress(GitError):  # a partial clone without its trees
                alive.update(
                    existing_files(self._top, self._revision, [*{self._paths[file]: None for file in files}])
                )
        return {file: self._paths[file] for file in dict.fromkeys(files) if self._paths[file] in alive}

    def _number(self, path: bytes) -> int:
        file = self._files.setdefault(path, len(self._paths))
        if file == len(self._paths):
            self._paths.append(path)
        return file

    def _tree(self) -> list[bytes]:
        if self._listing is None:
            try:
                self._listing = git(self._top, *_lister(self._revision), env=OFFLINE).split(b"\0")[:-1]
            except GitError:  # no commit yet, or a partial clone without its trees
                self._listing = []
        return self._listing


def existing_files(top: Path, revision: str, paths: Sequence[bytes]) -> list[bytes]:
    """The files at these paths or below them in the revision's tree; for HEAD, in the index. Reads no file contents,
    which a partial clone may lack. Raises GitError if a tree is missing."""
    files: list[bytes] = []
    for start in range(0, len(paths), _PATHS_A_CALL):
        some = paths[start : start + _PATHS_A_CALL]
        files += git(top, *_lister(revision), "--", *some, env=OFFLINE).split(b"\0")[:-1]
    return files


def _lister(revision: str) -> tuple[str, ...]:
    if revision == "HEAD":
        return ("ls-files", "-z")
    return ("ls-tree", "-r", "-z", "--name-only", "--full-tree", revision)
