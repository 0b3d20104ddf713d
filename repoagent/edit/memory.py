"""Write an edit to the memory of its files: the exchange, the notes and the record of the edit.

Before a change is made, a pending record is saved as `repoagent/pending/NAME-EVENT.json` in the git directory and
locked while its process runs. If the process is killed, the next command completes the record if the change was made,
and otherwise drops it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, field, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from repoagent.config.settings import Settings
from repoagent.dataclass import dataclass
from repoagent.errors import Refused, RepoagentError
from repoagent.git.files import SYMLINK, FileChange, Source, blob_hash, read_source
from repoagent.git.objects import head_commit
from repoagent.git.process import defer_signals
from repoagent.git.worktree import WorkTree, layout_of
from repoagent.llm.conversation import Turn, append_turns
from repoagent.llm.model import Usage
from repoagent.memory import notes as notebook
from repoagent.memory.edit_records import EditRecord, append_edit, read_edits
from repoagent.memory.identity.record import Memory, load_identity
from repoagent.memory.identity.store import remember_file, resolve_all
from repoagent.memory.notes import PROGRAM, USER, make_note, shorten_note
from repoagent.memory.prompt import cut_line, failing_line, failure_of, reason_of
from repoagent.patch.locate.exact import Placement
from repoagent.storage import json_files
from repoagent.storage.atomic import write_locked
from repoagent.storage.json_files import timestamp
from repoagent.storage.layout import ensure_root
from repoagent.storage.secrets import mask

if TYPE_CHECKING:
    from repoagent.edit.commit import CommitOutcome
    from repoagent.edit.draft import EditSession
    from repoagent.git.undo_log import Edit

MOST = 5  # notes that a model may add with one edit
_QUOTED = 120  # characters of the request in a note
PENDING_VERSION = 1
STATES = {"undo": "undone", "redo": "redone"}  # the state of an edit after the event


@dataclass(frozen=True)
class RecordedChanges:
    """The changes to record in memory.

    changes: the changes to the files.
    commit: the commit of the changes; None if they were not committed.
    levels: the levels at which the hunks of each path were placed.
    written: whether the files were written.
    """

    changes: tuple[FileChange, ...]
    commit: str | None
    levels: Mapping[str, Sequence[str]]
    written: bool = True

    @property
    def state(self) -> str:
        return "committed" if self.commit is not None else "written" if self.written else "proposed"


@dataclass(frozen=True)
class EditSummary:
    """The course of one edit. If nothing was committed, `ended` is "answered", "rejected" (by the model), "declined",
    "refused" or "failed", and `answer` the model's text or the reason."""

    edit_id: str
    request: str
    turns: tuple[Turn, ...]
    notes: tuple[str, ...]
    ended: str
    answer: str
    model: str
    usage: Usage
    cost: float | None
    time: str = field(default_factory=timestamp)


def _levels(placements: Iterable[Placement]) -> dict[str, list[str]]:
    levels: dict[str, list[str]] = {}
    for placement in placements:
        levels.setdefault(placement.path, []).append(placement.level)
    return levels


def recorded_changes(result: CommitOutcome) -> RecordedChanges:
    commit = result.commit.commit if result.commit else None
    levels = _levels(result.proposal.placements)
    return RecordedChanges(result.changes, commit, levels, written=result.written)


def remember_edit(
    worktree: WorkTree,
    story: EditSummary,
    done: RecordedChanges | None,
    memories: Mapping[str, Memory],
    *,
    unchanged: Iterable[Source] = (),
    limit: int = 0,
    again: bool = False,
) -> None:
    """Write `story` to the memory of every written file, and of the files `unchanged`.

    Conversations of more than `limit` bytes are compacted; 0 means no limit. Pass `again` if an earlier call may have
    been interrupted; nothing is then recorded twice.
    """
    dirs, paths = layout_of(worktree), set[str | None]()
    commit, changes = (done.commit, done.changes if done.written else ()) if done else (None, ())
    written_paths = {change.name for change in changes}

    refusals = [turn.meta["reasons"].split() for turn in story.turns if "reasons" in turn.meta]
    reasons = tuple(refusals[-1]) if refusals and not done else ()

    def write(memory: Memory, change: FileChange, data: bytes | None) -> None:
        """Write the turns, the notes and the edit record of one file. `data` is its current content; None if it was
        deleted."""
        before, after = change.before, change.after if again or data is None else data
        record = EditRecord(
            story.edit_id, story.time, change.name, story.request,
            "" if before is None else blob_hash(before, worktree.object_format),
            "" if after is None else blob_hash(after, worktree.object_format),
            commit, story.model, story.usage, story.cost,
            tuple(done.levels.get(change.name, ())) if done else (),
            done.state if done else story.ended, reasons,
        )  # fmt: skip
        if story.turns:
            outcome = {"state": record.state} | ({"commit": commit} if commit else {})
            last = replace(story.turns[-1], meta={**story.turns[-1].meta, **outcome})
            turns = [replace(turn, text=mask(turn.text)) for turn in (*story.turns[:-1], last)]
            append_turns(memory.conversation, *turns, again=again)
        texts = []
        for note in story.notes[:MOST]:  # a note is about the files that it names, or else about all
            named = {path for path in written_paths if PurePosixPath(path).name in note}
            if not named or record.path in named or record.path not in written_paths:
                texts.append((shorten_note(note), story.model))
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

    for change in changes:
        paths |= {change.old_path, change.path}
        if SYMLINK in {change.mode, change.old_mode}:  # only the target has a memory
            continue
        memory, data = memories.get(change.old_path or ""), None
        if change.path is not None and change.after is not None:
            file = worktree.top / change.path
            data = None if again and not file.is_file() else file.read_bytes()
            if data is not None:
                memory = remember_file(dirs, worktree, change.path, data, memory=memory, commit=commit)
        if memory is not None:
            write(memory, change, data)
    for source in unchanged:
        path, data = source.path, source.data
        if path not in paths and data is not None:
            memory = remember_file(dirs, worktree, path, data, memory=memories.get(path))
            write(memory, FileChange.at(path, source.content, source.content), data)


def lessons(
    request: str, turns: Sequence[Turn], state: str, answer: str, model: str
) -> Iterator[tuple[str, str]]:
    """Notes on rejections, failed checks and refusals, each with its source. `state` as in `EditRecord`, `answer` as in
    `EditSummary`."""
    quote = f'"{cut_line(request, _QUOTED)}"'
    changed = state in ("committed", "written")
    reasons = list(dict.fromkeys(reason for turn in turns if (reason := reason_of(turn))))
    for reason in reasons:
        after = "; later accepted another version" if changed else ""
        yield shorten_note(f"rejected a proposed change: {reason} (request: {quote}{after})"), USER
    failures = [failure for turn in turns if (failure := failure_of(turn))]
    if state == "failed":
        failure = failures[-1] if failures else failing_line(answer)
        note = f"tried {quote}, but the change failed its check and was not kept: {failure}"
        yield shorten_note(note), PROGRAM
    elif failures and changed:
        yield shorten_note(f"the first attempt at {quote} failed its check: {failures[0]}"), PROGRAM
    elif state == "rejected" and answer.strip():
        yield shorten_note(f"declined to do {quote}: {answer}"), model


def undo_note(request: str) -> str:
    """The note which records that an edit was undone; `redo` removes it."""
    return shorten_note(f'undid the edit "{cut_line(request, _QUOTED)}"')


def content_of(worktree: WorkTree, path: str) -> bytes | None:
    """The bytes of a file; None if it does not exist, is a link, or is in another repository. The memory of a link
    belongs to its target."""
    with suppress(Refused):
        return None if (worktree.top / path).is_symlink() else read_source(worktree, path).data
    return None


def record_undone(worktree: WorkTree, edit: Edit, before: Mapping[str, Memory], state: str) -> None:
    """Record in the memory of each file of `edit` that the edit is now "undone" or "redone" (`state`). `before` maps
    paths to memories that were looked up before the files were written."""
    written = set()
    for path in edit.paths:
        data = content_of(worktree, path)
        memory = before.get(path)
        if data is not None:
            memory = memory or _renamed(worktree, edit, data, before)
            memory = remember_file(
                layout_of(worktree), worktree, path, data, memory=memory, commit=edit.commit
            )
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
                append_edit(memory.edits, replace(record, time=timestamp(), state=state))


def _renamed(worktree: WorkTree, edit: Edit, data: bytes, before: Mapping[str, Memory]) -> Memory | None:
    """The memory in `before` of a file that is gone, and that had the content `data` before or after the edit."""
    blob, top = blob_hash(data, worktree.object_format), str(worktree.top)
    for memory in before.values():
        if not os.path.lexists(worktree.top / memory.identity.path_in(top)):
            records = (record for record in read_edits(memory.edits) if record.id == edit.id)
            if any(blob in (record.source_blob, record.result_blob) for record in records):
                return memory
    return None


@dataclass
class PendingRecord:
    """The pending record of an `event` ("edit", "undo" or "redo") of the edit `name`."""

    worktree: WorkTree
    name: str
    event: str
    path: Path = Path()
    descriptor: int | None = None

    def keep(
        self,
        memories: Mapping[str, Memory],
        story: EditSummary | None = None,
        changes: Sequence[FileChange] = (),
        placements: Sequence[Placement] = (),
    ) -> None:
        """Save which memory each file has and, for an edit, its story. Raises Refused if that fails."""
        names = {path: memory.folder.name for path, memory in memories.items()}
        value = {"version": PENDING_VERSION, "event": self.event, "id": self.name, "memories": names}
        if story is not None:
            renames = {change.path: change.old_path for change in changes if change.is_rename}
            value |= {"story": asdict(story), "renames": renames, "levels": _levels(placements)}
        self.drop()
        self.path = layout_of(self.worktree).pending / f"{self.name}-{self.event}.json"
        self.descriptor = write_locked(self.path, json_files.dumps(value))

    def drop(self) -> None:
        """Remove the record, because the memory has been written or no change was made."""
        if self.descriptor is not None:
            self.path.unlink(missing_ok=True)
            os.close(self.descriptor)
            self.descriptor = None


@contextmanager
def pending_record(worktree: WorkTree, name: str, event: str) -> Iterator[PendingRecord]:
    """A pending record for the duration of a change.

    The block saves the record, and drops it when the memory is written. If the block does not drop it, the record is
    dropped at the end if the change was not made, and otherwise completed by the next command.
    """
    record = PendingRecord(worktree, name, event)
    try:
        yield record
    finally:
        if record.descriptor is not None:
            with defer_signals():
                if _is_made(worktree, name, event) is False:
                    record.drop()
                else:
                    os.close(record.descriptor)


def commit_and_remember(
    session: EditSession,
    settings: Settings,
    edit_id: str,
    story: Callable[[], EditSummary],
    make_commit: Callable[[], CommitOutcome],
    *,
    say: Callable[[str], None],
    known: Mapping[str, Memory] | None = None,
    unchanged: Iterable[Source] = (),
) -> CommitOutcome:
    """Commit, and write the change to the memory of its files, and of the files `unchanged`. A memory that cannot be
    written only causes a warning. `story` is called before the commit and again after it. `known` has memories that
    were looked up earlier, in case they cannot be read now."""
    worktree, changes = session.worktree, session.draft.edits
    if session.request.dry_run or not settings.switch("memory.enabled"):
        return make_commit()
    before = {change.old_path: change.before for change in changes if change.old_path is not None}
    present = (
        (path, content_of(worktree, path) or data) for path, data in before.items() if data is not None
    )
    try:
        memories = resolve_all(layout_of(worktree), worktree, present)
    except (RepoagentError, OSError):  # if recording the change fails, too, that is reported
        memories = dict(known or {})
    with pending_record(worktree, edit_id, "edit") as record:
        record.keep(memories, story(), changes, session.placements)
        outcome = make_commit()
        with defer_signals():  # the change is made: defer ^C
            try:
                ensure_root(layout_of(worktree))
                limit, done = settings.whole("memory.limit"), recorded_changes(outcome)
                remember_edit(worktree, story(), done, memories, unchanged=unchanged, limit=limit)
            except (RepoagentError, OSError) as error:
                say(f"warning: could not record this edit in memory ({error}); the next command will retry")
            else:
                record.drop()
    return outcome


def complete_pending(worktree: WorkTree) -> list[str]:
    """Complete the pending records of killed commands, and return a sentence for each. Raises RepoagentError or OSError
    if a memory cannot be written; its record stays."""
    sentences: list[str] = []
    for path in sorted(layout_of(worktree).pending.glob("*")):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with defer_signals():
                if path.suffix == ".json":
                    sentences += filter(None, [_complete(worktree, path)])
                else:  # a temporary file: the process was killed while it wrote
                    path.unlink(missing_ok=True)
        except BlockingIOError:  # its process is running
            continue
        finally:
            os.close(descriptor)
    return sentences


def _complete(worktree: WorkTree, path: Path) -> str:
    """Complete one record; returns a sentence, "" if the change was not made or may still be made."""
    from repoagent.git.undo_log import edit_record, list_edits

    value = json_files.read_document(path, version=PENDING_VERSION)
    if value is None:
        return ""
    sentence = ""
    try:
        name, event = str(value["id"]), str(value["event"])
        is_made = _is_made(worktree, name, event)
        if is_made is None:
            return ""
        if is_made:
            edit = next(edit for edit in list_edits(worktree) if edit.id == name)
            memories = {}
            for file, folder in dict(value["memories"]).items():
                root = layout_of(worktree).memory / folder
                if (identity := load_identity(root)) is not None:
                    memories[file] = Memory(root, identity)
            if event == "edit":
                story = json_files.decode(EditSummary, value["story"])
                # the committed changes, from the bytes saved for undo
                steps = {step.path: step for step in edit_record(worktree, edit).steps}
                renames = {new: old for new, old in value["renames"].items() if new in steps and old in steps}
                changes = []
                for file in (file for file in steps if file not in renames.values()):
                    old_path = renames.get(file, file)
                    old, new = steps[old_path].old, steps[file].new
                    changes.append(FileChange(old_path if old else None, file if new else None, old, new))
                done = RecordedChanges(tuple(changes), edit.commit, value["levels"])
                remember_edit(worktree, story, done, memories, again=True)
            else:
                record_undone(worktree, replace(edit, commit=head_commit(worktree)), memories, STATES[event])
            sentence = f"recorded {event} {name} in memory"
    except (KeyError, TypeError, ValueError) as error:
        raise Refused(f"{path} is malformed ({error}): remove it") from error
    path.unlink(missing_ok=True)
    return sentence


def _is_made(worktree: WorkTree, name: str, event: str) -> bool | None:
    """Whether the change was made; None while its journal exists, because it may still be made."""
    from repoagent.git.undo_log import list_edits

    if (layout_of(worktree).journal / f"{name}-{event}").exists():
        return None
    edit = next((edit for edit in list_edits(worktree) if edit.id == name), None)
    return edit is not None and (event == "edit" or edit.undone == (event == "undo"))
