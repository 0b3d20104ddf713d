"""Where files are: `.repoagent/` in the work tree, and `repoagent/` in the git directory. And where warnings go."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from repoagent.errors import Refused
from repoagent.storage.atomic import link_new
from repoagent.storage.folders import open_folder, system_failed

_ALL = b"*\n"


class Layout(NamedTuple):  # each run makes this class, and a dataclass would take 1 ms more
    """`root` is shared by all work trees of a repository; `git_dir` is this work tree's own, and what must
    survive `git clean -fdx` stands there under `private`."""

    root: Path
    git_dir: Path

    @property
    def config(self) -> Path:
        return self.root / "config.toml"

    @property
    def context(self) -> Path:
        return self.root / "context.md"

    @property
    def memory(self) -> Path:
        return self.root / "memory"

    @property
    def memory_lock(self) -> Path:
        return self.memory / ".lock"

    @property
    def conversations(self) -> Path:
        return self.root / "conversations"

    @property
    def runs(self) -> Path:
        """A folder for each run of a task, live or past."""
        return self.root / "runs"

    @property
    def splits(self) -> Path:
        return self.root / "splits"

    @property
    def history(self) -> Path:
        return self.root / "history.db"

    @property
    def summaries(self) -> Path:
        return self.root / "summaries"

    @property
    def sent(self) -> Path:
        return self.root / "sent"

    @property
    def audit(self) -> Path:
        return self.root / "audit.jsonl"

    @property
    def private(self) -> Path:
        return self.git_dir / "repoagent"

    @property
    def journal(self) -> Path:
        return self.private / "journal"

    @property
    def locks(self) -> Path:
        return self.private / "locks"

    @property
    def pending(self) -> Path:
        """What is still to be remembered of changes that are being made."""
        return self.private / "pending"

    @property
    def proposals(self) -> Path:
        """Changes that could not be applied."""
        return self.private / "proposals"

    @property
    def edits(self) -> Path:
        return self.private / "edits.jsonl"


def has_leftovers(layout: Layout) -> bool:
    """Whether a command may have been killed, or is at work: something is still to be remembered, or a lock says
    who took it last and did not give it back."""
    if any(folder.is_dir() and any(folder.iterdir()) for folder in (layout.pending, layout.locks)):
        return True
    try:
        return layout.memory_lock.lstat().st_size > 0
    except OSError:
        return False


def ensure(layout: Layout) -> None:
    """Make the root folder with a `.gitignore` that ignores all of it; a `.gitignore` that is there stays
    as it is.

    Raises Refused when either is a symbolic link or of another kind, or can't be made.
    """
    path = layout.root / ".gitignore"
    with open_folder(layout.root, create=True) as root:
        try:
            kind = os.stat(path.name, dir_fd=root, follow_symlinks=False).st_mode
        except FileNotFoundError:
            # whole or not at all: half a .gitignore would stay, and git would see everything next to it
            try:
                link_new(
                    path, _ALL, by=layout.pending
                )  # git does not see what a kill leaves there; `sweep` removes it
            except OSError:  # another disk, or one without links
                _write_in_place(root, path)
        else:
            if not stat.S_ISREG(kind):
                raise Refused(f"{path} is not a regular file: remove it or move it away")


def _write_in_place(root: int, path: Path) -> None:
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(path.name, flags, 0o666, dir_fd=root)
    except FileExistsError:
        return
    except OSError as error:
        raise system_failed("write", path, error) from error
    try:
        os.write(descriptor, _ALL)
    except OSError as error:
        os.unlink(path.name, dir_fd=root)
        raise system_failed("write", path, error) from error
    finally:
        os.close(descriptor)


Warn = Callable[[str], None]
_printed: set[str] = set()
_redirect: list[Warn] = []  # at most one: who hears it in place of standard error


def to_stderr(sentence: str) -> None:
    """The default `Warn`; a process says the same once. A command with a progress display hands in its own."""
    if _redirect:
        _redirect[0](sentence)
    elif sentence not in _printed:
        _printed.add(sentence)
        sys.stderr.write(f"repoagent: warning: {sentence}\n")


def send_to(warn: Warn) -> None:
    """From here on this process says such sentences to `warn`, each time: a library must not write to the standard
    error of the program that uses it."""
    _redirect[:] = [warn]
