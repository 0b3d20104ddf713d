"""Where repoagent's files are (in `.repoagent/` in the work tree and `repoagent/` in the git directory), and where its
warnings go."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

from repoagent.errors import Refused
from repoagent.storage.atomic import write_whole
from repoagent.storage.folders import open_folder


class _Below:
    """A path below another path of the layout."""

    def __init__(self, base: str, *names: str) -> None:
        self._base, self._names = base, names

    def __get__(self, layout: Layout, owner: type) -> Path:
        base: Path = getattr(layout, self._base)
        return base.joinpath(*self._names)


class Layout:
    """The paths of repoagent's files. All work trees share `root`; `git_dir` belongs to this one, and the files below
    `private` survive `git clean -fdx`."""

    __slots__ = ("git_dir", "root")  # a dataclass would take 1 ms more at each start

    def __init__(self, root: Path, git_dir: Path) -> None:
        self.root, self.git_dir = root, git_dir

    config = _Below("root", "config.toml")
    context = _Below("root", "context.md")
    memory = _Below("root", "memory")
    memory_lock = _Below("root", "memory", ".lock")
    memory_index = _Below("root", "memory.db")
    archived_memory = _Below("root", "archive")
    recall = _Below("root", "recall.db")
    conversations = _Below("root", "conversations")
    runs = _Below("root", "runs")  # a folder for each run of a task, live or past
    splits = _Below("root", "splits")
    history = _Below("root", "history.db")
    summaries = _Below("root", "summaries")
    sent = _Below("root", "sent")
    audit = _Below("root", "audit.jsonl")
    private = _Below("git_dir", "repoagent")
    journal = _Below("private", "journal")
    locks = _Below("private", "locks")
    pending = _Below("private", "pending")  # entries for the memory from changes in progress
    proposals = _Below("private", "proposals")  # changes that could not be applied
    edits = _Below("private", "edits.jsonl")


def has_leftovers(layout: Layout) -> bool:
    """Whether a command may have been killed or may still be running: an entry for the memory is pending, or a lock
    file names its holder."""
    if any(folder.is_dir() and any(folder.iterdir()) for folder in (layout.pending, layout.locks)):
        return True
    try:
        return layout.memory_lock.lstat().st_size > 0
    except OSError:
        return False


def ensure_root(layout: Layout) -> None:
    """Create the root folder with a `.gitignore` that ignores its content. An existing `.gitignore` is not changed.
    Raises Refused if either has the wrong type or cannot be created."""
    path = layout.root / ".gitignore"
    with open_folder(layout.root, create=True) as root:
        try:
            mode = os.stat(path.name, dir_fd=root, follow_symlinks=False).st_mode
        except FileNotFoundError:
            # git would list a temporary file here until there is a .gitignore; the next command removes one that a
            # kill leaves in `pending`
            temporary = layout.pending / f"gitignore-{os.getpid()}"
            write_whole(temporary, b"*\n", private=False)
            try:
                temporary.rename(path)
            except OSError:  # another disk
                temporary.unlink(missing_ok=True)
                write_whole(path, b"*\n", private=False)
            return
        if not stat.S_ISREG(mode):
            raise Refused(f"{path} is not a regular file: remove it or move it away")


Warn = Callable[[str], None]
_printed: set[str] = set()
_redirect: list[Warn] = []  # at most one, which replaces standard error


def to_stderr(sentence: str) -> None:
    """Print the warning `sentence` to standard error, unless it was printed before. This is the default `Warn`;
    `send_to` redirects it."""
    if _redirect:
        _redirect[0](sentence)
    elif sentence not in _printed:
        _printed.add(sentence)
        sys.stderr.write(f"repoagent: warning: {sentence}\n")


def send_to(warn: Warn) -> None:
    """Send all further warnings of this process to `warn`, including repeated ones."""
    _redirect[:] = [warn]
