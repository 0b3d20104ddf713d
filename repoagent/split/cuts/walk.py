"""The candidates for cuts in a syntax tree: a walk that opens only what is larger than a segment."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from repoagent.split.cuts.costs import (
    BESIDE,
    BROKEN,
    DENSE,
    DOCUMENTED,
    HEAD,
    IN_LEAF,
    INDENTED,
    INLINE_TAG,
    PARAGRAPH,
    Frame,
    blank_before,
    cost_before,
)
from repoagent.split.cuts.embedded import embedded_language
from repoagent.split.cuts.lines import fill
from repoagent.split.cuts.pack import Candidate
from repoagent.split.cuts.roles import (
    ATTACHED,
    COMMENT,
    CONTINUATION,
    ELEMENT,
    FILLING,
    INLINE,
    ITEM,
    LEAF,
    LIST,
    PARTS,
    TOKEN,
    child_roles,
    element_role,
    holder_role,
)
from repoagent.split.segment import Boundary
from repoagent.split.trees import parse_bytes

if TYPE_CHECKING:
    import tree_sitter

# By the size of what follows: places that are as good are told apart in the same way after an edit elsewhere.
_JITTER: Final = 0.4 / 1024
_LONG: Final = 8  # in lines longer than a segment divided by this, no node inside the line counts
_LANGUAGES: Final = 3  # one in another
_MARKUP: Final = frozenset({"html", "xml"})
_ANCHORS: Final = re.compile(rb"(?:<a\s+(?:name|id)\s*=[^<>]*>(?:\s*</a>)?\s*)+", re.IGNORECASE)
_EMPTY_COMMENT: Final = re.compile(rb"//+[!/]?|#+|;+|--+")


def walk(
    tree: tree_sitter.Tree, text: bytes, limit: int, found: list[Candidate], inside: tuple[str, int, int, int]
) -> None:
    """Append the candidates in `tree` to `found`, in order of the text and each place once.

    `text` is the whole text. `inside` is the language of the tree, where in the text it begins, how many lists it is
    inside of, and how many languages. A node of at most `limit` bytes is not looked into. The time is linear in the
    children of the others.
    """
    language, base, level, depth = inside
    cursor = tree.walk()
    root = cursor.node
    if root is None or not cursor.goto_first_child():
        return
    roles = child_roles(language)
    name: Boundary = "embedded" if depth else "node"
    markup = language in _MARKUP
    frames: list[Frame] = []
    frame = Frame(LIST, level, base, limit, root.type == "ERROR")
    frame.begun()
    frame.most = limit
    last = found[-1][0] if found else 0  # no candidate at or before this place
    line = text.rfind(b"\n", 0, base) + 1  # the start of the line of the child before
    near, first = line, base == line  # where that child begins, whether it is the first on its line
    far = limit // _LONG
    while True:
        node = cursor.node
        if node is None:
            return
        role = roles.get(node.kind_id, ITEM)
        if role == TOKEN:
            while not cursor.goto_next_sibling():
                if not frames:
                    return
                frame = frames.pop()
                cursor.goto_parent()
            continue
        start = node.start_byte + base
        size = node.end_byte + base - start
        if start != near:
            newline = text.rfind(b"\n", near, start)
            if newline >= 0:
                line = newline + 1
                first = line == start or _leads(text[line:start])
            else:
                first = line == near and _leads(text[line:start])
            near = start
        if first and language == "yaml" and role == ITEM and line > last + 1:
            line = _above(text, line, start)
        if (
            first
            and language == "markdown"
            and node.type == "section"
            and (above := _anchors(text, line)) < line
        ):
            while found and found[-1][0] >= above:  # the anchors were the end of the section before
                if found.pop()[1] >= DOCUMENTED:
                    frame.seen = ATTACHED
            line, last = above, found[-1][0] if found else 0
        if role == ELEMENT:
            role = element_role(text, start) if language == "html" else ITEM
        opened = size > frame.most
        if (
            role == ITEM
            and not opened
            and frame.seen in (ATTACHED, COMMENT)
            and start + size - frame.lead >= limit
        ):
            # with its line end it does not fit with its comments, which are not parted from it
            opened = frame.seen == ATTACHED or not blank_before(text, line)
            most = size // 2 if opened else frame.most
        else:
            most = frame.most
        if role == ITEM and first and not opened and frame.plain and frame.seen == ITEM:  # as nearly all are
            if line > last:
                last = line
                cost = frame.cost if text[line - 2] == 10 or blank_before(text, line) else frame.cost + DENSE
                found.append((line, cost + (size * 40503 & 1023) * _JITTER, name))
        else:
            if frame.role == PARTS and size > frame.half and role != CONTINUATION:
                opened = True
            beside = (
                not first and role == ITEM and frame.role == LIST and _beside(text, line, start, markup, far)
            )
            if role != FILLING and (first or beside):
                at = line if first else start
                blank = first and blank_before(text, line)
                cost = cost_before(frame, role, start, blank, found)
                if frame.role == PARTS and (opened or role == COMMENT):
                    cost += HEAD
                if role == frame.seen == COMMENT and not blank and _after_empty_comment(text, line):
                    cost -= PARAGRAPH
                if not first:
                    cost += INLINE_TAG if markup else BESIDE
                elif frame.broken:
                    cost += BROKEN + min(start - line, 6) * INDENTED
                if (
                    first
                    and role == ITEM
                    and text.startswith(b"{", start)
                    and text[line - 2 : line - 1] == b")"
                ):
                    cost += HEAD  # the body of what looks like a statement of its own
                if role in (COMMENT, ATTACHED) and (
                    frame.seen not in (COMMENT, ATTACHED) or (blank and frame.seen == COMMENT)
                ):
                    frame.lead = at
                if role == COMMENT and (frame.seen != COMMENT or blank):
                    frame.tight, frame.index = not blank, len(found)
                if at > last:
                    last = at
                    why: Boundary = "embedded" if frame.broken else name
                    found.append((at, cost + (size * 40503 & 1023) * _JITTER, why if first else "byte"))
                frame.seen = role
                if not frame.listed and role in (ITEM, INLINE):
                    frame.begun()
            elif role in (ATTACHED, INLINE, ITEM):
                if role == ATTACHED and frame.seen not in (COMMENT, ATTACHED):
                    frame.lead = start
                frame.seen = role
                if role == ITEM and start == frame.start:
                    frame.begun()
            if opened:
                kind = node.type
                holder = holder_role(kind)
                if holder != LEAF and cursor.goto_first_child():
                    frames.append(frame)
                    half = size // 4 if holder == PARTS else limit
                    frame = Frame(holder, frame.level + (holder == LIST), start, half, kind == "ERROR")
                    frame.most = most
                    continue
                if size > limit:
                    within = (
                        embedded_language(node, text[base:] if base else text) if depth < _LANGUAGES else None
                    )
                    if role == COMMENT:
                        fill(text, (start, start + size), limit, found, frame.cost + IN_LEAF, comment=True)
                    else:
                        _open_leaf(
                            text,
                            (start, start + size),
                            limit,
                            found,
                            (within, frame.level, depth, frame.cost),
                        )
                    last = max(last, found[-1][0]) if found else last
        while not cursor.goto_next_sibling():
            if not frames:
                return
            frame = frames.pop()
            cursor.goto_parent()


def _leads(before: bytes) -> bool:
    """Whether what stands behind `before` on its line is the first thing there, if behind a comma."""
    return before.isspace() or before.strip() == b","


def _beside(text: bytes, line: int, start: int, markup: bool, far: int) -> bool:
    """Whether what begins there stands behind what ends the item before, on its line: `</dd><dt>`, `}, {`; not so in a
    line of more than `far` bytes."""
    if markup:
        follows = text[start - 1] == 62  # ">"
    else:
        follows = text[line : min(line + 80, start)].lstrip()[:1] in (b"}", b"]", b")")
    return follows and text.find(b"\n", start, line + far) >= 0


def _anchors(text: bytes, line: int) -> int:
    """The start of the lines right above a heading of Markdown with nothing but anchors: links to it lead there."""
    at = line
    while at:
        above = text.rfind(b"\n", 0, at - 1) + 1
        content = text[above:at].strip()
        if _ANCHORS.fullmatch(content):
            line = above
        elif content:
            break
        at = above
    return line


def _after_empty_comment(text: bytes, line: int) -> bool:
    above = text[text.rfind(b"\n", 0, line - 1) + 1 : line]
    return _EMPTY_COMMENT.fullmatch(above.strip()) is not None


def _above(text: bytes, line: int, start: int) -> int:
    """The start of the comment lines right above, at the same column: the grammar of YAML has them elsewhere."""
    mark = text[line:start] + b"#"
    while line and text.startswith(mark, above := text.rfind(b"\n", 0, line - 1) + 1):
        line = above
    return line


def _open_leaf(
    text: bytes,
    span: tuple[int, int],
    limit: int,
    found: list[Candidate],
    inside: tuple[str | None, int, int, float],
) -> None:
    """Candidates in text that is in another language, or in none."""
    language, level, depth, cost = inside
    start, end = span
    tree = parse_bytes(text[start:end], language) if language else None
    if tree is None or language is None:
        fill(text, span, limit, found, cost + IN_LEAF)
    else:
        walk(tree, text, limit, found, (language, start, level + 1, depth + 1))
