"""A diff on a terminal."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from repoagent.cli.ui.diff import render
from repoagent.cli.ui.terminal_text import display_width
from repoagent.git.files import REGULAR, FileChange
from repoagent.patch.render import canonical_diff

HEAD = "diff --git a/f b/f\n--- a/f\n+++ b/f\n"
SGR = re.compile(r"\x1b\[[0-9;]*m")


def changed(before: bytes, after: bytes) -> str:
    return canonical_diff([FileChange("f", "f", before, after, REGULAR, REGULAR)])


def test_the_colours_are_git_s() -> None:
    shown = render(HEAD + "@@ -1,3 +1,3 @@ def f():\n same\n-one\n+two\n end\n", color=True)
    assert shown == (
        "\x1b[1mdiff --git a/f b/f\x1b[m\n\x1b[1m--- a/f\x1b[m\n\x1b[1m+++ b/f\x1b[m\n"
        "\x1b[36m@@ -1,3 +1,3 @@\x1b[m def f():\n same\n"
        "\x1b[31m-\x1b[m\x1b[31mone\x1b[m\n\x1b[32m+\x1b[m\x1b[32mtwo\x1b[m\n end\n"
    )


def test_the_changed_words_of_a_line_are_marked() -> None:
    shown = render(HEAD + "@@ -1 +1 @@\n-return a + b\n+return a - b\n", color=True)
    assert "\x1b[31mreturn a \x1b[m\x1b[31;7m+\x1b[m\x1b[31m b\x1b[m" in shown
    assert "\x1b[32mreturn a \x1b[m\x1b[32;7m-\x1b[m\x1b[32m b\x1b[m" in shown


def test_white_space_at_the_end_of_an_added_line_is_marked() -> None:
    shown = render(HEAD + "@@ -1 +1 @@\n-a \n+b  \n", color=True)
    assert "\x1b[32mb\x1b[m\x1b[41m  \x1b[m\n" in shown
    assert shown.count("\x1b[41m") == 1


def test_lines_of_a_hunk_that_look_like_headers_are_not_headers() -> None:
    shown = render(HEAD + "@@ -1,2 +1,2 @@\n--- a/evil\n+++ b/evil\n @@ -1 +1 @@\n", color=True)
    assert shown.count("\x1b[1m") == 3
    assert SGR.sub("", shown).startswith(HEAD)
    assert shown.endswith("\n @@ -1 +1 @@\n")


def test_odd_bytes_are_shown_and_do_nothing() -> None:
    shown = render(changed(b"a\n", b"\xff\x1b[2J\n"), color=False)
    assert shown.endswith("-a\n+<FF>^[[2J\n")


def test_a_crlf_file_is_not_full_of_carriage_returns_but_a_mixed_one_shows_them() -> None:
    assert "^M" not in render(changed(b"a\r\nb\r\n", b"a\r\nc\r\n"), color=False)
    assert "+c^M\n" in render(changed(b"a\nb\n", b"a\nc\r\n"), color=False)


def test_binary_content_is_not_printed() -> None:
    two = canonical_diff([
        FileChange("b", "b", b"\0a", b"\0b", REGULAR, REGULAR),
        FileChange("f", "f", b"a\n", b"b\n", REGULAR, REGULAR),
    ])  # fmt: skip
    shown = render(two, color=False)
    assert "Binary content differs\ndiff --git a/f b/f\n" in shown
    assert "literal" not in shown


def test_a_missing_last_newline_is_shown() -> None:
    shown = render(changed(b"a", b"b\n"), color=True)
    assert "\n\\ No newline at end of file\n\x1b[32m+" in shown


def test_a_folded_line_continues_with_its_mark() -> None:
    shown = render(HEAD + f"@@ -0,0 +1 @@\n+{'x' * 70}\n", color=False, columns=40)
    assert shown.endswith(f"+{'x' * 39}\n> {'x' * 31}\n")


TEXT = st.lists(st.text(st.characters(exclude_characters="\n"), max_size=60), max_size=6)


@given(TEXT, TEXT, st.integers(20, 90), st.booleans())
def test_no_line_is_wider_than_the_terminal_and_nothing_is_lost(
    before: list[str], after: list[str], wide: int, color: bool
) -> None:
    sides = ["".join(f"{line}\n" for line in lines).encode("utf-8", "replace") for lines in (before, after)]
    diff = changed(*sides)
    narrow, whole = render(diff, color=color, columns=wide), render(diff, color=color)
    assert all(display_width(SGR.sub("", line)) <= wide for line in narrow.split("\n"))
    assert SGR.sub("", narrow).replace("\n> ", "") == SGR.sub("", whole).replace("\n> ", "")
    assert SGR.sub("", whole) == render(diff, color=False)
    assert color or "\x1b" not in narrow
