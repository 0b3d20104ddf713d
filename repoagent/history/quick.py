"""The quick way: what a file's own last commits say, read by one `git log` within a bound of time.

It is the answer while there is no index yet. The log runs while other work goes on; what it has printed when the time
is up is what counts. Renames are not followed, and what a neighbor did without the file is not known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.history.cochange.commit import Commit
from repoagent.history.timed import TimedGit, deadline_in
from repoagent.repo.run import OFFLINE, GitError, git, git_output

COMMITS = 100
LARGEST = 100  # files of a commit; a larger one is an import or a reformatting and says nothing
SECONDS = 0.3
_LISTING_SECONDS = 0.2
_NAMES = 50
_PATHS_A_CALL = 500
_ENTRY = (b":", b"\n:")  # modes, ids and a letter; the path is the next token, so none is taken for an entry
_COMMIT = b"\x01"
_DELETED = b"D"


class QuickLook:
    """A `git log` of some files or folders that runs since it was made; `view` waits for it, `close` gives
    it up.

    `seconds` is wall time, None for no limit; `commits` how many of the newest are read at `revision`, anything that
    names a commit; those committed before `since` (seconds since 1970) are not.
    """

    def __init__(
        self,
        top: Path,
        *paths: str,
        seconds: float | None = SECONDS,
        revision: str = "HEAD",
        commits: int = COMMITS,
        since: int | None = None,
    ) -> None:
        self._top, self._revision, self._timed = top, revision, seconds is not None
        bound = [] if since is None else [f"--max-age={since}"]
        self._git = TimedGit(
            top, "log", f"--max-count={commits}", "--no-merges", "--full-diff", "--no-follow", "--raw", "-z",
            "--no-abbrev", "--no-renames", "--no-ext-diff", "--no-notes", "--no-decorate", "--no-color",
            "--format=%x01%H %ct", *bound, "--end-of-options", revision, "--", *paths,
            deadline=deadline_in(seconds),
        )  # fmt: skip

    def view(self) -> RecentView:
        """What was read as a history. Nothing on an unborn branch and for an unknown file."""
        try:
            data, late = self._git.read()
        except GitError:  # no commit yet, or a partial clone without its trees
            asked = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{self._revision}^{{commit}}")
            late = git_output(self._top, *asked, ok=(0, 1, 128)).returncode == 0
            return RecentView(self._top, self._revision, [], late=late, timed=self._timed)
        changes = _changes(data)[: -1 if late else None]
        return RecentView(self._top, self._revision, changes, late=late, timed=self._timed)

    def close(self) -> None:
        """End git if it still runs."""
        self._git.close()

    def __enter__(self) -> QuickLook:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True)
class Change:
    """A commit and what it changed. `id` is its full id, `time` the committer's date in seconds since 1970."""

    id: str
    time: int
    paths: tuple[bytes, ...]
    deleted: tuple[bytes, ...]


class RecentView:
    """`changes`, newest first, as the `View` that the co-change kernel asks. `late`: there may be more of them;
    `timed`: the files of the tree are listed within a bound of time.

    What is alive, and the names, are those of the revision's tree; for HEAD, of the index, which knows what was added.
    """

    def __init__(
        self, top: Path, revision: str, changes: Sequence[Change], *, late: bool, timed: bool = True
    ) -> None:
        self._timed = timed
        self._top, self._revision, self.changes, self.late = top, revision, changes, late
        self._path_of: list[bytes] = []
        self._file_of: dict[bytes, int] = {}
        self._commits: list[Commit] = []
        self._of_file: dict[int, list[Commit]] = defaultdict(list)
        self._listing: list[bytes] | None = None
        self._listing_cut = False
        for place, change in enumerate(changes):
            paths = dict.fromkeys(change.paths)
            files = tuple(self._id(path) for path in paths) if len(paths) <= LARGEST else ()
            commit = Commit(len(changes) - place, change.time, 0, len(paths), files)
            self._commits.append(commit)
            for path in paths:
                self._of_file[self._id(path)].append(commit)

    def id(self, number: int) -> str:
        """The full id of the commit with this number."""
        return self.changes[len(self.changes) - number].id

    def file(self, path: bytes) -> int | None:
        return self._file_of.get(path)

    def commits(self, file: int, limit: int) -> list[Commit]:
        return self._of_file[file][:limit]

    def many(self, files: Sequence[int], limit: int) -> dict[int, list[Commit]]:
        return {file: self.commits(file, limit) for file in files}

    def latest(self, limit: int) -> list[Commit]:
        return self._commits[:limit]

    def namesakes(self, stem: bytes) -> list[int]:
        from repoagent.history.cochange.names import stem as stem_of

        return [self._id(path) for path in self._listed() if stem_of(path) == stem][:_NAMES]

    def folder(self, directory: bytes, limit: int) -> list[int]:
        inside = [path for path in self._listed() if path.rpartition(b"/")[0] == directory]
        inside.sort(key=self._last, reverse=True)
        return [self._id(path) for path in inside[:limit]]

    def paths(self, files: Sequence[int]) -> dict[int, bytes]:
        wanted = {self._path_of[file]: file for file in files}
        alive: set[bytes] = set(self._listing or ())
        unknown = [path for path in wanted if path not in alive]
        if self._listing is not None and not self._listing_cut:
            unknown = []
        for start in range(0, len(unknown), _PATHS_A_CALL):
            alive.update(listed(self._top, self._revision, *unknown[start : start + _PATHS_A_CALL]))
        return {file: path for path, file in wanted.items() if path in alive}

    def _id(self, path: bytes) -> int:
        file = self._file_of.setdefault(path, len(self._path_of))
        if file == len(self._path_of):
            self._path_of.append(path)
        return file

    def _last(self, path: bytes) -> int:
        commits = self._of_file.get(self._file_of.get(path, -1))
        return commits[0].time if commits else 0

    def _listed(self) -> list[bytes]:
        """All files of the tree, as many as can be listed in the time there is."""
        if self._listing is None:
            deadline = deadline_in(_LISTING_SECONDS if self._timed else None)
            running = TimedGit(self._top, *_lister(self._revision), deadline=deadline)
            try:
                data, self._listing_cut = running.read()
                self._listing = data.split(b"\0")[:-1]
            except GitError:  # no commit yet, or a partial clone without its trees
                self._listing = []
        return self._listing


def listed(top: Path, revision: str, *paths: bytes) -> list[bytes]:
    """The files at these paths or below them in the revision's tree; for HEAD, in the index."""
    try:
        return git(top, *_lister(revision), "--", *paths, env=OFFLINE).split(b"\0")[:-1]
    except GitError:  # no commit yet, or a partial clone without its trees
        return []


def _lister(revision: str) -> tuple[str, ...]:
    if revision == "HEAD":
        return ("ls-files", "-z")
    return ("ls-tree", "-r", "-z", "--name-only", "--full-tree", revision)


def _changes(data: bytes) -> list[Change]:
    """What `git log` printed, newest first."""
    changes: list[tuple[bytes, list[bytes], list[bytes]]] = []
    tokens = iter(data.split(b"\0"))
    for token in tokens:
        if token.startswith(_ENTRY) and changes:
            path = next(tokens, b"")
            changes[-1][1].append(path)
            if token.endswith(_DELETED):
                changes[-1][2].append(path)
        elif token.lstrip(b"\n").startswith(_COMMIT):
            changes.append((token.lstrip(b"\n")[1:], [], []))
    found = []
    for head, paths, deleted in changes:
        commit, _, seconds = head.decode("ascii").partition(" ")
        found.append(Change(commit, int(seconds), tuple(paths), tuple(deleted)))
    return found
