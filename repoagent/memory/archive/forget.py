"""Remove conversations older than `conversations.keep_days`.

Old exchanges about a file are compacted into notes, and archived conversations are removed once all of their exchanges
are too old; so are the conversations of unfinished edits, the copies for undo, and the text and output of past runs.
Named conversations, notes and the list of edits stay.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.errors import Busy, Refused
from repoagent.memory.archive.format import turns_of
from repoagent.memory.compaction import compact_before, old_count
from repoagent.memory.edit_records import exchange_of, group_turns
from repoagent.memory.identity.record import Memory
from repoagent.memory.identity.store import memories
from repoagent.storage.atomic import read_regular, write_whole
from repoagent.storage.folders import system_failed
from repoagent.storage.layout import Layout, Warn, to_stderr
from repoagent.storage.locks import lock_holder, locked

_DAY = 86_400
_STAMP = "conversations-looked-through"


@dataclass(frozen=True)
class ForgottenCounts:
    """Numbers of too old exchanges about files, conversations of unfinished edits, copies for undo, and past runs; and
    their total size in bytes."""

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
    """Remove conversations older than `days` days; without `apply` only count them.

    Locked ones stay until the next call, which also completes an interrupted removal.
    """
    cutoff = (time.time() if now is None else now) - days * _DAY
    exchanges = size = unfinished = runs = 0
    for memory in memories(layout, warn=warn):
        try:
            for count, length in _forget_exchanges(memory, cutoff, apply=apply, warn=warn):
                exchanges, size = exchanges + count, size + length
        except (Busy, Refused) as error:
            warn(f"kept the conversation about {memory.identity.path}: {error}")
    for path in _inside(layout.conversations):
        if path.suffix == ".md" and path.name.startswith(("edit-", "kept-")) and _is_old([path], cutoff):
            size += path.lstat().st_size
            unfinished += not apply or _remove_unfinished(layout, path)
    copies = [path for path in (layout.conversations / ".past").rglob("*.md") if _is_old([path], cutoff)]
    size += sum(path.lstat().st_size for path in copies)
    for run in list(_old_runs(layout, cutoff)):
        size += sum(map(_size, run.paths))
        runs += not apply or run.remove()
    for path in copies if apply else ():
        path.unlink(missing_ok=True)
    return ForgottenCounts(exchanges, unfinished, len(copies), size, runs)


def forget_daily(layout: Layout, days: int, *, warn: Warn = to_stderr) -> None:
    """Call `forget_conversations`, at most once a day because it reads all conversations."""
    stamp = layout.private / _STAMP
    try:
        age = time.time() - stamp.stat().st_mtime
    except OSError:
        age = _DAY
    if not 0 <= age < _DAY:
        write_whole(stamp, b"")
        forget_conversations(layout, days, warn=warn)


def _forget_exchanges(memory: Memory, cutoff: float, *, apply: bool, warn: Warn) -> Iterator[tuple[int, int]]:
    """Numbers of exchanges and bytes of each archived conversation that is too old; without `apply` also those that
    would move to the archive from the current conversation."""

    def is_old(time: str) -> bool:
        return is_before(time, cutoff)

    if apply:
        compact_before(memory, is_old, warn=warn)
    archive = memory.folder / "archive"
    patterns = ("conversation-*.md", "cleared-*/conversation.md")
    is_folder = archive.is_dir() and not archive.is_symlink()
    for path in [path for pattern in patterns for path in sorted(archive.glob(pattern))] if is_folder else ():
        data = read_regular(path) or b""
        archived = [exchange_of(turns) for turns in group_turns(turns_of(data))]
        if archived and is_old(next((exchange.time for exchange in reversed(archived) if exchange.time), "")):
            yield len(archived), len(data)
            if apply:
                _forget(memory, path)
    if not apply:
        current = [
            exchange_of(turns) for turns in group_turns(turns_of(read_regular(memory.conversation) or b""))
        ]
        old = current[: old_count(current, is_old)]
        yield (
            len(old),
            sum(len(turn.text.encode(errors="replace")) for exchange in old for turn in exchange.turns),
        )


def is_before(time: str, cutoff: float) -> bool:
    """Whether an ISO 8601 time is before `cutoff` (seconds since 1970); False if it is invalid."""
    try:
        parsed = datetime.fromisoformat(time.replace("Z", "+00:00"))
    except ValueError:
        return False
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=timezone.utc)).timestamp() < cutoff


def _forget(memory: Memory, path: Path) -> None:
    """Remove an archived conversation, after the references to it in the notes."""
    reference = f"; archive/{path.name})".encode()
    with locked(memory.folder / "notes.md.lock", what=f"the notes of {memory.identity.path}"):
        for notes in (memory.notes, memory.folder / "archive" / "notes.md"):
            data = read_regular(notes)
            if data is not None and reference in data:
                write_whole(notes, data.replace(reference, b"; removed)"))
    path.unlink(missing_ok=True)


def _remove_unfinished(layout: Layout, path: Path) -> bool:
    """Remove the conversation of an edit, unless the edit is running."""
    lock = layout.locks / path.stem
    try:
        with locked(lock, timeout=0.0, what=path.stem):
            path.unlink(missing_ok=True)
            path.with_name(f"{path.name}.lock").unlink(missing_ok=True)
            lock.unlink(missing_ok=True)
    except Busy:
        return False
    return True


@dataclass(frozen=True)
class _OldRun:
    """The files and folders to remove, and the lock of the run; None if it has no folder."""

    paths: Sequence[Path]
    lock: Path | None = None

    def remove(self) -> bool:
        """Remove the paths; return False if the run has been resumed. Raises Refused."""
        try:
            if self.lock is None:
                self._remove()
            else:
                with locked(self.lock, timeout=0.0, what="the run"):
                    self._remove()
        except Busy:
            return False
        return True

    def _remove(self) -> None:
        for path in self.paths:
            try:
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)
            except OSError as error:
                raise system_failed("remove", path, error) from error


def _old_runs(layout: Layout, cutoff: float) -> Iterator[_OldRun]:
    """The past runs with text or output that have not changed since `cutoff`. Conversations of runs with a name that a
    user chose stay."""
    ours = ("run-", "chat-")
    homes = {path.name: path for path in _inside(layout.runs) if path.is_dir() and not path.is_symlink()}
    for name, home in homes.items():
        if name.startswith(".gone-"):  # its removal was interrupted
            yield _OldRun([home])
            continue
        paths = [home / item for item in ("output", "inbox", "checkpoint.md", "plan.md")]
        if name.casefold().startswith(ours):
            paths += [layout.conversations / f"{name}.md", layout.conversations / f"{name}.md.lock"]
        paths = [path for path in paths if os.path.lexists(path)]
        # the folder's own time changes with run.json, which is replaced at each step and at the end
        if paths and _is_old([home, *paths], cutoff) and lock_holder(home / "lock") is None:
            yield _OldRun(paths, home / "lock")
    for path in _inside(layout.conversations):
        if path.suffix == ".md" and path.name.casefold().startswith(ours) and path.stem not in homes:
            paths = [item for item in (path, path.with_name(f"{path.name}.lock")) if os.path.lexists(item)]
            if _is_old(paths, cutoff):
                yield _OldRun(paths)


def _inside(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() and not folder.is_symlink() else []


def _is_old(paths: Sequence[Path], cutoff: float) -> bool:
    return all(path.lstat().st_mtime < cutoff for path in paths)


def _size(path: Path) -> int:
    if path.is_dir() and not path.is_symlink():
        return sum(map(_size, path.iterdir()))
    return path.lstat().st_size
