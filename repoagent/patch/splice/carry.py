"""An added line that takes up a deleted one keeps what the file has of it, where the hunk wrote that otherwise:
tabs, several spaces, quotes, dashes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from difflib import SequenceMatcher

from repoagent.dataclass import dataclass
from repoagent.patch.hunk import ADD, CONTEXT, DELETE, Hunk, Line
from repoagent.patch.locate.fit import Fit
from repoagent.patch.locate.match import LEVELS, PUNCTUATION, is_blank

_ALIKE = 0.5


@dataclass(frozen=True)
class _Sign:
    """A character that is no white space: as it is compared, as it stands there, and the white space before."""

    key: str
    raw: str
    gap: str


def carried(fit: Fit, lines: Sequence[str]) -> Hunk:
    """The fit's hunk with each added line as the file would have it, as far as a deleted line shows that."""
    hunk = fit.hunk
    rows = iter(fit.rows)
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
