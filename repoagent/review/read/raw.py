"""Which files differ, in git's raw format."""

from __future__ import annotations

import os
from collections.abc import Iterator

from repoagent.review.change import ChangedFile, Status

SUBMODULE = "160000"
_STATUS: dict[str, Status] = {
    "A": "added",
    "M": "modified",
    "D": "deleted",
    "R": "renamed",
    "C": "copied",
    "T": "type changed",
}
UNMERGED = "U"


def parse_raw(out: bytes) -> tuple[list[ChangedFile], list[str]]:
    """The files that `git diff --raw -z` printed, in its order, and the paths of those that are unmerged."""
    files: list[ChangedFile] = []
    unmerged: list[str] = []
    for old_mode, new_mode, old, new, letter, paths in _entries(out):
        if letter == UNMERGED:
            unmerged.append(paths[0])
        elif letter in _STATUS:
            files.append(
                ChangedFile(
                    paths[-1], _STATUS[letter], paths[0], _some(old), _some(new), _some(old_mode), _some(new_mode)
                )
            )  # fmt: skip
    there = {file.path for file in files}
    # `git diff HEAD` names an unmerged file twice: once as such, and once with what stands in the work tree
    return [file for file in files if file.path not in set(unmerged)], [
        path for path in unmerged if path in there or path
    ]


def _entries(out: bytes) -> Iterator[tuple[str, str, str, str, str, tuple[str, ...]]]:
    """Modes, blobs, the letter and the paths of each entry: one path, or for a rename and a copy two."""
    fields = iter(os.fsdecode(out).split("\0"))
    for field in fields:
        if not field.startswith(":"):
            continue
        old_mode, new_mode, old, new, status = field[1:].split(" ")
        letter = status[:1]
        paths = (next(fields), next(fields)) if letter in "RC" else (next(fields),)
        yield old_mode, new_mode, old, new, letter, paths


def _some(text: str) -> str:
    """ "" for the zeros that stand for nothing."""
    return text if text.strip("0") else ""
