"""For hunks indented differently from the file: find the shift that explains it, and apply it to the added lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import groupby, pairwise

from repoagent.dataclass import dataclass
from repoagent.patch.errors import PatchError
from repoagent.patch.locate.exact import EXACT, LEVELS, WHITESPACE, Match, indent_of, is_blank
from repoagent.patch.model import ADD, CONTEXT, DELETE, Hunk, Line

Pair = tuple[str, str]  # the indentation of a line in the hunk (h), and in the file (f)
Table = dict[str, str]  # the new indentation for each indentation of added lines
Shift = Callable[[str], "str | None"]
_UNITS = (2, 3, 4, 8)


@dataclass(frozen=True)
class _File:
    """The indentation of a file: that of each line, the usual step in spaces, and the pairs of all hunks."""

    known: frozenset[str]
    unit: int
    pairs: frozenset[Pair]

    def in_step(self, indent: str) -> bool:
        """Whether a line of this file could have this indentation."""
        if indent in self.known:
            return True
        if "\t" in indent:
            return any(known.startswith("\t") for known in self.known)
        return len(indent) % self.unit == 0

    def never_uses(self, indents: set[str]) -> bool:
        """Whether lines are indented by a character that the file never uses for indentation, but it uses another."""
        used = {indent[0] for indent in self.known if indent}
        return bool(used) and bool({indent[0] for indent in indents if indent} - used)


@lru_cache(maxsize=4)
def _indents(lines: tuple[str, ...]) -> tuple[frozenset[str], int]:
    """The indentations of a file's lines, and its most frequent step in spaces."""
    indents = [indent_of(line) for line in lines if not is_blank(line)]
    steps = Counter(len(below) - len(above) for above, below in pairwise(indents) if len(below) > len(above))
    return frozenset(indents), max(steps, key=lambda step: (steps[step], step), default=1)


def _quoted(match: Match, lines: Sequence[str]) -> Iterator[tuple[Line, Pair]]:
    """The old lines of the hunk that equal their line of the file except for white space, with both indentations."""
    same = LEVELS[WHITESPACE]
    for line, row in zip(match.hunk.old, match.rows, strict=True):
        if row is not None and not is_blank(line.text) and same(line.text) == same(lines[row]):
            yield line, (indent_of(line.text), indent_of(lines[row]))


def rebase(match: Match, lines: Sequence[str], others: Sequence[Match] = ()) -> Hunk:
    """The match's hunk with the file's indentation in its added lines. `others` are all matches of the file.

    The common lines of hunk and file show how the indentation differs: not at all, by a constant prefix, by the number
    of spaces for each step, or by spaces instead of tabs. Raises PatchError ("indentation") if the lines contradict
    each other or are ambiguous.
    """
    hunk = match.hunk
    quoted = list(_quoted(match, lines))
    new = {indent_of(line.text) for line in hunk.added if not is_blank(line.text)}
    deleted = {pair for line, pair in quoted if line.kind == DELETE}
    rewritten = {pair for line, pair in quoted if line.rewritten}
    shifted = {h for h, f in rewritten if h != f}
    removed = {h for h, _ in deleted}
    if shifted and not shifted & (new - removed) and any(removed) and all(h == f for h, f in deleted):
        rewritten = (
            set()
        )  # deleted lines are where the file has them, and nothing new is as deep as the others
    added = new | {h for h, _ in rewritten}
    if not added or (match.level == EXACT and hunk.exact_counts):
        return hunk
    context = {pair for line, pair in quoted if line.kind == CONTEXT and not line.rewritten}
    deleted |= rewritten
    every = context | deleted
    if all(h == f for h, f in every) and (any(h for h, _ in every) or not any(added)):
        return hunk
    elsewhere = {pair for other in others for line, pair in _quoted(other, lines)}
    file = _File(*_indents(tuple(lines)), frozenset(elsewhere))
    if not any(h or f for h, f in every) and any(added):
        if not file.never_uses(added):
            return hunk
        if all(h == f for h, f in elsewhere):
            raise _unclear(hunk)
        every |= elsewhere
    if all(h == f for h, f in every):
        return hunk  # rewritten context counts as deleted
    # Some lines of context are one space short, and all others have the file's indentation. If these are all at column
    # 0, the hunk must contain a line without its first column.
    rest = {pair for pair in context if not _is_one_space_short({pair})} | deleted
    bare = any(line.bare and not is_blank(line.text) for line in hunk.lines)
    if rest and all(h == f for h, f in rest) and (bare or any(h for h, _ in rest)):
        return hunk
    table = _table(every, added, file)
    if table is None and any(f and not h for h, f in deleted):
        table = _table_for_flush_lines(match, lines, every, added, file)
    elif table is None and any(h and f for h, f in deleted):
        in_place = any(h for h, _ in context) and all(h == f for h, f in context)
        if in_place and added <= {f for _, f in deleted} - {h for h, _ in deleted}:
            return hunk  # context and additions have the file's indentation, only deleted lines do not
        table = _table(deleted, added, file)
    if not deleted and _is_one_space_short(every - {("", "")}):
        table = _with_or_without_space(table, every, match, lines, file)
    if table is None or any(table[h] != f for h, f in rewritten):
        raise _unclear(hunk)
    result = []
    for line in hunk.lines:
        if (
            line.kind == ADD and line.text
        ):  # a blank line moves only if lines with text have the same indentation
            indent = line.text if is_blank(line.text) else indent_of(line.text)
            line = replace(line, text=table.get(indent, indent) + line.text[len(indent) :])
        result.append(line)
    return replace(hunk, lines=tuple(result))


def _unclear(hunk: Hunk) -> PatchError:
    return PatchError(
        "indentation",
        "the hunk is indented differently from the file, and the indentation of its added lines is ambiguous. Send it "
        "with the white space of each line exactly as in the file.",
        hunk.number,
    )


def _is_one_space_short(pairs: set[Pair]) -> bool:
    """Whether all lines are one space short: they may have lost their first column and not their indentation."""
    return all(f == f" {h}" for h, f in pairs)


def _with_or_without_space(
    table: Table | None, pairs: set[Pair], match: Match, lines: Sequence[str], file: _File
) -> Table | None:
    """The table for a hunk whose quoted lines are one space short: no change, or `table` (None: one more space).

    Choose the option with which each added line begins at a known depth and with the first word of a quoted line of
    that depth, or if there is none, of any line.
    """
    added = [line.text for line in match.hunk.added if not is_blank(line.text)]
    same = {indent_of(text): indent_of(text) for text in added}
    shifted = table or {indent: f" {indent}" if indent or ("", " ") in pairs else "" for indent in same}
    choices = [option for option in (shifted, same) if all(new in file.known for new in option.values())]
    for some_lines in ([lines[row] for row in match.rows if row is not None], lines):
        begins = {(indent_of(line), *line.split(maxsplit=1)[:1]) for line in some_lines}
        fitting = [
            option
            for option in choices
            if all((option[indent_of(text)], text.split(maxsplit=1)[0]) in begins for text in added)
        ]
        if len(fitting) == 1:
            return fitting[0]
    return choices[0] if len(choices) == 1 or (choices and choices[0] == same) else None


def _depth(indent: str, step: str) -> int:
    return indent.count("\t") if step == "\t" else len(indent) // len(step)


def _scaled(old: str, new: str, offset: int) -> Shift:
    """The shift that replaces each step `old` of the hunk by a step `new` of the file."""

    def shift(indent: str) -> str | None:
        depth, rest = divmod(len(indent), len(old))
        return None if indent.strip(old[0]) or rest or depth + offset < 0 else new * (depth + offset)

    return shift


def _table(pairs: set[Pair], added: set[str], file: _File) -> Table | None:
    """The new indentation of each added line, by the simplest shift that explains every pair; None if there is none, or
    if two equally simple ones differ. Prefer a shift that also explains the other hunks, and avoid one that does not
    fit the steps of the file."""
    shown = dict(pairs)
    if len(shown) == len(pairs) and added <= shown.keys():
        some_stay = any(h and h == f for h, f in pairs) and any(h != f for h, f in pairs)
        if not some_stay and len(set(shown.values())) == len(shown):
            return {indent: shown[indent] for indent in added}
    options: list[tuple[int, Table]] = []
    h, f = max(pairs)
    more, less = f.removesuffix(h), h.removesuffix(f)
    spaces = [" " * unit for unit in _UNITS]
    steps = [(old, "\t") for old in spaces] + [("\t", new) for new in spaces]
    steps += [(old, new) for old in spaces for new in spaces if old != new]
    kinds: list[
        list[Shift]
    ] = [  # simplest first: none, a constant prefix, another step, another step and depth
        [str],
        [lambda indent: more + indent] if f.endswith(h) else [],
        [lambda indent: indent.removeprefix(less) if indent.startswith(less) else None]
        if h.endswith(f)
        else [],
        [_scaled(old, new, 0) for old, new in steps],
        [_scaled(old, new, _depth(f, new) - _depth(h, old)) for old, new in steps],
    ]
    for rank, shifts in enumerate(kinds):
        for shift in shifts:
            table = {indent: new for indent in added if (new := shift(indent)) is not None}
            if len(table) == len(added) and all(shift(h) == f for h, f in pairs):
                contradicts_others = any(shift(h) != f for h, f in file.pairs)
                if file.known <= {""}:
                    out_of_step = any(table.values())
                else:
                    moved = [(old, new) for old, new in table.items() if new != old and file.in_step(old)]
                    out_of_step = any(not file.in_step(new) for _, new in moved)
                options.append(((2 * out_of_step + contradicts_others) * 10 + rank, table))
    best = min((score for score, _ in options), default=0)
    tables = [table for score, table in options if score == best]
    if not tables or best >= 20 or any(table != tables[0] for table in tables):
        return None
    return tables[0]


def _table_for_flush_lines(
    match: Match, lines: Sequence[str], pairs: set[Pair], added: set[str], file: _File
) -> Table | None:
    """The table for a hunk whose deleted lines have no indentation: that of the other lines. If all lines added next to
    them have none either, they get that of the deleted lines in the file, if it is unambiguous."""
    rest = {(h, f) for h, f in pairs if h or not f}
    if not rest:
        return None
    # The indentations in the file of the flush deleted lines, in runs whose additions are all flush; "" for other runs.
    rows = iter(match.rows)
    flush: set[str] = set()
    for is_context, run in groupby(match.hunk.lines, key=lambda line: line.kind == CONTEXT):
        in_file: set[str] = set()
        run_added: set[str] = set()
        for line in run:
            row = next(rows) if line.kind != ADD else None
            if is_context or is_blank(line.text):
                continue
            if line.kind == ADD:
                run_added.add(indent_of(line.text))
            elif row is not None and not indent_of(line.text):
                in_file.add(indent_of(lines[row]))
        if "" in run_added:
            flush |= (in_file - {""} or {""}) if run_added == {""} else {""}
    if flush == {""} or "" not in added:
        return _table(rest | {("", "")} if "" in added else rest, added, file)
    if len(flush) != 1 or ("", "") in rest:
        return None
    table = _table(rest, added - {""}, file)
    return None if table is None else {**table, "": next(iter(flush))}
