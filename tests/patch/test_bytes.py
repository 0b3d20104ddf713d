"""Every byte outside of the change is unchanged."""

from __future__ import annotations

import codecs
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from repoagent.patch.model import decode_text
from repoagent.patch.refusal import PatchRefused
from tests.patch.helpers import after, changed, fenced, outcome, reasons, run, unified

BOM = codecs.BOM_UTF8
MARKED = b"one\n" + BOM + b"zwei\nthree\n"
BINARY = "diff --git a/app.py b/app.py\nindex 1..2\nGIT binary patch\nliteral 3\nabc\n"
SWAP = "@@\n one\n-two\n+zwei\n+drei\n three\n"
MOSTLY_UTF8 = "é è\n".encode() + b"\xff\n"
ODD_SPACE = "x\x0cy\u2028z\x85\n".encode()


@pytest.mark.parametrize(
    ("hunk", "before", "expected"),
    [
        (SWAP, b"one\r\ntwo\r\nthree\r\n", b"one\r\nzwei\r\ndrei\r\nthree\r\n"),
        (SWAP, b"one\ntwo\r\nthree\n", b"one\nzwei\r\ndrei\r\nthree\n"),
        (SWAP, b"one\r\ntwo\nthree\r\n", b"one\r\nzwei\ndrei\nthree\r\n"),
        (SWAP, b"one\ntwo\nthree", b"one\nzwei\ndrei\nthree"),
        (SWAP, BOM + b"one\ntwo\nthree\n", BOM + b"one\nzwei\ndrei\nthree\n"),
        (SWAP, b" caf\xe9\none\ntwo\nthree\n", b" caf\xe9\none\nzwei\ndrei\nthree\n"),
        (SWAP, MOSTLY_UTF8 + b"one\ntwo\nthree\n", MOSTLY_UTF8 + b"one\nzwei\ndrei\nthree\n"),
        (SWAP, ODD_SPACE + b"one\ntwo\nthree\n", ODD_SPACE + b"one\nzwei\ndrei\nthree\n"),
        (SWAP, b"\rone\n\r\none\ntwo\nthree\n", b"\rone\n\r\none\nzwei\ndrei\nthree\n"),
        (SWAP, b"a\0b\none\ntwo\nthree\n", b"a\0b\none\nzwei\ndrei\nthree\n"),
        (SWAP, b"one\rtwo\rthree\r", b"one\rzwei\rdrei\rthree\r"),
        (SWAP, b"one\rtwo\rthree", b"one\rzwei\rdrei\rthree"),
        (SWAP, b"one\ntwo\nthree\n\0\0\0\0", "binary"),
        # the endings of added lines
        ("@@\n one\n+new\n two\n", b"one\r\ntwo\nthree\n", b"one\r\nnew\r\ntwo\nthree\n"),
        ("@@\n one\n+new\n two\n", b"one\ntwo\r\nthree\r\n", b"one\nnew\ntwo\r\nthree\r\n"),
        ("@@ -1 +1,2 @@\n+new\n one\n", b"one\r\ntwo\n", b"new\r\none\r\ntwo\n"),  # nothing is above
        ("@@\n-one\n-two\n+1\n+2\n+3\n", b"one\r\ntwo\nx\r\n", b"1\r\n2\n3\nx\r\n"),
        ("@@\n x\n-two\n+2\n+3\n", b"x\r\ntwo", b"x\r\n2\r\n3"),
        # a byte-order mark and carriage returns in a hunk
        ("@@ -1 +1 @@\n-\ufeffone\n+\ufeffeins\n", BOM + b"one\n", BOM + b"eins\n"),
        ("@@\n-\ufeffone\n+\ufeffeins\n", BOM + b"one\n", BOM + b"eins\n"),
        ("@@ -2 +2 @@\n-two\n+\ufeffzwei\n", b"one\ntwo\n", b"one\n" + BOM + b"zwei\n"),
        ("@@\n one\r\n-two\r\n+two\n three\r\n", b"one\r\ntwo\r\nthree\r\n", b"one\r\ntwo\nthree\r\n"),
        # characters that the file cannot have
        ("@@\n one\n-two\n+zwei →\n", b"caf\xe9\none\ntwo\n", "encoding"),
        ("@@\n-one\n+\ud800\n", b"one\n", "encoding"),
    ],
)
def test_line_endings_encodings_and_the_end_of_the_file(
    hunk: str, before: bytes, expected: bytes | str
) -> None:
    assert outcome(fenced(hunk), before) == expected


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("app.py\n```\none\n\ud800\n```\n", "encoding"),
        ("app.py\n<<<<<<< SEARCH\none\n=======\n\udce9\n>>>>>>> REPLACE\n", "encoding"),
        (f"```diff\n{BINARY}```\n", "binary"),
    ],
)
def test_lone_surrogates_and_binary_patches_are_refused(answer: str, reason: str) -> None:
    assert reasons(answer, b"one\n") == {reason}


def git_diff(folder: Path, before: bytes, result: bytes, *options: str) -> str:
    """The output of git for a change of `f`, which is new if `before` is empty."""
    (folder / "a").mkdir()
    (folder / "b").mkdir()
    names = ["a/f" if before else "/dev/null", "b/f"]
    (folder / "a/f").write_bytes(before)
    (folder / "b/f").write_bytes(result)
    command = ["git", "diff", "--no-index", "--text", "--no-prefix", *options, *names]
    diff = subprocess.run(command, cwd=folder, capture_output=True, check=False).stdout
    return diff.decode("utf-8", "surrogateescape").replace("git b/f", "git a/f")


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (b"", b"abc\r"),
        (b"", b"a\rb\rc\r"),
        (b"x\ny", b"x\nabc\r"),
        (b"x\ny\r", b"z\ny\r"),
        (b"a\r\nb\r", b"a\r\nb\r\n"),
        (b"a\r\nb\r\n", b"a\r\nb\r"),
        (b"a\r\nb\r", b"a\r\nb"),
        (b"a\nb\n", b"a\nb\ncaf\xe9\n"),
        (b"", BOM + b"a\nb\n"),
        (BOM + b"a\nb\n", b"a\nb\n"),
        (BOM + b"a\nb\nc\n", b"a\nb\nC\n"),
        (b"a\nb\nc\n", BOM + b"a\nb\nC\n"),
        (b"a\nb\n", BOM + b"new\na\nb\n"),
        (BOM + b"a\nb\n", BOM + b"new\na\nb\n"),
        (BOM + b"a\nb\n", b"b\n"),
        (BOM + b"a\nb\n", BOM + b"a\nB\n"),
        (b"a\nb\n", b"a\nb\n" + BOM + b"c\n"),
        (b"a\n" + BOM + b"b\n", BOM + b"b\n"),
        (BOM + b"a\n" + BOM + b"b\n", BOM + b"A\n" + BOM + b"b\n" + BOM + b"c\n"),
        (b"", b"a\n" + BOM + b"b\n"),
        (BOM, b"\r\nx\n"),
        (b"a\r\nb", b"a\r\nb\n"),
        (b"a\nb\r\nc\nd", b"A\nb\r\nc\nd\r\n"),
        (b"\xe8\na\r\n1\r\n2\r\n3", b"\xe8\na\r\n1\r\n2\r\n3\n"),
        (b"1\n2\n" + BOM + b"b\nx\ny\nc\n", b"1\n2\n" + BOM + b"b\nx\ny\nC\n"),
        (b"one\rtwo\r", b"one\rtwo\rthree"),
        (b"one\rtwo\r", b"one\r\ntwo\r\n"),
        (b"\rx", b"new\n\rx\n"),
        ("é\n".encode() + b"a\n", "é\n".encode() + b"caf\xe9\n"),
        (b"\xe9\n\xe8\na\n", b"\xe9\n\xe8\ncaf\xc3\xa9\n"),
        (b"\xe8\n1\n2\n3\ncaf\xc3\xa9\n", b"\xe8\n1\n2\n3\ncaf\xc3\xa9!\n"),
        ("a\n1\n2\n3\nb\n".encode("utf-16"), "a\n1\n2\n3\nc\n".encode("utf-16")),
    ],
)
def test_a_diff_of_git_gives_the_bytes_that_it_was_made_of(
    before: bytes, expected: bytes, tmp_path: Path
) -> None:
    diff = git_diff(tmp_path, before, expected)
    for options in ({"strict": True}, {"strict": False}):
        result = run(diff, {"f": before} if before else {}, may_create=lambda path: True, **options)
        assert [change.after for change in result.changes] == [expected]
        assert result.placements[0].tolerances == ()


def test_a_strict_deletion_compares_the_bytes() -> None:
    header = "diff --git a/f b/f\ndeleted file mode 100644\n"
    lines = "--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\rb\r\n\\ No newline at end of file\n"
    assert changed(header + lines, {"f": b"a\rb\r"}, strict=True) == {"f": None}
    assert changed(header, {"f": b"\0\0\0"}) == {"f": None}
    envelope = "*** Begin Patch\n*** Delete File: f\n*** End Patch\n"
    assert changed(envelope, {"f": b"a\n"}, strict=True) == {"f": None}


def test_a_letter_in_utf_8_for_a_latin_1_file() -> None:
    diff = "--- a/f\n+++ b/f\n@@ -2,2 +2,3 @@\n 1\n+é\n 2\n"
    before = b"\xe8\n1\n2\n"
    assert after(diff, {"f": before}) == b"\xe8\n1\n\xe9\n2\n"
    assert after(diff, {"f": before}, strict=True) == b"\xe8\n1\n\xc3\xa9\n2\n"  # as git applies it
    assert after(diff.replace(" 1", " 1 "), {"f": before}) == b"\xe8\n1\n\xe9\n2\n"


def test_new_files_keep_a_byte_order_mark() -> None:
    envelope = "*** Begin Patch\n*** Add File: f\n+\ufeffa\n+b\n*** End Patch\n"
    for answer in (envelope, "`f.cs`\n```\n\ufeffa\nb\n```\n"):
        assert after(answer, {}, may_create=lambda path: True) == BOM + b"a\nb\n"
    assert after("`f.cs`\n```\n\ufeffa\nb\n```\n", {"f.cs": b"a\nc\n"}) == b"a\nb\n"  # it has none
    assert after("`f.cs`\n```\n\ufeff```\n", {}, may_create=lambda path: True) == b""


@pytest.mark.parametrize(
    ("hunk", "before", "expected"),
    [
        ("@@ -1 +1 @@\n-\ufeffone\n+\ufeffeins\n", b"one\n", b"eins\n"),
        ("@@ -1 +1 @@\n-\ufeffone\n+eins\n", b"one\n", b"eins\n"),
        ("@@ -1,2 +1,2 @@\n-\ufeffone\n+eins\n two \n", BOM + b"one\ntwo\n", b"eins\ntwo\n"),
        ("@@ -2,2 +2,2 @@\n-two\n+\ufeffzwei\n three \n", b"one\ntwo\nthree\n", MARKED),
    ],
)
def test_a_byte_order_mark_in_a_diff_that_does_not_fit_exactly(
    hunk: str, before: bytes, expected: bytes
) -> None:
    answer = f"```diff\n\ufeff--- a/app.py\n+++ b/app.py\n{hunk}```\n"
    assert after(answer, before) == expected
    assert "header" not in run(answer, before).placements[0].tolerances
    assert reasons(answer[8:-4], before, strict=True) <= {"not-found", "deleted-line-missing"}


def test_conflict_markers_in_a_diff_with_carriage_returns() -> None:
    markers = "+<<<<<<<\r\n+b\r\n+=======\r\n+c\r\n+>>>>>>>\r\n"
    answer = f"--- a/app.py\n+++ b/app.py\n@@ -1 +1,6 @@\n a\r\n{markers}"
    assert reasons(answer, b"a\r\n") == {"conflict-markers"}


def test_a_byte_order_mark_that_the_file_has_is_not_added_again() -> None:
    answer = "--- a/app.py\n+++ b/app.py\n@@ -1 +1 @@\n-one\n+\ufeffeins\n"
    assert after(answer, b"one\n") == BOM + b"eins\n"
    assert after(answer, BOM + b"one\n") == BOM + b"eins\n"
    assert reasons(answer, BOM + b"one\n", strict=True) == {"not-found"}
    assert reasons("--- a/app.py\n+++ b/app.py\n@@ -0,0 +1 @@\n+\ufeffone\n", BOM) == {"no-context"}


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
    text = decode_text(data)
    assert text is None or text.encode() == data
