"""Code that was written at another depth than where it belongs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence


def reindented(lines: Sequence[str], old: Sequence[str]) -> list[str]:
    """`lines`, which come in place of `old`, at the indentation of those.

    Two slips are mended: all lines are shifted by the same (a method at column 0), or the first alone is. The lines
    that both have show it; where they do not agree, the text stays as it is and the parser judges.
    """
    pairs = _pairs(lines, old)
    own, wanted = _indent(lines[0]), _indent(old[0])
    if own == wanted and (not pairs or all(h == f for h, f in pairs)):
        return list(lines)
    rest = {pair for pair in pairs if pair != (own, wanted)}
    if own != wanted and (all(h == f for h, f in rest) if rest else _only_first(lines, old)):
        return [wanted + lines[0].lstrip(), *lines[1:]]
    shifts = {_shift(h, f) for h, f in rest or {(own, wanted)}}
    if len(shifts) != 1 or (shift := shifts.pop()) is None:
        return list(lines)
    more, less = shift
    if any(line.strip() and not line.startswith(less) for line in lines):
        return list(lines)
    return [more + line.removeprefix(less) if line.strip() else line for line in lines]


def _pairs(lines: Sequence[str], old: Sequence[str]) -> set[tuple[str, str]]:
    """(indentation as written, as it was) of the lines that both have exactly once."""
    new_counts, old_counts = Counter(map(str.strip, lines)), Counter(map(str.strip, old))
    was = {line.strip(): _indent(line) for line in old}
    return {
        (_indent(line), was[text])
        for line in lines
        if (text := line.strip()) and len(text) > 2 and new_counts[text] == 1 and old_counts[text] == 1
    }


def _shift(written: str, wanted: str) -> tuple[str, str] | None:
    """What has to be put before each line, and what taken from it; None for tabs against spaces."""
    if wanted.endswith(written):
        return wanted[: len(wanted) - len(written)], ""
    return ("", written[: len(written) - len(wanted)]) if written.endswith(wanted) else None


def _only_first(lines: Sequence[str], old: Sequence[str]) -> bool:
    """Whether, with no line in common, the second line stands as deep as that of the old text."""
    second = [next((_indent(line) for line in some[1:] if line.strip()), None) for some in (lines, old)]
    return second[0] is not None and second[0] == second[1]


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]
