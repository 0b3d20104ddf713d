"""Pending records: the memory of a change, saved before the change is made.

So a kill between the commit and the memory loses neither: the next command completes the record of a change that was
made, and drops that of a change that was not. A record is `repoagent/pending/NAME-EVENT.json` in the git directory,
locked while its process runs."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repoagent.dataclass import dataclass
from repoagent.edit.memory import RecordedChanges, Story, record_undone, remember_changes
from repoagent.errors import Refused
from repoagent.git.files import FileChange
from repoagent.git.objects import head_commit
from repoagent.git.process import uninterrupted
from repoagent.git.worktree import WorkTree, layout
from repoagent.llm.conversation import Turn
from repoagent.llm.model import Usage
from repoagent.memory.identity.record import Memory, load
from repoagent.patch.locate.exact import Placement
from repoagent.storage import json_files
from repoagent.storage.atomic import write_locked

if TYPE_CHECKING:
    from repoagent.git.undo_log import Edit

VERSION = 1
STATES = {"undo": "undone", "redo": "redone"}  # the state of an edit after the event


@dataclass
class Pending:
    """The record of the change `event` ("edit", "undo", "redo") of the edit `name`."""

    worktree: WorkTree
    name: str
    event: str
    descriptor: int | None = None

    @property
    def path(self) -> Path:
        return layout(self.worktree).pending / f"{self.name}-{self.event}.json"

    def keep(self, memories: Mapping[str, Memory], content: Mapping[str, Any]) -> None:
        """Save `content` and the memory of each file. Raises Refused if that fails."""
        names = {path: memory.folder.name for path, memory in memories.items()}
        value = {"version": VERSION, "event": self.event, "id": self.name, "memories": names, **content}
        self.drop()
        self.descriptor = write_locked(self.path, json_files.dumps(value))

    def drop(self) -> None:
        """Remove the record: the memory is written, or no change was made."""
        if self.descriptor is not None:
            self.path.unlink(missing_ok=True)
            os.close(self.descriptor)
            self.descriptor = None


@contextmanager
def pending(worktree: WorkTree, name: str, event: str) -> Iterator[Pending]:
    """A record for the time of a change. If it is saved and not dropped, it is dropped at the end unless the change was
    made; otherwise the next command completes it."""
    record = Pending(worktree, name, event)
    try:
        yield record
    finally:
        if record.descriptor is not None:
            with uninterrupted():
                if _is_made(worktree, name, event) is False:
                    record.drop()
                else:
                    os.close(record.descriptor)


def to_remember(
    story: Story, changes: Sequence[FileChange], placements: Sequence[Placement]
) -> dict[str, Any]:
    """The content of an edit's record."""
    levels: dict[str, list[str]] = {}
    for placement in placements:
        levels.setdefault(placement.path, []).append(placement.level)
    renames = {change.path: change.old_path for change in changes if change.is_rename}
    return {"story": asdict(story), "renames": renames, "levels": levels}


def complete(worktree: WorkTree) -> list[str]:
    """Write the pending records of killed commands to memory; returns a sentence for each.

    Raises RepoagentError or OSError if a memory cannot be written; its record stays.
    """
    sentences = []
    for path in sorted(layout(worktree).pending.glob("*")):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with uninterrupted():
                if path.suffix == ".json":
                    sentences += _complete(worktree, path)
                else:  # a temporary file: the process was killed while it wrote
                    path.unlink(missing_ok=True)
        except BlockingIOError:  # its process is running
            continue
        finally:
            os.close(descriptor)
    return sentences


def _complete(worktree: WorkTree, path: Path) -> list[str]:
    from repoagent.git.undo_log import list_edits

    value = json_files.read_document(path, version=VERSION)
    if value is None:
        return []
    sentences = []
    try:
        name, event = str(value["id"]), str(value["event"])
        is_made = _is_made(worktree, name, event)
        if is_made is None:
            return []
        if is_made:
            edit = next(edit for edit in list_edits(worktree) if edit.id == name)
            memories = {}
            for file, folder in dict(value["memories"]).items():
                root = layout(worktree).memory / folder
                if (identity := load(root)) is not None:
                    memories[file] = Memory(root, identity)
            if event == "edit":
                fields = {
                    key: field for key, field in value["story"].items() if key != "landed"
                }  # of old versions
                fields["turns"] = tuple(Turn(**turn) for turn in fields["turns"])
                fields |= {"notes": tuple(fields["notes"]), "usage": Usage(**fields["usage"])}
                done = _committed(worktree, edit, value)
                remember_changes(worktree, Story(**fields), done, memories, again=True)
            else:
                record_undone(worktree, replace(edit, commit=head_commit(worktree)), memories, STATES[event])
            sentences.append(f"recorded the {event} {name} in memory")
    except (KeyError, TypeError, ValueError) as error:
        raise Refused(f"{path} is malformed ({error}): remove it") from error
    path.unlink(missing_ok=True)
    return sentences


def _is_made(worktree: WorkTree, name: str, event: str) -> bool | None:
    """Whether the change was made; None while its journal exists, because it may still be made."""
    from repoagent.git.undo_log import list_edits

    if (layout(worktree).journal / f"{name}-{event}").exists():
        return None
    edit = next((edit for edit in list_edits(worktree) if edit.id == name), None)
    return edit is not None and (event == "edit" or edit.undone == (event == "undo"))


def _committed(worktree: WorkTree, edit: Edit, value: Mapping[str, Any]) -> RecordedChanges:
    """The committed changes, from the bytes saved for undo."""
    from repoagent.git.undo_log import edit_record

    steps = {step.path: step for step in edit_record(worktree, edit).steps}
    renames = {new: old for new, old in value["renames"].items() if new in steps and old in steps}
    changes = []
    for path, step in steps.items():
        if path in renames.values():
            continue
        old_path = renames.get(path, path)
        old, new = steps[old_path].old, step.new
        before = (old_path, old.data, old.mode) if old else (None, None, None)
        after = (path, new.data, new.mode) if new else (None, None, None)
        changes.append(FileChange(before[0], after[0], before[1], after[1], before[2], after[2]))
    levels = {path: tuple(names) for path, names in value["levels"].items()}
    return RecordedChanges(tuple(changes), edit.commit, levels)
