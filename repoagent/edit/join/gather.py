"""What a split's folder holds by now: the segments that a person has edited, in the form of the source."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.errors import NothingDone, Refused, RepoagentError
from repoagent.patch import differing
from repoagent.split.artifact import (
    Index,
    IndexedSegment,
    base_bytes,
    edited,
    segment_base,
    segment_bytes,
    text_of,
)
from repoagent.split.artifact.index import BASE, NAME, digest
from repoagent.split.artifact.shown import near, quoted
from repoagent.split.joining import Part, source_facts, taken_over
from repoagent.split.joining.carry import lines_of

NAMED = 3  # files in a sentence
_OWN = (NAME, BASE, ".lock", ".staged")


@dataclass(frozen=True)
class Edited:
    """A segment that was edited: the bytes it was edited from, those that count, the hash of its file, and whether that
    is empty."""

    segment: IndexedSegment
    before: bytes
    after: bytes
    file_hash: str
    emptied: bool
    notes: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        return self.segment.file

    def counts(self) -> tuple[int, int]:
        """How many lines were put in, and how many taken out."""
        ranges = differing(lines_of(self.before), lines_of(self.after))
        return sum(j2 - j1 for _, _, j1, j2 in ranges), sum(i2 - i1 for i1, i2, _, _ in ranges)


@dataclass(frozen=True)
class Gathered:
    """The folder read: the text that was split, the edits in order of the source, files that are none of its own."""

    index: Index
    base: bytes
    edits: tuple[Edited, ...]
    strangers: tuple[str, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of what was read."""
        notes = [note for edit in self.edits for note in edit.notes]
        notes += [
            f"{edit.file} is empty: its {len(lines_of(edit.before)):,} lines are taken out"
            for edit in self.edits
            if edit.emptied and edit.before
        ]
        if self.strangers:
            more = f" and {len(self.strangers) - NAMED} more" if len(self.strangers) > NAMED else ""
            names = ", ".join(self.strangers[:NAMED]) + more
            notes.append(f"not of this split, and left out: {names}")
        return tuple(notes)

    def parts(self, edits: Sequence[Edited]) -> list[Part]:
        """All segments in order, with these edits."""
        after = {edit.file: edit.after for edit in edits}
        found = []
        for segment in self.index.segments:
            text = self.base[segment.start : segment.end]
            found.append(Part(segment.file, text, after.get(segment.file, text)))
        return found


def gather(index: Index, cwd: Path) -> Gathered:
    """Read the edited segments of a split; `cwd` is where the person is.

    Raises NothingDone where none was edited, or no more than the form of some (the notes are in the sentence); Refused
    for one that can't be taken over as it was saved.
    """
    if not index.source.path:
        raise Refused(
            f"{near(index.folder, cwd)} was split from standard input, so there is no file to join into: put the "
            "segments together with `cat`, in the order of their names"
        )
    base = base_bytes(index)
    facts = source_facts(base, index.source.encoding)
    found = []
    for segment in edited(index):
        before = segment_base(index, segment) if segment.based_on else base[segment.start : segment.end]
        data = segment_bytes(index, segment)
        saved = taken_over(segment.file, before, data, facts, last=segment is index.segments[-1])
        found.append(Edited(segment, before, saved.data, digest(data), not data, saved.notes))
    gathered = Gathered(index, base, tuple(found), _strangers(index))
    if all(edit.before == edit.after for edit in found):
        raise NothingDone(_nothing(gathered, cwd))
    emptied = {edit.file for edit in found if edit.emptied}
    if all(segment.file in emptied for segment in index.segments):
        raise Refused(
            f"all segments are empty, and {index.source.path} would be too: remove that file itself if it is meant"
        )
    return gathered


def _nothing(gathered: Gathered, cwd: Path) -> str:
    index = gathered.index
    if gathered.edits:
        return f"nothing to join: no text was changed ({'; '.join(gathered.notes)})"
    extra = f" ({gathered.notes[0]})" if gathered.notes else ""
    said = f"nothing to join: no segment of {index.source.path} was edited since it was split{extra}"
    if _has_moved_on(index, cwd):
        again = f"`repoagent split --refresh {quoted(index.folder, cwd)}`"
        return f"{said}; the file itself has changed, and {again} brings the segments up to date"
    return f"{said}; edit a file in {near(index.folder, cwd)} and run it again"


def _has_moved_on(index: Index, cwd: Path) -> bool:
    try:
        return digest(text_of(index, cwd).data) != index.source.sha256
    except RepoagentError:  # it is not there, or can't be read: nothing was edited all the same
        return False


def _strangers(index: Index) -> tuple[str, ...]:
    """Files in the folder that are neither the split's nor made by it, nor left by an editor."""
    known = {*_OWN, *(name for one in index.segments for name in (one.file, one.kept_base))}
    names = sorted(path.name for path in index.folder.iterdir() if not path.is_dir())
    return tuple(name for name in names if name not in known and not is_diff(name) and not _is_litter(name))


def _is_litter(name: str) -> bool:
    """Whether it is what editors leave beside a file: .001.py.swp, 001.py~, #001.py#, 001.py.orig."""
    return name.startswith((".", "#")) or name.endswith(("~", ".orig", ".bak", ".rej", ".swp"))


def is_diff(name: str) -> bool:
    """Whether it is the name of the diff of a join: join.diff, join-2.diff."""
    stem = name.removesuffix(".diff").removeprefix("join")
    return name.startswith("join") and name.endswith(".diff") and (not stem or stem[1:].isdigit())
