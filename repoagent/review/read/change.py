"""Read what is to be reviewed: the files with one `git diff --raw`, all else when it is asked for."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from repoagent.repo.run import OFFLINE, GitError, git
from repoagent.repo.worktree import WorkTree
from repoagent.review.change import Change, ChangedFile
from repoagent.review.read.compared import Compared, compared
from repoagent.review.read.raw import parse_raw
from repoagent.review.read.texts import Texts
from repoagent.review.read.wanted import Wanted

_RAW = ("--raw", "-z", "--no-abbrev")
_SAME = (
    "--no-ext-diff",
    "--no-textconv",
    "--no-relative",
    "--ignore-submodules=none",
    "--submodule=short",
    "-l400",
)
_SIMILAR, _EQUAL = "-M", "-M100%"


def read_change(
    worktree: WorkTree, head: str | None, wanted: Wanted, *, bare: bool = False
) -> tuple[Change, tuple[str, ...]]:
    """The change, and a sentence for each part of it that can't be reviewed.

    `worktree`, `head` and `bare` are what `open_repository` gave. Raises UsageError for what does not exist, for an
    unusable pathspec and for a text that holds no diff; GitError.
    """
    if wanted.how == "diff":
        from repoagent.review.read.given import given_change

        return given_change(worktree, head, wanted, bare=bare)
    found = compared(worktree, head, wanted, bare=bare)
    cwd = wanted.cwd or worktree.top
    everything, unmerged, arguments = _files(cwd, found.arguments, wanted.pathspecs)
    if found.kind == "worktree" and not unmerged:  # `git diff HEAD` says of them only that they differ
        unmerged = _unmerged(cwd, wanted.pathspecs)
    files: Sequence[ChangedFile] = [file for file in everything if file.path not in set(unmerged)]
    for parent in found.parents:
        files = _unlike(worktree.top, found, files, parent)
    beside = everything
    if wanted.pathspecs:  # what is left out of the review was not left out of the change
        beside = _files(worktree.top, found.arguments, ())[0]
    hiding = found.kind in ("range", "commit") and any(
        file.path.rpartition("/")[2] == ".gitattributes" for file in beside
    )  # attributes that come with the change do not decide which of its files have lines
    texts = Texts(worktree.top, arguments, everything, cwd=cwd, pathspecs=wanted.pathspecs, shown=hiding)
    own = {path for file in files for path in (file.path, file.old_path)}
    earlier = found.earlier | ({path for file in beside for path in (file.path, file.old_path)} - own)
    change = Change(
        found.kind, found.title, tuple(files), found.base, found.head, found.message, earlier, found.author,
        texts.old, texts.new, texts.lines,
    )  # fmt: skip
    return change, tuple(f"{path} has conflicts that are not settled" for path in unmerged)


def _files(
    cwd: Path, compare: Sequence[str], pathspecs: Sequence[str]
) -> tuple[list[ChangedFile], list[str], tuple[str, ...]]:
    """The files that differ, those that are unmerged, and the arguments that git was given in the end: where a partial
    clone lacks the texts, only renames of equal ones are seen."""
    for renames in (_SIMILAR, _EQUAL):
        arguments = (renames, *_SAME, *compare)
        try:
            out = git(cwd, "--no-literal-pathspecs", "diff", *_RAW, *arguments, "--", *pathspecs, env=OFFLINE)
        except GitError as error:
            _check_pathspec(error)
            if renames == _EQUAL:
                _check_complete(error)
                raise
        else:
            break
    return (*parse_raw(out), arguments)


def _unmerged(cwd: Path, pathspecs: Sequence[str]) -> list[str]:
    """The paths with conflicts."""
    out = git(
        cwd, "--no-literal-pathspecs", "ls-files", "-u", "-z", "--full-name", "--", *(pathspecs or (":/",))
    )
    return list(dict.fromkeys(os.fsdecode(entry.partition(b"\t")[2]) for entry in out.split(b"\0") if entry))


def _check_pathspec(error: GitError) -> None:
    from repoagent.errors import UsageError

    reason = error.stderr.partition("fatal: ")[2]
    if "pathspec" in reason or "outside repository" in reason:
        raise UsageError(reason.splitlines()[0]) from error


def _check_complete(error: GitError) -> None:
    from repoagent.errors import Refused

    if "promisor" in error.stderr or "lazy fetching" in error.stderr:
        raise Refused(
            "this partial clone lacks the trees of what is to be reviewed, and a review fetches nothing: "
            "git fetch --refetch --filter=blob:none brings them"
        ) from error


def _unlike(top: Path, found: Compared, files: Sequence[ChangedFile], parent: str) -> list[ChangedFile]:
    """Those that differ from this parent of a merge too: only they are the work of the one who merges."""
    compare = ("--cached", parent) if found.kind == "staged" else (parent, *filter(None, (found.head,)))
    out = git(top, "diff", *_RAW, "--no-renames", *_SAME, *compare, "--", env=OFFLINE)
    differ = {os.fsencode(file.path) for file in parse_raw(out)[0]}
    return [file for file in files if os.fsencode(file.path) in differ]
