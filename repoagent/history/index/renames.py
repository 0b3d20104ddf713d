"""Which file a path referred to, commit by commit, backwards or forwards in time.

A path's history is a sequence of events: added, changed, deleted, left by a rename (the file continues elsewhere), or
filled by a rename. Two consecutive events belong to the same file, unless the first is "left" and the second "added" or
"filled", or the first is "deleted" and the second "filled". So a path that is deleted and created again is the same
file; a path that is created again after its file was renamed is a different file; and what a parallel branch did under
the old name belongs to the renamed file. The rule looks only at pairs, so reading a history backwards or forwards gives
the same files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from repoagent.history.index.schema import HIGHEST, LOWEST
from repoagent.history.log import Change, LogRecord

CHANGED, ADDED, FILLED, GONE, LEFT = range(5)
_KINDS = {b"A": ADDED, b"D": GONE}
FILE, HIGH, HIGH_KIND, LOW, LOW_KIND = range(5)
Entry = list[int]  # of a path in this batch; the indexes are named above
Known = Callable[[bytes], "tuple[int, int] | None"]  # file and kind of the outermost event of a path


class RenameBatch:
    """The paths and files of a sequence of commits, newest first with `back`, else oldest first.

    `known` returns what earlier batches found for a path.
    """

    def __init__(self, known: Known, next_file: int, *, back: bool) -> None:
        self.known, self.next_file, self.back = known, next_file, back
        self.names: dict[bytes, Entry] = {}
        self.past: list[tuple[bytes, Entry]] = []  # of other files that had a path in `names` before or after
        self.touched: defaultdict[int, list[int]] = defaultdict(list)
        self.merged: dict[int, int] = {}  # files that have turned out to be the same: from, to
        self.unwritten: list[int] = []  # those of `merged` that earlier batches may have written
        self.outer, self.outer_kind = (LOW, LOW_KIND) if back else (HIGH, HIGH_KIND)

    def take(self, number: int, record: LogRecord) -> list[int]:
        """Add a commit; return the numbers of the files that it changed."""
        files: list[int] = []
        moves: list[Change] = []
        added: list[bytes] = []
        names, low, kind_at = self.names, self.outer, self.outer_kind
        for kind, path, old in record.changes:
            if kind == b"M" and (entry := names.get(path)):  # `_plain`, inlined for the most frequent change
                entry[low], entry[kind_at] = number, CHANGED
                files.append(entry[FILE])
            elif kind == b"R":
                moves.append((kind, path, old))
            elif kind == b"A":
                added.append(path)
            else:
                files.append(self._plain(path, number, _KINDS.get(kind, CHANGED)))
        if moves:
            files += self._moves(number, moves, added)
        elif added:
            files += [self._plain(path, number, ADDED) for path in added]
        if self.merged and not self.merged.keys().isdisjoint(files):
            files = [self.find(file) for file in files]
        if len(files) > 1 and len(set(files)) < len(files):
            files = list(dict.fromkeys(files))
        touched = self.touched
        for file in files:
            touched[file].append(number)
        return files

    def find(self, file: int) -> int:
        while file in self.merged:
            file = self.merged[file]
        return file

    def _plain(self, path: bytes, number: int, kind: int) -> int:
        entry = self.names.get(path) or self._entry(path)
        if entry is None or self._differs(entry, kind):
            entry = self._new(path, number, kind)
        else:
            self._extend(entry, number, kind)
        return entry[FILE]

    def _moves(self, number: int, moves: list[Change], added: list[bytes]) -> list[int]:
        """The files of a commit with renames. A path may be both left and filled (two files that swap their names): it
        is left first; backwards, last."""
        if self.back:
            plain = [self._plain(path, number, ADDED) for path in added]
            moved = [self._plain(path, number, FILLED) for _, path, _ in moves]
            for (_, _, old), file in zip(moves, moved, strict=True):
                self._be(old, self.find(file), number, LEFT)
        else:
            moved = [self._plain(old, number, LEFT) for _, _, old in moves]
            plain = [self._plain(path, number, ADDED) for path in added]
            for (_, path, _), file in zip(moves, moved, strict=True):
                self._be(path, self.find(file), number, FILLED)
        return plain + moved

    def _be(self, path: bytes, file: int, number: int, kind: int) -> None:
        """Record that `path` is `file` in this event, and merge another file that it was assumed to be."""
        entry = self.names.get(path) or self._entry(path)
        if entry is None or self._differs(entry, kind):
            self._new(path, number, kind, file)
            return
        self._extend(entry, number, kind)
        other = self.find(entry[FILE])
        if other != file:
            self._merge(max(file, other), min(file, other))

    def _differs(self, entry: Entry, kind: int) -> bool:
        """Whether an event of `kind`, next to the outermost one of `entry`, is about another file."""
        if self.back:
            older, newer = kind, entry[LOW_KIND]
        else:
            older, newer = entry[HIGH_KIND], kind
        return (newer == FILLED and older in (GONE, LEFT)) or (newer == ADDED and older == LEFT)

    def _extend(self, entry: Entry, number: int, kind: int) -> None:
        entry[self.outer], entry[self.outer_kind] = number, kind

    def _new(self, path: bytes, number: int, kind: int, file: int | None = None) -> Entry:
        if (before := self.names.get(path)) is not None:
            self.past.append((path, before))
        if file is None:
            file, self.next_file = self.next_file, self.next_file + 1
        entry = self.names[path] = [file, number, kind, number, kind]
        return entry

    def _entry(self, path: bytes) -> Entry | None:
        """The entry for what earlier batches found for `path`."""
        if (event := self.known(path)) is None:
            return None
        file, kind = event
        # ends that have no effect when they are written
        entry = self.names[path] = [file, LOWEST, kind, HIGHEST, kind]
        return entry

    def _merge(self, file: int, into: int) -> None:
        self.merged[file] = into
        self.unwritten.append(file)
        if file in self.touched:
            self.touched[into] += self.touched.pop(file)
