"""Where git looks for hooks here, whose folder that is, and what stands in it."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Literal

from repoagent.dataclass import dataclass
from repoagent.repo.run import git, git_output
from repoagent.repo.worktree import WorkTree
from repoagent.review.hooks.managers import Manager, manager_of
from repoagent.review.hooks.script import BEFORE, hook_of, is_unchanged

HOOKS = ("pre-commit", "commit-msg", "pre-push")
_LARGEST = 1_000_000  # bytes of a hook that are looked at

State = Literal["none", "ours", "changed", "legacy", "foreign", "managed", "odd"]

Whose = Literal["repository", "team", "everywhere"]


@dataclass(frozen=True)
class Found:
    """A hook: `none`, `ours`, ours but `changed` by hand, ours as `legacy` of another program's hook, `foreign`,
    `managed` by a program, or something `odd` that is no file. `before` says whether ours has one to run before it,
    `runs` whether it is executable: git passes over one that is not."""

    name: str
    path: Path
    state: State
    manager: Manager | None = None
    before: bool = False
    runs: bool = True


@dataclass(frozen=True)
class Hooks:
    """`folder` is where the hooks are. `whose`: this `repository`'s own, files of the `team` that git tracks, or
    `everywhere`, outside of the repository, for others too. `setting` is core.hooksPath, "" where it is not set.
    `off` says why git runs no hooks at all, "" where it does."""

    folder: Path
    whose: Whose
    setting: str
    found: tuple[Found, ...]
    off: str = ""


def look(worktree: WorkTree, *, bare: bool = False) -> Hooks:
    """What there is; in a bare repository `worktree.top` is its git directory."""
    given = git_output(worktree.top, "config", "-z", "--type=path", "--get", "core.hooksPath", ok=(0, 1))
    value = os.fsdecode(given.stdout.removesuffix(b"\0"))
    folder = worktree.common_dir / "hooks" if not value else worktree.top / value
    folder = Path(os.path.realpath(folder))
    whose: Whose = "repository"
    if not bare and _is_tracked(worktree, folder):
        whose = "team"
    elif not _within(folder, worktree.common_dir) and (bare or not _within(folder, worktree.top)):
        whose = "everywhere"
    off = ""
    if given.returncode == 0 and not value:
        off = "core.hooksPath is set to nothing"
    elif os.path.lexists(folder) and not folder.is_dir():
        off = f"{folder} is no folder"
    return Hooks(folder, whose, value, tuple(_look_at(folder, name) for name in HOOKS), off)


def _look_at(folder: Path, name: str) -> Found:
    path = folder / name
    if _is_odd(path):
        return Found(name, path, "odd")
    content = _read(path)
    before = os.path.lexists(folder / f"{name}{BEFORE}")
    runs = content is None or os.access(path, os.X_OK)
    if content is not None and hook_of(_text(content)):
        state: State = "ours" if is_unchanged(_text(content)) else "changed"
        return Found(name, path, state, before=before, runs=runs)
    manager = manager_of(folder, content or b"")
    legacy = folder / f"{name}.legacy"  # where pre-commit puts what it found
    old = _read(legacy)
    if old is not None and hook_of(_text(old)) == name and is_unchanged(_text(old)):
        return Found(name, legacy, "legacy", manager, before)
    if manager is not None:
        return Found(name, path, "managed", manager, before)
    return Found(name, path, "none" if content is None else "foreign", None, before, runs)


def _is_odd(path: Path) -> bool:
    """A folder, a pipe, a link that leads to itself: nothing that could be kept and run before a hook of ours. A link
    to what is not there may be meant."""
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return False
    except OSError as error:
        return error.errno == errno.ELOOP


def _read(path: Path) -> bytes | None:
    """What a hook says, b"" when it can't be read; None when there is none."""
    if not os.path.lexists(path):
        return None
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST)
    except OSError:
        return b""


def _text(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape")


def _within(path: Path, folder: Path) -> bool:
    return path.is_relative_to(os.path.realpath(folder))


def _is_tracked(worktree: WorkTree, folder: Path) -> bool:
    """Whether git tracks something in `folder`, which may be outside."""
    if not _within(folder, worktree.top) or folder == worktree.top:
        return False
    inside = folder.relative_to(os.path.realpath(worktree.top))
    return bool(git(worktree.top, "ls-files", "-z", "--", str(inside)))
