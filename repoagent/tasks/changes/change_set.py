"""The changes of a run: for each file, the bytes before its first edit and after its last one, stored in `changes/`.

Three-way merges separate what others change in the same file, in between or afterwards, so that the run's change can
be committed or undone alone. That is impossible only if the run changed the same lines again after someone else. The
index is untrusted, so every entry is validated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from hashlib import sha256
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.edit.draft import Draft
from repoagent.errors import Refused
from repoagent.git.files import EXECUTABLE, REGULAR, SYMLINK, Content, FileChange, check_path, look, same
from repoagent.git.merge import Conflict, lines_text, merge
from repoagent.git.undo_log import list_edits
from repoagent.git.worktree import WorkTree
from repoagent.storage import json_files
from repoagent.storage.atomic import read_regular, write_whole

VERSION = 1
INDEX, _COMMIT = "index.json", "commit.json"
_LISTS = {
    "changes": "changes",
    "candidates": "candidates",
    "pending": "coming",
}  # with the names of the first version
_MODES = {None, "", REGULAR, EXECUTABLE, SYMLINK}

Lines = tuple[tuple[int, int], ...]
Write = Callable[[Sequence[FileChange]], None]
Overlaps = Mapping[str, Lines]  # files in which someone changed the same lines, with these lines


def change_between(
    old_path: str | None, before: Content | None, path: str | None, after: Content | None
) -> FileChange:
    """The change from `before` at `old_path` to `after` at `path`; a content of None means no file."""
    old = (None, None, None) if before is None else (old_path, before.data, before.mode)
    new = (None, None, None) if after is None else (path, after.data, after.mode)
    return FileChange(old[0], new[0], old[1], new[1], old[2], new[2])


def before_of(change: FileChange) -> Content | None:
    """The content before a change, None if the file is new."""
    return None if change.before is None else Content(change.before, change.old_mode or "")


def after_of(change: FileChange) -> Content | None:
    """The content after a change, None if the file is deleted."""
    return None if change.after is None else Content(change.after, change.mode or "")


def paths_of(changes: Iterable[FileChange]) -> set[str]:
    """All paths of changes, old and new."""
    return {path for change in changes for path in (change.old_path, change.path) if path}


def is_at_result(change: FileChange, path: str, current: Content | None) -> bool:
    """Whether the bytes at `path` are the result of `change`."""
    return (None if current is None else current.data) == (change.after if path == change.path else None)


def revert_lines(
    worktree: WorkTree, change: FileChange, current: Content | None
) -> Content | Conflict | None:
    """The `current` content without the change, but with everything else; None for no file."""
    before = before_of(change)
    unchanged = same(current, after_of(change))
    if current is None or before is None or before.is_link:
        return before if current is None or unchanged else Conflict()
    data = before.data if unchanged else _without(worktree, change, current)
    if isinstance(data, Conflict):
        return data
    changed_mode = change.mode != change.old_mode and current.mode == change.mode
    return Content(data, before.mode if changed_mode else current.mode)


@dataclass
class ChangeSet:
    """changes: of the run, in the order of first change.
    candidates: changes by commands, in untracked files or at an unknown time; see `keep`.
    overlapping: paths in which the run changed lines again that someone else had changed, with these lines.
    pending: announced by `will_write`, and possibly not written yet.
    edit: identifies the last written edit, so that it is not repeated after a kill.
    """

    worktree: WorkTree
    folder: Path
    changes: tuple[FileChange, ...] = ()
    candidates: tuple[FileChange, ...] = ()
    overlapping: Mapping[str, Lines] = field(default_factory=dict)
    pending: tuple[FileChange, ...] = ()
    edit: str = ""

    def will_write(self, changes: Iterable[FileChange], edit: str = "") -> None:
        """Announce changes before the files are written, so that a kill before `wrote` loses nothing."""
        self.pending, self.edit = tuple(changes), edit
        self._save()

    def wrote(self, changes: Iterable[FileChange]) -> None:
        """Add changes that the run has written; an empty list cancels the pending ones."""
        changes, self.pending = tuple(changes), ()
        self.edit = self.edit if changes else ""
        for change in changes:
            self._keep([path for path in (change.old_path, change.path) if path])
            self._add(change)
        self._save()

    def settle_pending(self) -> None:
        """After an interruption: add the pending changes whose bytes are in the files."""
        top = self.worktree.top
        self.wrote(
            [change for change in self.pending if is_at_result(change, change.name, look(top, change.name))]
        )

    def will_commit(self, edit_id: str, mark: str = "") -> None:
        """Announce the commit of edit `edit_id`, so that a kill neither loses nor repeats it: of the edit that `mark`
        identifies, or without it of all changes."""
        self._write_commit(edit_id, mark, settled=False)

    def committed(self, edit_id: str, mark: str = "") -> None:
        """Record that the commit was made, and drop its changes."""
        self.edit = mark or self.edit
        self.drop([] if mark else [change.name for change in self.changes])
        self._write_commit(edit_id, mark, settled=True)

    def settle_commit(self) -> str | None:
        """After a kill: the last commit of the run, None if it has none; its changes are dropped. Call after the
        journals are settled, because they record the commits."""
        path = self.folder / _COMMIT
        path = path if path.exists() else path.with_name("landing.json")  # of the first version
        value = json_files.read_document(path, version=VERSION)
        if value is None:
            return None
        edit = next((edit for edit in list_edits(self.worktree) if edit.id == value.get("edit")), None)
        if edit is None or edit.commit is None:
            return None
        if value.get("settled") is not True:
            self.committed(edit.id, str(value.get("mark", "")))
        return None if edit.undone else edit.commit

    def _write_commit(self, edit_id: str, mark: str, *, settled: bool) -> None:
        value = {"edit": edit_id, "mark": mark, "settled": settled}
        json_files.write_document(self.folder / _COMMIT, value, version=VERSION)

    def add_candidates(self, changes: Iterable[FileChange]) -> None:
        """Add candidates; drop those whose file has its original content again."""
        known = {change.name: change for change in self.candidates}
        for change in changes:
            first = known.pop(change.name, change)
            change = replace(change, before=first.before, old_path=first.old_path, old_mode=first.old_mode)
            if (change.before, change.old_mode) != (change.after, change.mode):
                known[change.name] = change
        self.candidates = tuple(known.values())
        self._save()

    def keep(self, paths: Sequence[str]) -> bool:
        """Turn candidates into changes of the run, with the current content of the files. Returns whether there were
        any."""
        if kept := self._keep(paths):
            self._save()
        return kept

    def drop(self, paths: Iterable[str]) -> None:
        """Forget the changes of these files, after they were undone, committed or left to the user."""
        dropped = set(paths)
        self.changes = tuple(change for change in self.changes if change.name not in dropped)
        self.candidates = tuple(change for change in self.candidates if change.name not in dropped)
        self._save()

    def drop_vanished(self) -> list[str]:
        """Forget the changes that are no longer in the files; returns their names."""
        vanished = [change.name for change in self.changes if self.remaining(change) is None]
        if vanished:
            self.drop(vanished)
        return vanished

    def present(self) -> tuple[FileChange, ...]:
        """The parts of the changes that are in the work tree now, without what others did to the files."""
        return tuple(part for change in self.changes if (part := self.remaining(change)) is not None)

    def remaining(self, change: FileChange) -> FileChange | None:
        """The part of a change that is in its file now, None if nothing is. Lines that someone undid are left out."""
        current = look(self.worktree.top, change.name)
        if (change.path is None) != (current is None):
            return None  # someone removed the file, or created it again
        if current is None or same(current, after_of(change)):
            return change
        below = _without(self.worktree, change, current)
        if isinstance(below, Conflict) or change.before is None:
            return change
        data = merge(self.worktree, change.before, below, current.data, exact=True)
        if isinstance(data, Conflict):
            return change
        unchanged = change.before == data and change.old_mode == change.mode and not change.is_rename
        return None if unchanged else replace(change, after=data)

    def others_content(self, changes: Iterable[FileChange]) -> dict[str, Content | None]:
        """The current contents of the paths of `changes` that someone else has changed since."""
        contents = {}
        for change in changes:
            expected = {change.old_path: None, change.path: after_of(change)}
            for path, content in expected.items():
                if path is not None and not same(current := look(self.worktree.top, path), content):
                    contents[path] = current
        return contents

    @property
    def is_stored(self) -> bool:
        """Whether it has been saved, with or without changes."""
        return (self.folder / INDEX).exists()

    def of(self, path: str) -> FileChange | None:
        """The change or candidate of `path`."""
        return next(iter(self.all_of([path])), None)

    def all_of(self, paths: Collection[str]) -> list[FileChange]:
        """The changes and candidates of `paths`."""
        all_changes = (*self.changes, *self.candidates)
        return [change for change in all_changes if change.path in paths or change.old_path in paths]

    def _keep(self, paths: Sequence[str]) -> bool:
        moved = [change for change in self.candidates if change.name in paths]
        self.candidates = tuple(change for change in self.candidates if change not in moved)
        for change in moved:
            present = _with_result(change, look(self.worktree.top, change.name))
            self.changes = Draft({}, self.changes).with_changes([present]).edits
        return bool(moved)

    def _add(self, change: FileChange) -> None:
        """Add a change, without what someone else did to its file before it."""
        paths = [earlier_change.path for earlier_change in self.changes]
        if change.old_path is not None and change.old_path in paths:
            at = paths.index(change.old_path)
            earlier = self.changes[at]
            pair = _consecutive(self.worktree, earlier, change)
            if isinstance(pair, Conflict):
                self.overlapping = {**self.overlapping, earlier.name: pair.lines}
                pair = _with_result(earlier, before_of(change)), change
            if earlier.name in self.overlapping:
                self.overlapping = {**self.overlapping, change.name: self.overlapping[earlier.name]}
            earlier, change = pair
            self.changes = (*self.changes[:at], earlier, *self.changes[at + 1 :])
        self.changes = Draft({}, self.changes).with_changes([change]).edits

    def _save(self) -> None:
        """Write the bytes first, then the index."""
        names = {change.name for change in self.changes}
        self.overlapping = {path: lines for path, lines in self.overlapping.items() if path in names}
        lists = {name: getattr(self, name) for name in _LISTS}
        all_changes = [change for changes in lists.values() for change in changes]
        contents = {
            data for change in all_changes for data in (change.before, change.after) if data is not None
        }
        paths = {self.folder / "bytes" / sha256(data).hexdigest(): data for data in contents}
        new = [(path, data) for path, data in paths.items() if not path.exists()]
        for number, (path, data) in enumerate(new, 1):  # the last one syncs the names of all
            write_whole(path, data, settled=number == len(new))
        value = {name: [_to_dict(change) for change in changes] for name, changes in lists.items()}
        rest = {"overlapping": self.overlapping, "edit": self.edit}
        json_files.write_document(self.folder / INDEX, {**value, **rest}, version=VERSION)


def open_change_set(worktree: WorkTree, folder: Path) -> ChangeSet:
    """Read the changes stored in `folder`; an empty set if there are none. Settles writes that a kill interrupted.

    Raises Newer for a newer version, Refused if the index is malformed or bytes are missing.
    """
    value = json_files.read_document(folder / INDEX, version=VERSION)
    if value is None:
        return ChangeSet(worktree, folder)
    lists = {
        name: tuple(_from_dict(folder, item) for item in value.get(name, value.get(old)) or ())
        for name, old in _LISTS.items()
    }
    lines = value.get("overlapping", value.get("mixed"))
    overlapping = {
        str(path): tuple((int(first), int(last)) for first, last in pairs)
        for path, pairs in (lines if isinstance(lines, dict) else {}).items()
    }
    change_set = ChangeSet(
        worktree, folder, **lists, overlapping=overlapping, edit=str(value.get("edit", ""))
    )
    if change_set.pending:
        change_set.settle_pending()
    return change_set


def _from_dict(folder: Path, item: object) -> FileChange:
    values = item if isinstance(item, dict) else {}
    old_path, path, old_mode, mode = texts = [
        values.get(key) for key in ("old_path", "path", "old_mode", "mode")
    ]
    is_text = all(value is None or isinstance(value, str) for value in texts)
    if not is_text or not (old_path or path) or not _MODES.issuperset((old_mode, mode)):
        raise Refused(
            f"{folder} is not a run's record of its changes; commit the changes by hand, or start a new run"
        )
    for name in filter(None, (old_path, path)):
        check_path(name)
    before, after = (
        _read_bytes(folder, values.get(side), path or old_path or "") for side in ("before", "after")
    )
    return FileChange(old_path, path, before, after, old_mode, mode)


def _read_bytes(folder: Path, name: object, path: str) -> bytes | None:
    if not name:
        return None
    is_digest = isinstance(name, str) and re.fullmatch("[0-9a-f]{64}", name)
    data = read_regular(folder / "bytes" / str(name)) if is_digest else None
    if data is None or sha256(data).hexdigest() != name:
        raise Refused(
            f"{folder} has lost the bytes of {path}, so the changes of this run are unknown; commit them by hand, "
            "or start a new run"
        )
    return data


def _to_dict(change: FileChange) -> dict[str, str | None]:
    return {
        "old_path": change.old_path,
        "path": change.path,
        "before": None if change.before is None else sha256(change.before).hexdigest(),
        "after": None if change.after is None else sha256(change.after).hexdigest(),
        "old_mode": change.old_mode,
        "mode": change.mode,
    }


def _consecutive(
    worktree: WorkTree, earlier: FileChange, later: FileChange
) -> tuple[FileChange, FileChange] | Conflict:
    """Two changes of a file in sequence, with what someone else did in between either in both changes or in neither.
    Returns a Conflict, with the lines, if the later change builds on that."""
    base = before_of(later)
    if later.mode == later.old_mode and earlier.mode and not _has_link(later):
        later = replace(later, mode=earlier.mode)  # someone else changed the mode in between
    if base is None or same(base, after_of(earlier)):
        return earlier, later
    below = _without(worktree, earlier, base)
    if isinstance(below, bytes):
        return replace(earlier, before=below, after=base.data), later
    if base.is_link or _has_link(earlier) or _has_link(later) or later.after is None or earlier.after is None:
        return below
    above = merge(worktree, earlier.after, base.data, later.after, exact=True)
    if isinstance(above, Conflict):
        return above
    return earlier, replace(later, before=earlier.after, after=above)


def _without(worktree: WorkTree, change: FileChange, current: Content) -> bytes | Conflict:
    if current.is_link or _has_link(change) or change.before is None or change.after is None:
        return Conflict()
    return merge(worktree, current.data, change.after, change.before, exact=True)


def _has_link(change: FileChange) -> bool:
    return SYMLINK in {change.old_mode, change.mode}


def _with_result(change: FileChange, current: Content | None) -> FileChange:
    if current is None:
        return replace(change, path=None, old_path=change.old_path or change.path, after=None, mode=None)
    return replace(change, after=current.data, mode=current.mode)


def revert(change_set: ChangeSet, paths: Sequence[str], write: Write) -> Overlaps:
    """Undo the run's changes of `paths` and keep what others did to the files. Files in which others changed the same
    lines stay unchanged and are returned. If `write` raises, nothing is changed."""
    change_set.drop_vanished()  # after a kill between the write and the save of the change set
    reverse: dict[str, FileChange] = {}
    overlaps: dict[str, Lines] = {}
    top = change_set.worktree.top
    for change in change_set.all_of(paths):
        current = look(top, change.name)
        if change.name in change_set.overlapping:
            overlaps[change.name] = change_set.overlapping[change.name]
        elif change.is_rename and look(top, change.old_path or "") is not None:
            overlaps[change.name] = ()
        elif isinstance(before := revert_lines(change_set.worktree, change, current), Conflict):
            overlaps[change.name] = before.version or before.lines
        else:
            reverse[change.name] = change_between(change.path, current, change.old_path, before)
    write([change for change in reverse.values() if not _is_noop(change)])
    change_set.drop(reverse)
    return overlaps


def revert_whole(change_set: ChangeSet, paths: Sequence[str], write: Write) -> tuple[Path, ...]:
    """Restore the content that files had before the run, and discard what others did since. Returns copies of the
    current content. If `write` raises, no file is changed."""
    changes = change_set.all_of(paths)
    reverse, copies = [], []
    folder = free_folder(change_set.folder, "backup")
    for change in changes:
        for path in dict.fromkeys(filter(None, (change.old_path, change.path))):
            current = look(change_set.worktree.top, path)
            before = before_of(change) if path == change.old_path else None
            reverse.append(change_between(path, current, path, before))
            if current is not None:
                write_whole(folder / path, current.data)
                copies.append(folder / path)
    write([change for change in reverse if not _is_noop(change)])
    change_set.drop([change.name for change in changes])
    return tuple(copies)


def overlaps_text(overlaps: Overlaps) -> str:
    """ "f.txt (line 3), g.txt", for a message."""
    return ", ".join(path + (f" ({lines_text(lines)})" if lines else "") for path, lines in overlaps.items())


def _is_noop(change: FileChange) -> bool:
    return (change.old_path, change.before, change.old_mode) == (change.path, change.after, change.mode)


def free_folder(parent: Path, name: str) -> Path:
    """The first of NAME-1, NAME-2, ... in `parent` that does not exist."""
    number = 1
    while (folder := parent / f"{name}-{number}").exists():
        number += 1
    return folder
