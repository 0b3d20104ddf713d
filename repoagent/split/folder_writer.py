"""Put a split in place, so that whoever reads it, or a kill, finds the old one or the new one.

Everything is written into the folder `.staged` first. Then the new index takes the place of the old one, with the
files that are still to follow as `pending`: from here on the new split is what is read, and what is not there yet is
read from `base`. The files follow one by one, each exchanged for the old one and looked at: if it is not the one that
was to be replaced, a person has saved it in this moment, and it goes back. Last comes the index with nothing pending.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from repoagent.errors import Refused
from repoagent.git.file_writer import exchange
from repoagent.split.folder import Made
from repoagent.split.folder_index import BASE, NAME, STAGED, VERSION, Index, base_bytes, digest
from repoagent.storage.atomic import read_regular
from repoagent.storage.folders import open_folder, system_failed
from repoagent.storage.jsonl import dumps

_PENDING = "pending.json"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_SYNC_EACH = 32  # files; above that, one sync of everything is quicker


def put(made: Made, old: Index | None) -> None:
    """Write the split `made` into its folder, in place of `old`; the caller holds the folder (`reading.holding`).

    Raises Refused when the system says no (nothing is changed then), or when a person has saved a segment in the very
    moment in which it was to be replaced; that file stays as it was saved.
    """
    index = made.index
    with open_folder(index.folder) as here:
        with _ready(index.folder):
            pending = {**made.replaces, **made.removed}
            files = {segment.file: segment for segment in index.segments}
            staged = {
                NAME: _dump(index),
                _PENDING: _dump(replace(index, pending=pending)),
                BASE: made.base,
                **{f"{name}.base": text for name, text in made.kept_bases.items()},
                **{name: made.base[files[name].start : files[name].end] for name in made.replaces},
            }
            _stage(index.folder / STAGED, staged)
            _check_free(index.folder, made.replaces)
        for name in made.kept_bases:
            os.replace(f"{STAGED}/{name}.base", f"{name}.base", src_dir_fd=here, dst_dir_fd=here)
        os.replace(f"{STAGED}/{_PENDING}", NAME, src_dir_fd=here, dst_dir_fd=here)
        os.fsync(here)
        _settle(here, replace(index, pending=pending), old)


def finish(index: Index) -> Index:
    """Bring to its end what a killed command has begun; the index with nothing pending.

    Raises Refused for a file that a person has edited since: nothing tells what it was edited from.
    """
    if not index.pending:
        _clear(index.folder / STAGED)
        return index
    base = base_bytes(index)
    parts = {segment.file: base[segment.start : segment.end] for segment in index.segments}
    for name, replaced in index.pending.items():
        data = read_regular(index.folder / name)
        known = {replaced, digest(parts[name])} if name in parts else {replaced}
        if data is not None and digest(data) not in known:
            raise Refused(
                f"{index.folder / name} was edited while the split was half rewritten by a command that was killed: "
                "move it away, run this again, and put your change into the new file"
            )
    whole = replace(index, pending={})
    with open_folder(index.folder) as here:
        with _ready(index.folder, keep=BASE):
            _stage(
                index.folder / STAGED,
                {NAME: _dump(whole), **{n: parts[n] for n in index.pending if n in parts}},
            )
        _settle(here, index, None)
    return whole


@contextmanager
def _ready(path: Path, keep: str = "") -> Iterator[None]:
    """An empty folder to stage in; it goes when that fails."""
    staged = path / STAGED
    try:
        _clear(staged, keep)
        staged.mkdir(mode=0o700, exist_ok=True)
        yield
    except OSError as error:
        _clear(staged, keep)
        raise system_failed("write the split in", path, error) from error
    except BaseException:
        _clear(staged, keep)
        raise


def _clear(staged: Path, keep: str = "") -> None:
    if staged.is_symlink() or not staged.is_dir():
        with suppress(FileNotFoundError):
            staged.unlink()
    elif not keep:
        shutil.rmtree(staged)
    else:
        for path in staged.iterdir():
            if path.name != keep:
                path.unlink()


def _stage(staged: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        descriptor = os.open(staged / name, _NEW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if len(files) <= _SYNC_EACH:
                os.fsync(descriptor)
    if len(files) > _SYNC_EACH:
        os.sync()


def _check_free(path: Path, replaces: Mapping[str, str]) -> None:
    for name, replaced in replaces.items():
        if not replaced and os.path.lexists(path / name):
            raise Refused(f"{path / name} is in the way, and no segment of this split: move it away")


def _settle(here: int, index: Index, old: Index | None) -> None:
    """Bring what is staged to its place."""
    if _exists(here, f"{STAGED}/{BASE}"):
        with suppress(FileNotFoundError):
            os.replace(f"{STAGED}/{BASE}", BASE, src_dir_fd=here, dst_dir_fd=here)
    files = {segment.file for segment in index.segments}
    saved = [
        name
        for name, replaced in index.pending.items()
        if not (_swap(here, name, replaced) if name in files else _take(here, name, replaced))
    ]
    if saved:
        raise Refused(
            f"{', '.join(saved)} was saved while the split was being rewritten, and is left as it is: "
            "move it away, run this again, and put your change into the new file"
        )
    for segment in old.segments if old else ():
        if segment.based_on and not any(s.file == segment.file and s.based_on for s in index.segments):
            with suppress(FileNotFoundError):
                os.unlink(segment.kept_base, dir_fd=here)
    os.replace(f"{STAGED}/{NAME}", NAME, src_dir_fd=here, dst_dir_fd=here)
    os.fsync(here)
    _clear(index.folder / STAGED)


def _swap(here: int, name: str, replaced: str) -> bool:
    """Put the staged file `name` in place; False if what was there is not what it `replaced`, which then stays."""
    staged = f"{STAGED}/{name}"
    if not _exists(here, name):
        os.replace(staged, name, src_dir_fd=here, dst_dir_fd=here)
        return True
    known = {replaced, _hash(here, staged)}
    if _hash(here, name) not in known:
        return False
    if not exchange(here, staged, name):
        os.replace(staged, name, src_dir_fd=here, dst_dir_fd=here)
        return True
    if _hash(here, staged) in known:
        return True
    exchange(here, staged, name)
    return False


def _take(here: int, name: str, replaced: str) -> bool:
    """Remove the file `name` of a segment that is no more, unless it is not what it was."""
    staged = f"{STAGED}/{name}"
    try:
        os.rename(name, staged, src_dir_fd=here, dst_dir_fd=here)
    except FileNotFoundError:
        return True
    if _hash(here, staged) == replaced:
        return True
    os.rename(staged, name, src_dir_fd=here, dst_dir_fd=here)
    return False


def _hash(here: int, name: str) -> str:
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=here)
    with os.fdopen(descriptor, "rb") as file:
        return digest(file.read())


def _exists(here: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=here, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _dump(index: Index) -> bytes:
    return dumps({"version": VERSION, **index.to_dict()}, indent=1) + b"\n"
