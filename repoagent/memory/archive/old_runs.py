"""What past runs of tasks have left, as far as it is too old to be kept: the words go, `run.json` says in a line each
what was asked and how it ended. A run that is alive is left alone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.errors import Busy
from repoagent.store import Layout, locked
from repoagent.store.folders import failed
from repoagent.store.locks import held_by

_WORDS = ("output", "inbox", "checkpoint.md", "plan.md")
_OURS = (
    "run-",
    "chat-",
)  # how the names begin that the program gave; a conversation that a person named stays
_GONE = ".gone-"  # a folder that was being removed when a kill came


@dataclass(frozen=True)
class OldRun:
    """`paths` are what is to go: files, and folders with all that is in them. `lock` is that of the run, None where it
    has no home."""

    paths: tuple[Path, ...]
    bytes: int
    lock: Path | None = None


def old_runs(layout: Layout, cutoff: float) -> Iterator[OldRun]:
    """The past runs in which nothing has changed since `cutoff` (seconds since the epoch), and that have left words."""
    homes = {path.name: path for path in _inside(layout.runs) if path.is_dir() and not path.is_symlink()}
    for name, home in homes.items():
        if name.startswith(_GONE):
            yield OldRun((home,), _size(home))
            continue
        words = [home / each for each in _WORDS]
        if name.casefold().startswith(_OURS):
            words += _conversation(layout.conversations / f"{name}.md")
        found = _there(words)
        # the folder's own time changes with run.json, which is replaced at each step and at the end
        if found and _is_old([home, *found], cutoff) and held_by(home / "lock") is None:
            yield OldRun(tuple(found), sum(map(_size, found)), home / "lock")
    for path in _inside(layout.conversations):
        if path.suffix == ".md" and path.name.casefold().startswith(_OURS) and path.stem not in homes:
            found = _there(_conversation(path))
            if _is_old(found, cutoff):
                yield OldRun(tuple(found), sum(map(_size, found)))


def forget_run(run: OldRun) -> bool:
    """Remove what is to go of it; False when it is alive by now. Raises Refused."""
    try:
        if run.lock is None:
            _remove(run.paths)
        else:
            with locked(run.lock, timeout=0.0, what="the run"):
                _remove(run.paths)
    except Busy:
        return False
    return True


def _inside(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() and not folder.is_symlink() else []


def _conversation(path: Path) -> list[Path]:
    return [path, path.with_name(f"{path.name}.lock")]


def _there(paths: Sequence[Path]) -> list[Path]:
    return [path for path in paths if path.is_symlink() or path.exists()]


def _is_old(paths: Sequence[Path], cutoff: float) -> bool:
    return all(path.lstat().st_mtime < cutoff for path in paths)


def _size(path: Path) -> int:
    if path.is_dir() and not path.is_symlink():
        return sum(map(_size, path.iterdir()))
    return path.lstat().st_size


def _remove(paths: Sequence[Path]) -> None:
    for path in paths:
        try:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise failed("remove", path, error) from error
