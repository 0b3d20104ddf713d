from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.syntax.outline import outline
from tests.syntax.outline.test_outline import check_ranges, names


def test_restructuredtext_takes_levels_in_the_order_in_which_they_come() -> None:
    text = "=====\nTitle\n=====\n\n.. _x:\n\nOne\n---\ntext\n\n  Quoted\n  ------\n\nSub\n~~~\n\nTwo\n---\n\n::\n\n    code\n    ----\n"
    assert names("a.rst", text) == [
        ("heading", "Title", 1, 23),
        ("heading", "Title.One", 7, 16),
        ("heading", "Title.One.Sub", 14, 16),
        ("heading", "Title.Two", 17, 23),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "just words\nand more\n",
        "a running line\nthen its end\n-----\n",  # no blank line above
        "a long title of many words\n---\n",  # far too short a line
        "=====\n-----\n",  # lines under lines
        "a  b\n=  =\n",  # a table
        "-----\n",
        "x\0\n====\n",
    ],
)
def test_no_headings(text: str) -> None:
    assert names("a.txt", text) == []


def test_asciidoc() -> None:
    text = "= Top\n\n== One\n----\n== code\n----\n=== Deep\n\n== Two\n"
    assert names("a.adoc", text) == [
        ("heading", "Top", 1, 9),
        ("heading", "Top.One", 3, 8),
        ("heading", "Top.One.Deep", 7, 8),
        ("heading", "Top.Two", 9, 9),
    ]


def test_only_text_by_its_name() -> None:
    text = "Title\n=====\n"
    assert names("README", text) == names("doc/a.txt", text.replace("\n", "\r\n")) != []
    assert names("data.bin", text) == []


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.sampled_from(["\n", "===\n", "ab\n", "---\n", "\r\n", "= x\n", " y\n", "\x00", "é\n"]), max_size=30
    )
)
def test_any_text(parts: list[str]) -> None:
    data = "".join(parts).encode()
    for path in ("a.rst", "a.adoc"):
        check_ranges(outline(path, data), data)
