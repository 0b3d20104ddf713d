"""Which files change with given files: from the index, from their own last commits until it is built, or from names."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple

from repoagent.errors import UsageError
from repoagent.git.worktree import layout
from repoagent.history.cochange.score import Neighbor, neighbors

if TYPE_CHECKING:
    from repoagent.git.worktree import WorkTree
    from repoagent.history.cochange.score import View
    from repoagent.history.index.reader import IndexView
    from repoagent.history.recent_commits import QuickLook

LARGEST_FOLDER = 2000  # files of a folder that are looked up
FILES_OF_FOLDER = 60  # of these, the ones that stand for it: changed last


class QueryPath(NamedTuple):
    """One asked path: how it is called (a folder with a slash at its end), the files and paths that stand for it, and
    what is odd about it ("" for nothing)."""

    name: bytes
    files: tuple[int, ...]
    paths: tuple[bytes, ...]
    note: str = ""


def resolve_path(
    path: bytes,
    revision: str,
    view: View,
    *,
    top: Path,
    listed: Callable[[bytes], list[bytes]],
    cut: bool = False,
) -> QueryPath:
    """What `path`, relative to `top`, stands for at `revision`; `listed` gives the files below a folder there, `cut`
    says that the history was not read to its end.

    Raises UsageError for the whole work tree, a folder without a file of git's, and a path that neither git nor the
    disk knows; Refused for what is in a git directory.
    """
    if path == b".":
        raise UsageError("that is the whole work tree; name files or a folder in it")
    file = view.file(path)
    if file is not None and view.paths([file]).get(file) == path:
        return _alive(view, file, path)
    from repoagent.git.files import check_path
    from repoagent.git.similar_paths import no_such_file

    name = os.fsdecode(path)
    check_path(name)
    inside = listed(path)
    if inside and inside != [path]:
        return _folder(view, path, inside)
    kind = _kind(top / name)
    if kind == "folder" and not inside:
        raise UsageError(f"{name} contains no tracked files; name a file or folder with a history")
    if file is not None:
        return _gone(view, file, path)
    if kind == "none" and not inside:
        raise no_such_file(name, top, reason="and git has no commit of it")
    if inside:
        why = "has no indexed commits yet" if cut else "has no commits yet (merges do not count)"
    else:
        why = "is not tracked yet" if revision == "HEAD" else f"is not in {revision}"
    return QueryPath(path, (), (path,), f"{name} {why}; candidates are by name and folder only")


def _alive(view: View, file: int, path: bytes) -> QueryPath:
    one = len(view.commits(file, 2)) == 1
    note = f"{os.fsdecode(path)} has one commit only, which is little evidence" if one else ""
    return QueryPath(path, (file,), (path,), note)


def _gone(view: View, file: int, path: bytes) -> QueryPath:
    """A file that was deleted, or has another name by now."""
    present = view.paths([file]).get(file)
    name = os.fsdecode(path)
    if present is not None:
        return QueryPath(present, (file,), (present,), f"{name} is now {os.fsdecode(present)}")
    last = view.commits(file, 1)
    when = f" on {_day(last[0].time)}" if last else ""
    return QueryPath(path, (file,), (path,), f"{name} was deleted{when}; these files changed with it before")


def _folder(view: View, path: bytes, inside: Sequence[bytes]) -> QueryPath:
    """The files that changed last stand for their folder."""
    found = {name: view.file(name) for name in inside[:LARGEST_FOLDER]}
    known = [file for file in found.values() if file is not None]
    last = {file: commits[0].number for file, commits in view.many(known, 1).items() if commits}
    files = sorted(last, key=lambda file: -last[file])
    kept = files[:FILES_OF_FOLDER]
    note = ""
    if len(files) > len(kept):
        name = os.fsdecode(path)
        note = f"based on the {len(kept)} most recently changed of the {len(inside)} files in {name}"
    return QueryPath(path + b"/", tuple(kept), tuple(inside), note)


def _kind(path: Path) -> Literal["file", "folder", "none"]:
    try:
        return "folder" if stat.S_ISDIR(path.lstat().st_mode) else "file"
    except OSError:
        return "none"


def _day(seconds: int) -> str:
    try:
        return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d")
    except (OverflowError, ValueError, OSError):  # a date that only git can hold
        return "an unknown day"


# whole: the index has all that the revision reaches; building: not yet; recent: only the files' own last commits were
# read; names: there is no history of these files
State = Literal["whole", "building", "recent", "names"]

MINING_SECONDS = 0.2  # wall time that a question gives to an index that is not whole
QUICK_SECONDS = 0.4
ENOUGH = 50  # commits of each asked file make an answer from a part of the index a good one
COMMITS = 300  # of the asked files that are looked at
CROWD = 20  # neighbors whose own neighbors make the edges of a picture
_OWN, _ANY = 30, 200
_END = {
    "whole": "",
    "date": "the index is limited to commits after a date; older commits do not count",
    "unreadable": "git could not read the whole history; older commits do not count",
}


class Edge(NamedTuple):
    """Two files of a neighborhood that changed together; `evidence` as in `Neighbor`, `score` is 0 to 1."""

    one: bytes
    other: bytes
    score: float
    together: int
    commits: int
    evidence: tuple[int, ...] = ()


class Neighborhood(NamedTuple):
    """What changed with `paths` (from the top; a folder ends with a slash) as seen from `revision`, the commit
    `commit` ("" before the first one).

    `rows` are the surest first. `looked_at` is how many commits of the asked files were looked at, `note` what a reader
    should know of the answer ("" for nothing). `ids` has the full id of each commit that a row or an edge names.
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


class _Source(NamedTuple):
    """Where an answer comes from: the history, the ids of its commits, the files below a folder, what to say, and
    whether there may be more."""

    view: View
    ids: Callable[[Iterable[int]], Mapping[int, str]]
    listed: Callable[[bytes], list[bytes]]
    state: State
    note: str
    cut: bool = False


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
    """The files that changed with `paths` (relative to the top, folders too), alive at `revision`.

    `commit` is the full id of the revision's commit, where it is known (see `open_at_head`); else git is asked for it.
    With `picture` the edges between all of them too. Raises UsageError for a revision that does not exist and for paths
    that stand for nothing, Refused for what is in a git directory (see `resolve_path`).
    """
    from repoagent.history.index.schema import NoIndex

    names = [os.fsencode(path) for path in dict.fromkeys(paths)]
    answer = partial(_answer, worktree.top, names, limit=limit, min_score=min_score, picture=picture)
    with ExitStack() as stack:
        try:
            found, source = _source(worktree, (revision, commit), names, stack)
            return answer((revision, found), source)
        except NoIndex as error:  # it turned out to be damaged as it was read
            from repoagent.history.file_history import resolve

            found = commit or resolve(worktree.top, revision)
            where = "HEAD" if revision == "HEAD" else found
            note = f"no index: {error}"
            source = _quick(worktree.top, where, _recent(worktree.top, where, names, stack), note)
            return answer((revision, found), source)


def recent_neighborhood(
    worktree: WorkTree, paths: Sequence[str], *, limit: int, since: int | None = None
) -> Neighborhood:
    """The neighbors of files by their own last commits at HEAD, none of them before `since` (seconds since 1970).

    Bounded by commits alone: the same state of a repository has the same answer, whatever the index holds and however
    busy the machine is. Raises as `neighborhood`.
    """
    from repoagent.history.recent_commits import QuickLook

    names = [os.fsencode(path) for path in dict.fromkeys(paths)]
    with QuickLook(worktree.top, *paths, seconds=None, since=since) as running:
        source = _quick(worktree.top, "HEAD", running, "")
        return _answer(worktree.top, names, ("HEAD", ""), source, limit=limit, min_score=0.0, picture=False)


def _answer(
    top: Path,
    names: Sequence[bytes],
    at: tuple[str, str],
    source: _Source,
    *,
    limit: int,
    min_score: float,
    picture: bool,
) -> Neighborhood:
    """The answer from this source; `at` is the revision and its commit."""
    revision, commit = at
    asked = [
        resolve_path(name, revision, source.view, top=top, listed=source.listed, cut=source.cut)
        for name in names
    ]
    files = list(dict.fromkeys(file for one in asked for file in one.files))
    standing = [path for one in asked for path in one.paths]
    rows = neighbors(source.view, files, standing, limit=limit, min_score=min_score)
    looked_at = rows[0].commits if rows else _looked_at(source.view, files)
    edges = tuple(_edges(source.view, asked, rows)) if picture else ()
    numbers = {n for row in rows for n in row.evidence} | {n for edge in edges for n in edge.evidence}
    ids = source.ids(numbers)
    return Neighborhood(
        tuple(one.name for one in asked),
        revision,
        commit,
        tuple(rows),
        source.state if looked_at else "names",
        "; ".join(note for note in (*(one.note for one in asked), source.note) if note),
        looked_at,
        ids,
        edges,
    )


def _source(
    worktree: WorkTree, at: tuple[str, str | None], names: Sequence[bytes], stack: ExitStack
) -> tuple[str, _Source]:
    """The full id of the revision's commit, "" before the first one, and where to read: the index where it is whole, or
    has enough of these files; else their own last commits, while it is built."""
    from repoagent.history.index.index import mine_in_background, open_index
    from repoagent.history.index.schema import NoCommits, NoIndex

    index = stack.enter_context(open_index(worktree))
    try:
        revision, known = at
        commit = known or index.resolve(revision).decode("ascii")
    except NoCommits:
        return "", _quick(worktree.top, "HEAD", _recent(worktree.top, "HEAD", names, stack), "")
    where = "HEAD" if revision == "HEAD" else commit
    recent = partial(_recent, worktree.top, where, names, stack)
    running = None if layout(worktree).history.exists() else recent()
    try:
        state = index.update(commit, seconds=MINING_SECONDS, head=revision == "HEAD")
        view = index.view(commit)
    except NoIndex as error:
        note = f"no index: {error}"
        return commit, _quick(worktree.top, where, running or recent(), note)
    found = _Source(view, partial(_ids, view), partial(_below, worktree.top, where), "whole", "")
    if not state.new and state.end != "mining":
        return commit, found._replace(note=_END[state.end])
    further = (
        "" if mine_in_background(worktree) else ", a part with each command or all of it by `repoagent mine`"
    )
    building = f"the index of the history is being built{further}"
    mined = _count(view, names)
    if mined < ENOUGH:
        note = f"{building}; this is based on the latest commits only"
        quick = _quick(worktree.top, where, running or recent(), note)
        if not mined or _count(quick.view, names) > mined:
            return commit, quick
    note = f"{building}; {state.commits:,} commits so far"
    return commit, found._replace(state="building", note=note, cut=True)


def _looked_at(view: View, files: Sequence[int]) -> int:
    """At how many commits of these files the kernel looks."""
    return min(len({one.number for found in view.many(files, COMMITS).values() for one in found}), COMMITS)


def _count(view: View, names: Sequence[bytes]) -> int:
    """Of how many commits the history knows, for the file that it knows the least of."""
    files = [view.file(name) for name in names]
    return min(0 if file is None else len(view.commits(file, ENOUGH)) for file in files)


def _ids(view: IndexView, numbers: Iterable[int]) -> Mapping[int, str]:
    return {number: told[0].decode("ascii") for number, told in view.describe(list(numbers)).items()}


def _recent(top: Path, where: str, names: Sequence[bytes], stack: ExitStack) -> QuickLook:
    """The reading of the files' own last commits, started."""
    from repoagent.history.recent_commits import QuickLook

    paths = [os.fsdecode(name) for name in names]
    return stack.enter_context(QuickLook(top, *paths, seconds=QUICK_SECONDS, revision=where, commits=COMMITS))


def _quick(top: Path, where: str, running: QuickLook, note: str) -> _Source:
    view = running.view()

    def ids(numbers: Iterable[int]) -> Mapping[int, str]:
        return {number: view.id(number) for number in numbers}

    return _Source(view, ids, partial(_below, top, where), "recent", note, view.late)


def _below(top: Path, where: str, path: bytes) -> list[bytes]:
    from repoagent.history.recent_commits import listed

    return listed(top, where, path)


def _edges(view: View, asked: Sequence[QueryPath], rows: Sequence[Neighbor]) -> Iterator[Edge]:
    """From the asked to their neighbors, and between the best of these and all of them."""
    present = {row.path for row in rows}
    if len(asked) == 1:
        yield from (_edge(asked[0].name, row.path, row) for row in rows if row.together)
    else:
        for one in asked:
            own = neighbors(view, one.files, one.paths, limit=_ANY)
            yield from (_edge(one.name, row.path, row) for row in own if row.together and row.path in present)
    best: dict[tuple[bytes, bytes], Edge] = {}
    for row in rows[:CROWD]:
        for other in neighbors(view, [row.file], [row.path], limit=_OWN):
            if other.path in present and other.together:
                pair = (row.path, other.path) if row.path < other.path else (other.path, row.path)
                if pair not in best or best[pair].score < other.score:
                    best[pair] = _edge(*pair, other)
    yield from best.values()


def _edge(one: bytes, other: bytes, row: Neighbor) -> Edge:
    return Edge(one, other, row.score, row.together, row.commits, row.evidence)
