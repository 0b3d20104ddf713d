"""Answer a query for uses, and describe the answer for terminals, prompts and MCP."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from repoagent.display_text import list_some, plural
from repoagent.errors import Refused, UsageError
from repoagent.git.files import check_path, no_such_file, read_source
from repoagent.git.worktree import WorkTree
from repoagent.history.neighbors import neighborhood
from repoagent.history.render import plain_line
from repoagent.syntax.languages import language_of
from repoagent.syntax.occurrences import is_prose
from repoagent.uses.find import find_uses
from repoagent.uses.symbols import (
    FileUses,
    SymbolDefinition,
    Uses,
    UsesAnswer,
    WhyNot,
    language_family,
    parse_symbol,
    symbols_of_file,
)

NEAR = 200  # files that change with the one that defines a symbol
BY_NAME = "Uses are matched by name; some may refer to another symbol of the same name."
LINES = 6  # of a file that are named
NAMES = 3  # of functions, and of files
DEFINITIONS = 5
_WIDTH = 200


def answer_uses(
    worktree: WorkTree,
    text: str,
    why_not: WhyNot,
    *,
    limit: int = 20,
    path_of: Callable[[str], str] = lambda text: text,
) -> UsesAnswer:
    """The uses of `text`, which is `NAME`, `Class.method` or `FILE:NAME`. For a FILE, the uses of its symbols in other
    files.

    At most `limit` files of a symbol, or symbols of a file, are listed; files that change with the definition come
    first. `path_of` turns a path as the user wrote it into one relative to the top. Raises UsageError if `text` is
    neither a symbol nor a file, Refused for a file that may not be read.
    """

    def near(path: str) -> Mapping[str, float]:
        rows = neighborhood(worktree, [path], limit=NEAR).rows
        return {os.fsdecode(row.path): row.score for row in rows}

    file, name = _split(worktree, text, path_of)
    if file:
        check_path(file)
        if reason := why_not(file):
            raise Refused(reason)
    if file and not name:
        symbols, left_out = find_uses(worktree, symbols_of_file(worktree, file), why_not, near=near)
        elsewhere = []
        for uses in symbols:  # without the file itself, and what is only a word in a file of another language
            definitions = tuple(definition for definition in uses.definitions if definition.path == file)
            rows = [
                row for row in uses.files if row.path != file and (is_prose(file) or not is_prose(row.path))
            ]
            rows = [row for row in rows if not row.text or language_family(row.path) == language_family(file)]
            elsewhere.append(replace(uses, definitions=definitions, files=tuple(rows)))

        used = sorted((uses for uses in elsewhere if uses.files), key=lambda uses: -len(uses.files))
        unused = tuple(uses.symbol for uses in elsewhere if not uses.files)
        return UsesAnswer(file, file, tuple(used[:limit]), unused, max(0, len(used) - limit), left_out)
    head = text.partition(":")[0]
    if not file and ("/" in head or language_of(head, b"")):
        error = no_such_file(path_of(head), worktree.top)
        if "/" in head or error.near:
            raise error
    data = read_source(worktree, file).data if file else None
    (uses,), left_out = find_uses(worktree, [parse_symbol(name, file, data)], why_not, near=near)
    uses = replace(uses, files=uses.files[:limit], more=max(0, len(uses.files) - limit))
    return UsesAnswer(text, None, (uses,), left_out=left_out)


def _split(worktree: WorkTree, text: str, path_of: Callable[[str], str]) -> tuple[str, str]:
    """The file (from the top, "" for none) and the symbol ("" for none) that a text names."""
    for end in [len(text), *(index for index, sign in enumerate(text) if sign == ":")]:
        head, name = text[:end], text[end:].lstrip(":")
        if head and (end == len(text) or name):
            try:
                path = worktree.top / path_of(head)
                if path.is_dir() and "." not in head.strip("./"):
                    raise UsageError(f"{head} is a folder; name a file or a symbol")
                if path.is_file():
                    return path_of(head), name
            except (ValueError, OSError):  # not the name of a file
                continue
    return "", text


def answer_text(answer: UsesAnswer) -> str:
    """The answer for a model: a line for each definition, file or symbol; "" if nothing was found."""
    lines: list[str] = []
    first = answer.symbols[0] if answer.symbols else None
    if answer.file:
        for uses in answer.symbols:
            place = uses.definitions[0] if uses.definitions else None
            definition = f" ({place.kind}, {_range(place)})" if place else ""
            total = plural(sum(len(row.lines) for row in uses.files), "line")
            others = f"; {plural(len(uses.elsewhere), 'other definition')}" if uses.elsewhere else ""
            files = f"{plural(len(uses.files), 'file')}: {files_in_short(uses.files)}"
            lines.append(f"{plain_line(uses.symbol, _WIDTH)}{definition}: {total} in {files}{others}")
        lines += [f"({plural(answer.more, 'more symbol')})"] if answer.more else []
        if answer.unused:
            lines.append(f"not used in other files: {plain_line(', '.join(answer.unused), 400)}")
    elif first is not None and (first.definitions or first.elsewhere or first.files):
        lines += definition_lines(first)
        for row in first.files:
            mark = f" ({marks(row)})" if marks(row) else ""
            inside = f", in {using_functions(row)}" if row.within else ""
            number = plural(len(row.lines), "line")
            lines.append(f"{plain_line(row.path, _WIDTH)}{mark}: {number}: {lines_of(row)}{inside}")
        lines += [f"({plural(first.more, 'more file')})"] if first.more else []
        lines += [] if first.files else ["no uses found"]
    return "".join(f"{line}\n" for line in (*lines, *caveats(answer))) if lines else ""


def caveats(answer: UsesAnswer) -> Iterator[str]:
    """Caveats about the answer, one sentence each."""
    if any(uses.files for uses in answer.symbols):
        yield BY_NAME
    if any(row.text for uses in answer.symbols for row in uses.files):
        yield "text: matched as a whole word, in comments and strings too."
    yield from (f"Skipped: {sentence}." for sentence in answer.left_out)


def definition_lines(uses: Uses) -> Iterator[str]:
    """Where a symbol is defined, in a sentence or two."""
    symbol = plain_line(uses.symbol, _WIDTH)
    where = f"{symbol} is defined in {_locations(uses.definitions)}"
    yield where if uses.definitions else f"no definition of {symbol} found"
    for verb, is_declared in (("declared", True), ("also defined", False)):
        others = [each for each in uses.elsewhere if (each.kind == "declaration") == is_declared]
        if others:
            yield f"{verb} in {_locations(others)}"


def lines_of(row: FileUses) -> str:
    """The first LINES line numbers of `row`, as text."""
    return ", ".join(map(str, row.lines[:LINES])) + (", ..." if len(row.lines) > LINES else "")


def marks(row: FileUses) -> str:
    return ", ".join(mark for mark, is_set in (("test", row.test), ("text", row.text)) if is_set)


def using_functions(row: FileUses) -> str:
    """The first NAMES functions that use the symbol, as text."""
    listed = ", ".join(plain_line(name, 80) for name in row.within[:NAMES])
    return f"{listed}, ..." if len(row.within) > NAMES else listed


def files_in_short(rows: Sequence[FileUses]) -> str:
    """The first NAMES files, each with the number of its lines that use the symbol."""
    listed = ", ".join(f"{plain_line(row.path, _WIDTH)} ({len(row.lines)})" for row in rows[:NAMES])
    return f"{listed}, ..." if len(rows) > NAMES else listed


def _locations(definitions: Sequence[SymbolDefinition]) -> str:
    locations = [
        f"{plain_line(d.path, _WIDTH)}:{_range(d)} ({d.kind} {plain_line(d.name, 80)})" for d in definitions
    ]
    return list_some(locations, DEFINITIONS)


def _range(definition: SymbolDefinition) -> str:
    first, last = definition.first_line, definition.last_line
    return str(first) if first == last else f"{first}-{last}"
