"""Text for a terminal: sanitized, diffs and tables."""

from __future__ import annotations

import re
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from repoagent.cli.ui.diff import render_diff
from repoagent.cli.ui.table import Column, Page
from repoagent.display_text import display_width, paint, sanitize, wrap_line
from repoagent.git.files import Content, FileChange
from repoagent.patch.render import canonical_diff


@given(st.text(st.characters()))  # surrogates too
def test_control_characters_are_replaced(text: str) -> None:
    turning = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    for character in sanitize(text):
        assert character in "\n\t" or unicodedata.category(character) not in {"Cc", "Cs", "Zl", "Zp"}
        assert unicodedata.bidirectional(character) not in turning


def test_what_is_replaced_painted_and_folded() -> None:
    for text, shown in (
        ("\x1b[31mred", "^[[31mred"),
        ("\x1b]52;c;aGk=\x07", "^[]52;c;aGk=^G"),
        ("\x9b2J", "<U+009B>2J"),
        ("a\rb\x08\x7f", "a^Mb^H^?"),
        ("\udcff\udc80", "<FF><80>"),
        ("if a\u202e\u2066 then", "if a<U+202E><U+2066> then"),
        ("hid\U000e0041den\u200b", "hid<U+E0041>den<U+200B>"),
        ("tab\tline\n", "tab\tline\n"),
        ("Grüße 你好 👩\u200d💻", "Grüße 你好 👩\u200d💻"),
    ):
        assert sanitize(text) == shown
    assert paint("a", "bold", "red") == "\x1b[1;31ma\x1b[m"
    assert (paint("", "red"), paint("a")) == ("", "a")
    line = "[main 1a2b3c4] Greet well · 1 file +1 -0 · 2,114 + 300 tokens · $0.0123 · 3.1 s"
    for text, width, shown in (
        (line, 60, "[main 1a2b3c4] Greet well · 1 file +1 -0\n· 2,114 + 300 tokens · $0.0123 · 3.1 s"),
        ("  one two three", 9, "  one two\n  three"),
        ("a\n  one two three", 9, "a\n  one two\n  three"),
        ("a/path/that/is/longer than it", 10, "a/path/that/is/longer\nthan it"),
    ):
        assert wrap_line(text, width) == shown


# A diff on a terminal.

HEAD = "diff --git a/f b/f\n--- a/f\n+++ b/f\n"
SGR = re.compile(r"\x1b\[[0-9;]*m")


def changed(before: bytes, after: bytes) -> str:
    return canonical_diff([FileChange.at("f", Content(before), Content(after))])


def test_a_diff_has_the_colours_of_git_and_changed_words_and_white_space_are_marked() -> None:
    shown = render_diff(HEAD + "@@ -1,3 +1,3 @@ def f():\n same\n-one\n+two\n end\n", color=True)
    assert shown == (
        "\x1b[1mdiff --git a/f b/f\x1b[m\n\x1b[1m--- a/f\x1b[m\n\x1b[1m+++ b/f\x1b[m\n"
        "\x1b[36m@@ -1,3 +1,3 @@\x1b[m def f():\n same\n"
        "\x1b[31m-\x1b[m\x1b[31mone\x1b[m\n\x1b[32m+\x1b[m\x1b[32mtwo\x1b[m\n end\n"
    )
    shown = render_diff(HEAD + "@@ -1 +1 @@\n-return a + b\n+return a - b\n", color=True)
    assert "\x1b[31mreturn a \x1b[m\x1b[31;7m+\x1b[m\x1b[31m b\x1b[m" in shown
    assert "\x1b[32mreturn a \x1b[m\x1b[32;7m-\x1b[m\x1b[32m b\x1b[m" in shown
    shown = render_diff(HEAD + "@@ -1 +1 @@\n-a \n+b  \n", color=True)
    assert "\x1b[32mb\x1b[m\x1b[41m  \x1b[m\n" in shown
    assert shown.count("\x1b[41m") == 1  # of the added line


def test_lines_of_a_hunk_that_look_like_headers_are_not_headers() -> None:
    shown = render_diff(HEAD + "@@ -1,2 +1,2 @@\n--- a/evil\n+++ b/evil\n @@ -1 +1 @@\n", color=True)
    assert shown.count("\x1b[1m") == 3
    assert SGR.sub("", shown).startswith(HEAD)
    assert shown.endswith("\n @@ -1 +1 @@\n")


def test_odd_bytes_line_ends_binary_content_and_a_folded_line() -> None:
    assert render_diff(changed(b"a\n", b"\xff\x1b[2J\n"), color=False).endswith("-a\n+<FF>^[[2J\n")
    # a file with CRLF is not full of carriage returns, but a mixed one shows them
    assert "^M" not in render_diff(changed(b"a\r\nb\r\n", b"a\r\nc\r\n"), color=False)
    assert "+c^M\n" in render_diff(changed(b"a\nb\n", b"a\nc\r\n"), color=False)
    assert render_diff(changed(b"a", b"b"), color=True).count("\n\\ No newline at end of file\n") == 2
    binary = canonical_diff([FileChange.at("b", Content(b"\0a"), Content(b"\0b"))])
    shown = render_diff(binary + changed(b"a\n", b"b\n"), color=False)
    assert "Binary content differs\ndiff --git a/f b/f\n" in shown and "literal" not in shown
    shown = render_diff(HEAD + f"@@ -0,0 +1 @@\n+{'x' * 70}\n", color=False, columns=40)
    assert shown.endswith(f"+{'x' * 39}\n> {'x' * 31}\n")


TEXT = st.lists(st.text(st.characters(exclude_characters="\n"), max_size=60), max_size=6)


@given(TEXT, TEXT, st.integers(20, 90), st.booleans())
def test_no_line_is_too_wide_and_nothing_is_lost(
    before: list[str], after: list[str], wide: int, color: bool
) -> None:
    sides = ["".join(f"{line}\n" for line in lines).encode("utf-8", "replace") for lines in (before, after)]
    diff = changed(*sides)
    narrow, whole = render_diff(diff, color=color, columns=wide), render_diff(diff, color=color)
    assert all(display_width(SGR.sub("", line)) <= wide for line in narrow.split("\n"))
    assert SGR.sub("", narrow).replace("\n> ", "") == SGR.sub("", whole).replace("\n> ", "")
    assert SGR.sub("", whole) == render_diff(diff, color=False)
    assert color or "\x1b" not in narrow


# Tables fit the terminal: one column is cut, the others are not.

HEADS = (
    Column("file", cut="middle", least=20),
    Column("lines", right=True),
    Column("what", cut="end", least=12),
    Column("empty"),
    Column("more", dropped=1),
)
CELLS = st.text(st.sampled_from("ab/漢é ."), min_size=1, max_size=50).map(str.strip)


@given(
    rows=st.lists(st.tuples(CELLS, st.integers(0, 10**6), CELLS), min_size=1, max_size=6),
    width=st.sampled_from([60, 80, 120]),
    color=st.booleans(),
)
def test_a_table_fits_and_is_aligned(rows: list[tuple[str, int, str]], width: int, color: bool) -> None:
    cells = [((path, "path"), (f"{lines:,}",), (what, "dim"), ("",), ("abc",)) for path, lines, what in rows]
    shown = [SGR.sub("", line) for line in Page(width, color).table(HEADS, cells, {0: ["  x"]})]
    assert len(shown) == len(rows) + 2 and shown[2] == "  x"
    assert max(map(display_width, shown)) <= width
    assert "empty" not in shown[0]
    end = display_width(shown[0][: shown[0].index("lines") + 5])
    for (_, number, _), line in zip(rows, [shown[1], *shown[3:]], strict=True):
        ends = [result.end() for result in re.finditer(f"{number:,}", line)]
        assert end in [display_width(line[:at]) for at in ends]  # whole, and where the head ends


def test_droppable_columns_go_before_others_are_cut() -> None:
    cells = [[("a" * 30,), ("1",), ("w" * 20,), ("",), ("more",)]]
    assert next(Page(None).table(HEADS, cells)).split() == ["file", "lines", "what", "more"]
    head, row = Page(44).table(HEADS, cells)
    assert head.split() == ["file", "lines", "what"] and len(row) <= 44
    assert "…" in row.split()[0] and row.split()[1] == "1" and row.split()[2].endswith("w…")
    # a pipe gets the whole values, and on a terminal the head is dim
    cells = [[("src/" + "a" * 25, "path"), ("1",), ("w" * 300, "green"), ("",), ("",)]]
    assert list(Page(None).table(HEADS, cells))[1].split() == [cell[0] for cell in cells[0] if cell[0]]
    head, row = Page(80, color=True).table(HEADS, cells)
    assert head.startswith("\x1b[2mfile") and row.startswith("\x1b[2msrc/\x1b[m") and "\x1b[32mww" in row
