"""Turn the code blocks of a small model's answer into patches.

A code block replaces a whole file, the shown part of a file, or definitions by name. Small models write code without
saying where it belongs; code with more than one candidate is refused.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from repoagent.dataclass import dataclass
from repoagent.edit.small_models import code_repairs
from repoagent.patch.model import FilePatch
from repoagent.patch.paths import known_path
from repoagent.patch.refusal import PatchRefused, Problem

if TYPE_CHECKING:
    from repoagent.syntax.symbol import Symbol

Rows = tuple[int, int]  # lines of a file (from 0, end exclusive)
_BRACED = (".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx", ".java")
BODIES = frozenset({"function", "method"})
_ABOUT_OMITTED = re.compile(
    r"\s*(?:#|//|/\*|<!--|--)?.*(?:\.\.\.|…).*$|\s*(?:#|//|/\*|--)\s.*\b(?:rest|unchanged|existing|other)\b.*$"
)
_LEFT_OUT = re.compile(
    r"\s*(?:#|//|/\*|<!--|--)\s*"
    r"(?:\.\.\.|…|(?:the )?(?:rest|other (?:methods|functions|code)|existing code|unchanged)\b)"
)


@dataclass(frozen=True)
class _Code:
    lines: Sequence[str]
    symbols: Sequence[Symbol]

    @property
    def top(self) -> list[Symbol]:
        return [symbol for symbol in self.symbols if symbol.depth == 0]

    def members(self, outer: Symbol) -> list[Symbol]:
        return [
            symbol
            for symbol in self.symbols
            if symbol.depth == outer.depth + 1
            and outer.first_line <= symbol.first_line
            and symbol.last_line <= outer.last_line
        ]

    def text(self, symbol: Symbol, old: _Code) -> list[str]:
        """The lines of `symbol`, without a leading comment that only marks omitted code."""
        lines = list(self.lines[symbol.first_line - 1 : symbol.last_line])
        while len(lines) > 1 and _LEFT_OUT.match(lines[0]) and lines[0] not in old.lines:
            del lines[0]
        return lines

    def targets(self, symbol: Symbol) -> list[Symbol]:
        """The definitions that `symbol` of another text may replace."""
        same = [own for own in self.symbols if own.qualified_name == symbol.qualified_name]
        same = same or [own for own in self.symbols if own.name == symbol.name]
        bodies = [own for own in same if own.kind != "declaration"]
        return [own for own in bodies or same if (own.kind in BODIES) == (symbol.kind in BODIES)]

    def adds_nothing(self, symbols: Sequence[Symbol], rows: Rows, old: _Code) -> bool:
        """Whether all `rows` outside of `symbols` are also in `old`, or only mark omitted code."""
        inside = {row for s in symbols for row in range(s.first_line - 1, s.last_line)}
        known = {line.strip() for line in old.lines} | {""}
        outside = (self.lines[row] for row in range(*rows) if row not in inside)
        return all(line.strip() in known or _ABOUT_OMITTED.match(line) for line in outside)

    def lacks_members(self, symbol: Symbol, target: Symbol, old: _Code) -> bool:
        return not {s.name for s in old.members(target)} <= {s.name for s in self.members(symbol)}

    def gap(self, row: int) -> list[str]:
        """One or two blank lines, as above this row."""
        two = row > 1 and not self.lines[row - 1].strip() and not self.lines[row - 2].strip()
        return ["", ""] if two else [""]


def _code(path: str, lines: Sequence[str]) -> _Code:
    """The lines with their definitions; methods without a class are parsed inside one."""
    from repoagent.syntax.outline import outline

    text = "\n".join(lines) + "\n"
    symbols = outline(path, text.encode("utf-8", "replace"))
    if symbols or not path.endswith(_BRACED):
        return _Code(lines, symbols)
    members = [
        replace(
            symbol, qualified_name=symbol.qualified_name.removeprefix("_."), first_line=symbol.first_line - 1,
            last_line=symbol.last_line - 1, depth=symbol.depth - 1,
        )
        for symbol in outline(path, f"class _ {{\n{text}}}\n".encode("utf-8", "replace"))
        if symbol.depth
    ]  # fmt: skip
    return _Code(lines, members)


def named_pieces(new: _Code, old: _Code) -> list[tuple[Rows, list[str]]]:
    """For each definition of `new`, in order: the rows of `old` that it replaces, and its lines.

    A definition that `old` lacks is added after the previous one, or before the next. The result is empty unless at
    least one definition exists in `old`, none exists twice, and all other lines are in `old` or only mark omitted code.
    """
    if not new.top or not new.adds_nothing(new.top, (0, len(new.lines)), old):
        return []
    pieces: list[tuple[Rows, list[str]]] = []
    waiting: list[str] = []
    for symbol in new.top:
        text, targets = new.text(symbol, old), old.targets(symbol)
        if len(targets) > 1:
            return []
        if not targets:
            if pieces:
                pieces[-1][1].extend([*old.gap(pieces[-1][0][0]), *text])
            else:
                waiting += text
            continue
        target, number = targets[0], len(pieces)
        if symbol.kind in BODIES or not new.lacks_members(symbol, target, old):
            pieces.append(((target.first_line - 1, target.last_line), text))
        else:  # a container without some of its members replaces only the members that it has
            members = new.members(symbol)
            if not new.adds_nothing(members, (symbol.first_line - 1, symbol.last_line), old):
                return []
            for member in members:
                same = [former for former in old.members(target) if former.name == member.name]
                if len(same) > 1 or (not same and len(pieces) == number):
                    return []
                if same:
                    pieces.append(((same[0].first_line - 1, same[0].last_line), new.text(member, old)))
                else:
                    pieces[-1][1].extend(["", *new.text(member, old)])
            if len(pieces) == number:
                return []
        if waiting:
            pieces[number][1][:0] = [*waiting, *old.gap(pieces[number][0][0])]
            waiting = []
    return pieces


@dataclass(frozen=True)
class ShownFile:
    """The current lines of an editable file, and the `parts` that the model saw (empty if it saw the whole file).

    `source` has the lines as read, before the edits of earlier answers.
    """

    path: str
    lines: tuple[str, ...]
    parts: tuple[tuple[Rows, tuple[str, ...]], ...] = ()  # with the names that they define
    source: tuple[str, ...] = ()
    words: frozenset[str] = frozenset()  # of the request


class CodePiece(NamedTuple):
    """The `lines` that replace `rows` (None: the whole file)."""

    rows: Rows | None
    lines: tuple[str, ...]


def pieces_of(file: ShownFile, lines: Sequence[str]) -> list[CodePiece]:
    """The parts of a file that the new `lines` replace; none if that is uncertain."""
    filled = [row for row, line in enumerate(file.lines) if line.strip()]
    if not filled:
        return [CodePiece(None, tuple(lines))]
    outside = list(file.lines)
    for (first, last), _ in sorted(file.parts, reverse=True):
        del outside[first:last]
    if _shared(lines, outside) >= (9 if file.parts else 6):
        # models drop blank lines at the beginning and the end of the file
        return [CodePiece(None, (*file.lines[: filled[0]], *lines, *file.lines[filled[-1] + 1 :]))]
    imports, body = code_repairs.leading_imports(file.path, lines)
    old, new = _code(file.path, file.lines), _code(file.path, body)
    if rows := _part_shown(file, old, new):
        before = file.lines[slice(*rows)]
        if code_repairs.leading_imports(file.path, before)[0]:
            return [CodePiece(rows, tuple(code_repairs.reindented(lines, before)))]
        return _with_imports(file, imports, [CodePiece(rows, tuple(code_repairs.reindented(body, before)))])
    pieces = []
    for rows, text in named_pieces(new, old):
        if file.parts and not any(first <= rows[0] and rows[1] <= last for (first, last), _ in file.parts):
            return []  # the model has not seen these lines, so it invented them
        pieces.append(CodePiece(rows, tuple(code_repairs.reindented(text, file.lines[slice(*rows)]))))
    return _with_imports(file, imports, pieces) if pieces else []


def _shared(lines: Sequence[str], old: Sequence[str]) -> int:
    """The share of the lines of `old` that are in `lines`, in tenths; 0 for fewer than five lines."""
    before = Counter(line.strip() for line in old if line.strip())
    after = Counter(line.strip() for line in lines if line.strip())
    total = sum(before.values())
    return 10 * sum((before & after).values()) // total if total >= 5 else 0


def _part_shown(file: ShownFile, old: _Code, new: _Code) -> Rows | None:
    """The rows of the only shown part that `new` replaces: it still has the definitions of that part."""
    names = {symbol.name for symbol in new.top} or set(re.findall(r"\w+", "\n".join(new.lines)))
    # new names of definitions that the request asks for
    renames = {s.name for s in new.symbols} & file.words - {s.name for s in old.symbols}

    def is_present(definition: str) -> bool:
        if any(definition == name or definition.endswith(f".{name}") for name in names):
            return True
        return bool(renames) and definition.rpartition(".")[2] in file.words

    matching = []
    for rows, defined in file.parts:
        before = file.lines[slice(*rows)]
        if all(map(is_present, defined)) and (defined or _shared(new.lines, before) >= 3 or len(before) < 5):
            matching.append(rows)
    incomplete = any(
        symbol.kind not in BODIES and new.lacks_members(symbol, target, old)
        for symbol in new.top
        for target in old.targets(symbol)
    )
    return matching[0] if len(matching) == 1 and new.lines and not incomplete else None


def _with_imports(file: ShownFile, imports: Sequence[str], pieces: list[CodePiece]) -> list[CodePiece]:
    """Add the import lines of the answer to the pieces, at the right place in the file."""
    lines = code_repairs.missing_imports(file.path, imports, file.lines)
    if not lines:
        return pieces
    row = code_repairs.import_row(file.path, file.lines)
    if row is None or any(piece.rows is None or piece.rows[0] < row < piece.rows[1] for piece in pieces):
        return [CodePiece(pieces[0].rows, (*lines, "", *pieces[0].lines)), *pieces[1:]]
    after, before = file.lines[row:], file.lines[row - 1 : row] if row else ()
    if after and after[0].strip() and not code_repairs.leading_imports(file.path, after)[0]:
        lines = [*lines, "", ""]
    elif before and before[0].strip() and not code_repairs.leading_imports(file.path, before)[0]:
        lines = ["", *lines]
    return [CodePiece((row, row), tuple(lines)), *pieces]


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
    """Turn each code block of a reply into a patch by finding the file and the lines that it replaces.

    Diffs and other patches are returned unchanged. `missing` are the files to create. Code that matches no file is
    dropped if other code matches one. Raises PatchRefused if the model saw only one part of a file and its code lacks
    that part.
    """
    assigned: list[FilePatch] = []
    unmatched: list[FilePatch] = []
    for patch in patches:
        if patch.whole is None or patch.cut:
            assigned.append(patch)
            continue
        path, lines = _path(patch, _lines(patch.whole), files, may_create)
        if path not in files:
            if patch.new is not None:
                assigned.append(replace(patch, new=path or patch.new))
            elif not files and len(missing) == 1:
                assigned.append(replace(patch, new=missing[0]))
            else:
                unmatched.append(patch)
            continue
        file = files[path]
        lines = _without_example(lines, file.lines, request)
        pieces = pieces_of(file, lines)
        if not pieces and file.parts:
            names = " and ".join(name for _, names in file.parts for name in names)
            text = f"your answer does not contain the whole new {names or 'part'}."
            raise PatchRefused([Problem(path, 0, "unknown-part", text)])
        if not pieces and patch.new is None:
            unmatched.append(patch)
            continue
        for piece in pieces or [CodePiece(None, tuple(lines))]:
            old = file.lines[slice(*piece.rows)] if piece.rows else file.lines
            new = code_repairs.with_unasked_put_back(path, old, piece.lines, request, file.source)
            text = _joined(code_repairs.with_remarks(path, old, new, request))
            assigned.append(replace(patch, new=path, rows=piece.rows, whole=text))

    def repeats(patch: FilePatch) -> bool:
        """Whether a fence only repeats the current content of a file."""
        file = files.get(patch.new or "")
        if patch.whole is None or patch.rows is not None or file is None:
            return False
        return _lines(patch.whole) == _lines(_joined(file.lines))

    changed = {patch.new for patch in assigned if not repeats(patch)}
    return [patch for patch in assigned if not (repeats(patch) and patch.new in changed)] or unmatched


def _lines(whole: str) -> list[str]:
    """The lines of a text without blank lines at both ends."""
    lines = whole.removeprefix("\ufeff").split("\n")
    filled = [row for row, line in enumerate(lines) if line.strip()]
    return lines[filled[0] : filled[-1] + 1] if filled else []


def _without_example(lines: list[str], old: Sequence[str], request: str) -> list[str]:
    """Remove calls at the end that only demonstrate the code, unless the file has such calls or the request asks for
    them."""
    if _SHOWS.search(request) or any(line == line.lstrip() and _EXAMPLE.match(line) for line in old):
        return lines
    known = {line.strip() for line in old} - {""}
    margin = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    for row, line in enumerate(lines[1:], 1):
        if len(line) - len(line.lstrip()) > margin or not _EXAMPLE.match(line):
            continue
        if not any(rest.strip() in known for rest in lines[row:]):
            return _lines(_joined(lines[:row]))
    return lines


def _joined(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _path(
    patch: FilePatch, lines: list[str], files: Mapping[str, ShownFile], may_create: Callable[[str], bool]
) -> tuple[str, list[str]]:
    """The file that a fence is for, "" if unknown, and its lines without a first line that only names the file."""
    heading = re.fullmatch(
        r"(?:#|//|--|/\*|<!--|;)\s*(?:file(?:name)?:\s*)?(\S+?)\s*(?:\*/|-->)?", "".join(lines[:1])
    )
    known = known_path([heading[1].lstrip("/")], files) if heading and "." in heading[1] else None
    if known and lines[0] not in files[known].lines[:1]:
        lines = lines[1:]
        if patch.new is None:
            return known, lines
    if patch.new is None:
        paths = [path for path in files if pieces_of(files[path], lines)]
        return (paths[0] if len(paths) == 1 else ""), lines
    name = patch.new.removeprefix("./")
    if path := known_path([name], files):
        return path, lines
    if may_create(name):
        return "", lines
    paths = [path for path in files if path.rpartition("/")[2] == name.rpartition("/")[2]]
    if len(paths) != 1:
        paths = list(files) if len(files) == 1 else difflib.get_close_matches(name, files, n=2, cutoff=0.8)
    return (paths[0] if len(paths) == 1 else ""), lines
