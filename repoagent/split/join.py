"""Read the edited segments of a split, and merge them with the current source.

The merge is git's three-way merge of the text that was split, the joined segments, and the source. A segment that was
edited before a refresh is first merged with its part of the refreshed text in the same way. `normalize_segment` undoes
an editor's changes to the encoding, line endings and final blank lines of a segment.
"""

from __future__ import annotations

import io
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Literal

from repoagent.dataclass import dataclass
from repoagent.errors import NothingDone, Refused
from repoagent.git.files import Content, FileChange
from repoagent.git.merge import Conflict, merge
from repoagent.git.worktree import WorkTree
from repoagent.patch.render import canonical_diff, diff_ranges
from repoagent.split import folder_index
from repoagent.split.folder_index import SplitIndex, digest
from repoagent.split.pack import Segment
from repoagent.syntax.parser import UTF8_MARK, WIDE_MARKS

_LISTED_FILES = 3  # in a sentence
_LISTED_CONFLICTS = 4
How = Literal["applied", "merged", "already", "conflict", "unchanged"]


@dataclass(frozen=True)
class SegmentEdit:
    """An edited segment: the text before and after the edit, the hash of its file, and notes on corrections."""

    segment: Segment
    before: bytes
    after: bytes
    file_hash: str
    notes: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        return self.segment.file

    def counts(self) -> tuple[int, int]:
        ranges = diff_ranges(lines_of(self.before), lines_of(self.after))
        return sum(j2 - j1 for _, _, j1, j2 in ranges), sum(i2 - i1 for i1, i2, _, _ in ranges)


@dataclass(frozen=True)
class SegmentEdits:
    """The edits in the folder of a split, in source order; the text that was split; and unrelated files in the
    folder."""

    index: SplitIndex
    base: bytes
    edits: tuple[SegmentEdit, ...]
    other_files: tuple[str, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        notes = [note for edit in self.edits for note in edit.notes]
        for edit in self.edits:
            if edit.before and not edit.after:
                count = len(lines_of(edit.before))
                notes.append(
                    f"{edit.file} is empty: deleted {f'all its {count:,} lines' if count > 1 else 'its line'}"
                )
        if self.other_files:
            more = ", ..." if len(self.other_files) > _LISTED_FILES else ""
            names = ", ".join(self.other_files[:_LISTED_FILES]) + more
            notes.append(f"ignored files that are not part of this split: {names}")
        return tuple(notes)


@dataclass(frozen=True)
class SegmentConflict:
    """Segments that conflict with changes to the source. `places` has the lines (first, last; from 1) of the segment's
    file and those of the source; the last is before the first for deleted lines. `places` is empty if the conflict is
    not in particular lines, as in a binary source."""

    files: tuple[str, ...]
    places: tuple[tuple[tuple[int, int], tuple[int, int]], ...] = ()


@dataclass(frozen=True)
class MergeResult:
    """The merged source, in which the segments win all conflicts; how each edited file was merged; the conflicts; and
    the diff of the source changes that the segments overwrite."""

    data: bytes
    how: Mapping[str, How]
    conflicts: tuple[SegmentConflict, ...] = ()
    discarded: str = ""


def lines_of(data: bytes) -> list[bytes]:
    return io.BytesIO(data).readlines()


def read_segment_edits(index: SplitIndex, cwd: Path) -> SegmentEdits:
    """Read the edited segments of a split; paths in messages are relative to `cwd`. Raises NothingDone if no text was
    edited, and Refused for a segment that cannot be merged as saved."""
    folder = folder_index.display_path(index.folder, cwd)
    if not index.source.path:
        raise Refused(
            f"{folder} is a split of standard input, so there is no file to join into; concatenate the segments with "
            "`cat`, in the order of their names"
        )
    base = folder_index.base_bytes(index)
    edits: list[SegmentEdit] = []
    empty = set()
    endings, binary = line_endings(base), index.source.encoding == "binary"
    utf8 = is_mostly_utf8(base)
    for segment, saved in folder_index.edited_segments(index):
        before, after = folder_index.segment_base(index, segment), saved
        notes: list[str] = []
        if not binary:
            last = segment is index.segments[-1]
            after, notes = normalize_segment(
                segment.file, before, saved, utf8=utf8, endings=endings, last=last
            )
        edits.append(SegmentEdit(segment, before, after, digest(saved), tuple(notes)))
        if not saved:
            empty.add(segment.file)
    # diffs of joins and temporary files of editors (.001.py.swp, 001.py~, #001.py#, 001.py.orig) are expected
    known = {
        folder_index.NAME,
        folder_index.BASE,
        folder_index.LOCK,
        folder_index.STAGED,
        *(name for s in index.segments for name in (s.file, s.kept_base)),
    }
    usual = re.compile(r"join.*\.diff|[.#].*|.*(~|\.orig|\.bak|\.rej|\.swp)", re.DOTALL)
    other_files = tuple(
        path.name
        for path in sorted(index.folder.iterdir())
        if not path.is_dir() and path.name not in known and not usual.fullmatch(path.name)
    )
    segment_edits = SegmentEdits(index, base, tuple(edits), other_files)
    if all(edit.before == edit.after for edit in edits):
        remarks = segment_edits.notes
        if edits:
            raise NothingDone(f"nothing to join: no text was changed ({'; '.join(remarks)})")
        extra = f" ({remarks[0]})" if remarks else ""
        raise NothingDone(
            f"nothing to join: no segment of {index.source.path} has been edited since the split{extra}; edit a "
            f"file in {folder} and run the command again"
        )
    if all(segment.file in empty for segment in index.segments):
        raise Refused(
            f"all segments are empty, so joining would empty {index.source.path}; to delete the file, use `rm`"
        )
    return segment_edits


def breaking_segments(segment_edits: SegmentEdits) -> list[str]:
    """The files whose edit alone adds a syntax error to the text."""
    from repoagent.syntax.regressions import parses_worse

    path, base = segment_edits.index.source.path, segment_edits.base
    return [
        edit.file
        for edit in segment_edits.edits
        if parses_worse(path, base, base[: edit.segment.start] + edit.after + base[edit.segment.end :])
    ]


def merge_edits(worktree: WorkTree, segment_edits: SegmentEdits, present: bytes) -> MergeResult:
    base, path = segment_edits.base, segment_edits.index.source.path.rpartition("/")[2]
    parts = {s.file: base[s.start : s.end] for s in segment_edits.index.segments}
    after = dict(parts)
    conflicts: list[SegmentConflict] = []
    discarded = ""

    def diff(old: bytes, new: bytes) -> str:
        return canonical_diff([FileChange.at(path, Content(old), Content(new))])

    for edit in segment_edits.edits:
        segment, pieces = edit.segment, [(edit.file, edit.before, edit.after)]
        after[edit.file], reduced, clashes = _three_way(
            worktree, parts[edit.file], pieces, segment.first_line
        )
        conflicts += clashes
        if reduced is not None:
            discarded += diff(base[: segment.start] + reduced + base[segment.end :], base)
    pieces = [(file, text, after[file]) for file, text in parts.items()]
    data, reduced, clashes = _three_way(worktree, present, pieces, 1)
    conflicts += clashes
    if reduced is not None:
        discarded += diff(reduced, present)
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
    return MergeResult(data, how, tuple(conflicts), discarded)


def _three_way(
    worktree: WorkTree, version: bytes, pieces: Sequence[tuple[str, bytes, bytes]], first_line: int
) -> tuple[bytes, bytes | None, Sequence[SegmentConflict]]:
    """Merge `version`, a part of the source that starts at `first_line`, with edits: (file, before, after) for each
    segment. Returns the merged text, in which the edits win conflicts; on conflict, the version without the changes
    that the edits overwrite, otherwise None; and the conflicts.
    """
    before, after = b"".join(piece[1] for piece in pieces), b"".join(piece[2] for piece in pieces)
    merged = merge(worktree, version, before, after)
    if not isinstance(merged, Conflict):
        return merged, None, ()
    # the segments whose edits overlap or touch changes of the version, with the lines
    old = [line for _, text, _ in pieces for line in lines_of(text)]
    new = [line for _, _, text in pieces for line in lines_of(text)]
    ends = [*accumulate(len(lines_of(text)) for _, _, text in pieces)]
    theirs = diff_ranges(old, lines_of(version))
    places: dict[str, list[tuple[tuple[int, int], tuple[int, int]]]] = {}
    for i1, i2, j1, j2 in diff_ranges(old, new):
        touching = [change for change in theirs if i1 <= change[1] and change[0] <= i2]
        if touching:
            number = min(bisect_right(ends, j1), len(ends) - 1)
            start = ends[number - 1] if number else 0
            lines = (j1 - start + 1, min(j2, ends[number]) - start)
            source = (first_line + touching[0][2], first_line + touching[-1][3] - 1)
            places.setdefault(pieces[number][0], []).append((lines, source))
    conflicts = [SegmentConflict((file,), tuple(each)) for file, each in places.items()]
    if not conflicts:
        edited = [piece for piece in pieces if piece[1] != piece[2]]
        changed = [piece for piece in edited if piece[1] not in version]
        conflicts = [SegmentConflict(tuple(piece[0] for piece in changed or edited))]
    winning = merge(worktree, version, before, after, after_wins=True)
    if isinstance(winning, Conflict):  # a binary file
        return after, before, [SegmentConflict(conflict.files) for conflict in conflicts]
    rest = merge(worktree, winning, after, before, after_wins=True)
    return winning, before if isinstance(rest, Conflict) else rest, conflicts


class JoinConflict(Refused):
    """Segments and their source were changed on the same lines. Nothing was written."""

    def __init__(self, path: str, conflicts: Sequence[SegmentConflict]) -> None:
        self.path = path
        self.conflicts = tuple(conflicts)
        super().__init__(
            f"{path} has changed where its segments were edited: {describe_conflicts(path, conflicts)}; nothing was "
            f"written. Merge the change to {path} into the segment and use --force, which shows what it discards and "
            f"asks first; or edit {path} itself"
        )

    def details(self) -> dict[str, object]:
        """The conflicts as JSON data: `files`, and the `places` with lines counted from 1."""
        conflicts = []
        for conflict in self.conflicts:
            places = [
                {"file": conflict.files[0], "lines": list(lines), "source_lines": list(source)}
                for lines, source in conflict.places
            ]
            conflicts.append({"files": list(conflict.files), "places": places})
        return {"source": self.path, "conflicts": conflicts}


def describe_conflicts(path: str, conflicts: Sequence[SegmentConflict]) -> str:
    texts = []
    for conflict in conflicts:
        file = " and ".join(conflict.files)
        for lines, source in conflict.places:
            texts.append(f"{_line_range(lines, file)} against {_line_range(source, path)}")
        if not conflict.places:
            texts.append(f"{file} cannot be merged unambiguously with the changes to {path}")
    more = f", and {len(texts) - _LISTED_CONFLICTS} more" if len(texts) > _LISTED_CONFLICTS else ""
    return "; ".join(texts[:_LISTED_CONFLICTS]) + more


def _line_range(lines: tuple[int, int], file: str) -> str:
    first, last = lines
    if last < first:
        return f"lines deleted from {file} at line {first}"
    return f"line {first} of {file}" if first == last else f"lines {first}-{last} of {file}"


_NAMES = {b"\n": "LF", b"\r\n": "CRLF", b"\r": "CR"}
_ENDING = re.compile(rb"\r\n|\n|\r")
_CONFLICT = re.compile(rb"^(?:<<<<<<<|>>>>>>>|\|\|\|\|\|\|\|) [^\r\n]*", re.MULTILINE)


def is_mostly_utf8(data: bytes) -> bool:
    """Whether the encoding is UTF-8, apart from a few invalid bytes."""
    text = data.decode("utf-8", "surrogateescape")
    invalid = sum("\udc80" <= char <= "\udcff" for char in text)
    return not invalid or sum(char >= "\x80" for char in text) > 2 * invalid


def line_endings(data: bytes) -> set[bytes]:
    crlf = {b"\r\n"} if b"\r\n" in data else set()
    rest = data.replace(b"\r\n", b"") if crlf else data
    return crlf | {ending for ending in (b"\n", b"\r") if ending in rest}


def normalize_segment(
    file: str, before: bytes, after: bytes, *, utf8: bool, endings: set[bytes], last: bool
) -> tuple[bytes, list[str]]:
    """The saved content `after` of the segment `file`, with its byte-order mark, line endings and final blank lines
    restored from `before` (its content before the edit); and a sentence for each correction.

    `utf8` and `endings` are those of the source. The end of the `last` segment may lose blank lines. Raises Refused for
    another encoding, ambiguous line endings, a truncated file, and conflict markers.
    """
    marked = before.startswith(UTF8_MARK)
    if after == before or not after:
        return after or (UTF8_MARK if marked else b""), []
    notes: list[str] = []
    encoding = "UTF-8" if utf8 else "its original single-byte encoding"
    if (b"\0" in after and b"\0" not in before) or after.startswith(tuple(WIDE_MARKS)):
        raise Refused(f"{file} has NUL bytes or is UTF-16; save it in {encoding} and join again")
    if after.startswith(UTF8_MARK) != marked:
        after = UTF8_MARK + after if marked else after.removeprefix(UTF8_MARK)
        notes.append(f"{file}: {'restored the' if marked else 'removed a'} byte-order mark")
    if (wrong := _reencoded(before, after, utf8=utf8)) >= 0:
        line = _line_at(after, wrong)
        raise Refused(
            f"{file} is no longer in {encoding} (line {line}); restore it, save it in that encoding and join again"
        )
    known = {match[0] for match in _CONFLICT.finditer(before)}
    if marker := next((match for match in _CONFLICT.finditer(after) if match[0] not in known), None):
        line = _line_at(after, marker.start())
        raise Refused(f"{file} has conflict markers (line {line}); resolve the conflict and join again")
    after = _with_endings_of(file, before, after, line_endings(before) or endings, notes)
    return _with_end_of(file, before, after, notes, last=last), notes


def _line_at(data: bytes, offset: int) -> int:
    return data.count(b"\n", 0, offset) + 1


def _reencoded(before: bytes, after: bytes, *, utf8: bool) -> int:
    """The offset of the first byte that shows another encoding than before, or a replaced character (U+FFFD); -1 for
    none. `utf8` is the encoding of the source."""
    invalid, was_utf8 = _invalid_byte(after), _invalid_byte(before) < 0
    if invalid >= 0:
        return invalid if utf8 and was_utf8 else -1
    if was_utf8 and (utf8 or not before.isascii()):
        return -1
    if utf8:
        return after.find("\ufffd".encode())
    return next((at for at, byte in enumerate(after) if byte > 127), -1)


def _invalid_byte(data: bytes) -> int:
    """The offset of the first byte that is not UTF-8; -1 if there is none."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return error.start
    return -1


def _with_endings_of(file: str, before: bytes, after: bytes, known: set[bytes], notes: list[str]) -> bytes:
    present = line_endings(after)
    if present == known or (not known and len(present) < 2):
        return after
    if len(known) > 1:
        if line_endings(before):
            raise Refused(
                f"{file} has mixed line endings, and the edit changed them; restore the segment, and use an editor "
                "that preserves line endings"
            )
        return after
    own = next(iter(known), b"") or _ENDING.findall(after)[0]
    if present <= {own}:
        return after
    if len(present) > 1:
        line = next(n for n, match in enumerate(_ENDING.finditer(after), 1) if match[0] != own)
        raise Refused(
            f"the edited {file} has mixed line endings: line {line} does not end in {_NAMES[own]} like the others; use "
            "one line ending throughout and join again"
        )
    notes.append(f"{file}: changed the line endings from {_NAMES[present.pop()]} back to {_NAMES[own]}")
    return _ENDING.sub(lambda _: own, after)


def _with_end_of(file: str, before: bytes, after: bytes, notes: list[str], *, last: bool) -> bytes:
    """`after` with the final newline and blank lines of `before`. A formatter treats a segment as a whole file and
    removes the blank lines at its end."""
    old, new = (text[len(text.rstrip(b"\r\n")) :] for text in (before, after))
    if old and not new:
        if before.startswith(after) and not before.startswith((b"\n", b"\r"), len(after)):
            raise Refused(
                f"{file} looks truncated at line {_line_at(after, len(after))}, as after an interrupted "
                "save; restore the file, or end that line with a newline if it is complete, and join again"
            )
        notes.append(f"{file}: restored the final newline{'s' * (_ENDING.subn(b'', old)[1] > 1)}")
        return after + old
    if new and before and not old:
        notes.append(f"{file}: removed the final newline, since the source has none there")
        return after[: -len(new)]
    one_left = len(_ENDING.findall(new)) == 1 < len(_ENDING.findall(old))
    before_last, after_last = (text.rstrip(b"\r\n").rpartition(b"\n")[2] for text in (before, after))
    if one_left and not last and before_last == after_last:
        notes.append(f"{file}: restored the blank lines before the next segment")
        return after[: -len(new)] + old
    return after
