"""Garbage collection: archive memories whose file is gone, and forget conversations older than
`conversations.keep_days`.

Old exchanges about a file are compacted into notes, and archived conversations are removed when all of their exchanges
are too old. Conversations of unfinished edits, the copies kept for undo, and the text and output of past runs are
removed too. Named conversations, notes and the list of edits stay.
"""

from __future__ import annotations

import io
import os
import stat
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from hashlib import sha256
from pathlib import Path
from typing import Literal

from repoagent.dataclass import dataclass
from repoagent.errors import Busy, Refused
from repoagent.git.worktree import WorkTree
from repoagent.memory.archive.format import (
    ARCHIVE,
    ArchivedMemory,
    contents,
    dumps,
    fits,
    listing,
    lock_memory,
    move,
    of_parcels,
    read_archive,
    scratch,
    turns_of,
)
from repoagent.memory.archive.orphans import Orphans, forget_run, old_runs
from repoagent.memory.compaction import compact_before
from repoagent.memory.edit_records import exchange_of, group_turns
from repoagent.memory.identity.hints import open_index
from repoagent.memory.identity.record import FILE, Memory, load
from repoagent.memory.identity.store import memories, memory_lock
from repoagent.storage import json_files
from repoagent.storage.atomic import read_regular, write_whole
from repoagent.storage.layout import Layout, Warn, to_stderr
from repoagent.storage.locks import locked

DAYS = 14  # as long as git itself keeps what nothing leads to
_DAY = 86_400
Verdict = Literal["orphan", "kept", "put away"]


@dataclass(frozen=True)
class GcCandidate:
    """A memory without its file in this work tree. `size` is in bytes, `used` the time of its last change in seconds
    since 1970; `why` it is kept; `archive` is where it was put."""

    memory: Memory
    size: int
    used: float
    verdict: Verdict
    why: str = ""
    archive: Path | None = None


@dataclass(frozen=True)
class GcResult:
    """Those that have no file here, by path, and how many memories there are in all."""

    judged: tuple[GcCandidate, ...]
    memories: int


def collect(
    layout: Layout,
    worktree: WorkTree,
    *,
    days: int = DAYS,
    apply: bool = False,
    now: float | None = None,
    warn: Warn = to_stderr,
) -> GcResult:
    """Which memories have lost their file and were not changed for `days` days; with `apply` they are archived.

    What has a file in any work tree, or whose file any branch or stash has, also under another name, stays; so does
    what is locked, or waits for an edit to be remembered, or holds a file that is none of ours. A kill leaves each
    memory here or in the archive, or in both. Raises Busy while another process is at it, Refused where nothing can be
    written.
    """
    present = time.time() if now is None else now
    judged = _judged(layout, worktree, days, present, warn)
    if apply and any(one.verdict == "orphan" for one in judged[0]):
        with scratch(layout) as place:
            judged = (
                [
                    _put(layout, worktree, one, place / str(number)) if one.verdict == "orphan" else one
                    for number, one in enumerate(judged[0])
                ],
                judged[1],
            )
    return GcResult(tuple(judged[0]), judged[1])


def archive_folder(layout: Layout) -> Path:
    return layout.root / ARCHIVE


def archive_memory(layout: Layout, memory: Memory, object_format: str) -> Path:
    """Keep a memory as it is, as an archive; where that is. The caller sees to it that it does not change."""
    data = dumps(of_parcels([_parcel(memory)], object_format, whole=True))
    path = archive_folder(layout) / f"{memory.folder.name}-{sha256(data).hexdigest()[:8]}.tar.gz"
    write_whole(path, data)
    return path


def _parcel(memory: Memory) -> ArchivedMemory:
    files = [path for path in listing(memory.folder)[0] if path != FILE and fits(path, whole=True)]
    return ArchivedMemory(memory.folder.name, memory.identity, contents(memory.folder, files))


def _judged(
    layout: Layout, worktree: WorkTree, days: int, now: float, warn: Warn
) -> tuple[list[GcCandidate], int]:
    with open_index(layout, warn) as index:
        index.look_again()
        orphans = Orphans(layout, worktree, index)
        found = [(name, index.identity(name)) for name in orphans.found()]
        memories = [
            Memory(layout.memory / name, identity) for name, identity in found if identity is not None
        ]
        left = orphans.left(memories)
        count = len(index.paths())
    waited_for = _waited_for(layout)
    judged = []
    for memory in sorted(memories, key=lambda one: (one.identity.path, one.folder.name)):
        size, used = _measured(memory.folder)
        why = left.get(memory.folder.name, "") or _strange(memory.folder)
        if not why and memory.folder.name in waited_for:
            why = "an edit of its file has not been recorded yet"
        if not why and used > now - days * _DAY:
            why = f"changed less than {days} days ago"
        judged.append(GcCandidate(memory, size, used, "kept" if why else "orphan", why))
    return judged, count


def _measured(folder: Path) -> tuple[int, float]:
    """Its size in bytes, and when one of its files was last changed."""
    found = [(folder / path).lstat() for path in listing(folder)[0]]
    return sum(one.st_size for one in found), max((one.st_mtime for one in found), default=0.0)


def _strange(folder: Path) -> str:
    files, others = listing(folder)
    names = [path for path in files if path != FILE and not fits(path, whole=True)] + others
    return f"contains {names[0]}, which repoagent did not create" if names else ""


def _waited_for(layout: Layout) -> set[str]:
    """The memories that an edit was about which was killed before it was remembered, or is at work."""
    names: set[str] = set()
    for path in layout.pending.glob("*.json") if layout.pending.is_dir() else ():
        value = json_files.parse(path.read_bytes())
        memories = None if value is None else value.get("memories")
        if isinstance(memories, dict):
            names |= {str(name) for name in memories.values()}
    return names


def _put(layout: Layout, worktree: WorkTree, one: GcCandidate, place: Path) -> GcCandidate:
    folder = one.memory.folder
    try:
        with memory_lock(layout), lock_memory(folder, timeout=0.0):
            identity = load(folder, warn=lambda sentence: None)
            if identity != one.memory.identity or _measured(folder) != (one.size, one.used):
                return _kept(one, "changed just now")
            path = archive_memory(layout, one.memory, worktree.object_format)
            if not _is_whole(path, one.memory):
                return _kept(one, f"could not verify {path}")
            move(folder, place)
    except Busy as error:
        return _kept(one, str(error))
    return GcCandidate(one.memory, one.size, one.used, "put away", archive=path)


def _is_whole(path: Path, memory: Memory) -> bool:
    with io.BytesIO(path.read_bytes()) as stream:
        archive = read_archive(stream, path.name, own=True)
    return archive.parcels == (_parcel(memory),)


def _kept(one: GcCandidate, why: str) -> GcCandidate:
    return GcCandidate(one.memory, one.size, one.used, "kept", why)


def total(judged: Sequence[GcCandidate], verdict: Verdict) -> int:
    """The bytes of those with this verdict."""
    return sum(one.size for one in judged if one.verdict == verdict)


_LOOKED = "conversations-looked-through"
_UNFINISHED, _KEPT, _PAST = "edit-", "kept-", ".past"


@dataclass(frozen=True)
class ForgottenCounts:
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
) -> ForgottenCounts:
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
            warn(f"kept the conversation about {memory.identity.path}: {error}")
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
    return ForgottenCounts(exchanges, count, len(past), size, len(past_runs))


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
        groups = [exchange_of(turns) for turns in group_turns(turns_of(data))]
        last = next((one.time for one in reversed(groups) if one.time), "")
        if groups and is_before(last, cutoff):
            yield path, len(groups), len(data)
    if conversation:
        data = read_regular(memory.conversation) or b""
        groups = [exchange_of(turns) for turns in group_turns(turns_of(data))]
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
