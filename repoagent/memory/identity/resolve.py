"""Which memory belongs to a file? Content decides; paths and inodes are only where to look.

In this order: the same path with the same content; an inode that is known for another file, with exactly the content
that is here, or content that is clearly more alike than what the path had (that is how two swapped names are told
apart); a path with content that is alike, or was worked over; a path that the file had before; what git knows; a file
that was rewritten in place. Paths are those of this work tree: in another one a file may have another name.
"""

from __future__ import annotations

from dataclasses import dataclass

from repoagent.memory.identity import ancestry
from repoagent.memory.identity.index import BLOB, EARLIER, KEY, PATH, Index
from repoagent.memory.identity.look import CLEARLY, Candidate, File, Look, key_at
from repoagent.memory.identity.record import REWRITTEN
from repoagent.memory.identity.similar import RENAME
from repoagent.store import Layout

_MANY = 1000  # of more memories it is not looked up which have lost their file
_COMPARED = 50  # files that are gone are compared with a new one, as git does with what is added


@dataclass(frozen=True)
class Found:
    """The memory in the folder named `folder`. `moved`: the file of that memory is now at the path asked
    for. `reason` is empty where path and content simply agree."""

    folder: str
    reason: str = ""
    moved: bool = False


def find(layout: Layout, index: Index, file: File) -> Found | None:
    """The memory of `file`, or None for a new one. Reads files, asks git when it must, writes nothing."""
    look = Look(layout, index, file)
    here = [each for each in look.having(PATH, look.file.path) if each.path == look.file.path]
    return (
        _same_blob(look, here)
        or _by_inode(look, here, exactly=True)
        or _alike(look, here)
        or _by_inode(look, here, exactly=False)
        or _worked_over(look, here)
        or _moved_back(look)
        or _by_git(look, here)
        or _rewritten(look, here)
    )


def _same_blob(look: Look, here: list[Candidate]) -> Found | None:
    return next((Found(each.folder) for each in here if look.closeness(each, look.file) == 1.0), None)


def _alike(look: Look, here: list[Candidate]) -> Found | None:
    score, best = look.closest(here)
    if best is None:
        return None
    return _by_inode(look, here, exactly=False, least=score + CLEARLY) or Found(best.folder)


def _worked_over(look: Look, here: list[Candidate]) -> Found | None:
    return next((Found(each.folder) for each in here if look.is_worked_over(each, look.file)), None)


def _by_inode(look: Look, here: list[Candidate], *, exactly: bool, least: float = RENAME) -> Found | None:
    file = look.file
    if not file.key or not file.says_something:
        return None
    folders = {each.folder for each in here}
    others = [each for each in look.having(KEY, file.key) if each.folder not in folders]
    _, each = look.closest(
        [one for one in others if file.key in one.identity.keys], 1.0 if exactly else least
    )
    if each is None:
        return None
    if key_at(file.worktree, each.path) == file.key and not look.is_case_only(each.path):
        return Found(each.folder, f"a hard link of {each.path}")
    if look.is_backup_of(each.path) or look.is_held(each):
        return None
    return Found(each.folder, f"moved from {each.path}", moved=True)


def _moved_back(look: Look) -> Found | None:
    if not look.file.says_something:
        return None
    once = [each for each in look.having(EARLIER, look.file.path) if not look.is_held(each)]
    _, each = look.closest(once)
    return None if each is None else Found(each.folder, f"moved back from {each.path}", moved=True)


def _by_git(look: Look, here: list[Candidate]) -> Found | None:
    file = look.file
    if not file.says_something:
        return None
    for each in here:
        commit = each.identity.commit
        if commit and ancestry.same_through_history(file.worktree, file.path, file.data, commit):
            return Found(each.folder, "another version from git's history")
    return _exact_rename(look) or _recorded_rename(look)


def _exact_rename(look: Look) -> Found | None:
    """What git calls an exact rename. A file that HEAD has may have been beside the old one: there git must say
    so, as it must where the old path has another file by now."""
    file = look.file
    same = [each for each in look.having(BLOB, file.blob) if look.is_lost(each)]
    if len(same) != 1:
        return None
    old, commit = same[0].path, same[0].identity.commit
    if look.is_gone(same[0]):
        if look.is_committed() or look.is_elsewhere(same[0]):
            return None
        return Found(same[0].folder, f"the same content as {old}, which is gone", moved=True)
    if commit is None or (old, file.path) not in ancestry.renames_since(file.worktree, commit):
        return None
    return Found(same[0].folder, f"renamed from {old} in git", moved=True)


def _recorded_rename(look: Look) -> Found | None:
    """A rename in git's index or history, or one that git will see when this file is added."""
    file = look.file
    if look.index.count(_MANY) >= _MANY:
        gone: list[Candidate] = []
        commits: list[str | None] = [None]
    else:
        gone = [each for name, _ in look.index.paths() for each in look.load(name) if look.is_gone(each)]
        if not gone:
            return None  # there is nothing to ask git for
        commits = [each.identity.commit for each in gone]
    lookup = _Gone(look)
    old = ancestry.renamed_from(file.worktree, file.path, lookup, commits)
    if old is not None:
        if look.is_elsewhere(lookup.at(old)[0]):
            return None
        return Found(lookup.at(old)[0].folder, f"renamed from {old} in git", moved=True)
    return _like_a_gone_one(look, gone) if len(gone) <= _COMPARED else None


def _like_a_gone_one(look: Look, gone: list[Candidate]) -> Found | None:
    scored = sorted(((look.closeness(each, look.file), each) for each in gone), key=lambda one: -one[0])
    best, second = (*scored, (0.0, None), (0.0, None))[:2]
    if best[0] < max(RENAME, second[0] + CLEARLY) or best[1] is None:
        return None
    if look.is_committed() or look.is_elsewhere(best[1]):
        return None
    return Found(best[1].folder, f"like {best[1].path}, which is gone", moved=True)


def _rewritten(look: Look, here: list[Candidate]) -> Found | None:
    agreed = (each for each in here if look.is_in_place(each) and not look.has_moved_away(each))
    return next((Found(each.folder, REWRITTEN) for each in agreed), None)


class _Gone:
    """The paths of memories that have lost their file, looked up one by one."""

    def __init__(self, look: Look) -> None:
        self._look = look

    def at(self, path: str) -> list[Candidate]:
        found = (each for each in self._look.having(PATH, path) if each.path == path)
        return [each for each in found if self._look.is_gone(each)]

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str) and bool(self.at(path))
