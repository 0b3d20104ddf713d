"""Text that goes into a prompt as data, and answers without what is beside them."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from repoagent.llm.quoting import fence, printable, without_thought


@given(st.text(), st.text())
def test_nothing_that_is_quoted_can_end_the_quote(content: str, label: str) -> None:
    first, *body, last = fence(content, label).split("\n")
    closing = re.fullmatch(r'</\S+ id="(\w+)">', last)
    assert closing and closing[1] not in content and first.endswith(f' id="{closing[1]}">')
    assert "\n".join(body).startswith(content.removesuffix("\n"))


def test_what_acts_on_a_reader_is_replaced() -> None:
    assert printable("a\tb\n\x1b[31m\x00\u202e\ud800é") == "a\tb\n�[31m���é"


def test_thinking_before_an_answer_is_left_out() -> None:
    assert (
        without_thought(" <think>\n1.0: no\n</think>\nIt is. <think>x</think>").strip()
        == "It is. <think>x</think>"
    )
    assert without_thought("<think>never ended") == "<think>never ended"
