"""Splice placed hunks and whole-file answers into a file; every other byte stays.

An added line that continues a deleted one keeps the file's tabs, spaces, quotes and dashes where the hunk wrote them
differently."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from difflib import SequenceMatcher

from repoagent.dataclass import dataclass
from repoagent.patch.errors import PatchError
from repoagent.patch.indentation import rebased
from repoagent.patch.locate.exact import EXACT, LEVELS, PUNCTUATION, Match, is_blank
from repoagent.patch.model import ADD, CONTEXT, DELETE, Hunk, Line, Text, split_lines
from repoagent.patch.render import differing
from repoagent.patch.verify import check_left_out, check_whole

_ALIKE = 0.5


@dataclass(frozen=True)
class _Sign:
    """A character that is no white space: as it is compared, as it stands there, and the white space before."""

    key: str
    raw: str
    gap: str


def with_file_spelling(match: Match, lines: Sequence[str]) -> Hunk:
    """The match's hunk with each added line in the file's spelling, as far as a deleted line shows it."""
    hunk = match.hunk
    rows = iter(match.rows)
    result: list[Line] = []
    gone: list[tuple[str, str]] = []  # deleted lines of this run of changes: in the hunk, in the file
    for line in hunk.lines:
        row = next(rows) if line.kind != ADD else None
        if line.kind == CONTEXT:
            gone = []
        elif line.kind == DELETE and row is not None:
            gone.append((line.text, lines[row]))
        elif line.kind == ADD and not is_blank(line.text):
            line = replace(line, text=_like(line.text, gone))
        result.append(line)
    return replace(hunk, lines=tuple(result))


def _like(added: str, gone: Sequence[tuple[str, str]]) -> str:
    """`added` with the spelling of the line that it comes from, if that was written otherwise in the hunk."""
    if all(written.strip() == there.strip() for written, there in gone):
        return added
    ranked = [
        (SequenceMatcher(None, written, added, autojunk=False).ratio(), -number)
        for number, (written, _) in enumerate(gone)
    ]
    ratio, number = max(ranked)
    written, there = gone[-number]
    if ratio < _ALIKE or written.strip() == there.strip():
        return added
    old, file, new = _signs(written), _signs(there), _signs(added)
    if [sign.key for sign in old] != [sign.key for sign in file]:
        return added
    matcher = SequenceMatcher(None, [sign.key for sign in old], [sign.key for sign in new], autojunk=False)
    for first, second, length in matcher.get_matching_blocks():
        for offset in range(length + bool(length)):  # the white space after the last one too
            i, j = first + offset, second + offset
            if i == len(old) or j == len(new):
                break
            if offset < length and new[j].raw == old[i].raw:
                new[j] = replace(new[j], raw=file[i].raw)
            if i and j and new[j].gap == old[i].gap:
                new[j] = replace(new[j], gap=file[i].gap)
    text = "".join(sign.gap + sign.raw for sign in new)
    return text + added[len(added.rstrip()) :]


def _signs(text: str) -> list[_Sign]:
    signs: list[_Sign] = []
    gap = ""
    for char in text.rstrip():
        key = LEVELS[PUNCTUATION](char)
        if not key:
            gap += char
            continue
        signs.append(_Sign(key[0], char, gap))
        signs += [_Sign(more, "", "") for more in key[1:]]
        gap = ""
    return signs


@dataclass(frozen=True)
class Splice:
    """Lines `start:end` of the file become `lines`. `endings` is set if the hunk decides them."""

    start: int
    end: int
    lines: tuple[str, ...]
    hunk: int = 0
    endings: tuple[str, ...] | None = None


def splices(match: Match, text: Text, others: Sequence[Match] = ()) -> list[Splice]:
    """The splices of a placed hunk, in order; `others` are all matches of the file. Raises PatchError
    ("indentation")."""
    if match.level != EXACT:
        match = replace(match, hunk=with_file_spelling(match, text.lines))
    match = replace(match, hunk=rebased(match, text.lines, others))
    explicit = _tells_endings(match, text)
    result: list[Splice] = []
    for change in match.changes():
        endings = tuple("\r\n" if line.cr else "\n" for line in change.added) if explicit else None
        added = tuple(line.text for line in change.added)
        result.append(Splice(change.start, change.end, added, match.hunk.number, endings))
    return result


def _tells_endings(match: Match, text: Text) -> bool:
    """Does the hunk hold carriage returns, and are they where the file has them? Then they are meant."""
    if not any(line.cr for line in match.hunk.lines):
        return False
    pairs = zip(match.hunk.old, match.rows, strict=True)
    return all(row is not None and line.cr == (text.endings[row] == "\r\n") for line, row in pairs)


def merged(parts: Iterable[Splice]) -> list[Splice]:
    """All splices of a file in order, repeated ones once. Raises PatchError if two touch the same lines."""
    ordered = sorted(parts, key=lambda part: (part.start, part.end))
    result: list[Splice] = []
    for part in ordered:
        last = result[-1] if result else None
        if last is not None and (last.start, last.end, last.lines) == (part.start, part.end, part.lines):
            continue
        same_gap = last is not None and last.start == last.end == part.start == part.end
        if last is not None and (part.start < last.end or same_gap):
            raise overlap(last.hunk, part.hunk, part.start)
        result.append(part)
    return result


def overlap(one: int, other: int, row: int) -> PatchError:
    """The error for two hunks that change the same lines."""
    return PatchError(
        "overlap",
        f"hunks {one} and {other} both change the file around line {row + 1}. Send one hunk with both "
        "changes.",
        other,
    )


def spliced(text: Text, parts: Sequence[Splice], final_newline: bool | None = None) -> Text:
    """`text` with `parts` (from `merged`) applied. `final_newline` None keeps the newline at the end as it is."""
    lines: list[str] = []
    endings: list[str] = []
    at = 0
    for part in parts:
        lines += text.lines[at : part.start]
        endings += text.endings[at : part.start]
        lines += part.lines
        endings += part.endings if part.endings is not None else _endings(text, part)
        at = part.end
    lines += text.lines[at:]
    endings += text.endings[at:]
    wanted = text.final_newline if final_newline is None else final_newline
    return replace(text, lines=tuple(lines), endings=tuple(_closed(endings, wanted)))


def _endings(text: Text, part: Splice) -> list[str]:
    """Added lines end like those they replace, further ones like the last of these, or like a neighbour."""
    replaced = list(text.endings[part.start : part.end])
    if not replaced:
        neighbours = [*text.endings[part.start - 1 : part.start], *text.endings[part.start : part.start + 1]]
        replaced = neighbours[:1]
    replaced = [ending or _ending_before(text, part.end) for ending in replaced] or ["\n"]
    return [replaced[min(number, len(replaced) - 1)] for number in range(len(part.lines))]


def _ending_before(text: Text, row: int) -> str:
    return next((ending for ending in reversed(text.endings[:row]) if ending), "\n")


def _closed(endings: list[str], final_newline: bool) -> list[str]:
    """Only the last line may lack its ending."""
    known = "\n"
    for number, ending in enumerate(endings):
        if ending:
            known = ending
        elif number < len(endings) - 1 or final_newline:
            endings[number] = known
    if endings and not final_newline:
        endings[-1] = ""
    return endings


def end_of_file(matches: Iterable[Match], text: Text) -> bool | None:
    r"""What the `\ No newline` marks say about the new end of the file; None without such a mark."""
    for match in matches:
        marked = match.hunk.old_marker or match.hunk.new_marker
        if marked and (not text.lines or (match.rows and match.rows[-1] == len(text.lines) - 1)):
            return not match.hunk.new_marker
    return None


def whole_splices(whole: str, text: Text, rows: tuple[int, int] | None = None) -> list[Splice]:
    """The lines that differ between a file (or its `rows`) and their new text; equal ones keep their bytes.

    Raises PatchError.
    """
    new, _ = split_lines(whole.removeprefix("\ufeff"))
    first, last = rows or (0, len(text.lines))
    old = text.lines[first:last]
    if rows is None:
        check_whole(old, new)
    if old and not new:
        raise PatchError(
            "empties-file",
            "the answer contains an empty file. To delete the file, send a diff that deletes it.",
        )
    changes = differing(old, new)
    for i1, i2, j1, j2 in changes:
        check_left_out(old[i1:i2], new[j1:j2])
    return [Splice(first + i1, first + i2, tuple(new[j1:j2])) for i1, i2, j1, j2 in changes]


def looks_whole(whole: str, lines: Sequence[str]) -> bool:
    """Whether a nameless fence can be the whole file: it has the first, the last, and most other lines."""
    present = [line.strip() for line in lines if not is_blank(line)]
    offered = [line.strip() for line in whole.split("\n") if not is_blank(line)]
    if not present or not offered:
        return False
    kept = sum((Counter(present) & Counter(offered)).values())
    return present[0] in offered and present[-1] in offered and 10 * kept >= 6 * len(present)


def check_said_whole(whole: str, text: Text) -> None:
    """Raises PatchError if a text that only the prose calls the whole file keeps too little of it, or lacks its
    first or last lines."""
    new, _ = split_lines(whole.removeprefix("\ufeff"))
    old = text.lines
    kept = sum((Counter(map(str.strip, old)) & Counter(map(str.strip, new))).values())
    cut = [
        (i1, i2)
        for i1, i2, j1, j2 in differing(old, new)
        if (i1 == 0 or i2 == len(old)) and 2 * (j2 - j1) < sum(not is_blank(line) for line in old[i1:i2])
    ]
    if old and (10 * kept < 6 * len(old) or cut):
        what = (
            f"lines {cut[0][0] + 1} to {cut[0][1]} are missing"
            if cut
            else f"it keeps {kept} of {len(old)} lines"
        )
        raise PatchError(
            "empties-file",
            f"the text calls this the whole file, but {what}. If that is intended, write the file's name alone on the "
            "line before the fence, or send a unified diff.",
        )
