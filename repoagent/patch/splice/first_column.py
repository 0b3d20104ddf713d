"""Context that has lost its first column looks as if it stood one space less deep: which of both is it?"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from repoagent.patch.locate.fit import Fit
from repoagent.patch.locate.match import indent_of, is_blank

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
    table: Table | None, pairs: set[Pair], fit: Fit, lines: Sequence[str], known: Collection[str]
) -> Table | None:
    """Where quoted lines are one space short: what is added as it stands, or by `table` (None: a space more, as `pairs`
    have it)? That with which each added line begins at a known depth, with a word or sign that a quoted line begins
    with there, or else any line."""
    added = [line.text for line in fit.hunk.added if not is_blank(line.text)]
    kept = {indent_of(text): indent_of(text) for text in added}
    more = table or {indent: f" {indent}" if indent or ("", " ") in pairs else "" for indent in kept}
    choices = [some for some in (more, kept) if all(new in known for new in some.values())]
    quoted = [lines[row] for row in fit.rows if row is not None]
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
