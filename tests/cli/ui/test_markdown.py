"""Markdown, and the prose of a reply, printed as they arrive: complete, independent of the pieces, ready to be copied."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from repoagent.cli.ui.markdown import Markdown
from repoagent.cli.ui.progress import ProseFilter
from repoagent.display_text import display_width

STYLE = re.compile(r"\x1b\[[0-9;]*m")
PARTS = st.sampled_from(
    [
        "word", " ", "  ", "\n", "\n\n", "\r\n", "\t", "    ", "# ", "## head\n", "- ", "* ", "+ ", "1. ", "2) ",
        "12345678901. ", "> ", ">", "---\n", "***", "___\n", "===\n", "`", "``", "```", "```python\n", "~~~\n", "~",
        "*", "**", "_", "__", "snake_case", "2*3", "[", "](", "](http://a.example/b)", "](http://a \"t\")", ")", "]", "!",
        "<http://a.example>", "<b>", "&amp;", "&#27;", "\\", "\\*", "|", "| a | b |\n", "|---|--:|\n", "a | b", "\x1b[31m",
        "\u202e", "漢字", "def f(x):\n", "    return '''x\n", "'''\n", "- [ ] todo\n", "long" * 30,
        "\u00a0", "\u3000", "```\u00a0\n", "| head | todo | word |\n",
    ]
)  # fmt: skip


def fed(printer: Markdown | ProseFilter, text: str, sizes: Sequence[int] = ()) -> str:
    """What `printer` prints of a text that arrives in pieces of `sizes`, and the rest."""
    at, out = 0, ""
    for size in (*sizes, len(text)):
        out += printer.feed(text[at : at + size])
        at += size
    return out + printer.rest()


def render(text: str, sizes: Sequence[int] = (), *, width: int = 40, color: bool = False) -> str:
    return fed(Markdown(lambda: width, color=color), text, sizes)


@example(parts=["- ", "\r\n", "word"], sizes=[3], color=False)  # a line ending in two pieces
@given(st.lists(PARTS, max_size=20), st.lists(st.integers(1, 9), max_size=200), st.booleans())
def test_pieces_do_not_matter(parts: list[str], sizes: list[int], color: bool) -> None:
    text = "".join(parts)
    assert render(text, sizes, color=color) == render(text, color=color)


@given(
    parts=st.lists(PARTS | st.text(max_size=8), max_size=20),
    width=st.sampled_from([20, 60, 120]),
    color=st.booleans(),
)
def test_each_word_is_printed_and_nothing_else_acts(parts: list[str], width: int, color: bool) -> None:
    text = "".join(parts)
    shown = STYLE.sub("", render(text, width=width, color=color))
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202e]", shown)
    # an info string names the language of a fence; colours say it
    expected = text if not color else re.sub(r"(`{3,}|~{3,})[^\S\n]*[^\s`]*", " ", text)
    for word in ("word", "head", "snake", "todo", "漢字", "return", "example", "amp", "27", "long"):
        assert shown.count(word) >= expected.count(word), word


@given(
    words=st.lists(st.sampled_from(["word", "`code`", "**bold**", "a", "漢字", "[x](y)"]), min_size=1, max_size=60),
    width=st.integers(20, 60),
    start=st.sampled_from(["", "- ", "  1. ", "> ", "# "]),
)  # fmt: skip
def test_prose_is_folded_between_words(words: list[str], width: int, start: str) -> None:
    for line in render(start + " ".join(words), width=width).splitlines():
        assert display_width(line) <= width


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a **b** *c* `d`\n", "a b c `d`\n"),
        ("a snake_case __init__.py 2 * 3 * 4\n", "a snake_case __init__.py 2 * 3 * 4\n"),
        ("# One #\ntext\n", "# One\ntext\n"),
        ("text\n## Two\ntext\n", "text\n\n## Two\ntext\n"),
        ("a\n\n\n\nb\n", "a\n\nb\n"),
        ("one\ntwo\n", "one\ntwo\n"),
        ("- a\n  - b\n    c\n- d\n", "- a\n  - b\n    c\n- d\n"),
        ("1. a\n\n   b\n2. c\n", "1. a\n\n   b\n2. c\n"),
        ("* a\n+ b", "- a\n- b\n"),
        ("- - a\n", "- - a\n"),
        ("> a\n> b\n\nc\n", "│ a\n│ b\n\nc\n"),
        ("[a](b.c) <http://d> [http://e](http://e) ![f](g)\n", "a (b.c) http://d http://e f (g)\n"),
        ("[ref]: http://a 'title'\n", "[ref]: http://a 'title'\n"),
        ("<b>x</b> &lt;\n", "<b>x</b> &lt;\n"),
        ("[x](javascript:a)\n", "[x](javascript:a)\n"),
        ("a **never closed\n\nb\n", "a **never closed\n\nb\n"),
        ("a *b\nc* d\n", "a *b\nc* d\n"),  # markup ends with its line
        ("x\n---\ny\n", "x\n" + "─" * 40 + "\ny\n"),
        ("```\na  b\n\tc\n\n\nd\n```\nx\n", "```\na  b\n\tc\n\n\nd\n```\n\nx\n"),
        ("```py\nnever closed", "```py\nnever closed\n"),
        ("- a\n  ```\n  b\n    c\n  ```\n", "- a\n\n  ```\n  b\n    c\n  ```\n"),
        ("a\n\n    code  here\n", "a\n\n    code  here\n"),
        ("\tx = *a*  * *b*\n    # why\n\n    | y\nz  *b*\n", "\tx = *a*  * *b*\n    # why\n\n    | y\nz b\n"),
        ("- a\n\n    *b*  c\n\nd\n\n    *e*\n", "- a\n\n    b c\n\nd\n\n    *e*\n"),
        ("a\n    b  c\n", "a\n    b c\n"),
        ("1. ```py\n   a  b\n   ```\n", "1. ```py\n   a  b\n   ```\n"),
        ("| a | b |\n", "| a | b |\n"),
        ("| a | bb |\n|--:|---|\n| 100 | x\\|y |\n", "  a   bb\n─────────\n100   x|y\n"),
        ("| a |\n|---|\n| 1 | extra |\n", "a\n─────────\n1   extra\n"),
        ("| a | extra |\n|---|\n| 1 |\n", "a   extra\n─────────\n1\n"),
        ("a\x1b[2Jb \x07\n", "a^[[2Jb ^G\n"),
    ],
)
def test_how_markdown_is_printed(text: str, expected: str) -> None:
    assert render(text) == expected


def test_a_table_is_folded_in_its_cells_or_printed_as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "| Name | Meaning |\n|---|---|\n| alpha | the first letter of them all |\n| beta | the second |\n"
    assert render(text, width=30) == (
        "Name    Meaning\n──────────────────────────────\nalpha   the first letter of\n        them all\n"
        "beta    the second\n"
    )
    monkeypatch.setenv("TERM", "dumb")
    shown = STYLE.sub("", render(text, width=30, color=True)).splitlines()
    assert [line.rstrip() for line in shown] == render(text, width=30).splitlines()
    named = f"| Name | Meaning |\n|---|---|\n| src/{'a' * 30}.py | what it does for you |\n"
    assert render(named, width=50).replace("\n", "").count("a") >= 30 and "…" not in render(named, width=50)
    wide = f"| Name | Meaning |\n|---|---|\n| {'a' * 12} | {'b' * 12} |\n"
    assert render(wide, width=20) == (f"| Name | Meaning |\n|---|---|\n| {'a' * 12} |\n{'b' * 12} |\n")


def test_prose_is_printed_word_by_word_and_code_line_by_line() -> None:
    markdown = Markdown(lambda: 80, color=False)
    seen = ""
    for piece, expected in (("One tw", "One"), ("o **th", "One two"), ("ree four** ", "One two three four")):
        seen += markdown.feed(piece)
        assert seen == expected
    assert markdown.feed("\n\n```\nx = 1\ny") == "\n\n```\nx = 1\n"
    assert markdown.feed(" = 2\n") == "y = 2\n"


def test_code_has_colours_of_the_terminal_and_nothing_but_its_text_is_copied() -> None:
    code = 'def f(x):\n    """Of\n    two lines"""\n    return "a"  # why\n'
    shown = render(f"```python\n{code}```\n", color=True)
    assert STYLE.sub("", shown) == code
    assert "\x1b[32m    two lines" in shown and "\x1b[35mdef" in shown
    assert not re.search(r"\x1b\[(38|48|4[0-7])", shown)  # no fixed colour, no background


def test_the_width_is_that_of_the_window_at_each_word() -> None:
    widths = [40]
    markdown = Markdown(lambda: widths[0], color=False)
    shown = markdown.feed("word " * 16)
    widths[0] = 20
    shown += markdown.feed("word " * 16) + markdown.rest()
    assert [len(line) for line in shown.splitlines()] == [39, 39, 19, 19, 19, 19]


@pytest.mark.parametrize(
    "line",
    ["x" * 200_000, "a *b " * 2_000, "[" * 100_000, "`a " * 10_000, "- " * 50_000, "> " * 50_000, "|a" * 50_000,
     "```\n" + "'" * 200_000, "# " + "*a " * 50_000, "\\*" * 50_000],
)  # fmt: skip
def test_a_line_of_any_length_is_printed_in_time(line: str) -> None:
    started = time.process_time()
    shown = fed(Markdown(lambda: 80, color=True), line, [7] * (len(line) // 7))
    assert time.process_time() - started < 10
    letters = STYLE.sub("", shown)
    assert all(letters.count(letter) >= line.count(letter) for letter in set("xab") & set(line))


# The prose of a reply, without its actions.

REPLY_PARTS = st.sampled_from(
    ["words ", "`code` is", "\n", "```diff\n-a\n+b\n```\n", "```\nplain\n```\n", "~~~src/a.py\nx\n~~~\n", "<commit>\n",
     "Subject\n", "</commit>\n", '<read path="a"/>\n', "<b> no tag\n", "  ", "``", "a < b\n", "<finish>done</finish>\n", "~"]
)  # fmt: skip


@given(parts=st.lists(REPLY_PARTS, max_size=12), sizes=st.lists(st.integers(1, 9), max_size=40))
def test_pieces_of_a_reply_do_not_matter(parts: list[str], sizes: list[int]) -> None:
    reply = "".join(parts)
    assert fed(ProseFilter(), reply, sizes) == fed(ProseFilter(), reply)


def test_which_parts_of_a_reply_are_shown() -> None:
    for reply, expected in (
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
    ):
        assert fed(ProseFilter(), reply) == expected
    assert ProseFilter(ends=True).feed("I do.\n<finish>It is done.</finish>\n") == "I do.\nIt is done.\n"


def test_it_detects_when_an_edit_is_written() -> None:
    words = ProseFilter()
    for piece, hides in (
        ("So.\n<commit>\nFix\n</commit>\n", False),
        ("```diff\n-a\n", True),
        ("```\n", False),
    ):
        words.feed(piece)
        assert words.hides is hides
