"""The changes of a run, each from the bytes that its first edit found to those that its last one left.

What somebody else does to a file in between is no part of them: it is taken over into what was before. So a change can
be committed alone in the end, and taken back alone. All of it is in `changes/` of the run's folder: `index.json`, and
the bytes by their hash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from repoagent.edit.draft import Draft
from repoagent.errors import Refused
from repoagent.repo import FileChange, WorkTree
from repoagent.repo.content import Content, look, same
from repoagent.repo.merge import Conflict, merge, say_lines
from repoagent.store import document, write_whole
from repoagent.store.atomic import read_regular
from repoagent.work.changes.checking import check

VERSION = 1


class Inseparable(Refused):
    """Somebody else has changed the same lines since."""


@dataclass
class Ledger:
    """`changes` belong to the run, in the order of first change. `candidates` were made by commands and are files that
    git does not know, or were made while nobody looked: they belong to it when they are kept.

    `mixed` are paths in which the run has changed lines that somebody else had changed since it did. `edit` tells the
    edit that was written last from all others, so that it is not made again after a kill.
    """

    worktree: WorkTree
    folder: Path
    changes: tuple[FileChange, ...] = ()
    candidates: tuple[FileChange, ...] = ()
    mixed: frozenset[str] = frozenset()
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
            self.changes = tuple(map(self._brought_up_to(change), self.changes))
            self.changes = Draft({}, self.changes).with_changes([change]).edits
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
            now = look(self.worktree.top, change.name)
            present = _ending(change, now)
            self.changes = Draft({}, self.changes).with_changes([present]).edits
        if save and kept:
            self._save()
        return [change.name for change in kept]

    def drop(self, paths: Iterable[str]) -> None:
        """These files are as they were before the run, or not of its concern any more."""
        gone = set(paths)
        self.changes = tuple(change for change in self.changes if change.name not in gone)
        self.candidates = tuple(change for change in self.candidates if change.name not in gone)
        self.mixed -= gone
        self._save()

    def vanished(self) -> list[str]:
        """The changes of which nothing is in the files any more: they leave the ledger. Of what can't be told apart
        from somebody else's nothing is said."""
        try:
            there = {change.name for change in self.present()}
        except Inseparable:
            return []
        gone = [change.name for change in self.changes if change.name not in there]
        if gone:
            self.drop(gone)
        return gone

    @property
    def is_kept(self) -> bool:
        """Whether it is in its folder, also where it is empty."""
        return (self.folder / "index.json").exists()

    def keep_bytes(self, data: bytes) -> str:
        """Keep bytes beside the ledger; their name."""
        return _keep(self.folder, data)

    def kept_bytes(self, name: str) -> bytes | None:
        """What `keep_bytes` has kept, None where it is gone."""
        return _bytes(self.folder, name)

    def of(self, path: str) -> FileChange | None:
        """The change, or the candidate, that is about `path`."""
        every = (*self.changes, *self.candidates)
        return next((change for change in every if path in (change.path, change.old_path)), None)

    def present(self) -> tuple[FileChange, ...]:
        """The changes as they stand in the work tree now: what else was done to the files is in both sides.

        Raises Inseparable where it is on the same lines.
        """
        if self.mixed:
            raise Inseparable(_mixed(sorted(self.mixed)))
        return self._as_they_are(self.changes)

    def separated(self) -> tuple[FileChange, ...]:
        """As `present`, of the candidates too."""
        return (*self.present(), *self._as_they_are(self.candidates))

    def _as_they_are(self, changes: Iterable[FileChange]) -> tuple[FileChange, ...]:
        found = []
        for change in changes:
            now = look(self.worktree.top, change.name) if change.path is not None else None
            if change.path is not None and now is None:
                continue  # somebody has taken the file away: there is nothing of ours in it
            if change.path is None and look(self.worktree.top, change.name) is not None:
                continue  # and here somebody has made it anew
            found.append(change if now is None else self._separated(change, now))
        return tuple(change for change in found if not _is_nothing(change))

    def _brought_up_to(self, change: FileChange) -> Callable[[FileChange], FileChange]:
        """An earlier change with what somebody has done to its file before `change` was made."""

        def brought(earlier: FileChange) -> FileChange:
            if earlier.path is None or earlier.path != change.old_path or change.before is None:
                return earlier
            found = Content(change.before, change.old_mode or "")
            try:
                return self._separated(earlier, found)
            except Inseparable:
                self.mixed |= {earlier.path}
                return _ending(earlier, found)

        return brought

    def _separated(self, change: FileChange, now: Content) -> FileChange:
        """The same change between what its file would be without it and what the file is."""
        after = Content(change.after or b"", change.mode or "")
        if same(now, after):
            return change
        if change.before is None or change.after is None:
            return _ending(change, now)
        merged = merge(self.worktree, now.data, change.after, change.before)
        if isinstance(merged, Conflict):
            where = f" ({say_lines(merged.lines)})" if merged.lines else ""
            raise Inseparable(_mixed([change.name]) + where)
        return _ending(replace(change, before=merged), now)

    def _save(self) -> None:
        every = (*self.changes, *self.candidates, *self.coming)
        sides = (data for change in every for data in (change.before, change.after) if data is not None)
        new = [data for data in dict.fromkeys(sides) if not _place(self.folder, data).exists()]
        for n, data in enumerate(new, 1):  # the last one settles the names of all
            write_whole(_place(self.folder, data), data, settled=n == len(new))
        lists = {"changes": self.changes, "candidates": self.candidates, "coming": self.coming}
        value: dict[str, Any] = {name: [_to_dict(one) for one in some] for name, some in lists.items()}
        document.write(
            self.folder / "index.json",
            {**value, "mixed": sorted(self.mixed), "edit": self.edit},
            version=VERSION,
        )


def open_ledger(worktree: WorkTree, folder: Path) -> Ledger:
    """The ledger in `folder`, an empty one where there is none. What a kill has cut short is settled by the bytes.

    Raises Refused for one of a newer version.
    """
    value = document.read(folder / "index.json", version=VERSION)
    if value is None:
        return Ledger(worktree, folder)
    lists = {name: _changes(folder, value.get(name)) for name in ("changes", "candidates", "coming")}
    ledger = Ledger(
        worktree, folder, lists["changes"], lists["candidates"], frozenset(value.get("mixed", ())),
        edit=str(value.get("edit", "")),
    )  # fmt: skip
    if lists["coming"]:
        ledger.coming = lists["coming"]
        ledger.came()
    return ledger


def _is_written(worktree: WorkTree, change: FileChange) -> bool:
    now = look(worktree.top, change.name)
    return now is None if change.after is None else now is not None and now.data == change.after


def _ending(change: FileChange, now: Content | None) -> FileChange:
    """The change with what its file holds now as its result."""
    if now is None:
        return replace(change, path=None, old_path=change.old_path or change.path, after=None, mode=None)
    return replace(change, after=now.data, mode=now.mode)


def _is_nothing(change: FileChange) -> bool:
    if change.before is None and change.after is None:
        return True
    unchanged = change.before == change.after and change.old_mode == change.mode
    return unchanged and change.old_path == change.path


def _mixed(paths: Sequence[str]) -> str:
    return f"{', '.join(paths)} was changed by somebody else on lines that this run has changed too"


def _keep(folder: Path, data: bytes) -> str:
    path = _place(folder, data)
    if not path.exists():
        write_whole(path, data)
    return path.name


def _place(folder: Path, data: bytes) -> Path:
    return folder / "bytes" / sha256(data).hexdigest()


def _to_dict(change: FileChange) -> dict[str, str | None]:
    hashes = {
        side: None if data is None else sha256(data).hexdigest()
        for side, data in (("before", change.before), ("after", change.after))
    }
    return {
        "old_path": change.old_path,
        "path": change.path,
        **hashes,
        "old_mode": change.old_mode,
        "mode": change.mode,
    }


def _changes(folder: Path, raw: object) -> tuple[FileChange, ...]:
    """Those of which the bytes are still there."""
    found = []
    for one in raw if isinstance(raw, list) else []:
        check(one, folder)
        sides = [_bytes(folder, one.get(side)) for side in ("before", "after")]
        if any(data is None and one.get(side) for data, side in zip(sides, ("before", "after"), strict=True)):
            raise Refused(
                f"{folder} does not hold the bytes of {one.get('path') or one.get('old_path')} any more: what this run "
                "has changed can't be told; commit it by hand, or begin a new run"
            )
        old, new = (sides[0], one.get("old_mode")), (sides[1], one.get("mode"))
        found.append(FileChange(one.get("old_path"), one.get("path"), old[0], new[0], old[1], new[1]))
    return tuple(found)


def _bytes(folder: Path, name: object) -> bytes | None:
    if not isinstance(name, str) or len(name) != 64 or not name.isalnum():
        return None
    data = read_regular(folder / "bytes" / name)
    return data if data is not None and sha256(data).hexdigest() == name else None
