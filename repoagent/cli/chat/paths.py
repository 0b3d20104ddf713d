"""The tracked files, for completion: listed by git in the background, looked up in a sorted list."""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice

from repoagent.errors import RepoagentError
from repoagent.repo import WorkTree, git

MOST = 60  # candidates that are shown
_FRESH = 5.0  # seconds for which a list is not asked for again


class Paths:
    """The tracked files of a work tree. `refresh` returns at once; until the first list is there, there are none."""

    def __init__(self, worktree: WorkTree) -> None:
        self._worktree = worktree
        self._found: Sequence[str] = ()
        self._asked = 0.0
        self._thread: threading.Thread | None = None

    def refresh(self) -> None:
        """Ask git again, in the background, unless it was asked just now."""
        if self._thread is not None and self._thread.is_alive():
            return
        if self._asked and time.monotonic() - self._asked < _FRESH:
            return
        self._asked = time.monotonic()
        self._thread = threading.Thread(target=self._list, daemon=True)
        self._thread.start()

    def candidates(self, word: str) -> list[str]:
        """What `word` may become: paths that begin so, folder by folder; for a word without a slash also files that are
        called so wherever they are."""
        return list(dict.fromkeys(islice(self._candidates(word), MOST)))

    def _candidates(self, word: str) -> Iterator[str]:
        yield from below(self._found, word)
        if word and "/" not in word:
            yield from (path for path in self._found if path.startswith(word, path.rfind("/") + 1))

    def _list(self) -> None:
        try:
            said = git(self._worktree.top, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
        except (RepoagentError, OSError):  # then there is nothing to complete
            return
        names = (os.fsdecode(name) for name in said.split(b"\0") if name)
        self._found = sorted({name for name in names if name.isprintable()})


def below(paths: Sequence[str], word: str) -> Iterator[str]:
    """Of sorted `paths` those that begin with `word`, up to the next slash: a folder stands for all that is in it."""
    at = bisect_left(paths, word)
    while at < len(paths) and paths[at].startswith(word):
        slash = paths[at].find("/", len(word))
        if slash < 0:
            yield paths[at]
            at += 1
        else:
            folder = paths[at][: slash + 1]
            yield folder
            at = bisect_left(paths, folder[:-1] + "0", at)  # "0" comes after "/"
