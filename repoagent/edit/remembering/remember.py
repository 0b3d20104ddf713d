"""What happened goes to where it belongs: the exchange, the notes and the record of the edit, to each file's memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace

from repoagent.dataclass import dataclass
from repoagent.edit.landing.commit import Landed
from repoagent.edit.remembering.lessons import happened, is_overtaken, offered, refused_for
from repoagent.llm import Turn, Usage
from repoagent.llm.conversation import append
from repoagent.memory import EditRecord, Memory, append_edit, read_edits, read_notes
from repoagent.memory import remember as tie
from repoagent.memory.notes.file import add_notes, drop_note, made_note
from repoagent.memory.notes.stale import staleness
from repoagent.memory.turns import compact_above
from repoagent.repo import FileChange, Source, WorkTree, blob_hash, layout
from repoagent.repo.change import SYMLINK
from repoagent.store.document import now
from repoagent.store.masking import mask


@dataclass(frozen=True)
class Done:
    """What landed: the changes, the commit of them (None where nothing was committed), how hunks were placed by path,
    and whether a file was written at all."""

    changes: tuple[FileChange, ...]
    commit: str | None
    levels: Mapping[str, tuple[str, ...]]
    written: bool = True


@dataclass(frozen=True)
class Story:
    """One edit as it went. Where nothing landed, `ended` says how ("answered", "declined", "refused", "failed") and
    `answer` is the model's words or the reason."""

    edit_id: str
    request: str
    turns: tuple[Turn, ...]
    notes: tuple[str, ...]
    ended: str
    answer: str
    landed: Landed | None
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
    limit: int = 0,
) -> None:
    """Write `story` to the memory of every file it touched, or, where nothing landed, was asked to touch.

    Conversations of more than `limit` bytes are compacted then; 0 is for no limit.
    """
    landed = story.landed
    done = None if landed is None else done_of(landed)
    told = remember_done(worktree, story, done, memories, limit=limit)
    for path in targets:
        source = sources.get(path)
        if path in told or source is None or source.data is None:
            continue
        memory = tie(layout(worktree), worktree, path, source.data, memory=memories.get(path))
        same = FileChange(path, path, source.data, source.data, source.mode, source.mode)
        _tell(memory, story, done, _record(worktree, story, done, same), data=source.data)
        compact_above(memory, limit)


def done_of(landed: Landed) -> Done:
    """What there is to remember of what landed."""
    levels: dict[str, tuple[str, ...]] = {}
    for place in landed.proposal.placements:
        levels[place.path] = (*levels.get(place.path, ()), place.level)
    return Done(
        landed.changes, landed.commit.commit if landed.commit else None, levels, written=landed.written
    )


def remember_done(
    worktree: WorkTree,
    story: Story,
    done: Done | None,
    memories: Mapping[str, Memory],
    *,
    again: bool = False,
    limit: int = 0,
) -> set[str | None]:
    """Write `story` to the memory of every file that was written; their paths. `again`: a crash may have come in
    between, and what is remembered already is not remembered twice."""
    told: set[str | None] = set()
    for change in done.changes if done is not None and done.written else ():
        old = memories.get(change.old_path or "")
        told |= {change.old_path, change.path}
        if SYMLINK in {change.mode, change.old_mode}:  # what it names has a memory of its own
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
    done: Done | None,
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


def _note(memory: Memory, story: Story, done: Done | None, record: EditRecord, data: bytes | None) -> None:
    """Add what is worth a note, about the file as it is now."""
    contents = {
        change.name: change.after or b"" for change in (done.changes if done and done.written else ())
    }
    found = [
        *offered(story.notes, story.model, record.path, contents),
        *happened(story.request, story.turns, record.state, story.answer, story.model),
    ]
    if record.commit or record.state == "written":
        for note in read_notes(memory.notes):
            if is_overtaken(note, story.request):
                drop_note(memory.notes, note.text)
    blob = record.result_blob or record.source_blob
    add_notes(
        memory.notes,
        [made_note(mask(each.text), blob=blob, source=each.source) for each in found],
        is_stale=None if data is None else staleness(memory, data),
    )


def _record(worktree: WorkTree, story: Story, done: Done | None, change: FileChange) -> EditRecord:
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


def _state(story: Story, done: Done | None) -> str:
    if done is None:
        return story.ended
    if done.commit is not None:
        return "committed"
    return "written" if done.written else "proposed"


def _blob(worktree: WorkTree, data: bytes | None) -> str:
    return "" if data is None else blob_hash(data, worktree.object_format)
