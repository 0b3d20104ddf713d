"""Take an edit back, make it again, or look up what was asked; the memory of each file hears of it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain

from repoagent.dataclass import dataclass
from repoagent.edit.memory import taken_back
from repoagent.edit.pending import STATES, pending
from repoagent.edit.request import Target, files_named
from repoagent.errors import NothingDone, Refused, RepoagentError
from repoagent.git.files import blob_hash, read_source
from repoagent.git.process import uninterrupted
from repoagent.git.transaction.results import Options
from repoagent.git.undo import UndoResult
from repoagent.git.undo import redo as redo_in_repository
from repoagent.git.undo import undo as undo_in_repository
from repoagent.git.undo_log import Edit, find_edit, list_edits
from repoagent.git.worktree import WorkTree, layout
from repoagent.llm.conversation import Turn, read
from repoagent.memory.edit_records import append_edit, read_edits
from repoagent.memory.identity.record import Memory
from repoagent.memory.identity.store import memories, resolve
from repoagent.memory.identity.store import remember as tie
from repoagent.memory.notes import add_note, drop_note
from repoagent.storage.jsonl import now
from repoagent.storage.layout import to_stderr


@dataclass(frozen=True)
class Asked:
    """What an edit was asked: its words, its files and the places in them, and the turns that followed."""

    edit: Edit
    request: str
    targets: tuple[Target, ...]
    turns: tuple[Turn, ...]


def undo(worktree: WorkTree, edit_id: str | None = None, options: Options | None = None) -> UndoResult:
    """Take back the edit `edit_id`, by default the last one. Raises what `repo.undo.undo` does."""
    return _change(worktree, find_edit(worktree, edit_id, undone=False), "undo", options)


def redo(worktree: WorkTree, edit_id: str | None = None, options: Options | None = None) -> UndoResult:
    """Make an edit again that was taken back, by default the last such one. Raises what `repo.undo.redo` does."""
    return _change(worktree, find_edit(worktree, edit_id, undone=True), "redo", options)


def _change(worktree: WorkTree, edit: Edit, event: str, options: Options | None) -> UndoResult:
    change = undo_in_repository if event == "undo" else redo_in_repository
    before = _remembered(worktree, edit.paths)
    with pending(worktree, edit.id, event) as later:
        if before:
            later.keep(before, {})
        result = change(worktree, edit.id, options)
        with uninterrupted():
            try:
                tell(worktree, replace(edit, commit=result.commit), before, STATES[event])
            except (RepoagentError, OSError) as error:  # what was done is done
                to_stderr(f"the memory of {', '.join(result.paths)} was not brought up to date: {error}")
            else:
                later.drop()
    return result


def asked(worktree: WorkTree) -> Asked:
    """What the last edit was asked, also if it is taken back by now: then there is nothing more to take back.

    Raises NothingDone when there is none, Refused when no memory of it is kept.
    """
    edits = list_edits(worktree)
    if not edits:
        raise NothingDone("there is no edit yet to ask for again")
    edit = edits[-1]
    present = (memory for _, memory in _memories(worktree, edit.paths))
    gone = (memory for memory in memories(layout(worktree)) if memory.identity.path in edit.paths)
    for memory in chain(present, gone):
        turns = _turns(memory, edit.id)
        if turns:
            named = files_named(turns[0].meta) or tuple(map(Target, edit.paths))
            return Asked(edit, turns[0].text, named, turns[1:])
    raise Refused(f"what the edit {edit.id} was asked is not remembered: take it back with `repoagent undo`")


def _remembered(worktree: WorkTree, paths: tuple[str, ...]) -> dict[str, Memory]:
    """The memories of the files; none where they can't be read, which is no reason not to take an edit back."""
    try:
        return dict(_memories(worktree, paths))
    except (RepoagentError, OSError) as error:
        to_stderr(f"the memory of {', '.join(paths)} can't be read: {error}")
        return {}


def _memories(worktree: WorkTree, paths: tuple[str, ...]) -> Iterator[tuple[str, Memory]]:
    for path in paths:
        data = _text_of(worktree, path)
        memory = None if data is None else resolve(layout(worktree), worktree, path, data)
        if memory is not None:
            yield path, memory


def _text_of(worktree: WorkTree, path: str) -> bytes | None:
    """What the file holds, None where there is none. A link has no memory: the file that it names has."""
    return None if (worktree.top / path).is_symlink() else read_source(worktree, path).data


def _turns(memory: Memory, edit_id: str) -> tuple[Turn, ...]:
    """The turns of one edit in the conversation of a file: from its request up to the next one."""
    found: list[Turn] = []
    conversation = read(memory.conversation)
    for turn in conversation.turns if conversation else ():
        if turn.role == "user" and "edit" in turn.meta:
            if found:
                break
            if turn.meta["edit"] != edit_id:
                continue
        elif not found:
            continue
        found.append(turn)
    return tuple(found)


def tell(worktree: WorkTree, edit: Edit, before: Mapping[str, Memory], state: str) -> None:
    """The keys of the memories follow what was written, and their edits say what became of them: `state`."""
    told = set()
    for path in edit.paths:
        data = _text_of(worktree, path)
        memory = before.get(path)
        if data is not None:
            known = memory or _renamed(worktree, edit, data, before)
            memory = tie(layout(worktree), worktree, path, data, memory=known, commit=edit.commit)
        if memory is None or memory.folder in told:
            continue
        told.add(memory.folder)
        for record in read_edits(memory.edits):
            if record.id == edit.id and record.state != state:
                lesson = taken_back(record.request)
                if state == STATES["undo"]:
                    add_note(memory.notes, lesson.text, blob=record.source_blob, source=lesson.source)
                else:
                    drop_note(memory.notes, lesson.text)
                append_edit(memory.edits, replace(record, time=now(), state=state))


def _renamed(worktree: WorkTree, edit: Edit, data: bytes, before: Mapping[str, Memory]) -> Memory | None:
    """The memory of a file that the edit gave another name, by what it recorded: `data` is what it began or ended with,
    and where it was there is nothing now."""
    blob, top = blob_hash(data, worktree.object_format), str(worktree.top)
    gone = (
        each for each in before.values() if not os.path.lexists(worktree.top / each.identity.path_in(top))
    )
    for memory in gone:
        records = (record for record in read_edits(memory.edits) if record.id == edit.id)
        if any(blob in (record.source_blob, record.result_blob) for record in records):
            return memory
    return None
