"""Text that goes into a prompt as data, and answers without what is beside them."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from repoagent.llm.model import fence, printable, without_thought

TAGS = st.lists(st.sampled_from(["<", "/", " ", "a", "A", ">", "\n", "</a>", "<a ", "x"])).map("".join)


@given(st.one_of(st.text(), TAGS), st.one_of(st.text(), st.just("a")))
def test_nothing_that_is_quoted_can_end_the_quote(content: str, label: str) -> None:
    first, *body, last = fence(content, label).split("\n")
    closing = re.fullmatch(r"</(\S+?)((?: id=\"\w+\")?)>", last)
    assert closing and last not in content and first.endswith(f"{closing[2]}>")
    if not closing[2]:
        assert not re.search(rf"<\s*/?\s*{re.escape(closing[1])}", content, re.IGNORECASE)
    assert "\n".join(body).startswith(content.removesuffix("\n"))


def test_what_acts_on_a_reader_is_replaced() -> None:
    assert printable("a\tb\n\x1b[31m\x00\u202e\ud800é") == "a\tb\n�[31m���é"


def test_thinking_before_an_answer_is_left_out() -> None:
    assert (
        without_thought(" <think>\n1.0: no\n</think>\nIt is. <think>x</think>").strip()
        == "It is. <think>x</think>"
    )
    assert without_thought("<think>never ended") == "<think>never ended"
