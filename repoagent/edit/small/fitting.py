"""What code without a place can only be of a file: all of it, the part that was shown, or definitions by name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from repoagent.dataclass import dataclass
from repoagent.edit.small.imports import leading_imports, missing_imports, place_of_imports
from repoagent.edit.small.named import Outlined, lacks_members, named_pieces
from repoagent.edit.small.reindent import reindented

if TYPE_CHECKING:
    from repoagent.split import Symbol

Rows = tuple[int, int]  # lines of a file, from 0, the second not included
_BRACED = (".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx", ".java")


@dataclass(frozen=True)
class Shown:
    """A file that may be edited, as it is now, and the lines of it that a model was shown; all for no `parts`.
    `source` are its lines as it was read: what an earlier answer has added may go again. `words` are those of the
    request, which may ask for another name."""

    path: str
    lines: tuple[str, ...]
    parts: tuple[tuple[Rows, tuple[str, ...]], ...] = ()  # with the names that they define
    source: tuple[str, ...] = ()
    words: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Piece:
    """New lines for `rows`, for the whole file where that is None."""

    rows: Rows | None
    lines: tuple[str, ...]


def pieces_of(file: Shown, lines: Sequence[str]) -> list[Piece] | None:
    """What a text without a place can only be of this file; None when it is no certain part of it."""
    if not any(line.strip() for line in file.lines):
        return [Piece(None, tuple(lines))]
    outside = list(file.lines)
    for (first, last), _ in sorted(file.parts, reverse=True):
        del outside[first:last]
    if _kept(lines, outside) >= (9 if file.parts else 6):
        return [Piece(None, _with_blank_ends(lines, file.lines))]
    imports, body = leading_imports(file.path, lines)
    old, new = (
        Outlined(file.lines, _outline(file.path, file.lines)),
        Outlined(body, _outline(file.path, body)),
    )
    if rows := _as_shown(file, old, new):
        was = file.lines[slice(*rows)]
        if leading_imports(file.path, was)[0]:
            return [Piece(rows, tuple(reindented(lines, was)))]
        return _with_imports(file, imports, [Piece(rows, tuple(reindented(body, was)))])
    named = named_pieces(new, old)
    if named is None or not all(_was_shown(rows, file) for rows, _ in named):
        return None
    pieces = [Piece(rows, tuple(reindented(text, file.lines[slice(*rows)]))) for rows, text in named]
    return _with_imports(file, imports, pieces)


def _kept(lines: Sequence[str], of: Sequence[str]) -> int:
    """How many tenths of the lines of `of` are among `lines`; of fewer than five lines this says nothing."""
    old = Counter(line.strip() for line in of if line.strip())
    new = Counter(line.strip() for line in lines if line.strip())
    total = sum(old.values())
    return 10 * sum((old & new).values()) // total if total >= 5 else 0


def _with_blank_ends(lines: Sequence[str], old: Sequence[str]) -> tuple[str, ...]:
    """A file keeps the blank lines that it begins and ends with: models mind them little."""
    filled = [row for row, line in enumerate(old) if line.strip()]
    return (*old[: filled[0]], *lines, *old[filled[-1] + 1 :])


def _as_shown(file: Shown, old: Outlined, new: Outlined) -> Rows | None:
    """The one part that was shown whose new text this is: it still has what that part defines."""
    defined = {symbol.name for symbol in new.top} or set(re.findall(r"\w+", "\n".join(new.lines)))
    fitting = []
    for rows, names in file.parts:
        was = file.lines[slice(*rows)]
        if not names:
            fits = _kept(new.lines, was) >= 3 or len(was) < 5
        else:
            fits = all(_defined(name, defined) or _renamed(name, new, old, file.words) for name in names)
        if fits:
            fitting.append(rows)
    return fitting[0] if len(fitting) == 1 and new.lines and not lacks_members(new, old) else None


def _renamed(name: str, new: Outlined, old: Outlined, words: frozenset[str]) -> bool:
    """Whether the request names this definition, and one that the file had not and the answer has."""
    had = {symbol.name for symbol in old.symbols}
    return name.rpartition(".")[2] in words and any(s.name in words - had for s in new.symbols)


def _was_shown(rows: Rows, file: Shown) -> bool:
    """Whether a model has seen these lines: what it writes in place of others is made up."""
    return not file.parts or any(first <= rows[0] and rows[1] <= last for (first, last), _ in file.parts)


def _defined(name: str, defined: set[str]) -> bool:
    return any(name == short or name.endswith(f".{short}") for short in defined)


def _with_imports(file: Shown, imports: Sequence[str], pieces: list[Piece]) -> list[Piece]:
    """The pieces, and the import lines that came with them where they belong."""
    wanted = missing_imports(file.path, imports, file.lines)
    if not wanted:
        return pieces
    row = place_of_imports(file.path, file.lines)
    if row is None or any(piece.rows is None or piece.rows[0] < row < piece.rows[1] for piece in pieces):
        first = pieces[0]
        return [replace(first, lines=(*wanted, "", *first.lines)), *pieces[1:]]
    if (
        row < len(file.lines)
        and file.lines[row].strip()
        and not leading_imports(file.path, file.lines[row:])[0]
    ):
        wanted = [*wanted, "", ""]
    elif row and not leading_imports(file.path, file.lines[row - 1 : row])[0] and file.lines[row - 1].strip():
        wanted = ["", *wanted]
    return [Piece((row, row), tuple(wanted)), *pieces]


def _outline(path: str, lines: Sequence[str]) -> Sequence[Symbol]:
    """The definitions of the lines; a method that stands alone is read as if it stood in a class."""
    from repoagent.split import outline

    text = "\n".join(lines) + "\n"
    symbols = outline(path, text.encode("utf-8", "replace"))
    if symbols or not path.endswith(_BRACED):
        return symbols
    inside = outline(path, f"class _ {{\n{text}}}\n".encode("utf-8", "replace"))
    return [
        replace(
            s,
            qualified_name=s.qualified_name.removeprefix("_."),
            first_line=s.first_line - 1,
            last_line=s.last_line - 1,
            depth=s.depth - 1,
        )
        for s in inside
        if s.depth
    ]
