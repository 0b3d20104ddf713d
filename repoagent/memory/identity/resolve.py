"""Which memory belongs to a file? Content decides; paths and inodes are only where to look.

In this order: the same path with the same content; an inode that is known for another file, with exactly the content
that is here, or content that is clearly more alike than what the path had (that is how two swapped names are told
apart); a path with content that is alike, or was worked over; a path that the file had before; what git knows; content
like that of a file whose path is gone, or has another file by now; a file that was rewritten in place, or replaced by a
new one that keeps some of it. git is believed of what it has: the memory saw what git had at the old name, and the file
is what git has at the new one, or has the inode. Where a file elsewhere has the inode and the content, that one is it;
where nothing tells two apart, none of them is. Paths are those of this work tree: in another one a file may have
another name.
"""

from __future__ import annotations

from repoagent.dataclass import dataclass
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
    if look.is_held(each) and not look.is_case_only(each.path):
        return None
    return Found(each.folder, f"moved from {each.path}", moved=True)


def _moved_back(look: Look) -> Found | None:
    if not look.file.says_something:
        return None
    once = [each for each in look.having(EARLIER, look.file.path) if not look.is_held(each)]
    _, each = look.closest(once)
    if each is None or look.is_elsewhere(each):
        return None
    return _moved(each, f"moved back from {each.path}")


def _by_git(look: Look, here: list[Candidate]) -> Found | None:
    file = look.file
    if not file.says_something:
        return None
    for each in here:
        commit = each.identity.commit
        if not commit or not ancestry.same_through_history(file.worktree, file.path, file.data, commit):
            continue
        if not look.has_moved_away(each) and not look.is_elsewhere(each):
            return Found(each.folder, "another version from git's history")
    return _exact_rename(look) or _recorded_rename(look)


def _exact_rename(look: Look) -> Found | None:
    """What git calls an exact rename. A file that HEAD has may have been beside the old one: there git must say
    so, as it must where the old path has another file by now."""
    file = look.file
    same = [each for each in look.having(BLOB, file.blob) if look.is_lost(each)]
    if len(same) != 1:
        return None
    old = same[0].path
    if look.is_gone(same[0]):
        if look.is_committed() or look.is_elsewhere(same[0]):
            return None
        return Found(same[0].folder, f"the same content as {old}, which is gone", moved=True)
    if not look.is_renamed_from(same[0]):
        return None
    return Found(same[0].folder, f"renamed from {old} in git", moved=True)


def _recorded_rename(look: Look) -> Found | None:
    """A rename in git's index or history, or one that git will see when this file is added."""
    file = look.file
    many = look.index.count(_MANY) >= _MANY
    gone, displaced = ([], []) if many else _without_file(look)
    commits = [None] if many else [each.identity.commit for each in gone]
    asked = _Gone(look)
    if commits and ancestry.renamed_from(file.worktree, file.path, asked, commits):
        each = asked.found[0]
        if file.key in each.identity.keys or look.is_in_index():  # rewritten there in place, or what git has
            return None if look.is_elsewhere(each) else _moved(each, f"renamed from {each.path} in git")
    return _like_a_lost_one(look, gone, displaced)


def _without_file(look: Look) -> tuple[list[Candidate], list[Candidate]]:
    """The memories whose path is gone, and those whose path the file of another one has by now."""
    gone, replaced = [], []
    for name, _ in look.index.paths():
        for each in look.load(name):
            key = key_at(look.file.worktree, each.path)
            if not key:
                gone.append(each)
            elif key not in each.identity.keys and each.path != look.file.path:
                replaced.append(each)
    if len(replaced) > _COMPARED:  # a clone, a restored backup: all of them have other inodes
        return gone, []
    lost = (each for each in replaced if not look.is_held(each))
    return gone, [
        each
        for each in lost
        if look.is_displaced(each) or look.is_overwritten(each) or look.is_renamed_from(each)
    ]


def _like_a_lost_one(look: Look, gone: list[Candidate], displaced: list[Candidate]) -> Found | None:
    lost = [*gone, *displaced]
    if not lost or len(lost) > _COMPARED:
        return None
    scored = sorted(((look.closeness(each, look.file), each) for each in lost), key=lambda one: -one[0])
    (score, best), (second, _) = (*scored, (0.0, None))[:2]
    if best is None or score < max(RENAME, second + CLEARLY) or look.is_elsewhere(best):
        return None
    if look.is_committed() and (best in gone or not look.is_renamed_from(best)):
        return None  # it may have been beside what is lost
    return _moved(best, f"like {best.path}, which {'is gone' if best in gone else 'another file has now'}")


def _moved(each: Candidate, reason: str) -> Found:
    return Found(each.folder, reason, moved=True)


def _rewritten(look: Look, here: list[Candidate]) -> Found | None:
    there = (each for each in here if look.is_in_place(each) or look.is_replaced(each))
    agreed = (each for each in there if not look.has_moved_away(each))
    return next((Found(each.folder, REWRITTEN) for each in agreed), None)


class _Gone:
    """Whether git's old name of this file is that of a memory that has lost its file; which one is kept in `found`."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self.found: list[Candidate] = []

    def __call__(self, path: str, blob: str) -> bool:
        look = self._look
        named = (each for each in look.having(PATH, path) if each.path == path and look.is_gone(each))
        self.found = [each for each in named if look.was_in_git(each, blob)]
        return bool(self.found)
