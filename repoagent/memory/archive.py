"""Export and import memories as a .tar.gz; the same memories give the same bytes.

    manifest.json                    version, kind, and the list of memories
    memory/NAME/identity.json        path, earlier paths and versions; nothing about the exporting machine
    memory/NAME/notes.md             and conversation.md, edits.jsonl, archive/*.md: as in `.repoagent`

Exported texts are read under the memory's locks, with secrets masked. Archives are untrusted, so each is read
completely first, up to a limit; files not listed above are ignored. A memory is attached to the file at its path if
they share a version. Imported notes are marked by their source ("person, imported from team.tar.gz"); they are compared
without this mark, so importing twice adds nothing.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import shutil
import tarfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from datetime import date
from hashlib import sha256
from pathlib import Path
from typing import IO, Literal

from repoagent.dataclass import dataclass
from repoagent.display_text import plural
from repoagent.errors import Refused
from repoagent.git.files import blob_hash, check_path
from repoagent.git.worktree import WorkTree
from repoagent.llm.conversation import Turn, loads
from repoagent.memory.edit_records import EditRecord, group_turns
from repoagent.memory.identity import record as identities
from repoagent.memory.identity.memory_index import EARLIER, PATH, IdentityIndex, open_index
from repoagent.memory.identity.record import Identity, Memory
from repoagent.memory.identity.renames import blob_at, keep_content, same_through_history
from repoagent.memory.identity.resolve import WorkTreeFile, file_at, find_memory
from repoagent.memory.identity.store import memory_lock, rekeying_event, release_key
from repoagent.memory.notes import COMPACTED, USER, Note, add_notes, has_same_words, note_entries, read_notes
from repoagent.storage import json_files
from repoagent.storage.atomic import move_durably, read_regular, write_whole
from repoagent.storage.folders import open_folder, system_failed
from repoagent.storage.layout import Layout, Warn, ensure_root, to_stderr
from repoagent.storage.locks import hold_lock
from repoagent.storage.secrets import mask

VERSION = 1
KIND = "memories of repoagent"
MANIFEST = "manifest.json"
NOTES, CONVERSATION, EDITS, ARCHIVED_NOTES = "notes.md", "conversation.md", "edits.jsonl", "archive/notes.md"
LARGEST = 256 * 2**20  # bytes, unpacked
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
SHARED = re.compile(
    r"notes\.md|conversation\.md|edits\.jsonl|archive/(?:notes|conversation-[A-Za-z0-9-]{1,60})\.md"
)
_MEMBER = re.compile(rf"memory/({NAME.pattern})/(identity\.json|{SHARED.pattern})")
_AUTHOR, _FROM = 36, 28  # characters: a source has at most 80
_STAGE = ".arriving"  # in the memory folder, which ignores such names
Outcome = Literal["new", "orphaned", "merged", "same"]


class NoArchive(Refused):
    """A file is not a valid archive of memories."""


@dataclass(frozen=True)
class ArchivedMemory:
    """One memory in an archive: its folder's name, its identity, and its other files by path within the folder.
    `masked` counts the secrets that the export masked."""

    name: str
    identity: Identity
    files: Mapping[str, bytes]
    masked: int = 0


def turns_of(data: bytes) -> tuple[Turn, ...]:
    """The turns of a conversation file. Raises what `llm.conversation.loads` raises."""
    return loads(data.decode("utf-8", "surrogateescape")).turns if data else ()


def _is_conversation(path: str) -> bool:
    return path not in (NOTES, EDITS, ARCHIVED_NOTES)


def _masked(path: str, data: bytes, about: str, warn: Warn) -> bytes:
    """The bytes of the file `path` of a memory with secrets masked. Edits have one line each; invalid ones are left
    out, with a warning that names the file `about`."""
    if path == EDITS:
        lines = [line for line in data.split(b"\n") if line.strip()]
        values = [value for line in lines if (value := json_files.parse_document(line)) is not None]
        valid = [value for value in values if EditRecord.from_dict(value) is not None]
        if left := len(lines) - len(valid):
            warn(
                f"left out {plural(left, 'edit record')} of {about}: damaged, or written by a newer repoagent"
            )
        latest = {value["id"]: {**value, "request": mask(value["request"])} for value in valid}
        return b"".join(json_files.dumps(value) + b"\n" for value in latest.values())
    errors = "surrogateescape" if _is_conversation(path) else "replace"
    return mask(data.decode("utf-8", errors)).encode("utf-8", errors)


@contextmanager
def lock_memory(folder: Path, *, timeout: float = 10.0) -> Iterator[None]:
    """Lock the texts of the memory in `folder`. Raises Busy if a lock is not released in time, Refused if it cannot be
    created."""
    with ExitStack() as locks:
        for name in (CONVERSATION, NOTES):  # in the order in which compacting takes them
            locks.enter_context(
                hold_lock(folder / f"{name}.lock", timeout=timeout, label=f"the memory {folder.name}")
            )
        yield


def pack_memory(memory: Memory, warn: Warn, *, conversations: bool = True) -> ArchivedMemory:
    """Return the parts of a memory that may be shared, without secrets or data about this machine.

    Raises Busy if the memory's locks are not released in time, Refused if they cannot be created.
    """
    folder, files, masked = memory.folder, dict[str, bytes](), 0
    with lock_memory(folder):
        paths = [NOTES, CONVERSATION, EDITS]
        if (folder / "archive").exists():
            with open_folder(folder / "archive") as opened, os.scandir(opened) as listed:
                paths += sorted(f"archive/{entry.name}" for entry in listed)
        texts = {path: read_regular(folder / path) or b"" for path in paths if SHARED.fullmatch(path)}
    for path, data in texts.items():
        if _is_conversation(path):
            if not conversations:
                continue
            try:
                turns_of(data)
            except Refused as error:
                warn(f"skipped {folder / path}: {error}")
                continue
        clean = _masked(path, data, memory.identity.path, warn)
        masked += clean.count(b"<<secret ") - data.count(b"<<secret ")
        if clean.strip():
            files[path] = clean
    name = folder.name
    if not NAME.fullmatch(name):  # the user has renamed the folder
        name = f"memory-{sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
    return ArchivedMemory(name, memory.identity, files, masked)


def dumps(parcels: Sequence[ArchivedMemory]) -> bytes:
    """The bytes of an archive. Raises Refused if it would be too large to read again."""
    parcels = sorted(parcels, key=lambda parcel: parcel.name)
    files: list[tuple[str, bytes]] = []
    for parcel in parcels:
        identity = asdict(replace(parcel.identity, keys={}, places={}))
        identity["rekeyings"] = [{**step, "key": ""} for step in identity["rekeyings"]]
        del identity["keys"], identity["places"]
        data = json_files.dumps({"version": 1, **identity}, indent=1) + b"\n"
        texts = {identities.FILE: data, **parcel.files}
        files += [(f"memory/{parcel.name}/{path}", data) for path, data in sorted(texts.items())]
    if sum(len(data) for _, data in files) > LARGEST // 2:
        raise Refused("the memories are too large for one archive; export fewer files or folders at a time")
    manifest = {
        "version": VERSION,
        "kind": KIND,
        "files": len(files),
        "memories": [{"name": parcel.name, "path": parcel.identity.path} for parcel in parcels],
    }
    packed = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=packed, compresslevel=6, mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name, data in [(MANIFEST, json_files.dumps(manifest, indent=1) + b"\n"), *files]:
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o600
            tar.addfile(member, io.BytesIO(data))
    return packed.getvalue()


# -- reading --


def read_archive(stream: IO[bytes], name: str) -> list[ArchivedMemory]:
    """Read an archive, whose `name` is for messages.

    Raises NoArchive if it is invalid, truncated or too large, NewerFormat if a newer repoagent wrote it.
    """
    memories: dict[str, dict[str, bytes]] = {}
    manifest = b""
    try:
        with gzip.GzipFile(fileobj=stream, mode="rb") as packed:
            unpacked = packed.read(LARGEST + 1)
        if len(unpacked) > LARGEST:
            raise ValueError(f"more than {LARGEST // 2**20} MiB")
        with tarfile.open(fileobj=io.BytesIO(unpacked), mode="r:") as tar:
            for member in tar:
                match = _MEMBER.fullmatch(member.name)
                if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or member.issparse():
                    continue
                content = tar.extractfile(member)
                data = b"" if content is None else content.read()
                if match:
                    memories.setdefault(match[1], {})[match[2]] = data
                elif member.name == MANIFEST:
                    manifest = data
        head = json_files.parse_document(manifest)
        if head is None or head.get("kind") != KIND:
            raise ValueError("it has no manifest; create the archive with `repoagent memory export`")
        if head["version"] == VERSION:
            parcels = []
            for folder, files in sorted(memories.items()):
                value = json_files.parse_document(files.pop(identities.FILE, b""))
                identity = None if value is None or value["version"] != 1 else identities.from_dict(value)
                if identity is None:
                    raise ValueError(f"the identity.json of {folder} is missing or invalid")
                for path in (identity.path, *identity.earlier_paths, *identity.strangers):
                    check_path(path)
                for path in filter(_is_conversation, files):
                    turns_of(files[path])
                parcels.append(ArchivedMemory(folder, replace(identity, keys={}, places={}), files))
            return parcels
    except (tarfile.TarError, EOFError, zlib.error, OSError, ValueError, OverflowError, Refused) as error:
        raise NoArchive(
            f"{name} is not a memory archive, or is damaged ({error}); nothing was imported"
        ) from error
    raise json_files.NewerFormat(
        f"{name} has format version {head['version']}, newer than the supported {VERSION}; update repoagent"
    )


# -- import --


@dataclass(frozen=True)
class ImportResult:
    """The result of importing one memory. `path` is its file's path in the archive, `at` the path in this work tree
    (None if the file is missing); `folder` is its memory in this repository, `why` the reason if no file matches.
    `notes`, `edits` and `exchanges` count the new ones."""

    path: str
    at: str | None
    folder: str
    outcome: Outcome
    why: str = ""
    notes: int = 0
    edits: int = 0
    exchanges: int = 0


def import_memories(
    layout: Layout,
    worktree: WorkTree,
    parcels: Sequence[ArchivedMemory],
    source: str,
    *,
    dry_run: bool = False,
    warn: Warn = to_stderr,
) -> list[ImportResult]:
    """Import memories; with `dry_run`, write nothing. `source` marks their notes ("imported from team").

    If the process is killed, each new memory is complete or missing, and importing again adds the rest. Raises Busy if
    a lock is not released in time, Refused if a memory cannot be written.
    """
    if not dry_run:
        ensure_root(layout)
    return [_import(layout, worktree, parcel, source, dry_run=dry_run, warn=warn) for parcel in parcels]


def _import(
    layout: Layout, worktree: WorkTree, parcel: ArchivedMemory, source: str, *, dry_run: bool, warn: Warn
) -> ImportResult:
    path = parcel.identity.path
    with ExitStack() as stack:
        if not dry_run:
            stack.enter_context(memory_lock(layout))
        index = stack.enter_context(open_index(layout, warn))
        file, folder, why = _find_target(layout, worktree, index, parcel)
        known = index.identity(folder) if folder else None
        if known is not None:
            saved = [
                note for text in (NOTES, ARCHIVED_NOTES) for note in read_notes(layout.memory / folder / text)
            ]
            notes: list[Note] = []  # those that the memory and its archive lack
            for note in imported_notes(parcel.files.get(NOTES, b""), source):
                is_saved = any(has_same_words(note.text, old.text) for old in (*saved, *notes))
                if note.source != COMPACTED and not is_saved:
                    notes.append(note)
            if notes and not dry_run:
                add_notes(layout.memory / folder / NOTES, notes)
            at = known.path if file is None else path
            return ImportResult(path, at, folder, "merged" if notes else "same", notes=len(notes))
        names = (parcel.name, *(f"{parcel.name[:70]}-{number}" for number in range(2, 1000)))
        folder = next(name for name in names if not (layout.memory / name).exists())
        files = fresh_files(parcel, source, warn)
        if not dry_run:  # written to a hidden folder, which gets its name when it is complete
            stage = layout.memory / _STAGE
            try:
                shutil.rmtree(stage)  # left by a killed process
            except FileNotFoundError:
                pass
            except OSError as error:
                raise system_failed("remove", stage, error) from error
            for name, data in files.items():
                write_whole(stage / name, data)
            identity = parcel.identity
            if file is not None:
                keep_content(stage, worktree, file.data)
                event = rekeying_event(source, file)
                top = str(worktree.top)
                identity = identity.keyed(file.key, top).noted(event).seen(file.blob, top)
            identities.save_identity(stage, identity)
            move_durably(stage, layout.memory / folder)
            if file is not None:
                release_key(layout, index, file, folder)
        turns = [turn for text in filter(_is_conversation, files) for turn in turns_of(files[text])]
        return ImportResult(
            path, None if file is None else path, folder, "orphaned" if file is None else "new", why,
            len(note_entries(files.get(NOTES, b""))), files.get(EDITS, b"").count(b"\n"), len(group_turns(turns)),
        )  # fmt: skip


def _find_target(
    layout: Layout, worktree: WorkTree, index: IdentityIndex, parcel: ArchivedMemory
) -> tuple[WorkTreeFile | None, str, str]:
    """The file of a memory and its folder here ("" for none), and the reason if there is neither."""
    path = parcel.identity.path
    empty = blob_hash(b"", worktree.object_format)
    blobs = set(parcel.identity.blobs) - {empty}
    folders = []
    for name in (name for kind in (PATH, EARLIER) for name in index.names(kind, path)):
        identity = index.identity(name)
        versions = set() if identity is None else set(identity.blobs) - {empty}
        if identity is not None and (blobs & versions or blobs == versions):
            folders.append(name)
    if folders:
        return None, parcel.name if parcel.name in folders else folders[0], ""
    file = file_at(worktree, path)
    if file is None:
        return None, "", f"no file {path}"
    if file.blob not in parcel.identity.blobs:
        # the version in HEAD, or the history of the file, must lead to it
        head, commit = blob_at(worktree, f"HEAD:{path}") or b"", parcel.identity.commit
        is_same = bool(head.strip()) and (
            blob_hash(head, worktree.object_format) in parcel.identity.blobs
            or (commit is not None and same_through_history(worktree, path, head, commit))
        )
        if not is_same:
            return None, "", f"{path} is a different file"
    match = find_memory(layout, index, file)
    return file, "" if match is None else match.folder, ""


def source_of(name: str) -> str:
    """The mark for items from the archive `name`: short, on one line, and different from the stamp of a note."""
    plain = " ".join(re.sub(r"[^\w .@+-]", " ", name.removesuffix(".tar.gz")).split())[:_FROM].strip()
    return f"imported from {plain}" if plain else "imported"


def fresh_files(parcel: ArchivedMemory, source: str, warn: Warn) -> dict[str, bytes]:
    """The files of a new memory, with secrets masked and notes marked with `source`."""
    about = parcel.identity.path
    files = {path: _masked(path, data, about, warn) for path, data in parcel.files.items()}
    for path in (ARCHIVED_NOTES, NOTES):
        if notes := imported_notes(files.pop(path, b""), source):
            files[path] = ("# Notes\n\n" + "".join(f"{note}\n" for note in notes)).encode(errors="replace")
    return files


def imported_notes(data: bytes, source: str) -> list[Note]:
    """The notes in the bytes of a notes file, masked and marked with `source`."""
    notes = []
    for note in (entry.note for entry in note_entries(mask(data.decode(errors="replace")).encode())):
        if note.source != COMPACTED:
            author = (note.source or USER).partition(", imported")[0][:_AUTHOR].strip()
            day = note.day or date.today().isoformat()
            note = replace(note, source=f"{author}, {source}", day=day)
        notes += [note] if note.text else []
    return notes


def restore_memory(layout: Layout, folder: Path) -> Memory:
    """Restore a memory that `memory gc` archived in `folder`.

    Raises NoArchive if it has no readable identity, Refused if a memory with this name exists, Busy if the lock is not
    released in time.
    """
    identity = identities.load_identity(folder)
    if identity is None:
        raise NoArchive(f"{folder} is not an archived memory: it has no readable {identities.FILE}")
    target = layout.memory / folder.name
    with memory_lock(layout):
        if os.path.lexists(target):
            raise Refused(f"a memory named {folder.name} already exists; rename {folder} first")
        move_durably(folder, target)
    return Memory(target, identity)
