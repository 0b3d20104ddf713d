"""The last commits of one file, read by one `git log` within a time limit while other work proceeds.

This is the answer while there is no index: whatever the log has printed when the time is up counts. `QuickLook` derives
neighbors from it; it does not follow renames and does not know what a neighbor did without the file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.git.process import OFFLINE, GitError, git, git_output
from repoagent.history.cochange.score import Commit
from repoagent.history.log import LOG_FORMAT, FileCommit, Origin, TimedGit, deadline_in, parse_log, renamed

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


class FileLog:
    """A look for the last `limit` commits that changed a file, which runs since it was made; a context manager that
    ends it.

    `path` is relative to the top of the work tree, a file or a directory. Merges do not count (unless nothing else
    has changed it), renames are followed, names are those of `.mailmap`. git gets `seconds` of wall time, then what
    it has found is the result, marked as partial; None is no limit. Without `counts` no lines are counted, which is
    much quicker. Commits made before `since` (seconds since 1970) are left out.
    """

    def __init__(
        self,
        top: Path,
        path: str,
        limit: int = 8,
        *,
        seconds: float | None = SECONDS,
        revision: str = "HEAD",
        counts: bool = True,
        since: int | None = None,
    ) -> None:
        self._top, self._path, self._limit, self._seconds = top, path, limit, seconds
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

    def __enter__(self) -> FileLog:
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
        return _is_commit(self._top, self._revision)

    def _is_there(self) -> bool:
        listing = ("ls-tree", "-z", "--full-tree", self._revision, "--", self._path)
        return bool(git_output(self._top, *listing, ok=(0, 128), env=OFFLINE).stdout)


def _is_commit(top: Path, revision: str, ok: tuple[int, ...] = (0, 1)) -> bool:
    peeled = ("--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    return git_output(top, "rev-parse", *peeled, ok=ok).returncode == 0


def at_boundary(commit: FileCommit) -> FileCommit:
    """The oldest commit of a shallow clone, which looks as if it had added every file: what it did is not known."""
    return replace(commit, status="M", added=None, removed=None, before="", old_mode="")


def is_shallow(top: Path) -> bool:
    """Whether this clone lacks what is older than some boundary."""
    return git_output(top, "rev-parse", "--is-shallow-repository").stdout.strip() == b"true"


def _moved(commit: FileCommit, origin: Origin) -> FileCommit:
    """The commit that seemed to add a file, as the rename that it is."""
    return replace(
        commit, status="R", added=origin.added, removed=origin.removed, before=origin.blob, old_mode=origin.mode,
        was=origin.path,
    )  # fmt: skip


COMMITS = 100
LARGEST = 100  # files of a commit; a larger one is an import or a reformatting and says nothing
QUICK_SECONDS = 0.3
_LISTING_SECONDS = 0.2
_NAMES_PER_COMMIT = 50
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
        seconds: float | None = QUICK_SECONDS,
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
            late = _is_commit(self._top, self._revision, (0, 1, 128))
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
        from repoagent.history.cochange.score import stem as stem_of

        return [self._id(path) for path in self._listed() if stem_of(path) == stem][:_NAMES_PER_COMMIT]

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
    commits: list[tuple[bytes, list[bytes], list[bytes]]] = []
    tokens = iter(data.split(b"\0"))
    for token in tokens:
        if token.startswith(_ENTRY) and commits:
            path = next(tokens, b"")
            commits[-1][1].append(path)
            if token.endswith(_DELETED):
                commits[-1][2].append(path)
        elif token.lstrip(b"\n").startswith(_COMMIT):
            commits.append((token.lstrip(b"\n")[1:], [], []))
    heads = (head.decode("ascii").partition(" ") for head, _, _ in commits)
    return [
        Change(commit, int(seconds), tuple(paths), tuple(deleted))
        for (commit, _, seconds), (_, paths, deleted) in zip(heads, commits, strict=True)
    ]
