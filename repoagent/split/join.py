"""The source with the edited segments in it: a three-way merge of each, or of neighbours that can't be told apart.

What a person, or a program, has saved as a segment, taken over: only what was meant, in the form of the source.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Literal

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.split.encodings import (
    Form,
    encoding_of,
    endings,
    with_own_encoding,
    with_own_end,
    with_own_endings,
)
from repoagent.split.rebase import Differing, Range, Zone, carried, lines_of, touched, zones
from repoagent.syntax.parser import UTF8_MARK

# (version, before, after) -> the merge, None where both changed the same lines; with the last word to `after` if True
Merge = Callable[[bytes, bytes, bytes, bool], bytes | None]
How = Literal["applied", "merged", "already", "clash", "unchanged"]


@dataclass(frozen=True)
class Part:
    """A segment: its file, the bytes of the text that was split, and what they are to be."""

    file: str
    before: bytes
    after: bytes


@dataclass(frozen=True)
class Place:
    """Lines (first, last; from 1) of a segment's file as it is, and the lines of the source that they clash with. A
    last line before the first: nothing is there, as one side took the lines out."""

    file: str
    lines: tuple[int, int]
    source: tuple[int, int]


@dataclass(frozen=True)
class Clash:
    """Segments that the source has changed too, on the same lines. `places` are empty where it is no matter of lines,
    or where the texts can be merged in more than one way."""

    files: tuple[str, ...]
    places: tuple[Place, ...] = ()


@dataclass(frozen=True)
class Joined:
    """What came of it: `data` where nothing clashes, or where the segments had the last word.

    `how` says of each edited file what became of it: put in where the source is as it was ("applied"), merged with a
    change of the source, or in the source already. `kept` is the source without those of its own changes that the
    last word of the segments takes away; None where there are none.
    """

    data: bytes | None
    how: Mapping[str, How]
    clashes: tuple[Clash, ...] = ()
    kept: bytes | None = None


@dataclass
class _Group:
    """Neighbouring segments that are merged as one. `start` is the line of the present source they begin in."""

    parts: list[Part]
    present: bytes
    start: int
    merged: bytes | None = None
    clash: Clash | None = None
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
) -> Joined:
    """Join the parts, all segments in order, with the `present` source.

    Where the source is what was split, they are joined end to end. Else each edited one is merged into its region of
    the source, found by what differs; neighbours between which the source has changed are merged as one. The merge
    of the whole text is asked too: where it says otherwise the result is open, and that is a clash. With `last_word`
    the segments win where they clash.
    """
    base, wanted = b"".join(part.before for part in parts), b"".join(part.after for part in parts)
    edited = [part.file for part in parts if part.before != part.after]
    if present == base:
        return Joined(wanted, dict.fromkeys(edited, "applied"))
    if present == wanted:
        return Joined(present, dict.fromkeys(edited, "already"))
    form = Form(base, present)
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
        return Joined(None, how, tuple(clashes))
    data = form.back(b"".join(group.merged or b"" for group in groups))
    kept = form.back(b"".join(group.kept for group in groups)) if clashes else None
    return Joined(data, how, tuple(clashes), kept)


def _groups(parts: Sequence[Part], present: bytes, differing: Differing) -> list[_Group]:
    """The parts in groups, between which the source has a boundary too, and the present text of each."""
    cuts, at = [], 0
    for number, part in enumerate(parts[:-1]):
        at += len(part.before)
        end = touched(part.before, part.after, differing, at_end=True)
        following = parts[number + 1]
        start = touched(following.before, following.after, differing, at_end=False)
        cuts.append((at, end | start))
    places = carried(b"".join(part.before for part in parts), present, cuts, differing)
    groups, first, begin, line = [], 0, 0, 1
    for number, place in enumerate([*places, len(present)], 1):
        if place is not None:
            groups.append(_Group(list(parts[first:number]), present[begin:place], line))
            line += present.count(b"\n", begin, place)
            first, begin = number, place
    return groups


def _merge(group: _Group, merge: Merge, differing: Differing, last_word: bool) -> How:
    """Merge the group; how that went."""
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
    """Whether all that `after` changes is in the present text as it is, and what else was changed there is apart."""
    old, new, now = lines_of(before), lines_of(after), lines_of(present)
    edits = zones(new, old, [(j1, j2, i1, i2) for i1, i2, j1, j2 in differing(old, new)])
    others = zones(new, now, differing(new, now))
    return all(_are_apart(edit, other) for edit in edits for other in others)


def _are_apart(edit: Zone, other: Zone) -> bool:
    """Whether a line is between them; or none, where the other change is of as many lines as before."""
    if other.steady and edit.low < edit.high:
        return other.high <= edit.low or other.low >= edit.high
    return other.high < edit.low or other.low > edit.high


def _clash(group: _Group, differing: Differing) -> tuple[Clash, bytes]:
    """What clashes, and the present text without its changes there."""
    old, now = lines_of(group.before), lines_of(group.present)
    ours, theirs = differing(old, lines_of(group.after)), differing(old, now)
    places: list[Place] = []
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
    return Clash(tuple(group.edited), tuple(places)), b"".join(kept)


def _place(group: _Group, first: int, end: int, source: tuple[int, int]) -> Place:
    """Lines of the joined group as lines of one of its files."""
    for part in group.parts:
        count = len(lines_of(part.after))
        if first < count or part is group.parts[-1]:
            return Place(part.file, (first + 1, min(end, count)), source)
        first, end = first - count, end - count
    raise ValueError("a group without segments")


def _second_opinion(
    parts: Sequence[Part], groups: Sequence[_Group], merge: Merge, differing: Differing, last_word: bool
) -> list[Clash]:
    """Clashes where git, given the whole text, merges without a conflict and yet to something else; and where it sees a
    conflict that may be more than two lines beside each other, one of each side."""
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
    return [Clash(tuple(group.edited)) for group in doubtful]


def _is_open(group: _Group, differing: Differing) -> bool:
    """Whether lines are put in or taken out at one of its ends: what is beyond might be the same edit, made before."""
    ends = [touched(group.before, group.after, differing, at_end=at_end) for at_end in (False, True)]
    return any(end.lines and not end.steady for end in ends)


BINARY = "binary"
_CONFLICT = re.compile(rb"^(<<<<<<<|>>>>>>>|\|\|\|\|\|\|\|) .*", re.MULTILINE)


@dataclass(frozen=True)
class SourceFacts:
    """The encoding of a source ("utf-8", "latin-1" for others of one byte a character, "binary"), and its line
    endings."""

    encoding: str
    endings: frozenset[bytes]


@dataclass(frozen=True)
class Saved:
    """The bytes that count for a segment file, and in sentences what was put right to get them."""

    data: bytes
    notes: tuple[str, ...] = ()


def source_facts(base: bytes, encoding: str) -> SourceFacts:
    """What is to be known of the source as it was split, which the index says is in `encoding`."""
    if encoding == BINARY:
        return SourceFacts(BINARY, frozenset())
    return SourceFacts(encoding_of(base), frozenset(endings(base)))


def taken_over(file: str, before: bytes, after: bytes, facts: SourceFacts, *, last: bool = False) -> Saved:
    """The segment `file`, which was the bytes `before` and holds `after` by now, in the form of the source.

    Byte-order mark, line endings and the end are those of `before`, the end of the `last` one less strictly; what was
    put right is said. Raises Refused where that can't be told, for another encoding, and for a merge that nobody has
    finished.
    """
    if after == before or facts.encoding == BINARY:
        return Saved(after)
    if not after:  # what says how the rest is encoded stays
        return Saved(UTF8_MARK if before.startswith(UTF8_MARK) else b"")
    new, notes = with_own_encoding(file, before, after, facts.encoding)
    _refuse_conflict(file, before, new)
    new, more = with_own_endings(file, before, new, set(facts.endings))
    notes += more
    new, more = with_own_end(file, before, new, last=last)
    return Saved(new, notes + more)


def _refuse_conflict(file: str, before: bytes, after: bytes) -> None:
    known = {match[0] for match in _CONFLICT.finditer(before)}
    for match in _CONFLICT.finditer(after):
        if match[0].rstrip(b"\r") not in known and match[0] not in known:
            line = after.count(b"\n", 0, match.start()) + 1
            raise Refused(
                f"{file} has conflict markers (line {line}): finish that merge in it, and join again"
            )
