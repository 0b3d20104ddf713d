"""Faults in C and C++ that no macro can explain.

The grammar does not know a file's macros, so it rejects much code that compiles. This module reads the tokens alone:
brackets (one branch of each `#if ... #else` counts), unterminated literals and comments, characters that C does not
have, a statement without its `;`, and prose.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_TOKEN = re.compile(
    rb"""(?P<blank>[ \t\r\f\v]+|\\\r?\n|\n)
    |(?P<comment>//(?:\\\r?\n|[^\n])*|/\*.*?\*/)
    |(?P<endless>/\*)
    |(?P<raw>(?:u8|[uUL])?R"(?P<mark>[^\s()\\]{0,16})\(.*?\)(?P=mark)")
    |(?P<string>(?:u8|[uUL])?"(?:\\\r?\n|\\[^\n]|[^"\\\n])*"|[uUL]?'(?:\\\r?\n|\\[^\n]|[^'\\\n]){,12}')
    |(?P<number>\.?\d(?:[eEpP][+-]|'?[\w.])*)
    |(?P<word>[A-Za-z_$\x80-\xff][\w$\x80-\xff]*)
    |(?P<sign>->|\+\+|--|::|[-+*/%&|^<>=!]=|<<=|>>=|&&|\|\||[{}()\[\];,.:?~=<>!+*/%&|^#-])
    |(?P<open>["'])
    |(?P<odd>.)""",
    re.DOTALL | re.VERBOSE,
)
_DIRECTIVE = re.compile(
    rb"[ \t]*(?:/\*[^\n]*?\*/[ \t]*)?#[ \t]*(\w*)((?:\\\r?\n|/\*.*?\*/|[^\n])*)", re.DOTALL
)
_LINE = re.compile(rb"[^\n]*\n?")
_CLOSES = {b")": b"(", b"]": b"[", b"}": b"{"}
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
_ASSIGNS = frozenset(b"= += -= *= /= %= &= |= ^= <<= >>=".split())
_PLAIN_WORD = re.compile(rb"[A-Za-z][a-z]*")
_MACRO = re.compile(rb"[A-Z_][A-Z0-9_]*|__\w+")
_PROSE_WORDS = 4  # so many plain words side by side are no declaration


class CFault(NamedTuple):
    """One fault on `line` (from 0). `of` identifies it when its line moves; `bracket` marks unbalanced brackets, whose
    cause may be elsewhere."""

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


def may_add_faults(removed: bytes, added: bytes) -> bool:
    """Whether a hunk may add a fault of brackets, literals or comments: False if both sides leave the same brackets
    open and no unterminated literal or comment."""
    sides = []
    for text in (removed, added):
        faults: list[CFault] = []
        tokens = [
            one for one in _tokens(text, text.split(b"\n"), faults) if one.kind in ("sign", "directive")
        ]
        if faults or any(one.kind == "directive" for one in tokens) or b"*/" in text:
            return removed != added
        left: list[bytes] = []
        for sign in (one.text for one in tokens if one.text in _CLOSES or one.text in _CLOSES.values()):
            if left and left[-1] == _CLOSES.get(sign):
                left.pop()
            else:
                left.append(sign)
        sides.append(left)
    return sides[0] != sides[1]


def new_c_faults(before: bytes, after: bytes) -> list[CFault]:
    """The faults that the change from `before` to `after` (both UTF-8) adds, in order."""
    old, new = _faults(before), _faults(after)
    known = Counter((fault.message.partition(" on line")[0], fault.of) for fault in old)
    added = []
    for fault in new:
        key = fault.message.partition(" on line")[0], fault.of
        if known[key]:
            known[key] -= 1
        else:
            added.append(fault)
    if sum(fault.bracket for fault in new) <= sum(fault.bracket for fault in old):
        added = [
            fault for fault in added if not fault.bracket
        ]  # another bracket is left over, but no more of them
    return added


def _faults(text: bytes) -> list[CFault]:
    lines = text.split(b"\n")
    found: list[CFault] = []
    tokens = list(_tokens(text, lines, found))
    found += _brackets(tokens, lines)
    tokens = [token for token in tokens if token.kind != "directive"]
    found += _unfinished(tokens, lines)
    found += _prose(tokens, lines)
    return sorted(found)


def _tokens(text: bytes, lines: Sequence[bytes], faults: list[CFault]) -> Iterator[_Token]:
    """The tokens without blanks and comments; a directive is one. Literals without an end, and odd characters, are put
    into `faults`. What `#if 0` leaves out is skipped."""
    place, line, fresh, column = 0, 0, True, 0
    while place < len(text):
        if fresh and (directive := _DIRECTIVE.match(text, place)):
            yield _Token("directive", directive[1], line, 0, True)._replace(
                text=directive[1] + b" " + directive[2].strip()
            )
            end = directive.end()
            if directive[1] == b"if" and directive[2].split(b"/")[0].strip() == b"0":
                end = _skipped(text, end)
            line += text.count(b"\n", place, end)
            place = end
            fresh = False
            continue
        match = _TOKEN.match(text, place)
        assert match is not None
        kind, message, place = str(match.lastgroup), match[0], match.end()
        if kind == "mark":
            kind = "raw"
        if kind in {"blank", "comment"}:
            line += message.count(b"\n")
            fresh = message == b"\n" or (fresh and kind == "blank")
            continue
        of = lines[line].strip()
        if kind == "endless":
            faults.append(CFault(line, f"the comment on line {line + 1} is not closed", of))
            return
        if kind == "open":
            faults.append(CFault(line, f"a `{message.decode()}` without its end on line {line + 1}", of))
            rest = _LINE.match(text, place)
            place = rest.end() - rest[0].endswith(b"\n") if rest else place
            continue
        if kind == "odd":
            shown = message.decode("latin-1")
            shown = shown if shown.isprintable() else f"\\x{message[0]:02x}"
            faults.append(CFault(line, f"stray `{shown}` on line {line + 1}", of))
        if fresh:
            column = len(lines[line].expandtabs(8)) - len(lines[line].expandtabs(8).lstrip())
        yield _Token(kind, message, line, column, fresh)
        fresh = False
        line += message.count(b"\n")


def _skipped(text: bytes, place: int) -> int:
    """Where the branch that begins at `place` ends: before its `#else`, `#elif` or `#endif`."""
    depth = 0
    for match in re.finditer(rb"^[ \t]*#[ \t]*(if|ifdef|ifndef|el\w+|endif)\b", text[place:], re.MULTILINE):
        if match[1].startswith(b"if"):
            depth += 1
        elif depth == 0:
            return place + match.start() - 1
        elif match[1] == b"endif":
            depth -= 1
    return len(text)


class _Branches(NamedTuple):
    directive: bytes
    before: list[_Token]  # the open brackets at `#if`
    after: list[_Token] | None  # and at the end of its first branch, where another one follows


def _brackets(tokens: Sequence[_Token], lines: Sequence[bytes]) -> list[CFault]:
    """The unmatched brackets. Of each `#if ... #else` the first branch counts; the others must leave as many open."""
    found: list[CFault] = []
    stack: list[_Token] = []
    branches: list[_Branches] = []
    uneven: set[bytes] = set()
    shallow: _Token | None = None  # the first `{` whose `}` is further left: its own is missing
    for token in tokens:
        if token.kind == "directive":
            name = token.text.partition(b" ")[0]
            if name in {b"if", b"ifdef", b"ifndef"}:
                branches.append(_Branches(token.text, stack.copy(), None))
            elif branches and (name == b"endif" or name.startswith(b"el")):
                one = branches[-1]
                if one.after is not None and [t.text for t in stack] != [t.text for t in one.after]:
                    message = f"the branches before line {token.line + 1} leave different brackets open"
                    found.append(CFault(token.line, message, b"", bracket=True))
                if name == b"endif":
                    branches.pop()
                    stack = stack if one.after is None else one.after
                    if len(stack) > len(one.before):
                        uneven.add(one.directive)
                else:
                    branches[-1] = one._replace(after=stack if one.after is None else one.after)
                    stack = one.before.copy()
            continue
        if token.kind != "sign":
            continue
        counts = all(one.after is None for one in branches)
        if token.text in (b"(", b"[", b"{"):
            stack.append(token)
        elif token.text in _CLOSES:
            if token.text == b"}":
                while stack and stack[-1].text != b"{":
                    left = stack.pop()
                    if counts:
                        found.append(_open(left, lines))
            if stack and stack[-1].text == _CLOSES[token.text]:
                opened = stack.pop()
                if token.text == b"}" and token.first and token.column < opened.column:
                    shallow = shallow or opened
            elif counts:
                message = f"unmatched `{token.text.decode()}` on line {token.line + 1}"
                found.append(CFault(token.line, message, lines[token.line].strip(), bracket=True))
    if any(b"ifndef" + one.removeprefix(b"ifdef") in uneven for one in uneven if one.startswith(b"ifdef")):
        return []  # `#ifdef X`, `{`, `#endif`, `#ifndef X`, `{`, `#endif`, `}`: one of them is meant
    if shallow is not None and stack and stack[0].text == b"{":
        stack[0] = shallow
    return found + [_open(token, lines) for token in stack]


def _open(token: _Token, lines: Sequence[bytes]) -> CFault:
    message = f"the `{token.text.decode()}` on line {token.line + 1} is not closed"
    return CFault(token.line, message, lines[token.line].strip(), bracket=True)


def _unfinished(tokens: Sequence[_Token], lines: Sequence[bytes]) -> Iterator[CFault]:
    """Statements that end with their line or block, but without a `;`."""
    start, depth = 0, 0
    blocks: list[str] = []
    for n, token in enumerate(tokens):
        ends = token.text == b"}" or token.kind == "word"
        if depth == 0 and token.first and ends and n > start:
            statement = tokens[start:n]
            if _lacks_end(statement, token, blocks[-1] if blocks else ""):
                last = statement[-1]
                yield CFault(last.line, f"a `;` is missing on line {last.line + 1}", lines[last.line].strip())
                start = n
        if token.text in (b"(", b"["):
            depth += 1
        elif token.text in (b")", b"]"):
            depth = max(depth - 1, 0)
        elif token.text in (b";", b"{", b"}", b"else", b"do", b":"):
            if token.text == b"{":
                blocks.append(_block(tokens[max(start, n - 8) : n]))
            elif token.text == b"}" and blocks:
                blocks.pop()
            if token.text in (b"{", b"}"):
                depth = 0
            start = n + 1


def _block(head: Sequence[_Token]) -> str:
    """What the `{` after these tokens opens: "code", "struct", or "" if that is unknown."""
    texts = [token.text for token in head]
    if not texts or texts[-1] in (b")", b"else", b"do", b"try"):
        return "code"
    return "struct" if {b"struct", b"union", b"class"}.intersection(texts) and b"=" not in texts else ""


def _lacks_end(statement: Sequence[_Token], after: _Token, block: str) -> bool:
    """Whether the statement in such a `block` is over where `after` begins a line."""
    if statement[0].text in _CONTROL and statement[1:2] and statement[1].text == b"(":
        statement = statement[_group_end(statement) + 1 :] or statement
    first, last = statement[0], statement[-1]
    if _MACRO.fullmatch(after.text) or after.text in (
        b"and",
        b"or",
        b"not",
        b"requires",
        b"noexcept",
        b"const",
    ):
        return False
    outside = {token.text for token in _outside(statement)}
    assigns = bool(outside & _ASSIGNS)
    call = _group(statement) if last.text == b")" else 0
    if last.kind == "word":
        if last.text in _KEYWORDS - {b"this", b"break", b"continue"}:
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
    if first.text in _CONTROL or first.text in (b"case", b"template", b"using", b"typedef", b"operator"):
        return False
    if first.text in _JUMPS:
        return True
    if after.text == b"}" and (block != "code" or b"," in outside or first.text in (b".", b"[")):
        return False
    if assigns:
        return True
    if last.text == b")":
        # a call; a macro may stand for a loop (`list_for_each(p, l)`), whose body is further right
        names = all(token.kind == "word" or token.text in (b".", b"->", b"::") for token in statement[:call])
        words = sum(token.kind == "word" for token in statement[:call])
        named = names and words == 1 + sum(token.kind == "sign" for token in statement[:call])
        return block == "code" and named and (after.text == b"}" or after.column <= first.column)
    if last.kind != "word" or not block or after.text == b"}":
        return False
    declared = len(statement) > 1 and all(token.kind == "word" or token.text == b"*" for token in statement)
    return declared and (after.text in _TYPES or (block == "code" and after.text in _STATEMENTS))


def _group(statement: Sequence[_Token]) -> int:
    """The index of the `(` that the last `)` closes."""
    depth = 0
    for n in range(len(statement) - 1, -1, -1):
        depth += (statement[n].text == b")") - (statement[n].text == b"(")
        if depth == 0:
            return n
    return 0


def _group_end(statement: Sequence[_Token]) -> int:
    """The index of the `)` that closes the first `(`."""
    depth = 0
    for n, token in enumerate(statement):
        depth += (token.text == b"(") - (token.text == b")")
        if depth == 0 and token.text == b")":
            return n
    return len(statement)


def _outside(statement: Sequence[_Token]) -> Iterator[_Token]:
    """The tokens of a statement that are in no bracket."""
    depth = 0
    for token in statement:
        depth -= token.text in (b")", b"]")
        if depth <= 0:
            yield token
        depth += token.text in (b"(", b"[")


def _prose(tokens: Sequence[_Token], lines: Sequence[bytes]) -> Iterator[CFault]:
    run = 0
    line = -1
    for token in tokens:
        plain = token.kind == "word" and _PLAIN_WORD.fullmatch(token.text) and token.text not in _KEYWORDS
        run = 0 if not plain else run + 1 if token.line == line else 1
        line = token.line
        if run == _PROSE_WORDS:
            yield CFault(token.line, f"line {token.line + 1} is not code", lines[token.line].strip())
