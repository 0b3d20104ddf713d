"""Tools as schemas, calls as tags, results that find their calls."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repoagent.agent.actions import Observation
from repoagent.agent.native_tools import messages_of, schemas
from repoagent.agent.parse_reply import parse, protocol_text
from repoagent.agent.state import OWN, Tool, extra_turn
from repoagent.llm.conversation import Turn
from repoagent.llm.model import Blocks, Message, Request
from repoagent.llm.usage import estimate

TOOLS = tuple(
    Tool(re.findall(r"\w+", text)[0], text, lambda action: Observation("x", "x"))
    for text in (
        '<read path="FILE" lines="10-80"/> shows a file, or lines of it, or symbol="NAME" of it.',
        '<run>SHELL COMMAND</run> runs it as $TMPDIR/NAME; timeout="600" for longer.',
        '<task add="Title" under="1">note</task> adds one; <task n="1.2"/> changes one: state= open, title=.',
        '<delegate kind="explore">TASK</delegate> starts one, then <wait child="c1"/>.',
        '<wait command="b1"/> waits; for="EXPRESSION" for a line; `id=` is no argument.',
        "strange says nothing of its tag",
    )
)
NAMES = {*(tool.name for tool in (*OWN, *TOOLS)), "edit"}


@pytest.mark.parametrize(
    ("name", "arguments", "required", "said"),
    [
        ("read", ("path", "lines", "symbol"), ("path",), 'read(path="FILE", lines="10-80") shows'),
        (
            "run",
            ("timeout", "body"),
            ("body",),
            'run(body="SHELL COMMAND") runs it as $TMPDIR/NAME; timeout="600" for',
        ),
        ("task", ("add", "under", "n", "state", "title", "body"), (), 'task(n="1.2") changes one'),
        ("delegate", ("kind", "body"), ("kind", "body"), 'then wait(child="c1").'),
        ("wait", ("child", "command", "for"), (), 'wait(command="b1") waits;'),
        ("strange", ("body",), (), "strange says nothing of its tag"),
    ],
)
def test_a_schema_is_read_off_the_text(
    name: str, arguments: tuple[str, ...], required: tuple[str, ...], said: str
) -> None:
    found = next(schema for schema in schemas(TOOLS) if schema.name == name)
    assert (found.arguments, found.required) == (arguments, required)
    assert said in found.description


def test_what_goes_with_the_text_is_no_tool() -> None:
    edit = Tool("edit", "Write a diff.", lambda action: Observation("x", "x"))
    assert {schema.name for schema in schemas((*OWN, edit, *TOOLS))} == {tool.name for tool in TOOLS}
    text = protocol_text((edit, *TOOLS), native=True)
    assert "<finish>" in text and "Write a diff." in text and "<read" not in text
    assert "<read path=" in protocol_text((edit, *TOOLS))


_values = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=40)


@given(st.sampled_from(["read", "run"]), st.dictionaries(st.sampled_from(["path", "lines", "body"]), _values))
def test_every_call_is_read_back_as_it_was_made(name: str, arguments: dict[str, str]) -> None:
    tool = next(schema for schema in schemas(TOOLS) if schema.name == name)
    (action,) = parse(tool.tag(arguments), NAMES).actions
    assert (action.kind, {**action.args, "body": action.body}) == (name, {"body": "", **arguments})


def turns(*observations: Turn, text: str = '<read path="a"/>\n<run>b</run>\n') -> tuple[Turn, ...]:
    return (Turn("user", "do it"), Turn("assistant", text, {"blocks": "x"}), *observations)


def seen(kind: str, ok: str = "yes", **meta: str) -> Turn:
    return Turn("observation", f"what {kind} gave", {"kind": kind, "ok": ok, **meta})


BLOCKS = Blocks("m", ({"type": "tool_use"},), "", (("c1", '<read path="a"/>'), ("c2", "<run>b</run>")))


def answered(said: tuple[Turn, ...]) -> tuple[bool, list[tuple[str, bool]]]:
    """Whether the reply is sent as its blocks, and which part of the next message answers which call."""
    found = messages_of(said, "ab12ab12", TOOLS, lambda turn: BLOCKS if turn.meta.get("blocks") else None)
    return found[1].blocks is not None, [(part.answers, part.failed) for part in found[2].parts]


def test_each_result_finds_its_call() -> None:
    said = turns(
        seen("read"),
        seen("run", "no"),
        seen("repeated", extra="repeated"),
        extra_turn("user", "hm", "message"),
    )
    assert answered(said) == (True, [("c1", False), ("c2", True), ("", False), ("", False)])


def test_a_tag_beside_calls() -> None:
    """What was written as a tag has its observation as text."""
    text = '<message>hi</message>\n<run>b</run>\n<read path="c"/>\n<read path="a"/>\n'
    said = turns(seen("message"), seen("run"), seen("read"), seen("skipped", "no"), text=text)
    assert answered(said) == (True, [("", False), ("c2", False), ("", False), ("c1", True)])


@pytest.mark.parametrize(
    "said",
    [
        turns(seen("read")),  # a kill, or words of the user, came between
        turns(seen("read"), seen("run"), text='<read path="a"/>\n'),  # edited by hand
        turns(seen("correction", extra="correction")),
        turns(seen("checkpoint", extra="checkpoint")),
    ],
)
def test_a_reply_whose_calls_have_not_all_a_result_is_text(said: tuple[Turn, ...]) -> None:
    sent_as_blocks, answers = answered(said)
    assert not sent_as_blocks
    assert not any(call for call, _ in answers)


def test_two_replies_in_one_message_are_text() -> None:
    said = (
        Turn("user", "do it"),
        Turn("assistant", "one", {"blocks": "x"}),
        Turn("assistant", "two"),
        seen("read"),
    )
    empty = Blocks("m", ({"type": "thinking"},), "p")
    found = messages_of(said, "ab12ab12", TOOLS, lambda turn: empty if turn.meta.get("blocks") else None)
    assert found[1].blocks is None


def test_schemas_and_thinking_are_estimated() -> None:
    """Limits and the window know of what is sent beside the text."""
    bare = Request((), (Message("user", ()),))
    assert estimate(Request((), bare.messages, tools=schemas(TOOLS))).input > 150
    thinking = Blocks("m", ({"type": "thinking", "thinking": "t" * 300, "signature": "s" * 30},), "p")
    assert estimate(Request((), (Message("assistant", (), thinking),))).input == 113
