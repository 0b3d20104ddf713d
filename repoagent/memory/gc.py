"""Garbage collection: archive memories whose file is gone, and remove conversations older than
`conversations.keep_days`.

A memory without a file moves to `.repoagent/archive/`; `memory import` restores it. Old exchanges about a file are
compacted into notes, and archived conversations are removed once all their exchanges are too old. Old conversations of
unfinished edits, copies for undo, and the text and output of past runs are removed as well. Named conversations, notes
and the list of edits stay.
"""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Literal

from repoagent.dataclass import dataclass
from repoagent.display_text import list_some, plural
from repoagent.errors import Busy, Refused
from repoagent.git.files import blob_hash
from repoagent.git.objects import files_in
from repoagent.git.process import git
from repoagent.git.worktree import WorkTree
from repoagent.memory.archive import lock_memory, turns_of
from repoagent.memory.compaction import compact_before, old_count
from repoagent.memory.edit_records import Exchange, exchange_of, group_turns
from repoagent.memory.identity.memory_index import open_index
from repoagent.memory.identity.record import Memory, load_identity
from repoagent.memory.identity.store import memory_lock, read_memories
from repoagent.memory.listing import FileLocator, measure_memory, worktree_tops
from repoagent.storage import json_files
from repoagent.storage.atomic import move_durably, read_regular, write_whole
from repoagent.storage.layout import Layout, Warn, to_stderr
from repoagent.storage.locks import hold_lock, lock_holder

DAYS = 14  # the time for which git keeps unreachable objects
_DAY = 86_400
_STAMP = "conversations-looked-through"


@dataclass(frozen=True)
class GcCandidate:
    """A memory whose file is not in this work tree.

    size: the size in bytes.
    used: the time of its last change, in seconds since 1970.
    why: the reason not to archive it, or "".
    archive: the folder that it was moved to, or None.
    """

    memory: Memory
    size: int
    used: float
    why: str = ""
    archive: Path | None = None

    @property
    def verdict(self) -> Literal["orphan", "kept", "archived"]:
        return "kept" if self.why else "orphan" if self.archive is None else "archived"


def collect_garbage(
    layout: Layout, worktree: WorkTree, *, days: int = DAYS, apply: bool = False, warn: Warn = to_stderr
) -> tuple[list[GcCandidate], int]:
    """Return the memories without a file, sorted by path, and the total number of memories.

    With `apply`, those that have not changed for `days` days are archived. A memory stays if its path or one of its
    versions is in a work tree or on a branch, if it is in use, or if there are too many new files to look for its file
    among them. Raises Refused if the archive cannot be written.
    """
    cutoff = time.time() - days * _DAY
    with open_index(layout, warn) as index:
        locator = FileLocator(layout, worktree, index)
        paths = index.paths()
        names = [name for name, path in paths if locator.locate(name, path).state == "orphaned"]
        orphans = [
            Memory(layout.memory / name, identity) for name in names if (identity := index.identity(name))
        ]
        not_compared = locator.not_compared if orphans else 0
    reasons = dict(_uses(layout, worktree, orphans)) if orphans else {}
    judged = []
    for memory in sorted(orphans, key=lambda memory: (memory.identity.path, memory.folder.name)):
        measure, archive = measure_memory(memory.folder), None
        why = reasons.get(memory.folder.name, "")
        if not why and measure.used > cutoff:
            why = f"changed less than {plural(days, 'day')} ago"
        if not why and not_compared:
            why = f"the search for its file skipped {plural(not_compared, 'new file')}"
        if apply and not why:
            try:
                with memory_lock(layout), lock_memory(memory.folder, timeout=0.0):
                    if (
                        load_identity(memory.folder) != memory.identity
                        or measure_memory(memory.folder).used != measure.used
                    ):
                        why = "changed just now"
                    else:
                        name = memory.folder.name
                        free = (name, *(f"{name}-{number}" for number in range(2, 1000)))
                        targets = map(layout.archived_memory.joinpath, free)
                        archive = next(path for path in targets if not os.path.lexists(path))
                        move_durably(memory.folder, archive)
            except Busy as error:
                why = str(error)
        judged.append(GcCandidate(memory, measure.size, measure.used, why, archive))
    return judged, len(paths)


def _uses(layout: Layout, worktree: WorkTree, orphans: Sequence[Memory]) -> Iterator[tuple[str, str]]:
    """(folder, reason) for memories that must stay."""
    for file in layout.pending.glob("*.json") if layout.pending.is_dir() else ():
        pending = (json_files.parse_document(file.read_bytes()) or {}).get("memories")
        for folder in map(str, pending.values()) if isinstance(pending, dict) else ():
            yield folder, "an edit to its file has not been recorded yet"
    tips = git(worktree.top, "rev-parse", "--branches", "--remotes").decode().split()
    trees = git(worktree.top, "worktree", "list", "--porcelain").split(b"\n")
    heads = [line.removeprefix(b"HEAD ").decode() for line in trees if line.startswith(b"HEAD ")]
    tips += [head for head in heads if head.strip("0")]
    files = files_in(worktree, list(dict.fromkeys(tips))) if tips else []
    paths, paths_by_blob = {path for path, _ in files}, {blob: path for path, blob in files}
    empty, tops = blob_hash(b"", worktree.object_format), worktree_tops(worktree)
    for memory in orphans:
        for blob in {*memory.identity.blobs} - {empty}:
            if blob in paths_by_blob:
                yield memory.folder.name, f"a branch contains the same content in {paths_by_blob[blob]}"
        for name in {memory.identity.path, *(seen.path for seen in memory.identity.places.values())}:
            for top in (top for top in tops if os.path.lexists(f"{top}/{name}")):
                yield memory.folder.name, f"{top} has a file {name}"
            if name in paths:
                yield memory.folder.name, f"a branch contains the file {name}"


@dataclass(frozen=True)
class ForgottenCounts:
    """The numbers of old exchanges, conversations of unfinished edits, undo copies, and runs, and their total size in
    bytes."""

    exchanges: int = 0
    unfinished: int = 0
    copies: int = 0
    bytes: int = 0
    runs: int = 0

    def __bool__(self) -> bool:
        return bool(self.exchanges or self.unfinished or self.copies or self.runs)


def forget_conversations(
    layout: Layout, days: int, *, apply: bool = True, warn: Warn = to_stderr
) -> ForgottenCounts:
    """Remove conversations older than `days` days; without `apply`, only count them. Locked conversations stay."""
    cutoff = time.time() - days * _DAY
    counts, size, left = Counter[str](), 0, list[str]()
    for memory in read_memories(layout, warn=warn):
        try:
            for count, length in _forget_exchanges(memory, cutoff, apply=apply, warn=warn):
                counts["exchanges"] += count
                size += length
        except (Busy, Refused) as error:
            warn(f"skipped the conversation about {memory.identity.path}: {error}")
    for kind, paths, lock in list(_old_files(layout, cutoff)):
        size += sum(map(_size, paths))
        if apply:
            with (
                suppress(Busy),
                nullcontext() if lock is None else hold_lock(lock, timeout=0.0, label=lock.name),
            ):
                for path in paths:
                    if path.is_dir() and not path.is_symlink():
                        shutil.rmtree(path, ignore_errors=True)
                    else:
                        with suppress(OSError):
                            path.unlink(missing_ok=True)
                left += map(str, filter(os.path.lexists, paths))
        # what another process has locked is still there
        counts[kind] += not (apply and any(map(os.path.lexists, paths)))
    if left:
        warn(f"could not remove {list_some(left, 3)}; check the permissions of their folders")
    return ForgottenCounts(bytes=size, **counts)


def forget_daily(layout: Layout, days: int) -> None:
    """Call `forget_conversations`, at most once a day because it reads all conversations."""
    stamp = layout.private / _STAMP
    try:
        age = time.time() - stamp.stat().st_mtime
    except OSError:
        age = _DAY
    if not 0 <= age < _DAY:
        write_whole(stamp, b"")
        forget_conversations(layout, days)


def _forget_exchanges(memory: Memory, cutoff: float, *, apply: bool, warn: Warn) -> Iterator[tuple[int, int]]:
    """(exchanges, bytes) of each conversation that is archived, or would be, and too old."""

    def is_old(time: str) -> bool:
        """Whether an ISO 8601 time is before the cutoff; False if it is invalid."""
        try:
            parsed = datetime.fromisoformat(time.replace("Z", "+00:00"))
        except ValueError:
            return False
        return (parsed if parsed.tzinfo else parsed.replace(tzinfo=timezone.utc)).timestamp() < cutoff

    def exchanges_in(data: bytes) -> list[Exchange]:
        return [exchange_of(turns) for turns in group_turns(turns_of(data))]

    if apply:
        compact_before(memory, is_old, warn=warn)
    else:
        current = exchanges_in(read_regular(memory.conversation) or b"")
        old = current[: old_count(current, is_old)]
        yield len(old), sum(len(turn.text.encode(errors="replace")) for each in old for turn in each.turns)
    archive = memory.folder / "archive"
    if not archive.is_dir() or archive.is_symlink():
        return
    for pattern in ("conversation-*.md", "cleared-*/conversation.md"):
        for path in sorted(archive.glob(pattern)):
            data = read_regular(path) or b""
            archived = exchanges_in(data)
            if not is_old(next((each.time for each in reversed(archived) if each.time), "")):
                continue
            yield len(archived), len(data)
            if apply:
                path.unlink(missing_ok=True)


def _old_files(layout: Layout, cutoff: float) -> Iterator[tuple[str, list[Path], Path | None]]:
    """(kind, files, lock while in use) of what has not changed since `cutoff` and has no name by a user."""
    for path in (layout.conversations / ".past").rglob("*.md"):
        if _is_old([path], cutoff):
            yield "copies", [path], None
    ours = ("run-", "chat-")
    homes = {path.name: path for path in _entries(layout.runs) if path.is_dir() and not path.is_symlink()}
    for path in _entries(layout.conversations):
        name, files = path.stem, [path, path.with_name(f"{path.name}.lock")]
        if path.suffix != ".md" or not _is_old([path], cutoff):
            continue
        if path.name.startswith(("edit-", "kept-")):
            yield "unfinished", [*files, layout.locks / name], layout.locks / name
        elif name.casefold().startswith(ours) and name not in homes:
            yield "runs", files, None
    for name, home in homes.items():
        if name.startswith(".gone-"):  # its removal was interrupted
            yield "runs", [home], None
            continue
        paths = [home / item for item in ("output", "inbox", "checkpoint.md", "plan.md")]
        if name.casefold().startswith(ours):
            paths += [layout.conversations / f"{name}.md", layout.conversations / f"{name}.md.lock"]
        paths = [path for path in paths if os.path.lexists(path)]
        # the folder's own time changes with run.json, which is replaced at each step and at the end
        if paths and _is_old([home, *paths], cutoff) and lock_holder(home / "lock") is None:
            yield "runs", paths, home / "lock"


def _entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() and not folder.is_symlink() else []


def _is_old(paths: Sequence[Path], cutoff: float) -> bool:
    try:
        return all(path.lstat().st_mtime < cutoff for path in paths)
    except FileNotFoundError:  # another process is removing them
        return False


def _size(path: Path) -> int:
    with suppress(FileNotFoundError):  # another process has removed it
        if path.is_dir() and not path.is_symlink():
            return sum(map(_size, path.iterdir()))
        return path.lstat().st_size
    return 0
