"""The error for a missing file, with suggestions of similar paths in the repository."""

from __future__ import annotations

import os
import shlex
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from repoagent.errors import RepoagentError, UsageError
from repoagent.git.process import git
from repoagent.git.worktree import open_worktree

_SHOWN = 3
_NAMES = 100  # whose folders are compared, too


class NoSuchFile(UsageError):
    """A file is missing. The message names similar files and a remedy.

    `path` is the missing file, `reason` a clause about it, and `near` existing files, most similar first. All paths are
    absolute.
    """

    def __init__(
        self,
        path: Path,
        top: Path,
        *,
        reason: str = "",
        remedy: str = "",
        near: Sequence[Path] = (),
    ) -> None:
        self.path, self.reason, self.remedy, self.near = path, reason, remedy, tuple(near)
        super().__init__(
            self.worded(lambda path: os.path.relpath(path, top) if path.is_relative_to(top) else str(path))
        )

    def worded(self, name: Callable[[Path], str]) -> str:
        """The message, with each path formatted by `name`."""
        sentence = f"no such file: {name(self.path)}{self.reason and f', {self.reason}'}"
        *others, last = [shlex.quote(name(path)) for path in self.near] or [""]
        if last:
            sentence += f"; did you mean {', '.join(others)}{' or ' if others else ''}{last}?"
        if self.remedy:
            sentence += f" ({self.remedy})" if last else f"; {self.remedy}"
        return sentence

    def details(self) -> dict[str, object]:
        return {"file": str(self.path), "near": [str(path) for path in self.near]}


def no_such_file(name: str | Path, folder: Path, *, reason: str = "", remedy: str = "") -> NoSuchFile:
    """The error for the missing file `name`, relative to `folder`. Lists the tracked and untracked files, without
    ignored ones, if there is a repository."""
    path = Path(os.path.normpath(Path(os.path.realpath(folder), name)))
    try:
        top = open_worktree(folder).top
        listing = git(top, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    except (RepoagentError, OSError):
        return NoSuchFile(path, folder, reason=reason, remedy=remedy)
    if not path.is_relative_to(top):
        return NoSuchFile(path, top, reason=reason, remedy=remedy)
    paths = list(dict.fromkeys(os.fsdecode(entry) for entry in listing.split(b"\0") if entry))
    missing = os.fspath(path.relative_to(top))
    if missing in paths:
        restore = f"`git restore {shlex.quote(os.path.relpath(path))}` restores it{remedy and f'; {remedy}'}"
        return NoSuchFile(path, top, reason="which git still tracks", remedy=restore)
    written = os.path.relpath(path, Path.cwd())
    if written.startswith(".."):
        written = missing
    # the requested path from the top, else the only path that ends in it
    matches = [path for path in paths if path.endswith(f"/{written}") or path == written]
    match = matches[0] if len(matches) == 1 else written if written in matches else None
    near = [
        top / path for path in ([match] if match else similar(written, paths)) if os.path.lexists(top / path)
    ]
    return NoSuchFile(path, top, reason=reason, remedy=remedy, near=near)


def similar(written: str, paths: Sequence[str]) -> list[str]:
    """Up to three of `paths` of which `written` may be a misspelling, most similar first.

    The name may differ in one of every three letters (added, missing, replaced or swapped), in case or in suffix; so
    may the folder, which may differ more if the name is right.
    """
    from rapidfuzz import process
    from rapidfuzz.distance import OSA

    folder, _, name = written.casefold().rpartition("/")
    stem = name.rpartition(".")[0] or name
    named: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        named[path.rpartition("/")[2].casefold()].append(path)
    names = list(named)
    cutoff = max(1, min(len(stem) // 3, 3)) if len(stem) > 1 else 0
    nearest = process.extract(name, names, scorer=OSA.distance, score_cutoff=cutoff, limit=_NAMES)
    distances = {near: int(distance) for near, distance, _ in nearest}
    distances.update(
        {other: 1 for other in names if (other.rpartition(".")[0] or other) == stem and other != name}
    )
    ranked = []
    for near, distance in distances.items():
        for path in named[near]:
            other = path.rpartition("/")[0].casefold()
            if not folder or f"/{other}/".endswith(f"/{folder}/"):
                away = 0
            else:
                away = 1 if f"/{folder}/" in f"/{other}/" else OSA.distance(folder, other)
            if not distance or away <= max(2, len(folder) // 3):
                ranked.append((2 * distance + away, len(path), path))
    ranked.sort()
    return [path for cost, _, path in ranked[:_SHOWN] if cost <= ranked[0][0] + (ranked[0][0] > 0)]
