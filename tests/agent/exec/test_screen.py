"""Render output as a terminal shows it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repoagent.agent.exec.render_output import drawn


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("plain\r", "plain"),
        ("10%\r20%\r100%", "100%"),
        ("longer\rab", "abnger"),
        ("longer\r\x1b[Kab", "ab"),
        ("a\x1b[1;31mb\x1b[0mc", "abc"),
        ("abc\b\bX", "aXc"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("x\x1b[2Ky", " y"),
        ("bell\x07", "bell^G"),
        ("tab\tstays", "tab\tstays"),
        ("\x1b(Bx\x1b=y", "xy"),
        ("\x1b[", ""),
        ("ü\r€", "€"),
    ],
)
def test_line_is_rendered(line: str, shown: str) -> None:
    assert drawn(line) == shown


@given(st.text(st.sampled_from("ab\x1b[]0;K\r\b\x07mé\x9b"), max_size=40))
def test_control_characters_are_removed(line: str) -> None:
    assert not any(ord(char) < 32 or 0x7F <= ord(char) < 0xA0 for char in drawn(line))
