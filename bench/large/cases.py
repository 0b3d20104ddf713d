"""Requests from real commits: the message is the request, the lines that the commit changed are the truth."""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LEAST_BYTES = 64 * 1024
MOST_HUNKS, MOST_LINES = 6, 60
SHARE = 0.4  # of the lines that the commit changed are those of the file, at least
_HUNK = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@", re.MULTILINE)
MOST_BODY = 1_500  # characters of a body
_TRAILER = re.compile(r"^[A-Za-z][\w-]+: .*\n?", re.MULTILINE)
_NO_REQUEST = re.compile(r"^(merge|revert|bump|release|version|update (changelog|version))\b", re.IGNORECASE)


@dataclass(frozen=True)
class Case:
    """One request about `path` of the repository `top` as it was in `parent`; `truth` are the lines (from 1) that
    stood where the commit changed something."""

    top: Path
    path: str
    commit: str
    request: str
    truth: frozenset[int]

    def data(self) -> bytes:
        return git(self.top, "cat-file", "blob", f"{self.commit}^:{self.path}")


def cases(top: Path, path: str, limit: int, seed: int, *, body: bool = False) -> list[Case]:
    """At most `limit` cases of one file, drawn at random from its last 600 commits. With `body` the whole message of a
    commit is the request, and commits without one are left out."""
    drawn = list(_requests(top, path, body=body))
    random.Random(f"{seed} {path}").shuffle(drawn)
    found: list[Case] = []
    for commit, request in drawn:
        if len(found) == limit:
            break
        if case := _case(top, path, commit, request):
            found.append(case)
    return found


def _requests(top: Path, path: str, *, body: bool) -> Iterator[tuple[str, str]]:
    """Commits with one parent, and their messages, as far as these ask for something."""
    log = git(top, "log", "--no-merges", "-n", "600", "--format=%H%x09%P%x09%s%x09%b%x00", "HEAD", "--", path)
    for entry in log.decode(errors="replace").split("\0")[:-1]:
        commit, parents, subject, text = entry.lstrip("\n").split("\t", 3)
        text = _TRAILER.sub("", text).strip()[:MOST_BODY]
        asks = len(subject.split()) > 2 and not _NO_REQUEST.match(subject)
        if len(parents.split()) == 1 and asks and (text or not body):
            yield commit, f"{subject}\n\n{text}" if body else subject


def _case(top: Path, path: str, commit: str, request: str) -> Case | None:
    counts = git(top, "diff-tree", "-r", "--numstat", "--no-renames", f"{commit}^", commit).decode(
        errors="replace"
    )
    changed = {name: added + removed for added, removed, name in _counts(counts)}
    own = changed.get(path, 0)
    if not own or own > MOST_LINES or own < SHARE * sum(changed.values()):
        return None
    size = subprocess.run(
        ["git", "-C", str(top), "cat-file", "-s", f"{commit}^:{path}"], capture_output=True, check=False
    ).stdout
    if int(size or 0) < LEAST_BYTES:
        return None
    diff = git(top, "diff-tree", "-p", "-U0", "--no-renames", f"{commit}^", commit, "--", path)
    hunks = [(int(start), int(count or 1)) for start, count in _HUNK.findall(diff)]
    if not 0 < len(hunks) <= MOST_HUNKS:
        return None
    truth = frozenset(line for start, count in hunks for line in range(start, start + max(1, count)) if line)
    return Case(top, path, commit, request, truth) if truth else None


def _counts(text: str) -> Iterator[tuple[int, int, str]]:
    for line in text.splitlines():
        added, removed, name = line.split("\t", 2)
        if added != "-":
            yield int(added), int(removed), name


def git(top: Path, *args: str) -> bytes:
    return subprocess.run(["git", "-C", str(top), *args], capture_output=True, check=True).stdout
