"""Write an edit to the memory of its files: the exchange, the notes and the record of the edit.

A plain success adds no note. Notes name their source: the model, or the user for the reason of a rejection."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from repoagent.dataclass import dataclass
from repoagent.edit.ui import CANCELLED
from repoagent.errors import Refused
from repoagent.git.files import SYMLINK, FileChange, Source, blob_hash, read_source
from repoagent.git.worktree import WorkTree, layout
from repoagent.llm.conversation import Turn, append
from repoagent.llm.model import Usage
from repoagent.memory import notes as notebook
from repoagent.memory.edit_records import EditRecord, append_edit, read_edits
from repoagent.memory.identity.store import remember as remember_file
from repoagent.memory.notes import PROGRAM, USER, make_note, shorten_note
from repoagent.memory.prompt import cut, failing_line, failure_of, reason_of
from repoagent.storage.json_files import now
from repoagent.storage.secrets import mask

if TYPE_CHECKING:
    from repoagent.edit.commit import CommitOutcome
    from repoagent.git.undo_log import Edit
    from repoagent.memory.identity.record import Memory

MOST = 5  # notes that a model may add with one edit
_QUOTED = 120  # characters of the request in a note


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
    """The course of one edit. If nothing was committed, `ended` is "answered", "declined", "refused" or "failed", and
    `answer` the model's text or the reason."""

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


def recorded_changes(result: CommitOutcome) -> RecordedChanges:
    """The changes of a commit, as `remember` takes them."""
    levels: dict[str, tuple[str, ...]] = {}
    for placement in result.proposal.placements:
        levels[placement.path] = (*levels.get(placement.path, ()), placement.level)
    commit = result.commit.commit if result.commit else None
    return RecordedChanges(result.changes, commit, levels, written=result.written)


def remember(
    worktree: WorkTree,
    story: Story,
    done: RecordedChanges | None,
    memories: Mapping[str, Memory],
    *,
    unchanged: Iterable[Source] = (),
    limit: int = 0,
    again: bool = False,
) -> None:
    """Write `story` to the memory of every written file, and of the files `unchanged` that were not written.

    Conversations of more than `limit` bytes are compacted; 0 means no limit. `again`: a crash may have interrupted an
    earlier call; nothing is recorded twice.
    """
    dirs, paths = layout(worktree), set[str | None]()
    contents = {change.name: change.after or b"" for change in done.changes} if done and done.written else {}

    def write(memory: Memory, change: FileChange, data: bytes | None) -> None:
        """Write the turns, the notes and the edit record of one file; `data` is its current content, None if
        deleted."""
        before, after = change.before, change.after if again or data is None else data
        codes = next((turn.meta["reasons"] for turn in reversed(story.turns) if "reasons" in turn.meta), "")
        state = story.ended
        if done is not None:
            state = "committed" if done.commit is not None else "written" if done.written else "proposed"
        record = EditRecord(
            story.edit_id, story.time, change.name, story.request,
            "" if before is None else blob_hash(before, worktree.object_format),
            "" if after is None else blob_hash(after, worktree.object_format),
            done.commit if done else None, story.model, story.usage, story.cost,
            done.levels.get(change.name, ()) if done else (),
            state, () if done else tuple(codes.split()),
        )  # fmt: skip
        if story.turns:
            outcome = {"state": record.state} | ({"commit": record.commit} if record.commit else {})
            last = replace(story.turns[-1], meta={**story.turns[-1].meta, **outcome})
            turns = [replace(turn, text=mask(turn.text)) for turn in (*story.turns[:-1], last)]
            append(memory.conversation, *turns, again=again)
        if record.commit or record.state == "written":  # drop the note that the same request was refused
            end = f'), nothing was changed: "{cut(story.request, _QUOTED)}"'
            for note in notebook.read_notes(memory.notes):
                refused = note.text.startswith("tried and refused (") and note.text.endswith(end)
                if note.source == PROGRAM and refused:
                    notebook.drop_note(memory.notes, note.text)
        texts = [
            (shorten_note(note), story.model)
            for note in story.notes[:MOST]
            if record.path in files_of_note(note, contents) or record.path not in contents
        ]
        texts += lessons(story.request, story.turns, record.state, story.answer, story.model)
        blob = record.result_blob or record.source_blob
        notebook.add_notes(
            memory.notes,
            [make_note(mask(text), blob=blob, source=source) for text, source in texts],
            is_stale=None if data is None else notebook.staleness(memory, data),
        )
        if not (again and any(edit.id == record.id for edit in read_edits(memory.edits))):
            append_edit(memory.edits, record)
        is_long = limit and data is not None and memory.conversation.exists()
        if is_long and memory.conversation.stat().st_size > limit:
            from repoagent.memory.compaction import compact_above

            compact_above(memory, limit)

    for change in done.changes if done is not None and done.written else ():
        paths |= {change.old_path, change.path}
        if SYMLINK in {change.mode, change.old_mode}:  # only the target has a memory
            continue
        memory, data = memories.get(change.old_path or ""), None
        if change.path is not None and change.after is not None:
            file = worktree.top / change.path
            data = None if again and not file.is_file() else file.read_bytes()
            if data is not None:
                commit = done.commit if done else None
                memory = remember_file(dirs, worktree, change.path, data, memory=memory, commit=commit)
        if memory is not None:
            write(memory, change, data)
    for source in unchanged:
        path, data = source.path, source.data
        if path not in paths and data is not None:
            memory = remember_file(dirs, worktree, path, data, memory=memories.get(path))
            write(memory, FileChange(path, path, data, data, source.mode, source.mode), data)


def files_of_note(note: str, contents: Mapping[str, bytes]) -> set[str]:
    """The files that a note is about: those that it names, else those with most of the names of code in it; all if it
    has none."""
    files = {path for path in contents if PurePosixPath(path).name in note}
    if files:
        return files
    count = len(notebook.code_names(note))
    missing = {path: len(notebook.missing_names(note, data)) for path, data in contents.items()}
    least = min(missing.values(), default=count)
    return {path for path, number in missing.items() if number == least or count == 0}


def lessons(
    request: str, turns: Sequence[Turn], state: str, answer: str, model: str
) -> Iterator[tuple[str, str]]:
    """Notes on rejections, failed checks and refusals, each with its source. `state` as in `EditRecord`, `answer` as in
    `Story`."""
    quote = f'"{cut(request, _QUOTED)}"'
    changed = state in ("committed", "written")
    reasons = list(dict.fromkeys(reason for turn in turns if (reason := reason_of(turn))))
    for reason in reasons:
        after = "; later accepted another version" if changed else ""
        yield shorten_note(f"rejected a proposed change: {reason} (request: {quote}{after})"), USER
    failures = [failure for turn in turns if (failure := failure_of(turn))]
    if state == "failed":
        failure = failures[-1] if failures else failing_line(answer)
        yield shorten_note(f"tried and failed its check, nothing was changed: {quote}: {failure}"), PROGRAM
    elif failures and changed:
        yield shorten_note(f"the first attempt at {quote} failed its check: {failures[0]}"), PROGRAM
    elif state == "refused":  # in the form that `remember` recognizes
        codes = next((turn.meta["reasons"] for turn in reversed(turns) if "reasons" in turn.meta), "")
        why = ", ".join(codes.split()) or cut(answer, _QUOTED)
        yield shorten_note(f"tried and refused ({why}), nothing was changed: {quote}"), PROGRAM
    elif state == "declined" and answer.startswith(CANCELLED) and not reasons:
        yield shorten_note(f"rejected the proposed change for {quote}"), USER
    elif state == "rejected" and answer.strip():
        yield shorten_note(f"declined to do {quote}: {answer}"), model


def undo_note(request: str) -> str:
    """The note, from the user, that an edit was undone; `redo` drops it."""
    return shorten_note(f'undid the edit "{cut(request, _QUOTED)}"')


def content_of(worktree: WorkTree, path: str) -> bytes | None:
    """The bytes of a file; None if it does not exist, is a link, whose target has the memory, or is now in another
    repository."""
    with suppress(Refused):
        return None if (worktree.top / path).is_symlink() else read_source(worktree, path).data
    return None


def record_undone(worktree: WorkTree, edit: Edit, before: Mapping[str, Memory], state: str) -> None:
    """Record in the memories of the files of `edit` that it is now "undone" or "redone" (`state`), with a note.

    `before` has the memories by path, looked up before the files were written.
    """
    written = set()
    for path in edit.paths:
        data = content_of(worktree, path)
        memory = before.get(path)
        if data is not None:
            memory = memory or _renamed(worktree, edit, data, before)
            memory = remember_file(layout(worktree), worktree, path, data, memory=memory, commit=edit.commit)
        if memory is None or memory.folder in written:
            continue
        written.add(memory.folder)
        for record in read_edits(memory.edits):
            if record.id == edit.id and record.state != state:
                note = undo_note(record.request)
                if state == "undone":
                    notebook.add_note(memory.notes, note, blob=record.source_blob, source=USER)
                else:
                    notebook.drop_note(memory.notes, note)
                append_edit(memory.edits, replace(record, time=now(), state=state))


def _renamed(worktree: WorkTree, edit: Edit, data: bytes, before: Mapping[str, Memory]) -> Memory | None:
    """The memory in `before` of a file that the edit renamed: its old path no longer exists, and `data` is its content
    before or after the edit."""
    blob, top = blob_hash(data, worktree.object_format), str(worktree.top)
    for memory in before.values():
        if os.path.lexists(worktree.top / memory.identity.path_in(top)):
            continue
        records = (record for record in read_edits(memory.edits) if record.id == edit.id)
        if any(blob in (record.source_blob, record.result_blob) for record in records):
            return memory
    return None
