"""Find syntax errors in C and C++ that no macro can explain, from the tokens alone.

The grammar does not know a file's macros, so it rejects much code that compiles. This module finds only unbalanced
brackets (one branch of each `#if ... #else` counts), unterminated literals and comments, characters that C does not
use, statements without a `;`, and prose.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

_TOKEN = re.compile(
    rb"""(?P<blank>[ \t\r\f\v]+|\\\r?\n|\n)
    |(?P<comment>//(?:\\\r?\n|[^\n])*|/\*.*?\*/)
    |(?P<endless>/\*)
    |(?P<raw>(?:u8|[uUL])?R"(?P<mark>[^\s()\\]{0,16})\()
    |(?P<string>(?:u8|[uUL])?"(?:\\\r?\n|\\[^\n]|[^"\\\n])*"|[uUL]?'(?:\\\r?\n|\\[^\n]|[^'\\\n]){,12}')
    |(?P<number>\.?\d(?:[eEpP][+-]|'?[\w.])*)
    |(?P<word>[A-Za-z_$\x80-\xff][\w$\x80-\xff]*)
    |(?P<sign>->|\+\+|--|::|[-+*/%&|^<>=!]=|<<=|>>=|&&|\|\||[{}()\[\];,.:?~=<>!+*/%&|^#-])
    |(?P<open>["'])
    |(?P<odd>.)""",
    re.DOTALL | re.VERBOSE,
)
_DIRECTIVE = re.compile(
    rb"[ \t]*(?:/\*[^\n]*?\*/[ \t]*)?#[ \t]*(\w*)"
    rb"((?://(?:\\\r?\n|[^\n])*|\\(?:\r?\n|[^\n])|\"(?:\\[^\n]|[^\"\\\n])*\"|/\*.*?(?:\*/|\Z)|[^\n])*)",
    re.DOTALL,
)
_BRANCH = re.compile(rb"^[ \t]*#[ \t]*(if|ifdef|ifndef|el\w+|endif)\b", re.MULTILINE)
_OPENING = {b")": b"(", b"]": b"[", b"}": b"{"}
_CONTROL = frozenset(b"if for while switch catch constexpr".split())
_JUMPS = frozenset(b"return goto break continue throw co_return".split())
_STATEMENTS = _JUMPS | frozenset(b"if for while switch do case default else".split())
_TYPES = frozenset(
    b"void char short int long float double signed unsigned bool auto const static struct union enum extern volatile"
    b" constexpr register typedef".split()
)
_KEYWORDS = _STATEMENTS | _CONTROL | _TYPES | frozenset(
    b"inline class public private protected virtual template typename namespace using new delete operator friend"
    b" explicit mutable override final noexcept try this sizeof restrict requires concept decltype and or not"
    b" emit signals slots in out".split()
)  # fmt: skip
_NO_STATEMENT = _KEYWORDS - {b"this", b"break", b"continue"}  # it does not end with these words
_HEADS = _CONTROL | frozenset(b"case template using typedef operator".split())
_CONTINUES = frozenset(b"and or not requires noexcept const".split())
_ASSIGNS = frozenset(b"= += -= *= /= %= &= |= ^= <<= >>=".split())
_PLAIN_WORD = re.compile(rb"[A-Za-z][a-z]*")
_MACRO = re.compile(rb"[A-Z_][A-Z0-9_]*|__\w+")
_PROSE_WORDS = 4  # this many plain words in a row are not a declaration
_LONGEST = 500  # tokens of a statement; an enum, for example, may have more


class CFault(NamedTuple):
    """A syntax error that no macro can explain. `line` counts from 0; `of` is the text of that line, which identifies
    the error if the line moves. `bracket` marks unbalanced brackets, whose cause may be elsewhere."""

    line: int
    message: str
    of: bytes
    bracket: bool = False


class _Token(NamedTuple):
    kind: str
    text: bytes
    line: int
    column: int  # of the first token of its line
    first: bool  # on its line


def new_c_faults(before: bytes, after: bytes) -> list[CFault]:
    """The faults that the change from `before` to `after` (both UTF-8) adds, in order."""

    def key(fault: CFault) -> tuple[str, bytes]:
        return fault.message.partition(" on line")[0], fault.of

    old, new = _faults(before), _faults(after)
    known = Counter(map(key, old))
    more_brackets = sum(fault.bracket for fault in new) > sum(fault.bracket for fault in old)
    added = []
    for fault in new:
        if known[key(fault)]:
            known[key(fault)] -= 1
        elif more_brackets or not fault.bracket:  # else another bracket is unbalanced instead of an old one
            added.append(fault)
    return added


def _faults(text: bytes) -> list[CFault]:
    lines = text.split(b"\n")
    faults: list[CFault] = []
    tokens = list(_tokens(text, lines, faults))
    faults += _brackets(tokens, lines)
    tokens = [token for token in tokens if token.kind != "directive"]
    faults += _unfinished(tokens, lines)
    run, line = 0, -1
    for token in tokens:  # prose
        plain = token.kind == "word" and _PLAIN_WORD.fullmatch(token.text) and token.text not in _KEYWORDS
        run = 0 if not plain else run + 1 if token.line == line else 1
        line = token.line
        if run == _PROSE_WORDS:
            faults.append(CFault(line, f"line {line + 1} is not code", lines[line].strip()))
    return sorted(faults)


def _tokens(text: bytes, lines: Sequence[bytes], faults: list[CFault]) -> Iterator[_Token]:
    """The tokens without blanks, comments and the code in `#if 0`; a directive is one token. Adds unterminated literals
    and odd characters to `faults`."""
    offset, line, fresh, column = 0, 0, True, 0
    last_end = cache(text.rfind)
    while offset < len(text):
        if fresh and (directive := _DIRECTIVE.match(text, offset)):
            name, rest = directive[1], directive[2].strip()
            yield _Token("directive", name + b" " + rest, line, 0, True)
            end = directive.end()
            if name == b"if" and rest.split(b"/")[0].strip() == b"0":
                end = _branch_end(text, end)
            line += text.count(b"\n", offset, end)
            offset, fresh = end, False
            continue
        match = _TOKEN.match(text, offset)
        assert match is not None
        kind, token, offset = str(match.lastgroup), match[0], match.end()
        if kind == "raw":
            closing = b")" + match["mark"] + b'"'
            if last_end(closing) >= offset:
                offset = text.index(closing, offset) + len(closing)
                token = text[match.start() : offset]
            else:  # a macro R before a string
                kind, token = "word", token[: token.index(b'"')]
                offset = match.start() + len(token)
        if kind in ("blank", "comment"):
            line += token.count(b"\n")
            fresh = token == b"\n" or (fresh and kind == "blank")
            continue
        of = lines[line].strip()
        if kind == "endless":
            faults.append(CFault(line, f"the comment on line {line + 1} is not closed", of))
            return
        if kind == "open":
            faults.append(CFault(line, f"the `{token.decode()}` on line {line + 1} is not closed", of))
            newline = text.find(b"\n", offset)
            offset = newline if newline >= 0 else len(text)
            continue
        if kind == "odd":
            shown = token.decode("latin-1")
            shown = shown if shown.isprintable() else f"\\x{token[0]:02x}"
            faults.append(CFault(line, f"stray `{shown}` on line {line + 1}", of))
        if fresh:
            expanded = lines[line].expandtabs(8)
            column = len(expanded) - len(expanded.lstrip())
        yield _Token(kind, token, line, column, fresh)
        fresh = False
        line += token.count(b"\n")


def _branch_end(text: bytes, offset: int) -> int:
    """The end of the branch that begins at `offset`: before its `#else`, `#elif` or `#endif`."""
    depth = 0
    for match in _BRANCH.finditer(text, offset):
        if match[1].startswith(b"if"):
            depth += 1
        elif depth == 0:
            return match.start() - 1
        elif match[1] == b"endif":
            depth -= 1
    return len(text)


class _Open:
    """An open bracket and, through `outer`, those around it; the outermost object stands for no bracket. Branches of
    `#if` share their outer brackets, because copies would need too much memory in deeply nested code."""

    def __init__(self, token: _Token, outer: _Open | None = None) -> None:
        self.token = token
        self.outer = outer or self
        self.depth: int = outer.depth + 1 if outer else 0

    def equals(self, other: _Open) -> bool:
        """Whether the same brackets are open."""
        left, right = self, other
        while left.depth == right.depth and left is not right and left.token.text == right.token.text:
            left, right = left.outer, right.outer
        return left is right


class _Branches(NamedTuple):
    directive: bytes
    before: _Open  # the open brackets at `#if`
    counted: bool  # whether all enclosing branches are the first ones
    after: _Open | None = None  # the open brackets at the end of the first branch, if another one follows


def _brackets(tokens: Sequence[_Token], lines: Sequence[bytes]) -> list[CFault]:
    """The unmatched brackets. Of each `#if ... #else` the first branch counts; the others must leave the same brackets
    open."""
    faults: list[CFault] = []
    top = _Open(_Token("", b"", 0, 0, False))
    conditions: list[_Branches] = []
    counted = True
    uneven: set[bytes] = set()  # conditions that leave brackets open
    shallow: _Token | None = None  # the first `{` whose `}` is further left: its real `}` is missing

    def add(message: str, line: int) -> None:
        faults.append(CFault(line, message, lines[line].strip(), bracket=True))

    def add_open(token: _Token) -> None:
        add(f"the `{token.text.decode()}` on line {token.line + 1} is not closed", token.line)

    for token in tokens:
        if token.kind == "directive":
            name = token.text.partition(b" ")[0]
            if name in (b"if", b"ifdef", b"ifndef"):
                conditions.append(_Branches(token.text, top, counted))
            elif conditions and (name == b"endif" or name.startswith(b"el")):
                condition = conditions.pop()
                first = condition.after or top
                if not top.equals(first):
                    message = f"the branches before line {token.line + 1} leave different brackets open"
                    faults.append(CFault(token.line, message, b"", bracket=True))
                if name == b"endif":
                    top, counted = first, condition.counted
                    if top.depth > condition.before.depth:
                        uneven.add(condition.directive)
                else:
                    conditions.append(condition._replace(after=first))
                    top, counted = condition.before, False
        elif token.kind == "sign" and token.text in (b"(", b"[", b"{"):
            top = _Open(token, top)
        elif token.kind == "sign" and token.text in _OPENING:
            while token.text == b"}" and top.token.text in (b"(", b"["):
                if counted:
                    add_open(top.token)
                top = top.outer
            if top.token.text == _OPENING[token.text]:
                if token.text == b"}" and token.first and token.column < top.token.column:
                    shallow = shallow or top.token
                top = top.outer
            elif counted:
                add(f"unmatched `{token.text.decode()}` on line {token.line + 1}", token.line)
    if any(b"ifndef" + name.removeprefix(b"ifdef") in uneven for name in uneven if name.startswith(b"ifdef")):
        return []  # `#ifdef X`, `{`, `#endif`, `#ifndef X`, `{`, `#endif`, `}`: only one of the `{` counts
    while top.depth:
        outermost = top.depth == 1 and top.token.text == b"{"
        add_open(shallow if shallow is not None and outermost else top.token)
        top = top.outer
    return faults


def _unfinished(tokens: Sequence[_Token], lines: Sequence[bytes]) -> Iterator[CFault]:
    """Yield the statements that end with their line or block, but without a `;`."""
    start, depth = 0, 0
    blocks: list[str] = []  # the kinds of the open ones: "code", "struct", "" if unknown
    for n, token in enumerate(tokens):
        text = token.text
        if (
            depth == 0
            and token.first
            and 0 < n - start <= _LONGEST
            and (text == b"}" or token.kind == "word")
        ):
            statement = tokens[start:n]
            if _lacks_end(statement, token, blocks[-1] if blocks else ""):
                line = statement[-1].line
                yield CFault(line, f"a `;` is missing on line {line + 1}", lines[line].strip())
                start = n
        if text in (b"(", b"["):
            depth += 1
        elif text in (b")", b"]"):
            depth = max(depth - 1, 0)
        elif text in (b";", b"{", b"}", b"else", b"do", b":"):
            if text == b"{":
                head = [before.text for before in tokens[max(start, n - 8) : n]]
                if not head or head[-1] in (b")", b"else", b"do", b"try"):
                    blocks.append("code")
                else:
                    is_struct = {b"struct", b"union", b"class"}.intersection(head) and b"=" not in head
                    blocks.append("struct" if is_struct else "")
            elif text == b"}" and blocks:
                blocks.pop()
            if text in (b"{", b"}"):
                depth = 0
            start = n + 1


def _lacks_end(statement: Sequence[_Token], after: _Token, block: str) -> bool:
    """Whether the statement in a block of kind `block` lacks its end before the token `after`, the first of a line."""
    if _MACRO.fullmatch(after.text) or after.text in _CONTINUES:
        return False
    statement = _without_head(statement)
    first, last = statement[0], statement[-1]
    outside, call = _outside(statement)
    assigns = bool(outside & _ASSIGNS)
    if last.kind == "word":
        if last.text in _NO_STATEMENT:
            return False
        if _MACRO.fullmatch(last.text) and not (assigns and after.text in _STATEMENTS):
            return False
    elif last.text == b")":
        before = statement[call - 1]
        if not call or before.kind != "word" or before.text in _KEYWORDS:
            return False  # a cast, or the head of a statement
        if _MACRO.fullmatch(before.text) and not assigns:
            return False
    elif last.kind != "number" and last.text not in (b"]", b"++", b"--"):
        return False
    if first.text in _HEADS or first.text in _JUMPS:
        return first.text in _JUMPS
    if after.text == b"}" and (block != "code" or b"," in outside or first.text in (b".", b"[")):
        return False
    if assigns:
        return True
    if last.text == b")":
        # a call, or a macro for a loop (`list_for_each(p, l)`), whose body is indented
        callee = statement[:call]
        words = sum(token.kind == "word" for token in callee)
        signs = sum(token.text in (b".", b"->", b"::") for token in callee)
        named = words + signs == call and words == signs + 1
        return block == "code" and named and (after.text == b"}" or after.column <= first.column)
    if last.kind != "word" or not block or after.text == b"}":
        return False
    declared = len(statement) > 1 and all(token.kind == "word" or token.text == b"*" for token in statement)
    return declared and (after.text in _TYPES or (block == "code" and after.text in _STATEMENTS))


def _without_head(statement: Sequence[_Token]) -> Sequence[_Token]:
    """The statement without `if (…)` and the like, unless it is only that."""
    if statement[0].text in _CONTROL and statement[1:2] and statement[1].text == b"(":
        depth = 0
        for n, token in enumerate(statement):
            depth += (token.text == b"(") - (token.text == b")")
            if depth == 0 and token.text == b")":
                return statement[n + 1 :] or statement
    return statement


def _outside(statement: Sequence[_Token]) -> tuple[set[bytes], int]:
    """The texts outside of brackets, and the index of the `(` that the last token closes, 0 if that is not a `)`."""
    texts: set[bytes] = set()
    depth = 0
    for token in statement:
        depth -= token.text in (b")", b"]")
        if depth <= 0:
            texts.add(token.text)
        depth += token.text in (b"(", b"[")
    depth = 0
    for n in range(len(statement) - 1, -1, -1):
        depth += (statement[n].text == b")") - (statement[n].text == b"(")
        if depth == 0:
            return texts, n if statement[-1].text == b")" else 0
    return texts, 0
