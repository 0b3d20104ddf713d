"""What a picture shows of names and subjects."""

from __future__ import annotations

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from repoagent.history.graph import columns, day, shorten, shown


@given(st.binary(max_size=60))
def test_any_name_is_one_line_of_valid_xml(name: bytes) -> None:
    text = shown(name)
    assert text.isprintable()
    from html import escape

    assert ElementTree.fromstring(f"<a>{escape(text)}</a>").text == (text or None)


def test_what_cannot_be_printed_is_made_visible() -> None:
    assert shown(b"a\nb\x1b\xff\x7f") == "a^Jb^[<FF>^?"
    assert shown("\u202ex") == "<U+202E>x"
    assert shown("é文 x") == "é文 x"


@given(st.text(max_size=80), st.integers(2, 40))
def test_a_short_name_keeps_its_end_and_fits(text: str, room: int) -> None:
    text = shown(text)
    short = shorten(text, room)
    assert columns(short) <= room
    if columns(text) <= room:
        assert short == text
    else:
        start, _, end = short.rpartition("…")
        assert text.startswith(start.partition("…")[0]) and text.endswith(end)


def test_wide_and_combining_characters_count_as_they_show() -> None:
    assert columns("文件") == 4
    assert columns("e\u0301") == 1
    assert shorten("文件文件文件", 5) == "文…件"
    assert not shorten("abcdefghe\u0301\u0301\u0301", 3).endswith("…\u0301\u0301\u0301")


def test_days_beyond_a_calendar() -> None:
    assert day(0) == "1970-01-01"
    assert day(None) == ""
    assert day(1 << 62) == "?"
