"""Find candidates for cuts in a syntax tree.

`walk` opens only nodes that are larger than a segment. One table of roles by node type is enough for all tree-sitter
grammars, whose type names rarely collide; patterns cover the other types. Costs are relative to that of one more
segment, which is 1 (see `pack.py`). Leaves in another language (scripts in HTML) are parsed too.

Two grammars need special treatment. Markdown opens a section only for `#` headings, so `parsed_text` replaces
underlined headings with `#` headings of the same length. YAML does not attach a comment to the item below it, so
`_above` finds that comment in the text.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final

from repoagent.dataclass import dataclass
from repoagent.split.pack import Boundary, Candidate
from repoagent.split.text_boundaries import add_text_candidates
from repoagent.syntax.languages import load_grammar
from repoagent.syntax.parser import parse_bytes

if TYPE_CHECKING:
    import tree_sitter

# The role of a node among its siblings.
ITEM: Final = 0
COMMENT: Final = 1  # belongs to the next node if no blank line is between them
ATTACHED: Final = 2  # belongs to the next node, at any distance
CLOSER: Final = 3  # ends its parent
CONTINUATION: Final = 4  # continues the previous item: `else`
TOKEN: Final = 5  # never cut here
INLINE: Final = 6  # continues the text before it
ELEMENT: Final = 7  # of HTML: see `element_role`
FILLING: Final = 8  # white space and text between elements: never cut before it, but it may be opened

# The role of a node for its children.
LIST: Final = 0  # its children are independent
PARTS: Final = 1  # its children form one unit: a head, a body
LEAF: Final = 2  # text, even if the grammar parses it


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_COMMENT = re.compile(r"(?i)comment|^shebang|^hash_bang_line")
_ATTACHED = _words(
    "decorator attribute_item annotation marker_annotation access_specifier attribute_list visibility_label "
    "atx_heading setext_heading minus_metadata plus_metadata start_tag STag jsx_opening_element "
    "pipe_table_header pipe_table_delimiter_row switch_label"
)
_CLOSERS = _words(
    ") ] } > end fi done esac endif #endif end_tag ETag jsx_closing_element fenced_code_block_delimiter "
    "%} }} |} )} /> ``` erroneous_end_tag dedent"
)
_CONTINUATION = re.compile(
    r"^(else|elif|elseif|elsif|except|catch|finally|rescue|ensure|preproc_el\w+|block_continuation)(_|$)|^(when|default)_clause$"
)
_LISTS = _words(
    "module program source_file translation_unit stylesheet document stream fragment source chunk compilation_unit "
    "block compound_statement statement_block statement_list declaration_list field_declaration_list class_body "
    "interface_body enum_body object_type switch_body switch_block switch_block_statement_group case_statement "
    "do_group object array dictionary list set tuple arguments argument_list initializer_list element content "
    "script section "
    "block_mapping block_sequence flow_mapping flow_sequence pipe_table block_quote list_item match_block use_list "
    "token_tree jsx_element jsx_fragment named_imports import_list enumerator_list literal_value const_declaration "
    "var_declaration type_declaration import_declaration expression_case type_case communication_case default_case "
    "array_expression case_item subshell formal_parameters parameters parameter_list ERROR "
    "keyframe_block_list type_arguments template_body body concatenated_string"
)
_LIST = re.compile(
    r"_(body|list|block|members|declarations|statements|items|elements|entries|section|mapping|sequence)$|^preproc_"
)
_LEAVES = _words(
    "string string_content raw_string raw_string_literal interpreted_string_literal string_literal template_string "
    "heredoc_body raw_text text CharData CData CDSect inline paragraph html_block code_fence_content regex "
    "block_scalar double_quote_scalar single_quote_scalar plain_scalar jsx_text string_fragment encapsed_string "
    "preproc_arg char_literal concatenation_string multiline_string_literal"
)


_TAG = re.compile(rb"[\w-]+")
_HEADINGS = _words("h1 h2 h3 h4 h5 h6 dt th caption summary legend")
_PHRASING = _words(
    "a abbr acronym b bdi bdo big br cite code data del dfn em font i img input ins kbd label mark meter output q "
    "rp rt ruby s samp small span strike strong sub sup time tt u var wbr"
)


@cache
def child_role(kind: str) -> int:
    if kind in _CLOSERS:
        return CLOSER
    if kind in _ATTACHED:
        return ATTACHED
    if kind in ("element", "text"):
        return ELEMENT
    if kind in ("CharData", "jsx_text"):
        return FILLING
    if _CONTINUATION.match(kind):
        return CONTINUATION
    if not kind or not (kind[0].isalpha() or kind[0] == "_"):
        return TOKEN
    return COMMENT if _COMMENT.search(kind) else ITEM


def element_role(text: bytes, start: int) -> int:
    """The role of the HTML element or text at `start` among its siblings: a heading is ATTACHED."""
    if not text.startswith(b"<", start):
        return INLINE
    tag = _TAG.match(text, start + 1)
    name = tag[0].lower().decode("ascii", "replace") if tag else ""
    return ATTACHED if name in _HEADINGS else INLINE if name in _PHRASING else ITEM


@cache
def child_roles(language: str) -> dict[int, int]:
    """The `child_role` of each node type of a grammar, by the type's number, which is faster to read than its name."""
    kinds = load_grammar(language)
    roles = {}
    for number in range(kinds.node_kind_count):
        role = child_role(kinds.node_kind_for_id(number) or "")
        named = kinds.node_kind_is_named(number)
        roles[number] = role if named or role == CLOSER else TOKEN
    return roles


@cache
def holder_role(kind: str) -> int:
    if kind in _LEAVES or _COMMENT.search(kind):
        return LEAF
    return LIST if kind in _LISTS or _LIST.search(kind) else PARTS


# Costs of a cut.
DEEPER: Final = 0.25  # for each enclosing list, up to
DEEPEST: Final = 6
DENSE: Final = 0.6  # without a blank line before it
PART: Final = 6.0  # between the parts of a unit
BROKEN: Final = 1.0  # in a range that does not parse,
INDENTED: Final = 0.8  # and there for each column of indentation
HEAD: Final = 20.0  # between head and body
DOCUMENTED: Final = 30.0  # between a comment and its item
CLOSING: Final = 50.0  # before the end of the parent
BANNER: Final = 2.0  # after a separate comment: usually it is the title of the next items
TRAILER: Final = 3.0  # before a comment below its item
SAME_LINE: Final = 3.0  # between two items on one line,
INLINE_TAG: Final = 6.0  # and between two elements of markup there
PARAGRAPH: Final = 15.0  # less after an empty line of a comment
IN_LEAF: Final = 5.0  # in a comment or a string


@dataclass(slots=True)
class Frame:
    """An opened node, and the state of the walk in it."""

    role: int
    level: int
    start: int
    half: int  # a part larger than this is opened
    most: int  # an item larger than this is opened
    broken: bool
    lead: int  # the start of the comments and the like that belong to the next item
    cost: float = 0.0  # of a cut between its children
    listed: bool = False  # its first item was reached
    plain: bool = False  # only the cost and a blank line count for its items
    seen: int = ITEM  # the role of the last child
    tight: bool = False  # there was no blank line before the current run of comments
    index: int = 0  # of the candidate before that run

    def __post_init__(self) -> None:
        self.cost = DEEPER * min(self.level, DEEPEST) + (PART if self.role == PARTS else 0.0)

    def begin(self) -> None:
        self.listed = True
        self.plain = self.role == LIST and not self.broken


def cost_before(frame: Frame, role: int, start: int, blank: bool, candidates: list[Candidate]) -> float:
    """The cost of a cut before a child of `frame` that begins at `start`, after a blank line if `blank`.

    If a run of comments ends there, this may raise the cost of the candidate before that run, in `candidates`.
    """
    cost = frame.cost if blank else frame.cost + DENSE
    if role == CLOSER:
        return CLOSING
    if not frame.listed and frame.role == LIST and start != frame.start:
        return cost + HEAD
    if frame.seen == ATTACHED or (frame.seen == COMMENT and not blank):
        return cost + DOCUMENTED
    if role == CONTINUATION or (role == INLINE and frame.seen == INLINE):
        return cost + PART
    if frame.seen == COMMENT:
        if not frame.tight:
            return cost + BANNER
        if frame.index < len(candidates):
            offset, before, reason = candidates[frame.index]
            candidates[frame.index] = (offset, before + TRAILER, reason)
    return cost


def blank_before(text: bytes, line: int) -> bool:
    """Whether the line that begins at `line` follows a blank line or the start of the text."""
    if line < 2:
        return True
    before = text[line - 2]
    if before == 10:
        return True
    if before not in (13, 32, 9):
        return False
    return not text[text.rfind(b"\n", 0, line - 1) + 1 : line].strip()


_TYPE = re.compile(rb"\b(?:type|lang)\s*=\s*[\"']?([\w/+.-]+)", re.IGNORECASE)
_WHOLE = {"html_block": "html", "minus_metadata": "yaml"}
_SCRIPT = re.compile(rb"javascript|module|ecmascript|babel|jsx?$", re.IGNORECASE)


def embedded_language(node: tree_sitter.Node, text: bytes) -> str | None:
    """The language embedded in a leaf: HTML and front matter in Markdown, a script or a style sheet in HTML; otherwise
    None. `text` is the parsed text."""
    if node.type in _WHOLE:
        return _WHOLE[node.type]
    parent = node.parent
    if parent is None or node.type != "raw_text":
        return None
    named = _TYPE.search(text[parent.start_byte : node.start_byte][:400])
    if parent.type == "style_element":
        return "css" if named is None or b"css" in named[1] else None
    if named is None or _SCRIPT.search(named[1]):
        return "javascript"
    if b"json" in named[1] or named[1] == b"importmap":
        return "json"
    return "typescript" if named[1] in (b"ts", b"tsx") else "html" if b"html" in named[1] else None


# A small cost by the size of the next node: candidates that are equally good keep their order after an edit elsewhere.
_JITTER: Final = 0.4 / 1024
_LONG: Final = 8  # in lines longer than a segment divided by this, nodes inside the line do not count
_LANGUAGES: Final = 3  # nested in each other
_ANCHORS: Final = re.compile(rb"(?:<a\s+(?:name|id)\s*=[^<>]*>(?:\s*</a>)?\s*)+", re.IGNORECASE)
_EMPTY_COMMENT: Final = re.compile(rb"//+[!/]?|#+|;+|--+")


def walk(
    tree: tree_sitter.Tree,
    text: bytes,
    limit: int,
    candidates: list[Candidate],
    inside: tuple[str, int, int, int],
) -> None:
    """Append the candidates in `tree` to `candidates`, in order and each offset once.

    `text` is the whole text. `inside` has the language of the tree, its offset in the text, and the number of lists and
    of languages that contain it. Nodes of at most `limit` bytes are not opened. The time is linear in the number of
    children of the larger nodes.
    """
    language, base, level, depth = inside
    cursor = tree.walk()
    root = cursor.node
    if root is None or not cursor.goto_first_child():
        return
    roles = child_roles(language)
    name: Boundary = "embedded" if depth else "node"
    markup = language in ("html", "xml")
    frames: list[Frame] = []
    frame = Frame(LIST, level, base, limit, limit, root.type == "ERROR", base)
    frame.begin()
    last = candidates[-1][0] if candidates else 0  # add no candidate at or before this offset
    line = text.rfind(b"\n", 0, base) + 1  # the start of the line of the previous child
    near, first = line, base == line  # the start of that child; whether it is the first on its line
    entered = True
    while True:
        if not entered:
            while not cursor.goto_next_sibling():
                if not frames:
                    return
                frame = frames.pop()
                cursor.goto_parent()
        entered = False
        node = cursor.node
        if node is None:
            return
        role = roles.get(node.kind_id, ITEM)
        if role == TOKEN:
            continue
        start = node.start_byte + base
        end = node.end_byte + base
        size = end - start
        if start != near:
            newline = text.rfind(b"\n", near, start)
            alone = newline >= 0 or line == near
            line = max(line, newline + 1)
            before = text[line:start]  # at most one comma may precede the first node of a line
            first = alone and (not before or before.isspace() or before.strip() == b",")
            near = start
        if first and language == "yaml" and role == ITEM and line > last + 1:
            line = _above(text, line, start)
        elif first and language == "markdown" and node.type == "section":
            above = _anchors(text, line)
            while above < line and candidates and candidates[-1][0] >= above:
                if candidates.pop()[1] >= DOCUMENTED:  # in the tree, the anchors end the previous section
                    frame.seen = ATTACHED
            if above < line:
                line, last = above, candidates[-1][0] if candidates else 0
        if role == ELEMENT:
            role = element_role(text, start) if language == "html" else ITEM
        opened, most = size > frame.most, frame.most
        if role == ITEM and frame.seen in (ATTACHED, COMMENT) and not opened and end - frame.lead >= limit:
            # with its line end and its comments, which must not be separated from it, it is too large
            opened = frame.seen == ATTACHED or not blank_before(text, line)
            most = size // 2 if opened else most
        if frame.role == PARTS and size > frame.half and role != CONTINUATION:
            opened = True
        if role == ITEM == frame.seen and first and not opened and frame.plain:  # nearly all nodes
            if line > last:
                last = line
                cost = frame.cost if text[line - 2] == 10 or blank_before(text, line) else frame.cost + DENSE
                candidates.append((line, cost + (size * 40503 & 1023) * _JITTER, name))
            continue
        is_next = not first and role == ITEM and frame.role == LIST
        if role != FILLING and (first or (is_next and _beside(text, line, start, markup, limit))):
            at = line if first else start
            blank = first and blank_before(text, line)
            cost = cost_before(frame, role, start, blank, candidates)
            if frame.role == PARTS and (opened or role == COMMENT):
                cost += HEAD
            if role == frame.seen == COMMENT and not blank:
                line_above = text[text.rfind(b"\n", 0, line - 1) + 1 : line].strip()
                cost -= PARAGRAPH if _EMPTY_COMMENT.fullmatch(line_above) else 0.0
            if not first:
                cost += INLINE_TAG if markup else SAME_LINE
            elif frame.broken:
                cost += BROKEN + min(start - line, 6) * INDENTED
            if first and role == ITEM and text.startswith(b"{", start) and text.endswith(b")", 0, line - 1):
                cost += HEAD  # the body of a statement that parsed as separate
            if role in (COMMENT, ATTACHED):
                if frame.seen not in (COMMENT, ATTACHED) or (blank and frame.seen == COMMENT):
                    frame.lead = at
                if role == COMMENT and (frame.seen != COMMENT or blank):
                    frame.tight, frame.index = not blank, len(candidates)
            if at > last:
                last = at
                why: Boundary = "byte" if not first else "embedded" if frame.broken else name
                candidates.append((at, cost + (size * 40503 & 1023) * _JITTER, why))
            frame.seen = role
            if role in (ITEM, INLINE):
                frame.begin()
        elif role in (ATTACHED, INLINE, ITEM):
            if role == ATTACHED and frame.seen not in (COMMENT, ATTACHED):
                frame.lead = start
            frame.seen = role
            if role == ITEM and start == frame.start:
                frame.begin()
        if opened:
            holder = holder_role(node.type)
            if holder != LEAF and cursor.goto_first_child():
                frames.append(frame)
                half = size // 4 if holder == PARTS else limit
                broken = node.type == "ERROR"
                frame = Frame(holder, frame.level + (holder == LIST), start, half, most, broken, start)
                entered = True
                continue
            if size > limit:
                inner = None
                if role != COMMENT and depth < _LANGUAGES:
                    inner = embedded_language(node, text[base:] if base else text)
                tree_inside = parse_bytes(text[start:end], inner) if inner else None
                if inner is None or tree_inside is None:
                    cost = frame.cost + IN_LEAF
                    add_text_candidates(text, (start, end), limit, candidates, cost, comment=role == COMMENT)
                else:
                    walk(tree_inside, text, limit, candidates, (inner, start, frame.level + 1, depth + 1))
                last = max(last, candidates[-1][0]) if candidates else last


def _beside(text: bytes, line: int, start: int, markup: bool, limit: int) -> bool:
    """Whether the node at `start` follows the end of the previous item on its line, as in `</dd><dt>` or `}, {`. False
    in a long line."""
    if markup:
        follows = text[start - 1] == 62  # ">"
    else:
        follows = text[line : min(line + 80, start)].lstrip()[:1] in (b"}", b"]", b")")
    return follows and text.find(b"\n", start, line + limit // _LONG) >= 0


def _anchors(text: bytes, line: int) -> int:
    """The start of the lines right above a Markdown heading that contain only anchors: links to it lead there."""
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


def _above(text: bytes, line: int, start: int) -> int:
    """The start of the comment lines right above, at the same column: the grammar of YAML attaches them elsewhere."""
    mark = text[line:start] + b"#"
    while line and text.startswith(mark, above := text.rfind(b"\n", 0, line - 1) + 1):
        line = above
    return line


_FRONT_MATTER = re.compile(
    rb"(?:\xef\xbb\xbf)?(---|\+\+\+)[ \t]*\r?\n.*?^\1[ \t]*\r?$", re.DOTALL | re.MULTILINE
)
_RULE = re.compile(rb"^ {0,3}(={2,}|-{3,})[ \t]*\r?$", re.MULTILINE)
_OTHER = re.compile(
    rb" {0,3}(?:\d+[.)]\s|[-*+]\s|([-*_=])\1{2,}\s*$|```|~~~|[>#|<])"
)  # not the start of a paragraph
_OWN_LINE = re.compile(rb" {0,3}(?:#|([-*_])\1{2,}\s*$)")  # ends a paragraph
_LONGEST = 1_000  # bytes of a heading


def parsed_text(text: bytes, language: str | None) -> bytes:
    """The text to parse in place of `text`: in Markdown, underlined headings are rewritten as `#` headings, and each
    block keeps its offsets."""
    if language != "markdown" or (b"\n==" not in text and b"\n---" not in text):
        return text
    front = _FRONT_MATTER.match(text)
    done = front.end() if front else 0
    parts = [text[:done]]
    for rule in _RULE.finditer(text, done):
        start = _paragraph(text, done, rule.start())
        if start < rule.start():
            marks = b"# " if b"=" in rule[0] else b"## "
            heading = text[start : rule.start()]
            title = heading.rstrip(b"\r\n")
            one_line = title.replace(b"\r", b" ").replace(b"\n", b" ") + heading[len(title) :]
            ended = rule[0].endswith(b"\r")
            blank = len(rule[0]) - len(marks) - ended
            parts += [text[done:start], marks, one_line, b" " * blank + b"\r" * ended]
            done = rule.end()
    return b"".join([*parts, text[done:]])


def _paragraph(text: bytes, first: int, end: int) -> int:
    """The start, at least `first`, of the paragraph that ends at `end`; `end` if there is none that can be a
    heading."""
    start = end
    while start > first and end - start <= _LONGEST:
        above = text.rfind(b"\n", first, start - 1) + 1 or first
        line = text[above:start]
        if len(line) > _LONGEST or not line.strip() or _OWN_LINE.match(line):
            break
        if _OTHER.match(line):
            return end
        start = above
    opens = text[start : start + 4]
    return end if end - start > _LONGEST or not opens.lstrip(b" ") or opens[:1] == b"\t" else start
