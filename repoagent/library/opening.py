"""How a program's repository is found, and what may not happen to the program on the way."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock

from repoagent.config import Settings, load
from repoagent.errors import UsageError
from repoagent.repo import WorkTree, layout, open_worktree, relative
from repoagent.store.report import send_to

_VARIABLES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR")
_opening = Lock()
log = logging.getLogger("repoagent")
log.addHandler(logging.NullHandler())


def find_worktree(path: str | os.PathLike[str]) -> WorkTree:
    """The work tree of `path`; the environment of the process is left as it is.

    Raises UsageError as `open_worktree`, and for a repository that is found by the environment or by `core.worktree`
    alone: git has to be told of such a one by variables, and those would hold for every other repository of the
    process too.
    """
    start = Path(path).absolute()
    with _opening:
        before = {name: os.environ.get(name) for name in _VARIABLES}
        try:
            worktree = open_worktree(start)
            changed = [name for name in _VARIABLES if os.environ.get(name) != before[name]]
        finally:
            for name, value in before.items():
                if os.environ.get(name) != value:
                    _put(name, value)
    if before["GIT_DIR"] or before["GIT_WORK_TREE"]:
        _refuse_stranger(worktree, start, before)
    elif changed:
        raise UsageError(
            f"git finds {worktree.git_dir} from {worktree.top} only where GIT_DIR and GIT_WORK_TREE say so: set both "
            "in the environment of the process before"
        )
    send_to(log.warning)
    return worktree


def _put(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def _refuse_stranger(worktree: WorkTree, start: Path, given: Mapping[str, str | None]) -> None:
    """With variables that name one repository, every path leads to it: one elsewhere was not meant."""
    relative_ones = [name for name, value in given.items() if value and not Path(value).is_absolute()]
    if relative_ones:
        raise UsageError(
            f"{', '.join(relative_ones)} in the environment is relative, which means another folder at each place: "
            "make it absolute, or unset it"
        )
    if given["GIT_DIR"] and not given["GIT_WORK_TREE"]:
        raise UsageError(
            "GIT_DIR is set in the environment without GIT_WORK_TREE, so git takes any folder for the work tree: set "
            "both, or unset it"
        )
    if not Path(os.path.realpath(start)).is_relative_to(worktree.top):
        raise UsageError(
            f"GIT_DIR and GIT_WORK_TREE in the environment name {worktree.top}, and {start} is not in it: unset "
            "them, or open that one"
        )


def load_settings(worktree: WorkTree, given: Mapping[str, object]) -> Settings:
    """The settings of the repository and of the person, and over them what the program gives by key. Raises UsageError
    for a key that is no option, and a value that it does not take."""
    from repoagent.config import find_or_refuse

    for key, value in given.items():
        find_or_refuse(key)
        if isinstance(value, str) and "\0" in value:
            raise UsageError(f"{key} can't be {value!r}: no command or name holds a NUL")
    return load(layout(worktree), cwd=worktree.top, flags=given)


def from_top(worktree: WorkTree, path: str | os.PathLike[str]) -> str:
    """A path of the program, absolute or from the top, as the path from the top. Raises UsageError for one outside of
    the work tree."""
    return relative(worktree, os.fspath(path), worktree.top)


def several(files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str]:
    """One file, or some, as a list of texts."""
    if isinstance(files, (str, os.PathLike)):
        return [os.fspath(files)]
    return [os.fspath(file) for file in files]
