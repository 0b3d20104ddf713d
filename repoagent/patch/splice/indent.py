"""A hunk written at another indentation than the file's: what its added lines must look like there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

from repoagent.patch.hunk import ADD, CONTEXT, DELETE, Hunk, Line
from repoagent.patch.locate.fit import Fit
from repoagent.patch.locate.match import EXACT, LEVELS, WHITESPACE, indent_of, is_blank
from repoagent.patch.problems import Misfit

Pair = tuple[str, str]
Table = dict[str, str]
Shift = Callable[[str], "str | None"]
_UNITS = (2, 3, 4, 8)


def rebased(fit: Fit, lines: Sequence[str], others: Sequence[Fit] = ()) -> Hunk:
    """The fit's hunk with its added lines at the file's indentation. `others` are the fits of all hunks of
    the file.

    The lines that hunk and file have in common show how the hunk's indentation (`h`) becomes the file's
    (`f`): not at all, by a constant prefix more or less, by another number of spaces for each step, or from
    spaces to tabs and back. Raises Misfit ("indentation") when the lines disagree or leave a choice.
    """
    hunk = fit.hunk
    held = _pairs(fit, lines, lambda line: line.held)
    added = {indent_of(line.text) for line in hunk.added if not is_blank(line.text)} | {h for h, _ in held}
    if not added or (fit.level == EXACT and hunk.exact_counts):
        return hunk
    context, deleted = _pairs(fit, lines, _is_context), _pairs(fit, lines, _is_deleted)
    every = context | deleted
    elsewhere = {
        pair for other in others for kind in (_is_context, _is_deleted) for pair in _pairs(other, lines, kind)
    }
    file = _File.of(lines, elsewhere)
    if not any(h or f for h, f in every) and any(added):
        if not _foreign(added, file):
            return hunk
        if all(h == f for h, f in elsewhere):
            raise _unclear(hunk.number)
        every |= elsewhere
    if all(h == f for h, f in every) or _some_forgotten_spaces(context, deleted):
        return hunk  # nothing is held elsewhere then: what is held counts as deleted
    table = _table(every, added, file)
    if table is None and any(f and not h for h, f in deleted):
        table = _beside_flush(every, added, _goes_with_flush(fit, lines), file)
    elif table is None and any(h and f for h, f in deleted):
        table = _table(deleted, added, file)
    if not deleted and _forgotten_space(every):
        kept = {indent: indent for indent in added}
        choices = [some for some in (table, kept) if some and all(new in file.known for new in some.values())]
        table = choices[0] if len(choices) == 1 or (choices and choices[0] == kept) else None
    if table is None or any(table[h] != f for h, f in held):
        raise _unclear(hunk.number)
    return replace(
        hunk,
        lines=tuple(
            replace(line, text=_moved(line.text, table)) if line.kind == ADD else line for line in hunk.lines
        ),
    )


@dataclass(frozen=True)
class _File:
    """How a file is indented: the indentations of its lines, the spaces that most of its steps have, and what all
    hunks of the file show together."""

    known: frozenset[str]
    unit: int
    pairs: frozenset[Pair]

    @staticmethod
    def of(lines: Sequence[str], pairs: Iterable[Pair]) -> _File:
        indents = [indent_of(line) for line in lines if not is_blank(line)]
        steps = Counter(len(two) - len(one) for one, two in pairwise(indents) if len(two) > len(one))
        unit = max(steps, key=lambda step: (steps[step], step), default=1)
        return _File(frozenset(indents), unit, frozenset(pairs))

    def in_step(self, indent: str) -> bool:
        """Could a line of this file stand so deep?"""
        if indent in self.known:
            return True
        if "\t" in indent:
            return any(other.startswith("\t") for other in self.known)
        return len(indent) % self.unit == 0


def _is_context(line: Line) -> bool:
    return line.kind == CONTEXT and not line.held


def _is_deleted(line: Line) -> bool:
    return line.kind == DELETE or line.held


def _pairs(fit: Fit, lines: Sequence[str], kind: Callable[[Line], bool]) -> set[Pair]:
    """(indentation in the hunk, in the file) of the old lines of this kind, alike but for white space."""
    same = LEVELS[WHITESPACE]
    return {
        (indent_of(line.text), indent_of(lines[row]))
        for line, row in zip(fit.hunk.old, fit.rows, strict=True)
        if row is not None and kind(line) and not is_blank(line.text) and same(line.text) == same(lines[row])
    }


def _foreign(added: set[str], file: _File) -> bool:
    """Are lines indented by a character that the file, which indents, never uses for that?"""
    used = {indent[0] for indent in file.known if indent}
    return bool(used) and bool({indent[0] for indent in added if indent} - used)


def _unclear(hunk: int) -> Misfit:
    return Misfit(
        "indentation",
        "the hunk is indented unlike the file, and it can't be told how its added lines should be. Send it "
        "with each line's white space exactly as in the file.",
        hunk,
    )


def _moved(text: str, table: Mapping[str, str]) -> str:
    """A line at its new indentation; one of white space alone only where lines with text stand as deep."""
    indent = text if is_blank(text) else indent_of(text)
    return text if not text else table.get(indent, indent) + text[len(indent) :]


def _table(pairs: set[Pair], added: set[str], file: _File) -> Table | None:
    """The new indentation of each added one, by the plainest shift that explains every pair; None when there is
    none, or two that are as plain. What is out of step with the file is taken only when nothing else is there;
    of shifts that could be meant the one that explains the other hunks too."""
    shown = dict(pairs)
    if len(shown) == len(pairs) and added <= shown.keys():
        return {indent: shown[indent] for indent in added}
    found: list[tuple[int, Table]] = []
    for rank, shifts in enumerate(_kinds(pairs)):
        for shift in shifts:
            table = {indent: new for indent in added if (new := shift(indent)) is not None}
            if len(table) == len(added) and all(shift(h) == f for h, f in pairs):
                beyond = any(shift(h) != f for h, f in file.pairs)
                found.append(((2 * _strays(table, file) + beyond) * 10 + rank, table))
    best = min((score for score, _ in found), default=0)
    tables = [table for score, table in found if score == best]
    if not tables or best >= 20 or any(table != tables[0] for table in tables):
        return None
    return tables[0]


def _strays(table: Table, file: _File) -> bool:
    return any(
        not file.in_step(new) and file.in_step(indent) for indent, new in table.items() if new != indent
    )


def _beside_flush(pairs: set[Pair], added: set[str], with_flush: set[str], file: _File) -> Table | None:
    """Where deleted lines came without any indentation the others tell. Where all that is added beside those came
    without it too, it goes to where they are in the file (`with_flush`), if nothing else begins there."""
    rest = {(h, f) for h, f in pairs if h or not f}
    if not rest:
        return None
    if with_flush == {""} or "" not in added:
        return _table(rest | {("", "")} if "" in added else rest, added, file)
    if len(with_flush) != 1 or ("", "") in rest:
        return None
    table = _table(rest, added - {""}, file)
    return None if table is None else {**table, "": next(iter(with_flush))}


def _goes_with_flush(fit: Fit, lines: Sequence[str]) -> set[str]:
    """Where in the file the deleted lines begin that came without indentation, in runs of changes of which all that
    is added came without it too; "" for lines without it that are added in other runs, or beside indented ones."""
    rows = iter(fit.rows)
    found: set[str] = set()
    for context, run in groupby(fit.hunk.lines, key=lambda line: line.kind == CONTEXT):
        there: set[str] = set()
        added: set[str] = set()
        for line in run:
            row = next(rows) if line.kind != ADD else None
            if context or is_blank(line.text):
                continue
            if line.kind == ADD:
                added.add(indent_of(line.text))
            elif row is not None and not indent_of(line.text):
                there.add(indent_of(lines[row]))
        if "" in added:
            found |= (there - {""} or {""}) if added == {""} else {""}
    return found


def _kinds(pairs: set[Pair]) -> Iterator[list[Shift]]:
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
    yield [
        *(shift for unit in _UNITS for shift in (_to_tabs(unit, 0), _to_spaces(unit, 0))),
        *(_rescaled(unit, other, 0) for unit in _UNITS for other in _UNITS if unit != other),
    ]
    yield [
        *(
            shift
            for unit in _UNITS
            for shift in (
                _to_tabs(unit, f.count("\t") - len(h) // unit),
                _to_spaces(unit, len(f) // unit - h.count("\t")),
            )
        ),
        *(
            _rescaled(unit, other, len(f) // other - len(h) // unit)
            for unit in _UNITS
            for other in _UNITS
            if unit != other
        ),
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


def _rescaled(unit: int, other: int, offset: int) -> Shift:
    """Steps of `unit` spaces in the hunk are steps of `other` in the file."""

    def shift(indent: str) -> str | None:
        depth = len(indent) // unit + offset
        return (
            " " * (other * depth)
            if not indent.strip(" ") and len(indent) % unit == 0 and depth >= 0
            else None
        )

    return shift


def _some_forgotten_spaces(context: set[Pair], deleted: set[Pair]) -> bool:
    """Are some lines of context one space short, and all others of the hunk where they are in the file?"""
    others = {pair for pair in context if not _forgotten_space({pair})} | deleted
    return any(h or f for h, f in others) and all(h == f for h, f in others)


def _forgotten_space(pairs: set[Pair]) -> bool:
    """Are all context lines one space short? Then they may have lost their first column, not their depth."""
    return all(f == f" {h}" for h, f in pairs)
