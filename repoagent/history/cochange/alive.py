"""The present paths of candidates: only of those that may be among the best, for most of a long past are not."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from repoagent.history.cochange.view import View

_AT_LEAST = 64  # files that a view is asked about in one go


class Alive:
    """Which files are alive in a view, and their paths; each file is asked about once."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._known: dict[int, bytes | None] = {}

    def of(self, files: Iterable[int]) -> dict[int, bytes]:
        """The paths of those of `files` that are alive, in their order."""
        files = list(files)
        unknown = [file for file in files if file not in self._known]
        if unknown:
            self._known.update(dict.fromkeys(unknown))
            self._known.update(self._view.paths(unknown))
        known = self._known
        return {file: path for file in files if (path := known[file]) is not None}

    def best(
        self, scores: Mapping[int, float], wanted: int, unwanted: Collection[bytes] = frozenset()
    ) -> dict[int, bytes]:
        """The paths of at least the `wanted` best files that are alive and have none of the `unwanted` paths, with all
        that are as good as the last of them; best first, ties by number."""
        order = sorted(scores)
        order.sort(key=scores.__getitem__, reverse=True)
        found: dict[int, bytes] = {}
        least = float("-inf")
        start, step = 0, max(wanted + wanted // 2, _AT_LEAST)
        while start < len(order) and scores[order[start]] >= least:
            some = self.of(order[start : start + step])
            found.update({file: path for file, path in some.items() if path not in unwanted})
            if len(found) >= wanted:
                least = scores[list(found)[wanted - 1]]
            start, step = start + step, step * 2
        return found
