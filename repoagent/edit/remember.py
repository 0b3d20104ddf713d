"""What happened goes to where it belongs: the exchange, the notes and the record of the edit, to each file's memory."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from hashlib import sha256

from repoagent.edit.commit import Landed
from repoagent.llm import Request, Turn, Usage, render
from repoagent.llm.conversation import append
from repoagent.memory import EditRecord, Memory, add_note, append_edit
from repoagent.memory import remember as tie
from repoagent.repo import FileChange, Source, WorkTree, blob_hash, layout
from repoagent.store import Layout, write_whole

DAY_SECONDS = 86_400


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


def now() -> str:
    """The present as ISO 8601 with its zone, for records."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def keep_sent(place: Layout, request: Request) -> str:
    """Keep the exact text of a request in `sent/`; returns its name there, a hash of the text."""
    text = render(request).encode("utf-8", "surrogateescape")
    name = sha256(text).hexdigest()[:24]
    path = place.sent / f"{name}.txt"
    if not path.exists():
        write_whole(path, text)
    return name


def forget_sent(place: Layout, days: int) -> None:
    """Remove what was sent more than `days` days ago; looked for once a day, since there may be many files."""
    present = time.time()
    looked = place.sent / "looked-through"
    if looked.exists() and 0 <= present - looked.stat().st_mtime < DAY_SECONDS:
        return
    if not place.sent.is_dir():
        return
    write_whole(looked, b"")
    for path in place.sent.glob("*.txt"):
        try:
            if path.stat().st_mtime < present - days * DAY_SECONDS:
                path.unlink()
        except FileNotFoundError:  # another process was quicker
            continue


def remember(
    worktree: WorkTree,
    story: Story,
    sources: Mapping[str, Source],
    memories: Mapping[str, Memory],
    targets: Iterable[str],
) -> None:
    """Write `story` to the memory of every file it touched, or, where nothing landed, was asked to touch."""
    landed = story.landed
    written = landed is not None and landed.written
    changes: Sequence[FileChange] = landed.changes if landed is not None and written else ()
    done = set()
    for change in changes:
        old = memories.get(change.old_path or "")
        done |= {change.old_path, change.path}
        if change.path is None or change.after is None:
            if old is not None:
                _tell(old, story, _record(worktree, story, change))
            continue
        data = (worktree.top / change.path).read_bytes()
        memory = tie(
            layout(worktree), worktree, change.path, data, memory=old,
            commit=landed.commit.commit if landed and landed.commit else None,
        )  # fmt: skip
        _tell(memory, story, replace(_record(worktree, story, change), result_blob=_blob(worktree, data)))
    for path in targets:
        source = sources.get(path)
        if path in done or source is None or source.data is None:
            continue
        memory = tie(layout(worktree), worktree, path, source.data, memory=memories.get(path))
        same = FileChange(path, path, source.data, source.data, source.mode, source.mode)
        _tell(memory, story, _record(worktree, story, same))


def _tell(memory: Memory, story: Story, record: EditRecord) -> None:
    outcome = {"state": record.state} | ({"commit": record.commit} if record.commit else {})
    for number, turn in enumerate(story.turns):
        last = number == len(story.turns) - 1
        append(memory.conversation, replace(turn, meta={**turn.meta, **outcome}) if last else turn)
    for note in story.notes:
        add_note(memory.notes, note, blob=record.result_blob)
    if record.state in ("refused", "failed"):
        add_note(
            memory.notes,
            f"tried and not done: {story.request} ({story.answer})"[:400],
            blob=record.source_blob,
        )
    append_edit(memory.edits, record)


def _record(worktree: WorkTree, story: Story, change: FileChange) -> EditRecord:
    landed = story.landed
    levels = [p.level for p in landed.proposal.placements if p.path == change.name] if landed else []
    return EditRecord(
        id=story.edit_id,
        time=now(),
        path=change.name,
        request=story.request,
        source_blob=_blob(worktree, change.before),
        result_blob=_blob(worktree, change.after),
        commit=landed.commit.commit if landed and landed.commit else None,
        model=story.model,
        usage=story.usage,
        cost=story.cost,
        levels=tuple(levels),
        state=_state(story),
    )


def _state(story: Story) -> str:
    if story.landed is None:
        return story.ended
    if story.landed.commit is not None:
        return "committed"
    return "written" if story.landed.written else "proposed"


def _blob(worktree: WorkTree, data: bytes | None) -> str:
    return "" if data is None else blob_hash(data, worktree.object_format)
