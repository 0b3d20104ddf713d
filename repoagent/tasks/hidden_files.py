"""The files of the work tree that are hidden from models: found before each command, and hidden from git's output.

Each folder is read once, and again when its modification time changes; the tracked files when the index changes. Git
is told, in the attributes file for all repositories, to treat hidden files as binary, so that patches of old commits
do not show them either; a `.gitattributes` that says otherwise wins.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import NamedTuple

from repoagent.agent.approvals.read_only_commands import Known
from repoagent.dataclass import dataclass
from repoagent.edit.guards.scope import HARMLESS_NAMES, SECRET_NAMES, SECRET_PATHS, holds_secrets
from repoagent.git.files import is_ignored
from repoagent.git.process import git, git_output
from repoagent.git.worktree import WorkTree
from repoagent.storage.atomic import read_regular, write_whole

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
class HiddenFiles:
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


def unshown(
    worktree: WorkTree, file: Path, excluded: Iterable[str], env: Mapping[str, str]
) -> dict[str, str]:
    """The variables for git, with which it obeys `file`, which is written: the attributes of the user, and that secrets
    and what is `excluded` are binary. `env` is what they are added to."""
    lines = [_users_own(worktree)]
    lines += [f"{_any_case(name)} -diff" for name in SECRET_NAMES]
    lines += [f"**/{_any_case(path)} -diff" for path in SECRET_PATHS]
    lines += [f"{name} !diff" for name in HARMLESS_NAMES]
    lines += [f"{_quoted(path)} -diff" for path in excluded]
    write_whole(file, "\n".join([*lines, ""]).encode("utf-8", "surrogateescape"))
    number = int(env.get("GIT_CONFIG_COUNT", "0"))
    return {
        f"GIT_CONFIG_KEY_{number}": "core.attributesFile",
        f"GIT_CONFIG_VALUE_{number}": str(file),
        "GIT_CONFIG_COUNT": str(number + 1),
    }


def are_blobs(worktree: WorkTree, names: Sequence[str]) -> bool:
    """Whether one of `names` is that of a blob, which git would show whatever file it is of. One call of git."""
    if any("\n" in name for name in names):
        return True
    asked = "".join(f"{name}^{{}}\n" for name in names).encode("utf-8", "surrogateescape")
    check = "--batch-check=%(objecttype)"
    return b"blob" in git_output(worktree.top, "cat-file", check, stdin=asked).stdout.split(b"\n")


def _users_own(worktree: WorkTree) -> str:
    named = git_output(
        worktree.top, "config", "--type=path", "--get", "core.attributesFile", ok=(0, 1)
    ).stdout
    usual = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "git" / "attributes"
    data = read_regular(Path(os.fsdecode(named.rstrip(b"\n"))) if named else usual)
    return (data or b"").decode("utf-8", "surrogateescape")


def _any_case(pattern: str) -> str:
    """A pattern that matches capitals too: where case counts for git, it does not for a secret."""
    return "".join(f"[{char}{char.upper()}]" if char.islower() else char for char in pattern)


def _quoted(path: str) -> str:
    """A path from the top as a pattern of one file."""
    plain = "".join(f"\\{char}" if char in "\\*?[" else char for char in path)
    text = "".join(f"\\{char}" if char in '\\"' else char for char in f"/{plain}")
    return '"' + text.replace("\t", "\\t").replace("\n", "\\n") + '"'
