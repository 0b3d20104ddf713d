"""A memory folder as a parcel: read under its locks, and what is secret in it masked."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.llm.conversation import loads
from repoagent.memory.archive.form import (
    ARCHIVED_NOTES,
    CONVERSATION,
    EDITS,
    NAME,
    NOTES,
    Parcel,
    fits,
)
from repoagent.memory.archive.lines import record_of
from repoagent.memory.identity.record import FILE, Memory
from repoagent.memory.records import EditRecord
from repoagent.store import Warn, document, locked, read_regular
from repoagent.store.folders import folder
from repoagent.store.masking import mask

_LOCKED = (CONVERSATION, NOTES)  # in the order in which compacting takes them
_LEFT_OUT = re.compile(r"(?:archive/)?(?:[^/]*\.lock|\.tmp-[^/]*)")
_FOLDER = re.compile(r"archive(?:/cleared-[^/]+)?")
_BROKEN = re.compile(r"\.broken-\d+$")
_SAID_AS_IT_IS = {"id", "path", "source_blob", "result_blob", "commit", "time", "version"}


@dataclass(frozen=True)
class Packed:
    """A memory for an archive; `broken` files and `lines` of edits could not be taken, `masked` keys and tokens
    were."""

    parcel: Parcel
    broken: int = 0
    lines: int = 0
    masked: int = 0


@contextmanager
def held(place: Path, *, timeout: float = 10.0) -> Iterator[None]:
    """Hold the locks of what is said and noted in the memory folder `place`. Raises Busy, or Refused."""
    with ExitStack() as locks:
        for name in _LOCKED:
            locks.enter_context(
                locked(place / f"{name}.lock", timeout=timeout, what=f"the memory {place.name}")
            )
        yield


def listing(place: Path, below: str = "") -> tuple[list[str], list[str]]:
    """The files of a memory folder and its archive by their path in it, and what else is there. Locks are neither."""
    files, others = [], []
    try:
        with folder(place / below) as opened, os.scandir(opened) as found:
            entries = [(below + entry.name, entry.stat(follow_symlinks=False).st_mode) for entry in found]
    except FileNotFoundError:
        return [], []
    for path, mode in entries:
        if stat.S_ISDIR(mode) and _FOLDER.fullmatch(path):
            inside = listing(place, path + "/")
            files += inside[0]
            others += inside[1]
        elif not stat.S_ISREG(mode):
            others.append(path)
        elif not _LEFT_OUT.fullmatch(path):
            files.append(path)
    return sorted(files), sorted(others)


def contents(place: Path, paths: list[str]) -> dict[str, bytes]:
    """The files as they are; what is gone by now is left out."""
    read = ((path, read_regular(place / path)) for path in paths)
    return {path: data for path, data in read if data is not None}


def pack(memory: Memory, warn: Warn, *, conversations: bool = True) -> Packed:
    """What may be shared of a memory: no key of this machine, no content of its file, no secret.

    Raises Busy when its locks are held for too long, Refused where they can't be taken.
    """
    with held(memory.folder):
        files, _ = listing(memory.folder)
        wanted = [
            path
            for path in files
            if path != FILE
            and fits(path, whole=False)
            and (conversations or path in (NOTES, EDITS, ARCHIVED_NOTES))
        ]
        found = contents(memory.folder, wanted)
    broken = sum(bool(_BROKEN.search(path)) for path in files)
    masked = lines = 0
    taken: dict[str, bytes] = {}
    for path, data in found.items():
        if path == EDITS:
            clean, lines, count = _edits(data)
        elif path in (NOTES, ARCHIVED_NOTES):
            clean, count = _masked(data.decode("utf-8", "replace"))
        else:
            text = data.decode("utf-8", "surrogateescape")
            try:
                loads(text)
            except Refused as error:
                warn(f"{memory.folder / path} is left out: {error}")
                broken += 1
                continue
            clean, count = _masked(text)
        masked += count
        if clean.strip():
            taken[path] = clean
    return Packed(Parcel(_name(memory.folder.name), memory.identity, taken), broken, lines, masked)


def _name(name: str) -> str:
    """The name of the folder; a person may have given it one that is none everywhere."""
    if NAME.fullmatch(name):
        return name
    return (re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:60] or "memory") + f"-{_short(name)}"


def _short(text: str) -> str:
    from hashlib import sha256

    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def _masked(text: str) -> tuple[bytes, int]:
    clean = mask(text)
    return clean.encode("utf-8", "surrogateescape"), clean.count("<<secret ") - text.count("<<secret ")


def _edits(data: bytes) -> tuple[bytes, int, int]:
    """Each edit as its last line has it, how many lines are none, and how many secrets were masked."""
    records: dict[str, Mapping[str, Any]] = {}
    skipped = masked = 0
    for line in data.split(b"\n"):
        value = record_of(line)
        if value is not None:
            records[value["id"]] = value
        elif line.strip():
            skipped += 1
    lines = []
    for record in records.values():
        clean = {
            name: mask(said) if isinstance(said, str) and name not in _SAID_AS_IT_IS else said
            for name, said in record.items()
        }
        masked += sum(clean[name] != said for name, said in record.items())
        lines.append(document.dumps(clean))
    return b"".join(line + b"\n" for line in lines), skipped, masked


def known_edits(data: bytes) -> list[EditRecord]:
    """The edits in the bytes of an `edits.jsonl`, each as its last line has it."""
    found = (record_of(line) for line in data.split(b"\n"))
    records = (EditRecord.from_dict(value) for value in found if value is not None)
    return list({record.id: record for record in records if record is not None}.values())
