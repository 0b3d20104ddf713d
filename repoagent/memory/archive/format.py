"""Export memories, and the archive format: memories in a .tar.gz; the same memories give the same bytes.

    manifest.json                    version, kind, and the list of memories
    memory/NAME/identity.json        path, earlier paths and versions; nothing about the exporting machine
    memory/NAME/notes.md             and conversation.md, edits.jsonl, archive/*.md: as in `.repoagent`

An archive written by `repoagent memory gc` is `whole`: it contains the full identity and the last seen content.
Archives are untrusted: one is read completely first, within limits on size and number of files, and rejected if any
part is invalid. Exported texts are read under the locks of the memory, with secrets masked.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import shutil
import stat
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

from repoagent.dataclass import dataclass
from repoagent.errors import NothingDone, Refused, UsageError
from repoagent.git.files import check_path
from repoagent.git.worktree import WorkTree
from repoagent.llm.conversation import Turn, loads
from repoagent.memory.edit_records import EditRecord
from repoagent.memory.identity.record import FILE, Identity, Memory, from_dict, to_dict
from repoagent.memory.identity.resolve import file_at
from repoagent.memory.identity.store import memories, recognize
from repoagent.storage import json_files
from repoagent.storage.atomic import read_regular, sweep
from repoagent.storage.folders import open_folder, system_failed
from repoagent.storage.layout import Layout, Warn, ensure, to_stderr
from repoagent.storage.locks import locked
from repoagent.storage.secrets import mask

VERSION = 1
KIND = "memories of repoagent"
MANIFEST = "manifest.json"
NOTES, CONVERSATION, EDITS = "notes.md", "conversation.md", "edits.jsonl"
ARCHIVED_NOTES = "archive/notes.md"
LARGEST_FILE, LARGEST = 32 * 2**20, 256 * 2**20  # bytes, unpacked: of one file, and of all
MOST_FILES = 200_000
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
_INSIDE = re.compile(
    r"identity\.json|notes\.md|conversation\.md|edits\.jsonl|archive/(?:notes|conversation-[A-Za-z0-9-]{1,60})\.md"
)
# in a whole archive also the last seen content, broken files that were set aside, and cleared parts
_INSIDE_WHOLE = re.compile(
    r"seen(?:-[0-9a-f]{8})?\.z|(?:archive/)?[A-Za-z0-9][A-Za-z0-9._-]{0,79}\.broken-[0-9]{1,6}|"
    r"archive/cleared-[0-9TZ-]{1,30}/(?:notes\.md|conversation\.md|edits\.jsonl)"
)
_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_USAGE = ("input", "output", "cache_read", "cache_write")


class NoArchive(Refused):
    """A file is not a valid archive of memories."""


class _Invalid(Exception):
    """The message is a predicate: it follows the name of the archive."""


@dataclass(frozen=True)
class ArchivedMemory:
    """One memory in an archive: the name of its folder, its identity, and its other files by path in the folder."""

    name: str
    identity: Identity
    files: Mapping[str, bytes]

    def conversations(self) -> Iterator[tuple[str, bytes]]:
        """(path, content) of the conversations: archived ones first, then the current one."""
        paths = [path for path in sorted(self.files) if path.startswith("archive/conversation-")]
        yield from ((path, self.files[path]) for path in (*paths, CONVERSATION) if path in self.files)


@dataclass(frozen=True)
class Archive:
    """`whole`: whether the identities include data about this machine. `object_format` is git's, "sha1" or "sha256"."""

    parcels: tuple[ArchivedMemory, ...]
    object_format: str = "sha1"
    whole: bool = False


def fits(path: str, *, whole: bool) -> bool:
    """Whether an archive may contain the file `path` of a memory folder."""
    return bool(_INSIDE.fullmatch(path) or (whole and _INSIDE_WHOLE.fullmatch(path)))


def record_of(line: bytes) -> dict[str, Any] | None:
    """The edit in a line of `edits.jsonl`; None if it is invalid."""
    value = json_files.parse(line)
    record = None if value is None else EditRecord.from_dict(value)
    if record is None:
        return None
    numbers = [getattr(record.usage, name) for name in _USAGE]
    is_valid = all(isinstance(number, int) and number >= 0 for number in numbers)
    return value if is_valid and isinstance(record.usage.dollars, float | int | None) else None


def records_of(data: bytes) -> dict[str, dict[str, Any]]:
    """The edits in the bytes of an `edits.jsonl` by id; the last line of an id counts."""
    return {value["id"]: value for line in data.split(b"\n") if (value := record_of(line)) is not None}


def turns_of(data: bytes) -> tuple[Turn, ...]:
    """The turns of a conversation file. Raises as `llm.conversation.loads`."""
    return loads(data.decode("utf-8", "surrogateescape")).turns if data else ()


def dumps(archive: Archive) -> bytes:
    """The bytes of an archive. Raises Refused if it would be too large to read again."""
    parcels = sorted(archive.parcels, key=lambda parcel: parcel.name)
    files = [
        (f"memory/{parcel.name}/{path}", data)
        for parcel in parcels
        for path, data in sorted({FILE: _identity(parcel, archive.whole), **parcel.files}.items())
    ]
    if sum(len(data) for _, data in files) > LARGEST // 2 or len(files) >= MOST_FILES:
        raise Refused("the memories are too large for one archive; export some files or folders at a time")
    for name, data in files:
        if len(data) > LARGEST_FILE:
            raise Refused(f"{name} is larger than {LARGEST_FILE // 2**20} MiB; shorten it before exporting")
    manifest = {
        "version": VERSION,
        "kind": KIND,
        "object_format": archive.object_format,
        "whole": archive.whole,
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


def _identity(parcel: ArchivedMemory, whole: bool) -> bytes:
    value = to_dict(parcel.identity)
    if not whole:
        del value["keys"], value["places"]
        value["rekeyings"] = [{**step, "key": ""} for step in value["rekeyings"]]
    return json_files.dumps({"version": 1, **value}, indent=1) + b"\n"


def read_archive(stream: IO[bytes], name: str, *, own: bool = False) -> Archive:
    """Read an archive; `name` is for messages. The contents of files are checked, except in our `own` archives.

    Raises NoArchive if it is not an archive, truncated, too large, or has invalid members; NewerFormat.
    """
    try:
        files = _read_files(stream)
        manifest = json_files.parse(files.pop(MANIFEST, b""))
        if manifest is None or manifest.get("kind") != KIND:
            raise NoArchive(f"{name} is not a memory archive; create one with `repoagent memory export`")
        if manifest["version"] > VERSION:
            raise json_files.NewerFormat(
                f"{name} has format version {manifest['version']}, newer than the supported {VERSION}; "
                "update repoagent"
            )
        archive = _parse(manifest, files)
        for parcel in () if own else archive.parcels:
            _check(parcel)
    except (tarfile.TarError, EOFError, zlib.error, OSError, ValueError, OverflowError) as error:
        raise NoArchive(
            f"{name} is not a memory archive, or is damaged ({error}); imported nothing"
        ) from error
    except _Invalid as error:
        raise NoArchive(f"{name} {error}; imported nothing") from error
    return archive


def _read_files(stream: IO[bytes]) -> dict[str, bytes]:
    with gzip.GzipFile(fileobj=stream, mode="rb") as packed:
        unpacked = packed.read(LARGEST + 1)
    if len(unpacked) > LARGEST:
        raise _Invalid(f"contains more than {LARGEST // 2**20} MiB")
    files: dict[str, bytes] = {}
    folded: set[str] = set()
    with tarfile.open(fileobj=io.BytesIO(unpacked), mode="r:") as tar:
        for member in tar:
            top, _, rest = member.name.partition("/")
            folder, _, path = rest.partition("/")
            is_known = top == "memory" and NAME.fullmatch(folder) and fits(path, whole=True)
            if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or member.issparse():
                raise _Invalid(f"contains {member.name!r}, which is not a regular file")
            if member.name != MANIFEST and not is_known:
                raise _Invalid(f"contains {member.name!r}, which does not belong to a memory")
            if member.name.casefold() in folded:
                raise _Invalid(f"contains {member.name!r} twice")
            if member.size > LARGEST_FILE:
                raise _Invalid(f"contains {member.name!r} of {member.size:,} bytes, which is too large")
            folded.add(member.name.casefold())
            if len(folded) > MOST_FILES:
                raise _Invalid(f"contains more than {MOST_FILES:,} files")
            content = tar.extractfile(member)
            files[member.name] = b"" if content is None else content.read()
    return files


def _parse(manifest: Mapping[str, Any], files: Mapping[str, bytes]) -> Archive:
    whole, object_format = manifest.get("whole", False), manifest.get("object_format")
    if not isinstance(whole, bool) or object_format not in ("sha1", "sha256"):
        raise _Invalid("has an invalid manifest")
    if manifest.get("files") != len(files):
        raise _Invalid("does not contain the files that its manifest lists")
    by_name: dict[str, dict[str, bytes]] = {}
    for name, data in files.items():
        _, folder, path = name.split("/", 2)
        if not fits(path, whole=whole):
            raise _Invalid(f"contains {name!r}, which does not belong to a memory")
        by_name.setdefault(folder, {})[path] = data
    if len({name.casefold() for name in by_name}) != len(by_name):
        raise _Invalid("contains two memories whose names differ only in case")
    parcels = []
    for name, inside in sorted(by_name.items()):
        memory = f"contains the memory {name!r}"
        value = json_files.parse(inside.pop(FILE, b""))
        identity = None if value is None or value["version"] != 1 else from_dict(value)
        if identity is None:
            raise _Invalid(f"{memory}, which does not name its file")
        try:
            for path in (identity.path, *identity.earlier_paths, *identity.strangers):
                check_path(path)
        except Refused as error:
            raise _Invalid(f"{memory}, which names an invalid path: {error}") from error
        if not all(map(_HASH.fullmatch, (*identity.blobs, *filter(None, [identity.commit])))):
            raise _Invalid(f"{memory}, which has an invalid blob or commit id")
        parcels.append(ArchivedMemory(name, identity, inside))
    return Archive(tuple(parcels), object_format, whole)


def _check(parcel: ArchivedMemory) -> None:
    folder = f"memory/{parcel.name}"
    for path in (NOTES, ARCHIVED_NOTES, EDITS):
        try:
            parcel.files.get(path, b"").decode()
        except UnicodeDecodeError as error:
            raise _Invalid(f"contains {folder}/{path}, which is not UTF-8") from error
    for line in parcel.files.get(EDITS, b"").split(b"\n"):
        if line.strip() and record_of(line) is None:
            raise _Invalid(f"contains an invalid line in {folder}/{EDITS}")
    for path, data in parcel.conversations():
        try:
            loads(data.decode("utf-8", "surrogateescape"))
        except Refused as error:
            raise _Invalid(f"contains {folder}/{path}, which cannot be parsed ({error})") from error


_LEFT_OUT = re.compile(r"(?:archive/)?(?:[^/]*\.lock|\.tmp-[^/]*)")
_FOLDER = re.compile(r"archive(?:/cleared-[^/]+)?")
_UNMASKED = {"id", "path", "source_blob", "result_blob", "commit", "time", "version"}


@contextmanager
def lock_memory(folder: Path, *, timeout: float = 10.0) -> Iterator[None]:
    """Lock the texts of the memory `folder`. Raises Busy, Refused."""
    with ExitStack() as locks:
        for name in (CONVERSATION, NOTES):  # in the order in which compacting takes them
            locks.enter_context(
                locked(folder / f"{name}.lock", timeout=timeout, what=f"the memory {folder.name}")
            )
        yield


def listing(folder: Path, below: str = "") -> tuple[list[str], list[str]]:
    """The paths of the files in a memory folder and its archive, and of all else in it. Locks are left out."""
    files: list[str] = []
    others: list[str] = []
    try:
        with open_folder(folder / below) as opened, os.scandir(opened) as found:
            entries = [(below + entry.name, entry.stat(follow_symlinks=False).st_mode) for entry in found]
    except FileNotFoundError:
        return [], []
    for path, mode in entries:
        if stat.S_ISDIR(mode) and _FOLDER.fullmatch(path):
            for known, new in zip((files, others), listing(folder, path + "/"), strict=True):
                known += new
        elif not stat.S_ISREG(mode):
            others.append(path)
        elif not _LEFT_OUT.fullmatch(path):
            files.append(path)
    return sorted(files), sorted(others)


def contents(folder: Path, paths: Iterable[str]) -> dict[str, bytes]:
    """The bytes of the files; missing ones are left out."""
    return {path: data for path in paths if (data := read_regular(folder / path)) is not None}


@dataclass(frozen=True)
class PackedMemory:
    """A memory for an archive, the number of `broken` files, invalid `lines` of edits, and `masked` secrets."""

    parcel: ArchivedMemory
    broken: int = 0
    lines: int = 0
    masked: int = 0


@dataclass(frozen=True)
class Exported:
    """The bytes of an archive and the memories in it."""

    data: bytes
    packed: tuple[PackedMemory, ...]


def export(
    layout: Layout,
    worktree: WorkTree,
    paths: Sequence[str] = (),
    *,
    conversations: bool = True,
    warn: Warn = to_stderr,
) -> Exported:
    """An archive of the memories of the files and folders `paths`, relative to the top; of all by default.

    The same memories give the same bytes. Raises UsageError for a path without a memory, NothingDone if there are no
    memories, Busy, and Refused if it is too large.
    """
    known = memories(layout, warn=warn)
    if not known:
        raise NothingDone("this repository has no memories yet; the first edit creates one")
    chosen: dict[str, Memory] = {}
    for path in paths or ["."]:
        matching = [
            memory
            for memory in known
            if path in (".", memory.identity.path, memory.folder.name)
            or memory.identity.path_in(str(worktree.top)) == path
            or memory.identity.path.startswith(path.rstrip("/") + "/")
        ]
        if not matching and (file := file_at(worktree, path)):  # renamed since it was last seen
            memory = recognize(layout, worktree, path, file.data, warn=warn)
            matching = [] if memory is None else [memory]
        if not matching:
            raise UsageError(f"no memory of {path}; `repoagent memory list` lists all memories")
        chosen |= {memory.folder.name: memory for memory in matching}
    packed = [pack(chosen[name], warn, conversations=conversations) for name in sorted(chosen)]
    archive = Archive(tuple(item.parcel for item in packed), worktree.object_format)
    return Exported(dumps(archive), tuple(packed))


def pack(memory: Memory, warn: Warn, *, conversations: bool = True) -> PackedMemory:
    """The parts of a memory that may be shared: without data about this machine, the content of its file, and secrets.

    Raises Busy if its locks are not released in time, Refused if they cannot be created.
    """
    with lock_memory(memory.folder):
        paths, _ = listing(memory.folder)
        shared = [path for path in paths if path != FILE and fits(path, whole=False)]
        shared = [path for path in shared if conversations or path in (NOTES, EDITS, ARCHIVED_NOTES)]
        texts = contents(memory.folder, shared)
    broken = sum(bool(re.search(r"\.broken-\d+$", path)) for path in paths)
    masked = lines = 0
    files: dict[str, bytes] = {}
    for path, data in texts.items():
        text = data.decode("utf-8", "replace" if path in (NOTES, ARCHIVED_NOTES) else "surrogateescape")
        if path == EDITS:
            records = [_masked_record(record) for record in records_of(data).values()]
            text = clean = "".join(record + "\n" for record, _ in records)
            masked += sum(count for _, count in records)
            lines = sum(bool(line.strip()) and record_of(line) is None for line in data.split(b"\n"))
        else:
            clean = mask(text)
            if path not in (NOTES, ARCHIVED_NOTES):
                try:
                    loads(text)
                except Refused as error:
                    warn(f"skipped {memory.folder / path}: {error}")
                    broken += 1
                    continue
        masked += clean.count("<<secret ") - text.count("<<secret ")
        if clean.strip():
            files[path] = clean.encode("utf-8", "surrogateescape")
    name = memory.folder.name
    if not NAME.fullmatch(name):  # the user has renamed the folder
        plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:60] or "memory"
        name = f"{plain}-{sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
    return PackedMemory(ArchivedMemory(name, memory.identity, files), broken, lines, masked)


def _masked_record(record: Mapping[str, Any]) -> tuple[str, int]:
    clean = {
        name: mask(value) if isinstance(value, str) and name not in _UNMASKED else value
        for name, value in record.items()
    }
    return json_files.dumps(clean).decode(), sum(clean[name] != value for name, value in record.items())


@contextmanager
def scratch(layout: Layout) -> Iterator[Path]:
    """A temporary folder on the file system of the memories. Raises Busy while another import or gc is running, Refused
    if it cannot be created."""
    ensure(layout)
    folder = layout.root / "arriving"
    with locked(layout.root / "archive.lock", what="the import or cleanup of memories"):
        _remove(folder)  # left by a killed process
        sweep(layout.root / "archive")
        with open_folder(folder, create=True):
            pass
        try:
            yield folder
        finally:
            _remove(folder)


def _remove(folder: Path) -> None:
    if folder.is_symlink():
        raise Refused(f"{folder} is a symbolic link; remove it")
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except OSError as error:
        raise system_failed("remove", folder, error) from error


def move(folder: Path, to: Path) -> None:
    """Rename a folder and sync both parents. Raises OSError if `to` exists."""
    with open_folder(folder.parent) as source, open_folder(to.parent, create=True) as target:
        os.rename(folder.name, to.name, src_dir_fd=source, dst_dir_fd=target)
        os.fsync(target)
        os.fsync(source)
