"""The front matter is read as PyYAML reads it, or refused."""

from __future__ import annotations

import contextlib
import time

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.errors import Refused
from repoagent.work.texts import Value, front_matter

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


def read(text: str) -> dict[str, Value]:
    return front_matter(f"---\n{text}---\n")[0]


def yaml_says(text: str) -> object:
    try:
        return yaml.load(text, Loader=yaml.BaseLoader) or {}
    except yaml.YAMLError:
        return None


def test_what_people_write_is_read() -> None:
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


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("# no front matter\n", "no front matter"),
        ("---\nname: a\n", "no front matter"),
        ("---\nname: a\nname: b\n---\n", "line 3 says name again"),
        ("---\nname: &a b\n---\n", "line 2 begins its value with &"),
        ("---\nname: a\n\tb: c\n---\n", "line 3 is indented with a tab"),
        ("---\n  name: a\nother: b\n---\n", "indented more or less"),
        ("---\nname: 'a\n---\n", "should end what begins with '"),
        ("---\nname: [a\nother: b\n---\n", r"should end what begins with \["),
        ('---\nname: "\\q"\n---\n', "an escape that there is not"),
        ('---\nname: "\\ud800"\n---\n', "the number of no character"),
        ("---\nname: 'a' b\n---\n", "goes on after the end"),
        ("---\njust words\n---\n", "line 2 is not `key: value`"),
        ("---\nname: a\x1bb\n---\n", "control characters"),
        ("---\na: " + "[" * 50 + "]" * 50 + "\n---\n", "nested too deeply"),
        ("---\na:\n" + "".join(" " * n + "b:\n" for n in range(1, 40)) + "---\n", "nested too deeply"),
    ],
)  # fmt: skip
def test_what_is_not_read_is_said_with_its_line(text: str, why: str) -> None:
    with pytest.raises(Refused, match=why):
        front_matter(text)


@pytest.mark.parametrize(
    "text",
    [
        'a: "' + "\n '" * 5000,
        "a: '" + "\n ''" * 4000,
        "a: [" + "\n ]x" * 4000,
        "a: '" + " " * 16_000 + "x'",
        'a: "' + " " * 16_000 + 'x"',
        "a: " + " #" * 8000,
        "a: [" + "x " * 8000 + "]",
        "a: " + "\n\n " * 5000 + "x",
        "a: |\n" + " \n" * 8000,
        "---\n" * 4000,
        "a" * 16_000,
        "- " * 8000,
        "\n".join(f"k{n}: [[[[[" for n in range(1000)),
        "x: y\n" * 100_000,
    ],
    ids=range(14),
)  # fmt: skip
def test_a_hostile_text_takes_no_time(text: str) -> None:
    began = time.process_time()
    with contextlib.suppress(Refused):
        front_matter(f"---\n{text}\n---\n")
    with contextlib.suppress(Refused):
        front_matter(f"---\n{text}")
    assert time.process_time() - began < 0.5


TEXT = st.text(st.sampled_from("ab :#-'\"\\,[]{}|>&*!%@`?\n\té \xa0."), max_size=40)
VALUES = st.recursive(
    TEXT,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.from_regex(r"[a-z][a-z-]{0,5}", fullmatch=True), inner, max_size=3)
    ),
    max_leaves=6,
)
FIELDS = st.dictionaries(st.from_regex(r"[a-z][a-z-]{0,8}", fullmatch=True), VALUES, min_size=1, max_size=4)


@pytest.mark.soak
@settings(max_examples=60, deadline=None)
@given(FIELDS, st.sampled_from([None, "'", '"', "|", ">"]), st.sampled_from([20, 80]), st.booleans())
def test_what_pyyaml_writes_is_read(fields: dict[str, Value], style: str, width: int, flat: bool) -> None:
    text = yaml.dump(
        fields, default_style=style, width=width, default_flow_style=flat, allow_unicode=True, indent=2
    )
    if flat:
        text = f"all: {text}" if "\n---" not in text else "all: x\n"
        fields = yaml.load(text, Loader=yaml.BaseLoader)
    if "? " in text or "\n---" in text or "!!" in text or text[:1] == "|":
        return
    try:
        found = read(text)
    except Refused:
        # a block that begins with a blank needs a number, which PyYAML writes; words in brackets may need quotes
        assert style in ("|", ">") or flat or any(mark in text for mark in "?&*"), text
        return
    assert found == fields == yaml_says(text)


PIECES = st.lists(
    st.sampled_from(
        [
            "a: ", "b:\n", "c:", " ", "  ", "\n", "- ", "x", "y z", " #c\n", "# d\n", "'", '"', "\\", "|\n", ">-\n", ">+\n",
            "|2\n", "[", "]", "{", "}", ", ", "\n  ", "\n\n", "\n    e", "\t", ": ", "é", "?", "''", "k: v\n", "\n- ",
        ]
    ),
    max_size=14,
)  # fmt: skip


@settings(max_examples=250, deadline=None)
@given(PIECES.map("".join))
def test_what_both_read_is_the_same(text: str) -> None:
    same_or_refused(f"{text}\n")


@pytest.mark.soak
@settings(max_examples=20_000, deadline=None)
@given(PIECES.map("".join))
def test_what_both_read_is_the_same_in_a_long_run(text: str) -> None:
    same_or_refused(f"{text}\n")


def same_or_refused(text: str) -> None:
    said = yaml_says(text)
    try:
        found = read(text)
    except Refused:
        return
    if said is not None:
        assert found == said, text
