"""Thinking, tool calls and stop sequences of the Messages API: parsing them, and sending them back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from repoagent.agent.parse_reply import schemas
from repoagent.agent.state import Tool
from repoagent.llm.complete import complete
from repoagent.llm.model import Blocks, Message, Part, Reply, Request, Retryable
from repoagent.llm.providers.anthropic import AnthropicModel
from repoagent.llm.usage import Meter
from tests.llm.ask import ask
from tests.llm.providers.messages_server import Script, Server, blocks, text

Start = Callable[[Script], Server]
MODEL = AnthropicModel("claude-sonnet-5-5")
TOOLS = schemas(
    Tool(name, text, lambda action: pytest.fail("not performed here"))
    for name, text in [("read", '<read path="FILE"/> shows a file.'), ("run", "<run>COMMAND</run> runs it.")]
)
THOUGHT = {"type": "thinking", "thinking": "hm, let me see", "signature": "c2ln"}
SAID = {"type": "text", "text": "I look."}


def used(name: str, number: int = 1, **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": given}


def call(request: Request | None = None) -> Reply:
    pieces: list[str] = []
    reply = MODEL.complete(request or replace(ask(), tools=TOOLS), pieces.append)
    if reply.stop == "end" and not (request and request.stop):
        assert "".join(pieces) == reply.text
    return reply


def test_blocks_are_stored_unchanged(server_with: Start) -> None:
    hidden = {"type": "redacted_thinking", "data": "b3BhcXVl"}
    omitted = {"type": "thinking", "thinking": "", "signature": "YQ=="}
    content = (
        THOUGHT,
        hidden,
        omitted,
        SAID,
        used("read", path="a b.py"),
        used("run", 2, body="make | tail"),
    )
    server_with(blocks(*content))
    reply = call()
    assert reply.text == 'I look.\n<read path="a b.py"/>\n<run>make | tail</run>\n'
    assert reply.blocks is not None and reply.blocks.items == content
    assert reply.blocks.calls == (("toolu_1", '<read path="a b.py"/>'), ("toolu_2", "<run>make | tail</run>"))
    assert reply.blocks.prefix and reply.blocks.spec == MODEL.spec


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ((SAID,), "I look."),
        (({**THOUGHT, "signature": ""}, SAID), "I look."),  # a gateway that keeps signatures to itself
        (
            (THOUGHT, SAID, {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}),
            "I look.",
        ),
    ],
)
def test_blocks_that_cannot_be_sent_back_become_text(
    server_with: Start, content: tuple[Mapping[str, Any], ...], expected: str
) -> None:
    server_with(blocks(*content))
    reply = call()
    assert (reply.text, reply.blocks) == (expected, None)


@pytest.mark.parametrize(
    ("before", "tag"),
    [
        ("```diff\n--- a/x\n+++ b/x\n@@\n-1\n+2", '\n```\n<read path="x"/>\n'),  # else it would be quoted
        ("Done:\n", '<read path="x"/>\n'),
        ("", '<read path="x"/>\n'),
    ],
)
def test_a_call_is_on_a_separate_line(server_with: Start, before: str, tag: str) -> None:
    server_with(blocks(*([{"type": "text", "text": before}] if before else []), used("read", path="x")))
    assert call().text == before + tag


@pytest.mark.parametrize(
    ("given", "tag"),
    [
        ({"path": 'a"<b>.py', "lines": 12}, '<read path="a&quot;&lt;b&gt;.py" lines="12"/>'),
        (
            {"path": "x", "all": True, "none": None, "id": "7", "not a name": "1"},
            '<read path="x" all="yes"/>',
        ),
        ({}, "<read/>"),
    ],
)
def test_arguments_of_any_kind(server_with: Start, given: dict[str, Any], tag: str) -> None:
    server_with(blocks(used("read", **given)))
    assert call().text == tag + "\n"


def test_a_tool_that_was_not_offered(server_with: Start) -> None:
    server_with(blocks(used("bash", command="ls")))
    assert call().text == '<tool_call>{"name": "bash", "arguments": {"command": "ls"}}</tool_call>\n'


def test_a_call_that_is_cut(server_with: Start) -> None:
    """By the limit on length: it is not made, and the reply is continued as text. By a broken server: it is
    retried."""
    server = server_with(
        [
            blocks(SAID, {**used("run"), "input": '{"body": "make'}, stop="max_tokens"),
            " And more.",
            blocks(SAID, {**used("run"), "input": '{"body": "make'}),
            "good",
        ]
    )
    request = replace(ask(), tools=TOOLS)
    reply = complete(MODEL, request, Meter())
    assert (reply.text, reply.blocks) == ("I look. And more.", None)
    with pytest.raises(Retryable, match="was cut off"):
        call(request)
    assert len(server.requests) == 3


def back_and_forth(found: Blocks, *answers: str, tools: bool = True) -> Request:
    """A reply with these blocks, and the results of the calls that `answers` names."""
    parts = [
        Part(
            f'<observation-ab kind="read">\nresult {n}\n</observation-ab>',
            "observation",
            answers=answer,
            failed=n == 2,
        )
        for n, answer in enumerate(answers, 1)
    ]
    first = replace(ask(), tools=TOOLS if tools else ())
    said = Message("assistant", (Part("the text"),), found)
    after = Message(
        "user", (Part("By the way: ", "user"), *parts, Part("\n\nnews", "observation", cache=True))
    )
    return replace(first, messages=(*first.messages, said, after))


def sent(server: Server) -> list[list[Mapping[str, Any]]]:
    return [message["content"] for message in server.requests[-1].body["messages"]]


def test_calls_and_their_results_are_sent_back(server_with: Start) -> None:
    server = server_with([blocks(THOUGHT, used("read"), used("run", 2)), text("ok")])
    found = call().blocks
    assert found is not None
    call(back_and_forth(found, "toolu_1", "toolu_2"))
    _, said, after = sent(server)
    assert said == [THOUGHT, used("read"), used("run", 2)]
    assert [
        (block["tool_use_id"], block["is_error"], block["content"][0]["text"]) for block in after[:2]
    ] == [("toolu_1", False, "result 1"), ("toolu_2", True, "result 2")]
    assert [block["text"] for block in after[2:]] == ["By the way: ", "\n\nnews"]
    assert "cache_control" in after[-1]
    assert server.requests[-1].body["tools"][0]["input_schema"] == {
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"],
    }


@pytest.mark.parametrize(
    "case",
    ["one answer is missing", "another model", "another beginning", "no tools any more", "a secret in it"],
)
def test_invalid_blocks_become_text(server_with: Start, case: str) -> None:
    key = "sk-ant-api03-" + "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA" * 3
    server = server_with(
        [blocks({**THOUGHT, "thinking": f"ANTHROPIC_API_KEY={key}"}, used("read")), text("ok")]
    )
    found = call().blocks
    assert found is not None
    if case != "a secret in it":
        found = replace(found, items=(THOUGHT, *found.items[1:]))
    request = back_and_forth(
        replace(found, spec="anthropic/other") if case == "another model" else found,
        *(["toolu_9"] if case == "one answer is missing" else ["toolu_1"]),
        tools=case != "no tools any more",
    )
    if case == "another beginning":
        request = replace(request, system=(Part("You edit files."),))
    complete(MODEL, request, Meter())
    _, said, after = sent(server)
    assert said == [{"type": "text", "text": "the text"}]
    assert {block["type"] for block in after} == {"text"}


def test_a_call_without_thinking_stays_valid(server_with: Start) -> None:
    server = server_with([blocks(used("read")), text("ok")])
    found = call().blocks
    assert found is not None and found.prefix == ""
    call(replace(back_and_forth(found, "toolu_1"), system=(Part("You edit files."),)))
    assert sent(server)[1] == [used("read")]


def test_a_made_up_observation_ends_the_reply(server_with: Start) -> None:
    """It contains the beginning of the observation, so that it is recognized."""
    server = server_with(blocks(SAID, stop="stop_sequence", at="<observation-ab"))
    reply = call(replace(ask(), stop=("<observation-ab",)))
    assert server.requests[0].body["stop_sequences"] == ["<observation-ab"]
    assert (reply.text, reply.stop, reply.blocks) == ("I look.<observation-ab", "end", None)
