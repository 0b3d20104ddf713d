"""Write a split so that a reader, or a crash, finds the old one or the new one.

Everything is first written into the folder `.staged`. Then the new index replaces the old one, with the files that
follow as `pending`: from here on the new split is valid, and files that are missing are read from `base`. The files
follow one by one, each exchanged for the old one and compared: if the old one is not the one to replace, the user has
just saved it, and it is exchanged back. The index without `pending` comes last.
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
from repoagent.split.folder import SplitPlan
from repoagent.split.folder_index import BASE, NAME, STAGED, VERSION, Index, base_bytes, digest
from repoagent.storage.atomic import read_regular
from repoagent.storage.folders import open_folder, system_failed
from repoagent.storage.json_files import dumps

_PENDING = "pending.json"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_SYNC_EACH = 32  # files; above that, one sync of everything is quicker


def put(plan: SplitPlan, old: Index | None) -> None:
    """Write the split `made` into its folder, in place of `old`; the caller holds `lock_split`.

    Raises Refused on a system error (nothing is changed then), or if the user saves a segment while it is being
    replaced; that file is kept as saved.
    """
    index = plan.index
    with open_folder(index.folder) as here:
        with _ready(index.folder):
            pending = {**plan.replaces, **plan.removed}
            files = {segment.file: segment for segment in index.segments}
            staged = {
                NAME: _dump(index),
                _PENDING: _dump(replace(index, pending=pending)),
                BASE: plan.base,
                **{f"{name}.base": text for name, text in plan.kept_bases.items()},
                **{name: plan.base[files[name].start : files[name].end] for name in plan.replaces},
            }
            _stage(index.folder / STAGED, staged)
            _check_free(index.folder, plan.replaces)
        for name in plan.kept_bases:
            os.replace(f"{STAGED}/{name}.base", f"{name}.base", src_dir_fd=here, dst_dir_fd=here)
        os.replace(f"{STAGED}/{_PENDING}", NAME, src_dir_fd=here, dst_dir_fd=here)
        os.fsync(here)
        _settle(here, replace(index, pending=pending), old)


def finish(index: Index) -> Index:
    """Complete what a killed command has begun; return the index with nothing pending.

    Raises Refused for a file that was edited since: what it is based on is unknown.
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
                f"{index.folder / name} was edited after a command was killed while it rewrote the split; move the "
                "file away, run the command again, and repeat your edit in the new file"
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
    """Create an empty staging folder, and remove it on failure."""
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
            raise Refused(f"{path / name} exists but is not a segment of this split; move it away")


def _settle(here: int, index: Index, old: Index | None) -> None:
    """Move the staged files into place."""
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
            f"{', '.join(saved)} was saved while the split was being rewritten, and was kept; move it away, run the "
            "command again, and repeat your edit in the new file"
        )
    for segment in old.segments if old else ():
        if segment.based_on and not any(s.file == segment.file and s.based_on for s in index.segments):
            with suppress(FileNotFoundError):
                os.unlink(segment.kept_base, dir_fd=here)
    os.replace(f"{STAGED}/{NAME}", NAME, src_dir_fd=here, dst_dir_fd=here)
    os.fsync(here)
    _clear(index.folder / STAGED)


def _swap(here: int, name: str, replaced: str) -> bool:
    """Move the staged file `name` into place; False, with nothing changed, if the existing file is not `replaced`."""
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
    """Remove the file `name` of a removed segment; False, with nothing changed, if it is not `replaced`."""
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
