"""Placed hunks -> the lines of the file that change, spliced in; every other byte stays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from repoagent.dataclass import dataclass
from repoagent.patch.locate.fit import Fit
from repoagent.patch.locate.match import EXACT
from repoagent.patch.problems import Misfit
from repoagent.patch.splice.carry import carried
from repoagent.patch.splice.indent import rebased
from repoagent.patch.text import Text


@dataclass(frozen=True)
class Splice:
    """Lines `start:end` of the file become `lines`. `endings` is given where the hunk itself decides them."""

    start: int
    end: int
    lines: tuple[str, ...]
    hunk: int = 0
    endings: tuple[str, ...] | None = None


def splices(fit: Fit, text: Text, others: Sequence[Fit] = ()) -> list[Splice]:
    """The splices of a placed hunk, in order; `others` are all of the file. Raises Misfit (indentation)."""
    if fit.level != EXACT:
        fit = replace(fit, hunk=carried(fit, text.lines))
    fit = replace(fit, hunk=rebased(fit, text.lines, others))
    explicit = _tells_endings(fit, text)
    result: list[Splice] = []
    for change in fit.changes():
        endings = tuple("\r\n" if line.cr else "\n" for line in change.added) if explicit else None
        added = tuple(line.text for line in change.added)
        result.append(Splice(change.start, change.end, added, fit.hunk.number, endings))
    return result


def _tells_endings(fit: Fit, text: Text) -> bool:
    """Does the hunk hold carriage returns, and are they where the file has them? Then they are meant."""
    if not any(line.cr for line in fit.hunk.lines):
        return False
    pairs = zip(fit.hunk.old, fit.rows, strict=True)
    return all(row is not None and line.cr == (text.endings[row] == "\r\n") for line, row in pairs)


def merged(parts: Iterable[Splice]) -> list[Splice]:
    """All splices of a file in order, a repeated one once. Raises Misfit when two touch the same lines."""
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


def overlap(one: int, other: int, row: int) -> Misfit:
    """Two hunks that change the same lines."""
    return Misfit(
        "overlap",
        f"hunks {one} and {other} both change the file around line {row + 1}. Send one hunk that holds both "
        "changes.",
        other,
    )


def spliced(text: Text, parts: Sequence[Splice], final_newline: bool | None = None) -> Text:
    """`text` with `parts` (from `merged`) put in. `final_newline` None keeps the state of the file's end."""
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


def end_of_file(fits: Iterable[Fit], text: Text) -> bool | None:
    """What the `\\ No newline` marks say of the file's new end; None when no hunk with one is there."""
    for fit in fits:
        marked = fit.hunk.old_marker or fit.hunk.new_marker
        if marked and (not text.lines or (fit.rows and fit.rows[-1] == len(text.lines) - 1)):
            return not fit.hunk.new_marker
    return None
