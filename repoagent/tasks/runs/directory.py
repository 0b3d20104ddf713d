"""The directory of a run, its file names, and the conversation of the same name.

A run that came with the repository is someone else's word and is refused: one's own runs are never tracked.
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

OF_RUNS = ("run-", "chat-")  # how the names begin that the program gives
_OF_OTHERS = tuple(form for form in RESERVED if form not in OF_RUNS)


@dataclass(frozen=True)
class RunDirectory:
    """The place of the run `name`, whether it is there or not."""

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
        """What the run has changed in the work tree."""
        return self.folder / "changes"

    @property
    def folders(self) -> tuple[Path, ...]:
        """Where its files are written, and a writer that is killed may leave something."""
        return (self.folder, self.output, self.changes, self.changes / "bytes", self.inbox)


def new_name(kind: str = "run") -> str:
    """A name for a run that begins now, of the kind "run" or "chat"; such names sort by time (UTC)."""
    return f"{kind}-{datetime.now(timezone.utc):%Y%m%d-%H%M%S}-{os.urandom(3).hex()}"


def open_run_directory(layout: Layout, name: str) -> RunDirectory:
    """The home of the run that a person calls `name`: of one that is there, or of a new one.

    Raises UsageError for a name that no conversation may have, that belongs to edits, or that is of the form of the
    program's own and not there; Refused where another run's differs in case only.
    """
    name = checked(name)
    run_dir = RunDirectory(layout, name)
    if name.casefold().startswith(_OF_OTHERS):
        refuse_reserved(name)
    if run_dir.folder.is_dir() or run_dir.conversation.is_file():
        return run_dir
    refuse_reserved(name)
    for other in names_of_folders(layout):
        if unicodedata.normalize("NFC", other).casefold() == name.casefold() and other != name:
            raise Refused(
                f"a run {other!r} exists, which differs from {name!r} only in case; choose another name"
            )
    return run_dir


def resume_command(name: str, kind: str) -> str:
    """The command that goes on with a run or chat."""
    return f"repoagent {'chat' if kind == 'chat' else 'run'} --resume {name}"


def short_name(name: str) -> str:
    """The last part of a name that the program gave, which is enough to say; any other name as it is."""
    head, _, last = name.rpartition("-")
    return last if head.startswith(OF_RUNS) and len(last) == 6 else name


def names_of_folders(layout: Layout) -> list[str]:
    """The names of all homes, in no order; no file is opened."""
    try:
        with open_folder(layout.runs) as opened, os.scandir(opened) as found:
            return [
                entry.name
                for entry in found
                if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)
            ]
    except FileNotFoundError:
        return []


def refuse_foreign(run_dir: RunDirectory) -> None:
    """Raise Refused where git tracks the conversation of the run, or anything in its folder. One call of git, where
    there is such a run at all."""
    if not any(os.path.lexists(path) for path in (run_dir.folder, run_dir.conversation)):
        return
    root = run_dir.layout.root
    places = [_plain(str(path.relative_to(root.parent))) for path in (run_dir.folder, run_dir.conversation)]
    for path in _tracked(run_dir.layout):
        if any(_covers(path, place) or _covers(place, path) for place in places):
            raise Refused(
                f"the run {run_dir.name} came with the repository (git tracks {path}), so its content "
                "cannot be trusted; start a new run, or, if it is your own, remove its files from git "
                "first (`git rm -r --cached`)"
            )


def _tracked(layout: Layout) -> list[str]:
    """What git tracks of `.repoagent`, as a file system would read it that knows no case."""
    try:
        listed = git(layout.root.parent, "ls-files", "-z", "--cached")
    except GitError:  # beside a bare repository there is nothing that is tracked
        return []
    name = _plain(layout.root.name)
    paths = (_plain(os.fsdecode(path)) for path in listed.split(b"\0") if path[:1] == b".")
    return [path for path in paths if _covers(name, path)]


def _covers(folder: str, path: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _plain(path: str) -> str:
    return unicodedata.normalize("NFC", path).casefold()
