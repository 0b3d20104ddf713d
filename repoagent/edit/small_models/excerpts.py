"""Excerpts for small models: parts of a long file, cut at definitions, which the model sees and rewrites as a whole."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from repoagent.dataclass import dataclass
from repoagent.edit.prompt.blocks import model_text, name_in_prose
from repoagent.edit.prompt.formats import WHOLE_LINES
from repoagent.edit.small_models.code_repairs import frozen_words
from repoagent.git.files import Source
from repoagent.patch.model import decode_text
from repoagent.patch.render import diff_ranges

if TYPE_CHECKING:
    from repoagent.syntax.symbol import Symbol

# Common names of definitions that are also common words in requests: such a name alone proves nothing.
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
# "add a method render": the request is not about an existing definition of that name.
_ADDS = (
    r"\b(?:add|create|introduce|write|new)\s+(?:(?:an?|the|new|static|async|private|public|method|function|class|option|"
    r"command|helper|property|field|test|called|named)\s+)*`?"
)


def mentioned_definitions(
    symbols: Sequence[Symbol], words: str, limit: int, *, plain: bool = False, sure: bool = False
) -> list[Symbol]:
    """The definitions whose names occur in the text `words`.

    A name that is also a common word counts only next to a word like "function", written as `name` or name(), or if the
    text contains only names (`plain`). Of other names that may be words, only the first counts; with `sure`, none. If a
    container and its members are named, only the members count. A container of more than `limit` lines is cut after its
    first member.
    """
    ranks: dict[int, list[Symbol]] = {0: [], 1: [], 2: []}
    lowered = words.lower()
    for symbol in symbols:
        if symbol.name.lower() in lowered:  # a fast test that excludes most definitions of a long file
            ranks[_rank(symbol, words, plain=plain)].append(symbol)
    matching = ranks[2]
    if not matching and not sure:
        matches = {s.name: _word(s.name, words) for s in ranks[1]}
        first = min(((match.start(), name) for name, match in matches.items() if match), default=None)
        matching = [s for s in ranks[1] if first and s.name == first[1]]
    qualified = [s for s in matching if "." in s.qualified_name and _word(s.qualified_name, words)]
    matching = [s for s in matching if s in qualified or all(s.name != q.name for q in qualified)]
    result = []
    for symbol in matching:
        if any(_contains(symbol, inner) for inner in matching):
            continue
        members = [s for s in symbols if _contains(symbol, s) and s.depth == symbol.depth + 1]
        if members and symbol.last_line - symbol.first_line >= limit:
            symbol = replace(symbol, last_line=members[0].last_line)
        result.append(symbol)
    return result


def _rank(symbol: Symbol, words: str, *, plain: bool) -> int:
    """The confidence that the text names the symbol: 2, 1, or 0 if it does not."""
    name, escaped = symbol.name, re.escape(symbol.name)
    if symbol.kind == "heading":
        match = re.search(rf"(?<!\w){escaped}(?!\w)", words, re.IGNORECASE)
        return 2 if match and len(name) > 3 else 0
    if not _word(name, words) or re.search(rf"{_ADDS}{escaped}\b", words, re.IGNORECASE):
        return 0
    unlike_a_word = re.search(r"[_\d.:#-]|[a-z][A-Z]|^[A-Z]{2}", name.strip("_")) or name.startswith("_")
    marked = re.search(
        rf"`[^`]*\b{escaped}\b[^`]*`|\b{escaped}\s?\(|[.:]{escaped}\b|\b{escaped}\b\s+(?:function|method|class|"
        rf"command|key|section|test|hook|helper|struct)|(?:function|method|class|def|key|called|named|struct)\s+{escaped}\b",
        words,
    )
    dotted = "." in symbol.qualified_name and _word(symbol.qualified_name, words)
    if plain or unlike_a_word or marked or dotted:
        return 2
    return 0 if name.lower() in _PLAIN else 1


def _word(name: str, words: str) -> re.Match[str] | None:
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", words)


def _contains(outer: Symbol, inner: Symbol) -> bool:
    return outer is not inner and outer.first_line <= inner.first_line and inner.last_line <= outer.last_line


MOST_WINDOWS = 4
NEAR = 6  # lines between two parts that are merged
KEYS = 40  # lines of the longest key that is shown as a whole
_BODIES = frozenset({"function", "method"})
# "as sortBy does", "like the one of postgres": an example to follow, not to change.
_LIKE = (
    r"\b(?:as|like|than|similar to|following|see)\s+"
    r"(?:(?:the|one|ones|way|of|in|that|for|method|function|does|do)\s+)*`?"
)
QUOTED = re.compile(r"`([^`\n]{2,200})`|\"([^\"\n]{2,200})\"|(?<!\w)'([^'\n]{2,200})'(?!\w)")


@dataclass(frozen=True)
class FilePart:
    """Lines `first` to `last` of a file as read (from 1, inclusive), and the names that they define."""

    path: str
    first: int
    last: int
    names: tuple[str, ...] = ()


def find_windows(
    path: str, data: bytes, instruction: str, ranges: Sequence[tuple[int, int]], limit: int
) -> tuple[FilePart, ...]:
    """The parts of the file that a request is about, in file order; empty if unclear.

    `ranges` are the line ranges that the user named; without any, the names and quotations in `instruction` decide. The
    parts have at most about `limit` lines in total.
    """
    lines, symbols = _outlined(path, data)
    if not lines:
        return ()
    if ranges:
        return _windows(path, lines, symbols, ranges, limit)
    frozen, models = frozen_words(instruction), _models(symbols, instruction)
    rest = [s for s in symbols if s not in models and not {s.name, s.qualified_name} & frozen]
    if named := mentioned_definitions(rest, instruction, limit) or mentioned_definitions(
        symbols, instruction, limit
    ):
        return _windows(path, lines, symbols, _spans(named), limit)
    rows = []
    for match in QUOTED.finditer(instruction):
        quote = next(group for group in match.groups() if group)
        matching = [number for number, line in enumerate(lines, 1) if quote in line]
        if len(matching) == 1:
            rows.append((matching[0], matching[0]))
    return _windows(path, lines, symbols, rows, limit)


def definitions_question(path: str, data: bytes, instruction: str) -> str:
    """The prompt that asks a model which definitions of a file a request is about; "" if the file has no outline."""
    names = list(dict.fromkeys(s.qualified_name for s in _outlined(path, data)[1] if s.depth < 2))[:120]
    if not names:
        return ""
    listed = "\n".join(names)
    return (
        f"The file {path} defines:\n\n{listed}\n\nThe request: {instruction.strip()}\n\n"
        "Which of these have to change? Answer with the names only, one per line, at most three."
    )


def answered_windows(path: str, data: bytes, answer: str, limit: int) -> tuple[FilePart, ...]:
    """The parts named in the answer to `definitions_question`; empty if the answer names no definitions or too many
    lines."""
    lines, symbols = _outlined(path, data)
    named = mentioned_definitions(symbols, answer, limit, plain=True)
    return _windows(path, lines, symbols, _spans(named), limit)


def _outlined(path: str, data: bytes) -> tuple[Sequence[str], Sequence[Symbol]]:
    """The lines and the definitions of a file; none if it is binary."""
    from repoagent.syntax.outline import outline

    text = decode_text(data)
    return ((), ()) if text is None else (text.lines, outline(path, data))


def _spans(symbols: Iterable[Symbol]) -> list[tuple[int, int]]:
    return [(symbol.first_line, symbol.last_line) for symbol in symbols]


def _models(symbols: Sequence[Symbol], instruction: str) -> list[Symbol]:
    """The definitions that the instruction names as examples to follow."""
    lowered = instruction.lower()
    named = [s for s in symbols if s.name.lower() in lowered]
    return [s for s in named if re.search(rf"{_LIKE}{re.escape(s.name)}\b", instruction, re.IGNORECASE)]


def _windows(
    path: str, lines: Sequence[str], symbols: Sequence[Symbol], ranges: Iterable[tuple[int, int]], limit: int
) -> tuple[FilePart, ...]:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(_around(first, last, symbols, lines, limit) for first, last in ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        elif merged and first <= merged[-1][1] + NEAR and last - merged[-1][0] < limit // 2:
            merged[-1] = (merged[-1][0], last)
        else:
            merged.append((first, last))
    if len(merged) > MOST_WINDOWS or sum(last - first + 1 for first, last in merged) > limit:
        return ()
    windows = []
    for first, last in merged:
        outer: list[Symbol] = []  # the outermost definitions that are completely in these lines
        for s in symbols:
            inside = first <= s.first_line and _trimmed(s.first_line, s.last_line, lines)[1] <= last
            if inside and (not outer or s.first_line > outer[-1].last_line):
                outer.append(s)
        windows.append(FilePart(path, first, last, tuple(symbol.qualified_name for symbol in outer)))
    return tuple(windows)


def _around(
    first: int, last: int, symbols: Sequence[Symbol], lines: Sequence[str], limit: int
) -> tuple[int, int]:
    """The definition around these lines: the function, else the smallest container, else their block."""
    last = min(last, len(lines))
    outer = [s for s in symbols if s.first_line <= first and last <= s.last_line]
    small = [s for s in outer if s.last_line - s.first_line < limit]
    if small:
        bodies = [
            s for s in small if s.kind in _BODIES or (s.kind == "key" and s.last_line - s.first_line < KEYS)
        ]
        exact = [s for s in bodies if (s.first_line, s.last_line) == (first, last) and first < last]
        chosen = (exact or bodies or small[-1:])[0]
        return _trimmed(chosen.first_line, chosen.last_line, lines)
    touched = [s for s in symbols if s.first_line <= last and first <= s.last_line]
    if touched and not outer:
        wide = min(first, touched[0].first_line), max(last, *(s.last_line for s in touched))
        if wide[1] - wide[0] < limit:
            return _trimmed(*wide, lines)
    low, high = (outer[-1].first_line, outer[-1].last_line) if outer else (1, len(lines))
    while first > low and lines[first - 2].strip() and last - first < limit // 2:
        first -= 1
    while last < high and lines[last].strip() and last - first < limit // 2:
        last += 1
    return _trimmed(first, last, lines)


def _trimmed(first: int, last: int, lines: Sequence[str]) -> tuple[int, int]:
    """Exclude blank lines at both ends, because models drop them."""
    last = min(last, len(lines))
    while first < last and not lines[first - 1].strip():
        first += 1
    while last > first and not lines[last - 1].strip():
        last -= 1
    return first, last


def window_now(window: FilePart, before: Source, after: Source) -> FilePart:
    """Translate `window` from the lines of `before` to those of `after`; the result has at least one line."""
    texts = [decode_text(source.data or b"") for source in (before, after)]
    old, new = (() if text is None else text.lines for text in texts)
    first, last = rows_now(window, old, new)
    return replace(window, first=first + 1, last=max(last, first + 1))


def rows_now(window: FilePart, before: Sequence[str], after: Sequence[str]) -> tuple[int, int]:
    """The rows of `after` (from 0, end exclusive) that correspond to the window in `before`."""
    first, last = window.first - 1, window.last
    start, end = first, last
    for i1, i2, j1, j2 in diff_ranges(before, after):
        if i2 <= first and i1 < first:
            start = first + j2 - i2
        elif i1 < first < i2:
            start = j1
        if i1 < last or i1 == i2 == last:
            end = last + j2 - i2 if i2 <= last else j2
    return start, max(start, end)


def file_excerpt(source: Source, windows: Sequence[FilePart] | None, instruction: str) -> str:
    """The prompt block for a file, or for its parts `windows`, that the model must rewrite as a whole.

    The block begins with the definitions that the request names as examples. It omits the outline and the rest of the
    file: Qwen2.5-Coder-1.5B would also rewrite nearby code, and invent bodies for the outline.
    """
    from repoagent.syntax.languages import language_of

    path, data = source.path, source.data or b""
    if source.data is None:
        return f"File {name_in_prose(path)} does not exist yet: create it.\n\n"
    language = language_of(path, data) or ""
    if language == "bash" and not re.search(rb"bash|zsh|ksh", data.split(b"\n", 1)[0]):
        language = "sh"  # otherwise a model uses syntax of bash

    def fenced(text: str) -> str:
        mark = fence_mark(text)
        end = "" if text.endswith("\n") or not text else "\n"
        return f"{mark}{language}\n{text}{end}{mark}\n"

    if windows is None:
        return f"{name_in_prose(path)}:\n{fenced(model_text(data))}\n"
    lines, symbols = _outlined(path, data)
    models = _models(symbols, instruction)
    examples: tuple[FilePart, ...] = ()
    if mentioned_definitions(
        [symbol for symbol in symbols if symbol not in models], instruction, WHOLE_LINES
    ):
        examples = _windows(path, lines, symbols, _spans(models), WHOLE_LINES)
    blocks = []
    for window in (*examples, *windows):
        is_example = window in examples
        part = " and ".join(window.names) or ("lines" if is_example else "this part")
        label = f"{part} of {name_in_prose(path)}{', only to read' * is_example}"
        blocks.append(f"{label}:\n{fenced(shown_text(source, [window]))}\n")
    return "".join(blocks)


def shown_text(source: Source, windows: Sequence[FilePart]) -> str:
    """The text of a file, or of its parts `windows`, to rewrite."""
    text = model_text(source.data or b"")
    if not windows or source.data is None:
        return text
    lines = text.removesuffix("\n").split("\n")
    return "".join(f"{line}\n" for window in windows for line in lines[window.first - 1 : window.last])


def fence_mark(text: str) -> str:
    """A mark for a fence around the text, such that no line of the text closes the fence."""
    starts = re.findall(r"^ *(`{3,}|~{3,})", text, re.MULTILINE)
    if not any(run.startswith("`") for run in starts):
        return "```"
    if not any(run.startswith("~") for run in starts):
        return "~~~"
    return "`" * (1 + max(map(len, starts)))
