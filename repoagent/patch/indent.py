"""A hunk written at another indentation than the file's: what its added lines must look like there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from repoagent.patch.fit import Fit
from repoagent.patch.hunk import ADD, DELETE, Hunk
from repoagent.patch.match import EXACT, LEVELS, WHITESPACE, indent_of, is_blank
from repoagent.patch.problems import Misfit

Pair = tuple[str, str]
Table = tuple[tuple[str, str], ...]
Shift = Callable[[str], str | None]
_UNITS = (2, 3, 4, 8)


def rebased(fit: Fit, lines: Sequence[str], others: Sequence[Fit] = ()) -> Hunk:
    """The fit's hunk with its added lines at the file's indentation. `others` are the fits of all hunks of
    the file.

    The lines that hunk and file have in common show how the hunk's indentation (`h`) becomes the file's
    (`f`): not at all, by a constant prefix more or less, or from spaces to tabs and back. Raises Misfit
    ("indentation") when the lines disagree or leave a choice.
    """
    hunk = fit.hunk
    if fit.level == EXACT and hunk.exact_counts:
        return hunk
    every = _pairs(fit, lines, {" ", DELETE})
    added = {indent_of(line.text) for line in hunk.added if not is_blank(line.text)}
    if not any(h or f for h, f in every) and any(added):
        every |= _elsewhere(others, added, lines, hunk.number)
    if all(h == f for h, f in every) or not added:
        return hunk
    own = _pairs(fit, lines, {DELETE})
    outcomes: set[Table] = set()
    for pairs in (every, own):
        outcomes = _outcomes(pairs, added) if pairs else set()
        if outcomes:
            break
    if not own and _forgotten_space(every):
        outcomes |= {tuple((indent, indent) for indent in sorted(added))}
        outcomes = _likelier(outcomes, {indent_of(line) for line in lines})
    if len(outcomes) != 1:
        raise _unclear(hunk.number)
    table = dict(outcomes.pop())
    return replace(
        hunk,
        lines=tuple(
            replace(line, text=table[indent_of(line.text)] + line.text.lstrip())
            if line.kind == ADD and not is_blank(line.text)
            else line
            for line in hunk.lines
        ),
    )


def _pairs(fit: Fit, lines: Sequence[str], kinds: set[str]) -> set[Pair]:
    """(indentation in the hunk, in the file) of the lines of these kinds, alike but for white space."""
    same = LEVELS[WHITESPACE]
    return {
        (indent_of(line.text), indent_of(lines[row]))
        for line, row in zip(fit.hunk.old, fit.rows, strict=True)
        if row is not None
        and line.kind in kinds
        and not is_blank(line.text)
        and same(line.text) == same(lines[row])
    }


def _elsewhere(others: Sequence[Fit], added: set[str], lines: Sequence[str], hunk: int) -> set[Pair]:
    """What other hunks show about tabs and spaces, where this one's lines all stand at column 0.

    Raises Misfit when nothing shows it, and the added lines are indented by what the file never uses for
    that.
    """
    pairs = {pair for other in others for pair in _pairs(other, lines, {" ", DELETE})}
    used = {char for line in lines if not is_blank(line) for char in indent_of(line)[:1]}
    foreign = {indent[0] for indent in added if indent} - used
    if not used or not foreign:
        return set()
    if all(h == f for h, f in pairs):
        raise _unclear(hunk)
    return pairs


def _unclear(hunk: int) -> Misfit:
    return Misfit(
        "indentation",
        "the hunk is indented unlike the file, and it can't be told how its added lines should be. Send it "
        "with each line's white space exactly as in the file.",
        hunk,
    )


def _outcomes(pairs: set[Pair], added: Iterable[str]) -> set[Table]:
    """The tables (indentation -> new indentation) of all shifts that explain every pair and know every added
    line.

    The plainest kind of shift that explains anything decides.
    """
    for shifts in _kinds(pairs):
        found = set()
        for shift in shifts:
            table = [(indent, shift(indent)) for indent in sorted(added)]
            known = tuple((indent, new) for indent, new in table if new is not None)
            if len(known) == len(table) and all(shift(h) == f for h, f in pairs):
                found.add(known)
        if found:
            return found
    return set()


def _kinds(pairs: set[Pair]) -> Iterable[list[Shift]]:
    """Kinds of shift, plainest first: none, a constant prefix, another unit, another unit and depth."""
    h, f = max(pairs)
    yield [str]
    more, less = f.removesuffix(h), h.removesuffix(f)
    yield [lambda indent: more + indent] if f.endswith(h) else []
    yield (
        [lambda indent: indent.removeprefix(less) if indent.startswith(less) else None]
        if h.endswith(f)
        else []
    )
    yield [shift for unit in _UNITS for shift in (_to_tabs(unit, 0), _to_spaces(unit, 0))]
    yield [
        shift
        for unit in _UNITS
        for shift in (
            _to_tabs(unit, f.count("\t") - len(h) // unit),
            _to_spaces(unit, len(f) // unit - h.count("\t")),
        )
    ]


def _to_tabs(unit: int, offset: int) -> Shift:
    def shift(indent: str) -> str | None:
        depth = len(indent) // unit + offset
        return "\t" * depth if not indent.strip(" ") and len(indent) % unit == 0 and depth >= 0 else None

    return shift


def _to_spaces(unit: int, offset: int) -> Shift:
    def shift(indent: str) -> str | None:
        depth = len(indent) + offset
        return " " * (unit * depth) if not indent.strip("\t") and depth >= 0 else None

    return shift


def _forgotten_space(pairs: set[Pair]) -> bool:
    """Are all context lines one space short? Then they may have lost their first column, not their depth."""
    return all(f == f" {h}" for h, f in pairs)


def _likelier(outcomes: set[Table], present: set[str]) -> set[Table]:
    """The outcomes whose indentations the file knows."""
    return {outcome for outcome in outcomes if all(new in present for _, new in outcome)}
