"""Write a split so that readers see the old or the new one, also after a crash.

Everything is first written to the folder `.staged`. Then the new index replaces the old one, with the files still to be
written as `pending`: from now on the new split is valid, and missing files are read from `base`. Then each file is
exchanged with the old one, which is compared: if it is not the expected one, the user has just saved it, and it is
exchanged back. The index without `pending` is written last.
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
from repoagent.split.folder_index import BASE, NAME, STAGED, VERSION, Index, base_bytes, digest
from repoagent.split.split_plan import SplitPlan
from repoagent.storage.atomic import read_regular
from repoagent.storage.folders import open_folder, system_failed
from repoagent.storage.json_files import dumps

_PENDING = "pending.json"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_SYNC_EACH = 32  # files; for more, one sync of everything is faster


def put(plan: SplitPlan, old: Index | None) -> None:
    """Write the planned split into its folder and replace `old`; call it inside `lock_split`.

    Raises Refused on a system error (before any change), or if the user saves a segment while it is being replaced;
    that file is not overwritten.
    """
    index = plan.index
    pending = replace(index, pending={**plan.replaces, **plan.removed})
    texts = {segment.file: plan.base[segment.start : segment.end] for segment in index.segments}
    with open_folder(index.folder) as folder:
        with _staging(index.folder) as staged:
            files = {
                NAME: _dump(index),
                _PENDING: _dump(pending),
                BASE: plan.base,
                **{f"{name}.base": text for name, text in plan.kept_bases.items()},
                **{name: texts[name] for name in plan.replaces},
            }
            _write_files(staged, files)
            for name, replaced in plan.replaces.items():
                if not replaced and os.path.lexists(path := index.folder / name):
                    raise Refused(f"{path} exists but is not a segment of this split; move it away")
        for name in plan.kept_bases:
            _move(folder, f"{STAGED}/{name}.base", f"{name}.base")
        _move(folder, f"{STAGED}/{_PENDING}", NAME)
        os.fsync(folder)
        _settle(folder, pending, old)


def finish(index: Index) -> Index:
    """Complete the update of a killed command; return the index without pending files.

    Raises Refused for a file that was edited since: the text that it is based on is unknown.
    """
    if not index.pending:
        _clear(index.folder / STAGED)
        return index
    base = base_bytes(index)
    texts = {segment.file: base[segment.start : segment.end] for segment in index.segments}
    for name, replaced in index.pending.items():
        data = read_regular(index.folder / name)
        known = {replaced, digest(texts[name])} if name in texts else {replaced}
        if data is not None and digest(data) not in known:
            raise Refused(
                f"{index.folder / name} was edited after a command was killed while it rewrote the split; move the "
                "file away, run the command again, and repeat your edit in the new file"
            )
    whole = replace(index, pending={})
    with open_folder(index.folder) as folder:
        with _staging(index.folder, keep=BASE) as staged:
            files = {NAME: _dump(whole), **{n: texts[n] for n in index.pending if n in texts}}
            _write_files(staged, files)
        _settle(folder, index, None)
    return whole


@contextmanager
def _staging(folder: Path, keep: str = "") -> Iterator[Path]:
    """Create an empty staging folder, and remove it on failure."""
    staged = folder / STAGED
    try:
        _clear(staged, keep)
        staged.mkdir(mode=0o700, exist_ok=True)
        yield staged
    except BaseException as error:
        _clear(staged, keep)
        if isinstance(error, OSError):
            raise system_failed("write the split in", folder, error) from error
        raise


def _clear(staged: Path, keep: str = "") -> None:
    if staged.is_symlink() or not staged.is_dir():
        staged.unlink(missing_ok=True)
    elif not keep:
        shutil.rmtree(staged)
    else:
        for path in staged.iterdir():
            if path.name != keep:
                path.unlink()


def _write_files(staged: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        descriptor = os.open(staged / name, _NEW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if len(files) <= _SYNC_EACH:
                os.fsync(descriptor)
    if len(files) > _SYNC_EACH:
        os.sync()


def _settle(folder: int, index: Index, old: Index | None) -> None:
    """Move the staged files into place."""
    with suppress(FileNotFoundError):
        _move(folder, f"{STAGED}/{BASE}", BASE)
    segments = {segment.file: segment for segment in index.segments}
    saved = [
        name
        for name, replaced in index.pending.items()
        if not (_put_file if name in segments else _remove_file)(folder, name, replaced)
    ]
    if saved:
        raise Refused(
            f"{', '.join(saved)} was saved while the split was being rewritten, and was kept; move it away, run the "
            "command again, and repeat your edit in the new file"
        )
    for segment in old.segments if old else ():
        new = segments.get(segment.file)
        if segment.based_on and not (new and new.based_on):
            with suppress(FileNotFoundError):
                os.unlink(segment.kept_base, dir_fd=folder)
    _move(folder, f"{STAGED}/{NAME}", NAME)
    os.fsync(folder)
    _clear(index.folder / STAGED)


def _put_file(folder: int, name: str, replaced: str) -> bool:
    """Move the staged file `name` into place; False, without a change, if the existing file is not `replaced`."""
    staged = f"{STAGED}/{name}"
    present = _hash(folder, name)
    known = {replaced, _hash(folder, staged)}
    if present is not None and present not in known:
        return False
    if present is None or not exchange(folder, staged, name):
        _move(folder, staged, name)
        return True
    if _hash(folder, staged) in known:
        return True
    exchange(folder, staged, name)
    return False


def _remove_file(folder: int, name: str, replaced: str) -> bool:
    """Remove the file `name` of a removed segment; False, without a change, if it is not `replaced`."""
    staged = f"{STAGED}/{name}"
    try:
        _move(folder, name, staged)
    except FileNotFoundError:
        return True
    if _hash(folder, staged) == replaced:
        return True
    _move(folder, staged, name)
    return False


def _move(folder: int, source: str, target: str) -> None:
    os.replace(source, target, src_dir_fd=folder, dst_dir_fd=folder)


def _hash(folder: int, name: str) -> str | None:
    """The SHA-256 of a file; None if it is missing."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        return digest(file.read())


def _dump(index: Index) -> bytes:
    return dumps({"version": VERSION, **index.to_dict()}, indent=1) + b"\n"
