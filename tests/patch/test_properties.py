"""Properties of any text and any answer."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from repoagent.patch.model import decode
from repoagent.patch.refusal import PatchRefused
from repoagent.patch.render import differing
from tests.patch.helpers import after, unified

_TEXTS = "a|b|}|    x = 1|\ty|-- z|++ z|@@ -1 +1 @@|```| |é \u2028\x0c|return|--- q|"
_WORDS = st.sampled_from(_TEXTS.split("|"))
_ENDINGS = st.sampled_from(["\n", "\n", "\n", "\r\n"])


@st.composite
def texts(draw: st.DrawFn) -> str:
    lines = draw(st.lists(st.tuples(_WORDS, _ENDINGS), max_size=25))
    whole = "".join(text + ending for text, ending in lines)
    return whole[:-1].removesuffix("\r") if whole and draw(st.booleans()) else whole


@st.composite
def edits(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A text, and the same after a few edits of lines."""
    before = draw(texts())
    lines = before.split("\n")
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(lines)))
        count = draw(st.integers(0, 2))
        lines[at : at + count] = draw(st.lists(_WORDS, max_size=3))
    return before.encode(), "\n".join(lines).removesuffix("\r").encode()


@pytest.mark.soak
@settings(max_examples=300, deadline=None)
@given(edits())
@example((b"\n\n-- z\n\n\n", b"\n\n++ z\n\n"))  # reads like the header of another file
def test_a_correct_diff_gives_exactly_the_bytes_after_or_is_refused_as_ambiguous(
    pair: tuple[bytes, bytes],
) -> None:
    before, expected = pair
    if before == expected:
        return
    diff = unified(*(re.findall("[^\n]*\n|[^\n]+$", side.decode()) for side in pair), "f")
    answer = f"Text.\n\n````diff\ndiff --git a/f b/f\n{diff}````\n"
    try:
        result = after(answer, {"f": before}, strict=True)
    except PatchRefused as refused:
        assert refused.reasons <= {"ambiguous", "empties-file", "no-context"}, (str(refused), answer)
    else:
        assert result == expected


@settings(max_examples=80, deadline=None)
@given(st.lists(st.binary(max_size=8), min_size=3, max_size=20), st.data())
def test_no_byte_outside_the_changed_line_changes(noise: list[bytes], data: st.DataObject) -> None:
    noise = [line.replace(b"\n", b"").replace(b"\0", b"") for line in noise]
    at = data.draw(st.integers(0, len(noise)))
    before = b"\n".join([*noise[:at], b"the one line\r", *noise[at:], b""])
    answer = "```diff\n--- a/f\n+++ b/f\n@@\n-the one line\n+the other line\n```\n"
    if before.startswith((b"\xff\xfe", b"\xfe\xff")):
        return
    assert after(answer, {"f": before}) == before.replace(b"the one line", b"the other line")


@given(st.binary(max_size=60))
def test_decoding_is_reversible(data: bytes) -> None:
    text = decode(data)
    assert text is None or text.encode() == data


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from("abcd"), max_size=30), st.lists(st.sampled_from("abcd"), max_size=30))
def test_line_differences_rebuild_the_new_side(old: list[str], new: list[str]) -> None:
    rebuilt: list[str] = []
    at = 0
    for i1, i2, j1, j2 in differing(old, new):
        assert i2 > i1 or j2 > j1
        rebuilt += old[at:i1] + new[j1:j2]
        at = i2
    assert rebuilt + old[at:] == new
