"""Parse the canonical diff with unidiff and compare it with the bytes to write.

The diff is what is shown and stored, the bytes are what is written. A second parser that shares no code with the
first must agree that they say the same."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from repoagent.dataclass import dataclass
from repoagent.git.files import FileChange

if TYPE_CHECKING:
    from unidiff.patch import PatchedFile

_LINE = re.compile(rb"[^\n]*\n|[^\n]+\Z")


@dataclass(frozen=True)
class DiffStat:
    """The size of a change: files, lines added and removed (none for binary files)."""

    files: int
    added: int
    removed: int

    def __str__(self) -> str:
        return f"{self.files} file{'s' * (self.files != 1)} +{self.added} -{self.removed}"


def read_back(diff: str, changes: Sequence[FileChange]) -> DiffStat:
    """Parse `diff`, the canonical one of `changes`, and count it.

    Raises ValueError if unidiff rejects it, or if the parsed hunks, applied to the bytes before, do not produce the
    bytes after: that is a defect, and nothing may be written.
    """
    from unidiff.errors import UnidiffParseError
    from unidiff.patch import PatchSet

    try:
        files = PatchSet(io.StringIO(diff, newline="\n"))
    except UnidiffParseError as error:
        raise ValueError(f"cannot parse the canonical diff: {error}") from error
    if len(files) != len(changes):
        raise ValueError(f"the canonical diff has {len(files)} files for {len(changes)} changes")
    for file, change in zip(files, changes, strict=True):
        if not file.is_binary_file and _applied(file, change.before or b"") != (change.after or b""):
            raise ValueError(f"the canonical diff of {change.name} does not produce the bytes to write")
    return DiffStat(len(files), files.added, files.removed)


def _applied(file: PatchedFile, before: bytes) -> bytes:
    """`before` with the hunks of `file`, by their numbers alone."""
    lines = _LINE.findall(before)
    after: list[bytes] = []
    at = 0
    for hunk in file:
        start = hunk.source_start - (hunk.source_length > 0)
        after += lines[at:start]
        old: list[bytes] = []
        new: list[bytes] = []
        sides: list[list[bytes]] = []
        for line in hunk:
            if line.line_type == "\\":  # no newline at the end of the line before, on its sides
                for side in sides:
                    side[-1] = side[-1].removesuffix(b"\n")
                continue
            sides = [side for side, types in ((old, " -"), (new, " +")) if line.line_type in types]
            for side in sides:
                side.append(line.value.encode("utf-8", "surrogateescape"))
        at = start + len(old)
        if lines[start:at] != old:
            raise ValueError(f"the canonical diff of {file.path} quotes lines that do not exist")
        after += new
    return b"".join(after + lines[at:])
