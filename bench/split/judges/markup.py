"""Judge JSON (also with comments), CSS, HTML and XML by scanning brackets, braces and tags.

Omitted HTML end tags are implied. In HTML, h1 to h6, `dt`, `th` and `summary` are heads of their next sibling.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from bench.split.judges.trees import SLASHES
from bench.split.judges.trees import read as read_script
from bench.split.marks import NOTHING, Item, Marks

_TOKEN = re.compile(
    rb"""<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)|<\?.*?(?:\?>|\Z)|<!(?:[^>\[]|\[[^\]]*\])*>"""
    rb"""|</(?P<shut>[A-Za-z_][^\s>/]*)[^>]*>|<(?P<open>[A-Za-z_][^\s>/]*)(?:[^>"']|"[^"]*"|'[^']*')*>|[^<]+|<""",
    re.DOTALL,
)
_VOID = set(b"area base br col embed hr img input link meta param source track wbr".split())
_RAW = (b"script", b"style", b"textarea", b"title")
_INLINE = set(
    b"""a abbr acronym b bdi bdo big br button cite code data del dfn em font i img input ins kbd label map mark meter
    output q rp rt ruby s samp select small span strike strong sub sup time tt u var wbr rdef rfc2119 rref pref sref
    pdef""".split()
)
_BLOCKS = set(
    b"""address article aside blockquote center details dialog dir div dl fieldset figcaption figure footer form h1 h2
    h3 h4 h5 h6 header hgroup hr main menu nav ol p pre section summary table ul""".split()
)
# Start tags that end an open element (the key), unless a `_SCOPE` element is open inside it.
_ENDS = {
    b"p": _BLOCKS, b"li": {b"li"}, b"dt": {b"dt", b"dd"}, b"dd": {b"dt", b"dd"}, b"option": {b"option", b"optgroup"},
    b"tr": {b"tr", b"tbody", b"tfoot", b"thead"}, b"td": {b"td", b"th", b"tr", b"tbody", b"tfoot"},
    b"th": {b"td", b"th", b"tr", b"tbody", b"tfoot"}, b"thead": {b"tbody", b"tfoot"}, b"tbody": {b"tbody", b"tfoot"},
    b"head": {b"body"}, b"optgroup": {b"optgroup"}, b"rt": {b"rt", b"rp"}, b"rp": {b"rt", b"rp"},
}  # fmt: skip
_SCOPE = set(b"table ul ol dl div section select template body html article".split())
_HEADINGS = set(b"h1 h2 h3 h4 h5 h6 dt th summary".split())


@dataclass
class _Element:
    name: bytes
    start: int
    content: int  # end of its start tag
    end: int = -1
    close: int = -1  # start of its end tag, -1 without one
    children: list[_Element | tuple[str, int, int]] = field(default_factory=list)


def marks(kind: str, text: bytes) -> Marks:
    """Units: elements, comments, and in HTML runs of text with inline elements."""
    html = kind == "html"
    result = Marks(text, NOTHING)
    pending = [_read(text, html)]
    while pending:
        element = pending.pop()
        inner = [child for child in element.children if isinstance(child, _Element)]
        pending.extend(inner)
        _mark(result, element, html)
    return result


def _read(text: bytes, html: bool) -> _Element:
    root = _Element(b"", 0, 0, len(text))
    stack = [root]
    at = 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        assert token is not None
        start, at = token.span()
        name = token["open"] or token["shut"]
        name = name.lower() if html and name else name
        if token["open"]:
            if html:
                _imply(stack, name, _trimmed(text, start))
            element = _Element(name, start, at)
            stack[-1].children.append(element)
            if token[0].endswith(b"/>") or (html and name in _VOID):
                element.end = at
                continue
            stack.append(element)
            if html and name in _RAW:
                closing = re.compile(rb"</" + name + rb"\b", re.IGNORECASE).search(text, at)
                stop = closing.start() if closing else len(text)
                element.children.append(("raw", at, stop))
                at = stop
        elif token["shut"]:
            if any(one.name == name for one in stack[1:]):
                while stack[-1].name != name:
                    stack.pop().end = _trimmed(text, start)
                stack[-1].close, stack[-1].end = start, at
                stack.pop()
        elif token[0].startswith(b"<!--"):
            stack[-1].children.append(("comment", start, at))
        elif token[0].strip():
            body = token[0]
            first, last = start + len(body) - len(body.lstrip()), at - len(body) + len(body.rstrip())
            stack[-1].children.append(("text", first, last))
    for element in stack[1:]:
        element.end = len(text)
    return root


def _trimmed(text: bytes, end: int) -> int:
    while end and text[end - 1 : end].isspace():
        end -= 1
    return end


def _imply(stack: list[_Element], name: bytes, start: int) -> None:
    """End the open elements that the start tag `name` implies to be complete."""
    for number in range(len(stack) - 1, 0, -1):
        open_one = stack[number].name
        if name in _ENDS.get(open_one, ()):
            for element in stack[number:]:
                element.end = start
            del stack[number:]
            _imply(stack, name, start)
            return
        if open_one in _SCOPE:
            return


def _mark(marks: Marks, element: _Element, html: bool) -> None:
    """Mark the children of an element as units, and its seams."""
    raw = next((child for child in element.children if isinstance(child, tuple) and child[0] == "raw"), None)
    close = (element.close, element.end) if element.close >= 0 else None
    head = element.start if element.name else None
    if raw is not None:
        _raw(marks, element, raw[1], raw[2], close)
        return
    marks.container(_items(marks, element, html), head, close, element.name.decode(errors="replace"))


def _items(marks: Marks, element: _Element, html: bool) -> list[Item]:
    items: list[Item] = []
    run: list[Item] = []  # text and inline elements

    def done() -> None:
        if run:
            items.append(Item(run[0].start, run[-1].end, "text" if len(run) > 1 else run[0].label))
            if len(run) > 1:
                items_of_run.append(list(run))
            run.clear()

    items_of_run: list[list[Item]] = []
    for child in element.children:
        if isinstance(child, _Element):
            item = Item(child.start, child.end, f"<{child.name.decode(errors='replace')}>")
            inline = html and child.name in _INLINE
            heading = html and child.name in _HEADINGS
        else:
            item = Item(child[1], child[2], child[0], sticks="orphan" if child[0] == "comment" else None)
            inline, heading = html and child[0] == "text", False
        if inline:
            if run and b"\n\n" in marks.text[run[-1].end : item.start].replace(b"\r", b""):
                done()
            run.append(item)
            continue
        done()
        if heading:
            item = Item(item.start, item.end, item.label, sticks="head", far=True)
        items.append(item)
    done()
    for each in items_of_run:
        for one in each:
            if one.label != "text":
                marks.unit(one.start, one.end, one.label)
    return items


def _raw(marks: Marks, element: _Element, start: int, end: int, close: tuple[int, int] | None) -> None:
    """Mark a script or a style sheet with the judge of its language."""
    body = marks.text[start:end]
    if not body.strip():
        return
    tag = marks.text[element.start : element.content]
    first = start + len(body) - len(body.lstrip())
    last = end - len(body) + len(body.rstrip())
    marks.seam(element.start + 1, marks.start_of(first), "head", "raw")
    if close:
        marks.seam(marks.end_of(last), close[1] - 1, "close", "raw")
    trailing = marks.trailing
    marks.trailing = SLASHES
    if element.name == b"script" and not re.search(
        rb"type\s*=\s*[\"']?(?!module|text/javascript|text/babel)", tag
    ):
        read_script(marks, "javascript", body, start)
    elif element.name == b"style":
        marks.trailing = CSS_TRAILING
        marks.container(_read_css(marks, start, end))
    marks.trailing = trailing


# JSON

_JSON = re.compile(
    rb"""(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<string>"(?:[^"\\\n]|\\.)*")|(?P<bracket>[\[\]{},:])|[^\s\[\]{},:"/]+|/|\"""",
    re.DOTALL,
)
_JSON_TRAILING = re.compile(rb"[ \t]*,?[ \t]*(?://[^\n]*|/\*[^\n]*?\*/(?=[ \t]*$))?", re.MULTILINE)


def json_marks(kind: str, text: bytes) -> Marks:
    """Units: pairs of objects and items of arrays."""
    result = Marks(text, _JSON_TRAILING)
    stack: list[tuple[int, list[Item]]] = []  # per open bracket: start of its head, items before it
    items: list[Item] = []
    begin = end = -1  # the item being read
    head = 0

    def done() -> None:
        nonlocal begin
        if begin >= 0:
            label = text[begin : begin + 40].split(b"\n")[0].decode(errors="replace")
            items.append(Item(begin, end, label))
        begin = -1

    for token in _JSON.finditer(text):
        if token["comment"]:
            if begin < 0:
                items.append(Item(token.start(), token.end(), "comment", sticks="orphan"))
            continue
        sign = token["bracket"]
        if sign in (b"[", b"{"):
            begin = token.start() if begin < 0 else begin
            stack.append((begin, items))
            items, begin = [], -1
        elif sign in (b"]", b"}") and stack:
            done()
            inner = items
            head, items = stack.pop()
            result.container(
                inner, head, (token.start(), token.end()), text[head : head + 30].decode(errors="replace")
            )
            begin, end = head, token.end()
        elif sign == b",":
            done()
        else:
            begin = token.start() if begin < 0 else begin
            end = token.end()
    done()
    return result


# CSS

_CSS = re.compile(
    rb"""(?P<comment>/\*.*?(?:\*/|\Z))|(?P<url>url\(\s*[^"'\s)][^)]*\))|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'"""
    rb"|(?P<sign>[{};])|(?P<open>\()|(?P<shut>\))|[^\s{};()\"'/u]+|[/u\"']",
    re.DOTALL,
)
CSS_TRAILING = re.compile(rb"[ \t]*;?(?:[ \t]*/\*[^\n]*?\*/(?=[ \t]*\r?$))?", re.MULTILINE)


def css_marks(kind: str, text: bytes) -> Marks:
    """Units: rules, at-rules and declarations."""
    result = Marks(text, CSS_TRAILING)
    result.container(_read_css(result, 0, len(text)))
    return result


def _read_css(marks: Marks, first: int, last: int) -> list[Item]:
    """Mark the nested levels from `first` to `last` and return the items of the outermost level."""
    text = marks.text
    stack: list[tuple[int, list[Item]]] = []
    items: list[Item] = []
    begin, end, depth = -1, -1, 0

    def done() -> None:
        nonlocal begin
        if begin >= 0:
            items.append(Item(begin, end, text[begin : begin + 40].split(b"\n")[0].decode(errors="replace")))
        begin = -1

    for token in _CSS.finditer(text, first, last):
        sign = token["sign"]
        if token["comment"]:
            if begin < 0:
                line_begins = not text[text.rfind(b"\n", 0, token.start()) + 1 : token.start()].strip()
                if line_begins or not items:  # a trailing comment belongs to the item before
                    items.append(Item(token.start(), token.end(), "comment", sticks="orphan"))
        elif token["open"] or token["shut"]:
            depth = max(0, depth + (1 if token["open"] else -1))
            begin, end = (token.start() if begin < 0 else begin), token.end()
        elif sign == b"{":
            begin = token.start() if begin < 0 else begin
            stack.append((begin, items))
            items, begin, depth = [], -1, 0
        elif sign == b"}":
            done()
            depth = 0
            if stack:
                inner = items
                head, items = stack.pop()
                marks.container(inner, head, (token.start(), token.end()), "rule")
                begin, end = head, token.end()
                done()
        elif sign == b";" and not depth:
            done()
        else:
            begin, end = (token.start() if begin < 0 else begin), token.end()
    done()
    return items
