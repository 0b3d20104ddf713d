"""Read the edited segments of a split and merge them with the current source by git's three-way merge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from repoagent.dataclass import dataclass
from repoagent.errors import NothingDone, Refused, RepoagentError
from repoagent.git.files import REGULAR, FileChange
from repoagent.git.merge import Conflict, merge
from repoagent.git.worktree import WorkTree
from repoagent.patch.render import canonical_diff, differing
from repoagent.split.folder import current_source
from repoagent.split.folder_index import (
    BASE,
    NAME,
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
from repoagent.split.join import (
    ConflictLines,
    How,
    Merge,
    Part,
    SegmentConflict,
    join_parts,
    normalize_segment,
    source_facts,
)
from repoagent.split.rebase import lines_of
from repoagent.syntax.regressions import parses_worse

LISTED_FILES = 3  # files in a sentence
_OWN = (NAME, BASE, ".lock", ".staged")


@dataclass(frozen=True)
class SegmentEdit:
    """An edited segment: the bytes before and after, the hash of its file, and whether the file is empty."""

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
        """The number of lines added and removed."""
        ranges = differing(lines_of(self.before), lines_of(self.after))
        return sum(j2 - j1 for _, _, j1, j2 in ranges), sum(i2 - i1 for i1, i2, _, _ in ranges)


@dataclass(frozen=True)
class SegmentEdits:
    """The edits of a split's folder: the text that was split, the edits in source order, and unrelated files."""

    index: Index
    base: bytes
    edits: tuple[SegmentEdit, ...]
    strangers: tuple[str, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user."""
        notes = [note for edit in self.edits for note in edit.notes]
        notes += [
            f"{edit.file} is empty: its {len(lines_of(edit.before)):,} lines are deleted"
            for edit in self.edits
            if edit.emptied and edit.before
        ]
        if self.strangers:
            more = (
                f" and {len(self.strangers) - LISTED_FILES} more"
                if len(self.strangers) > LISTED_FILES
                else ""
            )
            names = ", ".join(self.strangers[:LISTED_FILES]) + more
            notes.append(f"ignored files that are not part of this split: {names}")
        return tuple(notes)

    def parts(self, edits: Sequence[SegmentEdit]) -> list[Part]:
        """All segments in order, with these edits."""
        after = {edit.file: edit.after for edit in edits}
        found = []
        for segment in self.index.segments:
            text = self.base[segment.start : segment.end]
            found.append(Part(segment.file, text, after.get(segment.file, text)))
        return found


def read_segment_edits(index: Index, cwd: Path) -> SegmentEdits:
    """Read the edited segments of a split; `cwd` is for paths in messages.

    Raises NothingDone if no text was edited, Refused for a segment that cannot be merged as it was saved.
    """
    if not index.source.path:
        raise Refused(
            f"{display_path(index.folder, cwd)} was split from standard input, so there is no file to join into: "
            "concatenate the segments with `cat`, in the order of their names"
        )
    base = base_bytes(index)
    facts = source_facts(base, index.source.encoding)
    found = []
    for segment in edited_segments(index):
        before = segment_base(index, segment) if segment.based_on else base[segment.start : segment.end]
        data = segment_bytes(index, segment)
        saved = normalize_segment(segment.file, before, data, facts, last=segment is index.segments[-1])
        found.append(SegmentEdit(segment, before, saved.data, digest(data), not data, saved.notes))
    segment_edits = SegmentEdits(index, base, tuple(found), _strangers(index))
    if all(edit.before == edit.after for edit in found):
        raise NothingDone(_nothing(segment_edits, cwd))
    emptied = {edit.file for edit in found if edit.emptied}
    if all(segment.file in emptied for segment in index.segments):
        raise Refused(
            f"all segments are empty, which would empty {index.source.path}: to delete that file, remove it yourself"
        )
    return segment_edits


def _nothing(segment_edits: SegmentEdits, cwd: Path) -> str:
    index = segment_edits.index
    if segment_edits.edits:
        return f"nothing to join: no text was changed ({'; '.join(segment_edits.notes)})"
    extra = f" ({segment_edits.notes[0]})" if segment_edits.notes else ""
    said = f"nothing to join: no segment of {index.source.path} has been edited since the split{extra}"
    if _has_moved_on(index, cwd):
        again = f"`repoagent split --refresh {quoted_path(index.folder, cwd)}`"
        return f"{said}; the file itself has changed, and {again} brings the segments up to date"
    return f"{said}; edit a file in {display_path(index.folder, cwd)} and run it again"


def _has_moved_on(index: Index, cwd: Path) -> bool:
    try:
        return digest(current_source(index, cwd).data) != index.source.sha256
    except RepoagentError:  # it is not there, or cannot be read: nothing was edited all the same
        return False


def _strangers(index: Index) -> tuple[str, ...]:
    """Files in the folder that are neither the split's nor made by it, nor left by an editor."""
    known = {*_OWN, *(name for one in index.segments for name in (one.file, one.kept_base))}
    names = sorted(path.name for path in index.folder.iterdir() if not path.is_dir())
    return tuple(name for name in names if name not in known and not is_diff(name) and not _is_litter(name))


def _is_litter(name: str) -> bool:
    """Whether it is what editors leave next to a file: .001.py.swp, 001.py~, #001.py#, 001.py.orig."""
    return name.startswith((".", "#")) or name.endswith(("~", ".orig", ".bak", ".rej", ".swp"))


def is_diff(name: str) -> bool:
    """Whether the name is that of a join's diff: join.diff, join-2.diff."""
    stem = name.removesuffix(".diff").removeprefix("join")
    return name.startswith("join") and name.endswith(".diff") and (not stem or stem[1:].isdigit())


@dataclass(frozen=True)
class MergeResult:
    """The merged source (None on conflict), how each edited file was merged, the conflicts, and the diff of the
    source's own changes that are discarded if the segments have the last word."""

    data: bytes | None
    how: Mapping[str, How]
    clashes: tuple[SegmentConflict, ...] = ()
    lost: str = ""


def merge_edits(
    worktree: WorkTree | None,
    segment_edits: SegmentEdits,
    name: str,
    present: bytes,
    *,
    last_word: bool = False,
) -> MergeResult:
    """Merge the edits with the `present` source, which is called `name` in diffs."""
    with ExitStack() as stack:
        if worktree is None:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="repoagent-")))
            worktree = WorkTree(folder, folder, folder)
        by_git = _by_git(worktree)
        edits: list[SegmentEdit] = []
        clashes: list[SegmentConflict] = []
        lost, kept = "", segment_edits.base
        for edit in segment_edits.edits[::-1]:
            one = _rebased(segment_edits, edit, by_git, last_word)
            clashes += one.clashes
            edits.append(replace(edit, after=one.data))
            if one.clashes:
                kept = kept[: edit.segment.start] + one.kept + kept[edit.segment.end :]
        if clashes and not last_word:
            how: dict[str, How] = {file: "clash" for clash in clashes for file in clash.files}
            return MergeResult(None, how, tuple(clashes[::-1]))
        parts = segment_edits.parts(edits)
        joined = join_parts(parts, present, merge=by_git, differing=differing, last_word=last_word)
    if clashes:
        lost = _diff(name, kept, segment_edits.base)
    if joined.kept is not None:
        lost += _diff(name, joined.kept, present)
    how = {edit.file: _how(edit, joined.how) for edit in segment_edits.edits}
    return MergeResult(joined.data, how, (*clashes[::-1], *joined.clashes), lost)


def breaking_segments(segment_edits: SegmentEdits) -> list[str]:
    """The edited files that alone make the split text parse worse."""
    path, base = segment_edits.index.source.path, segment_edits.base
    return [
        edit.file
        for edit in segment_edits.edits
        if parses_worse(path, base, base[: edit.segment.start] + edit.after + base[edit.segment.end :])
    ]


def _how(edit: SegmentEdit, how: Mapping[str, How]) -> How:
    """Of one that the refreshed text has already nothing is left to join; of some only the form was changed."""
    return "unchanged" if edit.before == edit.after else how.get(edit.file, "already")


@dataclass(frozen=True)
class _Rebased:
    data: bytes
    kept: bytes
    clashes: tuple[SegmentConflict, ...] = ()


def _rebased(segment_edits: SegmentEdits, edit: SegmentEdit, by_git: Merge, last_word: bool) -> _Rebased:
    """The edit as one of the text that the index is of now: it was made of an earlier one where the split was
    refreshed under it."""
    segment = edit.segment
    text = segment_edits.base[segment.start : segment.end]
    if edit.before == text:
        return _Rebased(edit.after, text)
    parts = [Part(edit.file, edit.before, edit.after)]
    joined = join_parts(parts, text, merge=by_git, differing=differing, last_word=last_word)
    by = segment.first_line - 1
    clashes = tuple(
        SegmentConflict(clash.files, tuple(_moved(place, by) for place in clash.places))
        for clash in joined.clashes
    )
    return _Rebased(
        text if joined.data is None else joined.data, text if joined.kept is None else joined.kept, clashes
    )


def _moved(place: ConflictLines, by: int) -> ConflictLines:
    return replace(place, source=(place.source[0] + by, place.source[1] + by))


def _by_git(worktree: WorkTree) -> Merge:
    def by_git(version: bytes, before: bytes, after: bytes, last_word: bool) -> bytes | None:
        found = merge(worktree, version, before, after, after_wins=last_word)
        return None if isinstance(found, Conflict) else found

    return by_git


def _diff(path: str, before: bytes, after: bytes) -> str:
    return canonical_diff([FileChange(path, path, before, after, REGULAR, REGULAR)])


LISTED_SEGMENTS = 4  # places in a sentence


class JoinClash(Refused):
    """Segments and their source were changed on the same lines. Nothing was written."""

    def __init__(self, path: str, clashes: Sequence[SegmentConflict]) -> None:
        self.path = path
        self.clashes = tuple(clashes)
        super().__init__(
            f"{path} has changed where its segments were edited: {described(path, clashes)}; nothing was written. "
            "Merge its change into the segment and use --force, which shows what it discards and asks first; or edit "
            "the file itself"
        )

    def details(self) -> dict[str, object]:
        """The conflicts: `files`, and the `places` with lines counted from 1."""
        return {
            "source": self.path,
            "conflicts": [
                {
                    "files": list(clash.files),
                    "places": [
                        {"file": place.file, "lines": list(place.lines), "source_lines": list(place.source)}
                        for place in clash.places
                    ],
                }
                for clash in self.clashes
            ],
        }


def described(path: str, clashes: Sequence[SegmentConflict]) -> str:
    """The conflicts in words, with the segment files and the lines."""
    said = [one for clash in clashes for one in _each(path, clash)]
    more = f", and {len(said) - LISTED_SEGMENTS} more" if len(said) > LISTED_SEGMENTS else ""
    return "; ".join(said[:LISTED_SEGMENTS]) + more


def _each(path: str, clash: SegmentConflict) -> list[str]:
    if not clash.places:
        names = " and ".join(clash.files)
        return [f"{names} cannot be merged unambiguously with its change"]
    return [_said(path, place) for place in clash.places]


def _said(path: str, place: ConflictLines) -> str:
    mine = _lines(place.lines, f"of {place.file}", "deleted from")
    return f"{mine} against {_lines(place.source, f'of {path}', 'deleted from')}"


def _lines(lines: tuple[int, int], of: str, gone: str) -> str:
    first, last = lines
    if last < first:
        return f"lines {gone} {of.removeprefix('of ')} at line {first}"
    return f"line {first} {of}" if first == last else f"lines {first}-{last} {of}"
