"""The changes of a repository, oldest first, read once with git and kept as a file."""

from __future__ import annotations

import pickle
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

CACHE = Path.home() / ".cache" / "repoagent-bench" / "cochange"
_HEADER = b"\x01"


class Change(NamedTuple):
    """One commit: committer date (seconds), author, and (letter, path before, path after) of each file."""

    time: int
    author: bytes
    entries: tuple[tuple[bytes, bytes, bytes], ...]


def load(repository: Path) -> list[Change]:
    """All commits that HEAD reaches and that are no merges, oldest first. Raises CalledProcessError if git fails."""
    head = _git(repository, "rev-parse", "--verify", "HEAD").strip()
    kept = CACHE / f"{sha256(bytes(repository.resolve()) + head).hexdigest()[:24]}.pickle"
    if kept.is_file():
        return [Change(*fields) for fields in pickle.loads(kept.read_bytes())]
    try:
        out = _log(repository, "-M")
    except subprocess.CalledProcessError:  # a blob is absent (a partial clone): only renames of equal content
        out = _log(repository, "-M100%")
    changes = parse(out)
    CACHE.mkdir(parents=True, exist_ok=True)
    kept.write_bytes(pickle.dumps([tuple(change) for change in changes], protocol=5))
    return changes


def parse(out: bytes) -> list[Change]:
    """What `git log --raw -z` printed, oldest first."""
    found: list[tuple[int, bytes, list[tuple[bytes, bytes, bytes]]]] = []
    tokens = iter(out.split(b"\0"))
    for token in tokens:
        token = token.lstrip(b"\n")
        if token.startswith(_HEADER):
            time, _, author = token[1:].partition(b" ")
            found.append((int(time), author, []))
        elif token.startswith(b":"):
            letter = token.rpartition(b" ")[2][:1]
            before = next(tokens)
            after = next(tokens) if letter in b"RC" else before
            found[-1][2].append((letter, before, after))
    return [Change(time, author, tuple(entries)) for time, author, entries in reversed(found)]


def _log(repository: Path, renames: str) -> bytes:
    return _git(
        repository, "log", "--no-merges", "--date-order", "--raw", "-z", "--no-abbrev", renames, "--no-ext-diff",
        "--no-show-signature", "--format=%x01%ct %ae", "HEAD",
    )  # fmt: skip


def _git(repository: Path, *args: str) -> bytes:
    return subprocess.run(["git", "-C", str(repository), *args], stdout=subprocess.PIPE, check=True).stdout
