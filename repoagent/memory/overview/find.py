"""Which memory a person means: by the path of a file, by a path that is gone, by the name or the id of the memory."""

from __future__ import annotations

import os
import re
import shlex
from contextlib import suppress
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.errors import NothingDone, Refused, UsageError
from repoagent.memory.identity.index import EARLIER, PATH, Index, folders, open_index
from repoagent.memory.identity.record import Memory
from repoagent.memory.identity.remember import copy_of, recognize, resolve
from repoagent.memory.notes.file import read_notes
from repoagent.repo.missing import no_such_file
from repoagent.repo.source import read_source
from repoagent.repo.worktree import WorkTree, relative
from repoagent.store import Layout, Warn

_ID = re.compile(r"[0-9a-f]{8}")
_NAME = re.compile(r"[a-z0-9-]*-[0-9a-f]{8}")


@dataclass(frozen=True)
class Named:
    """`path` is that of the file in this work tree, `data` its bytes, None where there is no file. `memory` is None
    for a file that has none. `typed` is what it was called by."""

    path: str
    data: bytes | None
    memory: Memory | None
    typed: str


def named(
    layout: Layout, worktree: WorkTree, name: str, cwd: Path, *, warn: Warn, rekey: bool = False
) -> Named:
    """What `name` means to somebody in `cwd`: what is there, or else a path from the top. With `rekey` a file that
    was found by its inode or content is written down as found, as an edit would.

    Raises UsageError for a folder, for what is neither a file nor remembered, and for a path that several memories of
    files that are gone have; Refused for what can't be read.
    """
    path = _relative(layout, worktree, name, cwd)
    if path is None:
        return _of_folder(layout, worktree, name, warn)
    if path == "." or ((worktree.top / path).is_dir() and not (worktree.top / path).is_symlink()):
        raise UsageError(
            f"{name} is a folder: name a file; `repoagent memory list {_shell(name)}` lists those in it"
        )
    problem: Refused | None = None
    try:
        data = read_source(worktree, path).data
    except Refused as error:  # a link by now, say: the file that was there may be remembered
        data, problem = None, error
    if data is not None:
        look = resolve if rekey else recognize
        return Named(path, data, look(layout, worktree, path, data, warn=warn), name)
    found = _gone(layout, worktree, path, warn)
    if found:
        return Named(path, None, found, name)
    if problem is None and cwd != worktree.top and not name.startswith((".", "/")):
        with suppress(UsageError):  # what is said is of the folder the person is in
            return named(layout, worktree, name, worktree.top, warn=warn, rekey=rekey)
    raise problem or _not_there(layout, worktree, path, warn)


def needed(layout: Layout, worktree: WorkTree, found: Named, *, warn: Warn) -> Memory:
    """The memory that was named. Raises NothingDone, with what may have been meant, for a file that has none."""
    if found.memory is not None:
        return found.memory
    sentence = f"nothing is remembered of {found.path}"
    original = copy_of(layout, worktree, found.path, found.data or b"", warn=warn)
    if original is not None:
        raise NothingDone(
            f"{sentence}; it {is_copy(original, worktree, found.typed)}; `repoagent memory relink "
            f"{_shell(found.typed)} --from {original.folder.name}` takes all of it from there"
        )
    other = _gone(layout, worktree, found.path, warn)
    if other is not None:
        raise NothingDone(
            f"{sentence}; another file that was there before has a memory, {other.folder.name}: "
            f"`repoagent memory relink {_shell(found.typed)} --from {other.folder.name}` ties that to this one"
        )
    raise NothingDone(sentence)


def is_copy(original: Memory, worktree: WorkTree, typed: str) -> str:
    """ "is a copy of …", of a file with the memory `original`, and how to have its notes too. `typed` is what the copy
    is called by."""
    sentence = f"is a copy of {original.identity.path_in(str(worktree.top))} and does not inherit its memory"
    if not read_notes(original.notes):
        return sentence
    return (
        f"{sentence}: `repoagent memory note {_shell(typed)} --from {original.folder.name}` copies its notes"
    )


def by_prefix(layout: Layout, worktree: WorkTree, beginning: str, most: int) -> list[str]:
    """At most `most` remembered paths that begin like this, sorted; for the completion of a shell, which is never told
    of what is wrong."""
    with open_index(layout, lambda sentence: None) as index:
        return index.paths_from(beginning, most)


def _relative(layout: Layout, worktree: WorkTree, name: str, cwd: Path) -> str | None:
    """The path of a file; None where the name is that of a memory."""
    if os.path.lexists(cwd / name):
        full = Path(os.path.realpath(cwd / name))
        return None if full.parent == layout.memory else relative(worktree, name, cwd)
    is_memory = _NAME.fullmatch(name) and (layout.memory / name).is_dir()
    if is_memory or _ID.fullmatch(name):
        return None
    return relative(worktree, name, cwd)


def _of_folder(layout: Layout, worktree: WorkTree, name: str, warn: Warn) -> Named:
    wanted = Path(name).name
    if _ID.fullmatch(wanted):
        found = [folder for folder in folders(layout.memory) if folder.endswith(f"-{wanted}")]
        wanted = found[0] if len(found) == 1 else wanted
    with open_index(layout, warn) as index:
        identity = index.identity(wanted)
    if identity is None:
        raise UsageError(f"there is no file {name}, and no memory of that name: see `repoagent memory list`")
    memory = Memory(layout.memory / wanted, identity)
    path = identity.path_in(str(worktree.top))
    try:
        data = read_source(worktree, path).data
    except Refused:
        data = None
    mine = None if data is None else recognize(layout, worktree, path, data, warn=warn)
    is_mine = mine is not None and mine.folder == memory.folder
    return Named(path, data if is_mine else None, memory, name)


def _gone(layout: Layout, worktree: WorkTree, path: str, warn: Warn) -> Memory | None:
    """The memory of a file that was at `path`. Raises UsageError where there are several."""
    with open_index(layout, warn) as index:
        found = list(_at(index, layout, worktree, path))
    if len(found) > 1:
        names = ", ".join(memory.folder.name for memory in found)
        raise UsageError(f"several files that are gone were at {path}; name the memory instead: {names}")
    return found[0] if found else None


def _at(index: Index, layout: Layout, worktree: WorkTree, path: str) -> list[Memory]:
    loaded = ((name, index.identity(name)) for name in index.names(PATH, path))
    return [
        Memory(layout.memory / name, identity)
        for name, identity in loaded
        if identity is not None and path in (identity.path_in(str(worktree.top)), identity.path)
    ]


def _not_there(layout: Layout, worktree: WorkTree, path: str, warn: Warn) -> UsageError:
    reason = "and nothing is remembered of it"
    with open_index(layout, warn) as index:
        loaded = [index.identity(folder) for folder in index.names(EARLIER, path)]
    now = sorted({identity.path for identity in loaded if identity is not None})
    if now:
        return no_such_file(
            path, worktree.top, reason=reason, remedy=f"{_shell(now[0])} had that name before"
        )
    return no_such_file(path, worktree.top, reason=reason)


def _shell(name: str) -> str:
    return shlex.quote(name)
