"""A tag becomes a claim only in the form that was asked for; whatever else it is has a reason."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.review.finding import Level
from repoagent.review.llm.claims import CODE_LINES, Claim, parse_finding

RULES = ("correctness", "security")
ARGS = {"rule": "correctness", "path": "a.py", "lines": "4-5"}
BODY = "title: It is wrong\nquote:\n| x = 1\nwhy: It is 2.\n"


def claim(body: str = BODY, **args: str) -> Claim:
    found = parse_finding({**ARGS, **args}, body, RULES)
    assert isinstance(found, Claim), found
    return found


@pytest.mark.parametrize(
    ("args", "body", "why"),
    [
        ({"rule": "style"}, BODY, "rule"),
        ({"rule": ""}, BODY, "rule"),
        ({"path": " "}, BODY, "has no path"),
        ({"lines": "all"}, BODY, "line numbers"),
        ({"lines": "9-3"}, BODY, "line numbers"),
        ({"level": "fatal"}, BODY, "level"),
        ({"old": "perhaps"}, BODY, "old"),
        ({}, "", "what goes wrong"),
        ({}, "It is wrong\n", "does not begin with"),
        ({}, "title: a\nwhy: b\n", "quotes no code"),
        ({}, "title: a\nquote:\n| \n|\nwhy: b\n", "quotes no code"),
        ({}, "title: a\nquote:\n| x\n", "what goes wrong"),
        ({}, BODY + "why: again\n", "two sections why"),
        ({}, "title: a\nquote:\n| x\ny\nwhy: b\n", "begin with a bar and some do not"),
        ({}, "title: a\nquote:\n" + "| x\n" * (CODE_LINES + 1) + "why: b\n", "more than"),
    ],
)
def test_what_is_no_claim(args: dict[str, str], body: str, why: str) -> None:
    found = parse_finding({**ARGS, **args}, body, RULES)
    assert isinstance(found, str)
    assert why in found


def test_a_claim_with_all_that_there_can_be() -> None:
    found = claim(
        "title:  It  is\twrong\nquote:\n| if x:\n|     y = 1\nwhy: First.\n\nSecond.\nreplace:\n|     y = 2\n|\n",
        level="Note", old="yes",
    )  # fmt: skip
    assert found == Claim(
        "correctness", "a.py", 4, 5, "It is wrong", ("if x:", "    y = 1"), "First.\n\nSecond.",
        True, Level.NOTE, ("    y = 2", ""),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "lines"), [("7", (7, 7)), ("L7-L9", (7, 9)), ("lines 7 to 9", (7, 9)), ("", (0, 0))]
)
def test_lines_as_models_write_them(text: str, lines: tuple[int, int]) -> None:
    found = claim(lines=text)
    assert (found.first, found.last) == lines


def test_code_with_words_that_are_keys_and_code_in_a_fence() -> None:
    yaml = claim("title: t\nquote:\n| title: x\n| why: y\nwhy: w\n")
    assert yaml.quote == ("title: x", "why: y")
    fenced = claim("title: t\nquote:\n```yaml\ntitle: x\n  | bar\n```\nwhy: w\nreplace:\n```\n```\n")
    assert fenced.quote == ("title: x", "  | bar")
    assert fenced.replace == ()
    assert claim("title: t\nquote: x = 1\nwhy: w\n").quote == ("x = 1",)
    assert claim("quote: x = 1\nwhy: It breaks. It really does.\n").title == "It breaks"


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(st.characters(exclude_characters="\n\r"), max_size=20), min_size=1, max_size=8))
def test_any_code_behind_bars_is_read_as_it_is(lines: list[str]) -> None:
    body = "title: t\nquote:\n| x\nwhy: w\nreplace:\n" + "".join(f"| {line}\n" for line in lines)
    assert claim(body).replace == tuple(lines)


@settings(max_examples=40, deadline=None)
@given(
    st.text(max_size=200),
    st.dictionaries(st.sampled_from(["rule", "path", "lines", "level"]), st.text(max_size=9)),
)
def test_no_text_breaks_it(body: str, args: dict[str, str]) -> None:
    assert isinstance(parse_finding(args, body, RULES), str | Claim)
