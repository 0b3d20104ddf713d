"""The changes of a run, each from the bytes that its first edit found to those that its last one left.

What somebody else does to a file in between, or on top of it, is no part of them (`apart`). So a change can be
committed alone in the end, and taken back alone. All of it is in `changes/` of the run's folder (`stored`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.edit.draft import Draft
from repoagent.repo import FileChange, WorkTree
from repoagent.repo.content import Content, look
from repoagent.repo.merge import Conflict
from repoagent.work.changes import stored
from repoagent.work.changes.apart import Lines, before_of, followed, standing, theirs


@dataclass
class Ledger:
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
        return (self.folder / stored.INDEX).exists()

    def keep_bytes(self, data: bytes) -> str:
        """Keep bytes beside the ledger; their name."""
        return stored.keep_bytes(self.folder, data)

    def kept_bytes(self, name: str) -> bytes | None:
        """What `keep_bytes` has kept, None where it is gone."""
        return stored.read_bytes(self.folder, name)

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
        stored.save(self.folder, lists, {"mixed": self.mixed, "edit": self.edit})


def open_ledger(worktree: WorkTree, folder: Path) -> Ledger:
    """The ledger in `folder`, an empty one where there is none. What a kill has cut short is settled by the bytes.

    Raises Refused for one of a newer version.
    """
    value = stored.load(folder)
    if value is None:
        return Ledger(worktree, folder)
    lists = {name: stored.changes(folder, value.get(name)) for name in ("changes", "candidates", "coming")}
    ledger = Ledger(
        worktree, folder, lists["changes"], lists["candidates"], stored.lines(value.get("mixed")),
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
