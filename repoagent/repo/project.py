"""Carry a change of one version of a file over to another version of it, as entries of a tree or index."""

from __future__ import annotations

from repoagent.repo.blobs import read_blobs, store
from repoagent.repo.change import SYMLINK
from repoagent.repo.index import Entry
from repoagent.repo.merge import Conflict, merge
from repoagent.repo.worktree import WorkTree


def project(
    worktree: WorkTree, version: Entry | None, before: Entry | None, after: Entry | None
) -> Entry | Conflict | None:
    """`version` with the change from `before` to `after`; None stands for no file on each side."""
    if version == before:
        return after
    if version == after:
        return version
    if version is None or before is None or after is None:
        return Conflict()
    mode = _either(version.mode, before.mode, after.mode)
    if mode is None or (SYMLINK in (version.mode, before.mode, after.mode) and version.oid != before.oid):
        return Conflict()
    oid = _either(version.oid, before.oid, after.oid)
    if oid is not None:
        return Entry(mode, oid)
    blobs = read_blobs(worktree, [version.oid, before.oid, after.oid])
    merged = merge(worktree, blobs[version.oid], blobs[before.oid], blobs[after.oid], exact=True)
    return merged if isinstance(merged, Conflict) else Entry(mode, store(worktree, merged))


def _either(version: str, before: str, after: str) -> str | None:
    """The merge of three that can't be merged by lines; None when two sides changed it."""
    if version in (before, after):
        return after
    return version if before == after else None
