"""The files of the work tree that are hidden from models: listed before each command, and hidden from git's output.

The attributes file for all repositories makes git treat hidden files as binary, so that patches of old commits do not
show them either; a `.gitattributes` file of the repository takes precedence.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from repoagent.agent.approvals.read_only_commands import Known
from repoagent.dataclass import dataclass
from repoagent.edit.guards.off_limits import HARMLESS_NAMES, SECRET_NAMES, SECRET_PATHS, holds_secrets
from repoagent.git.process import git_output
from repoagent.git.worktree import WorkTree
from repoagent.storage.atomic import read_regular, write_whole
from repoagent.tasks.changes.executed_files import folders_above, list_files
from repoagent.tasks.changes.snapshot import submodule_paths

WhyNot = Callable[[str], str | None]


@dataclass
class HiddenFiles:
    """The files of `worktree` for which `why_not` gives a reason to hide them."""

    worktree: WorkTree
    why_not: WhyNot
    _index: tuple[tuple[int, ...], dict[str, Known], list[str]] = ((), {}, [])

    def __call__(self) -> Mapping[str, Known]:
        """Their paths; "tracked" for a tracked secret, "excluded" for another tracked file, "" for the rest. A folder
        that is hidden as a whole counts as one path.

        Folders that git ignores as a whole, and other repositories, are read one level deep.
        """
        tracked, submodules = self._tracked()
        untracked = list_files(self.worktree, "--others", "--exclude-standard")
        ignored = list_files(self.worktree, "--others", "--ignored", "--exclude-standard", "--directory")
        paths = {*untracked, *ignored, *submodules}
        for folder in [path for path in paths if path.endswith("/")]:
            with suppress(OSError), os.scandir(f"{self.worktree.top}/{folder}") as entries:
                slash = {True: "/", False: ""}
                paths |= {
                    f"{folder}{entry.name}{slash[entry.is_dir(follow_symlinks=False)]}" for entry in entries
                }
        paths |= folders_above(paths)
        hidden = [path.rstrip("/") for path in paths if self._hides(path)]
        return {**dict.fromkeys(hidden, ""), **tracked}

    def _tracked(self) -> tuple[dict[str, Known], list[str]]:
        """The hidden tracked files and the hidden folders above tracked files, and the submodules; read again if the
        index changes."""
        signature: tuple[int, ...] = ()
        with suppress(OSError):
            status = os.lstat(os.environ.get("GIT_INDEX_FILE") or self.worktree.git_dir / "index")
            signature = (status.st_ctime_ns, status.st_mtime_ns, status.st_ino)
        if not signature or signature != self._index[0]:
            paths = list_files(self.worktree, "--cached")
            known: dict[str, Known] = {
                path: "tracked" if holds_secrets(path) else "excluded" for path in paths if self._hides(path)
            }
            known |= {path.rstrip("/"): "" for path in folders_above(paths) if self._hides(path)}
            self._index = (signature, known, [f"{path}/" for path in submodule_paths(self.worktree)])
        return self._index[1:]

    def _hides(self, path: str) -> bool:
        return self.why_not(path) is not None and path.rpartition("/")[2] != ".git" and "/.git/" not in path


def hiding_variables(
    worktree: WorkTree, file: Path, excluded: Iterable[str], env: Mapping[str, str]
) -> dict[str, str]:
    """Write the attributes file `file`: the user's attributes, with secrets and `excluded` files as binary. Returns the
    variables to add to `env`, with which git uses it."""
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
    """Whether one of `names` is the object name of a blob, which git would show even if its file is hidden."""
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
    """The pattern, matching upper and lower case."""
    return "".join(f"[{char}{char.upper()}]" if char.islower() else char for char in pattern)


def _quoted(path: str) -> str:
    """The pattern that matches only `path`, relative to the top."""
    plain = "".join(f"\\{char}" if char in "\\*?[" else char for char in path)
    text = "".join(f"\\{char}" if char in '\\"' else char for char in f"/{plain}")
    return '"' + text.replace("\t", "\\t").replace("\n", "\\n") + '"'
