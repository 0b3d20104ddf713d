"""A model's Markdown on a terminal, printed as it arrives; printed text is never redrawn.

Prose appears word by word, code line by line, and a table once it is complete. Colors are those of the terminal's own
palette, and nothing is printed before or after a line of code, so that it can be copied. Unknown Markdown is printed as
written; no word is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from repoagent.display_text import display_width, paint, sanitize

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from pygments.lexer import Lexer

Span = tuple[str, tuple[str, ...]]  # a text and its styles
Word = list[Span]

_FENCE = re.compile(r"(`{3,}|~{3,})[ \t]*([^\s`{]*)([^`]*)$")
_HEADING = re.compile(r"(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_RULE = re.compile(r"([-*_])(?:[ \t]*\1){2,}[ \t]*$")
_ITEM = re.compile(r"([-*+]|[0-9]{1,9}[.)])([ \t]+|$)")
_DELIMITERS = re.compile(r"\|?[ \t]*:?-+:?[ \t]*(\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")
# The start of a line that may become a fence, a heading, an item or a rule; and of a line that is not prose.
_UNDECIDED = re.compile(r"[ \t]*(?:`{0,2}|~{0,2}|#{1,6}|[-*_+ \t]+|[0-9]{1,9}(?:[.)][ \t]*)?)$")
_WHOLE = re.compile(r"[ \t]*(?:```|~~~|#{1,6}[ \t]|\||>)| {4}|\t")
_MARKUP = re.compile(r"[*_`\[\]<!\\]")
# Markup that later words may close: a code span, emphasis, a link ("left-flanking" in the CommonMark specification).
_OPEN = re.compile(r"`|\*+[^\s*]|(?<!\w)_+[^\s_]|\[[^\]]*$|\]\([^)]*$")
_DEEPEST = 12  # items within items
_LONGEST_START = 256  # characters that decide the type of a line; otherwise wait for the whole line
_LONGEST_SPAN = 2_000  # characters that wait for the end of their markup, or are parsed for markup
_LONGEST_TRY = 300  # characters of open markup that are parsed again at each word
_LEAST_WIDTH = 20
_GAP = "  "  # between the columns of a table


class _Item(NamedTuple):
    """An item of a list: the columns of its mark and its text in the source, and of its text on the screen."""

    mark: int
    text: int
    indent: int


class Markdown:
    """Renders Markdown text that arrives in pieces. The output does not depend on where the pieces end.

    `width` is called for each word, because the window may be resized. Text without a style of its own gets the `base`
    styles.
    """

    def __init__(self, width: Callable[[], int], *, color: bool, base: tuple[str, ...] = ()) -> None:
        self._width, self._color, self._base = width, color, base
        self._out: list[str] = []
        # the source
        self._line_parts: list[str] = []  # the line so far, until its type is known
        self._line_size = 0
        self._in_prose = False  # the line is prose: its words are printed as they arrive
        self._word = ""
        self._pending = ""  # words with open markup
        self._items: list[_Item] = []
        self._fence: tuple[str, int] | None = None  # its mark and its indentation
        self._code = _Highlighter("")
        self._rows: list[str] = []  # of a table
        # the screen
        self._column = 0
        self._at_start = True  # of a line, or after the mark of an item
        self._wrote = self._blank = self._paragraph = False

    def feed(self, piece: str) -> str:
        """Add a piece of the text; return the output that is now complete."""
        for part in re.findall(r"[^\n]*\n|[^\n]+", piece):
            ended = part.endswith("\n")
            if self._in_prose:
                self._prose(part)
            else:
                self._line_parts.append(part)
                self._line_size += len(part)
                if ended:
                    self._line("".join(self._line_parts)[:-1].removesuffix("\r"))
                elif self._line_size <= _LONGEST_START and self._fence is None and not part.endswith("\r"):
                    self._start("".join(self._line_parts))
            if ended:
                self._end_line()
        return self._take()

    def rest(self) -> str:
        """Return the remaining output at the end of the text."""
        if self._line_parts:
            self._line("".join(self._line_parts).removesuffix("\r"))
        self._end_line()
        self._end_block()
        self._items.clear()
        self._fence, self._blank = None, False
        return self._take()

    @property
    def holds_table(self) -> bool:
        """Whether a table has begun; it is printed when it is complete."""
        return bool(self._rows)

    def _take(self) -> str:
        text = "".join(self._out)
        self._out.clear()
        return text

    # Lines of the source

    def _start(self, start: str) -> None:
        """Print the words of a line as they arrive if its start shows that it is prose."""
        text = start
        while not _UNDECIDED.match(text) and not _WHOLE.match(text):
            text = text.lstrip(" \t")
            if (item := _ITEM.match(text)) is None:
                self._line_parts.clear()
                self._line(start, ended=False)
                return
            text = text[item.end() :]

    def _line(self, text: str, *, ended: bool = True) -> None:
        """Handle a whole line, or (not `ended`) the start of a line of prose."""
        if self._fence is not None:
            mark, indent = self._fence
            code = text[min(indent, len(text) - len(text.lstrip(" "))) :]
            if not re.fullmatch(rf"[ ]*{re.escape(mark[0])}{{{len(mark)},}}[ \t]*", code):
                self._put_code(code)
                return
            if not self._color:
                self._put_line(code)
            self._fence, self._blank = None, True
        elif text.strip(" \t\r"):
            self._block(text, ended=ended)
        else:
            self._end_block()
            self._blank = True

    def _block(self, text: str, *, ended: bool) -> None:
        text = text.expandtabs(4) if text[0] in " \t" else text
        body = text.lstrip(" ")
        indent = len(text) - len(body)
        code_indent = (self._items[-1].text if self._items else 0) + 4
        if ended and body.startswith("|"):
            if not self._rows:
                self._begin(indent)
            self._rows.append(body)
            return
        if self._rows:
            self._end_block()
        if ended and (fence := _FENCE.match(body)):
            self._begin(indent)
            self._gap(force=True)
            self._newline()
            self._fence, self._code = (fence[1], indent), _Highlighter(fence[2] if self._color else "")
            if not self._color:
                self._put_line(body)
            elif fence[3].strip():  # more than the language
                self._put_line(fence[2] + fence[3], "dim")
        elif ended and (heading := _HEADING.match(body)):
            self._begin(indent)
            self._gap(force=True)
            styles = ("bold", "underline") if heading[1] == "#" else ("bold",)
            spans = [(part, own or styles) for part, own in _inline(heading[2] or "", self._color)[0]]
            self._put([("" if self._color else f"{heading[1]} ", ()), *spans])
            self._newline()
        elif ended and body.startswith(">"):
            self._begin(indent)
            self._gap()
            self._put([("│ ", ("dim",)), *_inline(body[1:], self._color)[0]])
            self._newline()
        elif ended and _RULE.match(body):
            self._begin(indent)
            self._gap()
            self._put_line("─" * min(self._room(), 40), "dim")
        elif (item := _ITEM.match(body)) and len(self._items) < _DEEPEST:
            self._begin(indent)
            self._gap()
            mark = f"{item[1] if item[1][0].isdigit() else '-'} "
            self._start_line()
            self._out.append(mark)
            self._items.append(_Item(indent, indent + item.end(), self._indent() + len(mark)))
            self._column += len(mark)
            if body[item.end() :].strip():
                self._block(" " * (indent + item.end()) + body[item.end() :], ended=ended)
        elif indent >= code_indent and not self._paragraph:
            self._begin(indent)
            self._gap()
            self._newline()
            self._put_code(text[code_indent:])
        else:
            if not (self._paragraph or self._at_mark()):
                self._begin(indent)
                self._gap()
            self._in_prose = True
            self._prose(body)

    def _end_line(self) -> None:
        if self._in_prose:
            self._end_word()
            self._in_prose, self._paragraph = False, True
        if self._pending:
            self._pending += "\n"
        else:
            self._newline()
        self._line_parts.clear()
        self._line_size = 0

    # Blocks

    def _begin(self, indent: int) -> None:
        """End the previous block, and the items that do not contain text at this indentation."""
        if not self._at_mark():
            self._end_block()
            while self._items and indent < self._items[-1].mark + 2:
                self._items.pop()

    def _gap(self, *, force: bool = False) -> None:
        """Print an empty line if the source has one, or if it is needed."""
        if not self._at_mark():
            if self._wrote and (self._blank or force):
                self._out.append("\n")
            self._blank = False

    def _end_block(self) -> None:
        """Print text that waited for the rest of its block."""
        if self._pending:
            self._commit()
        rows, self._rows = self._rows, []
        table = self._table(rows) if len(rows) > 1 and _DELIMITERS.match(rows[1]) else []
        if table:
            self._gap(force=True)
            self._newline()
            for line in table:
                self._start_line()
                self._out += [*(self._paint(text, styles) for text, styles in line), "\n"]
                self._column = 0
            self._blank = True
        elif rows:
            self._gap()
            for row in rows:
                self._put(_inline(row, self._color)[0])
                self._newline()
        self._newline()
        self._paragraph = False

    def _table(self, rows: Sequence[str]) -> list[Word]:
        """The lines of a table, cells folded between words; none if its longest words do not fit into the width."""
        cells = [_cells(row) for row in (rows[0], *rows[2:])]
        count = max(map(len, cells))
        grid = [[list(_words(_inline(cell, self._color)[0])) for cell in row] for row in cells]
        for row in grid:
            row += [[] for _ in range(count - len(row))]
        marks = [*_cells(rows[1]), *[""] * count]
        least = [max((_size(word) for row in grid for word in row[at]), default=0) for at in range(count)]
        widths = [max(_size(line) for row in grid for line in _folded(row[at], 10**6)) for at in range(count)]
        room = self._room() - self._indent() - len(_GAP) * (count - 1)
        if sum(least) > room:
            return []
        while sum(widths) > room:
            widest = max((at for at in range(count) if widths[at] > least[at]), key=lambda at: widths[at])
            widths[widest] -= 1
        rule = _GAP.join("─" * width for width in widths)
        lines: list[Word] = []
        for number, row in enumerate(grid):
            folded = [_folded(cell, width) for cell, width in zip(row, widths, strict=True)]
            for at in range(max(map(len, folded))):
                line: Word = []
                for cell_lines, width, mark in zip(folded, widths, marks, strict=False):
                    spans = cell_lines[at] if at < len(cell_lines) else []
                    padding = width - _size(spans)
                    before = padding if mark.endswith(":") else 0
                    before = padding // 2 if mark[:1] == mark[-1:] == ":" else before
                    shown = spans if number else [(text, (*styles, "bold")) for text, styles in spans]
                    line += [(" " * before, ()), *shown, (" " * (padding - before) + _GAP, ())]
                while line and not line[-1][0].strip(" "):
                    line.pop()
                lines.append(line)
            lines += [] if number else [[(rule, ("dim",))]]
        return lines

    def _put_code(self, code: str) -> None:
        spans = self._code.line(code) if self._color else [(code, ())]
        line = "".join(paint(sanitize(text), *styles) for text, styles in spans)
        self._out.append(f"{' ' * self._indent()}{line}\n" if line else "\n")
        self._wrote = True

    # Prose

    def _prose(self, text: str) -> None:
        """Handle a part of a line of prose: print the words that are complete and have no open markup."""
        for token in re.findall(r"[ \t\r\n]+|[^ \t\r\n]+", text):
            if token[0] in " \t\r\n":
                self._end_word()
            else:
                self._word += token

    def _end_word(self) -> None:
        word, self._word = self._word, ""
        if not word:
            return
        was_open = bool(self._pending)
        self._pending += f" {word}" if was_open and not self._pending.endswith("\n") else word
        if len(self._pending) > _LONGEST_SPAN:
            self._commit()
        elif not was_open or (_MARKUP.search(word) and len(self._pending) <= _LONGEST_TRY):
            spans, is_open = _inline(self._pending, self._color)
            if not is_open:
                self._commit(spans)

    def _commit(self, spans: Sequence[Span] | None = None) -> None:
        self._put(_inline(self._pending.rstrip("\n"), self._color)[0] if spans is None else spans)
        self._pending = ""

    def _put(self, spans: Sequence[Span]) -> None:
        """Print words, folding the line between them."""
        for word in _words(spans):
            if not word:
                self._newline()
                continue
            size = _size(word)
            if self._column and not self._at_start:
                if self._column + 1 + size > self._room():
                    self._newline()
                else:
                    self._out.append(" ")
                    self._column += 1
            self._start_line()
            self._out += [self._paint(text, styles) for text, styles in word]
            self._column += size
            self._at_start = False

    # The screen

    def _start_line(self) -> None:
        self._wrote = True
        if not self._column:
            self._column = self._indent()
            self._out.append(" " * self._column)

    def _newline(self) -> None:
        if self._column or not self._at_start:
            self._out.append("\n")
        self._column, self._at_start = 0, True

    def _put_line(self, text: str, *styles: str) -> None:
        """Print a line without folding it."""
        self._start_line()
        self._out.append(f"{self._paint(sanitize(text), styles)}\n")
        self._column, self._at_start = 0, True

    def _at_mark(self) -> bool:
        """Whether the mark of an item was printed last."""
        return self._at_start and bool(self._column)

    def _indent(self) -> int:
        return self._items[-1].indent if self._items else 0

    def _room(self) -> int:
        return max(_LEAST_WIDTH, self._width())

    def _paint(self, text: str, styles: Sequence[str]) -> str:
        styles = styles or self._base
        return paint(text, *styles) if self._color and text.strip(" ") else text


# Inline markup


def _inline(text: str, color: bool) -> tuple[list[Span], bool]:
    """The spans of `text`, sanitized; and whether markup in it is still open."""
    if len(text) > 2 * _LONGEST_SPAN or not _MARKUP.search(text):
        return [(sanitize(text), ())], False
    spans: list[Span] = []
    styles: list[str] = []
    targets: list[tuple[str, int]] = []
    is_open = False
    for token in _parser().parseInline(text)[0].children or ():
        title = token.attrs.get("title")
        target = str(token.attrs.get("href") or token.attrs.get("src") or "") + (
            f' "{title}"' if title else ""
        )
        match token.type:
            case "strong_open" | "strong_close" if token.markup == "__":  # __init__.py is a name
                spans.append(("__", tuple(styles)))
            case "strong_open" | "em_open":
                styles.append("bold" if token.type == "strong_open" else "italic")
            case "strong_close" | "em_close":
                styles.pop()
            case "link_open":
                targets.append((target, len(spans)))
                styles.append("underline")
            case "link_close":
                styles.pop()
                target, start = targets.pop()
                if sanitize(target) != "".join(part for part, _ in spans[start:]):
                    spans.append((sanitize(f" ({target})"), ("dim",)))
            case "image":
                spans.append((sanitize(f"{token.content} ({target})"), tuple(styles)))
            case "code_inline":
                code = sanitize(token.content)
                spans.append((code, (*styles, "cyan")) if color else (f"`{code}`", ()))
            case "softbreak" | "hardbreak":
                spans.append(("\n", ()))
            case _:
                is_open = is_open or _OPEN.search(token.content) is not None
                spans.append((sanitize(token.content), tuple(styles)))
    return spans, is_open


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    """The parser. Entities, HTML, link definitions and addresses are printed as written."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").disable(["entity", "html_inline"])
    parser.normalizeLink = parser.normalizeLinkText = str  # type: ignore[method-assign, assignment]
    return parser


def _words(spans: Sequence[Span]) -> Iterator[Word]:
    """The words, each with one or more spans; [] for the end of a line."""
    word: Word = []
    for text, styles in spans:
        for token in re.findall(r"\n|[ \t\r]+|[^ \t\r\n]+", text):
            if token[0] not in " \t\r\n":
                word.append((token, styles))
                continue
            if word:
                yield word
                word = []
            if token == "\n":
                yield []
    if word:
        yield word


def _size(spans: Sequence[Span]) -> int:
    return sum(display_width(text) for text, _ in spans)


def _folded(words: Sequence[Word], limit: int) -> list[Word]:
    """Words in lines of `limit` columns; a longer word has a line of its own."""
    lines: list[Word] = [[]]
    for word in words:
        if lines[-1] and (not word or _size(lines[-1]) + 1 + _size(word) > limit):
            lines.append([])
        elif lines[-1]:
            lines[-1].append((" ", ()))
        lines[-1] += word
    return lines


def _cells(row: str) -> list[str]:
    cells = re.split(r"(?<!\\)\|", row.strip().removeprefix("|"))
    if len(cells) > 1 and not cells[-1].strip():
        cells.pop()
    return [cell.strip().replace("\\|", "|") for cell in cells]


# Code

_LONGEST_CODE = 1_000  # characters; longer lines are not highlighted
_OPEN_LINES = 60  # lines of a string or comment, which are lexed again for each later line
_TOKENS = (  # style, prefixes of the names of its token types; the first match counts
    ("dim", ("Comment", "Generic.Prompt")),
    ("cyan", ("Keyword.Constant", "Name.Decorator", "Name.Builtin", "Name.Attribute", "Literal.Number")),
    ("magenta", ("Keyword", "Operator.Word", "Name.Tag")),
    ("bold", ("Name.Function", "Name.Class", "Generic.Heading")),
    ("green", ("Literal.String", "Generic.Inserted")),
    ("red", ("Generic.Deleted",)),
)


class _Highlighter:
    """Highlights code line by line. A line is lexed alone, or with the lines of the string or comment it is in."""

    def __init__(self, language: str) -> None:
        self._lexer = _lexer(language.lower()) if language else None
        self._open: list[str] = []

    def line(self, code: str) -> list[Span]:
        if self._lexer is None or len(code) > _LONGEST_CODE:
            return [(code, ("cyan",) if self._lexer is None else ())]
        lines = [*self._open, code]
        spans: list[Span] = []
        name = ""
        for kind, text in self._lexer.get_tokens("".join(f"{line}\n" for line in lines)):
            name = ".".join(kind)
            styles = next(((style,) for style, names in _TOKENS if name.startswith(names)), ())
            spans += [(part, styles) for part in text.splitlines(keepends=True)]
        ends = [at for at, (text, _) in enumerate(spans) if text.endswith("\n")]
        inside = name.startswith(("Literal.String", "Comment")) and "Single" not in name
        self._open = lines if inside and len(lines) <= _OPEN_LINES else []
        last = spans[ends[-2] + 1 :] if len(ends) > 1 else spans
        return [(text.removesuffix("\n"), styles) for text, styles in last]


@lru_cache(maxsize=32)
def _lexer(language: str) -> Lexer | None:
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        return get_lexer_by_name(language, stripnl=False)
    except ClassNotFound:
        return None
