"""Which files change together with one: read off its last commits, within a bound of time.

The weights are those of the co-change kernel that did best in replaying real histories: a small commit says more than
a large one, a new one more than an old one. Of commit k (0 is the newest) with n files: 1 / ((1 + k/3) (n - 1)); a
partner's share is the weight of the commits with it over the weight of all.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from repoagent.history.timed import TimedGit
from repoagent.repo.run import GitError

COMMITS = 100
LARGEST = 100  # files of a commit; a larger one is an import or a reformatting and says nothing
SECONDS = 0.3
_ENTRY = (b":", b"\n:")  # modes, ids and a letter; the path is the next token, so none is taken for an entry
_COMMIT = b"\x01"


@dataclass(frozen=True)
class Partner:
    """A file that changed in `together` of the `commits` of the asked file that count; `share` is weighted, 0 to 1."""

    path: str
    together: int
    commits: int
    share: float


class Together:
    """A `git log` that runs since it was made; `result` waits for it, `close` gives it up."""

    def __init__(self, top: Path, path: str, seconds: float = SECONDS) -> None:
        self._top, self._path = top, path
        self._git = TimedGit(
            top, "log", f"--max-count={COMMITS}", "--no-merges", "--full-diff", "--no-follow", "--raw", "-z",
            "--no-abbrev", "--no-renames", "--no-ext-diff", "--no-notes", "--no-decorate", "--no-color",
            "--format=%x01", "HEAD", "--", path,
            deadline=time.monotonic() + seconds,
        )  # fmt: skip

    def result(self, limit: int = 10) -> tuple[Partner, ...]:
        """The best partners that exist now, the surest first. Empty on an unborn branch and for an unknown file."""
        try:
            data, late = self._git.read()
        except GitError:  # no commit yet: nothing has changed with anything
            return ()
        commits = _commits(data)
        return _partners(self._top, self._path, commits[:-1] if late else commits, limit)

    def close(self) -> None:
        """End git if it still runs."""
        self._git.close()

    def __enter__(self) -> Together:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def partners_block(partners: tuple[Partner, ...]) -> str:
    """The lines of a prompt: guidance where to look, not what must change."""
    if not partners:
        return ""
    lines = [f"{p.path} ({p.together} of {p.commits} commits)" for p in partners]
    return "files that often changed in the same commit:\n" + "\n".join(lines)


def _commits(data: bytes) -> list[list[bytes]]:
    """The paths of each commit, newest first."""
    commits: list[list[bytes]] = []
    tokens = iter(data.split(b"\0"))
    for token in tokens:
        if token.startswith(_ENTRY) and commits:
            commits[-1].append(next(tokens, b""))
        elif token.lstrip(b"\n") == _COMMIT:
            commits.append([])
    return commits


def _partners(top: Path, path: str, commits: list[list[bytes]], limit: int) -> tuple[Partner, ...]:
    own = os.fsencode(path)
    weights: dict[bytes, float] = defaultdict(float)
    counts: dict[bytes, int] = defaultdict(int)
    total, counted = 0.0, 0
    for number, paths in enumerate(commits):
        if not 2 <= len(paths) <= LARGEST:
            total += 1 / (1 + number / 3)
            counted += 1
            continue
        weight = 1 / ((1 + number / 3) * (len(paths) - 1))
        total += weight
        counted += 1
        for other in set(paths) - {own}:
            weights[other] += weight
            counts[other] += 1
    ranked = sorted(weights, key=lambda other: (-weights[other], other))
    alive = (other for other in ranked if counts[other] > 1 and (top / os.fsdecode(other)).is_file())
    found: list[Partner] = []
    for other in alive:
        if len(found) == limit:
            break
        found.append(Partner(os.fsdecode(other), counts[other], counted, weights[other] / total))
    return tuple(found)
