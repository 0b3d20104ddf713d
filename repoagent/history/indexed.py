"""A file's commits as the index has them: all of them at once, with no walk through the history."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from repoagent.errors import RepoagentError
from repoagent.history.blobs import offline
from repoagent.history.parse import COUNTS, LOG_FORMAT, RAW, FileCommit, number, parse_log
from repoagent.history.recent import FileHistory, at_boundary, is_shallow
from repoagent.repo.run import GitError

if TYPE_CHECKING:
    from repoagent.repo.worktree import WorkTree

SECONDS = 0.5  # that the index gets to take in new commits
_ALL = 1_000_000
_PINNED = (
    "log", "--no-walk=unsorted", "--stdin", "--no-notes", "--no-decorate", "--encoding=UTF-8", "-z", "--no-color",
    "--no-ext-diff", "--no-textconv", "--no-show-signature",
)  # fmt: skip
_MOVES = ("-M", "-l200")
_MARK, _HEAD = b"\x01", "--format=%x01%H"


def commits_of(worktree: WorkTree, path: str, revision: str, *, seconds: float = SECONDS) -> list[str] | None:
    """The ids of all commits that changed the file, through its renames, newest first. None where there is no index,
    where it is not whole or does not know the file: then git has to be asked. It is never made here."""
    from repoagent.repo.worktree import layout

    if not layout(worktree).history.is_file():
        return None
    import sqlite3

    from repoagent.history.index import open_index

    try:
        with open_index(worktree, warn=_silent) as index:
            if not index.update(revision, seconds=seconds).complete:
                return None
            view = index.view(revision)
            file = view.file(os.fsencode(path))
            numbers = [commit.number for commit in view.commits(file, _ALL)] if file is not None else []
            known = view.describe(numbers) if numbers else {}
    except (RepoagentError, sqlite3.Error, OSError):  # the index is a help, never needed
        return None
    return [known[number][0].decode() for number in numbers if number in known] or None


def look_up(
    top: Path, path: str, commits: Sequence[str], limit: int
) -> tuple[FileHistory, FileHistory] | None:
    """The newest `limit` of `commits` (of one file, by id, newest first) with what they did to it, and all of them
    without that. Four calls of git, none of which walks. None where the file is not to be followed so; raises GitError.
    """
    everything = parse_log(
        offline(top, *_PINNED, "--no-patch", f"--format={LOG_FORMAT}", names=commits), path
    )
    near = everything[:limit]
    ids = [commit.commit for commit in near]
    entries = _entries(offline(top, *_PINNED, "--raw", *_MOVES, "--no-abbrev", _HEAD, names=ids))
    found: list[FileCommit] = []
    for commit in near:
        entry = next((one for one in entries.get(commit.commit, ()) if one.path == path), None)
        if entry is None:
            break
        found.append(
            replace(
                commit, path=path, touched=(path,), status=entry.status,
                before=entry.before, after=entry.after, old_mode=entry.old_mode, new_mode=entry.new_mode,
                was=entry.was if entry.status == "R" else "",
            )
        )  # fmt: skip
        path = entry.was or path
    if len(found) < len(near):
        if not found or found[-1].status != "A":
            return None
        everything = everything[: len(found)]  # what is older is of the file that this one was copied from
    told = counted(top, found)
    cut = not everything[-1].parents and is_shallow(top)
    if cut and len(told) == len(everything):
        told = (*told[:-1], at_boundary(told[-1]))
    return FileHistory(told[0].path, told, cut), FileHistory(told[0].path, tuple(everything), cut)


class Entry(NamedTuple):
    """What a commit did to one path: git's letter, the blobs and modes, and the path before a rename (else "")."""

    status: str
    before: str
    after: str
    was: str
    path: str
    old_mode: str
    new_mode: str


def _entries(data: bytes) -> dict[str, list[Entry]]:
    """What `log -z --raw` says of each commit."""
    found: dict[str, list[Entry]] = {}
    now = ""
    tokens = iter(data.split(b"\0"))
    for token in tokens:
        if token.lstrip(b"\n").startswith(_MARK):
            now = token.lstrip(b"\n")[1:].decode("ascii", "replace")
            found[now] = []
        elif (raw := RAW.fullmatch(token)) and now:
            status, first = raw[5].decode(), os.fsdecode(next(tokens, b""))
            last = os.fsdecode(next(tokens, b"")) if status in "RC" else first
            was = first if status in "RC" else ""
            before, after = (oid.decode() if oid.strip(b"0") else "" for oid in (raw[3], raw[4]))
            modes = raw[1].decode(), raw[2].decode()
            found[now].append(Entry(status, before, after, was, last, *modes))
    return found


def counted(top: Path, commits: Sequence[FileCommit]) -> tuple[FileCommit, ...]:
    """`commits` of one file with the lines that each added and removed, where git has the blobs for that. One call."""
    if not commits:
        return ()
    both = (
        path for commit in commits for path in (commit.path, commit.was) if path
    )  # else a rename is an addition
    paths = list(dict.fromkeys(both))
    ids = [commit.commit for commit in commits]
    try:
        data = offline(top, *_PINNED, "--numstat", *_MOVES, _HEAD, "--", *paths, names=ids)
    except GitError:  # a partial clone
        return tuple(commits)
    counts: dict[tuple[str, str], tuple[int | None, int | None]] = {}
    now = ""
    tokens = iter(data.split(b"\0"))
    for token in tokens:
        if token.lstrip(b"\n").startswith(_MARK):
            now = token.lstrip(b"\n")[1:].decode("ascii", "replace")
        elif found := COUNTS.fullmatch(token):
            name = found[3] if found[3] else [next(tokens, b""), next(tokens, b"")][1]
            counts[now, os.fsdecode(name)] = number(found[1]), number(found[2])
    told = [counts.get((commit.commit, commit.path), (None, None)) for commit in commits]
    return tuple(
        replace(commit, added=added, removed=removed)
        for commit, (added, removed) in zip(commits, told, strict=True)
    )


def _silent(sentence: str) -> None:
    """The index is a help here: what ails it is said where it is the matter."""
