"""What is said of uses, the same in a terminal, in a prompt and by MCP."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from repoagent.history.block import plain
from repoagent.uses.values import Answer, Definition, Uses, UsesIn

BY_NAME = "Uses are matched by name: some may be of another thing that is called the same."
LINES = 6  # of a file that are named
NAMES = 3  # of functions, and of files
DEFINITIONS = 5
_WIDTH = 200


def told(answer: Answer) -> str:
    """The answer for a model: a line for each definition, file or symbol; "" where nothing was found."""
    lines = list(_of_file(answer) if answer.file else _of_symbol(answer.symbols[0]))
    return "".join(f"{line}\n" for line in (*lines, *notes(answer))) if lines else ""


def notes(answer: Answer) -> Iterator[str]:
    """What a reader should know of the answer, a sentence each."""
    if any(uses.files for uses in answer.symbols):
        yield BY_NAME
    if any(row.text for uses in answer.symbols for row in uses.files):
        yield "text: found as a word, in comments and strings too."
    yield from (f"Left out: {sentence}." for sentence in answer.left_out)


def heads(uses: Uses) -> Iterator[str]:
    """Where a symbol is defined, in a sentence or two."""
    symbol = plain(uses.symbol, _WIDTH)
    if uses.definitions:
        yield f"{symbol} is defined in {_places(uses.definitions)}"
    else:
        yield f"no definition of {symbol} was found"
    declared = [one for one in uses.elsewhere if one.kind == "declaration"]
    others = [one for one in uses.elsewhere if one.kind != "declaration"]
    if declared:
        yield f"declared in {_places(declared)}"
    if others:
        yield f"also defined in {_places(others)}"


def lines_of(row: UsesIn, most: int = LINES) -> str:
    """The line numbers, as many as are named."""
    shown = ", ".join(map(str, row.lines[:most]))
    return f"{shown}, ..." if len(row.lines) > most else shown


def marks(row: UsesIn) -> str:
    """What is to be known of a file: "test", "text" or both."""
    return ", ".join(word for word, holds in (("test", row.test), ("text", row.text)) if holds)


def within(row: UsesIn, most: int = NAMES) -> str:
    """The functions that use it, as many as are named."""
    shown = ", ".join(plain(name, 80) for name in row.within[:most])
    return f"{shown}, ..." if len(row.within) > most else shown


def count(number: int, word: str) -> str:
    return f"{number} {word}{'s' * (number != 1)}"


def _of_symbol(uses: Uses) -> Iterator[str]:
    if not uses.definitions and not uses.elsewhere and not uses.files:
        return
    yield from heads(uses)
    for row in uses.files:
        mark = f" ({marks(row)})" if marks(row) else ""
        inside = f", in {within(row)}" if row.within else ""
        yield f"{plain(row.path, _WIDTH)}{mark}: {count(len(row.lines), 'line')}: {lines_of(row)}{inside}"
    if uses.more:
        yield f"({count(uses.more, 'more file')})"
    if not uses.files:
        yield "no use was found"


def _of_file(answer: Answer) -> Iterator[str]:
    for uses in answer.symbols:
        where = uses.definitions[0] if uses.definitions else None
        place = f" ({where.kind}, {_range(where)})" if where else ""
        total = sum(len(row.lines) for row in uses.files)
        others = f"; {count(len(uses.elsewhere), 'other definition')}" if uses.elsewhere else ""
        yield (
            f"{plain(uses.symbol, _WIDTH)}{place}: {count(total, 'line')} in {count(len(uses.files), 'file')}: "
            f"{files_in_short(uses.files)}{others}"
        )
    if answer.more:
        yield f"({count(answer.more, 'more symbol')})"
    if answer.unused:
        yield f"used in no other file: {plain(', '.join(answer.unused), 400)}"


def files_in_short(rows: Sequence[UsesIn], most: int = NAMES) -> str:
    """Some files, each with how many lines."""
    shown = ", ".join(f"{plain(row.path, _WIDTH)} ({len(row.lines)})" for row in rows[:most])
    return f"{shown}, ..." if len(rows) > most else shown


def _places(definitions: Sequence[Definition]) -> str:
    shown = ", ".join(
        f"{plain(one.path, _WIDTH)}:{_range(one)} ({one.kind} {plain(one.name, 80)})"
        for one in definitions[:DEFINITIONS]
    )
    left = len(definitions) - DEFINITIONS
    return f"{shown} and {left} more" if left > 0 else shown


def _range(one: Definition) -> str:
    return str(one.first_line) if one.last_line == one.first_line else f"{one.first_line}-{one.last_line}"
