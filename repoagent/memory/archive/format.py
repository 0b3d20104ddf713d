"""Export memories, and the archive format: memories in a .tar.gz; the same memories give the same bytes.

    manifest.json                    version, kind, and the list of memories
    memory/NAME/identity.json        path, earlier paths and versions; nothing about the exporting machine
    memory/NAME/notes.md             and conversation.md, edits.jsonl, archive/*.md: as in `.repoagent`

An archive written by `repoagent memory gc` is `whole`: it keeps the full identity and the last seen content. An archive
may come from anyone: it is read to its end first, within limits of size and number, and refused as a whole if any part
is invalid. Exported texts are read under the locks of the memory, with secrets masked.
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
from pathlib import Path
from typing import IO, Any

from repoagent.dataclass import dataclass
from repoagent.errors import NothingDone, Refused, UsageError
from repoagent.git.files import check_path, read_source
from repoagent.git.worktree import WorkTree
from repoagent.llm.conversation import Turn, loads
from repoagent.memory.edit_records import EditRecord
from repoagent.memory.identity.record import FILE, Identity, Memory, from_dict, to_dict
from repoagent.memory.identity.store import memories, recognize
from repoagent.storage import json_files
from repoagent.storage.atomic import read_regular, sweep
from repoagent.storage.folders import open_folder, system_failed
from repoagent.storage.layout import Layout, Warn, ensure, to_stderr
from repoagent.storage.locks import locked
from repoagent.storage.secrets import mask

_USAGE = ("input", "output", "cache_read", "cache_write")


def record_of(line: bytes) -> dict[str, Any] | None:
    """The edit in a line of `edits.jsonl`; None for what is none, or has a part of the wrong type."""
    value = json_files.parse(line)
    record = None if value is None else EditRecord.from_dict(value)
    if value is None or record is None:
        return None
    numbers = [getattr(record.usage, name) for name in _USAGE]
    dollars = record.usage.dollars
    sound = all(isinstance(one, int) and one >= 0 for one in numbers)
    return value if sound and isinstance(dollars, float | int | None) else None


def turns_of(data: bytes) -> tuple[Turn, ...]:
    """The turns of a conversation file. Raises as `llm.conversation.loads`."""
    return loads(data.decode("utf-8", "surrogateescape")).turns if data else ()


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
_MORE_INSIDE = (
    re.compile(  # of a whole one: what was last seen, what was set aside as broken, what was cleared
        r"seen(?:-[0-9a-f]{8})?\.z|(?:archive/)?[A-Za-z0-9][A-Za-z0-9._-]{0,79}\.broken-[0-9]{1,6}|"
        r"archive/cleared-[0-9TZ-]{1,30}/(?:notes\.md|conversation\.md|edits\.jsonl)"
    )
)
_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class NoArchive(Refused):
    """It is not, or not wholly, an archive of memories."""


@dataclass(frozen=True)
class ArchivedMemory:
    """One memory in an archive: the name of its folder, its identity, and its other files by their path in it."""

    name: str
    identity: Identity
    files: Mapping[str, bytes]

    def conversations(self) -> Iterator[tuple[str, bytes]]:
        """(path, content) of the conversations: archived ones first, then the current one."""
        for path in sorted(self.files):
            if path.startswith("archive/conversation-"):
                yield path, self.files[path]
        if CONVERSATION in self.files:
            yield CONVERSATION, self.files[CONVERSATION]


@dataclass(frozen=True)
class Archive:
    """`whole`: the identities say what they said of this machine too. `object_format` is that of the blobs."""

    parcels: tuple[ArchivedMemory, ...]
    object_format: str = "sha1"
    whole: bool = False


def fits(path: str, *, whole: bool) -> bool:
    """Whether a file of a memory folder, by its path in it, may be in an archive."""
    return bool(_INSIDE.fullmatch(path) or (whole and _MORE_INSIDE.fullmatch(path)))


def dumps(archive: Archive) -> bytes:
    """The bytes of an archive. Raises Refused for one that is too large to be read again."""
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
        "kind": KIND,
        "object_format": archive.object_format,
        "whole": archive.whole,
        "files": len(files),
        "memories": [{"name": parcel.name, "path": parcel.identity.path} for parcel in parcels],
    }
    head = json_files.dumps({"version": VERSION, **manifest}, indent=1) + b"\n"
    packed = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=packed, compresslevel=6, mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name, data in [(MANIFEST, head), *files]:
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o600
            tar.addfile(member, io.BytesIO(data))
    return packed.getvalue()


def read_archive(stream: IO[bytes], name: str, *, own: bool = False) -> Archive:
    """The archive in `stream`, which is called `name` in messages. One of our `own` has what stood here, as it stood:
    of any other each file must be what it should be.

    Raises NoArchive for a file that is not an archive, is truncated or too large, or has members that it must not have;
    NewerFormat for a newer format.
    """
    try:
        files = dict(_members(stream))
    except (tarfile.TarError, EOFError, zlib.error, OSError, ValueError, OverflowError) as error:
        raise NoArchive(
            f"{name} is not a memory archive, or is damaged ({error}); imported nothing"
        ) from error
    except _Wrong as error:
        raise NoArchive(f"{name} {error}; imported nothing") from error
    manifest = json_files.parse(files.pop(MANIFEST, b""))
    if manifest is None or manifest.get("kind") != KIND:
        raise NoArchive(f"{name} is not a memory archive; create one with `repoagent memory export`")
    if manifest["version"] > VERSION:
        raise json_files.NewerFormat(
            f"{name} has format version {manifest['version']}, newer than the supported {VERSION}; "
            "update repoagent"
        )
    try:
        archive = _archive(manifest, files)
        for parcel in () if own else archive.parcels:
            _check(parcel)
    except _Wrong as error:
        raise NoArchive(f"{name} {error}; imported nothing") from error
    return archive


class _Wrong(Exception):
    """What is wrong, as the rest of a sentence."""


def _members(stream: IO[bytes]) -> Iterator[tuple[str, bytes]]:
    with gzip.GzipFile(fileobj=stream, mode="rb") as packed:
        bounded = _Bounded(packed)
        names: set[str] = set()
        with tarfile.open(fileobj=bounded, mode="r|") as tar:
            for member in tar:
                if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or member.issparse():
                    raise _Wrong(f"contains {member.name!r}, which is not a regular file")
                if member.name != MANIFEST and not _is_named_right(member.name):
                    raise _Wrong(f"contains {member.name!r}, which does not belong to a memory")
                if member.name.casefold() in names:
                    raise _Wrong(f"contains {member.name!r} twice")
                if member.size > LARGEST_FILE:
                    raise _Wrong(f"contains {member.name!r} of {member.size:,} bytes, which is too large")
                names.add(member.name.casefold())
                if len(names) > MOST_FILES:
                    raise _Wrong(f"contains more than {MOST_FILES:,} files")
                content = tar.extractfile(member)
                data = b"" if content is None else content.read()
                if len(data) != member.size:
                    raise EOFError("truncated file")
                yield member.name, data
        while bounded.read(2**16):  # to the end, where the checksum stands
            pass


class _Bounded(io.RawIOBase):
    """Reads no more than LARGEST bytes of what unpacks to any number."""

    def __init__(self, packed: gzip.GzipFile) -> None:
        self._packed, self._left = packed, LARGEST

    def read(self, size: int = -1, /) -> bytes:
        data = self._packed.read(min(size, self._left + 1) if size >= 0 else self._left + 1)
        self._left -= len(data)
        if self._left < 0:
            raise _Wrong(f"contains more than {LARGEST // 2**20} MiB")
        return data


def _is_named_right(name: str) -> bool:
    top, _, rest = name.partition("/")
    folder, _, path = rest.partition("/")
    return top == "memory" and bool(NAME.fullmatch(folder)) and fits(path, whole=True)


def _archive(manifest: Mapping[str, Any], files: Mapping[str, bytes]) -> Archive:
    whole, kind = manifest.get("whole", False), manifest.get("object_format")
    if not isinstance(whole, bool) or kind not in ("sha1", "sha256"):
        raise _Wrong("has an invalid manifest")
    if manifest.get("files") != len(files):
        raise _Wrong("does not contain the files that its manifest lists")
    by_name: dict[str, dict[str, bytes]] = {}
    for place, data in files.items():
        _, name, path = place.split("/", 2)
        if not fits(path, whole=whole):
            raise _Wrong(f"contains {place!r}, which does not belong to a memory")
        by_name.setdefault(name, {})[path] = data
    if len({name.casefold() for name in by_name}) != len(by_name):
        raise _Wrong("contains two memories with the same name")
    return Archive(tuple(_parcel(name, inside) for name, inside in sorted(by_name.items())), kind, whole)


def _parcel(name: str, files: dict[str, bytes]) -> ArchivedMemory:
    value = json_files.parse(files.pop(FILE, b""))
    identity = None if value is None or value["version"] != 1 else from_dict(value)
    if identity is None:
        raise _Wrong(f"contains the memory {name!r}, which does not name its file")
    for path in (identity.path, *identity.earlier_paths, *identity.strangers):
        try:
            check_path(path)
        except Refused as error:
            raise _Wrong(f"contains the memory {name!r} of an invalid path: {error}") from error
    if not all(map(_HASH.fullmatch, (*identity.blobs, *filter(None, [identity.commit])))):
        raise _Wrong(f"contains the memory {name!r} with an invalid version hash")
    return ArchivedMemory(name, identity, files)


def _check(parcel: ArchivedMemory) -> None:
    where = f"memory/{parcel.name}"
    for path in (NOTES, ARCHIVED_NOTES, EDITS):
        try:
            parcel.files.get(path, b"").decode()
        except UnicodeDecodeError as error:
            raise _Wrong(f"contains {where}/{path}, which is not UTF-8") from error
    for line in parcel.files.get(EDITS, b"").split(b"\n"):
        if line.strip() and record_of(line) is None:
            raise _Wrong(f"contains an invalid line in {where}/{EDITS}")
    for path, data in parcel.conversations():
        try:
            loads(data.decode("utf-8", "surrogateescape"))
        except Refused as error:
            raise _Wrong(f"contains {where}/{path}, which cannot be parsed ({error})") from error


def _identity(parcel: ArchivedMemory, whole: bool) -> bytes:
    value = to_dict(parcel.identity)
    if not whole:
        del value["keys"], value["places"]
        value["rekeyings"] = [{**one, "key": ""} for one in value["rekeyings"]]
    return json_files.dumps({"version": 1, **value}, indent=1) + b"\n"


def of_parcels(parcels: Iterable[ArchivedMemory], object_format: str, *, whole: bool = False) -> Archive:
    return Archive(tuple(parcels), object_format, whole)


_LOCKED = (CONVERSATION, NOTES)  # in the order in which compacting takes them
_LEFT_OUT = re.compile(r"(?:archive/)?(?:[^/]*\.lock|\.tmp-[^/]*)")
_FOLDER = re.compile(r"archive(?:/cleared-[^/]+)?")
_BROKEN = re.compile(r"\.broken-\d+$")
_SAID_AS_IT_IS = {"id", "path", "source_blob", "result_blob", "commit", "time", "version"}


@dataclass(frozen=True)
class PackedMemory:
    """A memory for an archive; `broken` files and `lines` of edits could not be taken, `masked` keys and tokens
    were."""

    parcel: ArchivedMemory
    broken: int = 0
    lines: int = 0
    masked: int = 0


@contextmanager
def lock_memory(place: Path, *, timeout: float = 10.0) -> Iterator[None]:
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
        with open_folder(place / below) as opened, os.scandir(opened) as found:
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


def pack(memory: Memory, warn: Warn, *, conversations: bool = True) -> PackedMemory:
    """What may be shared of a memory: no key of this machine, no content of its file, no secret.

    Raises Busy when its locks are held for too long, Refused where they can't be taken.
    """
    with lock_memory(memory.folder):
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
                warn(f"skipped {memory.folder / path}: {error}")
                broken += 1
                continue
            clean, count = _masked(text)
        masked += count
        if clean.strip():
            taken[path] = clean
    return PackedMemory(
        ArchivedMemory(_name(memory.folder.name), memory.identity, taken), broken, lines, masked
    )


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
        lines.append(json_files.dumps(clean))
    return b"".join(line + b"\n" for line in lines), skipped, masked


def known_edits(data: bytes) -> list[EditRecord]:
    """The edits in the bytes of an `edits.jsonl`, each as its last line has it."""
    found = (record_of(line) for line in data.split(b"\n"))
    records = (EditRecord.from_dict(value) for value in found if value is not None)
    return list({record.id: record for record in records if record is not None}.values())


@dataclass(frozen=True)
class Exported:
    """The bytes of the archive, and what went into it; `path` of a memory is where its file was last seen."""

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
    """An archive of the memories of the files `paths` and of those in the folders `paths` (relative to the top, "." is
    all of it); of all for none.

    The same memories make the same bytes. Raises UsageError for a path of which nothing is remembered, NothingDone
    where nothing is remembered at all, Busy, and Refused for what is too large.
    """
    known = memories(layout, warn=warn)
    if not known:
        raise NothingDone("this repository has no memories yet; the first edit creates one")
    chosen = _chosen(layout, worktree, known, paths, warn) if paths else known
    packed = [pack(memory, warn, conversations=conversations) for memory in chosen]
    return Exported(dumps(of_parcels((one.parcel for one in packed), worktree.object_format)), tuple(packed))


def _chosen(
    layout: Layout, worktree: WorkTree, known: Sequence[Memory], paths: Sequence[str], warn: Warn
) -> list[Memory]:
    found: dict[str, Memory] = {}
    for path in paths:
        under = path.rstrip("/") + "/"
        some = [
            memory
            for memory in known
            if path in (".", memory.identity.path, memory.folder.name)
            or memory.identity.path_in(str(worktree.top)) == path
            or memory.identity.path.startswith(under)
        ]
        some = some or _recognized(layout, worktree, path, warn)
        if not some:
            raise UsageError(f"no memory of {path}; `repoagent memory list` lists all memories")
        found |= {memory.folder.name: memory for memory in some}
    return [found[name] for name in sorted(found)]


def _recognized(layout: Layout, worktree: WorkTree, path: str, warn: Warn) -> list[Memory]:
    """The memory of a file that was renamed since it was last seen."""
    try:
        data = read_source(worktree, path).data
    except Refused:  # a folder of which nothing is remembered, a link
        return []
    memory = None if data is None else recognize(layout, worktree, path, data, warn=warn)
    return [] if memory is None else [memory]


ARCHIVE = "archive"  # the folder of archived conversations
_SCRATCH, _LOCK = "arriving", "archive.lock"  # one import or gc at a time; a kill leaves the folder


@contextmanager
def scratch(layout: Layout) -> Iterator[Path]:
    """An empty folder on the disk of the memories, for the block. Raises Busy while another import or gc is at work,
    Refused where it can't be made."""
    ensure(layout)
    place = layout.root / _SCRATCH
    with locked(layout.root / _LOCK, what="the import or cleanup of memories"):
        _clear(place)
        sweep(layout.root / ARCHIVE)
        with open_folder(place, create=True):
            pass
        try:
            yield place
        finally:
            _clear(place)


def move(place: Path, to: Path) -> None:
    """Rename a folder, durably. Raises OSError where something is in the way."""
    with open_folder(place.parent) as source, open_folder(to.parent, create=True) as target:
        os.rename(place.name, to.name, src_dir_fd=source, dst_dir_fd=target)
        os.fsync(target)
        os.fsync(source)


def _clear(place: Path) -> None:
    if place.is_symlink():
        raise Refused(f"{place} is a symbolic link; remove it")
    try:
        shutil.rmtree(place)
    except FileNotFoundError:
        return
    except OSError as error:
        raise system_failed("remove", place, error) from error
