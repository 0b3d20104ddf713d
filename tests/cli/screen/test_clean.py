"""Text is safe for a terminal."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repoagent.cli.ui.terminal_text import clean, fold, paint

ANY = st.text(st.characters())  # surrogates too


@given(ANY)
def test_control_characters_are_replaced(text: str) -> None:
    shown = clean(text)
    for character in shown:
        assert character in "\n\t" or unicodedata.category(character) not in {"Cc", "Cs", "Zl", "Zp"}
        assert unicodedata.bidirectional(character) not in [
            "LRE",
            "RLE",
            "LRO",
            "RLO",
            "PDF",
            "LRI",
            "RLI",
            "FSI",
            "PDI",
        ]


@given(ANY, ANY)
def test_pieces_are_cleaned_like_the_whole(one: str, other: str) -> None:
    assert clean(one) + clean(other) == clean(one + other)


@given(st.text(st.characters(codec="ascii", exclude_categories=["Cc"])))
def test_plain_text_stays(text: str) -> None:
    assert clean(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", "^[[31mred"),
        ("\x1b]52;c;aGk=\x07", "^[]52;c;aGk=^G"),
        ("\x9b2J", "<U+009B>2J"),
        ("a\rb\x08\x7f", "a^Mb^H^?"),
        ("\udcff\udc80", "<FF><80>"),
        ("if a\u202e\u2066 then", "if a<U+202E><U+2066> then"),
        ("hid\U000e0041den\u200b", "hid<U+E0041>den<U+200B>"),
        ("tab\tline\n", "tab\tline\n"),
        ("Grüße 你好 👩\u200d💻", "Grüße 你好 👩\u200d💻"),
    ],
)
def test_replacements(text: str, shown: str) -> None:
    assert clean(text) == shown


def test_paint_ends_what_it_begins() -> None:
    assert paint("a", "bold", "red") == "\x1b[1;31ma\x1b[m"
    assert paint("", "red") == ""
    assert paint("a") == "a"


def test_a_long_line_breaks_before_a_dot_or_between_words_and_never_within_one() -> None:
    line = "[main 1a2b3c4] Greet well · 1 file +1 -0 · 2,114 + 300 tokens · $0.0123 · 3.1 s"
    assert fold(line, 60) == (
        "[main 1a2b3c4] Greet well · 1 file +1 -0\n· 2,114 + 300 tokens · $0.0123 · 3.1 s"
    )
    assert fold("  one two three", 9) == "  one two\n  three"
    assert fold("a/path/that/is/longer than it", 10) == "a/path/that/is/longer\nthan it"
