"""A model's Markdown on a terminal, printed as it arrives; printed text is never redrawn.

Prose appears word by word, code line by line, and a table once it is complete. Each line keeps its indentation. Colors
are those of the terminal's own palette, and nothing is printed before or after a line of code, so that it can be
copied. Unknown Markdown is printed as written; no word is left out.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from io import StringIO
from typing import TYPE_CHECKING

from repoagent.display_text import display_width, paint, sanitize

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from pygments.formatters import TerminalFormatter
    from pygments.lexer import Lexer
    from rich.console import JustifyMethod

Span = tuple[str, tuple[str, ...]]  # a text and its styles

_ITEM = re.compile(r"([ \t]*)(?:([-*+]|[0-9]{1,9}[.)])(?:[ \t]+|(?=\r?\n)))?")
_FENCE = re.compile(r"(?:(?:[-*+]|[0-9]{1,9}[.)])[ \t]+)?(`{3,}|~{3,})[ \t]*([^`]*)$")
_HEADING = re.compile(r"(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?$")
_INDENTED = re.compile(r"(?: {4}| {0,3}\t)[ \t]*[^ \t\r\n]")
_RULE = re.compile(r"([-*_])(?:[ \t]*\1){2,}$")
_DELIMITERS = re.compile(r"\|?[ \t]*:?-+:?[ \t]*(\|[ \t]*:?-+:?[ \t]*)*\|?$")
# The start of a line of prose or of an item: a word that begins nothing else, and the space after it.
_PROSE = re.compile(
    r"[ \t]*(?:(?:[-*+]|[0-9]{1,9}[.)])[ \t]+)?"
    r"(?!```|~~~|#{1,6}[ \t]|[|>]|(?:[-*+_]+|[0-9]{1,9}[.)])[ \t])[^ \t\r]+[ \t]"
)
_MARKUP = re.compile(r"[*_`\[\]<!\\]")
# Markup that later words may close: a code span, emphasis, a link ("left-flanking" in the CommonMark specification).
_OPEN = re.compile(r"`|\*+[^\s*]|(?<!\w)_+[^\s_]|\[[^\]]*$|\]\([^)]*$")
_LONGEST_START = 256  # characters that decide the type of a line; otherwise wait for the whole line
_LONGEST_OPEN = 300  # characters that wait for the end of their markup
_LONGEST_PARSED = 4_000  # characters; longer text is printed as written
_LONGEST_CODE = 1_000  # characters; longer lines are not highlighted
_OPEN_LINES = 60  # lines of a string or comment, which are lexed again for each later line
_LEAST_WIDTH = 20


class Markdown:
    """Renders Markdown text that arrives in pieces. The output does not depend on where the pieces end.

    `width` is called for each word, because the window may be resized. Text without a style of its own gets the `base`
    styles.
    """

    def __init__(self, width: Callable[[], int], *, color: bool, base: tuple[str, ...] = ()) -> None:
        self._width, self._color, self._base = width, color, base
        self._out: list[str] = []
        self._line = ""  # the line so far, until its type is known
        self._in_prose = False  # the line is prose: its words are printed as they arrive
        self._word = ""
        self._pending = ""  # words with open markup
        self._fence = ""  # the mark that began the code
        self._lexer: Lexer | None = None  # for the code
        self._string: list[str] = []  # lines of the code, in a string or comment that has not ended
        self._rows: list[str] = []  # of a table
        self._column = self._hang = (
            0  # on the screen; of the first word, below which a long line is continued
        )
        self._in_list = self._in_code = False  # the last line is part of a list, is indented code
        self._wrote = self._blank = False  # something was printed; an empty line comes before the next block

    def feed(self, piece: str) -> str:
        """Add a piece of the text; return the output that is now complete."""
        for part in re.findall(r"[^\n]*\n|[^\n]+", piece):
            if self._in_prose:
                self._add(part)
                continue
            self._line += part
            if part.endswith("\n"):
                self._end_line()
            elif (
                not self._fence
                and len(self._line) <= _LONGEST_START
                and _PROSE.match(self._line)
                and not self._is_code(self._line)
            ):
                line, self._line = self._line, ""
                self._follow_list(line)
                self._begin_prose(line)
        return self._take()

    def rest(self) -> str:
        """Return the remaining output at the end of the text."""
        if self._in_prose:
            self._add("\n")
        elif self._line:
            self._end_line()
        self._end_table()
        self._fence, self._blank, self._in_list = "", False, False
        return self._take()

    @property
    def holds_table(self) -> bool:
        """Whether a table has begun; it is printed when it is complete."""
        return bool(self._rows)

    def _take(self) -> str:
        text = "".join(self._out)
        self._out.clear()
        return text

    def _end_line(self) -> None:
        """Handle a whole line of the source."""
        line, self._line = self._line, ""
        text = line.rstrip("\r\n")
        body = text.strip(" \t\r")
        if self._fence and body.startswith(self._fence) and not body.strip(self._fence[0]):
            self._fence, self._blank = "", True
            self._out += [] if self._color else [f"{text}\n"]
        elif self._fence:
            self._out.append(f"{self._highlighted(sanitize(text))}\n")
        elif self._is_code(line):
            self._start()
            self._out += [self._paint(sanitize(text), ("cyan",)), "\n"]
            self._in_code = True
        else:
            self._follow_list(line)
            self._end_block(text, body)

    def _end_block(self, text: str, body: str) -> None:
        """Handle a whole line that is not code. `body` is the line `text` without the white space around it."""
        if body.startswith("|"):
            self._rows.append(body)
        elif not body:
            self._end_table()
            self._blank = True
        elif fence := _FENCE.match(body):
            self._fence, self._string, self._blank = fence[1], [], True
            self._lexer = None
            info = fence[2].split()
            if self._color and info:
                from pygments.lexers import get_lexer_by_name
                from pygments.util import ClassNotFound

                with suppress(ClassNotFound):
                    self._lexer = get_lexer_by_name(info[0].lower(), stripnl=False)
            self._start()
            if not (self._color and body.startswith(fence[1]) and len(info) < 2):
                self._out += [self._paint(sanitize(text), ("dim",)), "\n"]
        elif _RULE.match(body):
            self._print_line([("─" * min(self._room(), 40), ("dim",))])
        elif heading := _HEADING.match(body):
            self._blank = True
            styles = ("bold", "underline") if heading[1] == "#" else ("bold",)
            spans = [(part, own or styles) for part, own in _inline(heading[2] or "", self._color)[0]]
            self._print_line(spans, "" if self._color else f"{heading[1]} ")
        elif body.startswith(">"):
            self._print_line(_inline(body[1:], self._color)[0], "│ ")
        else:
            self._begin_prose(f"{text}\n")

    def _is_code(self, line: str) -> bool:
        """Whether a line is indented code: outside a list, at the start of a block or below such a line."""
        starts = self._blank or self._in_code or not self._wrote
        return starts and not self._in_list and _INDENTED.match(line) is not None

    def _follow_list(self, line: str) -> None:
        """Note whether a line that is not code is part of a list: an item, or indented below one."""
        if line.strip() and (item := _ITEM.match(line)):
            self._in_list = bool(item[2]) or (self._in_list and bool(item[1]))

    def _begin_prose(self, line: str) -> None:
        """Print the indentation and the mark of a line of prose, and its first words."""
        item = _ITEM.match(line)
        assert item is not None  # it matches any text
        mark = item[2] or ""
        self._in_prose = True
        self._start(
            " " * min(len(item[1].expandtabs(4)), self._room() // 2)
            + (f"{mark if mark[0].isdigit() else '-'} " if mark else "")
        )
        self._add(line[item.end() :])

    def _print_line(self, spans: Sequence[Span], prefix: str = "") -> None:
        self._start(prefix)
        self._put(spans)
        self._out.append("\n")

    def _start(self, prefix: str = "") -> None:
        """Begin a line with a prefix, after the empty line that is due."""
        self._end_table()
        self._out += ["\n"] * (self._blank and self._wrote) + [prefix]
        self._column = self._hang = len(prefix)
        self._wrote, self._blank, self._in_code = True, False, False

    def _end_table(self) -> None:
        """Print the rows of a table: laid out, or as written if its longest words do not fit into the width."""
        rows, self._rows = self._rows, []
        if not rows:
            return
        self._blank = True
        table = (
            _table(rows, self._room(), self._color) if len(rows) > 1 and _DELIMITERS.match(rows[1]) else ""
        )
        if table:
            self._start()
            self._out.append(table)
        else:
            for row in rows:
                self._print_line(_inline(row, self._color)[0])
        self._blank = bool(table)

    def _highlighted(self, code: str) -> str:
        """A line of code in color. It is lexed alone, or with the lines of the string or comment it is in."""
        if not self._color or self._lexer is None or len(code) > _LONGEST_CODE:
            return paint(code, "cyan") if self._color and self._lexer is None else code
        from pygments.token import Comment, String

        lines = [*self._string, code]
        tokens = list(self._lexer.get_tokens("".join(f"{line}\n" for line in lines)))
        is_inside = tokens[-1][0] in String or tokens[-1][0] in Comment.Multiline
        self._string = lines if is_inside and len(lines) <= _OPEN_LINES else []
        shown = StringIO()
        _formatter().format(tokens, shown)
        return shown.getvalue().removesuffix("\n").rpartition("\n")[2]

    def _add(self, text: str) -> None:
        """Handle a part of a line of prose: print the words that are complete and have no open markup."""
        for token in re.findall(r"[ \t\r\n]+|[^ \t\r\n]+", text):
            if token[0] not in " \t\r\n":
                self._word += token
                continue
            if self._word:
                self._pending += f" {self._word}" if self._pending else self._word
                self._word = ""
            spans, is_open = _inline(self._pending, self._color)
            if not is_open or len(self._pending) > _LONGEST_OPEN or token.endswith("\n"):
                self._put(spans)
                self._pending = ""
            if token.endswith("\n"):
                self._out.append("\n")
                self._in_prose = False

    def _put(self, spans: Sequence[Span]) -> None:
        """Print words, folding the line between them."""
        for word in _words(spans):
            size = sum(display_width(text) for text, _ in word)
            if self._column > self._hang:
                fits = self._column + 1 + size <= self._room()
                self._out.append(" " if fits else "\n" + " " * self._hang)
                self._column = self._column + 1 if fits else self._hang
            self._out += [self._paint(text, styles) for text, styles in word]
            self._column += size

    def _room(self) -> int:
        return max(_LEAST_WIDTH, self._width())

    def _paint(self, text: str, styles: Sequence[str]) -> str:
        styles = styles or self._base
        return paint(text, *styles) if self._color and text.strip(" ") else text


def _inline(text: str, color: bool) -> tuple[list[Span], bool]:
    """The spans of `text`, a line or a part of it, sanitized; and whether markup in it is still open."""
    if len(text) > _LONGEST_PARSED or not _MARKUP.search(text):
        return [(sanitize(text), ())], False
    spans: list[Span] = []
    styles: list[str] = []
    targets: list[tuple[str, int]] = []
    is_open = False
    for token in _parser().parseInline(text)[0].children or ():
        target = " ".join(
            str(token.attrs[name]) for name in ("href", "src", "title") if token.attrs.get(name)
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
            case _:
                is_open = is_open or _OPEN.search(token.content) is not None
                spans.append((sanitize(token.content), tuple(styles)))
    return spans, is_open


@cache
def _parser() -> MarkdownIt:
    """The parser. Entities, HTML, link definitions and addresses are printed as written."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").disable(["entity", "html_inline"])
    parser.normalizeLink = parser.normalizeLinkText = str  # type: ignore[method-assign, assignment]
    return parser


def _words(spans: Sequence[Span]) -> Iterator[list[Span]]:
    """The words, each with one or more spans."""
    word: list[Span] = []
    for text, styles in spans:
        for token in re.findall(r"[ \t\r\n]+|[^ \t\r\n]+", text):
            if token[0] not in " \t\r\n":
                word.append((token, styles))
            elif word:
                yield word
                word = []
    if word:
        yield word


def _table(rows: Sequence[str], width: int, color: bool) -> str:
    """The table as text; "" if it does not fit into the width."""
    from rich import box
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text

    def texts(row: str) -> list[Text]:
        spans = (_inline(cell, color)[0] for cell in _cells(row))
        return [Text.assemble(*((text, " ".join(styles)) for text, styles in cell)) for cell in spans]

    table = Table(
        box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, border_style="dim", header_style="bold"
    )
    marks = _cells(rows[1])
    heads = texts(rows[0])
    for head, mark in zip(heads, [*marks, *["-"] * len(heads)], strict=False):
        justify: JustifyMethod = "left" if not mark.endswith(":") else "center" if mark[0] == ":" else "right"
        table.add_column(head, justify=justify, overflow="fold")  # no word is cut
    for row in rows[2:]:
        table.add_row(*texts(row))
    out = StringIO()
    console = Console(
        file=out,
        width=width,
        height=25,  # without it, rich ignores the width if TERM is dumb
        force_terminal=color,
        color_system="standard" if color else None,
        highlight=False,
    )
    if Measurement.get(console, console.options.update(max_width=sys.maxsize), table).minimum > width:
        return ""
    console.print(table)
    return "".join(f"{line.rstrip(' ')}\n" for line in out.getvalue().splitlines())


def _cells(row: str) -> list[str]:
    cells = re.split(r"(?<!\\)\|", row.strip().removeprefix("|"))
    if len(cells) > 1 and not cells[-1].strip():
        cells.pop()
    return [cell.strip().replace("\\|", "|") for cell in cells]


@cache
def _formatter() -> TerminalFormatter:
    from pygments.formatters import TerminalFormatter
    from pygments.token import string_to_tokentype

    colors = {
        "": "", "Comment": "faint", "Generic.Prompt": "faint", "Keyword": "magenta", "Operator.Word": "magenta",
        "Name.Tag": "magenta", "Keyword.Constant": "cyan", "Name.Decorator": "cyan", "Name.Builtin": "cyan",
        "Name.Attribute": "cyan", "Literal.Number": "cyan", "Name.Function": "bold", "Name.Class": "bold",
        "Generic.Heading": "bold", "Literal.String": "green", "Generic.Inserted": "green", "Generic.Deleted": "red",
    }  # fmt: skip
    scheme = {string_to_tokentype(name): (color, color) for name, color in colors.items()}
    return TerminalFormatter(colorscheme=scheme)
