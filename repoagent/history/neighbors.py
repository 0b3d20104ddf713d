"""Find the files that change with certain files: from the index or, until it is built, from the files' own last
commits; without a history, from their names."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple

from repoagent.errors import UsageError
from repoagent.git.process import GitError
from repoagent.history.cochange import Neighbor, rank_neighbors
from repoagent.history.render import day

if TYPE_CHECKING:
    from repoagent.git.worktree import WorkTree
    from repoagent.history.index.reader import IndexView
    from repoagent.history.recent_commits import RecentView

LARGEST_FOLDER = 2000  # files of a folder that are looked up
FILES_OF_FOLDER = 60  # the most recently changed of these represent it
MINING_SECONDS = 0.2  # of wall time, for an index that is not complete
QUICK_SECONDS = 0.4
ENOUGH = 50  # commits of each queried file that make a part of the index a good basis
COMMITS = 300  # of the queried files that are looked at
CROWD = 20  # neighbors whose own neighbors are the edges of a picture
_OWN, _ANY = 30, 200

# whole: the index has all that the revision reaches; building: not yet; recent: only the last commits of the files
# themselves were read; names: there is no history of these files
State = Literal["whole", "building", "recent", "names"]
_END = {"whole": "", "unreadable": "git could not read the whole history; older commits are left out"}


class QueryPath(NamedTuple):
    """A queried path: its name (a folder ends with a slash), the ids and paths of the files that it represents, and a
    note for the user ("" for none)."""

    name: bytes
    files: tuple[int, ...]
    paths: tuple[bytes, ...]
    note: str = ""


class Edge(NamedTuple):
    """Two files of a neighborhood that changed together; `evidence` as in `Neighbor`, `score` is 0 to 1."""

    one: bytes
    other: bytes
    score: float
    together: int
    commits: int
    evidence: tuple[int, ...] = ()


class Neighborhood(NamedTuple):
    """The files that changed with `paths` in the history of `revision`.

    `paths` are relative to the top; a folder ends with a slash. `commit` is the id of the revision's commit, "" before
    the first commit. `rows` are sorted by score. `looked_at` is the number of commits to the queried files. `ids` maps
    the number of each commit in the evidence of a row or an edge to its full id.
    """

    paths: tuple[bytes, ...]
    revision: str
    commit: str
    rows: tuple[Neighbor, ...]
    state: State
    note: str = ""
    looked_at: int = 0
    ids: Mapping[int, str] = MappingProxyType({})
    edges: tuple[Edge, ...] = ()


def neighborhood(
    worktree: WorkTree,
    paths: Sequence[str],
    revision: str = "HEAD",
    *,
    commit: str | None = None,
    limit: int = 20,
    min_score: float = 0.0,
    picture: bool = False,
) -> Neighborhood:
    """The existing files at `revision` that changed with `paths`, which are files or folders relative to the top.

    `commit` is the full id of the revision's commit, if known. `picture` adds the edges between all these files. Raises
    UsageError for an unknown revision and for paths without a file, Refused for a path in a git directory.
    """
    from repoagent.storage.database import DatabaseUnusable

    with ExitStack() as stack:
        query = _Query(worktree, paths, revision, commit, stack)
        try:
            query.open()
            return query.answer(limit=limit, min_score=min_score, picture=picture)
        except DatabaseUnusable as error:  # it cannot be made, or turns out to be damaged
            query.use_recent(f"no index: {error}")
            return query.answer(limit=limit, min_score=min_score, picture=picture)


def recent_neighborhood(
    worktree: WorkTree,
    paths: Sequence[str],
    earlier: Sequence[str] = (),
    *,
    limit: int,
    since: int | None = None,
) -> Neighborhood:
    """The neighbors of files according to the files' own last commits at HEAD after `since` (seconds since 1970).
    `earlier` are earlier names of these files.

    The search is limited by the number of commits, not by time: the same repository gives the same answer, whatever the
    index contains. Raises what `neighborhood` raises.
    """
    from repoagent.history.recent_commits import read_recent

    with ExitStack() as stack:
        query = _Query(worktree, paths, "HEAD", "", stack)
        query.view = view = read_recent(worktree.top, *paths, *earlier, seconds=None, since=since)
        query.paths += [name for name in earlier if view.file(os.fsencode(name)) is not None]
        return query.answer(limit=limit, min_score=0.0, picture=False)


class _Query:
    """A query, and the history that answers it: `view`, how complete that is (`state`), whether older commits may be
    missing (`cut`), and a `note` on it."""

    view: IndexView | RecentView

    def __init__(
        self, worktree: WorkTree, paths: Sequence[str], revision: str, commit: str | None, stack: ExitStack
    ) -> None:
        self.worktree, self.revision, self.stack = worktree, revision, stack
        self.paths = list(dict.fromkeys(paths))
        self.commit = commit
        self.state: State = "recent"
        self.note, self.cut = "", False

    @property
    def where(self) -> str:
        return "HEAD" if self.revision == "HEAD" else self.commit or self.revision

    def open(self) -> None:
        """Use the index if it is complete or knows enough of these files; else their own last commits, while it is
        built. Raises DatabaseUnusable."""
        from repoagent.history.index.index import mine_in_background, open_index
        from repoagent.history.index.schema import NoCommits

        index = self.stack.enter_context(open_index(self.worktree))
        try:
            self.commit = self.commit or index.resolve(self.revision).decode("ascii")
        except NoCommits:
            self.commit = ""
            self.use_recent("")
            return
        state = index.update(self.commit, seconds=MINING_SECONDS, head=self.revision == "HEAD")
        self.view, self.state = index.view(self.commit), "whole"
        if not state.new and state.end != "mining":
            self.note = _END[state.end]
            return
        hint = "" if mine_in_background(self.worktree) else " a part at a time by each command"
        building = f"the history index is being built{hint} (`repoagent mine` builds it at once)"
        indexed, mined = self.view, self._known()
        if mined < ENOUGH:
            self.use_recent(f"{building}; this answer is based only on the latest commits")
            if not mined or self._known() > mined:
                return
        self.view, self.state, self.cut = indexed, "building", True
        self.note = f"{building}; {state.commits:,} commits so far"

    def _known(self) -> int:
        """How many commits the view has of the file that it knows least of, ENOUGH at most."""
        files = [self.view.file(os.fsencode(path)) for path in self.paths]
        return min(0 if file is None else len(self.view.commits(file, ENOUGH)) for file in files)

    def use_recent(self, note: str) -> None:
        from repoagent.history.recent_commits import read_recent

        if self.commit is None:
            from repoagent.history.file_history import resolve_revision

            self.commit = resolve_revision(self.worktree.top, self.revision)
        self.view = read_recent(
            self.worktree.top, *self.paths, seconds=QUICK_SECONDS, revision=self.where, commits=COMMITS
        )
        self.state, self.note, self.cut = "recent", note, self.view.late

    def answer(self, *, limit: int, min_score: float, picture: bool) -> Neighborhood:
        view = self.view
        query = [self._resolve(os.fsencode(path)) for path in self.paths]
        files = list(dict.fromkeys(file for path in query for file in path.files))
        rows = rank_neighbors(
            view, files, [name for path in query for name in path.paths], limit=limit, min_score=min_score
        )
        if rows:
            looked_at = rows[0].commits
        else:
            numbers = {commit.number for commits in view.many(files, COMMITS).values() for commit in commits}
            looked_at = min(len(numbers), COMMITS)
        edges = tuple(self._edges(query, rows)) if picture else ()
        return Neighborhood(
            tuple(path.name for path in query),
            self.revision,
            self.commit or "",
            tuple(rows),
            self.state if looked_at else "names",
            "; ".join(note for note in (*(path.note for path in query), self.note) if note),
            looked_at,
            view.ids(
                {n for row in rows for n in row.evidence} | {n for edge in edges for n in edge.evidence}
            ),
            edges,
        )

    def _resolve(self, path: bytes) -> QueryPath:
        """The files that a path represents at the revision. Raises UsageError, Refused."""
        from repoagent.git.files import check_path, no_such_file
        from repoagent.history.recent_commits import existing_files

        view, name, top = self.view, os.fsdecode(path), self.worktree.top
        if path == b".":
            raise UsageError("the path is the whole work tree; name files or a folder in it")
        file = view.file(path)
        present = None if file is None else view.paths([file]).get(file)
        if file is not None and present == path:
            note = f"{name} has only one commit, which is little evidence"
            return QueryPath(path, (file,), (path,), note if len(view.commits(file, 2)) == 1 else "")
        check_path(name)
        inside: list[bytes] = []
        with suppress(GitError):  # a partial clone without its trees
            inside = existing_files(top, self.where, [path])
        if inside and inside != [path]:
            return self._folder(path, inside)
        if (top / name).is_dir() and not (top / name).is_symlink() and not inside:
            raise UsageError(f"{name} contains no tracked files; name a file or folder with a history")
        if file is not None and present is not None:
            return QueryPath(present, (file,), (present,), f"{name} is now {os.fsdecode(present)}")
        if file is not None:
            last = view.commits(file, 1)
            when = f" on {day(last[0].time)}" if last else ""
            note = f"{name} was deleted{when}; these files changed with it before"
            return QueryPath(path, (file,), (path,), note)
        if not os.path.lexists(top / name) and not inside:
            raise no_such_file(name, top, reason="and no commit touches it")
        if inside:
            why = "has no indexed commits yet" if self.cut else "has no commits yet (merges do not count)"
        else:
            why = "is not tracked yet" if self.revision == "HEAD" else f"is not in {self.revision}"
        return QueryPath(path, (), (path,), f"{name} {why}; candidates are based on name and folder only")

    def _folder(self, path: bytes, inside: Sequence[bytes]) -> QueryPath:
        """A folder, represented by its files that changed last."""
        files = [file for name in inside[:LARGEST_FOLDER] if (file := self.view.file(name)) is not None]
        last = {file: commits[0].number for file, commits in self.view.many(files, 1).items() if commits}
        newest = sorted(last, key=lambda file: -last[file])[:FILES_OF_FOLDER]
        note = ""
        if len(last) > len(newest):
            note = f"based on the {len(newest)} most recently changed of the {len(inside)} files in {os.fsdecode(path)}"
        return QueryPath(path + b"/", tuple(newest), tuple(inside), note)

    def _edges(self, query: Sequence[QueryPath], rows: Sequence[Neighbor]) -> Iterator[Edge]:
        """From the queried paths to their neighbors, and between the best of these and all of them."""
        present = {row.path for row in rows}
        for path in query:
            own = rows if len(query) == 1 else rank_neighbors(self.view, path.files, path.paths, limit=_ANY)
            for row in own:
                if row.together and row.path in present:
                    yield _edge(path.name, row.path, row)
        best: dict[tuple[bytes, bytes], Edge] = {}
        for row in rows[:CROWD]:
            for other in rank_neighbors(self.view, [row.file], [row.path], limit=_OWN):
                if other.path in present and other.together:
                    pair = (row.path, other.path) if row.path < other.path else (other.path, row.path)
                    if pair not in best or best[pair].score < other.score:
                        best[pair] = _edge(*pair, other)
        yield from best.values()


def _edge(one: bytes, other: bytes, row: Neighbor) -> Edge:
    return Edge(one, other, row.score, row.together, row.commits, row.evidence)
