"""Parse a model's reply into actions. Any text can be parsed, and the parser never guesses what to run.

Pieces (prose, code, patches, tags) are found from left to right, and the piece that starts first wins: a tag inside a
patch, a code fence or a body is not a tag, and a patch in a body is not a patch. Models may use the call formats of
other programs, such as other tags or a bare shell block. Such a call is never performed; the model is told how to write
it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence, Set
from functools import lru_cache
from typing import Literal

from repoagent.agent.actions import (
    NAME,
    OPEN,
    Action,
    closing_tag_pattern,
    parse_arguments,
    quotes_are_closed,
)
from repoagent.agent.state import EDIT, ENDS
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
    """A part of a reply. A tag has its `action`, and its id as `mark`; a bad one has the `problem`.

    A "slip" is prose with a whole action inside a line: a mention, or an action in the wrong place.
    """

    kind: Kind
    text: str
    action: Action | None = None
    mark: str | None = None
    problem: str = ""


def reply_pieces(reply: str, known: Set[str], nonce: str, *, loose: bool = False) -> Iterator[Piece]:
    """The pieces of `reply` in order; the last may be an "imitation" of another speaker, which extends to the end.

    `known` are the names of the tags with a meaning; other tags are prose, and so are all tags after a bad one. `loose`
    is passed to `patch_spans`.
    """
    from repoagent.patch.parse.blocks import patch_spans

    at = 0
    last: Piece | None = None
    if thought := _LEADING_THINK.match(reply):  # of a reasoning model: nothing in it is performed
        at = thought.end()
        last = Piece("tag", thought[0], Action("think", {}, thought[1]), mark="")
        yield last
    patches = {span.start + at: span.end + at for span in patch_spans(reply[at:], loose=loose)}
    while at < len(reply):
        line_end = reply.find("\n", at) + 1 or len(reply)
        line_end = next((start for start in patches if at < start < line_end), line_end)
        line = reply[at:line_end]
        fresh = at == 0 or reply[at - 1] == "\n"
        after = last.action.kind if last and last.action and not fresh else None
        name = NAME.match(reply, at)
        # "user: ..." at the start of a reply is a heading
        speaks = _IMITATION.match(reply, at) and (reply[at] == "<" or reply[:at].strip())
        if fresh and (speaks or (nonce and nonce in line)):
            last = Piece("imitation", reply[at:])
        elif at in patches:
            last = Piece("patch", reply[at : patches[at]])
        elif name and name[1] in known and (fresh or after):
            last = _tag(reply, at, name[1], line)
            known = known if last.action else frozenset()
        elif fresh and (end := _fence_end(reply, at)) and not any(at < start < end for start in patches):
            last = Piece("code", reply[at:end])
        elif after and after not in _HARMLESS and not _OBSERVATION.match(reply, at):
            last = Piece("bad", line, problem=f"there is text after <{after}> on its line.")
        elif (start := _OBSERVATION.search(_without_inline_code(line))) is not None:
            yield Piece("prose", line[: start.start()])
            last = Piece("imitation", reply[at + start.start() :])
            at += start.start()
        else:
            last = Piece("slip" if _holds_action(line, known) else "prose", line)
        yield last
        at += len(last.text)


def _without_inline_code(text: str) -> str:
    """`text` with blanks in place of code in backticks."""
    return _INLINE_CODE.sub(lambda code: " " * len(code[0]), text)


def _tag(reply: str, at: int, name: str, line: str) -> Piece:
    """The action that starts at `at`, or the problem with it."""

    def bad(problem: str) -> Piece:
        return Piece("bad", line, problem=problem)

    if name == EDIT:
        return bad(
            "there is no tag for edits: write the edit as a patch, in the form described at the start."
        )
    opened = OPEN.match(reply, at)
    if opened is None:
        return bad(f'the tag <{name} is malformed: write arguments as key="value", and end it with > or />.')
    args = parse_arguments(opened[2])
    if args is None:
        return bad(f"the tag <{name}> has the same argument twice.")
    mark = args.pop("id", None)
    end, body = opened.end(), ""
    if opened[3]:
        mark = ""
    else:
        close = closing_tag_pattern(name, mark)
        closed = close.search(reply, opened.end())
        written = f"</{name}>" if mark is None else f'</{name} id="{mark}">'
        if closed is None:
            return bad(
                f"<{name}> is not closed; end it with {written}, or write <{name} …/> if it has no body."
            )
        end, body, rest = closed.end(), reply[opened.end() : closed.start()], reply[closed.end() :]
        if mark is None:
            # the first closing tag may be part of the body: after an opening one, or inside its code
            in_code = not quotes_are_closed(body) and re.search(rf"</?{name}(?![\w-])", rest)
            if in_code or re.search(rf"<{name}(?![\w-])", body):
                return bad(own_closing_tag(name))
        elif (second := close.search(rest)) and not re.search(rf"<{name}(?![\w-])", rest[: second.start()]):
            return bad(f"{written} occurs more than once; choose an id that the body does not contain.")
        body = body.removeprefix("\r\n") if body.startswith("\r") else body.removeprefix("\n")
    if blank := _REST_OF_LINE.match(reply, end):
        end = blank.end()
    return Piece("tag", reply[at:end], Action(name, args, body), mark)


def own_closing_tag(name: str) -> str:
    return (
        f"it is ambiguous where <{name}> ends, because its body may contain the tag itself. Give it an id "
        f'that the body does not contain: <{name} id="x7">…</{name} id="x7">.'
    )


def _fence_end(reply: str, at: int) -> int:
    """The end of the code fence that opens at `at`, 0 for none. An unclosed one extends to the end of the reply."""
    fence = _FENCE.match(reply, at)
    if fence is None:
        return 0
    close = re.compile(rf"^[ \t]*{fence[1][0]}{{{len(fence[1])},}}[ \t]*\r?(?:\n|\Z)", re.MULTILINE)
    closed = close.search(reply, fence.end())
    return closed.end() if closed else len(reply)


def _holds_action(line: str, known: Set[str]) -> bool:
    """Whether prose contains a whole action, or the closing tag of one."""
    line = _without_inline_code(line)
    names = known - DATA
    for tag in NAME.finditer(line):
        opened = OPEN.match(line, tag.start()) if tag[1] in names else None
        if opened and (opened[3] or f"</{tag[1]}" in line[opened.end() :]):
            return True
    return any(name[1] in names for name in _CLOSING.finditer(line))


_LEAD = 300  # characters that only announce the code block after them
_SHELL_BLOCK = re.compile(
    r"[ \t]*[`~]+[ \t]*(bash|sh|shell|zsh|console|terminal)[ \t]*\r?\n.*\w", re.IGNORECASE | re.DOTALL
)
# the tags of tools in other programs
_CALL = re.compile(
    r"^[ \t]*<(?:\w+:)?(?:tool_calls?|function_calls?|tool_use|invoke|run|bash|sh|shell|cmd|execute_(?:command|bash)"
    r"|run_(?:command|shell_command|terminal_cmd)|read|cat|(?:read|view|open|write|create|edit)_file|edit|view|write_to_file"
    r"|apply_(?:diff|patch)|replace_in_file|str_replace(?:_editor|_based_edit_tool)?|search|grep|rg|search_files"
    r"|(?:grep|codebase)_search|files|glob|ls|list_(?:files|dir|directory)|finish|attempt_completion|submit|python|browse)"
    r"(?=[\s/>])",
    re.MULTILINE,
)

Foreign = Literal["", "call", "block"]


def foreign_call(parts: Sequence[Piece]) -> Foreign:
    """Whether a reply without actions is a call in another program's format instead of an answer to the user: a "call"
    is a tag such as `<bash>`, `<tool_call>` or `<invoke>`, a "block" is a block of shell at the end of the reply."""
    prose = "".join(piece.text for piece in parts if piece.kind in {"prose", "slip"})
    if _CALL.search(prose):
        return "call"
    code = [piece.text for piece in parts if piece.kind in {"code", "patch"}]
    announced = len(prose.strip()) <= _LEAD and "\n\n" not in prose.strip()
    if len(code) != 1 or parts[-1].kind != "code" or not announced:
        return ""
    return "block" if _SHELL_BLOCK.match(code[0]) else ""


@dataclass(frozen=True)
class Parsed:
    """A parsed reply.

    reply: the part that counts.
    dropped: the rest, which imitates an observation or another speaker.
    thought: the prose and quoted code; also patches, if no tool applies them.
    actions: the actions in order, with `finish` or `reject` last. All patches together are one `edit`, whose body is
        the reply without its tags.
    problem: why nothing in the reply may be performed, worded for the model; None if there is no problem.
    commit_message: the content of the last `commit` tag.
    notes: the contents of all `note` tags.
    foreign: the result of `foreign_call`; "" if the reply has an action.
    """

    reply: str
    thought: str = ""
    actions: tuple[Action, ...] = ()
    problem: str | None = None
    dropped: str = ""
    commit_message: str = ""
    notes: tuple[str, ...] = ()
    foreign: Foreign = ""

    @property
    def asks(self) -> bool:
        """Whether there is anything to perform; thinking does not count."""
        return any(action.kind != "think" for action in self.actions)


def parse_reply(
    reply: str, tools: Collection[str], *, nonce: str = "", was_cut: bool = False, loose: bool = False
) -> Parsed:
    """Parse `reply`. Never raises an exception.

    tools: the names of all tools. Without `edit`, patches are not actions.
    nonce: the marker of the conversation. A line of prose that contains it imitates the program.
    was_cut: whether such an imitation was already removed.
    loose: see `Tool.loose`.
    """
    return _parsed(reply, frozenset(tools), nonce, was_cut, loose)


@lru_cache(maxsize=512)  # all replies of a run are parsed again after each step
def _parsed(reply: str, tools: frozenset[str], nonce: str, was_cut: bool, loose: bool) -> Parsed:
    parts = list(reply_pieces(reply, DATA | tools, nonce, loose=loose))
    dropped = parts.pop().text if parts and parts[-1].kind == "imitation" else ""
    doubtful = _cut_short(parts, dropped)
    if doubtful:  # keep the whole reply, so that it is also doubtful when it is parsed again
        dropped = ""
    tags = [piece.action for piece in parts if piece.action]
    actions = [action for action in tags if action.kind in tools]
    patches = [number for number, piece in enumerate(parts) if piece.kind == "patch"]
    if patches and EDIT in tools:
        body = "".join(piece.text for piece in parts if piece.action is None)
        before = sum(piece.action is not None and piece.action.kind in tools for piece in parts[: patches[0]])
        actions.insert(before, Action(EDIT, {}, body))
    actions.sort(key=lambda action: action.kind in ENDS)
    words = {"prose", "slip", "code"} | ({"patch"} if EDIT not in tools else set())  # no tool applies it
    thought = "".join(piece.text for piece in parts if piece.kind in words)
    problem = own_closing_tag(doubtful) if doubtful else None
    problem = problem or _problem(parts, actions, tools, dropped=was_cut or bool(dropped))
    asks = any(action.kind != "think" for action in actions)
    return Parsed(
        reply[: len(reply) - len(dropped)],
        thought=thought.strip(),
        actions=() if problem else tuple(actions),
        problem=problem,
        dropped=dropped,
        commit_message=next((tag.body.strip() for tag in reversed(tags) if tag.kind == "commit"), ""),
        notes=tuple(" ".join(tag.body.split()) for tag in tags if tag.kind == "note" and tag.body.strip()),
        foreign="" if problem or asks else foreign_call(parts),
    )


def _problem(
    parts: Sequence[Piece], actions: Sequence[Action], tools: Collection[str], *, dropped: bool
) -> str | None:
    for piece in parts:
        if piece.problem:
            return piece.problem
    kinds = {action.kind for action in actions}
    if kinds >= ENDS or {"reject", EDIT} <= kinds:
        return "it rejects the task but also finishes it or edits a file; send only one of them."
    if actions:
        return None
    if dropped:
        return "there is no action before the part that imitates another speaker."
    if any(piece.kind == "slip" for piece in parts):
        return "an action is inside a line; put it on its own line, or in backticks if you only mention it."
    written = [piece for piece in parts if piece.action is None and piece.text.strip()]
    if len(written) == 1 and written[0].kind == "code":
        name = NAME.match(written[0].text.partition("\n")[2])
        if name and name[1] in tools:
            return "the action is in a code fence; write it without the fence."
    return None if written else "it is empty."


def _cut_short(parts: Sequence[Piece], dropped: str) -> str | None:
    """The name of a tag that is closed more often than opened, so that a body without id may have been cut.

    Closing tags in code and patches count, too, because these may begin inside the body. But a diff may change lines
    with a tag `note` in a file.
    """
    plain = [piece.action for piece in parts if piece.action and piece.mark is None]
    texts = [piece.text for piece in parts if piece.action is None]
    texts += [*(action.body for action in plain), dropped]
    for name in sorted({action.kind for action in plain}):
        opening, closing = f"<{name}(?![\\w-])", f"</{name}(?![\\w-])"
        if name in DATA:
            closing = f"(?m)^(?![ +-]).*{closing}"
        if any(len(re.findall(closing, text)) > len(re.findall(opening, text)) for text in texts):
            return name
    return None
