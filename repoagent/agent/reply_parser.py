"""Split a reply into pieces, from left to right: prose, code, patches, tags.

What starts first wins: a tag inside a patch, a code fence or a body is not a tag, and a patch in a body is not a patch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from dataclasses import replace
from typing import Literal

from repoagent.agent.actions import NAME, OPEN, Action, arguments, balanced, closing
from repoagent.agent.state import EDIT
from repoagent.dataclass import dataclass

DATA = frozenset({"commit", "note"})  # text for the program, nothing to perform
_HARMLESS = DATA | {"think"}  # prose may follow on the line

_LEADING_THINK = re.compile(r"\s*<think>\n?(.*?)</think>[ \t]*\r?\n?", re.DOTALL)
_FENCE = re.compile(r"[ \t]*(`{3,}(?![^\n]*`)|~{3,})[^\n]*\n?")
_INLINE_CODE = re.compile(r"(?<!`)(`+)(?!`)[^\n]*?(?<!`)\1(?!`)")
_REST_OF_LINE = re.compile(r"[ \t]*\r?\n?")
_CLOSING = re.compile(r"</([a-z][a-z0-9_-]*)\s*>")
_OBSERVATION = re.compile(r"<observation(?:-[0-9a-f]+)?(?=[\s>])")
_WHO = r"(?:human|user|assistant|system|observation)"
_IMITATION = re.compile(
    rf"</?observation\b|<\|[^|\s]{{1,40}}\|>|\[/?INST\]"
    rf"|(?:\#{{1,6}} *)?\**{_WHO}\**[ \t]*:|\#{{1,6}} *{_WHO}[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)

Kind = Literal["prose", "slip", "code", "patch", "tag", "bad", "imitation"]


@dataclass(frozen=True)
class Piece:
    """`reply[start:end]`. A tag has its `action`, and its id as `mark`; a bad one has the `problem`.

    A "slip" is prose that holds a whole action inside a line: only mentioned, or not written as it should.
    """

    kind: Kind
    start: int
    end: int
    action: Action | None = None
    mark: str | None = None
    problem: str = ""


def pieces(reply: str, known: Set[str], nonce: str, *, loose: bool = False) -> Iterator[Piece]:
    """The pieces of `reply` in order; the last may be an "imitation" of another speaker and takes the rest.

    `known` are the names of the tags that mean something; `loose` is that of `patch_spans`. Other tags
    are prose, also all after a bad one.
    """
    from repoagent.patch.parse.blocks import patch_spans

    at = 0
    last: Piece | None = None
    if thought := _LEADING_THINK.match(reply):  # of a reasoning model: whatever stands in it was only thought
        at = thought.end()
        last = Piece("tag", 0, at, Action("think", {}, thought[1]), mark="")
        yield last
    patches = {span.start + at: span.end + at for span in patch_spans(reply[at:], loose=loose)}
    while at < len(reply):
        line_end = reply.find("\n", at) + 1 or len(reply)
        line_end = next((start for start in patches if at < start < line_end), line_end)
        fresh = at == 0 or reply[at - 1] == "\n"
        after = last.action.kind if last and last.action and not fresh else None
        name = NAME.match(reply, at)
        if fresh and _imitates(reply, at, line_end, nonce):
            last = Piece("imitation", at, len(reply))
        elif at in patches:
            last = Piece("patch", at, patches[at])
        elif name and name[1] in known and (fresh or after):
            last = _tag(reply, at, name[1], line_end)
            known = known if last.action else frozenset()
        elif fresh and (end := _fence_end(reply, at)) and not any(at < start < end for start in patches):
            last = Piece("code", at, end)
        elif after and after not in _HARMLESS and not _OBSERVATION.match(reply, at):
            last = Piece("bad", at, line_end, problem=f"there is text after <{after}> on its line.")
        elif (start := _OBSERVATION.search(_without_inline_code(reply[at:line_end]))) is not None:
            yield Piece("prose", at, at + start.start())
            last = Piece("imitation", at + start.start(), len(reply))
        else:
            last = Piece("slip" if _holds_action(reply[at:line_end], known) else "prose", at, line_end)
        yield last
        at = last.end


def _without_inline_code(text: str) -> str:
    """`text` with blanks in place of code in backticks."""
    return _INLINE_CODE.sub(lambda code: " " * len(code[0]), text)


def _imitates(reply: str, at: int, line_end: int, nonce: str) -> bool:
    """Whether the line at `at` speaks as somebody else; "user: …" as the first words is a heading."""
    if nonce and reply.find(nonce, at, line_end) >= 0:
        return True
    return _IMITATION.match(reply, at) is not None and (reply[at] == "<" or reply[:at].strip() != "")


def _tag(reply: str, at: int, name: str, line_end: int) -> Piece:
    """The action that starts at `at`, or why it is none."""

    def bad(problem: str) -> Piece:
        return Piece("bad", at, line_end, problem=problem)

    if name == EDIT:
        return bad("an edit has no tag: write it as a patch, in the form described at the start.")
    opened = OPEN.match(reply, at)
    if opened is None:
        return bad(f'the tag <{name} is malformed: write arguments as key="value", and end it with > or />.')
    args = arguments(opened[2])
    if args is None:
        return bad(f"the tag <{name}> has the same argument twice.")
    mark = args.pop("id", None)
    if opened[3]:
        return _to_end_of_line(reply, Piece("tag", at, opened.end(), Action(name, args), mark=""))
    close = closing(name, mark)
    closed = close.search(reply, opened.end())
    end = f"</{name}>" if mark is None else f'</{name} id="{mark}">'
    if closed is None:
        return bad(f"<{name}> is not closed; end it with {end}, or write <{name} …/> if it has no body.")
    body = reply[opened.end() : closed.start()]
    if mark is None and _doubtful(name, body, reply[closed.end() :]):
        return bad(own_closing_tag(name))
    if mark is not None and _closed_again(reply, closed.end(), close, name):
        return bad(f"{end} occurs more than once; choose an id that the body does not contain.")
    action = Action(
        name, args, body.removeprefix("\r\n") if body.startswith("\r") else body.removeprefix("\n")
    )
    return _to_end_of_line(reply, Piece("tag", at, closed.end(), action, mark))


def own_closing_tag(name: str) -> str:
    return (
        f"it is ambiguous where <{name}> ends, because its body may contain the tag itself. Give it an id "
        f'that the body does not contain: <{name} id="x7">…</{name} id="x7">.'
    )


def _doubtful(name: str, body: str, rest: str) -> bool:
    """Whether the first closing tag may be part of the body: after an opening one, or inside its code."""
    if re.search(rf"<{name}(?![\w-])", body):
        return True
    return not balanced(body) and re.search(rf"</?{name}(?![\w-])", rest) is not None


def _closed_again(reply: str, at: int, close: re.Pattern[str], name: str) -> bool:
    """Whether the same closing tag follows, without another opening tag of the name before it."""
    again = close.search(reply, at)
    return again is not None and re.search(rf"<{name}(?![\w-])", reply[at : again.start()]) is None


def _to_end_of_line(reply: str, piece: Piece) -> Piece:
    rest = _REST_OF_LINE.match(reply, piece.end)
    return replace(piece, end=rest.end() if rest else piece.end)


def _fence_end(reply: str, at: int) -> int:
    """The end of the code fence that opens at `at`, 0 when none does. An open one takes all the rest."""
    fence = _FENCE.match(reply, at)
    if fence is None:
        return 0
    close = re.compile(rf"^[ \t]*{fence[1][0]}{{{len(fence[1])},}}[ \t]*\r?(?:\n|\Z)", re.MULTILINE)
    closed = close.search(reply, fence.end())
    return closed.end() if closed else len(reply)


def _holds_action(line: str, known: Set[str]) -> bool:
    """Whether prose holds a whole action, or the end of one."""
    line = _without_inline_code(line)
    names = known - DATA
    for tag in NAME.finditer(line):
        opened = OPEN.match(line, tag.start()) if tag[1] in names else None
        if opened and (opened[3] or f"</{tag[1]}" in line[opened.end() :]):
            return True
    return any(name[1] in names for name in _CLOSING.finditer(line))
