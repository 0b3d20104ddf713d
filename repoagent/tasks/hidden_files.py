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
from repoagent.edit.guards.off_limits import HARMLESS_NAMES, SECRET_NAMES, SECRET_PATHS, holds_secrets
from repoagent.git.files import is_ignored
from repoagent.git.process import git, git_output
from repoagent.git.worktree import WorkTree
from repoagent.storage.atomic import read_regular, write_whole

WhyNot = Callable[[str], str | None]
Signature = tuple[int, ...]

_TICK = 50_000_000  # nanoseconds: a change this soon may leave the modification time as it was
_NEVER = frozenset({".git", ".repoagent"})


class _Folder(NamedTuple):
    """A folder as it was read."""

    signature: Signature | None
    hidden: tuple[str, ...]
    folders: tuple[str, ...]
    rules: tuple[str, ...] = ()  # its .gitignore


@dataclass
class HiddenFiles:
    """The files of `worktree` for which `why_not` gives a reason to hide them."""

    worktree: WorkTree
    why_not: WhyNot
    _folders: dict[str, _Folder] = field(default_factory=dict)
    _shallow: set[str] = field(default_factory=set)  # ignored as a whole: their folders are not read
    _rules: dict[str, Signature | None] = field(
        default_factory=dict
    )  # the files with rules for what git ignores
    _tracked: tuple[Signature | None, dict[str, Known]] = (None, {})
    _tracked_in: set[str] = field(default_factory=set)  # the folders with tracked files in them

    def __call__(self) -> Mapping[str, Known]:
        """Their paths (of a folder that is hidden as a whole its own), and what git knows of each."""
        tracked = self._of_index()
        if not self._rules or any(self._signature(path) != known for path, known in self._rules.items()):
            self._folders.clear()
            self._rules = {path: self._settled(path) for path in self._rules_of_git()}
        self._read(self._changed() if self._folders else {""})
        hidden = [path for folder in self._folders.values() for path in folder.hidden]
        return {**dict.fromkeys(hidden, ""), **tracked}

    def _of_index(self) -> dict[str, Known]:
        signature = self._signature(os.environ.get("GIT_INDEX_FILE") or str(self.worktree.git_dir / "index"))
        if signature is None or signature != self._tracked[0]:
            names = os.fsdecode(git(self.worktree.top, "ls-files", "-z", "--cached")).split("\0")
            hidden = [path for path in names if path and self.why_not(path) is not None]
            known: dict[str, Known] = {
                path: "tracked" if holds_secrets(path) else "excluded" for path in hidden
            }
            self._tracked_in, self._tracked = _all_above(names), (signature, known)
        return self._tracked[1]

    def _changed(self) -> set[str]:
        """The folders that must be read again; those that are gone are forgotten."""
        changed = set()
        for path, folder in list(self._folders.items()):
            signature = self._signature(path)
            if signature is None:
                del self._folders[path]
            elif signature != folder.signature:
                changed.add(path)
        return changed

    def _read(self, paths: Iterable[str]) -> None:
        """Read these folders, and unknown ones in them, level by level: git is called once for each level."""
        paths = set(paths)
        while paths:
            inner: set[str] = set()
            for path in paths:
                self._folders[path] = read = self._read_folder(path)
                inner.update(folder for folder in read.folders if folder not in self._folders)
                self._rules.update((rule, self._settled(rule)) for rule in read.rules)
            self._shallow -= inner
            # check-ignore reads the whole index for each path: it is not called for folders with tracked files
            self._shallow |= is_ignored(self.worktree, inner - self._tracked_in)
            paths = inner

    def _read_folder(self, path: str) -> _Folder:
        signature = self._settled(path)
        below = f"{path}/" if path else ""
        hidden, folders = [], []
        try:
            with os.scandir(f"{self.worktree.top}/{path}") as entries:
                is_folder = {
                    entry.name: entry.is_dir(follow_symlinks=False)
                    for entry in entries
                    if entry.name not in _NEVER or (path and entry.name == ".git")
                }
        except OSError:  # gone, or not readable: a command can't read it either
            return _Folder((), (), ())
        # in another repository git lists no files
        shallow = path in self._shallow or ".git" in is_folder
        for name, opened in is_folder.items():
            if name == ".git":
                continue
            if self.why_not(below + name + ("/" if opened else "")) is not None:
                hidden.append(below + name)
            if opened and not shallow:
                folders.append(below + name)
        rules = (f"{below}.gitignore",) if ".gitignore" in is_folder else ()
        return _Folder(signature, tuple(hidden), tuple(folders), rules)

    def _rules_of_git(self) -> list[str]:
        """The files with rules for what git ignores besides .gitignore, whether they exist or not."""
        configured = git_output(
            self.worktree.top, "config", "--type=path", "--get", "core.excludesFile", ok=(0, 1)
        ).stdout
        default = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "git" / "ignore"
        return [
            str(self.worktree.common_dir / "info" / "exclude"),
            os.fsdecode(configured.rstrip(b"\n")) or str(default),
        ]

    def _settled(self, path: str) -> Signature | None:
        """The signature, or an impossible one while another change could leave it as it is."""
        signature = self._signature(path)
        return () if signature and max(signature[:2]) > time.time_ns() - _TICK else signature

    def _signature(self, path: str) -> Signature | None:
        try:
            status = os.lstat(path if path.startswith("/") else f"{self.worktree.top}/{path}")
        except OSError:
            return None
        return status.st_ctime_ns, status.st_mtime_ns, status.st_ino


def _all_above(paths: Iterable[str]) -> set[str]:
    """The folders above `paths`, at any height."""
    folders: set[str] = set()
    for folder in {path.rpartition("/")[0] for path in paths}:
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    return folders


def hiding_variables(
    worktree: WorkTree, file: Path, excluded: Iterable[str], env: Mapping[str, str]
) -> dict[str, str]:
    """Write `file` with the attributes of the user, with secrets and what is `excluded` as binary. Returns the
    variables, to be added to `env`, with which git uses it."""
    lines = [_user_attributes(worktree)]
    lines += [f"{_case_insensitive(name)} -diff" for name in SECRET_NAMES]
    lines += [f"**/{_case_insensitive(path)} -diff" for path in SECRET_PATHS]
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
    """Whether one of `names` is that of a blob, which git would show whatever file it is of."""
    if any("\n" in name for name in names):
        return True
    queries = "".join(f"{name}^{{}}\n" for name in names).encode("utf-8", "surrogateescape")
    check = "--batch-check=%(objecttype)"
    return b"blob" in git_output(worktree.top, "cat-file", check, stdin=queries).stdout.split(b"\n")


def _user_attributes(worktree: WorkTree) -> str:
    command = ("config", "--type=path", "--get", "core.attributesFile")
    configured = git_output(worktree.top, *command, ok=(0, 1)).stdout
    default = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "git" / "attributes"
    data = read_regular(Path(os.fsdecode(configured.rstrip(b"\n"))) if configured else default)
    return (data or b"").decode("utf-8", "surrogateescape")


def _case_insensitive(pattern: str) -> str:
    """The pattern for any case."""
    return "".join(f"[{char}{char.upper()}]" if char.islower() else char for char in pattern)


def _quoted(path: str) -> str:
    """A path from the top as a pattern of one file."""
    plain = "".join(f"\\{char}" if char in "\\*?[" else char for char in path)
    text = "".join(f"\\{char}" if char in '\\"' else char for char in f"/{plain}")
    return '"' + text.replace("\t", "\\t").replace("\n", "\\n") + '"'
