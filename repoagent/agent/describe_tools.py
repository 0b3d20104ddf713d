"""Describe the tools to a model: in the prompt, and as schemas for an API with native tool calls.

The schema of a tool is derived from the tag in its text. A native call is converted to that tag in the text of the
reply, so the conversation and the loop handle only tags.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib.resources import files
from itertools import takewhile
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from repoagent.agent.actions import Action, render_action
from repoagent.agent.parse_reply import parse_reply
from repoagent.agent.state import EDIT, OWN, TAGGED, Tool
from repoagent.llm.conversation import Turn, to_messages
from repoagent.llm.model import Message, ReplyBlocks, ToolSchema

if TYPE_CHECKING:
    from repoagent.llm.media import Media

BODY = "body"  # the argument that is the body of the tag

_TAG = re.compile(r"<([a-z][a-z0-9_-]*)((?:\s+[\w-]+=\"[^\"\n]*\")*)\s*(?:/>|>(.*?)</\1>)", re.DOTALL)
_ARGUMENT = re.compile(r'(?<![\w$/<-])([A-Za-z_][\w-]*)=(?:"([^"\n]*)")?')


def protocol_text(
    tools: Iterable[Tool], edits: Literal["edits", "changes"] = "edits", *, native: bool = False
) -> str:
    """The part of a prompt that describes the format of replies: the protocol, and the texts of `tools` and of the
    loop's own tools. If `edits` is "edits", the first edit that applies ends the run; if it is "changes", a run may
    make many. With `native`, tools that can be called natively are left out; see `tool_schemas`."""
    by_name = {tool.name: tool for tool in (*OWN, *tools)}
    edit = by_name.pop(EDIT, None)
    described = [tool for name, tool in by_name.items() if name in TAGGED or not native]
    tags = "\n".join(f"- {tool.text.strip()}" for tool in described if tool.text)
    texts = [_prompt("native" if native else "protocol"), f"Tags:\n{tags}"]
    if edit:
        texts += [_prompt(edits), edit.text.strip()]
    return "\n\n".join(texts) + "\n"


def _prompt(name: str) -> str:
    return (files("repoagent.agent") / "prompts" / f"{name}.md").read_text(encoding="utf-8").strip()


def tool_schemas(tools: Iterable[Tool]) -> tuple[ToolSchema, ...]:
    """The schemas of the `tools` that can be called natively; calls of the others are tags in the text of a reply."""
    tools = tuple(tools)
    tags = [tag for tool in tools for tag in _TAG.finditer(tool.text)]
    result = []
    for tool in tools:
        if tool.name in TAGGED:
            continue
        own_tags = [tag for tag in tags if tag[1] == tool.name]  # a text may also show another tool's tag
        rest = _TAG.sub(" ", tool.text)
        named = [
            match[1] for text in (*(tag[2] for tag in own_tags), rest) for match in _ARGUMENT.finditer(text)
        ]
        names = [name for name in dict.fromkeys(named) if name not in {"id", BODY}]
        has_body = any(tag[3] is not None for tag in own_tags)
        required: list[str] = []
        if len(own_tags) == 1:  # its first argument and the body
            required = [match[1] for match in _ARGUMENT.finditer(own_tags[0][2])][:1] + [BODY] * has_body
        result.append(
            ToolSchema(
                tool.name,
                _TAG.sub(_tag_as_call, tool.text.strip()),
                (*names, *([BODY] if has_body or not own_tags else [])),
                tuple(required),
                partial(_call_as_tag, tool.name),
            )
        )
    return tuple(result)


def messages_of(
    turns: Sequence[Turn],
    nonce: str,
    tools: Iterable[Tool],
    blocks_of: Callable[[Turn], ReplyBlocks | None],
    attached: Mapping[str, Media | str] = MappingProxyType({}),
) -> tuple[Message, ...]:
    """Like `to_messages`, but includes the stored blocks of each reply, and the call that each observation answers. A
    reply whose calls were not all performed is sent as text."""
    by_name = {tool.name: tool for tool in (*OWN, *tools)}
    loose = EDIT in by_name and by_name[EDIT].loose
    blocks: dict[int, ReplyBlocks] = {}
    answers: dict[int, str] = {}
    for number, turn in enumerate(turns):
        native = blocks_of(turn) if turn.role == "assistant" else None
        if native is None:
            continue
        following = takewhile(
            lambda pair: pair[1].role != "assistant", enumerate(turns[number + 1 :], number + 1)
        )
        performed = [at for at, seen in following if seen.role == "observation" and "extra" not in seen.meta]
        calls = [(call, parse_reply(tag, by_name).actions) for call, tag in native.calls]
        results: dict[int, str] = {}  # the calls that the observations answer; others answer tags
        for at, action in zip(
            performed, parse_reply(turn.text, by_name, nonce=nonce, loose=loose).actions, strict=False
        ):
            if call := next((call for call, requested in calls if requested == (action,)), ""):
                results[at] = call
                calls = [(pending, requested) for pending, requested in calls if pending != call]
        if len(results) == len(native.calls):
            blocks[number] = native
            answers |= results
    return to_messages(turns, nonce, blocks, answers, attached)


def _tag_as_call(tag: re.Match[str]) -> str:
    """A tag in the text of a tool, as a call."""
    arguments = [f'{argument[1]}="{argument[2]}"' for argument in _ARGUMENT.finditer(tag[2])]
    arguments += [f'{BODY}="{tag[3]}"'] if tag[3] else []
    return f"{tag[1]}({', '.join(arguments)})"


def _call_as_tag(name: str, arguments: Mapping[str, Any]) -> str:
    """A call as a tag, without arguments whose names are invalid in a tag."""
    args: dict[str, str] = {}
    for key, value in arguments.items():
        if isinstance(value, bool):
            args[key] = "yes" if value else "no"
        elif value is not None:
            args[key] = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    body = args.pop(BODY, "")
    valid = {key: text for key, text in args.items() if re.fullmatch(r"(?!id$)[A-Za-z_][\w-]*", key)}
    return render_action(Action(name, valid, body))
