"""The changes of several commits, with one call of git for all, and their patch ids."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from secrets import token_hex

from repoagent.dataclass import dataclass
from repoagent.history.blobs import offline
from repoagent.repo.run import GitError, git

_LOG = (
    "-c", "diff.noprefix=false", "-c", "diff.mnemonicPrefix=false", "-c", "diff.suppressBlankEmpty=false",
    "log", "--no-walk=unsorted", "--stdin", "-z", "--raw", "-p", "-M", "-l1000", "-U3", "--inter-hunk-context=0",
    "--no-abbrev", "--full-index", "--diff-algorithm=myers", "--indent-heuristic", "--no-notes", "--no-decorate",
    "--no-color", "--no-ext-diff", "--no-textconv", "--no-show-signature",
)  # fmt: skip
_MESSAGES = (
    "log", "--no-walk=unsorted", "--stdin", "-z", "--no-notes", "--no-decorate", "--no-color", "--no-patch",
    "--no-show-signature", "--format=%H%x00%b",
)  # fmt: skip
_RAW = re.compile(rb"\n?:\d+ \d+ [0-9a-f]+ [0-9a-f]+ ([A-Z])\d*")
_FILE = re.compile(rb"^diff --git ", re.MULTILINE)
_BINARY = re.compile(rb"^Binary files ", re.MULTILINE)


@dataclass(frozen=True)
class Patch:
    """The change of one commit to its first parent: `files` is (path in it, its part of the patch)."""

    commit: str
    files: tuple[tuple[str, bytes], ...]
    whole: bytes


def patches(top: Path, commits: Sequence[str], paths: Collection[str] = ()) -> dict[str, Patch]:
    """The patches of `commits`, of `paths` alone where some are given; a merge has none. Nothing is fetched: in a
    clone without the blobs there are no patches."""
    if not commits:
        return {}
    mark = token_hex(8)  # no name of a file and no line of one can hold it
    try:
        data = offline(top, *_LOG, f"--format={mark}%H", *(("--", *paths) if paths else ()), names=commits)
    except GitError:  # something is not here: of one commit, perhaps, and not of the others
        alone = [patches(top, [commit], paths) for commit in commits] if len(commits) > 1 else []
        return {commit: patch for found in alone for commit, patch in found.items()}
    heads = list(re.finditer(rb"%s([0-9a-f]{40}(?:[0-9a-f]{24})?)\0" % mark.encode(), data))
    ends = [head.start() for head in heads[1:]] + [len(data)]
    found = [_patch(head[1].decode(), data[head.end() : end]) for head, end in zip(heads, ends, strict=True)]
    return {patch.commit: patch for patch in found}


def patch_ids(top: Path, changes: Mapping[str, Patch]) -> dict[str, str]:
    """git's stable patch ids, by commit: the same for a commit that was rebased without a change of its patch. None
    for a commit with a binary file, of which a patch says nothing. One call of git."""
    told = b"".join(
        b"commit %s\n%s" % (patch.commit.encode(), patch.whole)
        for patch in changes.values()
        if patch.whole and not _BINARY.search(patch.whole)
    )
    if not told:
        return {}
    lines = git(top, "patch-id", "--stable", stdin=told).decode().splitlines()
    return {commit: patch for patch, _, commit in (line.partition(" ") for line in lines)}


def bodies(top: Path, commits: Sequence[str]) -> dict[str, str]:
    """What the messages of `commits` say below the subject. One call of git."""
    tokens = offline(top, *_MESSAGES, names=commits).split(b"\0") if commits else []
    wanted = set(commits)
    return {
        oid.decode(): text.decode("utf-8", "replace")
        for oid, text in pairwise(tokens)
        if _named(oid) in wanted
    }


def _named(oid: bytes) -> str:
    return oid.decode("ascii", "replace")


def _patch(commit: str, data: bytes) -> Patch:
    raw, _, whole = data.partition(b"\0\0")
    tokens = raw.split(b"\0")
    paths: list[str] = []
    place = 0
    while place < len(tokens):
        if entry := _RAW.fullmatch(tokens[place]):
            renamed = entry[1] in (b"R", b"C")
            paths += [os.fsdecode(token) for token in tokens[place + 1 + renamed : place + 2 + renamed]]
            if entry[1] == b"T":  # shown as a file that goes and one that comes
                paths += paths[-1:]
            place += 1 + renamed
        place += 1
    starts = [match.start() for match in _FILE.finditer(whole)]
    ends = [*starts[1:], len(whole)][: len(starts)]
    parts = [whole[start:end] for start, end in zip(starts, ends, strict=True)]
    return Patch(commit, tuple(zip(paths, parts, strict=False)) if len(paths) == len(parts) else (), whole)
