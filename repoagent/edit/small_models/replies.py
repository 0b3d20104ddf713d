"""Turn the fences of a small model's answer into patches: a whole file, the part shown, or definitions by name.

Small models write code without saying where it belongs. Code is matched with the only place that it can be for, and
refused if there are two. Whether the result is good is decided elsewhere."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from repoagent.dataclass import dataclass
from repoagent.edit.small_models.code_repairs import (
    leading_imports,
    missing_imports,
    place_of_imports,
    reindented,
    with_remarks,
    with_unasked_put_back,
)
from repoagent.patch.errors import PatchRefused, Problem
from repoagent.patch.model import FilePatch
from repoagent.patch.paths import known_path

if TYPE_CHECKING:
    from repoagent.syntax.symbol import Symbol

Found = list[tuple[tuple[int, int], list[str]]]
BODIES = frozenset({"function", "method"})
_SAID = re.compile(
    r"\s*(?:#|//|/\*|<!--|--)?.*(?:\.\.\.|…).*$|\s*(?:#|//|/\*|--)\s.*\b(?:rest|unchanged|existing|other)\b.*$"
)
_LEFT_OUT = re.compile(
    r"\s*(?:#|//|/\*|<!--|--)\s*"
    r"(?:\.\.\.|…|(?:the )?(?:rest|other (?:methods|functions|code)|existing code|unchanged)\b)"
)


@dataclass(frozen=True)
class Outlined:
    """Lines of code with their definitions."""

    lines: Sequence[str]
    symbols: Sequence[Symbol]

    @property
    def top(self) -> list[Symbol]:
        return [symbol for symbol in self.symbols if symbol.depth == 0]

    def inside(self, holder: Symbol) -> list[Symbol]:
        return [
            s
            for s in self.symbols
            if s.depth == holder.depth + 1
            and holder.first_line <= s.first_line
            and s.last_line <= holder.last_line
        ]

    def text(self, symbol: Symbol, old: Outlined) -> list[str]:
        """Its lines, without a leading comment, new to `old`, that only stands for omitted code."""
        lines = list(self.lines[symbol.first_line - 1 : symbol.last_line])
        while len(lines) > 1 and _LEFT_OUT.match(lines[0]) and lines[0] not in old.lines:
            del lines[0]
        return lines


def named_pieces(new: Outlined, old: Outlined) -> Found | None:
    """For each definition of `new` the rows of `old` that it replaces, in order.

    A definition that `old` lacks goes with the one before it (or after it). None unless at least one exists, each
    exists once, and all other lines are in `old` too or only stand for omitted code.
    """
    if not new.top or not _nothing_else(new, new.top, (0, len(new.lines)), old):
        return None
    found: Found = []
    waiting: list[str] = []
    for symbol in new.top:
        targets = _match(symbol, old.symbols)
        if len(targets) > 1:
            return None
        if not targets and found:
            found[-1][1].extend([*_gap(found[-1][0][0], old), *new.text(symbol, old)])
        elif not targets:
            waiting += new.text(symbol, old)
        else:
            pieces = _members(symbol, targets[0], new, old)
            if pieces is None:
                return None
            if waiting:
                pieces[0][1][:0] = [*waiting, *_gap(pieces[0][0][0], old)]
                waiting = []
            found += pieces
    return found or None


def lacks_members(new: Outlined, old: Outlined) -> bool:
    """Whether the text opens a class, or the like, of the file without all of its members."""
    for symbol in new.top:
        for target in _match(symbol, old.symbols):
            if symbol.kind not in BODIES and not _has_all(symbol, target, new, old):
                return True
    return False


def _has_all(symbol: Symbol, target: Symbol, new: Outlined, old: Outlined) -> bool:
    return {s.name for s in old.inside(target)} <= {s.name for s in new.inside(symbol)}


def _match(symbol: Symbol, there: Sequence[Symbol]) -> list[Symbol]:
    same = [other for other in there if other.qualified_name == symbol.qualified_name]
    same = same or [other for other in there if other.name == symbol.name]
    bodies = [other for other in same if other.kind != "declaration"]
    return [other for other in bodies or same if (other.kind in BODIES) == (symbol.kind in BODIES)]


def _members(symbol: Symbol, target: Symbol, new: Outlined, old: Outlined) -> Found | None:
    """A holder that comes without some of its members stands for those that it has; anything else for itself."""
    if symbol.kind in BODIES or _has_all(symbol, target, new, old):
        return [((target.first_line - 1, target.last_line), new.text(symbol, old))]
    members = new.inside(symbol)
    if not _nothing_else(new, members, (symbol.first_line - 1, symbol.last_line), old):
        return None
    found: Found = []
    for member in members:
        same = [other for other in old.inside(target) if other.name == member.name]
        if len(same) > 1 or (not same and not found):
            return None
        if same:
            found.append(((same[0].first_line - 1, same[0].last_line), new.text(member, old)))
        else:
            found[-1][1].extend(["", *new.text(member, old)])
    return found or None


def _nothing_else(new: Outlined, symbols: Sequence[Symbol], rows: tuple[int, int], old: Outlined) -> bool:
    """Whether all of these rows outside the definitions are lines of the file, or speak of what was left out."""
    inside = {row for s in symbols for row in range(s.first_line - 1, s.last_line)}
    known = {line.strip() for line in old.lines}
    outside = (new.lines[row] for row in range(*rows) if row not in inside)
    return all(not line.strip() or line.strip() in known or _SAID.match(line) for line in outside)


def _gap(row: int, old: Outlined) -> list[str]:
    """As many blank lines as the file has above this row: one or two."""
    two = row > 1 and not old.lines[row - 1].strip() and not old.lines[row - 2].strip()
    return ["", ""] if two else [""]


Rows = tuple[int, int]  # lines of a file, from 0, the second not included
_BRACED = (".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx", ".java")


@dataclass(frozen=True)
class ShownFile:
    """An editable file in its current state, and the lines of it that a model was shown; all if `parts` is empty.
    `source` has its lines as it was read: what an earlier answer added may be removed again. `words` are those of
    the request, which may ask for another name."""

    path: str
    lines: tuple[str, ...]
    parts: tuple[tuple[Rows, tuple[str, ...]], ...] = ()  # with the names that they define
    source: tuple[str, ...] = ()
    words: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Piece:
    """New lines for `rows`, for the whole file if that is None."""

    rows: Rows | None
    lines: tuple[str, ...]


def pieces_of(file: ShownFile, lines: Sequence[str]) -> list[Piece] | None:
    """The only places of this file that a text can be for; None if uncertain."""
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


def _as_shown(file: ShownFile, old: Outlined, new: Outlined) -> Rows | None:
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


def _was_shown(rows: Rows, file: ShownFile) -> bool:
    """Whether a model has seen these lines: what it writes in place of others is made up."""
    return not file.parts or any(first <= rows[0] and rows[1] <= last for (first, last), _ in file.parts)


def _defined(name: str, defined: set[str]) -> bool:
    return any(name == short or name.endswith(f".{short}") for short in defined)


def _with_imports(file: ShownFile, imports: Sequence[str], pieces: list[Piece]) -> list[Piece]:
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
    from repoagent.syntax.outline import outline

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


_EXAMPLE = re.compile(
    r"\s*(?:(?:#|//)\s*(?:example|usage|sample|test)|print\(|console\.log\(|if __name__ ==)", re.IGNORECASE
)
_SHOWS = re.compile(
    r"\b(?:example|usage|sample|tests?|prints?|log|main|demo|output|show|display|script|call|run)",
    re.IGNORECASE,
)


def read_reply(
    patches: Sequence[FilePatch],
    files: Mapping[str, ShownFile],
    request: str,
    may_create: Callable[[str], bool],
    missing: Sequence[str] = (),
) -> list[FilePatch]:
    """The patches of a reply, each whole text with its file and lines. Diffs and the like are kept.

    `missing` are the files to create. What is not understood is dropped if it names no file and something else is
    understood. Raises PatchRefused for text for a file of which a part was shown, if it is not that part.
    """
    taken: list[FilePatch] = []
    strange: list[FilePatch] = []
    for patch in patches:
        if patch.whole is None or patch.cut:
            taken.append(patch)
            continue
        path, lines = _path(patch, _lines(patch.whole), files, may_create)
        if path in files:
            lines = _without_example(lines, files[path].lines, request)
        pieces = pieces_of(files[path], lines) if path in files else None
        if pieces is None and path in files and files[path].parts:
            names = " and ".join(name for _, names in files[path].parts for name in names)
            text = f"your answer does not contain the whole new {names or 'part'}."
            raise PatchRefused([Problem(path, 0, "unknown-part", text)])
        if pieces is None and patch.new is None and not files and len(missing) == 1:
            taken.append(replace(patch, new=missing[0]))
        elif pieces is None and patch.new is None:
            strange.append(patch)
        elif path not in files:
            taken.append(replace(patch, new=path or patch.new))
        else:
            file = files[path]
            for piece in pieces or [Piece(None, tuple(lines))]:
                old = file.lines[slice(*piece.rows)] if piece.rows else file.lines
                kept = with_unasked_put_back(path, old, piece.lines, request, file.source)
                text = _joined(with_remarks(path, old, kept, request))
                taken.append(replace(patch, new=path, rows=piece.rows, whole=text))
    return _without_repeats(taken, files) or strange


def _lines(whole: str) -> list[str]:
    """The lines without blank ones at both ends."""
    lines = whole.removeprefix("\ufeff").split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    while lines and not lines[0].strip():
        del lines[0]
    return lines


def _without_example(lines: list[str], old: Sequence[str], request: str) -> list[str]:
    """Without calls at the end that only show how the code is used, where neither file nor request has such."""
    if _SHOWS.search(request) or any(line == line.lstrip() and _EXAMPLE.match(line) for line in old):
        return lines
    known = {line.strip() for line in old}
    margin = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    for row, line in enumerate(lines[1:], 1):
        at_margin = len(line) - len(line.lstrip()) <= margin
        if (
            at_margin
            and _EXAMPLE.match(line)
            and not any(rest.strip() in known - {""} for rest in lines[row:])
        ):
            return _lines(_joined(lines[:row]))
    return lines


def _joined(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _path(
    patch: FilePatch, lines: list[str], files: Mapping[str, ShownFile], may_create: Callable[[str], bool]
) -> tuple[str, list[str]]:
    """The file that a fence is for, "" for none, and its lines without one that only names the file."""
    said = (
        re.fullmatch(r"(?:#|//|--|/\*|<!--|;)\s*(?:file(?:name)?:\s*)?(\S+?)\s*(?:\*/|-->)?", lines[0])
        if lines
        else None
    )
    known = known_path([said[1].lstrip("/")], files) if said and "." in said[1] else None
    if known and lines[0] not in files[known].lines[:1]:
        lines = lines[1:]
        if patch.new is None:
            return known, lines
    if patch.new is not None:
        name = patch.new.removeprefix("./")
        if path := known_path([name], files):
            return path, lines
        same = [path for path in files if path.rpartition("/")[2] == name.rpartition("/")[2]]
        if len(same) == 1 and not may_create(name):
            return same[0], lines
        near = list(files) if len(files) == 1 else difflib.get_close_matches(name, files, n=2, cutoff=0.8)
        return (near[0] if len(near) == 1 and not may_create(name) else ""), lines
    fitting = [path for path in files if pieces_of(files[path], lines) is not None]
    return (fitting[0] if len(fitting) == 1 else ""), lines


def _without_repeats(patches: Sequence[FilePatch], files: Mapping[str, ShownFile]) -> list[FilePatch]:
    """Without a fence that only shows a file as it is, where another one changes it."""

    def same(patch: FilePatch) -> bool:
        shown = files.get(patch.new or "")
        return (
            patch.whole is not None
            and patch.rows is None
            and shown is not None
            and (_lines(patch.whole) == _lines(_joined(shown.lines)))
        )

    return [
        patch
        for patch in patches
        if not (same(patch) and any(other.new == patch.new and not same(other) for other in patches))
    ]
