"""Sensitive files, which git, an editor or another program executes by itself.

Commands in the sandbox may not write them; `edit.guards.risky_changes` asks before an edit.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from repoagent.edit.guards.risky_changes import (
    BY_HOOKS,
    LEFTHOOK,
    LIST,
    ON_OPENING,
    RUN_BY_GIT,
    listed_reason,
    obeyed_by_git,
)
from repoagent.git.process import git
from repoagent.git.worktree import WorkTree
from repoagent.tasks.changes.change_set import quote_unless_plain

MOST = 100  # names of a folder
# Protected even if they do not exist. All are treated as folders: the sandbox mounts a folder at each.
ON_OPENING_PATHS = (
    ".envrc", ".vscode", ".idea", ".zed", ".devcontainer",
    ".claude", ".codex", ".cursor", ".gemini", ".kiro", ".windsurf",
)  # fmt: skip

Signature = tuple[int, int, int]


def files_obeyed_by_git(worktree: WorkTree) -> tuple[Path, ...]:
    """The absolute paths of files that git obeys in this work tree and its submodules, even if they do not exist. Calls
    git twice, and once per submodule."""
    top = worktree.top
    hooks = [name.rstrip("/") for reason, patterns in LIST if reason == BY_HOOKS for name in patterns]
    present = [name for name in hooks if os.path.lexists(top / name)]
    paths = [*_obeyed(worktree), *(top / name for name in present)]
    if set(LEFTHOOK).intersection(present):
        paths += [top / name for name in LEFTHOOK]
    moved = {"GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY"} & os.environ.keys()
    for path in submodule_paths(worktree):
        # even if it does not exist yet: git would find another repository here, and obey its configuration
        folder, git_dir = top / path, top / path / ".git"
        paths.append(git_dir)
        if git_dir.exists() and not moved:  # checked out; the options override the environment
            options = (f"--git-dir={git_dir}", f"--work-tree={folder}")
            paths += _obeyed(WorkTree(folder, git_dir, git_dir), options)
    return tuple(dict.fromkeys(paths))


def _obeyed(worktree: WorkTree, options: Sequence[str] = ()) -> Iterator[Path]:
    folder, obeyed = obeyed_by_git(worktree, options)
    if folder is not None:
        yield worktree.top / folder
    for path, reason in obeyed.items():
        # a word of a command line is most likely a path only if it contains a slash or exists
        if not reason.startswith(RUN_BY_GIT) or "/" in path or os.path.lexists(worktree.top / path):
            yield worktree.top / path


def files_run_on_opening(worktree: WorkTree) -> tuple[Path, ...]:
    """The files that an editor, a shell or a coding agent obeys when a folder is opened.

    At the top: ON_OPENING_PATHS, even those that do not exist, and other files that match. Below the top: tracked files
    that match, and the .git of repositories in folders with tracked files; at most MOST of these.
    """
    top = worktree.top
    paths = list_files(worktree, "--cached")
    acting = sorted(name for name in os.listdir(top) if _ACTING.fullmatch(name))  # noqa: PTH208  (names only)
    at_top = dict.fromkeys([*ON_OPENING_PATHS, *acting])
    below = dict.fromkeys(match[0] for path in paths if (match := _ACTING.match(path)))
    below.update(dict.fromkeys(path for path, _ in _repositories(top, folders_above(paths))))
    nearest = sorted((path for path in below if path not in at_top), key=lambda path: (path.count("/"), path))
    return tuple(top / path for path in (*at_top, *nearest[:MOST]))


_PATTERNS = {pattern.rstrip("/") for reason, patterns in LIST if reason in ON_OPENING for pattern in patterns}
_EITHER = "|".join(re.escape(pattern).replace(r"\*", "[^/]*") for pattern in sorted(_PATTERNS))
# matches a path up to and including the first name in it that takes effect on opening
_ACTING = re.compile(rf"(?:[^/]*/)*?(?:{_EITHER})(?=/|\Z)")


def submodule_paths(worktree: WorkTree) -> list[str]:
    """The paths of the submodules in the index, checked out or not."""
    entries = git(worktree.top, "ls-files", "-z", "--stage").split(b"\0")
    return [os.fsdecode(entry.partition(b"\t")[2]) for entry in entries if entry.startswith(b"160000 ")]


def tracked_folders(worktree: WorkTree) -> tuple[str, ...]:
    """The folders below the top that contain tracked files, each with a trailing slash."""
    return tuple(sorted(folders_above(list_files(worktree, "--cached"))))


def list_files(worktree: WorkTree, *options: str) -> list[str]:
    """The output of `git ls-files` as a list."""
    return os.fsdecode(git(worktree.top, "ls-files", "-z", *options)).split("\0")[:-1]


def folders_above(paths: Iterable[str]) -> set[str]:
    """All parent folders of `paths`, each with a trailing slash."""
    folders: set[str] = set()
    for path in paths:
        folder = path.rstrip("/").rpartition("/")[0]
        while folder and f"{folder}/" not in folders:
            folders.add(f"{folder}/")
            folder = folder.rpartition("/")[0]
    return folders


def watch_executed(
    top: Path, say: Callable[[str], None], folders: Sequence[str] = ()
) -> Callable[..., dict[str, bool]]:
    """Watch the common sensitive files, many of which git ignores, and repositories, because git would obey their
    configuration. The repositories are those in `folders`, and those passed to the returned function.

    The returned function calls `say` with a warning for each file written since the last call. It returns the files
    that take effect when a folder is opened, mapped to whether they are new.
    """
    known = dict(_usual_files(top))
    known.update(_repositories(top, folders))

    def look(repositories: Sequence[str] = (), *, tell: bool = True) -> dict[str, bool]:
        acting = {}
        for path, signature in (*_usual_files(top), *_repositories(top, (*folders, *repositories))):
            if known.get(path) != signature:
                reason = listed_reason(path) or "git reads it as configuration in that folder"
                if reason in ON_OPENING or path.endswith("/.git"):
                    acting[path] = path not in known
                known[path] = signature
                if tell:
                    effect = f"{quote_unless_plain(path)} was written during the run, and {reason}"
                    say(f"warning: {effect}; check it before you use it")
        return acting

    return look


def _repositories(top: Path, folders: Iterable[str]) -> Iterator[tuple[str, Signature]]:
    """The .git in each of these folders; of a .git folder, only the inode counts."""
    for folder in folders:
        try:
            status = os.lstat(f"{top}/{folder}.git")  # joined as text: there may be 10,000
        except OSError:
            continue
        changed = 0 if stat.S_ISDIR(status.st_mode) else status.st_ctime_ns
        yield f"{folder}.git", (changed, 0, status.st_ino)


def _usual_files(top: Path) -> Iterator[tuple[str, Signature]]:
    """The existing files of LIST at the top; for a folder, the files directly in it."""
    for name in (name for _, patterns in LIST for name in patterns):
        paths = [name]
        if name.endswith("/"):
            try:
                paths = sorted(name + entry for entry in os.listdir(top / name)[:MOST])  # noqa: PTH208  (names only)
            except OSError:
                continue
        for path in paths:
            try:
                status = os.lstat(top / path)
            except OSError:
                continue
            if not stat.S_ISDIR(status.st_mode):
                yield path, (status.st_ctime_ns, status.st_size, status.st_ino)
