"""Write a split into a folder so that readers see the old or the new one, even after a crash.

The text and the new index are first written to the folder `.staged`. Then the index replaces the old one, with the
files still to be written as `pending`: from then on the new split is valid, and missing files are read from `base`.
Then each file is exchanged with the old one; if the old one has unexpected content, the user has just saved it, and the
files are exchanged back. The index without `pending` is written last.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from repoagent.errors import Refused, UsageError
from repoagent.git.file_writer import exchange_files
from repoagent.git.worktree import layout_of
from repoagent.split.folder_index import (
    BASE,
    LOCK,
    NAME,
    STAGED,
    VERSION,
    SplitIndex,
    base_bytes,
    digest,
    edited_segments,
    lock_split,
    read_index,
)
from repoagent.split.source import SourceText, SplitOptions, default_folder, new_index
from repoagent.storage.atomic import read_regular
from repoagent.storage.folders import open_folder, resolve_above, system_failed
from repoagent.storage.json_files import dumps
from repoagent.storage.layout import ensure_root

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_SYNC_EACH = 32  # files; for more, one sync of everything is faster
_LISTED = 5  # files in a message


def create_split(text: SourceText, options: SplitOptions, folder: Path | None = None) -> SplitIndex:
    """Write the split of `text` into `folder`; None means the default folder. The folder must be new or empty, or
    contain an earlier split of the same file.

    Raises Refused if the folder contains anything else or unmerged edits, or if a system call fails; UsageError if it
    is not a folder or is in a git directory. Nothing is written in these cases.
    """
    if folder is None:
        folder = default_folder(text)
        if text.worktree is not None:  # git ignores .repoagent
            ensure_root(layout_of(text.worktree))
            with open_folder(layout_of(text.worktree).splits, create=True):
                pass
    folder = resolve_above(folder.parent) / folder.name
    real = Path(os.path.realpath(folder))
    in_git = ".git" in real.parts
    if text.worktree is not None:  # in a bare repository, .repoagent is in the git directory
        git_dirs = (text.worktree.git_dir, text.worktree.common_dir)
        in_git = in_git or any(real.is_relative_to(path) for path in git_dirs)
        in_git = in_git and not real.is_relative_to(layout_of(text.worktree).splits)
    if in_git:
        raise UsageError(f"{folder} is in a git directory; use another folder with -o")
    _existing_split(folder, text)
    index = new_index(text, options, folder)
    new = not folder.exists()
    with open_folder(folder, create=True):
        pass
    try:
        with lock_split(folder):
            old = _existing_split(folder, text)
            write_split(index, text.data, finish_update(old) if old else None, {})
    except BaseException:
        if new and not os.path.lexists(folder / NAME):
            with suppress(OSError):
                (folder / LOCK).unlink(missing_ok=True)
                folder.rmdir()
        raise
    return index


def _existing_split(folder: Path, text: SourceText) -> SplitIndex | None:
    """The earlier split of the same file in `folder`; None if it is empty or missing. Raises what `create_split`
    raises."""
    if not folder.parent.is_dir():
        raise UsageError(f"no such folder: {folder.parent}; create it, or use another one with -o")
    if os.path.lexists(folder) and not folder.is_dir():
        raise UsageError(f"{folder} is not a folder; use another one with -o")
    try:
        with open_folder(folder) as opened, os.scandir(opened) as entries:
            names = {entry.name for entry in entries}
    except FileNotFoundError:
        return None
    if NAME not in names:
        if names - {LOCK, STAGED}:
            raise Refused(f"{folder} is neither empty nor a split; use another folder with -o")
        return None
    old = read_index(folder, missing_ok=True)
    if old.source.path != text.path:
        other = old.source.path or "standard input"
        raise Refused(f"{folder} contains a split of {other}; use another folder with -o")
    if edited := [segment.file for segment, _ in edited_segments(old, missing_ok=True)]:
        files = ", ".join(edited[:_LISTED]) + (", ..." if len(edited) > _LISTED else "")
        raise Refused(
            f"{folder} has unmerged edits ({files}); use --join to merge them, or --refresh to keep them"
        )
    return old


def write_split(
    index: SplitIndex, base: bytes, old: SplitIndex | None, edited: Mapping[str, bytes]
) -> tuple[list[str], list[str]]:
    """Write the split of `base` into its folder and replace `old`. Returns the files written and those removed. Call it
    inside `lock_split`.

    Files in `edited`, which maps names to the texts that they are based on, are not written. Raises Refused if a system
    call fails (the index is then the old or the new one), or if the user saves a segment during the call; that file is
    not overwritten.
    """
    hashes = {segment.file: segment.sha256 for segment in index.segments}
    present = {}
    for segment in old.segments if old else ():
        data = read_regular(index.folder / segment.file)
        if data is not None:
            present[segment.file] = digest(data)
    written = {
        name: present.get(name, "")
        for name, new in hashes.items()
        if name not in edited and present.get(name) != new
    }
    removed = {name: old_hash for name, old_hash in present.items() if name not in hashes}
    if index == old and not written and not removed and _is_base(index, index.folder / BASE):
        return [], []
    for name, replaced in written.items():
        if not replaced and os.path.lexists(path := index.folder / name):
            raise Refused(f"{path} exists but is not a segment of this split; move it away")
    pending = replace(index, pending={**written, **removed})
    bases = {segment.kept_base: edited[segment.file] for segment in index.segments if segment.based_on}
    with open_folder(index.folder) as folder:
        _stage(index.folder, {NAME: _dump(pending), BASE: base, **bases})
        for name in (*bases, NAME):
            _move(folder, f"{STAGED}/{name}", name)
        os.fsync(folder)
        finish_update(pending)
        for segment in old.segments if old else ():
            if segment.based_on and segment.kept_base not in bases:
                with suppress(FileNotFoundError):
                    os.unlink(segment.kept_base, dir_fd=folder)
    return list(written), list(removed)


def finish_update(index: SplitIndex) -> SplitIndex:
    """Complete an update that a kill interrupted, and return the index without pending files. Raises Refused for a file
    that was saved since then, because the text that it is based on is unknown."""
    whole = replace(index, pending={})
    staged = index.folder / STAGED
    if not index.pending and (_is_base(index, index.folder / BASE) or not _is_base(index, staged / BASE)):
        _clear(staged)
        return whole
    base = base_bytes(index)
    texts = {
        segment.file: base[segment.start : segment.end]
        for segment in index.segments
        if segment.file in index.pending
    }
    with open_folder(index.folder) as folder:
        _stage(index.folder, {NAME: _dump(whole), **texts}, keep=BASE)
        with suppress(FileNotFoundError):
            _move(folder, f"{STAGED}/{BASE}", BASE)
        saved = [
            name
            for name, replaced in index.pending.items()
            if not _replace_file(folder, name, replaced, new=name in texts)
        ]
        if saved:
            raise Refused(
                f"did not replace files that you saved during the update: {', '.join(saved)}; move them away, run the "
                "command again, and repeat your edits in the new files"
            )
        _move(folder, f"{STAGED}/{NAME}", NAME)
        os.fsync(folder)
        _clear(staged)
    return whole


def _is_base(index: SplitIndex, path: Path) -> bool:
    data = read_regular(path)
    return data is not None and digest(data) == index.source.sha256


def _stage(folder: Path, files: Mapping[str, bytes], keep: str = "") -> None:
    """Write the files into a staging folder that is empty except for the file `keep`; remove them on failure."""
    staged = folder / STAGED
    try:
        _clear(staged, keep)
        staged.mkdir(mode=0o700, exist_ok=True)
        for name, data in files.items():
            with os.fdopen(os.open(staged / name, _NEW, 0o600), "wb") as file:
                file.write(data)
                file.flush()
                if len(files) <= _SYNC_EACH:
                    os.fsync(file.fileno())
        if len(files) > _SYNC_EACH:
            os.sync()
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


def _replace_file(folder: int, name: str, replaced: str, *, new: bool) -> bool:
    """Move the staged file `name` into place if it is `new`, otherwise remove the file; False, without a change, if the
    existing file is not `replaced`."""
    staged = f"{STAGED}/{name}"
    present = _hash(folder, name)
    known = {replaced, _hash(folder, staged)} if new else {replaced}
    if present is not None and present not in known:
        return False
    if present is None or (
        new and not exchange_files(folder, staged, name)
    ):  # not all file systems can exchange
        if new:
            _move(folder, staged, name)
        return True
    if not new:
        _move(folder, name, staged)
    if _hash(folder, staged) in known:
        return True
    if new:
        exchange_files(folder, staged, name)
    else:
        _move(folder, staged, name)
    return False


def _move(folder: int, source: str, target: str) -> None:
    os.replace(source, target, src_dir_fd=folder, dst_dir_fd=folder)


def _hash(folder: int, name: str) -> str | None:
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        return digest(file.read())


def _dump(index: SplitIndex) -> bytes:
    return dumps({"version": VERSION, **index.to_dict()}, indent=1) + b"\n"
