"""The files that a patch may change: everything that git tracks, read only when the patch names it."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from pathlib import Path

from repoagent.edit.guards.scope import gate, holds_secrets, why_content_is_off_limits
from repoagent.edit.request import EditRequest
from repoagent.errors import Refused
from repoagent.git.files import REGULAR, Source, is_ignored, read_source
from repoagent.git.process import git
from repoagent.git.worktree import WorkTree
from repoagent.patch.files import NO_FILE, bad_path, spellings
from repoagent.patch.model import FilePatch, SourceText


class Tree(Mapping[str, SourceText]):
    """The current content by path. `read` runs on first access and may raise; `sources` has what was read."""

    def __init__(self, names: Collection[str], read: Callable[[str], Source]) -> None:
        self.sources: dict[str, Source] = {}
        self._names = dict.fromkeys(names)
        self._read = read

    def __getitem__(self, path: str) -> SourceText:
        if path not in self._names:
            raise KeyError(path)
        source = self.source(path)
        if source.data is None:
            raise Refused(
                f"{path} is missing from the work tree but is tracked: restore it with `git restore {path}` (in a "
                "sparse checkout `git sparse-checkout add FOLDER`), or commit its removal first"
            )
        return SourceText(source.data, source.mode or REGULAR)

    def source(self, path: str) -> Source:
        """The file, missing or not, as it was when it was first asked for."""
        if path not in self.sources:
            self.sources[path] = self._read(path)
        return self.sources[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, path: object) -> bool:
        return path in self._names


def tracked(worktree: WorkTree) -> set[str]:
    """Every path in the index."""
    return set(os.fsdecode(git(worktree.top, "ls-files", "-z")).split("\0")[:-1])


def is_there(top: Path, name: str, known: Collection[str]) -> bool:
    """Whether `name` is exactly a `known` path, or an existing file below `top` with a harmless name."""
    return name in known or (bad_path(name) is None and os.path.lexists(top / name))


def untracked(top: Path, patches: Sequence[FilePatch], known: Collection[str]) -> set[str]:
    """The exact names in `patches` that exist but are not `known`."""
    return {name for name in spelled(patches) if name not in known and is_there(top, name, known)}


def spelled(patches: Sequence[FilePatch]) -> set[str]:
    """Every path that a name in `patches` can mean."""
    return {name for patch in patches for side in spellings(patch.old, patch.new) for name in side}


def reader(
    worktree: WorkTree, request: EditRequest, known: AbstractSet[str], names: AbstractSet[str]
) -> Callable[[str], Source]:
    """A function that reads a file named in a patch (one of `names`); git tracks the `known` ones.

    It raises Refused for a file that a patch may not touch: the user named the patch, not its files, so likely secrets
    and ignored files are off limits.
    """

    ignored = gate(worktree.top, known | names)  # of its two reasons the one that holds for named files too

    def read(path: str) -> Source:
        if reason := ignored(path):
            raise Refused(reason)
        named = path in request.paths or request.allow_sensitive
        if not named and holds_secrets(path):
            raise Refused(
                f"{path} has a name that is typical of secrets: use --allow-sensitive to let the patch "
                "change it"
            )
        source = read_source(worktree, path)
        strange = path not in known and path not in request.paths
        if strange and path in is_ignored(worktree, [path]):
            raise Refused(
                f"{path} is ignored by git, so a patch may not change it: use --path {path} to allow it"
            )
        if source.data is not None and (reason := why_content_is_off_limits(source.data)) and not named:
            raise Refused(f"refusing to edit {path}: {reason}; use --allow-sensitive to edit it anyway")
        return source

    return read


def plain_name(patch: FilePatch) -> str:
    """The file that a patch names, without the `a/` or `b/` of a diff."""
    old, new = spellings(patch.old, patch.new)
    return (new or old or [patch.name])[0]


def from_here(
    patches: Sequence[FilePatch], known: Callable[[str], bool], prefix: str
) -> tuple[FilePatch, ...]:
    """Make names that are relative to the folder `prefix` ("" or ending in /) relative to the top.

    A name is relative to the folder if its file exists there and not from the top; a new file, if all others are."""
    if not prefix:
        return tuple(patches)
    found = [_found(patch, known, prefix) for patch in patches]
    here = any(found) and not any(name == "" for name in found)
    return tuple(
        _moved(patch, name if name else None, prefix) if name or (here and name is None) else patch
        for patch, name in zip(patches, found, strict=True)
    )


def _found(patch: FilePatch, known: Callable[[str], bool], prefix: str) -> str | None:
    """The existing file in the folder that the patch names; "" for one from the top, None for none at all."""
    old, new = spellings(patch.old, patch.new)
    names = [
        name for name in (old if patch.action in {"rename", "copy"} else [*new, *old]) if ".." not in name
    ]
    if any(known(name) for name in names):
        return ""
    return next((name for name in names if known(prefix + name)), None)


def _moved(patch: FilePatch, name: str | None, prefix: str) -> FilePatch:
    """The patch with its names from the top. `name` is the existing file, None for a new one."""
    if patch.action in {"rename", "copy"}:
        return replace(patch, old=f"{prefix}{patch.old}", new=f"{prefix}{patch.new}")
    old, new = spellings(patch.old, patch.new)
    plain = prefix + (name or (new or old or [""])[0])
    if patch.form != "diff":
        return replace(patch, old=None if patch.old is None else plain, new=plain)
    return replace(
        patch,
        old=patch.old if patch.old in {None, NO_FILE} else f"a/{plain}",
        new=patch.new if patch.new in {None, NO_FILE} else f"b/{plain}",
    )
