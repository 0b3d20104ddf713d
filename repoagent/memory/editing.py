"""Edit, clear and restore the texts of a memory.

Edited notes are merged with concurrent changes. Cleared parts move to the memory's archive and can be restored from
there; nothing is deleted.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Collection
from contextlib import AbstractContextManager, suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Literal

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.git.merge import Conflict, merge
from repoagent.git.worktree import WorkTree
from repoagent.llm.conversation import BrokenConversation, Conversation, NewerConversation, dumps, loads
from repoagent.memory.identity.record import Memory
from repoagent.memory.notes import note_entries, rewrite_notes, with_final_newline
from repoagent.storage.atomic import locked_file, move_durably, read_regular, write_whole
from repoagent.storage.folders import open_folder, system_failed
from repoagent.storage.locks import hold_lock


class EditConflict(Refused):
    """Another program changed the same lines."""


def save_notes(memory: Memory, worktree: WorkTree, before: bytes, after: bytes) -> bool:
    """Save notes that a user edited from `before` to `after`; return whether they were merged with concurrent changes.

    Raises EditConflict if both changed the same lines, and what `notes.rewrite_notes` raises.
    """

    def change(current: bytes) -> tuple[bytes, bool]:
        if current == before:
            return after, False
        if current.startswith(before):
            return with_final_newline(after) + current[len(before) :], True
        merged = merge(worktree, current, before, after)
        if isinstance(merged, Conflict):
            raise EditConflict("another program changed the same lines of the notes")
        return merged, True

    return rewrite_notes(memory.notes, change)


def keep_text(memory: Memory | None, name: str, data: bytes) -> Path:
    """Preserve a text that could not be saved: write it to the archive or, failing that, to a temporary file.

    Return the path of the file.
    """
    if memory is not None:
        path = memory.folder / "archive" / f"edited-{datetime.now(timezone.utc):%Y%m%dT%H%M%SZ}-{name}"
        with suppress(Refused):  # perhaps why it could not be saved
            write_whole(path, data)
            return path
    with tempfile.NamedTemporaryFile(prefix="repoagent-", suffix=f"-{name}", delete=False) as file:
        file.write(data)
    return Path(file.name)


Part = Literal["notes", "conversation", "edits"]
PARTS: tuple[Part, ...] = ("notes", "conversation", "edits")
_FOLDER = re.compile(r"cleared-\d{8}T\d{6}Z(-\d+)?")


@dataclass(frozen=True)
class ArchivedParts:
    """A folder in a memory's archive, and the size in bytes of each part in it."""

    folder: Path
    parts: dict[Part, int]


def part_file(memory: Memory, part: Part) -> Path:
    """Return the path of the file for `part`, which need not exist."""
    return {"notes": memory.notes, "conversation": memory.conversation, "edits": memory.edits}[part]


def part_sizes(memory: Memory, parts: Collection[Part] = PARTS) -> dict[Part, int]:
    """The sizes in bytes of the `parts` that are not empty. Raises Refused if one is not a regular file."""
    sizes: dict[Part, int] = {}
    for part in PARTS:
        data = read_regular(part_file(memory, part)) if part in parts else None
        if data and not (part == "notes" and not note_entries(data)):
            sizes[part] = len(data)
    return sizes


def clear(memory: Memory, parts: Collection[Part] = PARTS) -> ArchivedParts | None:
    """Move `parts` to a new folder in the archive, each of them atomically; return None if all are empty.

    Raises Busy if a lock is not released in time, Refused if a file cannot be moved.
    """
    sizes = part_sizes(memory, parts)
    if not sizes:
        return None
    archive, name = memory.folder / "archive", f"cleared-{datetime.now(timezone.utc):%Y%m%dT%H%M%SZ}"
    with open_folder(archive, create=True) as parent:
        free = map(archive.joinpath, (name, *(f"{name}-{number}" for number in range(2, 1000))))
        folder = next(path for path in free if not os.path.lexists(path))
        try:
            os.mkdir(folder.name, 0o700, dir_fd=parent)
        except OSError as error:
            raise system_failed("make", folder, error) from error
    moved: dict[Part, int] = {}
    for part, size in sizes.items():
        with _locked_part(memory, part):
            if move_durably(part_file(memory, part), folder / part_file(memory, part).name):
                moved[part] = size
    return ArchivedParts(folder, moved)


def archived_parts(memory: Memory) -> list[ArchivedParts]:
    """The parts that `clear` moved to the archive, newest last."""
    archive = memory.folder / "archive"
    names = [path.name for path in archive.iterdir()] if archive.is_dir() else []
    result = []
    for name in sorted(name for name in names if _FOLDER.fullmatch(name)):
        files: dict[Part, Path] = {part: archive / name / part_file(memory, part).name for part in PARTS}
        parts = {part: path.lstat().st_size for part, path in files.items() if path.is_file()}
        if parts:
            result.append(ArchivedParts(archive / name, parts))
    return result


def restore(memory: Memory, archived: ArchivedParts) -> None:
    """Restore archived parts, placing them before content added since.

    Raises what `clear` raises, and what `loads` raises if a conversation cannot be read.
    """
    for part in archived.parts:
        target = part_file(memory, part)
        source = archived.folder / target.name
        with _locked_part(memory, part):
            old, current = read_regular(source), read_regular(target)
            if old is None:
                continue
            if not current:
                move_durably(source, target)
                continue
            if part == "notes":
                known, lines = {entry.note for entry in note_entries(old)}, current.split(b"\n")
                new = [entry for entry in note_entries(current) if entry.note not in known]
                texts = (b"\n".join(lines[entry.first : entry.end]) + b"\n" for entry in new)
                whole = with_final_newline(old) + b"".join(texts)
            elif part == "edits":
                whole = current if current.startswith(old) else with_final_newline(old) + current
            else:
                before, after = _conversation(source, old), _conversation(target, current)
                whole = current
                if after.turns[: len(before.turns)] != before.turns:  # else an earlier restore was killed
                    text = dumps((*before.turns, *after.turns), before.nonce)
                    whole = text.encode("utf-8", "surrogateescape")
            write_whole(target, whole)
            source.unlink()
    with suppress(OSError):  # the folder contains a file of the user
        archived.folder.rmdir()


def _conversation(path: Path, data: bytes) -> Conversation:
    try:
        return loads(data.decode("utf-8", "surrogateescape"))
    except (BrokenConversation, NewerConversation) as error:
        raise type(error)(f"{path}: {error}") from error


def _locked_part(memory: Memory, part: Part) -> AbstractContextManager[object]:
    """Lock a part: with its lock file, or for `edits.jsonl` the file itself."""
    path = part_file(memory, part)
    if part == "edits":
        return locked_file(path)
    return hold_lock(
        path.with_name(path.name + ".lock"), label=f"the {part} {memory.folder.name}/{path.name}"
    )
