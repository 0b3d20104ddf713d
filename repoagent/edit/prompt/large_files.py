"""Files that are too long for a prompt: which ones, their outline within a budget, and the parts to show.

`read_part` is what one `read` of a model shows: lines, or characters of one long line."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING

from repoagent.dataclass import dataclass
from repoagent.edit.prompt.blocks import named, quoted, shown
from repoagent.edit.prompt.relevance import (
    WORD,
    About,
    Query,
    Touched,
    Unit,
    choose,
    known_terms,
    read_query,
    units,
)
from repoagent.edit.request import EditRequest
from repoagent.errors import UsageError
from repoagent.git.files import Source
from repoagent.llm.model import fence

if TYPE_CHECKING:
    from repoagent.syntax.symbol import Symbol

LONGEST, SHORT = 110, 45  # characters of a signature
LONGEST_NAME = 60
SPLIT_BYTES = 5  # that a line of names takes more when it becomes two
GAP_BYTES = 45  # of a line that says what is left out
NEAR = 8  # definitions on both sides of a part that is shown


def file_map(symbols: Sequence[Symbol], shown: Sequence[Unit], query: Query, room: int) -> str:
    """One line for each definition: its lines, and its signature indented by depth; at most about `room` bytes.

    Without room for all, signatures are shortened, then definitions are only named, then only counted. These come
    first: what is shown and its parents, its neighbors, definitions with a word of the request in their name, outer
    before inner ones.
    """
    if not symbols:
        return ""
    best = [_line(symbol, LONGEST) for symbol in symbols]
    if _bytes(best) <= room:
        return "".join(best)
    order = sorted(range(len(symbols)), key=_importance(symbols, shown, query))
    names = [_name(symbol) for symbol in symbols]
    named = _fitting(order, [_bytes([name, ", "]) for name in names], room * 3 // 4)
    lines: dict[int, str] = {}
    left = room - _bytes([_drawn(symbols, names, named, lines)])
    for longest in (SHORT, LONGEST):
        for number in order:
            line = _line(symbols[number], longest)
            if number in lines:
                cost = _bytes([line]) - _bytes([lines[number]])
            else:
                cost = (
                    _bytes([line])
                    + SPLIT_BYTES
                    - (_bytes([names[number]]) if number in named else -GAP_BYTES)
                )
            if cost <= left:
                lines[number] = line
                left -= cost
    return _drawn(symbols, names, named, lines)


def _drawn(
    symbols: Sequence[Symbol], names: Sequence[str], named: Collection[int], lines: Mapping[int, str]
) -> str:
    """Those with lines as these, the others by their names or, where they have no room either, counted."""
    out: list[str] = []
    how = {number: "line" if number in lines else "name" for number in (*named, *lines)}
    for kind, numbers in groupby(range(len(symbols)), key=how.get):
        run = list(numbers)
        if kind == "line":
            out += [lines[number] for number in run]
        else:
            out.append(
                f"… {', '.join(names[number] for number in run)}\n"
                if kind
                else _gap([symbols[number] for number in run])
            )
    return "".join(out)


def _bytes(texts: Iterable[str]) -> int:
    return sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)


def _fitting(order: Sequence[int], sizes: Sequence[int], room: int) -> set[int]:
    """As many of the first in `order` as fit, with the lines that say what is left out between them."""
    kept: set[int] = set()
    left = room - GAP_BYTES
    for number in order:
        beside = (number - 1 in kept) + (number + 1 in kept)
        cost = sizes[number] + GAP_BYTES * (1 - beside)
        if cost <= left:
            kept.add(number)
            left -= cost
    return kept


def _importance(
    symbols: Sequence[Symbol], shown: Sequence[Unit], query: Query
) -> Callable[[int], tuple[float, int]]:
    """What a definition is sorted by: smaller is more important."""
    inside = _near(symbols, shown)
    words = {word for word, weight in query.words.items() if weight >= 1}
    known = known_terms({word for symbol in symbols for word in WORD.findall(symbol.name)}, query)
    told = {
        number: words.intersection(term for word in WORD.findall(symbol.name) for term in known.get(word, ()))
        for number, symbol in enumerate(symbols)
        if known
    }
    named = Counter(word for found in told.values() for word in found)

    def key(number: int) -> tuple[float, int]:
        if number in inside:
            return inside[number], number
        if found := told.get(number):
            return NEAR - sum(1 / named[word] for word in found), number
        evenly = (number & -number) or len(symbols)  # the higher the power of two, the fewer have it
        return NEAR + 1 + symbols[number].depth - evenly / (len(symbols) + 1), number

    return key


def _near(symbols: Sequence[Symbol], shown: Sequence[Unit]) -> dict[int, float]:
    """Of the definitions that are shown, hold what is shown, or stand next to it: how far away they are, from 0."""
    found: dict[int, float] = {}
    starts = [symbol.first_line for symbol in symbols]
    for unit in shown:
        low, high = bisect_left(starts, unit.first), bisect_right(starts, unit.last)
        for number in range(max(0, low - NEAR), min(len(symbols), high + NEAR)):
            away = max(low - number, number - high + 1, 0)
            found[number] = min(found.get(number, away), away)
        depth = None
        for number in range(low - 1, -1, -1):  # what holds the first line
            if depth == 0:
                break
            if depth is None or symbols[number].depth < depth:
                depth = symbols[number].depth
                if symbols[number].last_line >= unit.first:
                    found[number] = -1.0
    return found


def _name(symbol: Symbol) -> str:
    return f"{' '.join(symbol.name.split())[:LONGEST_NAME]} {symbol.first_line}"


def _line(symbol: Symbol, longest: int) -> str:
    where = (
        f"{symbol.first_line}-{symbol.last_line}"
        if symbol.last_line > symbol.first_line
        else f"{symbol.first_line}"
    )
    signature = (
        symbol.signature if len(symbol.signature) <= longest else symbol.signature[: longest - 1] + "…"
    )
    return f"{where}  {'  ' * symbol.depth}{signature}\n"


def _gap(left_out: Sequence[Symbol]) -> str:
    first, last = left_out[0], max(left_out, key=lambda symbol: symbol.last_line)
    what = "definition" + "s" * (len(left_out) != 1)
    return f"… {len(left_out)} more {what} (lines {first.first_line}-{last.last_line})\n"


@dataclass(frozen=True)
class Read:
    """Lines `first` to `last` or `characters` of one line (from 1, both inclusive). `rest` says how to continue if
    it was cut."""

    text: str
    first: int
    last: int
    characters: tuple[int, int] | None = None
    rest: str = ""


def read_part(text: str, lines: str, characters: str, most: int) -> Read:
    """The part given by `lines` ("10-40", "" for all) and `characters` ("1-2000", of one line), at most `most`
    characters: whole lines, or the beginning of a longer line.

    Raises UsageError for an invalid range or one outside the file.
    """
    rows = text.split("\n")
    if len(rows) > 1 and not rows[-1]:
        rows.pop()
    first, last = _range("lines", lines, len(rows), "the file, which has {:,} lines")
    if characters:
        if first != last:
            raise UsageError('characters needs one line: add, for example, lines="1"')
        return _piece(rows[first - 1], first, characters, most)
    size = 0
    for number in range(first, last + 1):
        size += len(rows[number - 1]) + 1
        if size > most + 1:
            if number == first:
                return _piece(rows[first - 1], first, f"1-{most}", most)
            rest = f'Lines {number}-{last} are omitted: read them with lines="{number}-{last}".'
            return Read("\n".join(rows[first - 1 : number - 1]), first, number - 1, rest=rest)
    return Read("\n".join(rows[first - 1 : last]), first, last)


def _piece(line: str, number: int, characters: str, most: int) -> Read:
    first, last = _range("characters", characters, len(line), "line {}, which has {:,} characters", number)
    last = min(last, first + most - 1)
    rest = ""
    if last < len(line):
        rest = (
            f"Line {number} has {len(line):,} characters: continue with "
            f'lines="{number}" characters="{last + 1}-{min(len(line), last + most)}".'
        )
    return Read(line[first - 1 : last], number, number, (first, last), rest)


def _range(name: str, text: str, count: int, whole: str, *of: int) -> tuple[int, int]:
    if not text.strip():
        return 1, count
    first, _, last = text.partition("-")
    try:
        start = max(1, int(first))
        end = min(count, int(last)) if last.strip() else start
    except ValueError:
        raise UsageError(f'{name}="{text}" is not a range; write {name}="10-40"') from None
    if start > end or start > count:
        raise UsageError(f'{name}="{text}" is outside {whole.format(*of, count)}')
    return start, end


INLINE_BYTES = 64 * 1024
PARTS_BYTES, MAP_BYTES = 24 * 1024, 6 * 1024  # of one file, at most
LEAST_BYTES = 3 * 1024  # of one file, however many there are
BYTES_A_TOKEN = 3  # as `estimate_tokens` counts
SPARE_TOKENS = 1_000  # for the words between the blocks


@dataclass(frozen=True)
class Budget:
    """The bytes of a long file's parts and of its outline in a prompt."""

    parts: int
    map: int


def room_for_files(window: int | None, output_tokens: int, other_tokens: int) -> int | None:
    """The bytes of a model's window left for files besides its reply and the other blocks; None for an unknown
    window."""
    if window is None:
        return None
    left = window - min(output_tokens, window // 2) - other_tokens - SPARE_TOKENS
    return max(0, left) * BYTES_A_TOKEN


def limit_for(inline: int, window: int | None) -> int:
    """The size in bytes above which a file may be too long."""
    return inline if window is None else min(inline, window * BYTES_A_TOKEN // 4)


def too_long(sizes: Mapping[str, int], inline: int, room: int | None) -> dict[str, Budget]:
    """The files not to show whole, with their budgets: those above `inline`, and the longest ones that do not fit
    `room`. Together they take about as much as one inline file and half of the rest of `room`; the other half is
    for what the model reads."""
    left = room
    cut: list[str] = []
    waiting = len(sizes)
    for path in sorted(sizes, key=sizes.__getitem__):
        share = sizes[path] if left is None else left // waiting
        if sizes[path] <= min(inline, share):
            left = None if left is None else left - sizes[path]
        else:
            cut.append(path)
        waiting -= 1
    if not cut:
        return {}
    all_of_them = max(inline, LEAST_BYTES) if left is None else min(max(inline, LEAST_BYTES), left // 2)
    each = max(LEAST_BYTES, min(PARTS_BYTES + MAP_BYTES, all_of_them // max(2, len(cut))))
    shown = Budget(
        each * PARTS_BYTES // (PARTS_BYTES + MAP_BYTES), each * MAP_BYTES // (PARTS_BYTES + MAP_BYTES)
    )
    return dict.fromkeys(cut, shown)


LONG_LINE = 2_000  # characters of a line that hardly any person wrote


@dataclass(frozen=True)
class Excerpt:
    """The shown parts of a file in order, and its outline (or ""). `lines` and `size` are those of the whole file,
    `longest` the characters of its longest line."""

    parts: tuple[Unit, ...]
    outline: str
    lines: int
    size: int
    longest: int


@lru_cache(maxsize=8)  # what a prompt holds is asked for more than once
def excerpt_of(path: str, data: bytes, about: About, room: Budget) -> Excerpt:
    """The parts of a file that a request is about, and its outline, within `room`. Raises Refused for a binary file."""
    from repoagent.syntax.outline import outline

    text = shown(data)
    lines = text.split("\n")
    encoded = text.encode("utf-8", "surrogatepass")
    symbols = outline(path, encoded)
    parts = tuple(choose(path, units(path, text), symbols, about, room.parts))
    return Excerpt(
        parts,
        file_map(symbols, parts, read_query(about.request, path), room.map),
        len(lines) - (lines[-1] == ""),
        len(encoded),
        max(map(len, lines)),
    )


def large_block(source: Source, role: str, excerpt: Excerpt) -> str:
    """The block of a long file, in fences that nothing in it can end."""
    name = named(source.path)
    remarks = [f"{excerpt.lines:,} lines", f"{excerpt.size:,} bytes", "too long to show in full"]
    if excerpt.lines == 1:
        remarks[0] = "1 line"
    if excerpt.longest > LONG_LINE:
        remarks.append(f"its longest line has {excerpt.longest:,} characters")
    said = [f"File {name} ({role}; {', '.join(remarks)}). Only {_where(excerpt.parts)} are shown."]
    if excerpt.outline:
        said += ["Its outline:", fence(excerpt.outline, f"outline path={quoted(source.path)}")]
    said += _fenced(source, excerpt.parts)
    return "\n".join(said) + "\n\n"


def bare_block(source: Source, excerpt: Excerpt) -> str:
    """The block for a model without tools that copies what it sees: only the parts."""
    said = [
        f"File {named(source.path)}, of which only {_where(excerpt.parts)} are shown. Change only what is shown."
    ]
    return "\n".join([*said, *_fenced(source, excerpt.parts)]) + "\n\n"


def _fenced(source: Source, parts: Sequence[Unit]) -> list[str]:
    path = quoted(source.path)
    return [fence(part.text, f'file path={path} lines="{_lines(part)}"{_characters(part)}') for part in parts]


def _lines(part: Unit) -> str:
    return f"{part.first}-{part.last}" if part.last > part.first else f"{part.first}"


def _characters(part: Unit) -> str:
    """The piece of its line, from 1, as `read` takes it."""
    return f' characters="{part.columns[0] + 1}-{part.columns[1]}"' if part.columns else ""


def _where(parts: Sequence[Unit]) -> str:
    """Which lines are shown, in words."""
    whole = [_lines(part) for part in parts if part.columns is None]
    cut: dict[int, list[str]] = {}
    for part in parts:
        if part.columns:
            cut.setdefault(part.first, []).append(f"{part.columns[0] + 1}-{part.columns[1]}")
    said = ["lines " + ", ".join(whole)] if whole else []
    said += [f"characters {', '.join(pieces)} of line {line}" for line, pieces in cut.items()]
    return " and ".join(said)


@dataclass(frozen=True)
class FileContext:
    """Limits for showing files: the configured limit in bytes, the model's window in tokens (None if unknown), and
    the tokens of the reply and of other blocks. `bare`: for a model without tools."""

    inline: int = INLINE_BYTES
    window: int | None = None
    output_tokens: int = 0
    other_tokens: int = 0
    bare: bool = False
    recent: Mapping[str, tuple[Touched, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Long:
    """The block of a file that is not shown whole, and the shown lines (from 1, both inclusive)."""

    text: str
    lines: tuple[tuple[int, int], ...]


def long_files(sources: Iterable[Source], request: EditRequest, around: FileContext) -> dict[str, Long]:
    """The blocks of those files that are too long to show in full, by path."""
    known = {source.path: source for source in sources if source.data is not None and not source.binary}
    room = room_for_files(around.window, around.output_tokens, around.other_tokens)
    sizes = {path: len(source.data or b"") for path, source in known.items()}
    found = {}
    for path, share in too_long(sizes, around.inline, room).items():
        source = known[path]
        places = tuple(
            (target.first, target.last or target.first)
            for target in request.targets
            if target.path == path and target.first is not None
        )
        about = About(request.instruction, places, around.recent.get(path, ()))
        excerpt = excerpt_of(path, source.data or b"", about, share)
        role = "file to edit" if path in request.paths else "for reading only"
        text = bare_block(source, excerpt) if around.bare else large_block(source, role, excerpt)
        found[path] = Long(text, tuple((part.first, part.last) for part in excerpt.parts))
    return found
