"""Escapes shown by quoted lines are decoded in added lines too."""

from __future__ import annotations

import pytest

from tests.patch.helpers import after, fenced, reasons, run


@pytest.mark.parametrize(
    ("hunk", "source", "expected"),
    [
        ("@@\n x = \u201ca\u201d\n+y = \u201cb\u201d\n", b'x = "a"\n', b'x = "a"\ny = "b"\n'),
        ("@@\n run \u2014all\n+run \u2014one \u2013 x\n", b"run --all\n", b"run --all\nrun --one -- x\n"),
        ("@@\n if a &lt; b:\n+    c &amp;&amp; d\n", b"if a < b:\n", b"if a < b:\n    c && d\n"),
        ("@@\n one\n+a &lt; b\n@@\n c &gt; d\n-two\n", b"one\nx\nc > d\ntwo\n", b"one\na < b\nx\nc > d\n"),
        ("@@\n &amp;lt;\n+&amp;gt;\n", b"&lt;\n", b"&lt;\n&gt;\n"),
        ("@@\n &lt;\n+&gt;\n", b"&lt;\n", b"&lt;\n&gt;\n"),
        ("@@\n-one\n+say \u201chi\u201d\n", b"one\n", "say \u201chi\u201d\n".encode()),
        ("@@\n x = 'a'\n+y = \u201cb\u201d\n", b"x = 'a'\n", "x = 'a'\ny = \u201cb\u201d\n".encode()),
    ],
)
def test_escapes_shown_by_old_lines_are_decoded_in_added_lines(
    hunk: str, source: bytes, expected: bytes
) -> None:
    assert after(fenced(hunk), source) == expected


def test_the_tolerance_is_reported() -> None:
    placement = run(fenced("@@\n if a &lt; b:\n+    c\n"), b"if a < b:\n").placements[0]
    assert placement.level == "html"
    assert "html" in placement.tolerances


def test_an_unexplained_escape_is_refused() -> None:
    assert reasons(fenced("@@\n one\n+a &lt; b\n"), b"one\n") == {"escaped"}
    assert after(fenced("@@\n one\n+a &lt; b\n"), b"one\n&gt;\n") == b"one\na &lt; b\n&gt;\n"
    assert after(fenced("@@\n one\n+r('<', '&lt;')\n"), b"one\n") == b"one\nr('<', '&lt;')\n"


def test_escapes_only_in_context_do_not_change_added_lines() -> None:
    hunk = "@@\n x = \u201ca\u201d\n-y = 'b'\n+y = \u201cc\u201d\n"
    assert after(fenced(hunk), b"x = \"a\"\ny = 'b'\n") == 'x = "a"\ny = \u201cc\u201d\n'.encode()
