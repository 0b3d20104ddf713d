"""Real repositories, read only: their commits, blobs and changes."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random

from bench.origins import Origin, git
from bench.patch.model import Change, Edit, File, Seed, read_file

COMMITS = 3000  # read from a repository, newest first
KEPT = 200  # changes cached for a repository
MOST_LINES = 120  # deleted and added in one file
_HUNK = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", re.M)
LANGUAGES = {
    "py": "Python", "js": "JavaScript", "mjs": "JavaScript", "cjs": "JavaScript", "jsx": "JavaScript",
    "ts": "TypeScript", "tsx": "TSX", "go": "Go", "rs": "Rust", "c": "C", "h": "C", "cc": "C++",
    "cpp": "C++", "hpp": "C++", "java": "Java", "kt": "Kotlin", "rb": "Ruby", "php": "PHP", "cs": "C#",
    "sh": "Shell", "md": "Markdown", "txt": "text", "adoc": "text", "rst": "text", "html": "HTML",
    "css": "CSS", "scss": "CSS", "json": "JSON", "yml": "YAML", "yaml": "YAML", "toml": "TOML",
    "xml": "XML", "po": "po", "mk": "Make", "am": "Make", "swift": "Swift", "lua": "Lua", "pl": "Perl",
    "perl": "Perl", "pm": "Perl", "sql": "SQL", "gitignore": "ignore", "test": "text",
}  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """A file that a commit modified and did not rename."""

    path: str
    modes: tuple[str, str]
    blobs: tuple[str, str]


@dataclass(frozen=True)
class Commit:
    name: str
    entries: tuple[Entry, ...]


class Repository:
    """One clone. Its commits are read once; its blobs come from one running `git cat-file`."""

    def __init__(self, origin: Origin, path: Path) -> None:
        self.origin, self.path = origin, path
        self._blobs: subprocess.Popen[bytes] | None = None
        self._changes: dict[Entry, Change | None] = {}

    @cached_property
    def commits(self) -> list[Commit]:
        """The commits that modify 1 to 20 files, newest first."""
        output = git(
            self.path, "log", "--no-merges", "--raw", "-z", "--no-abbrev", "--no-renames", f"--max-count={COMMITS}",
            "--diff-filter=M", "--format=%x01%H", self.origin.commit, "--",
        )  # fmt: skip
        return [commit for commit in _commits(output) if 1 <= len(commit.entries) <= 20]

    def blob(self, name: str) -> bytes | None:
        """The bytes of a blob, or None if the clone lacks it."""
        if self._blobs is None:
            command = ["git", "-C", str(self.path), "cat-file", "--batch"]
            pipe = subprocess.PIPE
            self._blobs = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
        self._blobs.stdin.write(name.encode() + b"\n")
        self._blobs.stdin.flush()
        head = self._blobs.stdout.readline().split()
        if len(head) != 3:
            return None
        data = self._blobs.stdout.read(int(head[2]) + 1)
        return data[:-1]

    def close(self) -> None:
        if self._blobs is not None:
            self._blobs.communicate()
            self._blobs = None

    def seed(self, rng: Random, files: int = 1) -> Seed | None:
        """Changes of `files` files from a random commit, or None if too few of its files suit."""
        commit = rng.choice(self.commits)
        entries = list(commit.entries)
        rng.shuffle(entries)
        if len(self._changes) >= KEPT:
            self._changes.clear()
        changes: list[Change] = []
        for entry in entries[:8]:
            if entry not in self._changes:
                self._changes[entry] = self._change(entry)
            if change := self._changes[entry]:
                changes.append(change)
            if len(changes) == files:
                return Seed(self.origin.name, commit.name, language(changes[0].path), tuple(changes))
        return None

    def _change(self, entry: Entry) -> Change | None:
        sides: list[File] = []
        for blob, mode in zip(entry.blobs, entry.modes, strict=True):
            data = self.blob(blob) if mode in ("100644", "100755") else None
            if data is None or len(data) > 2_000_000:
                return None
            file = read_file(entry.path, data, mode)
            if file is None or not 20 <= len(file.lines) <= 30_000:
                return None
            sides.append(file)
        before, after = sides
        if before.bom != after.bom or before.lines[0].endswith("\r") != after.lines[0].endswith("\r"):
            return None
        file_edits = list(edits(self.path, entry, after))
        size = sum(edit.end - edit.start + len(edit.added) for edit in file_edits)
        if not 1 <= len(file_edits) <= 14 or size > MOST_LINES:
            return None
        lines = (line for edit in file_edits for line in (*edit.added, *before.lines[edit.start : edit.end]))
        return None if any(len(line) > 400 for line in lines) else Change(before, after, file_edits)


def edits(path: Path, entry: Entry, after: File) -> Iterator[Edit]:
    """The edits that `git diff` sees between the two blobs of an entry."""
    options = ("-U0", "--no-color", "--no-ext-diff", "--no-textconv", "--text")
    output = git(path, "diff", *options, *entry.blobs)
    for match in _HUNK.finditer(output):
        start, old, begin, new = (int(number) if number else 1 for number in match.groups())
        first, row = start - (old > 0), begin - (new > 0)
        yield Edit(first, first + old, after.lines[row : row + new])


def _commits(output: bytes) -> Iterator[Commit]:
    for record in output.split(b"\x01")[1:]:
        name, _, rest = record.partition(b"\0")
        fields = rest.lstrip(b"\n").split(b"\0")
        entries = []
        for index in range(0, len(fields) - 1, 2):
            modes = fields[index].lstrip(b":\n").split(b" ")
            if len(modes) == 5:
                old, new, before, after, _ = (word.decode() for word in modes)
                path = fields[index + 1].decode(errors="replace")
                entries.append(Entry(path, (old, new), (before, after)))
        yield Commit(name.decode().strip(), tuple(entries))


def language(path: str) -> str:
    name = path.rpartition("/")[2]
    if name in ("Makefile", "GNUmakefile"):
        return "Make"
    return LANGUAGES.get(name.rpartition(".")[2].lower(), "other")
