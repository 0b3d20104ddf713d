"""A run's changes: for each file, the bytes before its first edit and after its last one, stored in `changes/`.

Three-way merges separate the run's change from what others change in the same file, so that it can be committed or
undone alone, unless the run changed the same lines again after someone else did. The index is untrusted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.display_text import list_some
from repoagent.edit.draft import Draft
from repoagent.errors import Refused
from repoagent.git.files import (
    EXECUTABLE,
    REGULAR,
    SYMLINK,
    Content,
    FileChange,
    check_path,
    read_content,
    same_content,
)
from repoagent.git.merge import Conflict, merge
from repoagent.git.undo_log import list_edits
from repoagent.git.worktree import WorkTree
from repoagent.storage import json_files
from repoagent.storage.atomic import read_regular, write_whole

VERSION = 1
INDEX, _COMMIT = "index.json", "commit.json"
_LISTS = ("changes", "candidates", "pending")  # in the index
_MODES = {None, "", REGULAR, EXECUTABLE, SYMLINK}
_NAMED = 20  # file names in a sentence

Write = Callable[[Sequence[FileChange]], None]


def paths_of(changes: Iterable[FileChange]) -> set[str]:
    """All old and new paths of `changes`."""
    return {path for change in changes for path in (change.old_path, change.path) if path}


def is_at_result(change: FileChange, path: str, current: Content | None) -> bool:
    return (None if current is None else current.data) == (change.after if path == change.path else None)


@dataclass
class ChangeSet:
    """The record of a run's changes.

    changes: in the order of first change
    candidates: changes that commands made in untracked files or at an unknown time; see `keep`
    overlapping: paths in which the run changed lines again after someone else had changed them
    pending: changes announced by `will_write`, perhaps not written yet
    edit: identifies the last written edit, so that it is not repeated after a kill
    accepted: those of the changes that the user has accepted
    """

    worktree: WorkTree
    folder: Path
    changes: tuple[FileChange, ...] = ()
    candidates: tuple[FileChange, ...] = ()
    overlapping: frozenset[str] = frozenset()
    pending: tuple[FileChange, ...] = ()
    edit: str = ""
    accepted: frozenset[FileChange] = frozenset()

    def will_write(self, changes: Iterable[FileChange], edit: str = "") -> None:
        """Announce changes before the files are written, so that a kill before `wrote` loses nothing."""
        self.pending, self.edit = tuple(changes), edit
        self._save()

    def wrote(self, changes: Sequence[FileChange], accepted: Collection[FileChange] = ()) -> None:
        """Add changes that the run has written. An empty list cancels the pending ones. `accepted` are those that the
        user accepted; one on top of an earlier change that the user did not accept does not count."""
        seen = {
            change.name for change in accepted if self.accepted.issuperset(self.all_of(paths_of([change])))
        }
        self.keep(paths_of(changes))
        self.pending = ()
        self.edit = self.edit if changes else ""
        for change in changes:
            self._add(change)
        self.accepted |= {change for change in self.changes if change.name in seen}
        self._save()

    def settle_pending(self) -> None:
        """After an interruption: add the pending changes whose bytes are in the files."""
        written = []
        for change in self.pending:
            if is_at_result(change, change.name, read_content(self.worktree.top, change.name)):
                written.append(change)
        self.wrote(written)

    def will_commit(self, edit_id: str, mark: str = "", *, settled: bool = False) -> None:
        """Announce the commit of the edit that `mark` identifies or, without a mark, of all changes, so that a kill
        neither loses nor repeats it. With `settled`, record that the commit was made."""
        value = {"edit": edit_id, "mark": mark, "settled": settled}
        json_files.write_document(self.folder / _COMMIT, value, version=VERSION)

    def committed(self, edit_id: str, mark: str = "") -> None:
        self.edit = mark or self.edit
        self.drop([] if mark else [change.name for change in self.changes])
        self.will_commit(edit_id, mark, settled=True)

    def settle_commit(self) -> str | None:
        """After a kill, return the commit of the run's last edit and drop the changes in it. Returns None if there is
        none or it was undone. Call this after the journals are settled, because they record the commits."""
        value = json_files.read_document(self.folder / _COMMIT, version=VERSION)
        if value is None:
            return None
        edit = next((edit for edit in list_edits(self.worktree) if edit.id == value.get("edit")), None)
        if edit is None or edit.commit is None:
            return None
        if value.get("settled") is not True:
            self.committed(edit.id, str(value.get("mark", "")))
        return None if edit.undone else edit.commit

    def add_candidates(self, changes: Iterable[FileChange]) -> None:
        """Add candidates; drop those whose file has its original content again."""
        known = {change.name: change for change in self.candidates}
        for change in changes:
            first = known.pop(change.name, change)
            change = replace(change, old_path=first.old_path, old=first.old)
            if not change.is_noop:
                known[change.name] = change
        self.candidates = tuple(known.values())
        self._save()

    def keep(self, paths: Collection[str]) -> bool:
        """Turn the candidates in `paths` into changes, with the current content of the files. Returns whether there
        were any."""
        kept = [change for change in self.candidates if change.name in paths]
        if kept:
            self.candidates = tuple(change for change in self.candidates if change not in kept)
            present = []
            for change in kept:
                current = read_content(self.worktree.top, change.name)
                present.append(replace(change, path=change.path if current else None, new=current))
            self.changes = Draft({}, self.changes).with_changes(present).edits
            self._save()
        return bool(kept)

    def drop(self, paths: Iterable[str]) -> None:
        """Forget the changes to `paths` after they were undone, committed or left to the user."""
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
        """The parts of the changes that are in the files now, without what others did to the files."""
        return tuple(part for change in self.changes if (part := self.remaining(change)) is not None)

    def remaining(self, change: FileChange) -> FileChange | None:
        """The part of a change that is in its file now, without lines that someone undid; None if no part is left."""
        current = read_content(self.worktree.top, change.name)
        if (change.path is None) != (current is None):
            return None  # someone removed the file, or created it again
        if current is None or same_content(current, change.new):
            return change
        below = without_change(self.worktree, change, current)
        if isinstance(below, Conflict) or change.before is None:
            return change
        data = merge(self.worktree, change.before, below, current.data, exact=True)
        if isinstance(data, Conflict):
            return change
        part = change.with_data(change.before, data)
        return None if part.is_noop else part

    def others_content(self, changes: Iterable[FileChange]) -> dict[str, Content | None]:
        """The current content of each path in `changes` that someone else has changed since."""
        contents = {}
        for change in changes:
            expected = {change.old_path: None, change.path: change.new}
            for path, content in expected.items():
                current = None if path is None else read_content(self.worktree.top, path)
                if path is not None and not same_content(current, content):
                    contents[path] = current
        return contents

    def all_of(self, paths: Collection[str]) -> list[FileChange]:
        """The changes and candidates for `paths`."""
        all_changes = (*self.changes, *self.candidates)
        return [change for change in all_changes if change.path in paths or change.old_path in paths]

    def of(self, path: str) -> FileChange | None:
        return next(iter(self.all_of([path])), None)

    def _add(self, change: FileChange) -> None:
        """Add a change, without what someone else did to its file before it."""
        earlier = next((one for one in self.changes if one.path and one.path == change.old_path), None)
        if earlier is None:
            self.changes = Draft({}, self.changes).with_changes([change]).edits
            return
        joined = _joined(self.worktree, earlier, change)
        if isinstance(joined, Conflict):
            self.overlapping |= {earlier.name}
            joined = replace(change, old_path=earlier.old_path, old=earlier.old)
        if earlier.name in self.overlapping:
            self.overlapping |= {change.name}
        changes = (joined if one is earlier else one for one in self.changes)
        self.changes = tuple(one for one in changes if not one.is_noop)

    def _save(self) -> None:
        """Write the bytes first, then the index."""
        self.overlapping &= {change.name for change in self.changes}
        self.accepted &= set(self.changes)
        missing: dict[Path, bytes] = {}

        def digest(data: bytes | None) -> str | None:
            if data is None:
                return None
            name = sha256(data).hexdigest()
            path = self.folder / "bytes" / name
            if not path.exists():
                missing[path] = data
            return name

        value: dict[str, object] = {
            name: [
                {
                    "old_path": change.old_path,
                    "path": change.path,
                    "before": digest(change.before),
                    "after": digest(change.after),
                    "old_mode": change.old_mode,
                    "mode": change.mode,
                    "accepted": (digest(change.after) or "") if change in self.accepted else None,
                }
                for change in getattr(self, name)
            ]
            for name in _LISTS
        }
        for number, (path, data) in enumerate(missing.items(), 1):  # the last one syncs the names of all
            write_whole(path, data, settled=number == len(missing))
        value |= {"overlapping": sorted(self.overlapping), "edit": self.edit}
        json_files.write_document(self.folder / INDEX, value, version=VERSION)


def open_change_set(worktree: WorkTree, folder: Path) -> ChangeSet:
    """Read the changes stored in `folder`, and settle writes that a kill interrupted. Raises NewerFormat if the index
    has a newer version, Refused if it is malformed or bytes are missing."""
    value = json_files.read_document(folder / INDEX, version=VERSION)
    if value is None:
        return ChangeSet(worktree, folder)
    lists = {name: tuple(_read_change(folder, item) for item in value.get(name) or ()) for name in _LISTS}
    overlapping = frozenset(map(str, value.get("overlapping") or ()))  # may be an object with the lines
    edit = str(value.get("edit", ""))
    accepted = frozenset(
        change
        for change, item in zip(lists["changes"], value.get("changes") or (), strict=True)
        if item.get("accepted") == (item.get("after") or "")
    )
    change_set = ChangeSet(worktree, folder, **lists, overlapping=overlapping, edit=edit, accepted=accepted)
    if change_set.pending:
        change_set.settle_pending()
    return change_set


def _read_change(folder: Path, item: object) -> FileChange:
    values = item if isinstance(item, dict) else {}
    texts = [values.get(key) for key in ("old_path", "path", "old_mode", "mode")]
    old_path, path, old_mode, new_mode = texts
    is_text = all(value is None or isinstance(value, str) for value in texts)
    damaged = Refused(
        f"{folder} is not a complete record of a run's changes; commit the changes by hand, or start a new run"
    )
    if not is_text or not (old_path or path) or not _MODES.issuperset((old_mode, new_mode)):
        raise damaged
    for name in filter(None, (old_path, path)):
        check_path(name)
    sides: list[Content | None] = []
    for digest, mode in ((values.get("before"), old_mode), (values.get("after"), new_mode)):
        is_digest = isinstance(digest, str) and re.fullmatch("[0-9a-f]{64}", digest)
        data = read_regular(folder / "bytes" / str(digest)) if is_digest else None
        if digest and (data is None or sha256(data).hexdigest() != digest):
            raise damaged
        sides.append(None if data is None else Content(data, mode or REGULAR))
    return FileChange(old_path, path, *sides)


def _joined(worktree: WorkTree, earlier: FileChange, later: FileChange) -> FileChange | Conflict:
    """Two changes to a file as one, with what someone else did in between on both sides or on neither; a Conflict if
    the later change builds on that."""
    base, new = later.old, later.new
    has_link = SYMLINK in {earlier.old_mode, earlier.mode, later.old_mode, later.mode}
    if new and new.mode == later.old_mode != SYMLINK and earlier.new:
        new = replace(new, mode=earlier.new.mode)  # someone else changed the mode in between
    joined = FileChange(earlier.old_path, later.path, earlier.old, new)
    if base is None or same_content(base, earlier.new):
        return joined
    below = without_change(worktree, earlier, base)
    if isinstance(below, bytes):
        return joined.with_data(below, later.after)
    if has_link or later.after is None or earlier.after is None:
        return below
    above = merge(worktree, earlier.after, base.data, later.after, exact=True)
    return above if isinstance(above, Conflict) else joined.with_data(earlier.before, above)


def without_change(worktree: WorkTree, change: FileChange, current: Content) -> bytes | Conflict:
    """The `current` bytes without `change`, but with everything else."""
    has_link = SYMLINK in {change.old_mode, change.mode, current.mode}
    if has_link or change.before is None or change.after is None:
        return Conflict()
    return merge(worktree, current.data, change.after, change.before, exact=True)


def free_folder(parent: Path, name: str) -> Path:
    """The first of NAME-1, NAME-2, ... in `parent` that does not exist."""
    number = 1
    while (folder := parent / f"{name}-{number}").exists():
        number += 1
    return folder


def quote_unless_plain(path: str) -> str:
    """`path`, quoted unless it is plain, so that a file name cannot pass for an instruction."""
    plain = re.fullmatch(r"[\w./+@%=~-]+", path)
    return path if plain else json.dumps(path, ensure_ascii=not path.isprintable())


def names_of(paths: Sequence[str], most: int = _NAMED) -> str:
    return list_some([quote_unless_plain(path) for path in paths], most)


def describe_changes(changes: Sequence[FileChange]) -> str:
    """Like `names_of`, but marks new and deleted files."""
    texts = []
    for change in changes:
        status = " (new)" if change.before is None else " (deleted)" if change.after is None else ""
        texts.append(quote_unless_plain(change.name) + status)
    return list_some(texts, _NAMED)
