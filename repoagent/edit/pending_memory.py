"""Pending records: the memory of a change, saved before the change is made.

So a kill between the commit and the memory loses neither: the next command completes the record of a change that was
made, and drops that of a change that was not. A record is `repoagent/pending/NAME-EVENT.json` in the git directory,
locked while its process runs."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from repoagent.config.settings import Settings
from repoagent.dataclass import dataclass
from repoagent.edit.memory import (
    RecordedChanges,
    Story,
    content_of,
    record_undone,
    recorded_changes,
    remember,
)
from repoagent.errors import Refused, RepoagentError
from repoagent.git.files import FileChange
from repoagent.git.objects import head_commit
from repoagent.git.process import uninterrupted
from repoagent.git.worktree import WorkTree, layout
from repoagent.llm.conversation import Turn
from repoagent.llm.model import Usage
from repoagent.memory.identity.record import Memory, load
from repoagent.memory.identity.store import resolve_all
from repoagent.patch.locate.exact import Placement
from repoagent.storage import json_files
from repoagent.storage.atomic import write_locked
from repoagent.storage.layout import ensure

if TYPE_CHECKING:
    from repoagent.edit.commit import CommitOutcome
    from repoagent.edit.draft import EditSession

VERSION = 1
STATES = {"undo": "undone", "redo": "redone"}  # the state of an edit after the event


@dataclass
class Pending:
    """The record of the change `event` ("edit", "undo", "redo") of the edit `name`."""

    worktree: WorkTree
    name: str
    event: str
    path: Path = Path()
    descriptor: int | None = None

    def keep(
        self,
        memories: Mapping[str, Memory],
        story: Story | None = None,
        changes: Sequence[FileChange] = (),
        placements: Sequence[Placement] = (),
    ) -> None:
        """Save the memory of each file and, for an edit, its story. Raises Refused if that fails."""
        names = {path: memory.folder.name for path, memory in memories.items()}
        value = {"version": VERSION, "event": self.event, "id": self.name, "memories": names}
        if story is not None:
            levels: dict[str, list[str]] = {}
            for placement in placements:
                levels.setdefault(placement.path, []).append(placement.level)
            renames = {change.path: change.old_path for change in changes if change.is_rename}
            value |= {"story": asdict(story), "renames": renames, "levels": levels}
        self.drop()
        self.path = layout(self.worktree).pending / f"{self.name}-{self.event}.json"
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


def commit_and_remember(
    session: EditSession,
    settings: Settings,
    edit_id: str,
    story: Callable[[], Story],
    make_commit: Callable[[], CommitOutcome],
    *,
    say: Callable[[str], None],
) -> CommitOutcome:
    """Commit, and write the change to the memory of its files; a kill in between loses nothing, and a memory that
    cannot be written is only a warning. `story` is called before the commit and after it."""
    worktree, changes = session.worktree, session.draft.edits
    if session.request.dry_run or not settings.switch("memory.enabled"):
        return make_commit()
    memories = resolve_all(
        layout(worktree),
        worktree,
        (
            (change.old_path, content_of(worktree, change.old_path) or change.before)
            for change in changes
            if change.old_path is not None and change.before is not None
        ),
    )
    with pending(worktree, edit_id, "edit") as record:
        record.keep(memories, story(), changes, session.placements)
        outcome = make_commit()
        with uninterrupted():  # the change is made: defer ^C
            try:
                ensure(layout(worktree))
                limit = settings.whole("memory.limit")
                remember(worktree, story(), recorded_changes(outcome), memories, limit=limit)
            except (RepoagentError, OSError) as error:
                say(f"warning: could not record this change in memory ({error}); the next command will retry")
            else:
                record.drop()
    return outcome


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
    from repoagent.git.undo_log import edit_record, list_edits

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
                fields = {**value["story"]}
                fields.pop("landed", None)  # of old versions
                fields["turns"] = tuple(Turn(**turn) for turn in fields["turns"])
                fields |= {"notes": tuple(fields["notes"]), "usage": Usage(**fields["usage"])}
                # the committed changes, from the bytes saved for undo
                steps = {step.path: step for step in edit_record(worktree, edit).steps}
                renames = {new: old for new, old in value["renames"].items() if new in steps and old in steps}
                changes = []
                for file, step in steps.items():
                    old_path = renames.get(file, file)
                    old, new = steps[old_path].old, step.new
                    before = (old_path, old.data, old.mode) if old else (None, None, None)
                    after = (file, new.data, new.mode) if new else (None, None, None)
                    if file not in renames.values():
                        changes.append(
                            FileChange(before[0], after[0], before[1], after[1], before[2], after[2])
                        )
                levels = {file: tuple(names) for file, names in value["levels"].items()}
                done = RecordedChanges(tuple(changes), edit.commit, levels)
                remember(worktree, Story(**fields), done, memories, again=True)
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
