"""Tools in the prompt and as schemas, calls as tags, and results that are matched to their calls."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repoagent.agent.actions import Observation
from repoagent.agent.describe_tools import messages_of, protocol_text, tool_schemas
from repoagent.agent.parse_reply import parse_reply
from repoagent.agent.state import OWN, Tool, extra_turn
from repoagent.llm.conversation import Turn
from repoagent.llm.model import Message, ReplyBlocks, Request
from repoagent.llm.usage import estimate_usage

DIFF = "```diff\n--- a/x.py\n+++ b/x.py\n@@\n one\n-two\n+2\n three\n```\n"


def tool(name: str, text: str) -> Tool:
    return Tool(name, text, lambda action: Observation("x", "x"))


def prompt(*names: str) -> str:
    return protocol_text([tool(name, f"<{name}/> does it.") for name in names])


def test_prompt_describes_each_tool_once() -> None:
    assert prompt("read").count("<read/> does it.") == 1
    assert "<commit>" not in prompt("read") and "<commit>" in prompt("read", "edit")
    assert prompt("read", "edit") == prompt("read", "edit")
    assert len(prompt("edit")) < 2800  # about 700 tokens: it is paid on every call
    example = prompt("edit").partition("commit message:")[2].partition("`<note>")[0]
    parsed = parse_reply(example + DIFF, ("read", "edit"))
    assert parsed.problem is None  # its examples follow the protocol
    assert parsed.commit_message.startswith("Imperative subject of at most 72 characters\n\nWhy, ")


CALLED = tuple(
    tool(re.findall(r"\w+", text)[0], text)
    for text in (
        '<read path="FILE" lines="10-80"/> shows a file, or lines of it, or symbol="NAME" of it.',
        '<run>SHELL COMMAND</run> runs it as $TMPDIR/NAME; timeout="600" for longer.',
        '<task add="Title" under="1">note</task> adds one; <task n="1.2"/> changes one: state= open, title=.',
        '<delegate kind="explore">TASK</delegate> starts one, then <wait child="c1"/>.',
        '<wait command="b1"/> waits; for="EXPRESSION" for a line; `id=` is no argument.',
        "strange says nothing of its tag",
    )
)
NAMES = {*(tool.name for tool in (*OWN, *CALLED)), "edit"}


SCHEMAS = {  # the arguments, those that are required, and a part of the description
    "read": (("path", "lines", "symbol"), ("path",), 'read(path="FILE", lines="10-80") shows'),
    "run": (("timeout", "body"), ("body",), 'run(body="SHELL COMMAND") runs it as $TMPDIR/NAME; timeout="600"'),
    "task": (("add", "under", "n", "state", "title", "body"), (), 'task(n="1.2") changes one'),
    "delegate": (("kind", "body"), ("kind", "body"), 'then wait(child="c1").'),
    "wait": (("child", "command", "for"), (), 'wait(command="b1") waits;'),
    "strange": (("body",), (), "strange says nothing of its tag"),
}  # fmt: skip


def test_schema_is_derived_from_the_text() -> None:
    found = {schema.name: schema for schema in tool_schemas(CALLED)}
    assert found.keys() == SCHEMAS.keys()
    for name, (arguments, required, expected) in SCHEMAS.items():
        assert (found[name].arguments, found[name].required) == (arguments, required)
        assert expected in found[name].description


def test_tagged_actions_are_not_native_tools() -> None:
    edit = tool("edit", "Write a diff.")
    assert {schema.name for schema in tool_schemas((*OWN, edit, *CALLED))} == {tool.name for tool in CALLED}
    text = protocol_text((edit, *CALLED), native=True)
    assert "<finish>" in text and "Write a diff." in text and "<read" not in text
    assert "<read path=" in protocol_text((edit, *CALLED))


VALUES = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=40)


@given(st.sampled_from(["read", "run"]), st.dictionaries(st.sampled_from(["path", "lines", "body"]), VALUES))
def test_call_round_trip(name: str, arguments: dict[str, str]) -> None:
    schema = next(schema for schema in tool_schemas(CALLED) if schema.name == name)
    (action,) = parse_reply(schema.tag(arguments), NAMES).actions
    assert (action.kind, {**action.args, "body": action.body}) == (name, {"body": "", **arguments})


def turns(*observations: Turn, text: str = '<read path="a"/>\n<run>b</run>\n') -> tuple[Turn, ...]:
    return (Turn("user", "do it"), Turn("assistant", text, {"blocks": "x"}), *observations)


def seen(kind: str, ok: str = "yes", **meta: str) -> Turn:
    return Turn("observation", f"what {kind} gave", {"kind": kind, "ok": ok, **meta})


BLOCKS = ReplyBlocks("m", ({"type": "tool_use"},), "", (("c1", '<read path="a"/>'), ("c2", "<run>b</run>")))


def sent(conversation: tuple[Turn, ...], blocks: ReplyBlocks = BLOCKS) -> Sequence[Message]:
    return messages_of(
        conversation, "ab12ab12", CALLED, lambda turn: blocks if "blocks" in turn.meta else None
    )


@pytest.mark.parametrize(("conversation", "answers"), [
    (
        turns(seen("read"), seen("run", "no"), seen("repeated", extra="repeated"), extra_turn("user", "hm", "message")),
        [("c1", False), ("c2", True), ("", False), ("", False)],
    ),
    (  # the observation of an action that was written as a tag is text
        turns(
            seen("message"), seen("run"), seen("read"), seen("skipped", "no"),
            text='<message>hi</message>\n<run>b</run>\n<read path="c"/>\n<read path="a"/>\n',
        ),
        [("", False), ("c2", False), ("", False), ("c1", True)],
    ),
])  # fmt: skip
def test_results_answer_calls(conversation: tuple[Turn, ...], answers: list[tuple[str, bool]]) -> None:
    _, reply, results = sent(conversation)
    assert reply.blocks is not None
    assert [(part.answers, part.failed) for part in results.parts] == answers


@pytest.mark.parametrize("conversation", [
    turns(seen("read")),  # interrupted by a kill or a message of the user
    turns(seen("read"), seen("run"), text='<read path="a"/>\n'),  # edited by hand
    turns(seen("correction", extra="correction")),
    turns(seen("checkpoint", extra="checkpoint")),
])  # fmt: skip
def test_reply_with_missing_results_is_text(conversation: tuple[Turn, ...]) -> None:
    _, reply, results = sent(conversation)
    assert reply.blocks is None and not any(part.answers for part in results.parts)


def test_two_replies_in_one_message_are_text() -> None:
    replies = Turn("assistant", "one", {"blocks": "x"}), Turn("assistant", "two")
    thinking = ReplyBlocks("m", ({"type": "thinking"},), "p")
    assert sent((Turn("user", "do it"), *replies, seen("read")), thinking)[1].blocks is None


def test_schemas_and_thinking_are_estimated() -> None:
    """Limits and the window count what is sent in addition to the text."""
    bare = Request((), (Message("user", ()),))
    assert estimate_usage(Request((), bare.messages, tools=tool_schemas(CALLED))).input > 150
    thinking = ReplyBlocks("m", ({"type": "thinking", "thinking": "t" * 300, "signature": "s" * 30},), "p")
    assert estimate_usage(Request((), (Message("assistant", (), thinking),))).input == 113
