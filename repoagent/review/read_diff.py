"""Read the change to review: find its two sides, list its files with one `git diff --raw`, and read each text once, on
demand."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Literal, NamedTuple

from repoagent.dataclass import dataclass
from repoagent.errors import Refused, UsageError
from repoagent.git.files import empty_tree
from repoagent.git.objects import no_such_commit, resolve_commit
from repoagent.git.process import OFFLINE, GitError, git, git_output
from repoagent.git.worktree import WorkTree, current_branch, is_full_id
from repoagent.review.change import (
    Change,
    ChangedFile,
    ChangedLines,
    ChangedTexts,
    Status,
    diff_sections,
)

How = Literal["staged", "worktree", "range", "base", "commit", "diff"]

SUBMODULE = "160000"
CACHED = 256 << 20  # bytes of texts
BRANCH_COMMITS = 300  # of a branch; a longer branch is more than one piece of work
BRANCH_SECONDS = 0.15
MESSAGES = 500  # commits of a range whose messages are read
_DEFAULTS = ("refs/remotes/origin/HEAD", "refs/heads/main", "refs/heads/master")
_IDENT = re.compile(rb"(.*>) \d+ [-+]\d+\n?", re.DOTALL)
_STATUS: dict[str, Status] = {
    "A": "added", "M": "modified", "D": "deleted", "R": "renamed", "C": "copied", "T": "type changed",
}  # fmt: skip
_RAW = ("--raw", "-z", "--no-abbrev")
_PATCH = ("-p", "-U0", "--no-color", "--diff-algorithm=default", "--no-indent-heuristic", "--full-index")
_SAME = (
    "--no-ext-diff", "--no-textconv", "--no-relative", "--ignore-submodules=none", "--submodule=short", "-l400",
)  # fmt: skip


class ChangeSelector(NamedTuple):
    """The user's choice of the change to review."""

    how: How = "staged"
    value: str = ""  # the range, the base or the commit
    pathspecs: tuple[str, ...] = ()  # as for git, relative to `cwd`
    cwd: Path | None = None
    diff: bytes = b""  # the text of a diff


def _output(cwd: Path, *arguments: str) -> bytes | None:
    """The output of git, which may not fetch; None if it fails."""
    result = git_output(cwd, *arguments, env=OFFLINE, ok=(0, 1, 128))
    return result.stdout if result.returncode == 0 else None


def read_blob(top: Path, name: str) -> bytes | None:
    """The blob `name` (an id, or COMMIT:PATH); None if it is missing or a partial clone lacks it."""
    return _output(top, "cat-file", "blob", name)


def merge_base(top: Path, *commits: str) -> str | None:
    """The merge base of the first of `commits` with the others; None if there is none."""
    return (_output(top, "merge-base", *commits) or b"").decode().strip() or None


def _changed_paths(top: Path, tip: str, base: str) -> frozenset[str]:
    """The paths that the commits changed that are reachable from `tip` but not from `base`, without merges; some may
    be missing if there are many, or if git fails or takes more than 0.15 s."""
    from repoagent.history.log import timed_git

    try:
        data, late = timed_git(
            top, "log", "--format=%x01", "--name-only", "-z", "--no-merges", "--no-renames", "--no-ext-diff",
            "--no-color", f"--max-count={BRANCH_COMMITS}", tip, f"^{base}", "--",
            deadline=time.monotonic() + BRANCH_SECONDS,
        )  # fmt: skip
    except GitError:
        return frozenset()
    entries = [entry.split(b"\0") for entry in data.split(b"\x01")[1:]]
    if late and entries:
        entries[-1].pop()  # may be truncated
    names = ([name.lstrip(b"\n") for name in entry if name.strip(b"\n")] for entry in entries)
    return frozenset(os.fsdecode(name) for entry in names for name in entry)


def _earlier_on_branch(worktree: WorkTree, base: str, other_parents: Sequence[str]) -> frozenset[str]:
    """The paths changed on the current branch up to the commit `base`, and by either side of a merge with
    `other_parents` since they forked. The branch starts at its upstream, otherwise at the default branch."""
    if not base:
        return frozenset()
    branch = current_branch(worktree)
    current = f"refs/heads/{branch}" if branch else ""
    form = "--format=%(refname) %(objectname) %(upstream) %(symref)"
    out = git(worktree.top, "for-each-ref", form, "--", *filter(None, [current]), *_DEFAULTS)
    upstream, targets, oids = "", {}, {}
    for line in os.fsdecode(out).splitlines():
        name, oid, upstream_name, symbolic = line.split(" ")
        if name == current:
            upstream = upstream_name
        targets[name] = symbolic or name
        oids[targets[name]] = oid
    fork = upstream or next((targets[name] for name in _DEFAULTS if name in targets), "")
    pairs = [pair for parent in other_parents for pair in ((base, parent), (parent, base))]
    if fork and fork != current and oids.get(fork) != base:
        pairs.append((base, fork))
    return frozenset().union(*(_changed_paths(worktree.top, tip, start) for tip, start in pairs))


def amended_parents(worktree: WorkTree, head: str) -> tuple[str, ...] | None:
    """The parents of HEAD if this process is a hook of `git commit --amend`, otherwise None.

    git does not tell a hook about --amend, but it sets GIT_AUTHOR_DATE ("@1700000000 +0100"): an amended commit keeps
    its author date, while that of a new commit is the current time.
    """
    date = os.environ.get("GIT_AUTHOR_DATE", "").removeprefix("@")
    seconds = date.split(" ")[0]
    is_current = seconds.isdecimal() and int(seconds) >= int(time.time()) - 2
    if "GIT_INDEX_FILE" not in os.environ or not date or is_current:
        return None
    form = "--format=%ad%n%ae%n%P"
    out = git(worktree.top, "log", "-1", "--no-mailmap", "--date=raw", form, head, "--", env=OFFLINE)
    when, mail, parents = os.fsdecode(out).split("\n")[:3]
    if when != date or mail != os.environ.get("GIT_AUTHOR_EMAIL", mail):
        return None
    return tuple(parents.split())


def author_ident(worktree: WorkTree) -> bytes:
    """The author of an uncommitted change as "Name <mail>"; b"" if unknown."""
    name, mail = os.environ.get("GIT_AUTHOR_NAME"), os.environ.get("GIT_AUTHOR_EMAIL")
    if name and mail:
        return os.fsencode(f"{name} <{mail}>")
    match = _IDENT.fullmatch(_output(worktree.top, "var", "GIT_AUTHOR_IDENT") or b"")
    return match[1] if match else b""


def compare(worktree: WorkTree, head: str | None, selector: ChangeSelector) -> Change:
    """The change that `selector` names, without its files. `head` is the commit at HEAD, None before the first one.
    Raises UsageError for an unknown revision."""
    how, value = selector.how, selector.value
    if head is None and how in ("worktree", "base"):
        what = "the work tree with" if how == "worktree" else "with a base"
        raise UsageError(f"there is no commit yet to compare {what}; stage the files instead")
    if how in ("staged", "worktree"):
        author = author_ident(worktree)
        title = "the staged change" if how == "staged" else "the changes in the work tree"
        if head is None:
            return Change("staged", title, author=author)
        # a clean `git merge` runs its hook before it writes MERGE_HEAD, and names the other sides in the environment
        named = (name.removeprefix("GITHEAD_") for name in os.environ if name.startswith("GITHEAD_"))
        parents, base = _ids_in(worktree.git_dir / "MERGE_HEAD") or tuple(filter(is_full_id, named)), head
        amended = amended_parents(worktree, head) if how == "staged" and not parents else None
        if parents:
            title += " (a merge)"
        elif amended is not None and (amended or head not in _ids_in(worktree.common_dir / "shallow")):
            base, *other_parents = amended or ("",)
            title, parents = f"{title} (amends {head[:10]})", tuple(other_parents)
        earlier = _earlier_on_branch(worktree, base, parents)
        return Change(how, title, base, earlier=earlier, author=author, parents=parents)
    if how == "commit":
        commit = _resolve(worktree, value)
        out = git(
            worktree.top, "log", "-1", "--no-mailmap", "--encoding=UTF-8", "--format=%P%x00%an <%ae>%x00%h %s%x00%B",
            commit, "--", env=OFFLINE,
        )  # fmt: skip
        ids, author, subject, message = out.split(b"\0", 3)
        base, *other_parents = os.fsdecode(ids).split() or [""]
        if not base and commit in _ids_in(worktree.common_dir / "shallow"):
            raise UsageError(
                f"the clone is shallow and lacks the parent of {value}; run `git fetch --deepen=1`"
            )
        title, text = (part.decode(errors="replace") for part in (subject, message))
        earlier = _earlier_on_branch(worktree, base, other_parents)
        return Change("commit", f"commit {title}", base, commit, text, earlier, author, tuple(other_parents))
    if how == "base":
        return _range(worktree, value, "HEAD", f"{value}...HEAD")
    old, dots, new = value.partition("..." if "..." in value else "..")
    if not dots:
        raise UsageError(f"{value} is not a range; use {value}..HEAD, --base {value} or --commit {value}")
    return _range(worktree, old or "HEAD", new or "HEAD", value)


def _ids_in(path: Path) -> tuple[str, ...]:
    """The ids in a file of the git directory, such as MERGE_HEAD; none if it does not exist."""
    try:
        return tuple(path.read_text().split())
    except OSError:
        return ()


def _range(worktree: WorkTree, old: str, new: str, title: str) -> Change:
    """Compare `new` with its merge base with `old`."""
    before, head = _resolve(worktree, old), _resolve(worktree, new)
    base = merge_base(worktree.top, before, head)
    if base is None:
        shallow = (worktree.common_dir / "shallow").exists()
        remedy = "; the clone is shallow, so run `git fetch --deepen=200`" if shallow else ""
        raise UsageError(f"{old} and {new} have no common ancestor{remedy}")
    out = git(
        worktree.top, "log", "-z", "--no-mailmap", "--encoding=UTF-8", f"--max-count={MESSAGES}",
        "--format=%an <%ae>%n%B", head, f"^{base}", "--", env=OFFLINE,
    )  # fmt: skip
    commits = [entry.partition(b"\n") for entry in out.split(b"\0") if entry]
    count = f"{len(commits):,}{'+' * (len(commits) == MESSAGES)} commit{'s' * (len(commits) != 1)}"
    message = "\n".join(text.decode(errors="replace") for _, _, text in commits)
    author = commits[0][0] if commits else b""
    earlier = _changed_paths(worktree.top, head, base)
    return Change("range", f"{title} ({count})", base, head, message, earlier, author)


def _resolve(worktree: WorkTree, name: str) -> str:
    if (commit := resolve_commit(worktree.top, name)) is None:
        raise no_such_commit(name)
    return commit


def _parse_raw(out: bytes) -> tuple[list[ChangedFile], list[str]]:
    """The files that `git diff --raw -z` lists, in its order, and the paths of unmerged files."""
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
class GitTexts(ChangedTexts):
    """The texts of `git diff ARGUMENTS -- PATHSPECS`, run in `cwd`. `files` are those that git lists, in its order.
    With `all_as_text`, attributes that mark a text as binary are ignored."""

    top: Path
    arguments: Sequence[str]
    files: Sequence[ChangedFile]
    cwd: Path
    pathspecs: Sequence[str] = ()
    all_as_text: bool = False
    _hunks: dict[str, tuple[ChangedLines, ...]] | None = None
    _blobs: dict[str, bytes | None] = field(default_factory=dict)
    _size: int = 0  # of the blobs

    def old(self, file: ChangedFile) -> bytes | None:
        return None if file.old_mode == SUBMODULE else self._blob(file.old_blob)

    def new(self, file: ChangedFile) -> bytes | None:
        if file.new_mode == SUBMODULE:
            return None
        return self._blob(file.new_blob) if file.new_blob else super().new(file)

    def lines(self, file: ChangedFile) -> tuple[ChangedLines, ...]:
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

    def _read_all(self) -> dict[str, tuple[ChangedLines, ...]]:
        # git lists a file that becomes a link as deleted and added
        files = [file for file in self.files for _ in range(1 + (file.status == "type changed"))]
        try:
            sections = list(diff_sections(self._diff(self.cwd, "--no-literal-pathspecs", self.pathspecs)))
        except GitError:  # a partial clone lacks a blob
            sections = []
        if len(files) != len(sections):
            return {file.path: self._read_one(file) for file in self.files}
        hunks: dict[str, tuple[ChangedLines, ...]] = {}
        for file, section in zip(files, sections, strict=True):
            hunks[file.path] = hunks.get(file.path, ()) + section
        return hunks

    def _read_one(self, file: ChangedFile, *options: str) -> tuple[ChangedLines, ...]:
        paths = list(dict.fromkeys((file.old_path, file.path)))
        try:
            patch = self._diff(self.top, "--literal-pathspecs", paths, *options)
        except GitError:
            return ()
        return tuple(hunk for hunks in diff_sections(patch) for hunk in hunks)

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
    """The change, and a phrase for each part of it that cannot be reviewed. `worktree` and `head` come from
    `open_at_head`. Raises UsageError for an unknown revision, an invalid pathspec or a text that is not a diff."""
    if selector.how == "diff":
        from repoagent.review.stdin_diff import read_stdin_change

        return read_stdin_change(worktree, head, selector), ()
    change = compare(worktree, head, selector)
    cwd, pathspecs, sides = selector.cwd or worktree.top, selector.pathspecs, _sides(change, worktree)
    listed, unmerged, arguments = _files(cwd, sides, pathspecs)
    if change.kind == "worktree" and not unmerged:  # `git diff HEAD` lists them as modified
        listing = ("ls-files", "-u", "-z", "--full-name", "--", *(pathspecs or (":/",)))
        entries = git(cwd, "--no-literal-pathspecs", *listing).split(b"\0")
        unmerged = list(dict.fromkeys(os.fsdecode(entry.partition(b"\t")[2]) for entry in entries if entry))
    files = [file for file in listed if file.path not in unmerged]
    for parent in change.parents:  # only the files that also differ from it were edited in the merge
        differ = {file.path for file in files_without_renames(replace(change, base=parent), worktree)}
        files = [file for file in files if file.path in differ]
    # with pathspecs the review omits some files of the change
    all_files = _files(worktree.top, sides, ())[0] if pathspecs else listed
    # attributes that the change brings must not hide lines
    all_as_text = change.kind in ("range", "commit") and any(
        file.path.rpartition("/")[2] == ".gitattributes" for file in all_files
    )
    texts = GitTexts(worktree.top, arguments, listed, cwd, pathspecs, all_as_text)
    paths, all_paths = (
        {path for file in part for path in (file.path, file.old_path)} for part in (files, all_files)
    )
    change = replace(change, earlier=change.earlier | (all_paths - paths), files=tuple(files), texts=texts)
    return change, tuple(f"{path} (unresolved conflicts)" for path in unmerged)


def _sides(change: Change, worktree: WorkTree) -> tuple[str, ...]:
    """The arguments with which `git diff` compares the two sides of the change."""
    index = ("--cached",) if change.kind == "staged" else ()
    return (*index, change.base or empty_tree(worktree), *filter(None, (change.head,)))


def files_without_renames(change: Change, worktree: WorkTree) -> list[ChangedFile]:
    """All files that differ between the two sides of the change; a renamed file counts as a deleted and
    an added file."""
    arguments = (*_RAW, "--no-renames", *_SAME, *_sides(change, worktree))
    return _parse_raw(git(worktree.top, "diff", *arguments, "--", env=OFFLINE))[0]


def _files(
    cwd: Path, sides: Sequence[str], pathspecs: Sequence[str], renames: str = "-M"
) -> tuple[list[ChangedFile], list[str], tuple[str, ...]]:
    """The files that differ, the unmerged paths, and the arguments for git. Where a partial clone lacks the texts, only
    exact renames are found."""
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
                "this partial clone lacks some trees of the change, and reviews never fetch; "
                "run `git fetch --refetch --filter=blob:none`"
            ) from error
        raise
    return (*_parse_raw(out), arguments)
