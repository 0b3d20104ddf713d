"""The files of a work tree that hold a name: `git grep` over the tracked ones, and those that git does not know yet."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import IO, NamedTuple

from repoagent.repo.run import OFFLINE, GitError, git_stream

LARGEST = 4 << 20  # bytes of paths that git prints
UNTRACKED = 1_000  # files that git does not know and that are read
_PLAIN = re.compile(r"\w+", re.ASCII)


class Holding(NamedTuple):
    """Paths in order; those of `untracked` may hold a name or not. `cut` says that there are more."""

    tracked: list[str]
    untracked: list[str]
    cut: bool = False


def files_with(top: Path, names: Collection[str]) -> Holding:
    """The files that have one of `names` as a word, as they are in the work tree; ignored files are left out."""
    found = ["grep", "-a", "-l", "-z", "--full-name", "--no-color", "--no-recurse-submodules"]
    if all(map(_PLAIN.fullmatch, names)):  # one pattern: five times as fast as one for each name
        how: list[str | bytes] = [*found, "-w", "-E", "-e", "|".join(sorted(names)), "--"]
    else:  # git's idea of a word is that of ASCII
        how = [*found, "-F", *(part for name in sorted(names) for part in ("-e", os.fsencode(name))), "--"]
    with git_stream(top, "ls-files", "-z", "--others", "--exclude-standard") as others:
        tracked, cut = _grepped(top, how)
        untracked, more = _paths(others)
    cut = cut or more or len(untracked) > UNTRACKED
    return Holding(tracked, sorted(untracked)[:UNTRACKED], cut)


def _grepped(top: Path, args: list[str | bytes]) -> tuple[list[str], bool]:
    try:
        with git_stream(top, *args, env=OFFLINE) as stream:
            found, cut = _paths(stream)
    except GitError as error:
        if error.returncode != 1:  # no file has it
            raise
        return [], False
    return found, cut


def _paths(stream: IO[bytes]) -> tuple[list[str], bool]:
    data = stream.read(LARGEST)
    cut = len(data) == LARGEST
    return [os.fsdecode(path) for path in data.split(b"\0")[:-1]], cut
