"""The history of one file: its authors, commits, and what each did; from the index if it is complete, else from git."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.errors import NothingDone, RepoagentError, UsageError
from repoagent.git.files import check_path
from repoagent.git.process import GitError, git_output
from repoagent.git.similar_paths import no_such_file
from repoagent.git.worktree import WorkTree
from repoagent.history.commit_details import Step, steps
from repoagent.history.log import (
    COMMIT_MARK,
    LOG_FORMAT,
    FileCommit,
    changes_by_commit,
    number,
    offline,
    parse_log,
    renamed,
)
from repoagent.history.recent_commits import ALL, RENAMES, FileHistory, FileLog, at_boundary, is_shallow

INDEX_SECONDS = 0.5  # that the index gets to take in new commits
_ALL = 1_000_000
_PINNED = (
    "log", "--no-walk=unsorted", "--stdin", "--no-notes", "--no-decorate", "--encoding=UTF-8", "-z", "--no-color",
    "--no-ext-diff", "--no-textconv", "--no-show-signature",
)  # fmt: skip
_MOVES = ("-M", "-l200")


def commits_of(
    worktree: WorkTree, path: str, revision: str, *, seconds: float = INDEX_SECONDS
) -> list[str] | None:
    """The ids of all commits that changed the file, through its renames, newest first. None where there is no index,
    where it is not whole or does not know the file: then git has to be asked. It is never made here."""
    from repoagent.git.worktree import layout

    if not layout(worktree).history.is_file():
        return None
    import sqlite3

    from repoagent.history.index.index import open_index

    try:
        with open_index(worktree, warn=lambda sentence: None) as index:
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
    log = offline(top, *_PINNED, "--no-patch", f"--format={LOG_FORMAT}", names=commits)
    everything = parse_log(log, path)
    latest = everything[:limit]
    ids = [commit.commit for commit in latest]
    data = offline(top, *_PINNED, "--raw", *_MOVES, "--no-abbrev", COMMIT_MARK, names=ids)
    changes = {
        (commit, paths[-1]): (change, paths) for commit, change, paths in changes_by_commit(data) if change
    }
    followed: list[FileCommit] = []
    for commit in latest:
        change, paths = changes.get((commit.commit, os.fsencode(path)), (None, []))
        if change is None:
            break
        old_mode, new_mode, *oids = (field.decode() for field in change.groups()[:4])
        before, after = (oid if oid.strip("0") else "" for oid in oids)
        status, origin = change[5].decode(), os.fsdecode(paths[0])
        followed.append(
            replace(
                commit, path=path, touched=(path,), status=status, before=before, after=after,
                old_mode=old_mode, new_mode=new_mode, was=origin if status == "R" else "",
            )
        )  # fmt: skip
        path = origin
    if len(followed) < len(latest):
        if not followed or followed[-1].status != "A":
            return None
        everything = everything[
            : len(followed)
        ]  # older commits belong to the file that this one was copied from
    recent = counted(top, followed)
    cut = not everything[-1].parents and is_shallow(top)
    if cut and len(recent) == len(everything):
        recent = (*recent[:-1], at_boundary(recent[-1]))
    return FileHistory(recent[0].path, recent, cut), FileHistory(recent[0].path, tuple(everything), cut)


def counted(top: Path, commits: Sequence[FileCommit]) -> tuple[FileCommit, ...]:
    """`commits` of one file with the lines that each added and removed, where git has the blobs for that. One call."""
    if not commits:
        return ()
    # With the old paths too: without them git shows a rename as an addition.
    paths = dict.fromkeys(path for commit in commits for path in (commit.path, commit.was) if path)
    ids = [commit.commit for commit in commits]
    try:
        data = offline(top, *_PINNED, "--numstat", *_MOVES, COMMIT_MARK, "--", *paths, names=ids)
    except GitError:  # a partial clone
        return tuple(commits)
    counts = {
        (commit, os.fsdecode(names[-1])): (number(change[1]), number(change[2]))
        for commit, change, names in changes_by_commit(data)
        if change
    }
    result = []
    for commit in commits:
        added, removed = counts.get((commit.commit, commit.path), (None, None))
        result.append(replace(commit, added=added, removed=removed))
    return tuple(result)


# Accounts of services that open changes by themselves and do not call themselves [bot].
_SERVICES = (
    "dependabot|dependabot-preview|renovate|renovatebot|greenkeeper|greenkeeperio|snyk|github[ -]actions?|"
    "pre-commit-ci|pre-commit[ .]ci|allcontributors|imgbot|mergify|bors|semantic-release|release-please|depfu|pyup|"
    "whitesource|mend|copybara-service|copybara|google-oss-robot|k8s-ci-robot|weblate|hosted weblate|travis ci|"
    "scala-steward|scala steward|r-ryantm|deepsource-autofix|restyled-io|codecov|crowdin|transifex"
)
_NAME = re.compile(rf".*\[bot\]|(?:.*[\s_-])?bot|(?:{_SERVICES})(?:[\s_-](?:bot|app|ci))?", re.IGNORECASE)
_ADDRESS = re.compile(
    rf".*\[bot\]@.*|(?:\d+\+)?(?:{_SERVICES})(?:-?bot)?@.*|bot@.*|action@github\.com"
    r"|(?:noreply|no-reply)@(?!github\.com).*",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Author:
    """Somebody, by the name that `.mailmap` gives, with the number of commits and the first and last date of them
    (author's dates, YYYY-MM-DD)."""

    name: str
    commits: int
    first: str
    last: str
    bot: bool = False


@dataclass(frozen=True)
class Authors:
    """Who made `commits` commits, most first; programs apart. `partial`: there may be older commits by others."""

    persons: tuple[Author, ...] = ()
    bots: tuple[Author, ...] = ()
    commits: int = 0
    partial: bool = False


def is_bot(name: str, email: str) -> bool:
    """Whether the author is a program: `[bot]` in the name or the address, or a service known to be one."""
    return bool(_NAME.fullmatch(name.strip()) or _ADDRESS.fullmatch(email.strip()))


def authors_of(commits: Iterable[FileCommit], *, partial: bool = False) -> Authors:
    """The authors of `commits`. One name is one person, whatever addresses it has."""
    dates: dict[tuple[str, bool], list[str]] = {}
    for commit in commits:
        author = (commit.author, is_bot(commit.author, commit.email))
        dates.setdefault(author, []).append(commit.date[:10])
    found = [Author(name, len(days), min(days), max(days), bot) for (name, bot), days in dates.items()]
    found.sort(key=lambda person: (-person.commits, _newest_first(person.last), person.name))
    return Authors(
        tuple(person for person in found if not person.bot),
        tuple(person for person in found if person.bot),
        sum(person.commits for person in found),
        partial,
    )


def _newest_first(day: str) -> tuple[int, ...]:
    return tuple(-ord(character) for character in day)


SECONDS = 3.0


@dataclass(frozen=True)
class HistoryReport:
    """`path` is relative to the top, `revision` the id of the commit it was asked at. `partial`: older commits may be
    missing. `notes` are sentences to the person: deleted, shallow, out of time."""

    path: str
    revision: str
    steps: tuple[Step, ...]
    people: Authors
    partial: bool = False
    directory: bool = False
    notes: tuple[str, ...] = ()


def read_history(
    worktree: WorkTree | Path, path: str, *, revision: str = "HEAD", limit: int = 20, seconds: float = SECONDS
) -> HistoryReport:
    """The last `limit` commits of `path` (a file or a directory, relative to the top, "." for all) as `revision` has
    it, newest first, and who made all of them.

    Where there is an index of the history (of a work tree), it knows all of that at once; else git gets `seconds` of
    wall time for each of the two. Raises UsageError for an unknown revision and a path that
    never was, NothingDone where there is no commit of it yet, GitError.
    """
    top = worktree if isinstance(worktree, Path) else worktree.top
    commit = resolve(top, revision)
    kind = _kind(top, commit, path)
    known = None if isinstance(worktree, Path) or kind != "blob" else _indexed(worktree, path, commit, limit)
    if known is not None:
        found, everything = known
    else:
        with (
            FileLog(top, path, limit, seconds=seconds, revision=commit) as recent,
            FileLog(top, path, ALL, seconds=seconds, revision=commit, counts=False) as whole,
        ):
            found, everything = recent.result(), whole.result()
    if not found.commits:
        raise _nothing(top, path, revision, found)
    notes = _notes(top, path, kind, found, everything=everything, limit=limit)
    people = authors_of(everything.commits, partial=everything.partial)
    partial = found.partial or len(everything.commits) > len(found.commits)
    done = steps(top, found.commits)
    return HistoryReport(path, commit, tuple(done), people, partial, kind == "tree", tuple(notes))


def _indexed(
    worktree: WorkTree, path: str, commit: str, limit: int
) -> tuple[FileHistory, FileHistory] | None:
    commits = commits_of(worktree, path, commit)
    try:
        return look_up(worktree.top, path, commits, limit) if commits else None
    except GitError:
        return None


def resolve(top: Path, revision: str) -> str:
    """The id of the commit that `revision` means. Raises NothingDone before the first commit, UsageError for none."""
    asked = ("rev-parse", "--verify", "--quiet", "--end-of-options")
    done = git_output(top, *asked, f"{revision}^{{commit}}", ok=(0, 1, 128))
    if done.returncode == 0:
        return done.stdout.decode().strip()
    if revision == "HEAD":
        raise NothingDone("no history: this repository has no commits yet")
    raise UsageError(f"no such commit: {revision}; name a commit, branch or tag")


def _kind(top: Path, commit: str, path: str) -> str:
    """ "blob", "tree" or "commit" (a submodule) as git calls it; "" where the commit has no such path."""
    if path == ".":
        return "tree"
    try:
        data = offline(top, "ls-tree", "-z", "--full-tree", commit, "--", path)
    except GitError:  # a clone without trees
        return "blob"
    for entry in data.split(b"\0"):
        head, _, name = entry.partition(b"\t")
        if name == os.fsencode(path):
            return head.split(b" ")[1].decode()
    return ""


def _nothing(top: Path, path: str, revision: str, found: FileHistory) -> UsageError | NothingDone:
    """Why there is no history."""
    check_path(path)
    unseen = f"git found no commit of {path} within {SECONDS:g} s, or would have to fetch objects"
    if not os.path.lexists(top / path):
        where = "" if revision == "HEAD" else f" at {revision}"
        return no_such_file(
            path, top, reason=f"and {unseen if found.partial else f'git has no commit of it{where}'}"
        )
    if found.partial:
        return NothingDone(unseen)
    if revision != "HEAD":
        return NothingDone(f"no {path} in {revision} or its history")
    staged = git_output(top, "ls-files", "-z", "--cached", "--", path, ok=(0, 128)).stdout
    state = "the file is staged but not committed yet" if staged else "the file is not tracked"
    return NothingDone(f"git has no commit of {path}: {state}")


def _notes(
    top: Path, path: str, kind: str, found: FileHistory, *, everything: FileHistory, limit: int
) -> list[str]:
    notes = []
    newest = found.commits[0]
    if not kind:
        notes.append(_gone(top, newest))
    if kind == "commit":
        notes.append(f"{path} is a submodule; these are the changes of its recorded commit")
    if (found.partial and len(found.commits) < limit) or everything.partial:
        if is_shallow(top):
            notes.append("this clone is shallow; older commits are missing")
        else:
            notes.append(
                "older commits are omitted: git ran out of time or lacks objects (`repoagent mine` helps)"
            )
    return notes


def _gone(top: Path, newest: FileCommit) -> str:
    """That the file is not there any more, and where it went."""
    when = f"{newest.short}, {newest.date[:10]}"
    try:
        data = offline(top, *RENAMES, newest.commit)
    except GitError:
        data = b""
    target = renamed(data, newest.path, forward=True)
    return f"moved to {target.path} in {when}" if target else f"deleted in {when}"
