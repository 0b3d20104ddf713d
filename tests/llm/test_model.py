"""Text quoted as data in a prompt, replies without their thinking, and public names of models."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from repoagent.llm.model import display_name, fence, printable, public_spec, without_thought

TAGS = st.lists(st.sampled_from(["<", "/", " ", "a", "A", ">", "\n", "</a>", "<a ", "x"])).map("".join)


@given(st.one_of(st.text(), TAGS), st.one_of(st.text(), st.just("a")))
def test_nothing_that_is_quoted_can_end_the_quote(content: str, label: str) -> None:
    first, *body, last = fence(content, label).split("\n")
    closing = re.fullmatch(r"</(\S+?)((?: id=\"\w+\")?)>", last)
    assert closing and last not in content and first.endswith(f"{closing[2]}>")
    if not closing[2]:
        assert not re.search(rf"<\s*/?\s*{re.escape(closing[1])}", content, re.IGNORECASE)
    assert "\n".join(body).startswith(content.removesuffix("\n"))


def test_control_characters_are_replaced() -> None:
    assert printable("a\tb\n\x1b[31m\x00\u202e\ud800é") == "a\tb\n�[31m���é"


def test_thinking_before_an_answer_is_left_out() -> None:
    reply = " <think>\n1.0: no\n</think>\nIt is. <think>x</think>"
    assert without_thought(reply).strip() == "It is. <think>x</think>"
    assert without_thought("<think>never ended") == "<think>never ended"


SECRET = "sk-abcdefghijklmnopqrstuvwxyz"


def test_a_commit_names_no_arguments_and_no_folders() -> None:
    names = {
        "anthropic/claude-sonnet-5-5": "anthropic/claude-sonnet-5-5",
        "openrouter/qwen/qwen3-coder:free": "openrouter/qwen/qwen3-coder:free",
        "local/~/clients/acme/qwen.gguf": "local/qwen.gguf",
        f"command:KEY={SECRET} /opt/bin/llm -m x": "command:llm",
        "command:claude -p (claude-sonnet-5-5)": "command:claude (claude-sonnet-5-5)",
        "replay:/home/ada/x.jsonl": "replay:x.jsonl",
        "manual": "manual",
    }
    assert {spec: public_spec(spec) for spec in names} == names


def test_no_key_is_shown() -> None:
    for command in (f"KEY={SECRET} llm", f"llm --key {SECRET}", f"llm -x {SECRET}"):
        shown = display_name(f"command:{command}")
        assert SECRET not in shown and "llm" in shown
    assert display_name("manual") == "manual"
