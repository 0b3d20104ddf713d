"""Blobs, commits and branches: store and read them, and convert between the work tree and the repository."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.git.files import SYMLINK, Content
from repoagent.git.index import Entry, entry
from repoagent.git.process import GitError, git, git_output
from repoagent.git.worktree import WorkTree

_ATTRIBUTES = ("text", "eol", "crlf", "filter", "ident", "working-tree-encoding")


def to_blob(worktree: WorkTree, path: str, content: Content, staged: Entry | None) -> Entry:
    """Store `content`, a file `path` of the work tree, as `git add` would where the index has `staged`."""
    if content.is_link:
        return Entry(content.mode, store(worktree, content.data))
    if not _keeps_crlf(worktree, content.data, staged):
        return Entry(content.mode, _store(worktree, content.data, f"--path={path}"))
    values = _attributes(worktree, path)
    if (
        values["text"] == "auto"
        and values["filter"] == values["ident"] == values["working-tree-encoding"] == ""
    ):
        return Entry(content.mode, store(worktree, content.data))
    if values["text"] == values["eol"] == values["crlf"] == "":
        settings = ("-c", "core.autocrlf=false")
        return Entry(content.mode, _store(worktree, content.data, f"--path={path}", settings))
    return Entry(content.mode, _store(worktree, content.data, f"--path={path}"))


def _keeps_crlf(worktree: WorkTree, data: bytes, staged: Entry | None) -> bool:
    """Whether git, left to decide on line endings, leaves CRLF alone because the staged blob has it too.
    hash-object does not know the index, so it has to be told."""
    return (
        staged is not None and b"\r\n" in data and b"\r\n" in read_blobs(worktree, [staged.oid])[staged.oid]
    )


def _attributes(worktree: WorkTree, path: str) -> dict[str, str]:
    """The attributes that say how the file is converted; "" for one that is not specified."""
    fields = os.fsdecode(git(worktree.top, "check-attr", "-z", *_ATTRIBUTES, "--", path)).split("\0")
    return {
        name: "" if value == "unspecified" else value
        for name, value in zip(fields[1::3], fields[2::3], strict=False)
    }


def store(worktree: WorkTree, data: bytes) -> str:
    """Store a blob that is in the repository's form already; its id."""
    return _store(worktree, data, "--no-filters")


def _store(worktree: WorkTree, data: bytes, how: str, settings: tuple[str, ...] = ()) -> str:
    arguments = (*settings, "hash-object", "-w", "--stdin", how)
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
    """What a checkout of `entry` at `path` would write."""
    if entry.mode == SYMLINK:
        return Content(read_blobs(worktree, [entry.oid])[entry.oid], entry.mode)
    data = git(worktree.top, "cat-file", "--filters", f"--path={path}", entry.oid)
    return Content(data, entry.mode)


def read_blobs(worktree: WorkTree, oids: Collection[str]) -> dict[str, bytes]:
    """The contents of blobs as they are stored, one call of git for all."""
    wanted = sorted(set(oids))
    out = git(worktree.top, "cat-file", "--batch", stdin="".join(oid + "\n" for oid in wanted).encode())
    found: dict[str, bytes] = {}
    position = 0
    for oid in wanted:
        end = out.index(b"\n", position)
        size = int(out[position:end].split(b" ")[2])
        found[oid] = out[end + 1 : end + 1 + size]
        position = end + 1 + size + 1
    return found


_RAW = ("-r", "-z", "--raw", "--no-abbrev", "--no-renames")


@dataclass(frozen=True)
class Commit:
    """A commit as git shows it: `changed` is what it has other than its first parent (None: removed), `was`
    what that one has there."""

    oid: str
    parents: tuple[str, ...]
    changed: Mapping[str, Entry | None]
    was: Mapping[str, Entry | None]

    @property
    def parent(self) -> str | None:
        return self.parents[0] if self.parents else None


def head_commit(worktree: WorkTree) -> str | None:
    """The commit of HEAD; None when unborn."""
    out = git(worktree.top, "rev-parse", "--quiet", "--verify", "HEAD^{commit}", ok=(0, 1))
    return out.decode().strip() or None


def read_commit(worktree: WorkTree, commit: str = "HEAD") -> Commit:
    """The commit (one call of git). Raises GitError when there is none."""
    out = git(
        worktree.top, "diff-tree", "--root", "--always", *_RAW,
        "--format=%H %P", "--end-of-options", commit, "--",
    )  # fmt: skip
    header, _, raw = os.fsdecode(out).partition("\0")
    oid, *parents = header.split()
    found = list(_differences(raw.lstrip("\n")))
    was, changed = {path: old for path, old, _ in found}, {path: new for path, _, new in found}
    return Commit(oid, tuple(parents), changed, was)


def changes_between(worktree: WorkTree, one: str, other: str) -> dict[str, tuple[Entry | None, Entry | None]]:
    """The paths in which two commits differ, with what each of them has."""
    out = git(worktree.top, "diff-tree", *_RAW, one, other)
    return {path: (old, new) for path, old, new in _differences(os.fsdecode(out))}


def _differences(raw: str) -> Iterator[tuple[str, Entry | None, Entry | None]]:
    """Path, old and new entry of each line of git's raw format."""
    fields = raw.split("\0")
    for description, path in zip(fields[::2], fields[1::2], strict=False):
        old_mode, mode, old, new, _ = description.removeprefix(":").split(" ")
        yield path, entry(old_mode, old), entry(mode, new)


def first_parents(worktree: WorkTree, count: int) -> list[tuple[str, str | None]]:
    """The last `count` commits of HEAD along first parents, newest first, each with its parent (None: a root)."""
    out = git(worktree.top, "rev-list", "--first-parent", "--parents", f"-n{count}", "HEAD", "--")
    lines = (line.split() for line in out.decode().splitlines())
    return [(commit, parents[0] if parents else None) for commit, *parents in lines]


def has_object(worktree: WorkTree, oid: str) -> bool:
    """Whether git still keeps the object."""
    return git_output(worktree.top, "cat-file", "-e", oid, ok=(0, 1, 128)).returncode == 0


def contains(worktree: WorkTree, tip: str, commit: str) -> bool:
    """Whether `commit` is `tip` or in its history; False also where git has not one of them."""
    found = git_output(worktree.top, "merge-base", "--is-ancestor", commit, tip, ok=(0, 1, 128))
    return found.returncode == 0


def refuse_invalid_branch(worktree: WorkTree, name: str) -> None:
    """Raises Refused unless a branch `name` can be made, and left again where no commit comes about."""
    ref = git(worktree.top, "symbolic-ref", "--quiet", "HEAD", ok=(0, 1)).strip()
    here = (worktree.git_dir / "HEAD").read_bytes().removeprefix(b"ref:").strip()
    if here.startswith(b"refs/heads/") and here not in (ref, b"refs/heads/.invalid"):
        names = [os.fsdecode(one.removeprefix(b"refs/heads/")) for one in (here, ref)]
        raise Refused(f"{names[0]} is a link to the branch {names[1]}: `git switch {names[1]}` first")
    if (
        git_output(worktree.top, "check-ref-format", f"refs/heads/{name}", ok=(0, 1)).returncode
        or name[0] == "-"
    ):
        raise Refused(f"{name} is not a valid branch name: use another one")
    for other in _in_the_way(worktree, name):
        if other == name:
            raise Refused(f"the branch {name} already exists: use another name, or switch to it first")
        raise Refused(f"the branch {name} conflicts with the branch {other}: use another name")


def _in_the_way(worktree: WorkTree, name: str) -> list[str]:
    """Branches of this name, below it, or of a name that it is below: a ref is a file or a folder, not both."""
    parents = [name[:at] for at, letter in enumerate(name) if letter == "/"]
    patterns = [f"refs/heads/{branch}" for branch in (name, *parents)]
    found = git(worktree.top, "for-each-ref", "--format=%(refname)", *patterns)
    branches = [os.fsdecode(line).removeprefix("refs/heads/") for line in found.splitlines()]
    return [branch for branch in branches if branch in (name, *parents) or branch.startswith(f"{name}/")]


def switch_to_new(worktree: WorkTree, name: str, index: Path, came_from: str, mark: str) -> None:
    """`git switch -c NAME`; `index` is an index of HEAD that git may look at while ours is locked. The reflog of HEAD
    tells of it as always, and by `mark` who did it."""
    told = f"checkout: moving from {came_from} to {name} ({mark})"
    env = {"GIT_INDEX_FILE": str(index), "GIT_REFLOG_ACTION": told}
    git(worktree.top, "switch", "--quiet", "-c", name, env=env, read_only=False)


def switch_back(worktree: WorkTree, name: str, head: str | None, branch: str | None, mark: str) -> None:
    """Undo `switch_to_new`, or the half of it that a killed git has done, where `name` still is at `head`, and HEAD on
    it or on `branch`. A branch that somebody else has made meanwhile, as reflogs tell, stays."""
    ref = f"refs/heads/{name}"
    on = git(worktree.top, "symbolic-ref", "--quiet", "HEAD", ok=(0, 1)).decode().strip()
    at = git(worktree.top, "rev-parse", "--quiet", "--verify", ref, ok=(0, 1)).decode().strip()
    before = f"refs/heads/{branch}" if branch is not None else ""
    if on not in (ref, before) or at != (head or ""):
        return
    log, sign = ("HEAD", mark) if on == ref else (ref, "Created from HEAD")  # `git branch` names the branch
    told = git(worktree.top, "log", "-g", "-n20", "--format=%gs", log, "--", ok=(0, 128))
    if told and sign.encode() not in told:
        return
    if on == before:
        pass
    elif branch is not None:
        git(worktree.top, "symbolic-ref", "HEAD", f"refs/heads/{branch}", read_only=False)
    elif head is not None:
        reset_ref(worktree, "--no-deref", "HEAD", head)
    if head is not None:
        reset_ref(worktree, "-d", ref, head)


def reset_ref(worktree: WorkTree, *arguments: str) -> None:
    """`git update-ref` that takes back what is our own. A hook of reference transactions is asked, but can't hold
    us to what it has let us only half do. Raises GitError where the reference is not what it should be."""
    try:
        git(worktree.top, "update-ref", *arguments, read_only=False)
    except GitError:
        git(worktree.top, "-c", "core.hooksPath=/dev/null", "update-ref", *arguments, read_only=False)
