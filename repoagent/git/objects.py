"""Read and write blobs, commits and branches, and convert files between the work tree and the repository."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.errors import Refused, UsageError
from repoagent.git.files import SYMLINK, Content, empty_tree
from repoagent.git.index import Entry, parse_entry
from repoagent.git.process import OFFLINE, GitError, git, git_output
from repoagent.git.worktree import WorkTree

_ATTRIBUTES = ("text", "eol", "crlf", "filter", "ident", "working-tree-encoding")


def to_blob(worktree: WorkTree, path: str, content: Content, staged: Entry | None) -> Entry:
    """Store `content` of the file `path` as `git add` would if `staged` were its index entry; return the new entry."""
    if content.is_link:
        return Entry(content.mode, store_blob(worktree, content.data))
    filtered: tuple[str, ...] = (f"--path={path}",)
    # if line endings are left to git, `git add` keeps CRLF if the staged blob has it too; hash-object does not know
    # the index
    crlf = b"\r\n"
    if staged and crlf in content.data and crlf in read_blobs(worktree, [staged.oid])[staged.oid]:
        fields = os.fsdecode(git(worktree.top, "check-attr", "-z", *_ATTRIBUTES, "--", path)).split("\0")
        values = dict(zip(fields[1::3], fields[2::3], strict=False))
        specified = {name for name, value in values.items() if value != "unspecified"}
        if values.get("text") == "auto" and not specified & {"filter", "ident", "working-tree-encoding"}:
            return Entry(content.mode, store_blob(worktree, content.data))
        if not specified & {"text", "eol", "crlf"}:
            filtered = (*filtered, "-c", "core.autocrlf=false")
    return Entry(content.mode, _store(worktree, content.data, *filtered))


def store_blob(worktree: WorkTree, data: bytes) -> str:
    """Store `data` as a blob, without git's filters; return its id."""
    return _store(worktree, data, "--no-filters")


def _store(worktree: WorkTree, data: bytes, conversion: str, *settings: str) -> str:
    arguments = (*settings, "hash-object", "-w", "--stdin", conversion)
    try:
        return git(worktree.top, *arguments, stdin=data, read_only=False).decode().strip()
    except GitError as error:
        reason = error.stderr.rpartition("fatal: ")[2]
        if "filter" not in reason and "encode" not in reason:
            raise
        raise Refused(
            f"git cannot store the file ({reason}): fix that, or use --no-commit to only write the file"
        ) from error


def from_blob(worktree: WorkTree, path: str, entry: Entry) -> Content:
    """The content that a checkout of `entry` would write to `path`."""
    if entry.mode == SYMLINK:
        return Content(read_blobs(worktree, [entry.oid])[entry.oid], entry.mode)
    data = git(worktree.top, "cat-file", "--filters", f"--path={path}", entry.oid)
    return Content(data, entry.mode)


def read_blobs(worktree: WorkTree, oids: Collection[str]) -> dict[str, bytes]:
    """The stored contents of blobs, by id."""
    ordered = sorted(set(oids))
    stdin = "".join(oid + "\n" for oid in ordered).encode()
    return _contents(ordered, git(worktree.top, "cat-file", "--batch", stdin=stdin))


def _contents(names: Sequence[str], out: bytes) -> dict[str, bytes]:
    """The contents in the output of `git cat-file --batch` for `names`."""
    contents: dict[str, bytes] = {}
    position = 0
    for name in names:
        end = out.index(b"\n", position)
        size = int(out[position:end].split(b" ")[2])
        contents[name] = out[end + 1 : end + 1 + size]
        position = end + 1 + size + 1
    return contents


def local_blobs(
    top: Path, names: Collection[str], *, largest: int = sys.maxsize, most: int = sys.maxsize
) -> dict[str, bytes]:
    """The blobs with these full or abbreviated ids, keyed as given. Fetches nothing.

    Blobs are left out if this clone lacks them, if they are larger than `largest` bytes, or if the result would exceed
    `most` bytes.
    """

    def ask(*arguments: str) -> bytes:
        stdin = "".join(f"{name}\n" for name in wanted).encode()
        return git(top, *arguments, stdin=stdin, env=OFFLINE)

    wanted = list(dict.fromkeys(filter(None, names)))
    check = ("cat-file", "--batch-check")
    try:
        lines = ask(*check)
    except GitError:  # git stops at the first blob that a partial clone lacks
        present = "--objects --no-object-names --no-walk --missing=print --ignore-missing --stdin"
        listed = ask("rev-list", *present.split()).decode().split()
        wanted = [name for name in wanted if any(oid.startswith(name) for oid in listed)]
        lines = ask(*check)
    sizes = {}
    for name, line in zip(wanted, lines.split(b"\n"), strict=False):
        fields = line.split(b" ")
        if len(fields) == 3 and fields[1] == b"blob" and (size := int(fields[2])) <= min(largest, most):
            sizes[name] = size
            most -= size
    wanted = list(sizes)
    return _contents(wanted, ask("cat-file", "--batch")) if wanted else {}


_RAW = ("-r", "-z", "--raw", "--no-abbrev", "--no-renames")


@dataclass(frozen=True)
class Commit:
    """A commit and its changes.

    `changed` maps paths to the entries that differ from its first parent (None: removed), `was` maps the same paths to
    the parent's entries.
    """

    oid: str
    parents: tuple[str, ...]
    changed: Mapping[str, Entry | None]
    was: Mapping[str, Entry | None]

    @property
    def parent(self) -> str | None:
        return self.parents[0] if self.parents else None


def head_commit(worktree: WorkTree) -> str | None:
    """The id of the commit at HEAD; None if HEAD is unborn."""
    return resolve_commit(worktree.top, "HEAD", ok=(0, 1))


def resolve_commit(top: Path, name: str, ok: Sequence[int] = (0, 1, 128)) -> str | None:
    """The full id of the commit `name`; None if there is no such commit. Fetches nothing.

    Raises GitError if git exits with a code that is not in `ok`.
    """
    verify = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    return git(top, *verify, env=OFFLINE, ok=ok).decode().strip() or None


def no_such_commit(name: str) -> UsageError:
    return UsageError(f"no such commit: {name}; name a commit, branch or tag")


def read_commit(worktree: WorkTree, commit: str = "HEAD") -> Commit:
    """Read a commit. Raises GitError if it does not exist."""
    arguments = ("--root", "--always", *_RAW, "--format=%H %P", "--end-of-options", commit, "--")
    header, _, raw = os.fsdecode(git(worktree.top, "diff-tree", *arguments)).partition("\0")
    oid, *parents = header.split()
    differences = list(_differences(raw))
    was, changed = {path: old for path, old, _ in differences}, {path: new for path, _, new in differences}
    return Commit(oid, tuple(parents), changed, was)


def changes_between(
    worktree: WorkTree, first: str, second: str
) -> dict[str, tuple[Entry | None, Entry | None]]:
    """The paths at which two commits differ, each with its entries in both."""
    out = git(worktree.top, "diff-tree", *_RAW, first, second)
    return {path: (old, new) for path, old, new in _differences(os.fsdecode(out))}


def files_in(worktree: WorkTree, commits: Collection[str]) -> list[tuple[str, str]]:
    """The path and blob id of each file in the trees of `commits`.

    A file that is the same in the preceding tree is not listed again. Reads no blobs, which a partial clone may lack.
    Raises Refused or GitError if a tree is missing.
    """
    stdin = "".join(f"{commit}\n" for commit in commits).encode()
    listed = git(worktree.top, "log", "--no-walk", "--format=%T", "--stdin", stdin=stdin, env=OFFLINE)
    trees = list(dict.fromkeys(listed.decode().split()))
    pairs = zip([empty_tree(worktree), *trees], trees, strict=False)
    stdin = "".join(f"{before} {tree}\n" for before, tree in pairs).encode()
    out = os.fsdecode(git(worktree.top, "diff-tree", "--stdin", *_RAW, stdin=stdin, env=OFFLINE))
    # git prints the ids of each pair, and silently skips one that it cannot read
    if sum(description.count("\n") for description in out.split("\0")[::2]) < len(trees):
        raise Refused("trees of some branches are missing; run `git fetch --refetch --filter=blob:none`")
    return [(path, new.oid) for path, _, new in _differences(out) if new is not None]


def _differences(raw: str) -> Iterator[tuple[str, Entry | None, Entry | None]]:
    fields = raw.split("\0")
    for description, path in zip(fields[::2], fields[1::2], strict=False):
        old_mode, mode, old, new, _ = description.rpartition(":")[2].split(" ")
        yield path, parse_entry(old_mode, old), parse_entry(mode, new)


def first_parents(worktree: WorkTree, count: int) -> list[tuple[str, str | None]]:
    """The last `count` commits of HEAD along first parents, newest first, each with its parent (None for a root)."""
    out = git(worktree.top, "rev-list", "--first-parent", "--parents", f"-n{count}", "HEAD", "--")
    lines = (line.split() for line in out.decode().splitlines())
    return [(commit, parents[0] if parents else None) for commit, *parents in lines]


def has_object(worktree: WorkTree, oid: str) -> bool:
    return git_output(worktree.top, "cat-file", "-e", oid, ok=(0, 1, 128)).returncode == 0


def is_in_history(worktree: WorkTree, tip: str, commit: str) -> bool:
    """Whether `commit` is `tip` or one of its ancestors; False if either commit does not exist."""
    arguments = ("merge-base", "--is-ancestor", commit, tip)
    return git_output(worktree.top, *arguments, ok=(0, 1, 128)).returncode == 0


def refuse_invalid_branch(worktree: WorkTree, name: str) -> None:
    """Raise Refused unless a branch `name` can be created, and deleted again if no commit is made."""
    ref = git(worktree.top, "symbolic-ref", "--quiet", "HEAD", ok=(0, 1)).strip()
    head = (worktree.git_dir / "HEAD").read_bytes().removeprefix(b"ref:").strip()
    if head.startswith(b"refs/heads/") and head not in (ref, b"refs/heads/.invalid"):
        link, branch = (os.fsdecode(full.removeprefix(b"refs/heads/")) for full in (head, ref))
        raise Refused(f"{link} is a symbolic ref to branch {branch}: run `git switch {branch}` first")
    invalid = git_output(worktree.top, "check-ref-format", f"refs/heads/{name}", ok=(0, 1)).returncode
    if invalid or name[0] == "-":
        raise Refused(f"{name} is not a valid branch name: use another one")
    # a ref is either a file or a folder: look for branches of this name, below it, and above it
    names = (name, *(name[:at] for at, letter in enumerate(name) if letter == "/"))
    refs = git(
        worktree.top, "for-each-ref", "--format=%(refname)", *(f"refs/heads/{branch}" for branch in names)
    )
    for line in refs.splitlines():
        other = os.fsdecode(line).removeprefix("refs/heads/")
        if other == name:
            raise Refused(f"branch {name} already exists: use another name, or switch to it first")
        if other in names or other.startswith(f"{name}/"):
            raise Refused(f"branch {name} conflicts with branch {other}: use another name")


def switch_to_new(worktree: WorkTree, name: str, index: Path, came_from: str, mark: str) -> None:
    """Run `git switch -c NAME`, letting git read `index` while the real index is locked.

    `index` has HEAD's content. `mark` goes into HEAD's reflog, so that the switch can be recognized later.
    """
    action = f"checkout: moving from {came_from} to {name} ({mark})"
    env = {"GIT_INDEX_FILE": str(index), "GIT_REFLOG_ACTION": action}
    git(worktree.top, "switch", "--quiet", "-c", name, env=env, read_only=False)


def switch_back(worktree: WorkTree, name: str, head: str | None, branch: str | None, mark: str) -> None:
    """Undo `switch_to_new`, even if git was killed halfway.

    Does nothing unless the branch `name` is still at `head` and HEAD is on it or on `branch`. A branch that another
    program has created since stays.
    """
    ref = f"refs/heads/{name}"
    current = git(worktree.top, "symbolic-ref", "--quiet", "HEAD", ok=(0, 1)).decode().strip()
    commit = git(worktree.top, "rev-parse", "--quiet", "--verify", ref, ok=(0, 1)).decode().strip()
    before = f"refs/heads/{branch}" if branch is not None else ""
    if current not in (ref, before) or commit != (head or ""):
        return
    log, sign = (
        ("HEAD", mark) if current == ref else (ref, "Created from HEAD")
    )  # `git branch` names the branch
    actions = git(worktree.top, "log", "-g", "-n20", "--format=%gs", log, "--", ok=(0, 128))
    if actions and sign.encode() not in actions:
        return
    if current != before and branch is not None:
        git(worktree.top, "symbolic-ref", "HEAD", f"refs/heads/{branch}", read_only=False)
    elif current != before and head is not None:
        reset_ref(worktree, "--no-deref", "HEAD", head)
    if head is not None:
        reset_ref(worktree, "-d", ref, head)


def reset_ref(worktree: WorkTree, *arguments: str) -> None:
    """Run `git update-ref` to revert repoagent's own update; a reference-transaction hook cannot prevent it.

    Raises GitError if the reference does not have the expected value.
    """
    try:
        git(worktree.top, "update-ref", *arguments, read_only=False)
    except GitError:
        git(worktree.top, "-c", "core.hooksPath=/dev/null", "update-ref", *arguments, read_only=False)
