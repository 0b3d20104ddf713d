"""Decide which files are too long for a prompt, show parts and an outline of each, and read parts of a file."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from repoagent.dataclass import dataclass
from repoagent.display_text import plural, truncate
from repoagent.edit.prompt.blocks import model_text, name_in_prose, quote_path
from repoagent.edit.request import EditRequest
from repoagent.errors import Refused, UsageError
from repoagent.git.files import Source
from repoagent.llm.model import fence

if TYPE_CHECKING:
    from repoagent.edit.prompt.relevance import Relevance, RequestTerms, TextUnit, Touched
    from repoagent.syntax.symbol import Symbol

LONGEST = 110  # characters of a signature
LONGEST_NAME = 60
PARTS_BYTES, MAP_BYTES = 24 * 1024, 6 * 1024  # of one file, at most
LEAST_BYTES = 3 * 1024  # of one file, for any number of files
BYTES_A_TOKEN = 3  # as in `estimate_tokens`
SPARE_TOKENS = 1_000  # for the text between the blocks


@dataclass(frozen=True)
class Budget:
    """The maximum sizes of a long file's parts and of its outline in a prompt, in bytes."""

    parts: int
    map: int


def too_long(sizes: Mapping[str, int], inline: int, room: int | None) -> dict[str, Budget]:
    """The files that are too long to show in full, with their budgets.

    These are the files above `inline` bytes and, if the others together exceed `room` bytes, the longest of the others.
    All budgets together are about the size of one inline file, or half of the remaining `room` if that is less.
    """
    left, waiting = room, len(sizes)
    cut: list[str] = []
    for path in sorted(sizes, key=sizes.__getitem__):
        share = sizes[path] if left is None else left // waiting
        if sizes[path] > min(inline, share):
            cut.append(path)
        elif left is not None:
            left -= sizes[path]
        waiting -= 1
    most = max(inline, LEAST_BYTES)
    total = most if left is None else min(most, left // 2)
    per_file = max(LEAST_BYTES, min(PARTS_BYTES + MAP_BYTES, total // max(2, len(cut))))
    parts, outline = (per_file * share // (PARTS_BYTES + MAP_BYTES) for share in (PARTS_BYTES, MAP_BYTES))
    return dict.fromkeys(cut, Budget(parts, outline))


@dataclass(frozen=True)
class Excerpt:
    """The parts of a file to show, and its outline."""

    parts: tuple[TextUnit, ...]
    outline: str


@lru_cache(maxsize=8)  # a prompt is built more than once
def excerpt_of(path: str, data: bytes, about: Relevance, budget: Budget) -> Excerpt:
    """The parts of a file that a request is about, and its outline. Raises Refused for a binary file."""
    from repoagent.edit.prompt.relevance import choose_parts, read_query, split_units
    from repoagent.syntax.outline import outline

    text = model_text(data)
    symbols = outline(path, text.encode("utf-8", "surrogatepass"))
    parts = tuple(choose_parts(path, split_units(path, text), symbols, about, budget.parts))
    return Excerpt(parts, file_map(symbols, parts, read_query(about.request, path), budget.map))


class Long(NamedTuple):
    """The prompt block of a file that is not shown in full, and the line ranges that the block shows."""

    text: str
    lines: tuple[tuple[int, int], ...]


def long_files(
    sources: Iterable[Source],
    request: EditRequest,
    inline: int,
    room: int | None,
    recent: Mapping[str, tuple[Touched, ...]],
    *,
    bare: bool,
) -> dict[str, Long]:
    """The blocks of the files that are too long to show in full, by path; see `too_long`. With `bare`, a block has only
    the parts, for a small model, which copies what it sees."""
    known = {source.path: source for source in sources if source.data is not None and not source.binary}
    sizes = {path: len(source.data or b"") for path, source in known.items()}
    blocks = {}
    for path, budget in too_long(sizes, inline, room).items():
        from repoagent.edit.prompt.relevance import Relevance

        data = known[path].data or b""
        about = Relevance(request.instruction, tuple(request.lines_in(path)), recent.get(path, ()))
        excerpt = excerpt_of(path, data, about, budget)
        if bare and not excerpt.parts:
            raise Refused(f"the lines of {path} are too long for this model: use one with a larger window")
        shown = tuple((part.first, part.last) for part in excerpt.parts)
        ranges = [f"{first}-{last}" if last > first else f"{first}" for first, last in shown]
        only = (
            f"only lines {', '.join(ranges)} are shown."
            if ranges
            else "none is shown: its lines are too long."
        )
        quoted = quote_path(path)
        if bare:
            text = [f"File {name_in_prose(path)}, of which {only} Change only what is shown."]
        else:
            role = "file to edit" if path in request.paths else "for reading only"
            lines = model_text(data)
            count = plural(lines.count("\n") + (not lines.endswith("\n")), "line")
            size = f"{count}, {len(lines.encode('utf-8', 'surrogatepass')):,} bytes, too long to show in full"
            text = [f"File {name_in_prose(path)} ({role}; {size}). {only.capitalize()}"]
            if excerpt.outline:
                text += ["Its outline:", fence(excerpt.outline, f"outline path={quoted}")]
        for part, lines in zip(excerpt.parts, ranges, strict=True):
            text.append(fence(part.text, f'file path={quoted} lines="{lines}"'))
        blocks[path] = Long("\n".join(text) + "\n\n", shown)
    return blocks


def file_map(symbols: Sequence[Symbol], parts: Sequence[TextUnit], query: RequestTerms, budget: int) -> str:
    """The outline of a file: one line for each definition, with its line numbers and signature, indented by depth.

    To stay within about `budget` bytes, only names are listed, and then definitions are only counted, starting with the
    least important.
    """
    order = _by_importance(symbols, parts, query)
    lines = []
    for symbol in symbols:
        ends = f"-{symbol.last_line}" if symbol.last_line > symbol.first_line else ""
        signature = truncate(symbol.signature, LONGEST)
        lines.append(f"{symbol.first_line}{ends}  {'  ' * symbol.depth}{signature}\n")
    names = [f"{' '.join(symbol.name.split())[:LONGEST_NAME]} {symbol.first_line}" for symbol in symbols]

    def drawn(full: int, named: int) -> str:
        """The outline with lines for the definitions in `order` up to number `full`, and names up to `named`; the
        others are counted."""
        how = dict.fromkeys(order[:named], "name") | dict.fromkeys(order[:full], "line")
        text = []
        for form, group in groupby(range(len(symbols)), key=how.get):
            run = list(group)
            if form == "line":
                text += [lines[number] for number in run]
            elif form == "name":
                text.append(f"… {', '.join(names[number] for number in run)}\n")
            else:
                last = max(symbols[number].last_line for number in run)
                noun = "definition" if len(run) == 1 else "definitions"
                text.append(f"… {len(run)} more {noun} (lines {symbols[run[0]].first_line}-{last})\n")
        return "".join(text)

    def most(limit: int, draw: Callable[[int], str], bytes: int) -> int:
        return bisect_right(
            range(1, limit + 1), bytes, key=lambda count: len(draw(count).encode("utf-8", "surrogatepass"))
        )

    if len((whole := "".join(lines)).encode("utf-8", "surrogatepass")) <= budget:
        return whole
    named = most(len(symbols), lambda count: drawn(0, count), budget * 3 // 4)
    return drawn(most(named, lambda count: drawn(count, named), budget), named)


def _by_importance(symbols: Sequence[Symbol], parts: Sequence[TextUnit], query: RequestTerms) -> list[int]:
    """The indexes of the definitions: the shown ones, then those named with a word of the request, rare words first,
    then outer before inner ones."""
    from repoagent.edit.prompt.relevance import WORD, known_terms

    known = known_terms({word for symbol in symbols for word in WORD.findall(symbol.name)}, query)
    terms = [
        query.words.intersection(term for word in WORD.findall(symbol.name) for term in known.get(word, ()))
        for symbol in symbols
    ]
    count = Counter(word for own in terms for word in own)
    starts, shown = [symbol.first_line for symbol in symbols], set[int]()
    for part in parts:
        shown.update(range(bisect_left(starts, part.first), bisect_right(starts, part.last)))

    def key(number: int) -> tuple[bool, float, int, int]:
        named = sum(1 / count[word] for word in terms[number])
        return number not in shown, -named, symbols[number].depth, number

    return sorted(range(len(symbols)), key=key)


@dataclass(frozen=True)
class Read:
    """A part of a file that was read. Line and character numbers start at 1, and ranges are inclusive."""

    text: str
    first: int
    last: int
    characters: tuple[int, int] | None = None  # of one line
    rest: str = ""  # how to read on, if `text` was cut


def read_part(text: str, lines: str, characters: str, most: int) -> Read:
    """Read `lines` ("10-40", "" for all) or `characters` ("1-2000", of one line) of a text, at most `most` characters.

    Raises UsageError for an invalid range, or for a range outside the file.
    """
    rows = text.split("\n")
    if len(rows) > 1 and not rows[-1]:
        rows.pop()
    first, last = _range("lines", lines, len(rows), f"the file, which has {len(rows):,} lines")
    line = rows[first - 1]
    if characters and first != last:
        raise UsageError('`characters` needs a single line: add, for example, lines="1"')
    if characters or len(line) > most:
        size = len(line)
        whole = f"line {first}, which has {size:,} characters"
        start, end = _range("characters", characters or f"1-{most}", size, whole)
        end = min(end, start + most - 1)
        rest = f'lines="{first}" characters="{end + 1}-{min(size, end + most)}"'
        rest = f"Line {first} has {size:,} characters: continue with {rest}." if end < size else ""
        return Read(line[start - 1 : end], first, first, (start, end), rest)
    size = 0
    for number in range(first, last + 1):
        size += len(rows[number - 1]) + 1
        if size > most + 1:
            rest = f'Lines {number}-{last} are omitted: read them with lines="{number}-{last}".'
            return Read("\n".join(rows[first - 1 : number - 1]), first, number - 1, rest=rest)
    return Read("\n".join(rows[first - 1 : last]), first, last)


def _range(name: str, text: str, count: int, whole: str) -> tuple[int, int]:
    if not text.strip():
        return 1, count
    first, _, last = text.partition("-")
    try:
        start = max(1, int(first))
        end = min(count, int(last)) if last.strip() else start
    except ValueError:
        raise UsageError(f'{name}="{text}" is not a range such as {name}="10-40"') from None
    if start > end or start > count:
        raise UsageError(f'{name}="{text}" is outside {whole}')
    return start, end
