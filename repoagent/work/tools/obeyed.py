"""What of the work tree git runs or obeys, by this repository's own settings: no command in a sandbox may write it.

Our own git works outside of every sandbox, after each command and at the commit: it would run what a command has left
there for it. What an edit does to such files is asked about, see `edit.sensitive`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from repoagent.edit.verify.sensitive import BY_HOOKS, LEFTHOOK, LIST, RUN_BY_GIT, listed, obeyed_by_git
from repoagent.repo import WorkTree, git

_GITLINK = b"160000 "
MOST = 100  # names of one folder

Signature = tuple[int, int, int]


def kept_for_git(worktree: WorkTree) -> tuple[Path, ...]:
    """Absolute paths, there or not. Two calls of git."""
    return tuple(worktree.top / path for path in dict.fromkeys(_names(worktree)))


def _names(worktree: WorkTree) -> Iterator[str]:
    folder, obeyed = obeyed_by_git(worktree)
    if folder is not None:
        yield folder
    for path, why in obeyed.items():
        # a word of a command line that is no path there is most likely no path at all
        if not why.startswith(RUN_BY_GIT) or "/" in path or os.path.lexists(worktree.top / path):
            yield path
    for why, patterns in LIST:
        if why == BY_HOOKS:
            there = [name.rstrip("/") for name in patterns if os.path.lexists(worktree.top / name)]
            yield from LEFTHOOK if set(LEFTHOOK).intersection(there) else ()
            yield from there
    yield from (f"{path}/.git" for path in _submodules(worktree))


def _submodules(worktree: WorkTree) -> Iterator[str]:
    """Where git would find another repository, and run what that one's settings say: it need not be there yet."""
    for entry in git(worktree.top, "ls-files", "-z", "--stage").split(b"\0"):
        if entry.startswith(_GITLINK):
            yield os.fsdecode(entry.partition(b"\t")[2])


def watch_usual(top: Path, say: Callable[[str], None]) -> Callable[[], None]:
    """What looks whether a file at its usual place, that an editor, a hook or another program obeys by itself, was made
    or changed since it last looked: `say` gets a sentence for each. Git ignores many of these, so that nothing else
    would show them."""
    known = dict(_usual(top))

    def look() -> None:
        for path, now in _usual(top):
            if known.get(path) != now:
                known[path] = now
                say(f"warning: {path} was written meanwhile, and {listed(path)}: look at it before it is")

    return look


def _usual(top: Path) -> Iterator[tuple[str, Signature]]:
    """The files of LIST that stand where they usually are; of a folder those right in it."""
    for _, patterns in LIST:
        for name in patterns:
            for path in _names_in(top, name) if name.endswith("/") else (name,):
                try:
                    found = os.lstat(top / path)
                except OSError:
                    continue
                if not stat.S_ISDIR(found.st_mode):
                    yield path, (found.st_ctime_ns, found.st_size, found.st_ino)


def _names_in(top: Path, folder: str) -> list[str]:
    try:
        return sorted(folder + entry.name for entry in islice((top / folder).iterdir(), MOST))
    except OSError:
        return []
