"""The directory of a run, its file names, and the conversation of the same name.

A run that came with the repository is untrusted and is refused: one's own runs are never tracked.
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
from repoagent.tasks.earlier_version import current

OF_RUNS = ("run-", "chat-")  # prefixes of generated names
_OF_OTHERS = tuple(prefix for prefix in RESERVED if prefix not in OF_RUNS)


@dataclass(frozen=True)
class RunDirectory:
    """The paths of the run `name`, whether it exists or not."""

    layout: Layout
    name: str

    @property
    def folder(self) -> Path:
        return self.layout.runs / self.name

    @property
    def conversation(self) -> Path:
        return self.layout.conversations / f"{self.name}{ENDING}"

    @property
    def record(self) -> Path:
        return self.folder / "run.json"

    @property
    def subagent(self) -> Path:
        """Only a sub-agent has it."""
        return current(self.folder / "subagent.json")

    @property
    def lock(self) -> Path:
        return self.folder / "lock"

    @property
    def inbox(self) -> Path:
        return self.folder / "inbox"

    @property
    def taken(self) -> Path:
        return self.inbox / "taken"

    @property
    def stop(self) -> Path:
        return self.folder / "stop"

    @property
    def pause(self) -> Path:
        return self.folder / "pause"

    @property
    def plan(self) -> Path:
        return self.folder / "plan.md"

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint.md"

    @property
    def output(self) -> Path:
        """Outputs of commands, and what was too long for the conversation."""
        return self.folder / "output"

    @property
    def changes(self) -> Path:
        return self.folder / "changes"

    @property
    def folders(self) -> tuple[Path, ...]:
        """Where a writer that was killed may leave temporary files."""
        return (self.folder, self.output, self.changes, self.changes / "bytes", self.inbox)


def new_name(kind: str = "run") -> str:
    """A name for a new run or chat; such names sort by time (UTC)."""
    return f"{kind}-{datetime.now(timezone.utc):%Y%m%d-%H%M%S}-{os.urandom(3).hex()}"


def open_run_directory(layout: Layout, name: str) -> RunDirectory:
    """The directory of the existing or new run that a user calls `name`.

    Raises UsageError for an invalid name, for one that belongs to edits, and for one of the generated form that does
    not exist; Refused where the name of another run differs only in case.
    """
    name = checked(name)
    run_dir = RunDirectory(layout, name)
    if name.casefold().startswith(_OF_OTHERS):
        refuse_reserved(name)
    if run_dir.folder.is_dir() or run_dir.conversation.is_file():
        return run_dir
    refuse_reserved(name)
    for existing in names_of_folders(layout):
        if _plain(existing) == name.casefold() and existing != name:
            raise Refused(
                f"a run {existing!r} exists, which differs from {name!r} only in case; choose another name"
            )
    return run_dir


def resume_command(name: str, kind: str) -> str:
    return f"repoagent {'chat' if kind == 'chat' else 'run'} --resume {name}"


def short_name(name: str) -> str:
    """The last part of a generated name; any other name as it is."""
    head, _, last = name.rpartition("-")
    return last if head.startswith(OF_RUNS) and len(last) == 6 else name


def names_of_folders(layout: Layout) -> list[str]:
    """The names of all run directories, in no order."""
    try:
        with open_folder(layout.runs) as folder, os.scandir(folder) as entries:
            return [
                entry.name
                for entry in entries
                if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)
            ]
    except FileNotFoundError:
        return []


def refuse_foreign(run_dir: RunDirectory) -> None:
    """Raise Refused where git tracks the conversation of the run, or anything in its folder."""
    run_paths = (run_dir.folder, run_dir.conversation)
    if not any(os.path.lexists(path) for path in run_paths):
        return
    root = run_dir.layout.root
    plain_paths = [_plain(str(path.relative_to(root.parent))) for path in run_paths]
    try:
        listed = git(root.parent, "ls-files", "-z", "--cached")
    except GitError:  # next to a bare repository nothing is tracked
        return
    # compared without case, as a file system may do it
    tracked = (_plain(os.fsdecode(path)) for path in listed.split(b"\0") if path[:1] == b".")
    for path in tracked:
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
    return unicodedata.normalize("NFC", path).casefold()
