"""Hunks whose indentation differs from the file: find the shift that explains it, and apply it to the added lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import groupby, pairwise

from repoagent.dataclass import dataclass
from repoagent.patch.errors import PatchError
from repoagent.patch.locate.exact import EXACT, LEVELS, WHITESPACE, Match, indent_of, is_blank, weight
from repoagent.patch.model import ADD, CONTEXT, DELETE, Hunk, Line

Pair = tuple[str, str]  # the indentation of a line in the hunk, and in the file
Table = dict[str, str]


def some_forgotten_spaces(context: set[Pair], deleted: set[Pair], *, shown: bool) -> bool:
    """Are some lines of context one space short, and all others of the hunk where they are in the file? If these are
    all at column 0 a line must have `shown` that first columns are missing."""
    others = {pair for pair in context if not forgotten_space({pair})} | deleted
    return (shown or any(h or f for h, f in others)) and bool(others) and all(h == f for h, f in others)


def forgotten_space(pairs: set[Pair]) -> bool:
    """Are all context lines one space short? Then they may have lost their first column, not their depth."""
    return all(f == f" {h}" for h, f in pairs)


def with_or_without(
    table: Table | None, pairs: set[Pair], match: Match, lines: Sequence[str], known: Collection[str]
) -> Table | None:
    """Where quoted lines are one space short: what is added as it stands, or by `table` (None: a space more, as `pairs`
    have it)? That with which each added line begins at a known depth, with a word or sign that a quoted line begins
    with there, or else any line."""
    added = [line.text for line in match.hunk.added if not is_blank(line.text)]
    kept = {indent_of(text): indent_of(text) for text in added}
    more = table or {indent: f" {indent}" if indent or ("", " ") in pairs else "" for indent in kept}
    choices = [some for some in (more, kept) if all(new in known for new in some.values())]
    quoted = [lines[row] for row in match.rows if row is not None]
    for some_lines in (quoted, lines):
        begins = {(indent_of(line), *line.split(maxsplit=1)[:1]) for line in some_lines}
        so = [
            some
            for some in choices
            if all((some[indent_of(t)], t.split(maxsplit=1)[0]) in begins for t in added)
        ]
        if len(so) == 1:
            return so[0]
    return choices[0] if len(choices) == 1 or (choices and choices[0] == kept) else None


Shift = Callable[[str], "str | None"]
_UNITS = (2, 3, 4, 8)


def shifts(pairs: set[Pair]) -> Iterator[list[Shift]]:
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


_ALIKE = 0.6


def rebased(match: Match, lines: Sequence[str], others: Sequence[Match] = ()) -> Hunk:
    """the match's hunk with its added lines at the file's indentation. `others` are the fits of all hunks of
    the file.

    The lines that hunk and file have in common show how the hunk's indentation (`h`) becomes the file's
    (`f`): not at all, by a constant prefix more or less, by another number of spaces for each step, or from
    spaces to tabs and back. Raises PatchError ("indentation") when the lines disagree or leave a choice.
    """
    hunk = match.hunk
    new = {indent_of(line.text) for line in hunk.added if not is_blank(line.text)}
    gone = _pairs(match, lines, lambda line: line.kind == DELETE)
    rewritten = _pairs(match, lines, lambda line: line.rewritten)
    rewritten = set() if _tells_nothing(rewritten, gone, new) else rewritten
    added = new | {h for h, _ in rewritten}
    if not added or (match.level == EXACT and hunk.exact_counts):
        return hunk
    context, deleted = _pairs(match, lines, _is_context), gone | rewritten
    every = context | deleted
    if all(h == f for h, f in every) and (any(h for h, _ in every) or not any(added)):
        return hunk
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
    shown = any(line.bare and not is_blank(line.text) for line in hunk.lines)
    if all(h == f for h, f in every) or some_forgotten_spaces(context, deleted, shown=shown):
        return hunk  # rewritten context counts as deleted
    table = _table(every, added, file)
    if table is None and any(f and not h for h, f in deleted):
        table = _beside_flush(every, added, _goes_with_flush(match, lines), file)
    elif table is None and any(h and f for h, f in deleted):
        gone_to = {f for _, f in deleted}
        kept = any(h for h, _ in context) and all(h == f for h, f in context)
        if kept and added <= gone_to - {h for h, _ in deleted}:
            return hunk  # context and additions are where the file has them, deleted lines alone are not
        table = _table(deleted, added, file)
    if not deleted and forgotten_space(every - {("", "")}):
        table = with_or_without(table, every, match, lines, file.known)
    if table is None and _stands_as_written(match, lines, (context, deleted), added, file):
        return hunk
    if table is None or any(table[h] != f for h, f in rewritten):
        raise _unclear(hunk.number)
    return replace(
        hunk,
        lines=tuple(
            replace(line, text=_moved(line.text, table)) if line.kind == ADD else line for line in hunk.lines
        ),
    )


def _stands_as_written(
    match: Match, lines: Sequence[str], quoted: tuple[set[Pair], set[Pair]], added: set[str], file: _File
) -> bool:
    """Are the added lines indented as the file is there, where only some of the quoted lines are not?

    Exact deleted lines show it, unless a line is astray that begins as deep in the hunk as an added one: then some line
    must show that the hunk has kept its indentation, or each added line take up a deleted one. So do added lines with
    tabs, as the file has them there, where quoted ones came with spaces, and the other way round. Without deleted
    lines each addition must begin where a line next to it does in the file.
    """
    if _foreign(added, file) or not all(file.in_step(indent) for indent in added):
        return False
    telling = _pairs(match, lines, lambda line: weight(line.text) > 1)
    if any(h for h, _ in telling) and all(h == f for h, f in telling | quoted[1]):
        return True  # a bracket of the context was taken for another one
    every, deleted = quoted[0] | quoted[1], quoted[1]
    exact = {h for h, f in every if h == f}
    astray = {char for h, f in every if h != f for char in h}
    if astray and not astray & set("".join(added)):  # tabs in one, spaces in the other
        return added <= {f for h, f in every if f} | exact
    if deleted and all(h == f for h, f in deleted):
        if added & {h for h, f in every if h != f}:
            return (any(exact) and added <= {h for h, _ in deleted}) or _each_takes_up(match.hunk)
        return any(h for h, _ in deleted) or added <= exact | {f for _, f in every}
    return not deleted and not added & {h for h, f in every if h != f} and _as_beside(match, lines)


def _each_takes_up(hunk: Hunk) -> bool:
    """Is each added line one that comes for a deleted one like it, at the same depth?"""
    for context, run in groupby(hunk.lines, key=lambda line: line.kind == CONTEXT):
        some = [line for line in run if not is_blank(line.text)]
        gone = [line.text for line in some if line.kind == DELETE]
        come = [line.text for line in some if line.kind == ADD]
        if context or not come:
            continue
        if len(gone) != len(come) or any(
            indent_of(one) != indent_of(other)
            or SequenceMatcher(None, one, other, autojunk=False).ratio() < _ALIKE
            for one, other in zip(gone, come, strict=True)
        ):
            return False
    return True


def _as_beside(match: Match, lines: Sequence[str]) -> bool:
    """Does each added line begin where the nearest line of the file above or below it does?"""
    rows = dict(enumerate(match.rows))
    position = 0
    for line in match.hunk.lines:
        if line.kind != ADD:
            position += 1
            continue
        beside = [row for row in (rows.get(position - 1), rows.get(position)) if row is not None]
        there = {indent_of(lines[row]) for row in beside if not is_blank(lines[row])}
        if not is_blank(line.text) and indent_of(line.text) not in there:
            return False
    return True


@dataclass(frozen=True)
class _File:
    """How a file is indented: the indentations of its lines, the spaces that most of its steps have, and what all
    hunks of the file show together."""

    known: frozenset[str]
    unit: int
    pairs: frozenset[Pair]

    @staticmethod
    def of(lines: Sequence[str], pairs: Iterable[Pair]) -> _File:
        return _File(*_indents(tuple(lines)), frozenset(pairs))

    def in_step(self, indent: str) -> bool:
        """Could a line of this file stand so deep?"""
        if indent in self.known:
            return True
        if "\t" in indent:
            return any(other.startswith("\t") for other in self.known)
        return len(indent) % self.unit == 0


@lru_cache(maxsize=4)
def _indents(lines: tuple[str, ...]) -> tuple[frozenset[str], int]:
    """The indentations of a file's lines, and the spaces that most of its steps have."""
    indents = [indent_of(line) for line in lines if not is_blank(line)]
    steps = Counter(len(two) - len(one) for one, two in pairwise(indents) if len(two) > len(one))
    return frozenset(indents), max(steps, key=lambda step: (steps[step], step), default=1)


def _is_context(line: Line) -> bool:
    return line.kind == CONTEXT and not line.rewritten


def _is_deleted(line: Line) -> bool:
    return line.kind == DELETE or line.rewritten


def _pairs(match: Match, lines: Sequence[str], kind: Callable[[Line], bool]) -> set[Pair]:
    """(indentation in the hunk, in the file) of the old lines of this kind, alike but for white space."""
    same = LEVELS[WHITESPACE]
    return {
        (indent_of(line.text), indent_of(lines[row]))
        for line, row in zip(match.hunk.old, match.rows, strict=True)
        if row is not None and kind(line) and not is_blank(line.text) and same(line.text) == same(lines[row])
    }


def _foreign(added: set[str], file: _File) -> bool:
    """Are lines indented by a character that the file, which indents, never uses for that?"""
    used = {indent[0] for indent in file.known if indent}
    return bool(used) and bool({indent[0] for indent in added if indent} - used)


def _unclear(hunk: int) -> PatchError:
    return PatchError(
        "indentation",
        "the hunk is indented differently from the file, and the indentation of its added lines is ambiguous. Send it "
        "with the white space of each line exactly as in the file.",
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
    if len(shown) == len(pairs) and added <= shown.keys() and not _contrary(shown):
        return {indent: shown[indent] for indent in added}
    found: list[tuple[int, Table]] = []
    for rank, kind in enumerate(shifts(pairs)):
        for shift in kind:
            table = {indent: new for indent in added if (new := shift(indent)) is not None}
            if len(table) == len(added) and all(shift(h) == f for h, f in pairs):
                beyond = any(shift(h) != f for h, f in file.pairs)
                found.append(((2 * _strays(table, file) + beyond) * 10 + rank, table))
    best = min((score for score, _ in found), default=0)
    tables = [table for score, table in found if score == best]
    if not tables or best >= 20 or any(table != tables[0] for table in tables):
        return None
    return tables[0]


def _contrary(shown: Table) -> bool:
    """Are some lines where the file has them, and others not, or lines of two depths at one in the file?"""
    kept = any(indent and indent == new for indent, new in shown.items())
    moved = any(indent != new for indent, new in shown.items())
    return (kept and moved) or len({*shown.values()}) < len(shown)


def _strays(table: Table, file: _File) -> bool:
    if file.known <= {""}:
        return any(table.values())
    return any(
        not file.in_step(new) and file.in_step(indent) for indent, new in table.items() if new != indent
    )


def _beside_flush(pairs: set[Pair], added: set[str], with_flush: set[str], file: _File) -> Table | None:
    """Where deleted lines came without any indentation the others tell. Where all that is added next to those came
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


def _goes_with_flush(match: Match, lines: Sequence[str]) -> set[str]:
    """Where in the file the deleted lines begin that came without indentation, in runs of changes of which all that
    is added came without it too; "" for lines without it that are added in other runs, or next to indented ones."""
    rows = iter(match.rows)
    found: set[str] = set()
    for context, run in groupby(match.hunk.lines, key=lambda line: line.kind == CONTEXT):
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


def _tells_nothing(rewritten: set[Pair], gone: set[Pair], new: set[str]) -> bool:
    """Are deleted lines where the file has them, and lines that stay elsewhere, so deep as nothing new is?"""
    astray = {h for h, f in rewritten if h != f}
    unknown = new - {h for h, _ in gone}
    return bool(astray) and not astray & unknown and any(h for h, _ in gone) and all(h == f for h, f in gone)
