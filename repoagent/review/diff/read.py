"""Read the change to review: the files with one `git diff --raw`, their texts and lines once and on demand."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.errors import Refused, UsageError
from repoagent.git.process import OFFLINE, GitError, git
from repoagent.git.worktree import WorkTree
from repoagent.review.change import Change, ChangedFile, Lines, Status, apply_hunks, diff_sections
from repoagent.review.diff.select import ChangeSelector, Comparison, compare, read_blob

SUBMODULE = "160000"
CACHED = 256 << 20  # bytes of texts
_STATUS: dict[str, Status] = {
    "A": "added", "M": "modified", "D": "deleted", "R": "renamed", "C": "copied", "T": "type changed",
}  # fmt: skip
_RAW = ("--raw", "-z", "--no-abbrev")
_PATCH = ("-p", "-U0", "--no-color", "--diff-algorithm=default", "--no-indent-heuristic", "--full-index")
_SAME = (
    "--no-ext-diff", "--no-textconv", "--no-relative", "--ignore-submodules=none", "--submodule=short", "-l400",
)  # fmt: skip


def parse_raw(out: bytes) -> tuple[list[ChangedFile], list[str]]:
    """The files in the output of `git diff --raw -z`, in its order, and the paths of unmerged files."""
    files: list[ChangedFile] = []
    unmerged: list[str] = []
    fields = iter(os.fsdecode(out).split("\0"))
    for entry in fields:
        if not entry.startswith(":"):
            continue
        old_mode, new_mode, old, new, status = entry[1:].split(" ")
        path = next(fields)
        new_path = next(fields) if status[0] in "RC" else path
        if status[0] == "U":
            unmerged.append(path)
        elif status[0] in _STATUS:
            # a missing side has the null object name and mode
            sides = (text if text.strip("0") else "" for text in (old, new, old_mode, new_mode))
            files.append(ChangedFile(new_path, _STATUS[status[0]], path, *sides))
    # `git diff HEAD` lists an unmerged file twice: as unmerged, and as in the work tree
    return [file for file in files if file.path not in unmerged], unmerged


@dataclass(eq=False)
class Texts:
    """The readers of a `Change`: `git diff ARGUMENTS` in `cwd`, limited by `pathspecs`. `files` are those that git
    lists, in its order. With `all_as_text`, ignore attributes that mark a text as binary."""

    top: Path
    arguments: Sequence[str]
    files: Sequence[ChangedFile]
    cwd: Path
    pathspecs: Sequence[str] = ()
    all_as_text: bool = False
    _hunks: dict[str, tuple[Lines, ...]] | None = None
    _blobs: dict[str, bytes | None] = field(default_factory=dict)
    _size: int = 0  # of the blobs

    def old(self, file: ChangedFile) -> bytes | None:
        """The old text; None if there is none, for a submodule, and if a partial clone lacks it."""
        return None if file.old_mode == SUBMODULE else self._blob(file.old_blob)

    def new(self, file: ChangedFile) -> bytes | None:
        """The new text, as git stores it."""
        if file.new_mode == SUBMODULE or file.status == "deleted":
            return None
        if file.new_blob:
            return self._blob(file.new_blob)
        hunks = self.lines(file)
        old = b"" if file.status == "added" or not file.old_blob else self.old(file)
        return None if old is None else apply_hunks(old, hunks)

    def lines(self, file: ChangedFile) -> tuple[Lines, ...]:
        """The lines that differ, as hunks without context; () for a binary file."""
        if SUBMODULE in (file.old_mode, file.new_mode):
            return ()
        if self._hunks is None:
            self._hunks = self._read_all()
        hunks = self._hunks.get(file.path, ())
        if not hunks and self.all_as_text and file.old_blob != file.new_blob:
            texts = (self._blob(file.old_blob) or b"", self._blob(file.new_blob) or b"")
            if not any(b"\0" in text[:8000] for text in texts):
                hunks = self._hunks[file.path] = self._read_one(file, "--text")
        return hunks

    def _read_all(self) -> dict[str, tuple[Lines, ...]]:
        # git lists a file that becomes a link as deleted and added
        files = [file for file in self.files for _ in range(1 + (file.status == "type changed"))]
        try:
            sections = list(diff_sections(self._diff(self.cwd, "--no-literal-pathspecs", self.pathspecs)))
        except GitError:  # a partial clone lacks a blob
            sections = []
        if len(files) != len(sections):
            return {file.path: self._read_one(file) for file in self.files}
        hunks: dict[str, tuple[Lines, ...]] = {}
        for file, (_, section) in zip(files, sections, strict=True):
            hunks[file.path] = hunks.get(file.path, ()) + section
        return hunks

    def _read_one(self, file: ChangedFile, *options: str) -> tuple[Lines, ...]:
        paths = list(dict.fromkeys((file.old_path, file.path)))
        try:
            patch = self._diff(self.top, "--literal-pathspecs", paths, *options)
        except GitError:
            return ()
        return tuple(hunk for _, hunks in diff_sections(patch) for hunk in hunks)

    def _diff(self, cwd: Path, literal: str, paths: Sequence[str], *options: str) -> bytes:
        return git(cwd, literal, "diff", *_PATCH, *options, *self.arguments, "--", *paths, env=OFFLINE)

    def _blob(self, blob: str) -> bytes | None:
        if blob and blob not in self._blobs:
            data = read_blob(self.top, blob)
            self._size += len(data or b"")
            if self._size > CACHED:
                self._blobs.clear()
                self._size = len(data or b"")
            self._blobs[blob] = data
        return self._blobs[blob] if blob else None


def read_change(
    worktree: WorkTree, head: str | None, selector: ChangeSelector
) -> tuple[Change, tuple[str, ...]]:
    """The change, and a phrase for each part of it that cannot be reviewed.

    `worktree` and `head` come from `open_at_head`. Raises UsageError for an unknown revision, an invalid
    pathspec and a text that is not a diff; GitError.
    """
    if selector.how == "diff":
        from repoagent.review.diff.stdin import read_stdin_change

        return read_stdin_change(worktree, head, selector), ()
    sides = compare(worktree, head, selector)
    cwd, pathspecs = selector.cwd or worktree.top, selector.pathspecs
    listed, unmerged, arguments = _files(cwd, sides.arguments, pathspecs)
    if sides.kind == "worktree" and not unmerged:  # `git diff HEAD` lists them as modified
        listing = ("ls-files", "-u", "-z", "--full-name", "--", *(pathspecs or (":/",)))
        entries = git(cwd, "--no-literal-pathspecs", *listing).split(b"\0")
        unmerged = list(dict.fromkeys(os.fsdecode(entry.partition(b"\t")[2]) for entry in entries if entry))
    files: Sequence[ChangedFile] = [file for file in listed if file.path not in unmerged]
    for parent in sides.parents:
        files = _unlike(worktree.top, sides, files, parent)
    # with pathspecs the review omits some files of the change
    all_files = _files(worktree.top, sides.arguments, ())[0] if pathspecs else listed
    # attributes that the change brings must not hide lines
    all_as_text = sides.kind in ("range", "commit") and any(
        file.path.rpartition("/")[2] == ".gitattributes" for file in all_files
    )
    texts = Texts(worktree.top, arguments, listed, cwd, pathspecs, all_as_text)
    paths, all_paths = (
        {path for file in part for path in (file.path, file.old_path)} for part in (files, all_files)
    )
    change = Change(
        sides.kind, sides.title, tuple(files), sides.base, sides.head, sides.message,
        sides.earlier | (all_paths - paths), sides.author, texts.old, texts.new, texts.lines,
    )  # fmt: skip
    return change, tuple(f"{path} has unresolved conflicts" for path in unmerged)


def _files(
    cwd: Path, sides: Sequence[str], pathspecs: Sequence[str], renames: str = "-M"
) -> tuple[list[ChangedFile], list[str], tuple[str, ...]]:
    """The files that differ, the unmerged paths, and the arguments for git. If a partial clone lacks the texts, only
    exact renames are detected."""
    arguments = (renames, *_SAME, *sides)
    try:
        out = git(cwd, "--no-literal-pathspecs", "diff", *_RAW, *arguments, "--", *pathspecs, env=OFFLINE)
    except GitError as error:
        reason = error.stderr.partition("fatal: ")[2]
        if "pathspec" in reason or "outside repository" in reason:
            raise UsageError(reason.splitlines()[0]) from error
        if renames == "-M":
            return _files(cwd, sides, pathspecs, "-M100%")
        if "promisor" in error.stderr or "lazy fetching" in error.stderr:
            raise Refused(
                "this partial clone lacks trees of the change, and a review never fetches; "
                "run `git fetch --refetch --filter=blob:none`"
            ) from error
        raise
    return (*parse_raw(out), arguments)


def _unlike(top: Path, sides: Comparison, files: Sequence[ChangedFile], parent: str) -> list[ChangedFile]:
    """The files that also differ from this parent of a merge: only these were edited in the merge."""
    compared = ("--cached", parent) if sides.kind == "staged" else (parent, *filter(None, (sides.head,)))
    out = git(top, "diff", *_RAW, "--no-renames", *_SAME, *compared, "--", env=OFFLINE)
    differ = {file.path for file in parse_raw(out)[0]}
    return [file for file in files if file.path in differ]
