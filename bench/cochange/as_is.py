"""The baselines twice: helped by what the product knows of files, and as their tools really are.

Helped, a method has the product's identity of files through renames, and answers that are dead are dropped before they
are counted. As is, a file is its path: a renamed one starts anew, and its old name and deleted files stand in the
answer, for none of the tools looks at what is alive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bench.cochange.load import Change
from bench.cochange.memory import MemoryView

DEAD = -1  # stands in an answer for what can't be right

Ranking = Callable[[MemoryView, Sequence[int]], Sequence[int]]


class Histories(MemoryView):
    """A history with the identity of files, and with it the same history by paths alone."""

    def __init__(self) -> None:
        super().__init__()
        self.by_path = MemoryView()

    def add(self, change: Change) -> None:
        super().add(change)
        self.by_path.add(without_renames(change))

    def same_by_path(self, files: Sequence[int]) -> list[int]:
        """The files of `by_path` that have the present paths of these; those without history there are left out."""
        found = (self.by_path.file(self.alive[file]) for file in files if file in self.alive)
        return [file for file in found if file is not None]

    def from_path(self, file: int) -> int:
        """The file for one of `by_path`; DEAD when that is not alive."""
        path = self.by_path.alive.get(file)
        own = None if path is None else self.file(path)
        return DEAD if own is None else own


def without_renames(change: Change) -> Change:
    """The same commit with each rename as a deletion and an addition."""
    entries: list[tuple[bytes, bytes, bytes]] = []
    for letter, before, after in change.entries:
        if letter == b"R":
            entries += [(b"D", before, before), (b"A", after, after)]
        else:
            entries.append((b"A" if letter == b"C" else letter, after, after))
    return Change(change.time, change.author, tuple(entries))


def helped(method: Ranking) -> Callable[[Histories, Sequence[int]], list[int]]:
    """The method with identity, without dead answers."""

    def ask(history: Histories, asked: Sequence[int]) -> list[int]:
        return [file for file in method(history, asked) if file in history.alive]

    return ask


def as_is(method: Ranking) -> Callable[[Histories, Sequence[int]], list[int]]:
    """The method on paths, with its dead answers in their places."""

    def ask(history: Histories, asked: Sequence[int]) -> list[int]:
        known = history.same_by_path(asked)
        return [history.from_path(file) for file in method(history.by_path, known)] if known else []

    return ask
