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
from repoagent.history.log import LOG_FORMAT, FileCommit, TimedGit, deadline_in, parse_log, renamed

SECONDS = 0.3
ALL = 1_000_000  # commits; more than any file has
QUICK_SECONDS = 0.3
_COMMITS = 100
_LARGEST = 100  # files of a commit; a larger one is an import or a reformatting and says nothing
_LISTING_SECONDS = 0.2
_NAMES = 8  # a file is followed back through that many names
_NAMESAKES = 50
_PATHS_A_CALL = 500
# Whatever the user has configured: no following (takes seconds), no colours, no other encoding, no programs.
_PLAIN = (
    "--no-notes", "--no-decorate", "--no-color", "--no-ext-diff", "--no-renames", "--no-follow", "--raw", "-z",
)  # fmt: skip
_LOG = ("log", *_PLAIN, "--encoding=UTF-8", f"--format={LOG_FORMAT}", "--no-textconv")
_QUICK_LOG = ("log", *_PLAIN, "--no-abbrev", "--no-merges", "--full-diff", "--format=%x01%H %ct")
RENAMES = (
    "diff-tree", "-r", "-z", "-M", "--no-commit-id", "--no-ext-diff", "--no-textconv", "--raw", "--numstat",
    "--diff-filter=R",
)  # fmt: skip


@dataclass(frozen=True)
class FileHistory:
    """The commits of one file, newest first. `partial`: older ones may be missing (out of time, or a shallow clone)."""

    path: str
    commits: tuple[FileCommit, ...]
    partial: bool = False


class FileLog:
    """The last `limit` commits that changed a file, read by a git that starts at once; a context manager that ends it.

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
        self._revision = revision
        self._counts = ("--numstat",) if counts else ()
        self._since = () if since is None else (f"--max-age={since}",)
        self._log = self._start("--no-merges", *self._counts)
        self._result: FileHistory | None = None

    def result(self) -> FileHistory:
        """The history. Waits until git is done or its `seconds` since the start are over, whichever is first;
        following renames may then take as long again. Raises GitError when git fails.
        """
        if self._result is None:
            commits, partial = self._read()
            if not partial:
                partial = self._follow(commits)
            if commits and not commits[-1].parents and is_shallow(self._top):
                commits[-1], partial = at_boundary(commits[-1]), True
            self._result = FileHistory(self._path, tuple(commits), partial)
        return self._result

    def close(self) -> None:
        """End git if it still runs."""
        self._log.close()

    def __enter__(self) -> FileLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(
        self, *options: str, revision: str = "", path: str = "", limit: int = 0, end: float | None = None
    ) -> TimedGit:
        walk = (
            *self._since,
            f"--max-count={limit or self._limit}",
            "--end-of-options",
            revision or self._revision,
        )
        deadline = end or deadline_in(self._seconds)
        return TimedGit(self._top, *_LOG, *options, *walk, "--", path or self._path, deadline=deadline)

    def _read(self) -> tuple[list[FileCommit], bool]:
        """The commits under the present name, and whether some may be missing."""
        try:
            data, late = self._log.read()
        except GitError:
            # No commit yet, or a partial clone without the blobs that counting lines needs.
            if not _is_commit(self._top, self._revision):
                return [], False
            try:
                data, late = self._start("--no-merges").read()
            except GitError:  # a partial clone without trees
                return [], True
        commits = parse_log(data, self._path)
        if commits or late or not _is_commit(self._top, self._revision):
            return commits, late
        listing = ("ls-tree", "-z", "--full-tree", self._revision, "--", self._path)
        if not git_output(self._top, *listing, ok=(0, 128), env=OFFLINE).stdout:
            return [], False
        try:  # only merges have changed it
            data, late = self._start("--diff-merges=first-parent", *self._counts).read()
        except GitError:
            return [], True
        return parse_log(data, self._path), late

    def _follow(self, commits: list[FileCommit]) -> bool:
        """Append the commits under earlier names; True if some may be missing."""
        end = deadline_in(self._seconds)
        for _ in range(_NAMES):
            if not commits or commits[-1].status != "A" or not commits[-1].parents:
                return False
            oldest = commits[-1]
            try:
                data, late = TimedGit(self._top, *RENAMES, oldest.commit, deadline=end).read()
                origin = None if late else renamed(data, oldest.path)
                if origin is None:
                    return late
                commits[-1] = replace(
                    oldest, status="R", added=origin.added, removed=origin.removed, before=origin.blob,
                    old_mode=origin.mode, was=origin.path,
                )  # fmt: skip
                limit = self._limit - len(commits)
                if limit < 1:
                    return False
                parent = f"{oldest.commit}^"
                older = self._start(
                    "--no-merges", *self._counts, revision=parent, path=origin.path, limit=limit, end=end
                )
                data, late = older.read()
            except GitError:  # a partial clone without the blobs to compare
                return True
            commits += parse_log(data, origin.path)
            if late:
                return True
        return True


def _is_commit(top: Path, revision: str, ok: tuple[int, ...] = (0, 1)) -> bool:
    options = ("--verify", "--quiet", "--end-of-options")
    return git_output(top, "rev-parse", *options, f"{revision}^{{commit}}", ok=ok).returncode == 0


def at_boundary(commit: FileCommit) -> FileCommit:
    """The oldest commit of a shallow clone, which seems to add every file: its real change is not known."""
    return replace(commit, status="M", added=None, removed=None, before="", old_mode="")


def is_shallow(top: Path) -> bool:
    return git_output(top, "rev-parse", "--is-shallow-repository").stdout.strip() == b"true"


class QuickLook:
    """A `git log` of some files or folders that starts at once; `view` waits for it, `close` ends it.

    `seconds` is wall time, None for no limit; `commits` how many of the newest are read at `revision`, anything that
    names a commit; those committed before `since` (seconds since 1970) are not.
    """

    def __init__(
        self,
        top: Path,
        *paths: str,
        seconds: float | None = QUICK_SECONDS,
        revision: str = "HEAD",
        commits: int = _COMMITS,
        since: int | None = None,
    ) -> None:
        self._top, self._revision, self._timed = top, revision, seconds is not None
        bound = () if since is None else (f"--max-age={since}",)
        walk = (f"--max-count={commits}", *bound, "--end-of-options", revision, "--", *paths)
        self._git = TimedGit(top, *_QUICK_LOG, *walk, deadline=deadline_in(seconds))

    def view(self) -> RecentView:
        """The history that was read; empty on an unborn branch and for an unknown file."""
        try:
            data, late = self._git.read()
        except GitError:  # no commit yet, or a partial clone without its trees
            data, late = b"", _is_commit(self._top, self._revision, (0, 1, 128))
        return RecentView(self._top, self._revision, data, late=late, timed=self._timed)

    def close(self) -> None:
        """End git if it still runs."""
        self._git.close()

    def __enter__(self) -> QuickLook:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class RecentView:
    """The output of a `QuickLook` as the `View` that the co-change kernel queries.

    `late`: there may be more commits; `timed`: the files of the tree are listed within a time limit. Which files are
    alive, and their names, comes from the revision's tree; for HEAD, from the index, which knows added files.
    """

    def __init__(self, top: Path, revision: str, log: bytes, *, late: bool, timed: bool = True) -> None:
        self._top, self._revision, self._timed, self.late = top, revision, timed, late
        changes: list[tuple[str, int, list[bytes]]] = []  # of each commit: full id, time, paths
        tokens = iter(log.split(b"\0"))
        for token in tokens:
            if token.startswith((b":", b"\n:")) and changes:
                changes[-1][2].append(next(tokens, b""))
            elif token.lstrip(b"\n").startswith(b"\x01"):
                oid, _, time = token.lstrip(b"\n")[1:].decode("ascii").partition(" ")
                changes.append((oid, int(time or 0), []))
        if late:
            del changes[-1:]  # it may be cut off
        self._ids = [oid for oid, *_ in changes]
        self._paths: list[bytes] = []
        self._files: dict[bytes, int] = {}
        self._commits: list[Commit] = []
        self._of_file: dict[int, list[Commit]] = defaultdict(list)
        self._listing: list[bytes] | None = None
        self._listing_late = False
        for age, (_, seconds, paths) in enumerate(changes):
            files = [self._number(path) for path in dict.fromkeys(paths)]
            small = tuple(files) if len(files) <= _LARGEST else ()
            commit = Commit(len(changes) - age, seconds, 0, len(files), small)
            self._commits.append(commit)
            for file in files:
                self._of_file[file].append(commit)

    def id(self, number: int) -> str:
        """The full id of the commit with this number."""
        return self._ids[len(self._ids) - number]

    def file(self, path: bytes) -> int | None:
        return self._files.get(path)

    def commits(self, file: int, limit: int) -> list[Commit]:
        return self._of_file[file][:limit]

    def many(self, files: Sequence[int], limit: int) -> dict[int, list[Commit]]:
        return {file: self.commits(file, limit) for file in files}

    def latest(self, limit: int) -> list[Commit]:
        return self._commits[:limit]

    def namesakes(self, stem: bytes) -> list[int]:
        from repoagent.history.cochange.score import stem as stem_of

        return [self._number(path) for path in self._tree() if stem_of(path) == stem][:_NAMESAKES]

    def folder(self, directory: bytes, limit: int) -> list[int]:
        def last(path: bytes) -> int:
            commits = self._of_file.get(self._files.get(path, -1))
            return commits[0].time if commits else 0

        inside = [path for path in self._tree() if path.rpartition(b"/")[0] == directory]
        return [self._number(path) for path in sorted(inside, key=last, reverse=True)[:limit]]

    def paths(self, files: Sequence[int]) -> dict[int, bytes]:
        alive = set(self._listing or ())
        unknown: list[bytes] = []
        if self._listing is None or self._listing_late:
            unknown = [
                path for path in dict.fromkeys(self._paths[file] for file in files) if path not in alive
            ]
        for start in range(0, len(unknown), _PATHS_A_CALL):
            alive.update(listed(self._top, self._revision, *unknown[start : start + _PATHS_A_CALL]))
        return {file: self._paths[file] for file in dict.fromkeys(files) if self._paths[file] in alive}

    def _number(self, path: bytes) -> int:
        file = self._files.setdefault(path, len(self._paths))
        if file == len(self._paths):
            self._paths.append(path)
        return file

    def _tree(self) -> list[bytes]:
        """The files of the tree, as many as git lists in time."""
        if self._listing is None:
            deadline = deadline_in(_LISTING_SECONDS if self._timed else None)
            try:
                running = TimedGit(self._top, *_lister(self._revision), deadline=deadline)
                data, self._listing_late = running.read()
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
