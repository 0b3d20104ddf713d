"""Front matter is read like YAML, with tolerance for common mistakes, or refused."""

from __future__ import annotations

import contextlib
import time

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.errors import Refused
from repoagent.tasks.markdown_files import front_matter

SKILL = """\
---
# what it is
name: pdf-forms   # a comment
description: >-
  Fill in forms,
  also many.

  Use it for PDFs.
license: 'It''s ours'
allowed-tools: [Read, "Grep, all", Bash(git:*)]
metadata:
  author: "me \\u00e9\\n"
  tags:
  - a
  - b: c
    d: e
empty:
long: it goes
  on here: with a colon
note: |
  one
    two

  three
---
# Text
---
"""


def test_common_front_matter_is_read() -> None:
    fields, body = front_matter(SKILL.replace("\n", "\r\n"))
    assert body == "# Text\n---\n"
    assert fields == {
        "name": "pdf-forms",
        "description": "Fill in forms, also many.\nUse it for PDFs.",
        "license": "It's ours",
        "allowed-tools": ["Read", "Grep, all", "Bash(git:*)"],
        "metadata": {"author": "me é\n", "tags": ["a", {"b": "c", "d": "e"}]},
        "empty": "",
        "long": "it goes on here: with a colon",
        "note": "one\n  two\n\nthree\n",
    }


MALFORMED = {
    "# no front matter\n": "no front matter",
    "---\nname: a\n": "no front matter",
    "---\nname: " + "x" * 17_000 + "\n---\n": "more than 16,384 characters",
    "---\nname: a\n\tb: c\n---\n": "line 3: found character",
    "---\nname: 'a\n---\n": "line 3: found unexpected end",
    '---\nname: "\\Uffffffff"\n---\n': "invalid front matter",
    "---\njust words\n---\n": "it must consist of `key: value` lines",
    "---\nname: a\x1bb\n---\n": "unacceptable character",
    "---\nname: *a\n---\n": "line 2: found undefined alias",
    "---\na: " + "[" * 1000 + "]" * 1000 + "\n---\n": "recursion",
}


def test_malformed_front_matter_is_reported_with_its_line() -> None:
    for text, why in MALFORMED.items():
        with pytest.raises(Refused, match=why):
            front_matter(text)


COLONS = {
    "description: Use when: a form is to be filled\n": "Use when: a form is to be filled",
    "description: It's for: forms # and no more\n  and for: tables\nname: a\n": "It's for: forms and for: tables",
    "name: a\ndescription: one\n\n  two: three\n\n": "one\ntwo: three",
    "metadata:\n  more: x: y\ndescription: a # b\n": "a",
    "name: !!python/object:os.system a\ndescription: !!str a\n": "a",
    "name: 'b: c'\ndescription: d: e: f\n": "d: e: f",
}


def test_a_text_may_contain_a_colon() -> None:
    assert {text: front_matter(f"---\n{text}---\n")[0]["description"] for text in COLONS} == COLONS


@pytest.mark.parametrize(
    "text",
    ['a: "' + "\n '" * 5000, "a: '" + " " * 16_000 + "x'", "a: " + " #" * 8000, "a: " + "\n\n " * 5000 + "x",
     "x: y\n" * 100_000, "\n".join(f"k{n}: y" for n in range(1500)) + "\nk: a: b" * 100],
    ids=range(6),
)  # fmt: skip
def test_hostile_front_matter_is_rejected_quickly(text: str) -> None:
    began = time.process_time()
    for front in (f"---\n{text}\n---\n", f"---\n{text}"):
        with contextlib.suppress(Refused):
            front_matter(front)
    assert time.process_time() - began < 0.5


PIECES = st.sampled_from(
    ["a: ", "b:\n", "c:", " ", "\n", "- ", "y z", " #c\n", "'", '"', "|\n", ">-\n", "[", "]", "{", "}", ", ", "\n  ",
     "\n\n", "\n    e", "\t", ": ", "?", "''", "k: v\n", "\n- "]
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(PIECES, max_size=14).map("".join))
def test_the_result_is_that_of_yaml(text: str) -> None:
    """Or a text that YAML forbids is read or refused."""
    try:
        expected = yaml.load(f"{text}\n", Loader=yaml.BaseLoader) or {}
    except yaml.YAMLError:
        expected = None
    with contextlib.suppress(Refused):
        assert expected in (None, front_matter(f"---\n{text}\n---\n")[0]), text
