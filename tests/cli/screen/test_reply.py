"""The prose of a reply that arrives in pieces: independent of the pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repoagent.cli.ui.progress import Words

PARTS = st.sampled_from(
    ["words ", "`code` is", "\n", "```diff\n-a\n+b\n```\n", "```\nplain\n```\n", "~~~src/a.py\nx\n~~~\n", "<commit>\n",
     "Subject\n", "</commit>\n", '<read path="a"/>\n', "<b> no tag\n", "  ", "``", "a < b\n", "<finish>done</finish>\n", "~"]
)  # fmt: skip


def shown(reply: str, sizes: list[int]) -> str:
    words, at, out = Words(), 0, ""
    for size in [*sizes, len(reply)]:
        out += words.feed(reply[at : at + size])
        at += size
    return out + words.rest()


@given(parts=st.lists(PARTS, max_size=12), sizes=st.lists(st.integers(1, 9), max_size=40))
def test_pieces_do_not_matter(parts: list[str], sizes: list[int]) -> None:
    reply = "".join(parts)
    assert shown(reply, sizes) == shown(reply, [])


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("I do.\n```diff\n-a\n```\nDone.\n", "I do.\nDone.\n"),
        ("I do.\n````src/a.py\n```\nx\n````\nDone.", "I do.\nDone."),
        ("See:\n```python\nx = 1\n```\n", "See:\n```python\nx = 1\n```\n"),
        ("<commit>\nFix\n\nWhy.\n</commit>\nSo.\n", "So.\n"),
        ("<commit>Fix</commit>\nSo.\n", "So.\n"),
        ('<read path="a.py"/>\nNext\n', "Next\n"),
        ("<finish>It is done.</finish>\n", ""),
        ("I do.\n<finish>It is done.</finish>", "I do.\n"),
        ('<recall query="x"/>\n<run>make\ntest</run>\nSo.', "So."),
        ('<write path="a.py">\nx = 1\n</write>\nSo.', "So."),
        ("a < b and <i>c</i>\n<i>d</i>\n", "a < b and <i>c</i>\n<i>d</i>\n"),
        ("`x` is\n``", "`x` is\n``"),
        ("```diff\n-a\n", ""),
        ("\nI do.\n\n\n```diff\n-a\n```\n\nDone.\n\n\nReally.\n\n", "\nI do.\n\n\n\nDone.\n\n\nReally.\n\n"),
    ],
)
def test_which_parts_of_a_reply_are_shown(reply: str, expected: str) -> None:
    assert shown(reply, []) == expected


def test_the_text_that_ends_a_task_is_prose_on_request() -> None:
    words = Words(ends=True)
    assert words.feed("I do.\n<finish>It is done.</finish>\n") == "I do.\nIt is done.\n"


def test_it_detects_when_an_edit_is_written() -> None:
    words = Words()
    words.feed("So.\n<commit>\nFix\n</commit>\n")
    assert not words.hides
    words.feed("```diff\n-a\n")
    assert words.hides
    words.feed("```\n")
    assert not words.hides
