"""The files of the work tree that no model is to see: which there are, asked before each command.

It has to be known of every file, and little changes from command to command. So each folder is read once, and again
when its own time of change is another: entries come and go with it. What git tracks is read when the index has changed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import NamedTuple

from repoagent.agent.approval.withheld import Known
from repoagent.dataclass import dataclass
from repoagent.edit.verify.scope import holds_secrets
from repoagent.repo import WorkTree, git
from repoagent.repo.paths import is_ignored
from repoagent.repo.run import git_output

WhyNot = Callable[[str], str | None]
Signature = tuple[int, ...]

_TICK = 50_000_000  # nanoseconds: a change so soon after a look may leave the time as it was
_NEVER = frozenset({".git", ".repoagent"})


class _Folder(NamedTuple):
    """A folder as it was read."""

    signature: Signature | None
    withheld: tuple[str, ...]
    folders: tuple[str, ...]
    rules: tuple[str, ...] = ()  # its .gitignore


@dataclass
class Withheld:
    """The withheld files of `worktree`: those of which `why_not` gives a reason."""

    worktree: WorkTree
    why_not: WhyNot
    _folders: dict[str, _Folder] = field(default_factory=dict)
    _shallow: set[str] = field(default_factory=set)  # of these only what is right in them: ignored as a whole
    _rules: dict[str, Signature | None] = field(default_factory=dict)  # by path: what says what git ignores
    _tracked: tuple[Signature | None, dict[str, Known]] = (None, {})
    _tracked_in: set[str] = field(default_factory=set)  # the folders with tracked files in them

    def __call__(self) -> Mapping[str, Known]:
        """Their paths, a folder that is withheld as a whole by its own, and what git knows of each."""
        tracked = self._of_index()
        if not self._rules or any(self._signature(path) != known for path, known in self._rules.items()):
            self._folders.clear()
            self._rules = {path: self._settled(path) for path in self._rules_of_git()}
        self._read(self._changed() if self._folders else {""})
        here = [path for one in self._folders.values() for path in one.withheld]
        return {**dict.fromkeys(here, ""), **tracked}

    def _of_index(self) -> dict[str, Known]:
        signature = self._signature(os.environ.get("GIT_INDEX_FILE") or str(self.worktree.git_dir / "index"))
        if signature is None or signature != self._tracked[0]:
            names = os.fsdecode(git(self.worktree.top, "ls-files", "-z", "--cached")).split("\0")
            found = [path for path in names if path and self.why_not(path) is not None]
            self._tracked_in = _all_above(names)
            self._tracked = (
                signature,
                {path: "tracked" if holds_secrets(path) else "excluded" for path in found},
            )
        return self._tracked[1]

    def _changed(self) -> set[str]:
        """The folders that have to be read again; what is gone is forgotten."""
        found = set()
        for path, one in list(self._folders.items()):
            signature = self._signature(path)
            if signature is None:
                del self._folders[path]
            elif signature != one.signature:
                found.add(path)
        return found

    def _read(self, paths: Iterable[str]) -> None:
        """Read these folders, and those in them that are not known: level by level, for git is asked once for each."""
        paths = set(paths)
        while paths:
            inner: set[str] = set()
            for path in paths:
                self._folders[path] = read = self._read_one(path)
                inner.update(folder for folder in read.folders if folder not in self._folders)
                self._rules.update((rule, self._settled(rule)) for rule in read.rules)
            self._shallow -= inner
            # check-ignore goes through the whole index for each path: it is not asked of what holds tracked files
            self._shallow |= is_ignored(self.worktree, inner - self._tracked_in)
            paths = inner

    def _read_one(self, path: str) -> _Folder:
        signature = self._settled(path)
        below = f"{path}/" if path else ""
        withheld, folders = [], []
        try:
            with os.scandir(f"{self.worktree.top}/{path}") as entries:
                found = {
                    entry.name: entry.is_dir(follow_symlinks=False)
                    for entry in entries
                    if entry.name not in _NEVER or (path and entry.name == ".git")
                }
        except OSError:  # gone, or not for us: then not for a command either
            return _Folder((), (), ())
        shallow = (
            path in self._shallow or ".git" in found
        )  # another repository: git says nothing of what is in it
        for name, is_folder in found.items():
            if name == ".git":
                continue
            if self.why_not(below + name + ("/" if is_folder else "")) is not None:
                withheld.append(below + name)
            if is_folder and not shallow:
                folders.append(below + name)
        rules = (f"{below}.gitignore",) if ".gitignore" in found else ()
        return _Folder(signature, tuple(withheld), tuple(folders), rules)

    def _rules_of_git(self) -> list[str]:
        """The files beside the .gitignore that say what git ignores, there or not."""
        own = git_output(
            self.worktree.top, "config", "--type=path", "--get", "core.excludesFile", ok=(0, 1)
        ).stdout
        usual = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "git" / "ignore"
        return [
            str(self.worktree.common_dir / "info" / "exclude"),
            os.fsdecode(own.rstrip(b"\n")) or str(usual),
        ]

    def _settled(self, path: str) -> Signature | None:
        """The signature, one that nothing has where a change in this very moment could leave it as it is."""
        signature = self._signature(path)
        return () if signature and max(signature[:2]) > time.time_ns() - _TICK else signature

    def _signature(self, path: str) -> Signature | None:
        try:
            found = os.lstat(path if path.startswith("/") else f"{self.worktree.top}/{path}")
        except OSError:
            return None
        return found.st_ctime_ns, found.st_mtime_ns, found.st_ino


def _all_above(paths: Iterable[str]) -> set[str]:
    """The folders above `paths`, at any height."""
    found: set[str] = set()
    for folder in {path.rpartition("/")[0] for path in paths}:
        while folder and folder not in found:
            found.add(folder)
            folder = folder.rpartition("/")[0]
    return found
