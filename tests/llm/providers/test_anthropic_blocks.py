"""Thinking, tool calls and stop sequences of the Messages API: parsing them, and sending them back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from repoagent.agent.describe_tools import tool_schemas
from repoagent.agent.state import Tool
from repoagent.llm.complete import complete
from repoagent.llm.model import Message, Part, Reply, ReplyBlocks, Request, Retryable
from repoagent.llm.providers.anthropic import AnthropicModel
from repoagent.llm.usage import Meter
from tests.llm.helpers import ask, call, refused
from tests.llm.providers.messages_server import Server, blocks, text
from tests.llm.providers.streaming_server import Script

Start = Callable[[Script], Server]
MODEL = AnthropicModel("claude-sonnet-5-5")
TOOLS = tool_schemas(
    Tool(name, text, lambda action: pytest.fail("not performed here"))
    for name, text in [("read", '<read path="FILE"/> shows a file.'), ("run", "<run>COMMAND</run> runs it.")]
)
THOUGHT = {"type": "thinking", "thinking": "hm, let me see", "signature": "c2ln"}
SAID = {"type": "text", "text": "I look."}
OFFERED = replace(ask(), tools=TOOLS)
KEY = "sk-ant-api03-" + "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA" * 3


def used(name: str, number: int = 1, **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": given}


def offer(request: Request = OFFERED) -> Reply:
    return call(MODEL, request)


def test_blocks_are_stored_unchanged(server_with: Start) -> None:
    hidden = {"type": "redacted_thinking", "data": "b3BhcXVl"}
    omitted = {"type": "thinking", "thinking": "", "signature": "YQ=="}
    calls = (used("read", path="a b.py"), used("run", 2, body="make | tail"))
    content = (THOUGHT, hidden, omitted, SAID, *calls)
    server_with(blocks(*content))
    reply = offer()
    assert reply.text == 'I look.\n<read path="a b.py"/>\n<run>make | tail</run>\n'
    assert reply.blocks is not None and reply.blocks.items == content
    assert reply.blocks.calls == (("toolu_1", '<read path="a b.py"/>'), ("toolu_2", "<run>make | tail</run>"))
    assert reply.blocks.prefix and reply.blocks.spec == MODEL.spec


def test_blocks_that_cannot_be_sent_back_become_text(server_with: Start) -> None:
    unsigned = {**THOUGHT, "signature": ""}  # a gateway that keeps signatures to itself
    searched = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    server_with([blocks(SAID), blocks(unsigned, SAID), blocks(THOUGHT, SAID, searched)])
    for _ in range(3):
        reply = offer()
        assert (reply.text, reply.blocks) == ("I look.", None)


@pytest.mark.parametrize(
    ("before", "name", "given", "tag"),
    [
        ("Done:", "read", {"path": "x"}, '\n<read path="x"/>'),
        ("Done:\n", "read", {"path": "x"}, '<read path="x"/>'),
        ("", "read", {"path": 'a"<b>.py', "lines": 12}, '<read path="a&quot;&lt;b&gt;.py" lines="12"/>'),
        ("", "read", {"path": "x", "all": True, "none": None, "id": "7", "not a name": "1"}, '<read path="x" all="yes"/>'),
        ("", "read", {}, "<read/>"),
        # a tool that was not offered
        ("", "bash", {"command": "ls"}, '<tool_call>{"name": "bash", "arguments": {"command": "ls"}}</tool_call>'),
    ],
)  # fmt: skip
def test_a_call_becomes_a_tag_on_a_separate_line(
    server_with: Start, before: str, name: str, given: dict[str, Any], tag: str
) -> None:
    said = {"type": "text", "text": before}
    server_with(blocks(*([said] if before else []), {**used(name), "input": given}))
    assert offer().text == f"{before}{tag}\n"


def test_a_call_that_is_cut(server_with: Start) -> None:
    """By the limit on length, the reply is continued as text; by a broken server, it is retried."""
    half = (SAID, {**used("run"), "input": '{"body": "make'})
    server = server_with([blocks(*half, stop="max_tokens"), " And more.", blocks(*half), "good"])
    reply = complete(MODEL, OFFERED, Meter())
    assert (reply.text, reply.blocks) == ("I look. And more.", None)
    assert "not valid JSON" in str(refused(MODEL, Retryable, OFFERED))
    assert len(server.requests) == 3


def back_and_forth(found: ReplyBlocks, *answers: str, tools: bool = True) -> Request:
    """A reply with these blocks, and the results of the calls that `answers` names."""
    parts = [
        Part(f'<observation-ab kind="read">\nresult {n}\n</observation-ab>', "observation", answers=answer, failed=n == 2)
        for n, answer in enumerate(answers, 1)
    ]  # fmt: skip
    said = Message("assistant", (Part("the text"),), found)
    news = Part("\n\nnews", "observation", cache=True)
    after = Message("user", (Part("By the way: ", "user"), *parts, news))
    return replace(OFFERED, tools=TOOLS if tools else (), messages=(*OFFERED.messages, said, after))


def sent(server: Server) -> list[list[Mapping[str, Any]]]:
    return [message["content"] for message in server.requests[-1].body["messages"]]


def test_calls_and_their_results_are_sent_back(server_with: Start) -> None:
    server = server_with([blocks(THOUGHT, used("read"), used("run", 2)), text("ok")])
    found = offer().blocks
    assert found is not None
    offer(back_and_forth(found, "toolu_1", "toolu_2"))
    _, said, after = sent(server)
    assert said == [THOUGHT, used("read"), used("run", 2)]
    results = [(block["tool_use_id"], block["is_error"], block["content"][0]["text"]) for block in after[:2]]
    assert results == [("toolu_1", False, "result 1"), ("toolu_2", True, "result 2")]
    assert [block["text"] for block in after[2:]] == ["By the way: ", "\n\nnews"]
    assert "cache_control" in after[-1]
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    assert server.requests[-1].body["tools"][0]["input_schema"] == schema


@pytest.mark.parametrize(
    ("changed", "answer", "tools", "system"),
    [
        ({}, "toolu_9", True, "You edit."),  # one answer is missing
        ({"spec": "anthropic/other"}, "toolu_1", True, "You edit."),
        ({}, "toolu_1", True, "You edit files."),  # another beginning
        ({}, "toolu_1", False, "You edit."),  # no tools any more
        ({"items": ({**THOUGHT, "thinking": f"ANTHROPIC_API_KEY={KEY}"}, used("read"))}, "toolu_1", True, "You edit."),
    ],
)  # fmt: skip
def test_invalid_blocks_become_text(
    server_with: Start, changed: dict[str, Any], answer: str, tools: bool, system: str
) -> None:
    server = server_with([blocks(THOUGHT, used("read")), text("ok")])
    found = offer().blocks
    assert found is not None
    request = back_and_forth(replace(found, **changed), answer, tools=tools)
    complete(MODEL, replace(request, system=(Part(system),)), Meter())
    _, said, after = sent(server)
    assert said == [{"type": "text", "text": "the text"}]
    assert {block["type"] for block in after} == {"text"}


def test_a_call_without_thinking_stays_valid(server_with: Start) -> None:
    server = server_with([blocks(used("read")), text("ok")])
    found = offer().blocks
    assert found is not None and found.prefix == ""
    offer(replace(back_and_forth(found, "toolu_1"), system=(Part("You edit files."),)))
    assert sent(server)[1] == [used("read")]
