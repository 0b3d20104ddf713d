"""Split a reply into pieces, and recognize tool calls in the format of other programs.

Pieces (prose, code, patches, tags) are found from left to right, and the first to start wins: a tag inside a patch, a
code fence or a body is not a tag, and a patch in a body is not a patch. Models know other formats of calls: tags, JSON,
XML, a shell block alone. Such a call is never performed; the model gets advice on how to write it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Set
from typing import Literal

from repoagent.agent.actions import NAME, OPEN, Action, arguments, balanced, closing
from repoagent.agent.state import EDIT, Tool
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


def pieces(reply: str, known: Set[str], nonce: str, *, loose: bool = False) -> Iterator[Piece]:
    """The pieces of `reply` in order; the last may be an "imitation" of another speaker and takes the rest.

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
        if fresh and _imitates(reply, at, line_end, nonce):
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


def _imitates(reply: str, at: int, line_end: int, nonce: str) -> bool:
    """Whether the line at `at` imitates another speaker; "user: …" at the start of a reply is a heading."""
    if nonce and reply.find(nonce, at, line_end) >= 0:
        return True
    return _IMITATION.match(reply, at) is not None and (reply[at] == "<" or reply[:at].strip() != "")


def _tag(reply: str, at: int, name: str, line: str) -> Piece:
    """The action that starts at `at`, or the problem with it."""

    def bad(problem: str) -> Piece:
        return Piece("bad", line, problem=problem)

    if name == EDIT:
        return bad("an edit has no tag: write it as a patch, in the form described at the start.")
    opened = OPEN.match(reply, at)
    if opened is None:
        return bad(f'the tag <{name} is malformed: write arguments as key="value", and end it with > or />.')
    args = arguments(opened[2])
    if args is None:
        return bad(f"the tag <{name}> has the same argument twice.")
    mark = args.pop("id", None)
    end, body = opened.end(), ""
    if opened[3]:
        mark = ""
    else:
        close = closing(name, mark)
        closed = close.search(reply, opened.end())
        written = f"</{name}>" if mark is None else f'</{name} id="{mark}">'
        if closed is None:
            return bad(
                f"<{name}> is not closed; end it with {written}, or write <{name} …/> if it has no body."
            )
        end, body, rest = closed.end(), reply[opened.end() : closed.start()], reply[closed.end() :]
        if mark is None:
            # the first closing tag may be part of the body: after an opening one, or inside its code
            in_code = not balanced(body) and re.search(rf"</?{name}(?![\w-])", rest)
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


LEAD = 300  # characters of a paragraph that only announces what follows

_SHELL = frozenset(["bash", "sh", "shell", "zsh", "console", "terminal", "shell-session", "shellsession"])
_NAMES = {  # names of these tools in other programs
    "run": "bash sh shell zsh cmd command console terminal exec execute execute_command execute_bash run_command "
    "run_shell_command run_terminal_cmd run_in_terminal shell_command local_shell container.exec bash_command",
    "read": "read_file view view_file open open_file cat get_file_contents",
    "search": "grep rg search_files search_code grep_search codebase_search search_file_content",
    "files": "ls list_files list_dir list_directory glob find file_search find_files",
    EDIT: "write_file write_to_file create_file edit_file apply_diff apply_patch replace replace_in_file str_replace "
    "str_replace_editor str_replace_based_edit_tool insert_edit_into_file multi_edit",
    "finish": "attempt_completion submit task_complete",
}
_TOOL_OF_NAME = {name: tool for tool, names in _NAMES.items() for name in names.split()}
_CALLS = frozenset(
    ["tool_call", "tool_calls", "function_call", "function_calls", "tool_use", "tool_code", "invoke"]
)
_SURE = _CALLS | _TOOL_OF_NAME.keys() | _NAMES.keys()
_NAME_KEYS = ("name", "tool", "tool_name", "function", "action", "recipient_name")
_ARGUMENT_KEYS = {
    "arguments", "parameters", "input", "args", "params", "tool_input", "action_input",
    "command", "cmd", "script", "code",
}  # fmt: skip

_TAG = re.compile(r"<(?:\w+:)?([A-Za-z][\w.-]*)((?:\s+[\w:.-]+\s*=\s*(?:\"[^\"]*\"|'[^']*'))*)\s*(/?)>")
_START = re.compile(r"[ \t]*(?:<(?:\w+:)?([A-Za-z][\w.-]*)|([{\[])|(`{3,}|~{3,}))")
_BLOCK = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*([\w-]*)[^\n]*\n(.*?)\n?[ \t]*(?:\1[ \t]*)?\Z", re.DOTALL)
_ATTRIBUTE = re.compile(r"name\s*=\s*[\"']([^\"']+)[\"']")
_EXAMPLE = re.compile(r"<(\w+)[^<>]*(?:/>|>.*?</\1>)", re.DOTALL)


@dataclass(frozen=True)
class Call:
    """A tool call in another format. `name`: the name of the tool in the call, "" for a shell block. `sure`: it cannot
    be part of an answer, as other markup may be."""

    form: Literal["tag", "call", "fence"]
    name: str = ""
    sure: bool = True


def foreign(words: str) -> Call | None:
    """The call in `words`, a reply without its actions; None if they are an answer to the user. A sentence may
    announce the call; a longer text only if the call has the name of a known tool."""
    at = 0
    for line in words.splitlines(keepends=True):
        start = at
        at += len(line)
        match = _START.match(line)
        if match is None:
            continue
        name = (match[1] or "").lower()
        lead, rest = words[:start].strip(), words[start:].strip()
        short = len(lead) <= LEAD and "\n\n" not in lead
        if name in _SURE or short:
            call = _element(rest) if name else _block(rest)
            if call is not None and (short or call.sure):
                return call
        if _BLOCK.match(rest) or rest.startswith(("```", "~~~")):
            return None  # a code block is a quotation, and later text explains it
    return None


def advice(call: Call, tools: Mapping[str, Tool]) -> str:
    """Advice for the model: how to write `call`, or that there is no such tool."""
    tool = "run" if call.form == "fence" else _TOOL_OF_NAME.get(call.name.lower(), call.name.lower())
    if call.form == "fence":
        problem = "a code block is not performed"
    elif tool in tools and tool == call.name:
        problem = f"`{call.name}` was called in a form that is not supported here"
    else:
        problem = f"there is no tool `{call.name}` here"
    if tool == EDIT and EDIT in tools:
        sentence = f"{problem}; an edit is a patch in your reply, in the form described at the start."
    elif tool in tools:
        example = _EXAMPLE.search(tools[tool].text)  # as the prompt shows it
        purpose = "to run a command write" if tool == "run" else "write"
        sentence = f"{problem}; {purpose} {example[0] if example else f'<{tool}/>'}."
    else:
        hint = "; no tool here runs commands" if call.form == "fence" else ""
        names = [name for name in tools if name != EDIT] + (["patches"] if EDIT in tools else [])
        sentence = f"{problem}{hint}; the tools are {', '.join(names)}."
    if call.form == "fence":
        return f"{sentence} If it is your answer, send it again."
    return sentence if call.sure else f"{sentence} If it is part of your answer, put it in a code block."


def _block(text: str) -> Call | None:
    """A call as JSON, bare or in a code block, or a shell code block, with nothing after it."""
    block = _BLOCK.match(text)
    if block is None:
        return _json(text)
    if re.search(rf"(?m)^[ \t]*{block[1]}", block[3]):
        return None  # there are several blocks
    language = block[2].lower()
    if language in _SHELL:
        return Call("fence", sure=False) if block[3].strip() else None
    return _json(block[3]) if language in {"", "json", "tool_call", "tool_code"} else None


def _element(text: str) -> Call | None:
    """The first of one or several tags with at most a sentence after them."""
    first: Call | None = None
    at = 0
    while opened := _TAG.match(text, at):
        name = opened[1].lower()
        at = opened.end()
        if not opened[3]:
            close = re.compile(rf"</(?:\w+:)?{re.escape(opened[1])}\s*>").search(text, at)
            if close is None and name not in _CALLS:
                return None
            body = text[at : close.start() if close else None]
            at = close.end() if close else len(text)
        else:
            body = ""
        first = first or (
            _wrapped(name, opened[2], body) if name in _CALLS else Call("tag", name, name in _SURE)
        )
        at += len(text[at:]) - len(text[at:].lstrip())
    rest = text[at:]
    if first is None or (rest and (not first.sure or len(rest) > LEAD or "\n\n" in rest)):
        return None
    return first


def _wrapped(name: str, attributes: str, body: str) -> Call:
    """The call inside a wrapper such as `<tool_call>`."""
    if call := _json(body):
        return call
    inner = _TAG.search(body)
    named = _ATTRIBUTE.search(attributes) or (_ATTRIBUTE.search(inner[2]) if inner else None)
    tool = named[1] if named else inner[1].lower() if inner else name
    return Call("call", tool.removeprefix("functions."))


def _json(text: str) -> Call | None:
    """A tool call as JSON: an object with the name of a tool and arguments, possibly inside other objects."""
    try:
        value, end = json.JSONDecoder().raw_decode(text.strip())
    except (ValueError, RecursionError):
        return None
    if text.strip()[end:].strip()[:1] not in {"", "{", "<"}:
        return None
    while True:
        if isinstance(value, list) and value:
            value = value[0]
        elif isinstance(value, dict) and isinstance(value.get("tool_calls"), list):
            value = value["tool_calls"]
        elif isinstance(value, dict) and isinstance(value.get("function"), dict):
            value = value["function"]
        else:
            break
    if not isinstance(value, dict) or _ARGUMENT_KEYS.isdisjoint(value):
        return None
    name = next((value[key] for key in _NAME_KEYS if isinstance(value.get(key), str)), "")
    return Call("call", name.removeprefix("functions.")) if name else None
