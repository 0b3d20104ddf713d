"""The directory of a run, its file names, and the conversation of the same name.

A run that git tracks came with the repository and is refused as untrusted: a user's own runs are never tracked.
"""

from __future__ import annotations

import os
import unicodedata
from datetime import datetime, timezone
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.git.process import GitError, git
from repoagent.memory.conversation_names import ENDING, RESERVED, checked, refuse_reserved
from repoagent.storage.folders import open_folder
from repoagent.storage.layout import Layout

OF_RUNS = ("run-", "chat-")  # prefixes of generated names


class _File:
    """Descriptor for the path of a file in the directory."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, run_dir: RunDirectory, owner: object = None) -> Path:
        return run_dir.folder / self.name


@dataclass(frozen=True)
class RunDirectory:
    """The paths of the run `name`, even if it does not exist."""

    layout: Layout
    name: str

    record = _File("run.json")
    subagent = _File("subagent.json")  # the specification, which only a sub-agent has
    lock = _File("lock")
    inbox = _File("inbox")
    stop = _File("stop")
    plan = _File("plan.md")
    checkpoint = _File("checkpoint.md")
    output = _File("output")  # of commands, and text that was too long for the conversation
    changes = _File("changes")
    scratch = _File("scratch")  # $TMPDIR of commands

    @property
    def folder(self) -> Path:
        """The directory itself."""
        return self.layout.runs / self.name

    @property
    def conversation(self) -> Path:
        """The file of the conversation, which is not in the directory."""
        return self.layout.conversations / f"{self.name}{ENDING}"

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders in which a killed process may leave temporary files."""
        return (self.folder, self.output, self.changes, self.changes / "bytes", self.inbox)


def new_name(kind: str = "run") -> str:
    """Generate the name of a new run or chat; such names sort by time (UTC)."""
    return f"{kind}-{datetime.now(timezone.utc):%Y%m%d-%H%M%S}-{os.urandom(3).hex()}"


def open_run_directory(layout: Layout, name: str) -> RunDirectory:
    """The directory of the existing or new run `name`.

    Raises UsageError for an invalid name, the name of an edit, or a name of the generated form that does not exist.
    """
    run_dir = RunDirectory(layout, name := checked(name))
    exists = run_dir.folder.is_dir() or run_dir.conversation.is_file()
    if not exists or name.casefold().startswith(tuple(set(RESERVED) - set(OF_RUNS))):
        refuse_reserved(name)
    return run_dir


def resume_command(name: str, kind: str) -> str:
    """The command that resumes the run `name` of the type `kind`."""
    return f"repoagent {'chat' if kind == 'chat' else 'run'} --resume {name}"


def short_name(name: str) -> str:
    """The last part of a generated name; any other name unchanged."""
    head, _, last = name.rpartition("-")
    return last if head.startswith(OF_RUNS) and len(last) == 6 else name


def names_of_folders(layout: Layout) -> list[str]:
    """The names of all run directories, in no order."""
    try:
        with open_folder(layout.runs) as folder, os.scandir(folder) as entries:
            folders = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []
    return [name for name in folders if not name.startswith(".")]


def refuse_foreign(run_dir: RunDirectory) -> None:
    """Raise Refused if git tracks the conversation of the run, or anything in its folder."""
    run_paths = (run_dir.folder, run_dir.conversation)
    if not any(os.path.lexists(path) for path in run_paths):
        return
    root = run_dir.layout.root
    plain_paths = [_plain(str(path.relative_to(root.parent))) for path in run_paths]
    try:
        tracked = git(root.parent, "ls-files", "-z", "--cached").split(b"\0")
    except GitError:  # without a work tree, git tracks nothing here
        return
    for name in tracked:
        path = _plain(os.fsdecode(name)) if name.startswith(b".") else ""
        if _covers(_plain(root.name), path) and any(
            _covers(path, run_path) or _covers(run_path, path) for run_path in plain_paths
        ):
            raise Refused(
                f"the run {run_dir.name} came with the repository (git tracks {path}), so its content "
                "cannot be trusted; start a new run, or, if it is your own, remove its files from git "
                "first (`git rm -r --cached`)"
            )


def _covers(folder: str, path: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _plain(path: str) -> str:
    """`path` without differences that a file system may ignore."""
    return unicodedata.normalize("NFC", path).casefold()
