"""Thinking, tool calls and media of the Messages API: parsing them, and sending them."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from repoagent.agent.describe_tools import tool_schemas
from repoagent.agent.state import Tool
from repoagent.errors import UsageError
from repoagent.llm.complete import complete
from repoagent.llm.model import Message, Part, Reply, ReplyBlocks, Request, Retryable
from repoagent.llm.providers.anthropic import AnthropicModel
from repoagent.llm.usage import Meter
from tests.llm.conftest import Start
from tests.llm.helpers import ask, call, refused
from tests.llm.media.files import media, pdf, png, showing
from tests.llm.providers.messages_server import Server, blocks, error_event, status, text

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


@pytest.mark.parametrize(("before", "name", "given", "tag"), [
    ("Done:", "read", {"path": "x"}, '\n<read path="x"/>'),
    ("Done:\n", "read", {"path": "x"}, '<read path="x"/>'),
    ("```diff\n--- a/x\n+++ b/x\n@@\n-1\n+2", "read", {"path": "x"}, '\n```\n<read path="x"/>'),  # else quoted
    ("~~~~\n```\n~~~\n", "read", {"path": "x"}, '~~~~\n<read path="x"/>'),
    ("```sh\nls\n```\n", "read", {"path": "x"}, '<read path="x"/>'),
    ("", "read", {"path": 'a"<b>.py', "lines": 12}, '<read path="a&quot;&lt;b&gt;.py" lines="12"/>'),
    ("", "read", {"path": "x", "all": True, "none": None, "id": "7", "not a name": "1"}, '<read path="x" all="yes"/>'),
    ("", "read", {}, "<read/>"),
    # a tool that was not offered
    ("", "bash", {"command": "ls"}, '<tool_call>{"name": "bash", "arguments": {"command": "ls"}}</tool_call>'),
])  # fmt: skip
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


@pytest.mark.parametrize(("changed", "answer", "tools", "system"), [
    ({}, "toolu_9", True, "You edit."),  # one answer is missing
    ({"spec": "anthropic/other"}, "toolu_1", True, "You edit."),
    ({}, "toolu_1", True, "You edit files."),  # another beginning
    ({}, "toolu_1", False, "You edit."),  # no tools any more
    ({"items": ({**THOUGHT, "thinking": f"ANTHROPIC_API_KEY={KEY}"}, used("read"))}, "toolu_1", True, "You edit."),
])  # fmt: skip
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


# Images and PDFs.

SHOT, PAPER = media(png(), "shot.png"), media(pdf(), "paper.pdf")


def test_unsupported_media_are_not_sent_to_claude(server_with: Start) -> None:
    server = server_with("ok")
    error = refused(MODEL, UsageError, showing(media(png(9000), "big.png")))
    assert "big.png is 9000 x 20 pixels" in str(error) and server.requests == []


def test_the_blocks_that_claude_gets(server_with: Start) -> None:
    server = server_with("a cat")
    assert call(MODEL, showing(SHOT, PAPER, words="what is it?", cache=True)).text == "a cat"
    label, image, second, document, words = server.requests[0].body["messages"][0]["content"]
    assert (label["text"], second["text"]) == ("shot.png:\n", "paper.pdf:\n")
    assert words == {"type": "text", "text": "what is it?"}
    assert (image["type"], image["source"]["type"]) == ("image", "base64")
    assert image["source"]["media_type"] == "image/png"
    assert b64decode(image["source"]["data"], validate=True) == SHOT.data
    assert (document["type"], document["title"]) == ("document", "paper.pdf")
    assert document["source"]["media_type"] == "application/pdf"
    assert b64decode(document["source"]["data"]) == PAPER.data
    kept = {"type": "ephemeral"}  # the breakpoint comes after what is attached, not before
    assert image["cache_control"] == document["cache_control"] == kept
    assert "cache_control" not in label and "cache_control" not in words


def test_rejections_of_claude_mention_the_attachment(server_with: Start) -> None:
    big = "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum"
    attached = "The attachment was shot.png (image/png, 30 x 20 pixels, "
    protected = "The PDF is password protected."
    rejections = [
        (status(400, big), f"does not accept the request (400: {big}). {attached}"),
        (status(400, "Could not process image"), ": make it smaller, convert it, or leave it out"),
        (status(413, "Request exceeds the maximum size"), attached),
        (error_event(kind="invalid_request_error", message=protected), "The attachment was"),
    ]
    server_with([answer for answer, _ in rejections])
    for _, words in rejections:
        error = str(refused(MODEL, request=showing(SHOT, PAPER)))
        assert words in error and len(error) < 400
