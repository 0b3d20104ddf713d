"""Export memories, and the archive format: memories in a .tar.gz; the same memories give the same bytes.

    manifest.json                    version, kind, and the list of memories
    memory/NAME/identity.json        path, earlier paths and versions; nothing about the exporting machine
    memory/NAME/notes.md             and conversation.md, edits.jsonl, archive/*.md: as in `.repoagent`

Archives are untrusted: one is read completely first, within limits on size and number of files, and rejected if any
part is invalid. Exported texts are read under the locks of the memory, with secrets masked.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import stat
import tarfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
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
from repoagent.memory.identity.record import FILE, Identity, Memory, from_dict, load, to_dict
from repoagent.memory.identity.resolve import file_at
from repoagent.memory.identity.store import memories, recognize
from repoagent.storage import json_files
from repoagent.storage.atomic import read_regular
from repoagent.storage.folders import open_folder
from repoagent.storage.layout import Layout, Warn, to_stderr
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
SHARED = re.compile(
    r"notes\.md|conversation\.md|edits\.jsonl|archive/(?:notes|conversation-[A-Za-z0-9-]{1,60})\.md"
)
# earlier versions of `memory gc` wrote archives that also have the last seen content, broken files and cleared parts
_READ = re.compile(
    rf"identity\.json|{SHARED.pattern}|seen(?:-[0-9a-f]{{8}})?\.z|"
    r"(?:archive/)?[A-Za-z0-9][A-Za-z0-9._-]{0,79}\.broken-[0-9]{1,6}|"
    r"archive/cleared-[0-9TZ-]{1,30}/(?:notes\.md|conversation\.md|edits\.jsonl)"
)
_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class NoArchive(Refused):
    """A file is not a valid archive of memories."""


class _Invalid(Exception):
    """The message is a predicate: it follows the name of the archive."""


@dataclass(frozen=True)
class ArchivedMemory:
    """One memory in an archive: the name of its folder, its identity, and its other files by path in the folder.
    `masked` counts the secrets that export has masked."""

    name: str
    identity: Identity
    files: Mapping[str, bytes]
    masked: int = 0

    def conversations(self) -> Iterator[tuple[str, bytes]]:
        """(path, content) of the conversations: archived ones first, then the current one."""
        paths = [path for path in sorted(self.files) if path.startswith("archive/conversation-")]
        yield from ((path, self.files[path]) for path in (*paths, CONVERSATION) if path in self.files)


def records_of(data: bytes) -> dict[str, dict[str, Any]]:
    """The valid edits in the bytes of an `edits.jsonl` by id; the last line of an id counts."""
    values = map(json_files.parse, data.split(b"\n"))
    return {
        value["id"]: value
        for value in values
        if value is not None and EditRecord.from_dict(value) is not None
    }


def turns_of(data: bytes) -> tuple[Turn, ...]:
    """The turns of a conversation file. Raises as `llm.conversation.loads`."""
    return loads(data.decode("utf-8", "surrogateescape")).turns if data else ()


def masked_text(path: str, data: bytes) -> bytes:
    """The content of the file `path` of a memory with secrets masked and, in notes and edits, without invalid UTF-8 or
    invalid lines."""
    if path == EDITS:
        values = records_of(data).values()
        clean = ({**value, "request": mask(value["request"])} for value in values)
        return b"".join(json_files.dumps(value) + b"\n" for value in clean)
    errors = "replace" if path in (NOTES, ARCHIVED_NOTES) else "surrogateescape"
    return mask(data.decode("utf-8", errors)).encode("utf-8", errors)


def dumps(parcels: Sequence[ArchivedMemory], object_format: str = "sha1") -> bytes:
    """The bytes of an archive. Raises Refused if it would be too large to read again."""
    parcels = sorted(parcels, key=lambda parcel: parcel.name)
    files = [
        (f"memory/{parcel.name}/{path}", data)
        for parcel in parcels
        for path, data in sorted({FILE: _shared_identity(parcel.identity), **parcel.files}.items())
    ]
    sizes = [len(data) for _, data in files]
    if sum(sizes) > LARGEST // 2 or len(files) >= MOST_FILES or max(sizes, default=0) > LARGEST_FILE:
        raise Refused("the memories are too large for one archive; export some files or folders at a time")
    manifest = {
        "version": VERSION,
        "kind": KIND,
        "object_format": object_format,
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


def _shared_identity(identity: Identity) -> bytes:
    value = {"version": 1, **to_dict(identity)}
    del value["keys"], value["places"]
    value["rekeyings"] = [{**step, "key": ""} for step in value["rekeyings"]]
    return json_files.dumps(value, indent=1) + b"\n"


def read_archive(stream: IO[bytes], name: str, *, own: bool = False) -> list[ArchivedMemory]:
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
        if manifest.get("files") != len(files):
            raise _Invalid("does not contain the files that its manifest lists")
        by_name: dict[str, dict[str, bytes]] = {}
        for path, data in files.items():
            _, folder, inside = path.split("/", 2)
            by_name.setdefault(folder, {})[inside] = data
        if len({folder.casefold() for folder in by_name}) != len(by_name):
            raise _Invalid("contains two memories whose names differ only in case")
        return [_parcel(folder, inside, own=own) for folder, inside in sorted(by_name.items())]
    except (tarfile.TarError, EOFError, zlib.error, OSError, ValueError, OverflowError) as error:
        raise NoArchive(
            f"{name} is not a memory archive, or is damaged ({error}); imported nothing"
        ) from error
    except _Invalid as error:
        raise NoArchive(f"{name} {error}; imported nothing") from error


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
            is_known = top == "memory" and NAME.fullmatch(folder) and _READ.fullmatch(path)
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


def _parcel(name: str, files: dict[str, bytes], *, own: bool) -> ArchivedMemory:
    memory = f"contains the memory {name!r}"
    value = json_files.parse(files.pop(FILE, b""))
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
    parcel = ArchivedMemory(name, identity, files)
    if own:
        return parcel
    for path in (NOTES, ARCHIVED_NOTES, EDITS):
        try:
            files.get(path, b"").decode()
        except UnicodeDecodeError as error:
            raise _Invalid(f"contains memory/{name}/{path}, which is not UTF-8") from error
    if any(line.strip() and not records_of(line) for line in files.get(EDITS, b"").split(b"\n")):
        raise _Invalid(f"contains an invalid line in memory/{name}/{EDITS}")
    for path, data in parcel.conversations():
        try:
            turns_of(data)
        except Refused as error:
            raise _Invalid(f"contains memory/{name}/{path}, which cannot be parsed ({error})") from error
    return parcel


@contextmanager
def lock_memory(folder: Path, *, timeout: float = 10.0) -> Iterator[None]:
    """Lock the texts of the memory `folder`. Raises Busy, Refused."""
    with ExitStack() as locks:
        for name in (CONVERSATION, NOTES):  # in the order in which compacting takes them
            locks.enter_context(
                locked(folder / f"{name}.lock", timeout=timeout, what=f"the memory {folder.name}")
            )
        yield


def contents(folder: Path, below: str = "") -> dict[str, bytes]:
    """The regular files of a memory and its archive by path, without locks and temporary files."""
    files: dict[str, bytes] = {}
    with open_folder(folder / below) as opened, os.scandir(opened) as listed:
        entries = sorted((below + entry.name, entry.stat(follow_symlinks=False).st_mode) for entry in listed)
    for path, mode in entries:
        if stat.S_ISDIR(mode) and re.fullmatch(r"archive(?:/cleared-[^/]+)?", path):
            files |= contents(folder, path + "/")
        elif stat.S_ISREG(mode) and not re.search(r"\.lock$|(?:^|/)\.tmp-[^/]*$", path):
            data = read_regular(folder / path)
            files |= {} if data is None else {path: data}
    return files


def read_folder(folder: Path) -> ArchivedMemory:
    """The memory in a folder that `memory gc` has archived. Raises NoArchive if it has no readable identity."""
    identity = load(folder)
    if identity is None:
        raise NoArchive(f"{folder} is not an archived memory: it has no readable {FILE}")
    files = {path: data for path, data in contents(folder).items() if path != FILE}
    return ArchivedMemory(folder.name, identity, files)


def select_memories(
    layout: Layout, worktree: WorkTree, paths: Sequence[str] = (), *, warn: Warn = to_stderr
) -> list[Memory]:
    """The memories of the files and folders `paths`, relative to the top (or names of memories), by name; all by
    default. Raises UsageError for a path without a memory, NothingDone if there are no memories."""
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
    return [chosen[name] for name in sorted(chosen)]


def pack(memory: Memory, warn: Warn, *, conversations: bool = True) -> ArchivedMemory:
    """The parts of a memory that may be shared: without data about this machine, the content of its file, and secrets.

    Raises Busy if its locks are not released in time, Refused if they cannot be created.
    """
    files: dict[str, bytes] = {}
    masked = 0
    with lock_memory(memory.folder):
        texts = contents(memory.folder)
    for path, data in texts.items():
        is_conversation = path not in (NOTES, EDITS, ARCHIVED_NOTES)
        if not SHARED.fullmatch(path) or (is_conversation and not conversations):
            continue
        try:
            if is_conversation:
                turns_of(data)
        except Refused as error:
            warn(f"skipped {memory.folder / path}: {error}")
            continue
        clean = masked_text(path, data)
        masked += clean.count(b"<<secret ") - data.count(b"<<secret ")
        if clean.strip():
            files[path] = clean
    name = memory.folder.name
    if not NAME.fullmatch(name):  # the user has renamed the folder
        plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:60] or "memory"
        name = f"{plain}-{sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
    return ArchivedMemory(name, memory.identity, files, masked)
