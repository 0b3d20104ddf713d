"""Unintended changes that editors make to a segment are undone, or refused with the line."""

from __future__ import annotations

import codecs
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.errors import Refused
from repoagent.split.join import line_endings, normalize_segment
from repoagent.split.source import SourceText, source_of

LATIN = "größe = 1\nlänge = 2\nend\n".encode("latin-1")
UTF8 = "größe = 1\nlänge = 2\nend\n".encode()


def saved(
    before: bytes, after: bytes, *, whole: bytes | None = None, last: bool = False
) -> tuple[bytes, list[str]]:
    source = before if whole is None else whole
    utf8 = source_of(SourceText("a.c", source)).encoding == "utf-8"
    return normalize_segment("002.c", before, after, utf8=utf8, endings=line_endings(source), last=last)


@pytest.mark.parametrize(
    ("before", "after", "wanted", "note"),
    [
        (b"a\nb\n", b"a\nc", b"a\nc\n", "restored the final newline"),
        (b"a\r\nb\r\n\r\n", b"a\r\nc", b"a\r\nc\r\n\r\n", "restored the final newlines"),
        (b"a\nb\n", b"a", b"a\n", "restored the final newline"),
        (b"var a;", b"var b;\n", b"var b;", "removed the final newline"),
        (b"a\nb\n", b"a\r\nc\r\n", b"a\nc\n", "from CRLF back to LF"),
        (b"a\r\nb\r\n", b"a\nc\n", b"a\r\nc\r\n", "from LF back to CRLF"),
        (b"a\rb\r", b"a\nc\n", b"a\rc\r", "from LF back to CR"),
        (b"a\nb\n", b"\xef\xbb\xbfa\nc\n", b"a\nc\n", "removed a byte-order mark"),
        (b"\xef\xbb\xbfa\nb\n", b"a\nc\n", b"\xef\xbb\xbfa\nc\n", "restored the byte-order mark"),
    ],
)  # fmt: skip
def test_restored(before: bytes, after: bytes, wanted: bytes, note: str) -> None:
    data, notes = saved(before, after)
    assert data == wanted
    assert len(notes) == 1 and notes[0].startswith("002.c: ") and note in notes[0]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\nb\n", b"a\nb\nc\n"),
        (b"a\nb\n", b""),
        (b"one line", b"another\nand one more"),
        (b"a\r\nb\n", b"a\r\nb\nc\n"),
        (LATIN, LATIN + b"\xe9\n"),
        (UTF8, UTF8 + "é\n".encode()),
        (b"<<<<<<< of a text about git\n", b"<<<<<<< of a text about git\nmore\n"),
    ],
)
def test_unchanged(before: bytes, after: bytes) -> None:
    assert saved(before, after) == (after, [])


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        (b"a\nb\n\n\n", b"x\nb\n", b"x\nb\n\n\n"),
        (b"a\nb\n\n\n", b"x\nb\n\n", b"x\nb\n\n"),  # the user removed one of them
        (b"a\nb\n\n\n", b"a\nb\n\n\nc\n", b"a\nb\n\n\nc\n"),  # and added text below them
        (b"a\nb\n\n\n", b"a\n", b"a\n"),
    ],
)
def test_blank_lines_removed_by_a_formatter_are_restored(before: bytes, after: bytes, wanted: bytes) -> None:
    assert saved(before, after)[0] == wanted
    assert saved(before, after, last=True) == (after, [])


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (b"a\nb\nc\n", b"a\r\nb\nc\n", "line 1 does not end in LF"),
        (b"a\r\nb\r\n", b"a\r\nb\r\nc\n", "line 3 does not end in CRLF"),
        (b"a\r\nb\nc\n", b"a\nb\nc\nd\n", "mixed line endings, and the edit changed them"),
        (b"a\nbcdef\n", b"a\nbcd", "looks truncated at line 2"),
        (b"a\n", b"<<<<<<< HEAD\na\n=======\nb\n>>>>>>> x\n", "conflict markers (line 1)"),
        (b"a\n", b"a\0\n", "NUL bytes"),
        (UTF8, b"\xff\n" + UTF8, "no longer in UTF-8 (line 1)"),
        (b"a\nb\n", b"a\n\xe9\n", "no longer in UTF-8 (line 2)"),
        (
            LATIN,
            LATIN.decode("utf-8", "replace").encode(),
            "no longer in its original single-byte encoding (line 1)",
        ),
        (UTF8, UTF8.decode().encode("latin-1"), "no longer in UTF-8 (line 1)"),
        (UTF8, UTF8.decode().encode("utf-16"), "has NUL bytes or is UTF-16; save it in UTF-8 and join again"),
        (b"a\n", b"\xff\xfe", "has NUL bytes or is UTF-16"),
        (b"a\n", "\ufeffb\n".encode("utf-32-be"), "has NUL bytes or is UTF-16"),
        (LATIN, LATIN.decode("latin-1").encode("utf-16-be"), "NUL bytes"),
        (LATIN, LATIN.decode("latin-1").encode(), "no longer in its original single-byte encoding (line 1)"),
        (LATIN, "end\né\n".encode(), "no longer in its original single-byte encoding (line 2)"),
    ],
)
def test_refused(before: bytes, after: bytes, said: str) -> None:
    with pytest.raises(Refused) as error:
        saved(before, after)
    assert said in str(error.value)


def test_an_emptied_first_segment_leaves_the_mark() -> None:
    assert saved(codecs.BOM_UTF8 + b"a\n", b"")[0] == codecs.BOM_UTF8


EDITORS: dict[str, Callable[[bytes], bytes]] = {
    "mark": lambda data: codecs.BOM_UTF8 + data,
    "crlf": lambda data: data.replace(b"\n", b"\r\n"),
    "no end": lambda data: data.removesuffix(b"\n"),
}


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.text("abé {}", max_size=5), min_size=1, max_size=6),
    st.lists(st.text("abé {}", max_size=5), min_size=1, max_size=6),
    st.lists(st.sampled_from(sorted(EDITORS)), unique=True),
)
def test_edits_survive_typical_changes_of_editors(old: list[str], new: list[str], habits: list[str]) -> None:
    before, meant = ("".join(f"{line}\n" for line in [*lines, "end"]).encode() for lines in (old, new))
    data = meant
    for habit in sorted(habits):
        data = EDITORS[habit](data)
    try:
        found = saved(before, data)[0]
    except Refused:
        assert "no end" in habits  # it may look like an interrupted save
    else:
        assert found == meant
