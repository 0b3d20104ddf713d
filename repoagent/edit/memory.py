"""Write an edit to the memory of its files: the exchange, the notes and the record of the edit.

A plain success makes no note. A model's notes are stored as its own, the reason of a user who rejected a change as the
user's."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import PurePosixPath

from repoagent.dataclass import dataclass
from repoagent.edit.commit import CommitOutcome
from repoagent.edit.ui import CANCELLED
from repoagent.git.files import SYMLINK, FileChange, Source, blob_hash, read_source
from repoagent.git.undo_log import Edit
from repoagent.git.worktree import WorkTree, layout
from repoagent.llm.conversation import Turn, append
from repoagent.llm.model import Usage
from repoagent.memory.compaction import compact_above
from repoagent.memory.edit_records import EditRecord, append_edit, read_edits
from repoagent.memory.identity.record import Memory
from repoagent.memory.identity.store import remember as tie
from repoagent.memory.notes import (
    PROGRAM,
    USER,
    Note,
    add_note,
    add_notes,
    code_names,
    drop_note,
    make_note,
    missing_names,
    read_notes,
    shorten_note,
    staleness,
)
from repoagent.memory.prompt import cut, failing_line, failure_of, reason_of
from repoagent.storage.json_files import now
from repoagent.storage.secrets import mask

MOST = 5  # notes that a model may add with one edit
_ASKED = 120  # characters of the request in a note


@dataclass(frozen=True)
class Lesson:
    """A note to add, and its author (as `memory.Note.source`)."""

    text: str
    source: str


def model_notes(
    notes: Sequence[str], model: str, path: str, contents: Mapping[str, bytes]
) -> Iterator[Lesson]:
    """The model's notes about `path`; `contents` has all changed files."""
    for note in notes[:MOST]:
        if path in files_of_note(note, contents) or path not in contents:
            yield Lesson(shorten_note(note), model)


def files_of_note(note: str, contents: Mapping[str, bytes]) -> set[str]:
    """The files that a note is about: those that it code_names, else those with most of the code that it code_names,
    else all."""
    called = {path for path in contents if PurePosixPath(path).name in note}
    if called:
        return called
    count = len(code_names(note))
    lacking = {path: len(missing_names(note, data)) for path, data in contents.items()}
    least = min(lacking.values(), default=count)
    return {path for path, number in lacking.items() if number == least or count == 0}


def lessons(request: str, turns: Sequence[Turn], state: str, answer: str, model: str) -> Iterator[Lesson]:
    """Notes on what happened on the way to `state` (as in `EditRecord`); `answer` as in `Story`."""
    asked = f'"{cut(request, _ASKED)}"'
    changed = state in ("committed", "written")
    reasons = list(dict.fromkeys(reason for turn in turns if (reason := reason_of(turn))))
    for reason in reasons:
        after = "; later accepted another version" if changed else ""
        yield Lesson(shorten_note(f"rejected a proposed change: {reason} (request: {asked}{after})"), USER)
    failures = [failure for turn in turns if (failure := failure_of(turn))]
    if state == "failed":
        failure = failures[-1] if failures else failing_line(answer)
        yield Lesson(
            shorten_note(f"tried and failed its check, nothing was changed: {asked}: {failure}"), PROGRAM
        )
    elif failures and changed:
        yield Lesson(shorten_note(f"the first attempt at {asked} failed its check: {failures[0]}"), PROGRAM)
    if state == "refused":
        # what `is_overtaken` knows again
        why = ", ".join(refused_for(turns)) or cut(answer, _ASKED)
        yield Lesson(shorten_note(f"tried and refused ({why}), nothing was changed: {asked}"), PROGRAM)
    elif state == "declined" and answer.startswith(CANCELLED) and not reasons:
        yield Lesson(shorten_note(f"rejected the proposed change for {asked}"), USER)
    elif state == "rejected" and answer.strip():
        yield Lesson(shorten_note(f"declined to do {asked}: {answer}"), model)


def refused_for(turns: Sequence[Turn]) -> tuple[str, ...]:
    """The reason codes of the last refusal."""
    return tuple(
        next((turn.meta["reasons"] for turn in reversed(turns) if "reasons" in turn.meta), "").split()
    )


def is_overtaken(note: Note, request: str) -> bool:
    """Whether a note only says that `request` was refused, which has been carried out since."""
    end = f'), nothing was changed: "{cut(request, _ASKED)}"'
    return note.source == PROGRAM and note.text.startswith("tried and refused (") and note.text.endswith(end)


def undo_lesson(request: str) -> Lesson:
    """The note about an edit that the user undoes; `redo` drops it again."""
    return Lesson(shorten_note(f'undid the edit "{cut(request, _ASKED)}"'), USER)


@dataclass(frozen=True)
class RecordedChanges:
    """The changes to remember, their commit (None if not committed), the level of each placement by path, and
    whether files were written."""

    changes: tuple[FileChange, ...]
    commit: str | None
    levels: Mapping[str, tuple[str, ...]]
    written: bool = True


@dataclass(frozen=True)
class Story:
    """One edit as it went. If nothing was committed, `ended` says how it ended ("answered", "declined", "refused",
    "failed") and `answer` has the model's text or the reason."""

    edit_id: str
    request: str
    turns: tuple[Turn, ...]
    notes: tuple[str, ...]
    ended: str
    answer: str
    model: str
    usage: Usage
    cost: float | None
    time: str = field(default_factory=now)


def remember(
    worktree: WorkTree,
    story: Story,
    sources: Mapping[str, Source],
    memories: Mapping[str, Memory],
    targets: Iterable[str],
    *,
    result: CommitOutcome | None,
    limit: int = 0,
) -> None:
    """Write `story` to the memory of every file that it changed or, if none, that it was to change.

    Conversations of more than `limit` bytes are compacted; 0 is no limit.
    """
    done = None if result is None else recorded_changes(result)
    told = remember_changes(worktree, story, done, memories, limit=limit)
    for path in targets:
        source = sources.get(path)
        if path in told or source is None or source.data is None:
            continue
        memory = tie(layout(worktree), worktree, path, source.data, memory=memories.get(path))
        same = FileChange(path, path, source.data, source.data, source.mode, source.mode)
        _tell(memory, story, done, _record(worktree, story, done, same), data=source.data)
        compact_above(memory, limit)


def recorded_changes(result: CommitOutcome) -> RecordedChanges:
    levels: dict[str, tuple[str, ...]] = {}
    for place in result.proposal.placements:
        levels[place.path] = (*levels.get(place.path, ()), place.level)
    return RecordedChanges(
        result.changes, result.commit.commit if result.commit else None, levels, written=result.written
    )


def remember_changes(
    worktree: WorkTree,
    story: Story,
    done: RecordedChanges | None,
    memories: Mapping[str, Memory],
    *,
    again: bool = False,
    limit: int = 0,
) -> set[str | None]:
    """Write `story` to the memory of every written file, and return their paths. `again`: a crash may have
    interrupted it; what is recorded is not recorded twice."""
    told: set[str | None] = set()
    for change in done.changes if done is not None and done.written else ():
        old = memories.get(change.old_path or "")
        told |= {change.old_path, change.path}
        if SYMLINK in {change.mode, change.old_mode}:  # what it code_names has a memory of its own
            continue
        record = _record(worktree, story, done, change)
        if change.path is None or change.after is None:
            if old is not None:
                _tell(old, story, done, record, again=again)
            continue
        file = worktree.top / change.path
        if again and not file.is_file():
            if old is not None:
                _tell(old, story, done, record, again=True)
            continue
        data = file.read_bytes()
        memory = tie(
            layout(worktree), worktree, change.path, data, memory=old, commit=done.commit if done else None
        )
        result = change.after if again else data
        _tell(
            memory, story, done, replace(record, result_blob=_blob(worktree, result)), data=data, again=again
        )
        compact_above(memory, limit)
    return told


def _tell(
    memory: Memory,
    story: Story,
    done: RecordedChanges | None,
    record: EditRecord,
    *,
    data: bytes | None = None,
    again: bool = False,
) -> None:
    """`data` is what the file holds now, None where it is gone."""
    outcome = {"state": record.state} | ({"commit": record.commit} if record.commit else {})
    if story.turns:
        last = replace(story.turns[-1], meta={**story.turns[-1].meta, **outcome})
        turns = [replace(turn, text=mask(turn.text)) for turn in (*story.turns[:-1], last)]
        append(memory.conversation, *turns, again=again)
    _note(memory, story, done, record, data)
    if not (again and any(edit.id == record.id for edit in read_edits(memory.edits))):
        append_edit(memory.edits, record)


def _note(
    memory: Memory, story: Story, done: RecordedChanges | None, record: EditRecord, data: bytes | None
) -> None:
    """Add what is worth a note, about the file in its current state."""
    contents = {
        change.name: change.after or b"" for change in (done.changes if done and done.written else ())
    }
    found = [
        *model_notes(story.notes, story.model, record.path, contents),
        *lessons(story.request, story.turns, record.state, story.answer, story.model),
    ]
    if record.commit or record.state == "written":
        for note in read_notes(memory.notes):
            if is_overtaken(note, story.request):
                drop_note(memory.notes, note.text)
    blob = record.result_blob or record.source_blob
    add_notes(
        memory.notes,
        [make_note(mask(each.text), blob=blob, source=each.source) for each in found],
        is_stale=None if data is None else staleness(memory, data),
    )


def _record(worktree: WorkTree, story: Story, done: RecordedChanges | None, change: FileChange) -> EditRecord:
    return EditRecord(
        id=story.edit_id,
        time=story.time,
        path=change.name,
        request=story.request,
        source_blob=_blob(worktree, change.before),
        result_blob=_blob(worktree, change.after),
        commit=done.commit if done else None,
        model=story.model,
        usage=story.usage,
        cost=story.cost,
        levels=done.levels.get(change.name, ()) if done else (),
        state=_state(story, done),
        reasons=() if done else refused_for(story.turns),
    )


def _state(story: Story, done: RecordedChanges | None) -> str:
    if done is None:
        return story.ended
    if done.commit is not None:
        return "committed"
    return "written" if done.written else "proposed"


def _blob(worktree: WorkTree, data: bytes | None) -> str:
    return "" if data is None else blob_hash(data, worktree.object_format)


def content_of(worktree: WorkTree, path: str) -> bytes | None:
    """The bytes of a file; None for no file, and for a link: the file that it code_names has the memory."""
    return None if (worktree.top / path).is_symlink() else read_source(worktree, path).data


def record_undone(worktree: WorkTree, edit: Edit, before: Mapping[str, Memory], state: str) -> None:
    """Record in the memories of its files that `edit` is now "undone" or "redone" (`state`), with its note.

    `before` has the memories by path as they were before the files were written.
    """
    written = set()
    for path in edit.paths:
        data = content_of(worktree, path)
        memory = before.get(path)
        if data is not None:
            known = memory or _renamed(worktree, edit, data, before)
            memory = tie(layout(worktree), worktree, path, data, memory=known, commit=edit.commit)
        if memory is None or memory.folder in written:
            continue
        written.add(memory.folder)
        for record in read_edits(memory.edits):
            if record.id == edit.id and record.state != state:
                lesson = undo_lesson(record.request)
                if state == "undone":
                    add_note(memory.notes, lesson.text, blob=record.source_blob, source=lesson.source)
                else:
                    drop_note(memory.notes, lesson.text)
                append_edit(memory.edits, replace(record, time=now(), state=state))


def _renamed(worktree: WorkTree, edit: Edit, data: bytes, before: Mapping[str, Memory]) -> Memory | None:
    """The memory of a file that the edit renamed: its old path is gone, and `data` is what the edit began or ended
    with."""
    blob, top = blob_hash(data, worktree.object_format), str(worktree.top)
    gone = (
        memory
        for memory in before.values()
        if not os.path.lexists(worktree.top / memory.identity.path_in(top))
    )
    for memory in gone:
        records = (record for record in read_edits(memory.edits) if record.id == edit.id)
        if any(blob in (record.source_blob, record.result_blob) for record in records):
            return memory
    return None
