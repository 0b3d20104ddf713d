"""How long what was said is kept (`conversations.keep_days`): then a line of each request stays, and its words go.

Of the conversation of a file the exchanges that are too old are folded into notes as compacting does, and what is in
the archive leaves it when all of it is too old. The conversations of edits that were never ended, or could not be
remembered, are removed, and so are the copies of what a command has changed, which were kept to take that back; of past
runs what was said and what their commands wrote. Those that a person has saved by name stay, and so do notes and the
list of edits.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.errors import Busy, Refused
from repoagent.memory.archive.old_runs import forget_run, old_runs
from repoagent.memory.archive.unite import turns_of
from repoagent.memory.identity.record import Memory
from repoagent.memory.identity.remember import memories
from repoagent.memory.turns.compact import compact_before
from repoagent.memory.turns.exchanges import grouped, of_turns
from repoagent.store import Layout, Warn, locked, read_regular, to_stderr, write_whole

_DAY = 86_400
_LOOKED = "conversations-looked-through"
_UNFINISHED, _KEPT, _PAST = "edit-", "kept-", ".past"


@dataclass(frozen=True)
class Forgotten:
    """How many exchanges of files, conversations of edits that were not ended, copies of what a command has changed,
    and past runs are too old; their bytes."""

    exchanges: int = 0
    unfinished: int = 0
    copies: int = 0
    bytes: int = 0
    runs: int = 0

    def __bool__(self) -> bool:
        return bool(self.exchanges or self.unfinished or self.copies or self.runs)


def forget_conversations(
    layout: Layout, days: int, *, apply: bool = True, now: float | None = None, warn: Warn = to_stderr
) -> Forgotten:
    """Let go what was said more than `days` days ago; without `apply` it is only counted. What is locked stays until
    the next time. What a kill has left half done is done by the next call."""
    present = time.time() if now is None else now
    cutoff = datetime.fromtimestamp(present - days * _DAY, timezone.utc)
    exchanges = size = 0
    for memory in memories(layout, warn=warn):
        try:
            if apply:
                compact_before(memory, lambda moment: is_before(moment, cutoff), warn=warn)
            for path, count, bytes_ in _too_old(memory, cutoff, conversation=not apply):
                exchanges, size = exchanges + count, size + bytes_
                if apply:
                    _forget(memory, path)
        except (Busy, Refused) as error:
            warn(f"what was said about {memory.identity.path} stays for now: {error}")
    unfinished = list(_unfinished(layout, cutoff.timestamp()))
    past = list(_past(layout, cutoff.timestamp()))
    size += sum(path.lstat().st_size for path in (*unfinished, *past))
    past_runs = list(old_runs(layout, cutoff.timestamp()))
    size += sum(run.bytes for run in past_runs)
    if apply:
        past_runs = [run for run in past_runs if forget_run(run)]
    count = len(unfinished)
    if apply:
        count -= sum(not _removed(layout, path) for path in unfinished)
        for path in past:
            path.unlink(missing_ok=True)
    return Forgotten(exchanges, count, len(past), size, len(past_runs))


def forget_daily(layout: Layout, days: int, *, warn: Warn = to_stderr) -> None:
    """The same, at most once a day: all conversations are looked at."""
    looked = layout.private / _LOOKED
    try:
        age = time.time() - looked.stat().st_mtime
    except OSError:
        age = _DAY
    if not 0 <= age < _DAY:
        write_whole(looked, b"")
        forget_conversations(layout, days, warn=warn)


def _too_old(memory: Memory, cutoff: datetime, *, conversation: bool) -> Iterator[tuple[Path, int, int]]:
    """The files of the archive that hold nothing newer, with how many exchanges and bytes; and, to be counted, what of
    the conversation would go there."""
    archive = memory.folder / "archive"
    paths: list[Path] = []
    if archive.is_dir() and not archive.is_symlink():
        paths = [
            *sorted(archive.glob("conversation-*.md")),
            *sorted(archive.glob("cleared-*/conversation.md")),
        ]
    for path in paths:
        data = read_regular(path) or b""
        groups = [of_turns(turns) for turns in grouped(turns_of(data))]
        last = next((one.time for one in reversed(groups) if one.time), "")
        if groups and is_before(last, cutoff):
            yield path, len(groups), len(data)
    if conversation:
        data = read_regular(memory.conversation) or b""
        groups = [of_turns(turns) for turns in grouped(turns_of(data))]
        count = 0
        for one in groups:
            if not is_before(one.time, cutoff):
                break
            count += 1
        if count:
            said = groups[:count]
            yield (
                memory.conversation,
                count,
                sum(len(turn.text.encode(errors="replace")) for one in said for turn in one.turns),
            )


def is_before(moment: str, cutoff: datetime) -> bool:
    """Whether an ISO 8601 time is before `cutoff`; what has none is not known to be."""
    try:
        found = datetime.fromisoformat(moment.replace("Z", "+00:00"))
    except ValueError:
        return False
    return (found if found.tzinfo else found.replace(tzinfo=timezone.utc)) < cutoff


def _forget(memory: Memory, path: Path) -> None:
    """Remove an archived part, and first what leads to it from the notes."""
    for notes in (memory.notes, memory.folder / "archive" / "notes.md"):
        with locked(memory.folder / "notes.md.lock", what=f"the notes of {memory.identity.path}"):
            data = read_regular(notes)
            named = f"; archive/{path.name})".encode()
            if data is not None and named in data:
                write_whole(notes, data.replace(named, b"; no longer kept)"))
    path.unlink(missing_ok=True)


def _unfinished(layout: Layout, cutoff: float) -> Iterator[Path]:
    folder = layout.conversations
    if folder.is_dir() and not folder.is_symlink():
        for path in sorted(folder.glob("*.md")):
            if path.name.startswith((_UNFINISHED, _KEPT)) and _is_older(path, cutoff):
                yield path


def _past(layout: Layout, cutoff: float) -> Iterator[Path]:
    """What conversations were before a command changed them."""
    for folder, _, names in os.walk(layout.conversations / _PAST):
        yield from (
            path
            for name in sorted(names)
            if _is_older(path := Path(folder, name), cutoff) and path.suffix == ".md"
        )


def _is_older(path: Path, cutoff: float) -> bool:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_mtime < cutoff


def _removed(layout: Layout, path: Path) -> bool:
    """Remove the conversation of an edit, unless that is at work."""
    if path.name.startswith(_KEPT):
        path.unlink(missing_ok=True)
        return True
    lock = layout.locks / path.stem
    try:
        with locked(lock, timeout=0.0, what=path.stem):
            path.unlink(missing_ok=True)
            path.with_name(f"{path.name}.lock").unlink(missing_ok=True)
            lock.unlink(missing_ok=True)
    except Busy:
        return False
    return True
