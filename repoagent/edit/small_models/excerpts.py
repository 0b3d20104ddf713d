"""Excerpts for small models: parts of a long file, cut at definitions, that are shown and rewritten as a whole.

A part is found by the place that the user pointed at, or by names and quotations in the request; failing that,
`question` asks a model for names. Text outside the part stays the same, to the byte."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from repoagent.dataclass import dataclass
from repoagent.edit.prompt.blocks import named, shown
from repoagent.edit.small_models.code_repairs import frozen_words
from repoagent.git.files import Source
from repoagent.patch.model import decode
from repoagent.patch.render import differing

if TYPE_CHECKING:
    from repoagent.syntax.symbol import Symbol

# Definitions are called so, and so are half of the verbs in requests: such a name alone says nothing.
_PLAIN = frozenset(
    re.findall(
        r"\w+",
        """
        add all and any apply build call change check class clear close copy count create data default delete do
        each end error exit file filter find first fix for format get handle has help in index init insert is item
        items join key keys last len line lines list load log make map max merge message min move name new next not
        of on open or parse path print process put read remove rename render replace report request reset result
        return run save search send set show size sort split start state stop string sum test tests text the time to
        type update use user value values version with word words write
        """,
    )
)
# What a request adds is not there yet: a definition that happens to have its name is not meant.
_ADDS = (
    r"\b(?:add|create|introduce|write|new)\s+(?:(?:an?|the|new|static|async|private|public|method|function|class|option|"
    r"command|helper|property|field|test|called|named)\s+)*`?"
)


def mentioned(
    symbols: Sequence[Symbol], words: str, limit: int, *, plain: bool = False, sure: bool = False
) -> list[Symbol]:
    """The definitions that a text names, verbatim.

    A name that is also a plain word counts only next to "function" and the like, or as `name`, name(), or if `plain`
    says that the text contains only names; of names that may be words, the first counts, because what a request is
    about comes first. With `sure` none of these do. If a container and its members are named, the members count.
    """
    certain: list[Symbol] = []
    likely: list[Symbol] = []
    lowered = words.lower()
    for symbol in symbols:
        if symbol.name.lower() not in lowered:  # nearly all, in a long file
            continue
        rank = _rank(symbol, words, plain=plain)
        if rank:
            (certain if rank == 2 else likely).append(symbol)
    found = certain or ([] if sure else _first_named(likely, words))
    full = [s for s in found if "." in s.qualified_name and _has(s.qualified_name, words)]
    found = [s for s in found if s in full or all(s.name != other.name for other in full)]
    holders = [s for s in found if any(_holds(s, other) for other in found)]
    return [_head(s, symbols, limit) for s in found if s not in holders]


def _first_named(likely: Sequence[Symbol], words: str) -> list[Symbol]:
    places = {s.name: re.search(rf"(?<![\w-]){re.escape(s.name)}(?![\w-])", words) for s in likely}
    order = sorted((match.start(), name) for name, match in places.items() if match)
    return [s for s in likely if order and s.name == order[0][1]]


def _rank(symbol: Symbol, words: str, *, plain: bool) -> int:
    """How surely the text names the symbol: 2, 1, or 0 for not at all."""
    name = symbol.name
    if symbol.kind == "heading":
        return (
            2 if len(name) > 3 and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", words, re.IGNORECASE) else 0
        )
    if not _has(name, words) or re.search(rf"{_ADDS}{re.escape(name)}\b", words, re.IGNORECASE):
        return 0
    unlike_a_word = re.search(r"[_\d.:#-]|[a-z][A-Z]|^[A-Z]{2}", name.strip("_")) or name.startswith("_")
    escaped = re.escape(name)
    marked = re.search(
        rf"`[^`]*\b{escaped}\b[^`]*`|\b{escaped}\s?\(|[.:]{escaped}\b|\b{escaped}\b\s+(?:function|method|class|"
        rf"command|key|section|test|hook|helper|struct)|(?:function|method|class|def|key|called|named|struct)\s+{escaped}\b",
        words,
    )
    if plain or unlike_a_word or marked or _has(symbol.qualified_name, words, dotted=True):
        return 2
    return 0 if name.lower() in _PLAIN else 1


def _has(name: str, words: str, *, dotted: bool = False) -> bool:
    if dotted and "." not in name:
        return False
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", words) is not None


def _holds(outer: Symbol, inner: Symbol) -> bool:
    return outer is not inner and outer.first_line <= inner.first_line and inner.last_line <= outer.last_line


def _head(symbol: Symbol, symbols: Sequence[Symbol], limit: int) -> Symbol:
    """A holder that is too long to be written again, without all its members but the first."""
    members = [s for s in symbols if _holds(symbol, s) and s.depth == symbol.depth + 1]
    if symbol.last_line - symbol.first_line < limit or not members:
        return symbol
    return replace(symbol, last_line=members[0].last_line)


MOST_WINDOWS = 4
NEAR = 6  # lines between two parts that are then shown as one
KEYS = 40  # lines of a table of keys that is shown for one of them
_BODIES = frozenset({"function", "method"})
# "as sortBy does", "like the one of postgres": to be looked at, not to be changed.
_LIKE = (
    r"\b(?:as|like|than|similar to|following|see)\s+"
    r"(?:(?:the|one|ones|way|of|in|that|for|method|function|does|do)\s+)*`?"
)
_QUOTED = re.compile(r"`([^`\n]{2,200})`|\"([^\"\n]{2,200})\"|(?<!\w)'([^'\n]{2,200})'(?!\w)")


@dataclass(frozen=True)
class Window:
    """Lines `first` to `last` of a file as it was read (from 1, both inclusive), and what they define."""

    path: str
    first: int
    last: int
    names: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Its name in a sentence."""
        lines = f"lines {self.first}-{self.last}" if self.last > self.first else f"line {self.first}"
        return f"{' and '.join(self.names)} ({lines})" if self.names else lines


def find_windows(
    path: str, data: bytes, instruction: str, places: Sequence[tuple[int, int]], limit: int
) -> tuple[Window, ...]:
    """The parts of the file that a request is about, in file order; none if unclear.

    `places` are lines that the user pointed at (from 1, both inclusive); without any, the names and quotations in
    `instruction` decide. All parts together have at most about `limit` lines.
    """
    from repoagent.syntax.outline import outline

    text = decode(data)
    if text is None or not text.lines:
        return ()
    symbols = outline(path, data)
    if not places:
        aside = {*_alike(symbols, instruction), *_staying(symbols, instruction)}
        rest = [symbol for symbol in symbols if symbol not in aside]
        named = mentioned(rest, instruction, limit) or mentioned(symbols, instruction, limit)
        places = [(s.first_line, s.last_line) for s in named]
        places = places or _quoted(text.lines, instruction)
    return _windows(path, text.lines, symbols, places, limit)


def find_models(path: str, data: bytes, instruction: str, limit: int) -> tuple[Window, ...]:
    """The parts of the file that a request names as examples ("as sortBy does")."""
    from repoagent.syntax.outline import outline

    text = decode(data)
    if text is None:
        return ()
    symbols = outline(path, data)
    alike = _alike(symbols, instruction)
    if not mentioned([symbol for symbol in symbols if symbol not in alike], instruction, limit):
        return ()
    return _windows(path, text.lines, symbols, [(s.first_line, s.last_line) for s in alike], limit)


def _alike(symbols: Sequence[Symbol], instruction: str) -> list[Symbol]:
    """What is to be followed."""
    lowered = instruction.lower()
    named = [s for s in symbols if s.name.lower() in lowered]
    return [s for s in named if re.search(rf"{_LIKE}{re.escape(s.name)}\b", instruction, re.IGNORECASE)]


def _staying(symbols: Sequence[Symbol], instruction: str) -> list[Symbol]:
    """What shall stay as it is."""
    stays = frozen_words(instruction)
    return [symbol for symbol in symbols if {symbol.name, symbol.qualified_name} & stays]


def _windows(
    path: str, lines: Sequence[str], symbols: Sequence[Symbol], places: Iterable[tuple[int, int]], limit: int
) -> tuple[Window, ...]:
    found = [_around(first, last, symbols, lines, limit) for first, last in places]
    merged: list[tuple[int, int]] = []
    for first, last in sorted(found):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        elif merged and first <= merged[-1][1] + NEAR and last - merged[-1][0] < limit // 2:
            merged[-1] = (merged[-1][0], last)
        else:
            merged.append((first, last))
    if len(merged) > MOST_WINDOWS or sum(last - first + 1 for first, last in merged) > limit:
        return ()
    return tuple(Window(path, first, last, _names(symbols, lines, first, last)) for first, last in merged)


def _around(
    first: int, last: int, symbols: Sequence[Symbol], lines: Sequence[str], limit: int
) -> tuple[int, int]:
    """The definition around these lines: the function, else the smallest thing that holds them, else their block."""
    last = min(last, len(lines))
    holding = [s for s in symbols if s.first_line <= first and last <= s.last_line]
    small = [s for s in holding if s.last_line - s.first_line < limit]
    bodies = [
        s for s in small if s.kind in _BODIES or (s.kind == "key" and s.last_line - s.first_line < KEYS)
    ]
    if small:
        itself = [s for s in bodies if (s.first_line, s.last_line) == (first, last) and first < last]
        chosen = (itself or bodies or small[-1:])[0]
        return _trimmed(chosen.first_line, chosen.last_line, lines)
    touched = [s for s in symbols if s.first_line <= last and first <= s.last_line and s not in holding]
    if touched and not holding:
        wide = min(first, touched[0].first_line), max(last, *(s.last_line for s in touched))
        if wide[1] - wide[0] < limit:
            return _trimmed(*wide, lines)
    low, high = (holding[-1].first_line, holding[-1].last_line) if holding else (1, len(lines))
    while first > low and lines[first - 2].strip() and last - first < limit // 2:
        first -= 1
    while last < high and lines[last].strip() and last - first < limit // 2:
        last += 1
    return _trimmed(first, last, lines)


def _trimmed(first: int, last: int, lines: Sequence[str]) -> tuple[int, int]:
    """Without the blank lines at both ends: models drop them."""
    last = min(last, len(lines))
    while first < last and not lines[first - 1].strip():
        first += 1
    while last > first and not lines[last - 1].strip():
        last -= 1
    return first, last


def _names(symbols: Sequence[Symbol], lines: Sequence[str], first: int, last: int) -> tuple[str, ...]:
    """The outermost definitions that lie wholly in these lines."""
    inside = [
        s for s in symbols if first <= s.first_line and _trimmed(s.first_line, s.last_line, lines)[1] <= last
    ]
    outer: list[Symbol] = []
    for symbol in inside:
        if not outer or symbol.first_line > outer[-1].last_line:
            outer.append(symbol)
    return tuple(symbol.qualified_name for symbol in outer)


def _quoted(lines: Sequence[str], instruction: str) -> list[tuple[int, int]]:
    """The lines that hold what the instruction quotes, each if only one line does."""
    found = []
    for match in _QUOTED.finditer(instruction):
        quote = next(group for group in match.groups() if group)
        rows = [number for number, line in enumerate(lines, 1) if quote in line]
        if len(rows) == 1:
            found.append((rows[0], rows[0]))
    return found


def question(path: str, data: bytes, instruction: str) -> str:
    """The question which part of a file a request is about; "" without an outline."""
    from repoagent.syntax.outline import outline

    names = list(dict.fromkeys(s.qualified_name for s in outline(path, data) if s.depth < 2))[:120]
    if not names:
        return ""
    listed = "\n".join(names)
    return (
        f"The file {path} defines:\n\n{listed}\n\nThe request: {instruction.strip()}\n\n"
        "Which of these have to change? Answer with the names only, one per line, at most three."
    )


def answered_windows(path: str, data: bytes, answer: str, limit: int) -> tuple[Window, ...]:
    """The parts named in the answer to `question`; none if it names nothing, or too much."""
    from repoagent.syntax.outline import outline

    text, symbols = decode(data), outline(path, data)
    if text is None:
        return ()
    named = mentioned(symbols, answer, limit, plain=True)
    return _windows(path, text.lines, symbols, [(s.first_line, s.last_line) for s in named], limit)


def rows_now(window: Window, before: Sequence[str], now: Sequence[str]) -> tuple[int, int]:
    """The rows of `now` (from 0, end exclusive) that correspond to the window in `before`."""
    first, last = window.first - 1, window.last
    start, end = first, last
    for i1, i2, j1, j2 in differing(before, now):
        if i2 <= first and i1 < first:
            start = first + j2 - i2
        elif i1 < first < i2:
            start = j1
        if i1 < last or i1 == i2 == last:
            end = last + j2 - i2 if i2 <= last else j2
    return start, max(start, end)


def whole_text(source: Source) -> str:
    """The block of a file that is rewritten as a whole."""
    if source.data is None:
        return f"File {named(source.path)} does not exist yet: create it.\n\n"
    return f"{named(source.path)}:\n{_fenced(_language(source), shown(source.data))}\n"


def excerpt(source: Source, windows: Sequence[Window], others: Sequence[Window] = ()) -> str:
    """The blocks of a file of which only `windows` are to be edited; `others` are for reading.

    No outline, no line numbers, no head of the file: Qwen2.5-Coder-1.5B takes everything near the part for code to
    write, and invents the bodies of what an outline lists.
    """
    lines = shown(source.data or b"").removesuffix("\n").split("\n")
    name, language = named(source.path), _language(source)
    said = []
    for other in others:
        what = " and ".join(other.names) or "lines"
        said.append(f"{what} of {name}, only to read:\n{_fenced(language, _part(lines, other))}")
    for window in windows:
        what = " and ".join(window.names) or "this part"
        said.append(f"{what} of {name}:\n{_fenced(language, _part(lines, window))}")
    return "\n".join(said) + "\n"


def _part(lines: Sequence[str], window: Window) -> str:
    return _joined(lines[window.first - 1 : window.last])


def shown_text(source: Source, windows: Sequence[Window]) -> str:
    """The text of a file that is to be rewritten."""
    if not windows or source.data is None:
        return shown(source.data or b"")
    lines = shown(source.data).split("\n")
    return "".join(_joined(lines[window.first - 1 : window.last]) for window in windows)


def fence_mark(text: str) -> str:
    """A fence mark that no line of the text ends."""
    starts = re.findall(r"^ *(`{3,}|~{3,})", text, re.MULTILINE)
    if not any(run.startswith("`") for run in starts):
        return "```"
    if not any(run.startswith("~") for run in starts):
        return "~~~"
    return "`" * (1 + max(map(len, starts)))


def _language(source: Source) -> str:
    """What a fence says; of a script for any shell not "bash", or a model writes what only bash knows."""
    from repoagent.syntax.languages import language_of

    data = source.data or b""
    found = language_of(source.path, data) or ""
    first = data.split(b"\n", 1)[0]
    return "sh" if found == "bash" and not re.search(rb"bash|zsh|ksh", first) else found


def _fenced(language: str, text: str) -> str:
    mark = fence_mark(text)
    end = "" if text.endswith("\n") or not text else "\n"
    return f"{mark}{language}\n{text}{end}{mark}\n"


def _joined(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
