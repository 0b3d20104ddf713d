"""All of what `repoagent history` shows of one file: its people, its last commits and what each did."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.errors import NothingDone, UsageError
from repoagent.history.blobs import offline
from repoagent.history.parse import FileCommit, renamed
from repoagent.history.people import People, people_of
from repoagent.history.recent import ALL, RENAMES, FileHistory, is_shallow, start
from repoagent.history.steps import Step, steps
from repoagent.repo.missing import no_such_file
from repoagent.repo.paths import check_path
from repoagent.repo.run import GitError, git_output
from repoagent.repo.worktree import WorkTree

SECONDS = 3.0


@dataclass(frozen=True)
class Past:
    """`path` is relative to the top, `revision` the id of the commit it was asked at. `partial`: older commits may be
    missing. `notes` are sentences to the person: deleted, shallow, out of time."""

    path: str
    revision: str
    steps: tuple[Step, ...]
    people: People
    partial: bool = False
    directory: bool = False
    notes: tuple[str, ...] = ()


def past(
    worktree: WorkTree | Path,
    path: str,
    *,
    revision: str = "HEAD",
    limit: int = 20,
    seconds: float = SECONDS,
) -> Past:
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
            start(top, path, limit, seconds=seconds, revision=commit) as recent,
            start(top, path, ALL, seconds=seconds, revision=commit, counts=False) as whole,
        ):
            found, everything = recent.result(), whole.result()
    if not found.commits:
        raise _nothing(top, path, revision, found)
    notes = _notes(top, path, kind, found, everything=everything, limit=limit)
    people = people_of(everything.commits, partial=everything.partial)
    partial = found.partial or len(everything.commits) > len(found.commits)
    done = steps(top, found.commits)
    return Past(path, commit, tuple(done), people, partial, kind == "tree", tuple(notes))


def _indexed(
    worktree: WorkTree, path: str, commit: str, limit: int
) -> tuple[FileHistory, FileHistory] | None:
    from repoagent.history.indexed import commits_of, look_up

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
        raise NothingDone("there is no commit yet, so there is no history")
    raise UsageError(f"there is no commit {revision}: name a commit, a branch or a tag")


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
    unseen = f"git found no commit of {path} in {SECONDS:g} s, or may not look without fetching"
    if not os.path.lexists(top / path):
        where = "" if revision == "HEAD" else f" at {revision}"
        return no_such_file(
            path, top, reason=f"and {unseen if found.partial else f'git has no commit of it{where}'}"
        )
    if found.partial:
        return NothingDone(unseen)
    if revision != "HEAD":
        return NothingDone(f"there is no {path} at {revision}, and no commit before it has changed one")
    staged = git_output(top, "ls-files", "-z", "--cached", "--", path, ok=(0, 128)).stdout
    state = "it is staged and not committed yet" if staged else "it is not tracked"
    return NothingDone(f"git has no commit of {path}: {state}")


def _notes(
    top: Path, path: str, kind: str, found: FileHistory, *, everything: FileHistory, limit: int
) -> list[str]:
    notes = []
    newest = found.commits[0]
    if not kind:
        notes.append(_gone(top, newest))
    if kind == "commit":
        notes.append(f"{path} is a submodule: these are the changes of the commit that it stands at")
    if (found.partial and len(found.commits) < limit) or everything.partial:
        if is_shallow(top):
            notes.append("this clone is shallow: what is older than its boundary is not here")
        else:
            notes.append(
                "older commits are left out: git had no more time, or lacks objects (`repoagent mine` helps)"
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


def with_summaries(found: Past, summaries: dict[str, str]) -> Past:
    """The same with a model's line for each commit that has one, by commit id."""
    changed = [replace(step, summary=summaries.get(step.commit.commit, step.summary)) for step in found.steps]
    return replace(found, steps=tuple(changed))
