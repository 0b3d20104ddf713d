"""Read the edited segments of a split, and merge them with the current source.

The merge is git's three-way merge of the text that was split, the joined segments, and the source. A segment that was
edited before a refresh is first merged with its part of the refreshed text in the same way.
"""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from repoagent.dataclass import dataclass
from repoagent.errors import NothingDone, Refused, RepoagentError
from repoagent.git.files import REGULAR, FileChange
from repoagent.git.merge import Conflict, merge
from repoagent.git.worktree import WorkTree
from repoagent.patch.render import canonical_diff, differing
from repoagent.split.folder_index import (
    BASE,
    LOCK,
    NAME,
    STAGED,
    Index,
    IndexedSegment,
    base_bytes,
    digest,
    display_path,
    edited_segments,
    quoted_path,
    segment_base,
    segment_bytes,
)
from repoagent.split.normalize_segment import line_endings, normalize_segment, source_facts, with_ending
from repoagent.split.source import current_source

_LISTED_FILES = 3  # in a sentence
_LISTED_CONFLICTS = 4
How = Literal["applied", "merged", "already", "conflict", "unchanged"]


@dataclass(frozen=True)
class SegmentEdit:
    """An edited segment: the text before and after the edit, the hash of its file, and notes on corrections."""

    segment: IndexedSegment
    before: bytes
    after: bytes
    file_hash: str
    notes: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        return self.segment.file

    def counts(self) -> tuple[int, int]:
        """The number of lines added and removed."""
        ranges = differing(lines_of(self.before), lines_of(self.after))
        return sum(j2 - j1 for _, _, j1, j2 in ranges), sum(i2 - i1 for i1, i2, _, _ in ranges)


@dataclass(frozen=True)
class SegmentEdits:
    """The edits in the folder of a split, in source order; the text that was split; and unrelated files in the
    folder."""

    index: Index
    base: bytes
    edits: tuple[SegmentEdit, ...]
    other_files: tuple[str, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        notes = [note for edit in self.edits for note in edit.notes]
        notes += [
            f"{edit.file} is empty: its {len(lines_of(edit.before)):,} lines are deleted"
            for edit in self.edits
            if edit.before and not edit.after
        ]
        if self.other_files:
            more = len(self.other_files) - _LISTED_FILES
            names = ", ".join(self.other_files[:_LISTED_FILES]) + (f" and {more} more" if more > 0 else "")
            notes.append(f"ignored files that are not part of this split: {names}")
        return tuple(notes)


@dataclass(frozen=True)
class ConflictLines:
    """Lines (first, last; from 1) of a segment's file, and the lines of the source with which they conflict. If the
    last line is before the first, that side deleted the lines."""

    file: str
    lines: tuple[int, int]
    source: tuple[int, int]


@dataclass(frozen=True)
class SegmentConflict:
    """Segments that conflict with changes of the source. `places` is empty if the conflict is not in particular lines,
    as in a binary source."""

    files: tuple[str, ...]
    places: tuple[ConflictLines, ...] = ()


@dataclass(frozen=True)
class MergeResult:
    """The merged source, in which the segments win all conflicts; how each edited file was merged; the conflicts; and
    the diff of the changes of the source that the segments overwrite."""

    data: bytes
    how: Mapping[str, How]
    conflicts: tuple[SegmentConflict, ...] = ()
    discarded: str = ""


def lines_of(data: bytes) -> list[bytes]:
    """The lines with their line feeds."""
    return io.BytesIO(data).readlines()


def read_segment_edits(index: Index, cwd: Path) -> SegmentEdits:
    """Read the edited segments of a split; `cwd` is for paths in messages.

    Raises NothingDone if no text was edited, Refused for a segment that cannot be merged as saved.
    """
    if not index.source.path:
        raise Refused(
            f"{display_path(index.folder, cwd)} was split from standard input, so there is no file to join into: "
            "concatenate the segments with `cat`, in the order of their names"
        )
    base = base_bytes(index)
    facts = source_facts(base, index.source.encoding)
    edits: list[SegmentEdit] = []
    empty = set()
    for segment in edited_segments(index):
        before, data = segment_base(index, segment), segment_bytes(index, segment)
        saved = normalize_segment(segment.file, before, data, facts, last=segment is index.segments[-1])
        edits.append(SegmentEdit(segment, before, saved.data, digest(data), saved.notes))
        if not data:
            empty.add(segment.file)
    segment_edits = SegmentEdits(index, base, tuple(edits), _other_files(index))
    if all(edit.before == edit.after for edit in edits):
        raise NothingDone(_nothing_to_join(segment_edits, cwd))
    if all(segment.file in empty for segment in index.segments):
        raise Refused(
            f"all segments are empty, which would empty {index.source.path}: to delete that file, remove it yourself"
        )
    return segment_edits


def _nothing_to_join(segment_edits: SegmentEdits, cwd: Path) -> str:
    index, notes = segment_edits.index, segment_edits.notes
    if segment_edits.edits:
        return f"nothing to join: no text was changed ({'; '.join(notes)})"
    extra = f" ({notes[0]})" if notes else ""
    message = f"nothing to join: no segment of {index.source.path} has been edited since the split{extra}"
    try:
        changed = digest(current_source(index, cwd).data) != index.source.sha256
    except RepoagentError:  # a missing source does not matter here
        changed = False
    if changed:
        again = f"`repoagent split --refresh {quoted_path(index.folder, cwd)}`"
        return f"{message}; the file itself has changed, and {again} brings the segments up to date"
    return f"{message}; edit a file in {display_path(index.folder, cwd)} and run it again"


def _other_files(index: Index) -> tuple[str, ...]:
    """Files in the folder that are not part of the split, except diffs of joins and temporary files of editors
    (.001.py.swp, 001.py~, #001.py#, 001.py.orig)."""
    known = {NAME, BASE, LOCK, STAGED, *(name for s in index.segments for name in (s.file, s.kept_base))}
    return tuple(
        path.name
        for path in sorted(index.folder.iterdir())
        if not path.is_dir()
        and path.name not in known
        and not path.match("join*.diff")
        and not path.name.startswith((".", "#"))
        and not path.name.endswith(("~", ".orig", ".bak", ".rej", ".swp"))
    )


def breaking_segments(segment_edits: SegmentEdits) -> list[str]:
    """The edited files each of which makes the text parse worse."""
    from repoagent.syntax.regressions import parses_worse

    path, base = segment_edits.index.source.path, segment_edits.base
    return [
        edit.file
        for edit in segment_edits.edits
        if parses_worse(path, base, base[: edit.segment.start] + edit.after + base[edit.segment.end :])
    ]


def merge_edits(worktree: WorkTree | None, segment_edits: SegmentEdits, present: bytes) -> MergeResult:
    """Merge the edits with the `present` source. Without a `worktree`, the merge uses a temporary folder."""
    base, path = segment_edits.base, segment_edits.index.source.path.rpartition("/")[2]
    parts = {s.file: base[s.start : s.end] for s in segment_edits.index.segments}
    after = dict(parts)
    conflicts: list[SegmentConflict] = []
    discarded = ""
    with ExitStack() as stack:
        if worktree is None:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="repoagent-")))
            worktree = WorkTree(folder, folder, folder)
        for edit in segment_edits.edits:
            segment = edit.segment
            merged = _three_way(
                worktree, parts[edit.file], [(edit.file, edit.before, edit.after)], segment.first_line
            )
            after[edit.file] = merged.data
            conflicts += merged.conflicts
            if merged.without_conflicts is not None:
                reduced = base[: segment.start] + merged.without_conflicts + base[segment.end :]
                discarded += _diff(path, reduced, base)
        pieces = [(file, text, after[file]) for file, text in parts.items()]
        merged = _three_way(worktree, present, pieces, 1)
    conflicts += merged.conflicts
    if merged.without_conflicts is not None:
        discarded += _diff(path, merged.without_conflicts, present)
    clashing = {file for conflict in conflicts for file in conflict.files}
    how: dict[str, How] = {}
    for edit in segment_edits.edits:
        part, new = parts[edit.file], after[edit.file]
        if edit.before == edit.after:
            how[edit.file] = "unchanged"
        elif edit.file in clashing:
            how[edit.file] = "conflict"
        elif part == new or (part not in present and new in present):
            how[edit.file] = "already"
        else:
            how[edit.file] = "applied" if part in present else "merged"
    return MergeResult(merged.data, how, tuple(conflicts), discarded)


@dataclass(frozen=True)
class _Merged:
    """A merge. On conflict, `data` has the edits, and `without_conflicts` is the other version without the changes that
    the edits overwrite."""

    data: bytes
    without_conflicts: bytes | None = None
    conflicts: tuple[SegmentConflict, ...] = ()


def _three_way(
    worktree: WorkTree, version: bytes, pieces: Sequence[tuple[str, bytes, bytes]], first_line: int
) -> _Merged:
    """Merge `version`, a part of the source that starts at `first_line`, with edits: (file, before, after) for each
    segment.

    git ends lines at line feeds only: if all line endings of the version are carriage returns, or differ from those
    before the edits, the texts are merged with line feeds.
    """
    before, after = b"".join(piece[1] for piece in pieces), b"".join(piece[2] for piece in pieces)
    endings, new_endings = line_endings(before), line_endings(version)
    ending = next(iter(new_endings)) if len(new_endings) == 1 and len(endings) < 2 else b""
    if ending and (ending == b"\r" or (endings and endings != new_endings)):
        pieces = [(file, with_ending(old, b"\n"), with_ending(new, b"\n")) for file, old, new in pieces]
        done = _three_way(worktree, with_ending(version, b"\n"), pieces, first_line)
        reduced = done.without_conflicts
        reduced = None if reduced is None else with_ending(reduced, ending)
        return _Merged(with_ending(done.data, ending), reduced, done.conflicts)
    merged = merge(worktree, version, before, after)
    if not isinstance(merged, Conflict):
        return _Merged(merged)
    conflicts = _conflicts(pieces, version, first_line)
    winning = merge(worktree, version, before, after, after_wins=True)
    if isinstance(winning, Conflict):  # a binary file
        return _Merged(after, before, tuple(SegmentConflict(conflict.files) for conflict in conflicts))
    rest = merge(worktree, winning, after, before, after_wins=True)
    return _Merged(winning, before if isinstance(rest, Conflict) else rest, conflicts)


def _conflicts(
    pieces: Sequence[tuple[str, bytes, bytes]], version: bytes, first_line: int
) -> tuple[SegmentConflict, ...]:
    """The segments whose edits overlap or touch changes of the version, with the lines."""
    old = [line for _, before, _ in pieces for line in lines_of(before)]
    new = [line for _, _, after in pieces for line in lines_of(after)]
    ends = [*accumulate(len(lines_of(after)) for _, _, after in pieces)]
    theirs = differing(old, lines_of(version))
    places: dict[str, list[ConflictLines]] = {}
    for i1, i2, j1, j2 in differing(old, new):
        touching = [change for change in theirs if i1 <= change[1] and change[0] <= i2]
        if touching:
            number = min(bisect_right(ends, j1), len(ends) - 1)
            file, start = pieces[number][0], ends[number - 1] if number else 0
            lines = (j1 - start + 1, min(j2, ends[number]) - start)
            source = (first_line + touching[0][2], first_line + touching[-1][3] - 1)
            places.setdefault(file, []).append(ConflictLines(file, lines, source))
    if not places:
        edited = tuple(file for file, before, after in pieces if before != after and before not in version)
        return (SegmentConflict(edited or tuple(file for file, before, after in pieces if before != after)),)
    return tuple(SegmentConflict((file,), tuple(lines)) for file, lines in places.items())


def _diff(path: str, before: bytes, after: bytes) -> str:
    return canonical_diff([FileChange(path, path, before, after, REGULAR, REGULAR)])


class JoinConflict(Refused):
    """Segments and their source were changed on the same lines. Nothing was written."""

    def __init__(self, path: str, conflicts: Sequence[SegmentConflict]) -> None:
        self.path = path
        self.conflicts = tuple(conflicts)
        super().__init__(
            f"{path} has changed where its segments were edited: {describe_conflicts(path, conflicts)}; nothing was "
            "written. Merge its change into the segment and use --force, which shows what it discards and asks first; "
            "or edit the file itself"
        )

    def details(self) -> dict[str, object]:
        """The conflicts: `files`, and the `places` with lines counted from 1."""
        return {
            "source": self.path,
            "conflicts": [
                {
                    "files": list(conflict.files),
                    "places": [
                        {"file": place.file, "lines": list(place.lines), "source_lines": list(place.source)}
                        for place in conflict.places
                    ],
                }
                for conflict in self.conflicts
            ],
        }


def describe_conflicts(path: str, conflicts: Sequence[SegmentConflict]) -> str:
    """The conflicts in words, with the segment files and the lines."""
    texts = []
    for conflict in conflicts:
        for place in conflict.places:
            mine, theirs = _line_range(place.lines, place.file), _line_range(place.source, path)
            texts.append(f"{mine} against {theirs}")
        if not conflict.places:
            texts.append(f"{' and '.join(conflict.files)} cannot be merged unambiguously with its change")
    more = f", and {len(texts) - _LISTED_CONFLICTS} more" if len(texts) > _LISTED_CONFLICTS else ""
    return "; ".join(texts[:_LISTED_CONFLICTS]) + more


def _line_range(lines: tuple[int, int], file: str) -> str:
    first, last = lines
    if last < first:
        return f"lines deleted from {file} at line {first}"
    return f"line {first} of {file}" if first == last else f"lines {first}-{last} of {file}"
