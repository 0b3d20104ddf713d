"""The message of a join where nobody has said a word: what of the source was changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from repoagent.edit.join.gather import Edited, Gathered
from repoagent.edit.landing.message import SUBJECT_WIDTH, compose
from repoagent.history.picture.words import shown
from repoagent.patch import differing
from repoagent.split import Symbol
from repoagent.split.joining.carry import lines_of

NAMED = 3  # definitions in a subject


def plain_words(gathered: Gathered) -> str:
    """A subject that names the definitions whose lines were edited, the innermost ones; or the lines."""
    path = shown(gathered.index.source.path)
    found = list(dict.fromkeys(symbol for edit in gathered.edits for symbol in _symbols(gathered, edit)))
    whole = [symbol for symbol in found if symbol is not None]
    names = list(dict.fromkeys(symbol.qualified_name for symbol in whole))
    choices = []
    if found and len(whole) == len(found):
        if len(names) <= NAMED:
            choices += [_listed(names), _listed(list(dict.fromkeys(symbol.name for symbol in whole)))]
        if len(names) > 1:
            choices.append(f"{len(names)} parts")
    subjects = [f"Change {what} in {where}" for what in choices for where in (path, path.rpartition("/")[2])]
    fitting = [subject for subject in subjects if len(subject) <= SUBJECT_WIDTH]
    return compose(fitting[0] if fitting else f"Change {_lines(gathered)} of {path}", "")


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _ranges(edit: Edited) -> Iterator[tuple[int, int]]:
    """The edited lines of the source, first and last; those around what was put in alone."""
    first = edit.segment.first_line
    for i1, i2, _, _ in differing(lines_of(edit.before), lines_of(edit.after)):
        yield (first + i1, first + i2 - 1) if i1 < i2 else (first + i1 - 1, first + i1)


def _symbols(gathered: Gathered, edit: Edited) -> Iterator[Symbol | None]:
    """For each edited place what it is in."""
    symbols = [symbol for segment in gathered.index.segments for symbol in segment.symbols]
    for first, last in _ranges(edit):
        yield _innermost([one for one in symbols if one.first_line <= first and last <= one.last_line])


def _innermost(symbols: Sequence[Symbol]) -> Symbol | None:
    """The one that is in all others; None for none, and where several stand on these lines."""
    deepest = max((symbol.depth for symbol in symbols), default=0)
    found = [symbol for symbol in symbols if symbol.depth == deepest]
    return found[0] if len(found) == 1 else None


def _lines(gathered: Gathered) -> str:
    found = [one for edit in gathered.edits if edit.before != edit.after for one in _ranges(edit)]
    first, last = max(1, min(one for one, _ in found)), max(one for _, one in found)
    return f"line {first}" if first >= last else f"lines {first}-{last}"
