"""Between the bytes of the work tree and the blobs of the repository, through the file's own filters."""

from __future__ import annotations

import os
from collections.abc import Collection

from repoagent.errors import Refused
from repoagent.repo.change import SYMLINK
from repoagent.repo.content import Content
from repoagent.repo.index import Entry
from repoagent.repo.run import GitError, git
from repoagent.repo.worktree import WorkTree

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
            f"git can't store the file ({reason}): put that right, or use --no-commit to only write the file"
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
