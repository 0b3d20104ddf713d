"""What the co-change kernel asks of a history: the commits of a file, names, folders, and what is alive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from repoagent.history.cochange.commit import Commit

__all__ = ["Commit", "View"]


class View(Protocol):
    """The history that one revision reaches. A file id stands for a file through all of its renames."""

    def file(self, path: bytes) -> int | None:
        """The file that has this path at the revision, or had it last."""
        ...

    def commits(self, file: int, limit: int) -> list[Commit]:
        """The commits that changed it, newest first, no merges; a copy's own come first, then its origin's."""
        ...

    def many(self, files: Sequence[int], limit: int) -> dict[int, list[Commit]]:
        """`commits` of several files in one go; `limit` holds for each."""
        ...

    def latest(self, limit: int) -> list[Commit]:
        """The newest commits of all."""
        ...

    def namesakes(self, stem: bytes) -> list[int]:
        """Files that have or had a path with this stem (`names.stem`), newest change first, at most 50."""
        ...

    def folder(self, directory: bytes, limit: int) -> list[int]:
        """Files directly in this directory (b"" is the top), last changed first."""
        ...

    def paths(self, files: Sequence[int]) -> dict[int, bytes]:
        """The present paths of those that are alive at the revision; the others are left out."""
        ...
