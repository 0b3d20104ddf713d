"""A thinking model with the Messages API: it signs its thinking, and accepts it back only unchanged.

A signature is valid for the model and everything before it: system, tools and messages without cache breakpoints, as
the API checks it for new accounts; every call needs its result, first in the next message. A violation is a 400. If
tools are offered, the tags in a reply become calls, and the rule gets them as tags again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from repoagent.agent.actions import Action, render_action
from repoagent.agent.parse_reply import reply_pieces
from repoagent.llm.model import json_strings
from tests.llm.providers.messages_server import blocks, status
from tests.llm.providers.streaming_server import Behaviour, Received

NONCE = "0badcafe"  # of observations that were results
_NONCE = re.compile(r"<observation-([0-9a-f]{8}) kind=")


@dataclass
class Thinker:
    """`thoughts` is its thinking by the number of the call from 1 ("" for none); `rejected` is what it rejected."""

    rule: Callable[[Received], str]
    thoughts: Callable[[int], str] = "thought {}".format
    account: str = ""
    calls: int = 0
    rejected: list[str] = field(default_factory=list)
    wrote: list[str] = field(default_factory=list)

    def __call__(self, received: Received) -> Behaviour:
        if fault := fault_of(received.body, self.account):
            self.rejected.append(fault)
            return status(400, fault)
        self.calls += 1
        reply = self.rule(in_tags(received))
        thought = self.thoughts(self.calls)
        sign = signature(received.body, len(received.body["messages"]), thought, self.account)
        signed = {"type": "thinking", "thinking": thought, "signature": sign}
        names = [tool["name"] for tool in received.body.get("tools", ())]
        said = in_calls(reply, names, self.calls) if names else [{"type": "text", "text": reply}]
        self.wrote.append(" ".join(json_strings(said)) if names else reply)
        prompt = json.dumps([_plain(received.body), received.body["messages"]])
        return blocks(*([signed] if thought else []), *said, usage={"input_tokens": len(prompt) // 4})


def signature(body: Mapping[str, Any], number: int, thought: str, account: str) -> str:
    """The signature of a thought in the message `number` of a request."""
    before = unmarked([_plain(body), body["messages"][:number]])
    return sha256(json.dumps([account, body["model"], before, thought], sort_keys=True).encode()).hexdigest()


def fault_of(body: Mapping[str, Any], account: str) -> str:
    """The API's error for a request; "" if it is valid."""
    due: list[str] = []
    for number, message in enumerate(body["messages"]):
        content = message["content"]
        results = [block["tool_use_id"] for block in content if block["type"] == "tool_result"]
        if results != due or any(block["type"] != "tool_result" for block in content[: len(due)]):
            return f"messages.{number}: `tool_use` ids without `tool_result` blocks immediately after"
        due = [block["id"] for block in content if block["type"] == "tool_use"]
        if due and not body.get("tools"):
            return "Requests which include `tool_use` blocks must define tools"
        if any(block["type"] == "text" and not block["text"].strip() for block in content):
            return f"messages.{number}: text content blocks must contain non-whitespace text"
        for block in [block for block in content if block["type"] == "thinking"]:
            if block["signature"] != signature(body, number, block["thinking"], account):
                return f"messages.{number}: Invalid `signature` in `thinking` block: bound to another prefix"
    return ""


def in_tags(received: Received) -> Received:
    """The equivalent request without native tools."""
    found = _NONCE.search(json.dumps(received.body["messages"]))
    nonce = found[1] if found else NONCE
    names: dict[str, str] = {}
    messages = []
    for message in received.body["messages"]:
        content: list[dict[str, Any]] = []
        for block in message["content"]:
            text = block.get("text", "")
            if block["type"] == "tool_use":
                names[block["id"]] = block["name"]
                args = dict(block["input"])
                text = f"\n{render_action(Action(block['name'], args, args.pop('body', '')))}\n"
            elif block["type"] == "tool_result":
                result = "".join(part["text"] for part in block["content"])
                kind = names[block["tool_use_id"]]
                text = f'<observation-{nonce} kind="{kind}">\n{result}\n</observation-{nonce}>\n\n'
            if text:
                content.append({"type": "text", "text": text})
        messages.append({"role": message["role"], "content": content})
    offered = "".join(f"\n- <{tool['name']}/>" for tool in received.body.get("tools", ()))
    system = [*received.body.get("system", ()), {"type": "text", "text": offered}]
    return replace(received, body={**received.body, "system": system, "messages": messages})


def in_calls(reply: str, names: list[str], number: int) -> list[dict[str, Any]]:
    """The blocks of a reply: its text, then its tags of offered tools."""
    text, calls = "", []
    for piece in reply_pieces(reply, {*names, "finish", "reject", "commit", "note", "message"}, ""):
        action = piece.action
        if action is None or action.kind not in names:
            text += piece.text
            continue
        given = {**action.args, **({"body": action.body} if action.body else {})}
        name = {"id": f"toolu_{number}_{len(calls)}", "name": action.kind}
        calls.append({"type": "tool_use", **name, "input": given})
    return [*([{"type": "text", "text": text}] if text.strip() else []), *calls]


def _plain(body: Mapping[str, Any]) -> list[Any]:
    return [unmarked(body.get("system", [])), body.get("tools", [])]


def unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: unmarked(inner) for key, inner in value.items() if key != "cache_control"}
    return [unmarked(inner) for inner in value] if isinstance(value, list) else value
