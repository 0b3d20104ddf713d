"""A patch that says which text of a file it was made for: that text is found again, and the change carried over."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from repoagent.errors import Refused, UsageError
from repoagent.repo import FileChange, Source, WorkTree, git
from repoagent.repo.blobs import from_blob
from repoagent.repo.content import Content
from repoagent.repo.index import Entry
from repoagent.repo.merge import Conflict, merge, say_lines
from repoagent.repo.source import blob_hash

_BLOB = re.compile(r"[0-9a-f]{7,64}")


def parse_bindings(texts: Sequence[str]) -> dict[str, str]:
    """`PATH=BLOB` texts by path, as written. Raises UsageError."""
    found: dict[str, str] = {}
    for text in texts:
        path, equals, blob = text.rpartition("=")
        blob = blob.lower()
        if not equals or not path or not _BLOB.fullmatch(blob):
            raise UsageError(f"--source {text}: write PATH=BLOB, with 7 or more hex digits of the blob's id")
        if found.setdefault(path, blob) != blob:
            raise UsageError(f"--source names {path} twice, with different blobs")
    return found


def bound_source(worktree: WorkTree, present: Source, blob: str) -> Source:
    """The text of a file that has the id `blob`, or one that begins so: `present` where that is it, in its raw form or
    in the one that git stores; else the one that git still has. Raises Refused where it has none."""
    path, mode = present.path, present.mode
    if present.data is None or mode is None:
        raise Refused(
            f"the patch was made for the text {blob} of {path}, which is not there any more: bring it back first (in "
            "a sparse checkout `git sparse-checkout add FOLDER`)"
        )
    if present.blob.startswith(blob):
        return present
    clean = git(worktree.top, "hash-object", "--stdin", f"--path={path}", stdin=present.data).decode().strip()
    if clean.startswith(blob):
        return present
    content = _stored(worktree, path, blob, mode) or _checked_out(worktree, path, blob)
    if content is None:
        raise Refused(
            f"{path} is {present.blob[:12]} now, the patch was made for {blob}, and git does not have that text: "
            "make the patch anew, or leave --source out to have it placed by its lines"
        )
    return replace(present, data=content.data, blob=blob_hash(content.data, worktree.object_format))


def _stored(worktree: WorkTree, path: str, blob: str, mode: str) -> Content | None:
    """What a checkout of the blob would write."""
    names = git(worktree.top, "rev-parse", f"--disambiguate={blob}").decode().split()
    checked = git(
        worktree.top, "cat-file", "--batch-check", stdin="".join(f"{name}\n" for name in names).encode()
    )
    blobs = [line.split()[0] for line in checked.decode().splitlines() if line.split()[1:2] == ["blob"]]
    if len(blobs) > 1:
        raise UsageError(f"--source {path}={blob}: {len(blobs)} blobs begin so: write more of the id")
    return from_blob(worktree, path, Entry(mode, blobs[0])) if blobs else None


def _checked_out(worktree: WorkTree, path: str, blob: str) -> Content | None:
    """The staged or committed text whose checkout has this id: with a filter git stores the file in another form."""
    out = git(worktree.top, "ls-files", "-s", "-z", "--", path) + git(
        worktree.top, "ls-tree", "-z", "HEAD", "--", path, ok=(0, 128)
    )
    for line in dict.fromkeys(os.fsdecode(out).split("\0")[:-1]):
        fields = line.partition("\t")[0].split(" ")
        oid = fields[2] if fields[1] == "blob" else fields[1]
        content = from_blob(worktree, path, Entry(fields[0], oid))
        if blob_hash(content.data, worktree.object_format).startswith(blob):
            return content
    return None


def carried(
    worktree: WorkTree, changes: Sequence[FileChange], present: Mapping[str, Source]
) -> tuple[FileChange, ...]:
    """`changes` of older texts as changes of the `present` ones: git's three-way merge. Raises Refused where the file
    has changed on the same lines."""
    return tuple(_carried(worktree, change, present.get(change.old_path or "")) for change in changes)


def _carried(worktree: WorkTree, change: FileChange, now: Source | None) -> FileChange:
    if now is None or now.data is None or now.data == change.before:
        return change
    name = change.name
    if change.after is None or change.before is None:
        raise Refused(f"{name} has changed since the text that the patch deletes: look at it again")
    merged = merge(worktree, now.data, change.before, change.after)
    if isinstance(merged, Conflict):
        where = f" on {say_lines(merged.lines)} of that text" if merged.lines else ""
        raise Refused(
            f"{name} has changed{where} since the text that the patch was made for: make the patch anew"
        )
    return replace(change, before=now.data, after=merged)
