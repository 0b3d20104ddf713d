"""Join edited segments with their source: a three-way merge per segment, or per group of inseparable neighbors.

`normalize_segment` first restores the encoding, line endings and end of a saved segment file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Literal

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.split.encodings import (
    MergeForm,
    encoding_of,
    endings,
    with_own_encoding,
    with_own_end,
    with_own_endings,
)
from repoagent.split.rebase import Differing, Range, Zone, change_zones, edge_edit, lines_of, rebase_cuts
from repoagent.syntax.parser import UTF8_MARK

# (version, before, after, `after` wins) -> the merge; None if both changed the same lines
Merge = Callable[[bytes, bytes, bytes, bool], bytes | None]
How = Literal["applied", "merged", "already", "clash", "unchanged"]


@dataclass(frozen=True)
class Part:
    """A segment: its file, its part of the text that was split, and its edited content."""

    file: str
    before: bytes
    after: bytes


@dataclass(frozen=True)
class ConflictLines:
    """Lines (first, last; from 1) of a segment's file, and the lines of the source with which they conflict. A last
    line before the first means none: one side deleted the lines."""

    file: str
    lines: tuple[int, int]
    source: tuple[int, int]


@dataclass(frozen=True)
class SegmentConflict:
    """Segments that conflict with changes of the source. `places` is empty for a binary source, and if there is more
    than one possible merge."""

    files: tuple[str, ...]
    places: tuple[ConflictLines, ...] = ()


@dataclass(frozen=True)
class JoinResult:
    """The result of a join; `data` is None if there are conflicts and the segments do not win.

    `how` has the outcome for each edited file: "applied" to an unchanged source, "merged" with a change of the source,
    or "already" in the source. `kept` is the source without its own changes that the winning segments overwrite; None
    if there are none.
    """

    data: bytes | None
    how: Mapping[str, How]
    clashes: tuple[SegmentConflict, ...] = ()
    kept: bytes | None = None


@dataclass
class _Group:
    """Neighboring segments that are merged as one. `start` is their first line in the present source."""

    parts: list[Part]
    present: bytes
    start: int
    merged: bytes | None = None
    clash: SegmentConflict | None = None
    kept: bytes = field(default=b"", repr=False)

    @property
    def before(self) -> bytes:
        return b"".join(part.before for part in self.parts)

    @property
    def after(self) -> bytes:
        return b"".join(part.after for part in self.parts)

    @property
    def edited(self) -> list[str]:
        return [part.file for part in self.parts if part.before != part.after]


def join_parts(
    parts: Sequence[Part],
    present: bytes,
    *,
    merge: Merge,
    differing: Differing,
    last_word: bool = False,
) -> JoinResult:
    """Join the parts, all segments in order, with the `present` source.

    If the source is unchanged, they are concatenated. Else each edited one is merged into its region of the source,
    found by a diff; neighbors between which the source has changed are merged as one. The whole text is also merged:
    a different result is ambiguous, and so a conflict. With `last_word` the segments win all conflicts.
    """
    base, wanted = b"".join(part.before for part in parts), b"".join(part.after for part in parts)
    edited = [part.file for part in parts if part.before != part.after]
    if present == base:
        return JoinResult(wanted, dict.fromkeys(edited, "applied"))
    if present == wanted:
        return JoinResult(present, dict.fromkeys(edited, "already"))
    form = MergeForm(base, present)
    olds = form.given([part.before for part in parts])
    news = form.given([part.after for part in parts])
    inner = [Part(part.file, old, new) for part, old, new in zip(parts, olds, news, strict=True)]
    groups = _groups(inner, form.present, differing)
    how: dict[str, How] = {}
    for group in groups:
        how |= dict.fromkeys(group.edited, _merge(group, merge, differing, last_word))
    clashes = [group.clash for group in groups if group.clash is not None]
    if not clashes and set(how.values()) - {"already"}:
        clashes = _second_opinion(inner, groups, merge, differing, last_word)
    if clashes and not last_word:
        how |= {file: "clash" for clash in clashes for file in clash.files}
        return JoinResult(None, how, tuple(clashes))
    data = form.back(b"".join(group.merged or b"" for group in groups))
    kept = form.back(b"".join(group.kept for group in groups)) if clashes else None
    return JoinResult(data, how, tuple(clashes), kept)


def _groups(parts: Sequence[Part], present: bytes, differing: Differing) -> list[_Group]:
    """Group the parts at the boundaries that are unambiguous in the present source."""
    cuts, at = [], 0
    for number, part in enumerate(parts[:-1]):
        at += len(part.before)
        end = edge_edit(part.before, part.after, differing, at_end=True)
        following = parts[number + 1]
        start = edge_edit(following.before, following.after, differing, at_end=False)
        cuts.append((at, end | start))
    places = rebase_cuts(b"".join(part.before for part in parts), present, cuts, differing)
    groups, first, begin, line = [], 0, 0, 1
    for number, place in enumerate([*places, len(present)], 1):
        if place is not None:
            groups.append(_Group(list(parts[first:number]), present[begin:place], line))
            line += present.count(b"\n", begin, place)
            first, begin = number, place
    return groups


def _merge(group: _Group, merge: Merge, differing: Differing, last_word: bool) -> How:
    """Merge the group and return the outcome."""
    before, after, present = group.before, group.after, group.present
    group.merged = group.kept = present
    if after in (present, before):
        return "already"
    if present == before:
        group.merged = after
        return "applied"
    group.merged = merge(present, before, after, False)
    if group.merged is not None:
        return "already" if group.merged == present else "merged"
    if _holds(present, before, after, differing):
        group.merged = present
        return "already"
    group.clash, group.kept = _clash(group, differing)
    if last_word:
        group.merged = merge(present, before, after, True)
        if group.merged is None:  # no text: then it is one or the other
            group.merged, group.kept = after, before
    return "clash"


def _holds(present: bytes, before: bytes, after: bytes, differing: Differing) -> bool:
    """Whether the present text contains all edits of `after`, apart from its other changes."""
    old, new, now = lines_of(before), lines_of(after), lines_of(present)
    edits = change_zones(new, old, [(j1, j2, i1, i2) for i1, i2, j1, j2 in differing(old, new)])
    others = change_zones(new, now, differing(new, now))
    return all(_are_apart(edit, other) for edit in edits for other in others)


def _are_apart(edit: Zone, other: Zone) -> bool:
    """Whether a line separates them; not needed if the other change replaces line by line."""
    if other.steady and edit.low < edit.high:
        return other.high <= edit.low or other.low >= edit.high
    return other.high < edit.low or other.low > edit.high


def _clash(group: _Group, differing: Differing) -> tuple[SegmentConflict, bytes]:
    """The conflict, and the present text without its changes there."""
    old, now = lines_of(group.before), lines_of(group.present)
    ours, theirs = differing(old, lines_of(group.after)), differing(old, now)
    places: list[ConflictLines] = []
    lost: list[Range] = []
    for one in ours:
        meeting = [other for other in theirs if one[0] <= other[1] and other[0] <= one[1]]
        if meeting:
            source = group.start + meeting[0][2], group.start + meeting[-1][3] - 1
            places.append(_place(group, one[2], one[3], source))
            lost += [other for other in meeting if other not in lost]
    kept = list(now)
    for i1, i2, j1, j2 in reversed(lost or theirs):
        kept[j1:j2] = old[i1:i2]
    return SegmentConflict(tuple(group.edited), tuple(places)), b"".join(kept)


def _place(group: _Group, first: int, end: int, source: tuple[int, int]) -> ConflictLines:
    """Convert lines of the group to lines of one of its files."""
    for part in group.parts:
        count = len(lines_of(part.after))
        if first < count or part is group.parts[-1]:
            return ConflictLines(part.file, (first + 1, min(end, count)), source)
        first, end = first - count, end - count
    raise ValueError("a group without segments")


def _second_opinion(
    parts: Sequence[Part], groups: Sequence[_Group], merge: Merge, differing: Differing, last_word: bool
) -> list[SegmentConflict]:
    """The conflicts where git merges the whole text to another result, or reports a conflict that is more than two
    adjacent lines, one of each side."""
    base, wanted = b"".join(part.before for part in parts), b"".join(part.after for part in parts)
    whole = merge(b"".join(group.present for group in groups), base, wanted, False)
    if whole == b"".join(group.merged or b"" for group in groups):
        return []
    edited = [group for group in groups if group.edited and group.merged != group.present]
    if whole is None:
        doubtful = [group for group in edited if _is_open(group, differing)]
    else:
        doubtful = [group for group in edited if group.present != group.before] or edited
    if last_word:
        for group in doubtful:
            group.merged, group.kept = group.after, group.before
    return [SegmentConflict(tuple(group.edited)) for group in doubtful]


def _is_open(group: _Group, differing: Differing) -> bool:
    """Whether lines are inserted or deleted at one of its ends: the source may already have the same edit beyond it."""
    ends = [edge_edit(group.before, group.after, differing, at_end=at_end) for at_end in (False, True)]
    return any(end.lines and not end.steady for end in ends)


BINARY = "binary"
_CONFLICT = re.compile(rb"^(<<<<<<<|>>>>>>>|\|\|\|\|\|\|\|) .*", re.MULTILINE)


@dataclass(frozen=True)
class SourceFacts:
    """The encoding of a source ("utf-8", "binary", or "latin-1" for any other single-byte encoding), and its line
    endings."""

    encoding: str
    endings: frozenset[bytes]


@dataclass(frozen=True)
class NormalizedSegment:
    """The normalized bytes of a segment file, and a sentence for each correction."""

    data: bytes
    notes: tuple[str, ...] = ()


def source_facts(base: bytes, encoding: str) -> SourceFacts:
    """The facts of the text that was split; `encoding` is that of its index."""
    if encoding == BINARY:
        return SourceFacts(BINARY, frozenset())
    return SourceFacts(encoding_of(base), frozenset(endings(base)))


def normalize_segment(
    file: str, before: bytes, after: bytes, facts: SourceFacts, *, last: bool = False
) -> NormalizedSegment:
    """The content `after` of the segment `file`, with the byte-order mark, line endings and end of `before`, the
    content before the edit; the end of the `last` segment is treated less strictly.

    Raises Refused if the line endings are ambiguous, for another encoding, and for an unfinished merge.
    """
    if after == before or facts.encoding == BINARY:
        return NormalizedSegment(after)
    if not after:  # keep the mark of the encoding
        return NormalizedSegment(UTF8_MARK if before.startswith(UTF8_MARK) else b"")
    new, notes = with_own_encoding(file, before, after, facts.encoding)
    _refuse_conflict(file, before, new)
    new, more = with_own_endings(file, before, new, set(facts.endings))
    notes += more
    new, more = with_own_end(file, before, new, last=last)
    return NormalizedSegment(new, notes + more)


def _refuse_conflict(file: str, before: bytes, after: bytes) -> None:
    known = {match[0] for match in _CONFLICT.finditer(before)}
    for match in _CONFLICT.finditer(after):
        if match[0].rstrip(b"\r") not in known and match[0] not in known:
            line = after.count(b"\n", 0, match.start()) + 1
            raise Refused(f"{file} has conflict markers (line {line}); resolve the conflict and join again")
