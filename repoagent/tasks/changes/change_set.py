"""The changes of a run: for each file, the bytes before its first edit and after its last one, kept in `changes/`.

What others change in the same file, in between or afterwards, is separated by three-way merges, so that the run's
change can be committed or undone alone. Only where the run changed the same lines again after someone else is that
impossible. The index may be anyone's file, so every entry is validated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from repoagent.dataclass import dataclass
from repoagent.edit.request import Draft
from repoagent.errors import Refused
from repoagent.git.files import EXECUTABLE, REGULAR, SYMLINK, Content, FileChange, check_path, look, same
from repoagent.git.merge import Conflict, merge
from repoagent.git.worktree import WorkTree
from repoagent.storage import jsonl
from repoagent.storage.atomic import read_regular, write_whole

_MODES = {None, "", REGULAR, EXECUTABLE, SYMLINK}


def check(one: object, folder: Path) -> None:
    """Raise Refused unless `one`, which was read in `folder`, has paths that name files of the work tree, and modes
    that git has for files."""
    values = one if isinstance(one, dict) else {}
    paths = [values.get(name) for name in ("old_path", "path")]
    modes = [values.get(name) for name in ("old_mode", "mode")]
    if not any(paths) or not all(value is None or isinstance(value, str) for value in [*paths, *modes]):
        raise Refused(_NOT_OURS.format(folder=folder))
    if not _MODES.issuperset(modes):
        raise Refused(_NOT_OURS.format(folder=folder))
    for path in filter(None, paths):
        check_path(path)


_NOT_OURS = "{folder} is not a run's record of its changes; commit the changes by hand, or start a new run"

VERSION = 1
INDEX = "index.json"
_SIDES = ("before", "after")

Lists = Mapping[str, Iterable[FileChange]]


def save(folder: Path, lists: Lists, rest: Mapping[str, object]) -> None:
    """Replace what the folder says: the `lists` of changes, and `rest` as it is; the bytes first."""
    every = [change for some in lists.values() for change in some]
    sides = (data for change in every for data in (change.before, change.after) if data is not None)
    new = [data for data in dict.fromkeys(sides) if not _place(folder, data).exists()]
    for n, data in enumerate(new, 1):  # the last one settles the names of all
        write_whole(_place(folder, data), data, settled=n == len(new))
    value: dict[str, Any] = {name: [_to_dict(one) for one in some] for name, some in lists.items()}
    jsonl.write_document(folder / INDEX, {**value, **rest}, version=VERSION)


def load(folder: Path) -> dict[str, Any] | None:
    """What the folder says; None where there is nothing. Raises Refused for a newer version."""
    return jsonl.read_document(folder / INDEX, version=VERSION)


def changes(folder: Path, raw: object) -> tuple[FileChange, ...]:
    """A list of `load` as changes. Raises Refused where the bytes of one are gone, or it can't be one."""
    found = []
    for one in raw if isinstance(raw, list) else []:
        check(one, folder)
        sides = [read_bytes(folder, one.get(side)) for side in _SIDES]
        if any(data is None and one.get(side) for data, side in zip(sides, _SIDES, strict=True)):
            raise Refused(
                f"{folder} has lost the bytes of {one.get('path') or one.get('old_path')}, so the changes "
                "of this run are unknown; commit them by hand, or start a new run"
            )
        old, new = (sides[0], one.get("old_mode")), (sides[1], one.get("mode"))
        found.append(FileChange(one.get("old_path"), one.get("path"), old[0], new[0], old[1], new[1]))
    return tuple(found)


def keep_bytes(folder: Path, data: bytes) -> str:
    """Keep bytes; their name."""
    path = _place(folder, data)
    if not path.exists():
        write_whole(path, data)
    return path.name


def read_bytes(folder: Path, name: object) -> bytes | None:
    """The bytes of that name, None where they are gone."""
    if not isinstance(name, str) or len(name) != 64 or not name.isalnum():
        return None
    data = read_regular(folder / "bytes" / name)
    return data if data is not None and sha256(data).hexdigest() == name else None


def _place(folder: Path, data: bytes) -> Path:
    return folder / "bytes" / sha256(data).hexdigest()


def _to_dict(change: FileChange) -> dict[str, str | None]:
    hashes = {
        side: None if data is None else sha256(data).hexdigest()
        for side, data in zip(_SIDES, (change.before, change.after), strict=True)
    }
    return {
        "old_path": change.old_path,
        "path": change.path,
        **hashes,
        "old_mode": change.old_mode,
        "mode": change.mode,
    }


def lines(raw: object) -> dict[str, tuple[tuple[int, int], ...]]:
    """Paths with lines of them, as `rest` has them."""
    found = raw if isinstance(raw, dict) else {}
    return {str(path): tuple((int(a), int(b)) for a, b in pairs) for path, pairs in found.items()}


Lines = tuple[tuple[int, int], ...]


def after_of(change: FileChange) -> Content | None:
    """What the change has left at its path."""
    return None if change.after is None else Content(change.after, change.mode or "")


def before_of(change: FileChange) -> Content | None:
    """What it found."""
    return None if change.before is None else Content(change.before, change.old_mode or "")


def followed(
    worktree: WorkTree, earlier: FileChange, later: FileChange
) -> tuple[FileChange, FileChange] | Conflict:
    """Two changes of a file, one after the other, without what somebody else has done to it in between: that is in all
    sides of both, or in none. A Conflict where the later one works on it, with the lines."""
    found = before_of(later)
    if later.mode == later.old_mode and earlier.mode and not is_link(later):
        later = replace(later, mode=earlier.mode)  # another one since is somebody else's
    if found is None or same(found, after_of(earlier)):
        return earlier, later
    below = _without(worktree, earlier, found)
    if isinstance(below, bytes):
        return replace(earlier, before=below, after=found.data), later
    if found.is_link or is_link(earlier) or is_link(later) or later.after is None or earlier.after is None:
        return below
    above = merge(worktree, earlier.after, found.data, later.after, exact=True)
    if isinstance(above, Conflict):
        return above
    return earlier, replace(later, before=earlier.after, after=above)


def standing(worktree: WorkTree, change: FileChange, now: Content | None) -> FileChange | None:
    """What of the change is still in its file, that holds `now`; None for nothing.

    What somebody has taken back is not in it any more, where that can be told by lines; what they have done on top of
    it never was.
    """
    if (change.path is None) != (now is None):
        return None  # somebody has taken the file away, or has made it anew
    if now is None or same(now, after_of(change)):
        return change
    below = _without(worktree, change, now)
    if isinstance(below, Conflict) or change.before is None:
        return change
    left = merge(worktree, change.before, below, now.data, exact=True)
    if isinstance(left, Conflict):
        return change
    rest = replace(change, after=left)
    return None if is_nothing(rest) else rest


def without(worktree: WorkTree, change: FileChange, now: Content | None) -> Content | Conflict | None:
    """What the place of the file would hold without the change (None: no file), with all else that `now` holds."""
    before = before_of(change)
    if now is None or before is None or before.is_link:
        return before if now is None or same(now, after_of(change)) else Conflict()
    below = before.data if same(now, after_of(change)) else _without(worktree, change, now)
    if isinstance(below, Conflict):
        return below
    changed = change.mode != change.old_mode and now.mode == change.mode
    return Content(below, before.mode if changed else now.mode)


def theirs(worktree: WorkTree, change: FileChange) -> dict[str, Content | None]:
    """What is at the paths of the change that it has not left there."""
    sides = {change.path: after_of(change)} if change.path is not None else {}
    if change.old_path is not None and change.old_path != change.path:
        sides[change.old_path] = None
    found = {path: look(worktree.top, path) for path in sides}
    return {path: now for path, now in found.items() if not same(now, sides[path])}


def is_nothing(change: FileChange) -> bool:
    """Whether both sides are the same."""
    if change.before is None and change.after is None:
        return True
    unchanged = change.before == change.after and change.old_mode == change.mode
    return unchanged and change.old_path == change.path


def _without(worktree: WorkTree, change: FileChange, now: Content) -> bytes | Conflict:
    if now.is_link or is_link(change) or change.before is None or change.after is None:
        return Conflict()
    return merge(worktree, now.data, change.after, change.before, exact=True)


def is_link(change: FileChange) -> bool:
    """Whether a side of it is a symbolic link, which is not a matter of lines."""
    return SYMLINK in {change.old_mode, change.mode}


@dataclass
class ChangeSet:
    """`changes` belong to the run, in the order of first change. `candidates` were made by commands and are files that
    git does not know, or were made while nobody looked: they belong to it when they are kept.

    `mixed` are paths in which the run has changed lines that somebody else had changed since it did, and on which
    lines that was. `edit` tells the edit that was written last from all others, so that it is not made again after a
    kill.
    """

    worktree: WorkTree
    folder: Path
    changes: tuple[FileChange, ...] = ()
    candidates: tuple[FileChange, ...] = ()
    mixed: Mapping[str, Lines] = field(default_factory=dict)
    coming: tuple[FileChange, ...] = ()
    edit: str = ""

    def will_write(self, changes: Iterable[FileChange], edit: str = "") -> None:
        """To be called before files are written: a kill between the write and `wrote` then loses nothing."""
        self.coming, self.edit = tuple(changes), edit
        self._save()

    def wrote(self, changes: Iterable[FileChange]) -> None:
        """The run has made these changes; none of them: what was coming has not come."""
        changes, self.coming = tuple(changes), ()
        self.edit = self.edit if changes else ""
        for change in changes:
            self.keep([path for path in (change.old_path, change.path) if path], save=False)
            self._add(change)
        self._save()

    def came(self) -> None:
        """Whether what was coming has come is not known, for something broke off: the bytes in the files say it."""
        self.wrote([change for change in self.coming if _is_written(self.worktree, change)])

    def found(self, changes: Iterable[FileChange]) -> None:
        """Files that are candidates from now on, or not any more."""
        known = {change.name: change for change in self.candidates}
        for change in changes:
            before = known.pop(change.name, None)
            if before is not None:
                change = replace(
                    change, before=before.before, old_path=before.old_path, old_mode=before.old_mode
                )
            if (change.before, change.old_mode) != (change.after, change.mode):
                known[change.name] = change
        self.candidates = tuple(known.values())
        self._save()

    def keep(self, paths: Sequence[str], *, save: bool = True) -> list[str]:
        """Make candidates changes of the run, as the files are now; those that were."""
        kept = [change for change in self.candidates if change.name in paths]
        self.candidates = tuple(change for change in self.candidates if change not in kept)
        for change in kept:
            present = _ending(change, look(self.worktree.top, change.name))
            self.changes = Draft({}, self.changes).with_changes([present]).edits
        if save and kept:
            self._save()
        return [change.name for change in kept]

    def drop(self, paths: Iterable[str]) -> None:
        """These files are as they were before the run, or not of its concern any more."""
        gone = set(paths)
        self.changes = tuple(change for change in self.changes if change.name not in gone)
        self.candidates = tuple(change for change in self.candidates if change.name not in gone)
        self._save()

    def vanished(self) -> list[str]:
        """The changes of which nothing is in the files any more: they leave the ledger."""
        gone = [change.name for change in self.changes if self.standing(change) is None]
        if gone:
            self.drop(gone)
        return gone

    def present(self) -> tuple[FileChange, ...]:
        """The changes, as far as they are in the work tree now: without what else was done to the files."""
        found = map(self.standing, self.changes)
        return tuple(change for change in found if change is not None)

    def standing(self, change: FileChange) -> FileChange | None:
        """What of a change is in the work tree now, None for nothing."""
        place = change.path or change.old_path or ""
        return standing(self.worktree, change, look(self.worktree.top, place))

    def theirs(self, changes: Iterable[FileChange]) -> dict[str, Content | None]:
        """What is at the paths of `changes` beside them, for somebody else has been at work there."""
        return {path: now for change in changes for path, now in theirs(self.worktree, change).items()}

    @property
    def is_kept(self) -> bool:
        """Whether it is in its folder, also where it is empty."""
        return (self.folder / INDEX).exists()

    def keep_bytes(self, data: bytes) -> str:
        """Keep bytes beside the ledger; their name."""
        return keep_bytes(self.folder, data)

    def kept_bytes(self, name: str) -> bytes | None:
        """What `keep_bytes` has kept, None where it is gone."""
        return read_bytes(self.folder, name)

    def of(self, path: str) -> FileChange | None:
        """The change, or the candidate, that is about `path`."""
        every = (*self.changes, *self.candidates)
        return next((change for change in every if path in (change.path, change.old_path)), None)

    def _add(self, change: FileChange) -> None:
        """Make `change` a part of the run's, apart from what somebody has done to its file before it."""
        at = next(
            (n for n, one in enumerate(self.changes) if one.path is not None and one.path == change.old_path),
            None,
        )
        if at is not None:
            earlier = self.changes[at]
            found = followed(self.worktree, earlier, change)
            if isinstance(found, Conflict):
                self.mixed = {**self.mixed, earlier.name: found.lines}
                found = _ending(earlier, before_of(change)), change
            if earlier.name in self.mixed:
                self.mixed = {**self.mixed, change.name: self.mixed[earlier.name]}
            brought, change = found
            self.changes = (*self.changes[:at], brought, *self.changes[at + 1 :])
        self.changes = Draft({}, self.changes).with_changes([change]).edits

    def _save(self) -> None:
        names = {change.name for change in self.changes}
        self.mixed = {path: lines for path, lines in self.mixed.items() if path in names}
        lists = {"changes": self.changes, "candidates": self.candidates, "coming": self.coming}
        save(self.folder, lists, {"mixed": self.mixed, "edit": self.edit})


def open_change_set(worktree: WorkTree, folder: Path) -> ChangeSet:
    """The ledger in `folder`, an empty one where there is none. What a kill has cut short is settled by the bytes.

    Raises Refused for one of a newer version.
    """
    value = load(folder)
    if value is None:
        return ChangeSet(worktree, folder)
    lists = {name: changes(folder, value.get(name)) for name in ("changes", "candidates", "coming")}
    change_set = ChangeSet(
        worktree, folder, lists["changes"], lists["candidates"], lines(value.get("mixed")),
        edit=str(value.get("edit", "")),
    )  # fmt: skip
    if lists["coming"]:
        change_set.coming = lists["coming"]
        change_set.came()
    return change_set


def _is_written(worktree: WorkTree, change: FileChange) -> bool:
    now = look(worktree.top, change.name)
    return now is None if change.after is None else now is not None and now.data == change.after


def _ending(change: FileChange, now: Content | None) -> FileChange:
    """The change with what its file holds now as its result."""
    if now is None:
        return replace(change, path=None, old_path=change.old_path or change.path, after=None, mode=None)
    return replace(change, after=now.data, mode=now.mode)
