"""One possible place of a hunk, and the record of the place that was taken."""

from __future__ import annotations

from dataclasses import field

from repoagent.dataclass import dataclass
from repoagent.patch.hunk import CONTEXT, DELETE, Hunk, Line
from repoagent.patch.problems import Misfit


@dataclass(frozen=True)
class Placement:
    """Where a hunk went: file, hunk (from 1 within the file), first line (from 1, of the file before) and the
    name of the tolerance that it needed: "exact", "trailing-space", "punctuation", "whitespace", "html",
    "elision", "split" or "fuzzy-context"; "search-replace" for such a block that fits exactly;
    "whole-part" for lines that came anew as a whole; and for a file as a whole "whole-file", "new-file",
    "deleted", "renamed", "copied", "mode". `tolerances` are all that it needed, reading included, sorted."""

    path: str
    hunk: int
    line: int
    level: str
    tolerances: tuple[str, ...] = ()


@dataclass(frozen=True)
class Change:
    """Rows `start:end` of the file become `added`."""

    start: int
    end: int
    added: tuple[Line, ...]


@dataclass(frozen=True)
class Fit:
    """`rows[i]` is the file's line (from 0) that `hunk.old[i]` is taken for, None where it is taken for none.

    `hunk` is the reading of the hunk that fits here (see `locate.readings`); `behind` is how much worse a loose place
    fits than the best one."""

    hunk: Hunk
    rows: tuple[int | None, ...]
    level: str
    behind: float = field(default=0.0, compare=False)

    @property
    def first(self) -> int:
        return next((row for row in self.rows if row is not None), 0)

    @property
    def last(self) -> int:
        return next((row for row in reversed(self.rows) if row is not None), 0)

    def changes(self) -> list[Change]:
        """The changes in the file's lines. Raises Misfit for an addition that no line beside it holds."""
        result: list[Change] = []
        position = at = 0
        lines = self.hunk.lines
        while at < len(lines):
            if lines[at].kind == CONTEXT:
                position, at = position + 1, at + 1
                continue
            first = position
            added: list[Line] = []
            while at < len(lines) and lines[at].kind != CONTEXT:
                if lines[at].kind == DELETE:
                    position += 1
                else:
                    added.append(lines[at])
                at += 1
            result.append(Change(*self._range(first, position), tuple(added)))
        return result

    def claimed(self) -> tuple[tuple[int, int], ...]:
        """The rows `start:end` that it changes, or says it leaves as they are by adding again what it deletes."""
        held = (
            (row, row + 1)
            for line, row in zip(self.hunk.old, self.rows, strict=True)
            if line.held and row is not None
        )
        return (*((change.start, change.end) for change in self.changes()), *held)

    def _range(self, first: int, last: int) -> tuple[int, int]:
        """The rows of `hunk.old[first:last]`; for none, the gap beside a neighbour with a row."""
        taken = [row for row in self.rows[first:last] if row is not None]
        if taken:
            return taken[0], taken[-1] + 1
        before = self.rows[first - 1] if first else None
        after = self.rows[last] if last < len(self.rows) else None
        if before is not None:
            return before + 1, before + 1
        if after is not None or not self.rows:
            return after or 0, after or 0
        raise Misfit("not-found", "no unchanged line beside an addition is in the file.", self.hunk.number)
