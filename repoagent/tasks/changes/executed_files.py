"""Files of the work tree that git, an editor or another program executes or obeys by itself.

No command in a sandbox may write them: our own git and the editor of the user run outside of it. An edit of such a
file asks first, see `edit.guards.sensitive`.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Protocol

from repoagent.edit.guards.sensitive import (
    BY_HOOKS,
    LEFTHOOK,
    LIST,
    ON_OPENING,
    RUN_BY_GIT,
    listed,
    obeyed_by_git,
)
from repoagent.git.process import git
from repoagent.git.worktree import WorkTree
from repoagent.tasks.changes.detect import named
from repoagent.tasks.changes.submodules import checked_out, git_of

_GITLINK = b"160000 "


MOST = 100  # names of one folder


# Where no command in a sandbox may make what acts on opening. Folders, for a folder stands in for each meanwhile.
ON_OPENING_PATHS = (
    ".envrc", ".vscode", ".idea", ".zed", ".devcontainer",
    ".claude", ".codex", ".cursor", ".gemini", ".kiro", ".windsurf",
)  # fmt: skip


Signature = tuple[int, int, int]


class ExecutedWatch(Protocol):
    def __call__(
        self, repositories: Sequence[str] = (), *, tell: bool = True
    ) -> Sequence[tuple[str, bool]]: ...


def files_obeyed_by_git(worktree: WorkTree) -> tuple[Path, ...]:
    """Absolute paths, there or not. Two calls of git, and one for each submodule: git is asked in it what changed."""
    kept = [worktree.top / path for path in _names(worktree)]
    for path in checked_out(worktree):
        top = worktree.top / path
        kept += [top / name for name in _obeyed(WorkTree(top, top / ".git", top / ".git"), git_of(top))]
    return tuple(dict.fromkeys(kept))


def files_run_on_opening(worktree: WorkTree) -> tuple[Path, ...]:
    """What an editor, a shell or a coding agent obeys when a folder is opened, and the .git of other repositories: what
    there is of it at the top and in folders with tracked files; PLACES also where they are not there."""
    top = worktree.top
    paths = os.fsdecode(git(top, "ls-files", "-z", "--cached")).split("\0")
    found = dict.fromkeys(
        [*ON_OPENING_PATHS, *(entry.name for entry in os.scandir(top) if _ACTING.fullmatch(entry.name))]
    )
    below = dict.fromkeys(match[0] for path in paths if (match := _ACTING.match(path)))
    below.update(dict.fromkeys(path for path, _ in _repositories(top, _all_above(paths))))
    nearest = sorted((path for path in below if path not in found), key=lambda path: (path.count("/"), path))
    return tuple(top / path for path in (*found, *nearest[:MOST]))


def _acting() -> re.Pattern[str]:
    """From the beginning of a path to the end of the first name in it that acts on opening."""
    patterns = {pattern.rstrip("/") for why, patterns in LIST if why in ON_OPENING for pattern in patterns}
    either = "|".join(re.escape(pattern).replace(r"\*", "[^/]*") for pattern in sorted(patterns))
    return re.compile(rf"(?:[^/]*/)*?(?:{either})(?=/|\Z)")


_ACTING = _acting()


def _names(worktree: WorkTree) -> Iterator[str]:
    yield from _obeyed(worktree)
    for why, patterns in LIST:
        if why == BY_HOOKS:
            there = [name.rstrip("/") for name in patterns if os.path.lexists(worktree.top / name)]
            yield from LEFTHOOK if set(LEFTHOOK).intersection(there) else ()
            yield from there
    yield from (f"{path}/.git" for path in _submodules(worktree))


def _obeyed(worktree: WorkTree, options: Sequence[str] = ()) -> Iterator[str]:
    folder, obeyed = obeyed_by_git(worktree, options)
    if folder is not None:
        yield folder
    for path, why in obeyed.items():
        # a word of a command line that is no path there is most likely no path at all
        if not why.startswith(RUN_BY_GIT) or "/" in path or os.path.lexists(worktree.top / path):
            yield path


def _submodules(worktree: WorkTree) -> Iterator[str]:
    """Where git would find another repository, and run what that one's settings say: it need not be there yet."""
    for entry in git(worktree.top, "ls-files", "-z", "--stage").split(b"\0"):
        if entry.startswith(_GITLINK):
            yield os.fsdecode(entry.partition(b"\t")[2])


def tracked_folders(worktree: WorkTree) -> tuple[str, ...]:
    """The folders below the top that hold tracked files, with a slash at the end. One call of git."""
    return tuple(sorted(_all_above(os.fsdecode(git(worktree.top, "ls-files", "-z", "--cached")).split("\0"))))


def _all_above(paths: Iterable[str]) -> set[str]:
    """The folders above `paths`, at any height, with a slash at the end."""
    found: set[str] = set()
    for folder in {path.rpartition("/")[0] for path in paths}:
        while folder and f"{folder}/" not in found:
            found.add(f"{folder}/")
            folder = folder.rpartition("/")[0]
    return found


def watch_executed(top: Path, say: Callable[[str], None], folders: Sequence[str] = ()) -> ExecutedWatch:
    """What looks whether a file at its usual place, that an editor, a hook or another program obeys by itself, was made
    or changed since it last looked: `say` gets a sentence for each. Git ignores many of these, so that nothing else
    would show them. So it is with a repository of its own in one of `folders`, or in those that the look is given:
    git, and a prompt of the shell that asks it, would obey its settings there. A look returns those of them that act
    when a folder is opened, each with whether it is new."""
    known = dict(_usual(top))
    known.update(_repositories(top, folders))

    def look(repositories: Sequence[str] = (), *, tell: bool = True) -> Sequence[tuple[str, bool]]:
        acting = []
        for path, now in (*_usual(top), *_repositories(top, (*folders, *repositories))):
            if known.get(path) != now:
                why = listed(path) or "is obeyed by git in that folder"
                if why in ON_OPENING or path.endswith("/.git"):
                    acting.append((path, path not in known))
                known[path] = now
                if tell:
                    say(
                        f"warning: {named(path)} was written during the run, and {why}; check it before you use "
                        "it"
                    )
        return acting

    return look


def _repositories(top: Path, folders: Iterable[str]) -> Iterator[tuple[str, Signature]]:
    """The .git that stands in one of these folders: of a folder only which one it is."""
    for folder in folders:
        try:
            found = os.lstat(f"{top}/{folder}.git")  # joined as text: there may be 10,000
        except OSError:
            continue
        is_folder = stat.S_ISDIR(found.st_mode)
        yield f"{folder}.git", (0 if is_folder else found.st_ctime_ns, 0, found.st_ino)


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
