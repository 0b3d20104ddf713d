"""Edited segments are merged with a changed source as git merges; what editors change by themselves is undone."""

from __future__ import annotations

import codecs
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.errors import Refused
from repoagent.git.worktree import WorkTree
from repoagent.split.folder_index import SplitIndex, digest
from repoagent.split.join import (
    MergeResult,
    SegmentEdit,
    SegmentEdits,
    is_mostly_utf8,
    line_endings,
    lines_of,
    merge_edits,
    normalize_segment,
)
from repoagent.split.pack import Segment
from repoagent.split.source import SourceText, source_of


def merge_file(version: bytes, before: bytes, after: bytes, last_word: bool = False) -> bytes | None:
    """`git merge-file` itself; None for a conflict."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("version", "before", "after")]
        for file, data in zip(files, (version, before, after), strict=True):
            file.write_bytes(data)
        command = ["git", "merge-file", "-p", *(["--theirs"] if last_word else []), *files]
        done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    return done.stdout if done.returncode == 0 else None


def parts(*texts: bytes, **edits: bytes) -> SegmentEdits:
    """Segments of these texts; `s2=b"..."` is the edit of the second."""
    base, segments, edited = b"".join(texts), [], []
    start, line = 0, 1
    for number, text in enumerate(texts, 1):
        end, last = start + len(text), line + len(lines_of(text)) - 1
        segment = Segment(f"s{number}", start, end, line, last, "node", digest(text), (), False, ())
        segments.append(segment)
        if segment.file in edits:
            after = edits[segment.file]
            edited.append(SegmentEdit(segment, text, after, digest(after)))
        start, line = end, last + 1
    source = source_of(SourceText("src/a.c", base))
    index = SplitIndex(Path("/parts"), source, None, 64, False, tuple(segments))
    return SegmentEdits(index, base, tuple(edited), ())


def join(edits: SegmentEdits, present: bytes) -> MergeResult:
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        return merge_edits(WorkTree(top, top, top), edits, present)


ONE, TWO, THREE = (b"".join(b"%d.%d\n" % (n, line) for line in range(1, 6)) for n in (1, 2, 3))
ALL, ONE_CHANGED = (ONE, TWO, THREE), ONE.replace(b"1.5\n", b"1.5 changed\n")


@pytest.mark.parametrize(
    ("texts", "edits", "present", "replaced", "how"),
    [
        ((b"a\0", b"b\r", b"\xff"), {"s2": b"B"}, b"a\0b\r\xff", [(b"b\r", b"B")], {"s2": "applied"}),
        # the source changed in other segments,
        (ALL, {"s2": TWO.replace(b"2.3", b"two")}, b"new\n" + ONE + TWO + THREE.replace(b"3.5\n", b""),
         [(b"2.3", b"two")], {"s2": "applied"}),
        # in the same one,
        ((ONE, TWO), {"s2": TWO.replace(b"2.1", b"two")}, ONE + TWO.replace(b"2.4", b"four"),
         [(b"2.1", b"two")], {"s2": "merged"}),
        # across a boundary
        (ALL, {"s1": ONE.replace(b"1.1", b"one"), "s2": TWO.replace(b"2.5", b"five")},
         (ONE + TWO + THREE).replace(b"1.5\n2.1\n", b"between\n"), [(b"1.1", b"one"), (b"2.5", b"five")],
         {"s1": "merged", "s2": "merged"}),
        *(  # the source has the edit already
            (ALL, {"s1": ONE_CHANGED}, ONE_CHANGED + (TWO + THREE).replace(also, b"x\n"), [], {"s1": "already"})
            for also in (b"2.2\n", b"3.5\n")
        ),
    ],
)  # fmt: skip
def test_edits_are_merged_with_changes_of_the_source(
    texts: tuple[bytes, ...],
    edits: dict[str, bytes],
    present: bytes,
    replaced: list[tuple[bytes, bytes]],
    how: dict[str, str],
) -> None:
    joined = join(parts(*texts, **edits), present)
    for old, new in replaced:
        present = present.replace(old, new)
    assert joined.data == present and joined.how == how


def test_changes_of_the_same_lines_conflict_and_name_the_lines_of_both() -> None:
    second, third = b"x\n" + TWO.replace(b"2.3", b"two"), THREE.replace(b"3.1", b"three")
    edited = parts(ONE, TWO, THREE, s2=second, s3=third)
    joined = join(edited, b"new\n" + ONE + TWO.replace(b"2.3", b"deux") + THREE)
    assert joined.how == {"s2": "conflict", "s3": "applied"}
    (conflict,) = joined.conflicts
    assert conflict.files == ("s2",) and conflict.places == (((4, 4), (9, 9)),)


def test_winning_segments_overwrite_only_the_lines_in_conflict() -> None:
    edited = parts(ONE, TWO, s2=TWO.replace(b"2.3", b"two"))
    present = ONE + TWO.replace(b"2.3", b"deux").replace(b"2.1", b"first")
    joined = join(edited, present)
    assert joined.data == ONE + TWO.replace(b"2.3", b"two").replace(b"2.1", b"first")
    changed = [line for line in joined.discarded.splitlines() if line[:2] in ("-2", "+d", "+f")]
    assert changed == ["-2.3", "+deux"]


def test_a_binary_source_that_changed_is_a_conflict_as_a_whole() -> None:
    joined = join(parts(b"a\0", b"b\0", s2=b"B\0"), b"A\0b\0")
    assert joined.conflicts[0].files == ("s2",) and joined.conflicts[0].places == ()
    assert joined.data == b"a\0B\0" and joined.how == {"s2": "conflict"}


@pytest.mark.parametrize(
    ("edits", "present"),
    [
        # both insert at one boundary
        (parts(ONE, TWO, s1=ONE + b"ours\n"), ONE + b"theirs\n" + TWO),
        # the line endings of the source changed
        (parts(ONE, TWO, s1=ONE.replace(b"1.3", b"one")), (ONE + TWO).replace(b"\n", b"\r\n")),
    ],
)
def test_changes_at_one_place_conflict(edits: SegmentEdits, present: bytes) -> None:
    assert [conflict.files for conflict in join(edits, present).conflicts] == [("s1",)]


def test_an_edit_of_a_line_shared_by_two_segments_applies_if_the_line_is_unchanged() -> None:
    edited = parts(b"f(1)\n},", b" {\ng(2)\n", s2=b" {\ng(3)\n")
    assert join(edited, b"// new\nf(1)\n}, {\ng(2)\n").data == b"// new\nf(1)\n}, {\ng(3)\n"
    changed = join(edited, b"f(1)\n}, [\ng(2)\n")
    assert changed.conflicts[0].files == ("s2",)


LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"\n", b"def f():\n"]), min_size=1, max_size=6)


def edited_parts(texts: list[bytes], edits: list[bytes]) -> SegmentEdits:
    changed = {f"s{n}": new for n, (old, new) in enumerate(zip(texts, edits, strict=True), 1) if old != new}
    return parts(*texts, **changed)


@pytest.mark.soak
@settings(max_examples=150, deadline=None)
@given(st.data())
def test_random_edits_merge_with_random_changes(data: st.DataObject) -> None:
    """Each segment is changed by at most one side, and not at its edges: the result is known without a merge."""
    texts = [b"".join(b"<%d %d>\n" % (n, k) for k in range(5)) for n in range(data.draw(st.integers(2, 6)))]
    ours, present, wanted = [], [], []
    for text in texts:
        side = data.draw(st.sampled_from(["ours", "theirs", "nobody"]))
        lines = text.splitlines(keepends=True)
        first, end = sorted((data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))))
        changed = b"".join([*lines[:first], *data.draw(LINES), *lines[end:]])
        ours.append(changed if side == "ours" else text)
        present.append(changed if side == "theirs" else text)
        wanted.append(text if side == "nobody" else changed)
    joined = join(edited_parts(texts, ours), b"".join(present))
    assert joined.data == b"".join(wanted) and not joined.conflicts


@pytest.mark.soak
@settings(max_examples=80, deadline=None)
@given(st.data())
def test_the_result_is_that_of_git_for_the_whole_text(data: st.DataObject) -> None:
    """With few distinct lines, nearly every location is ambiguous; each side may change anything."""
    texts = [b"".join(data.draw(LINES)) for _ in range(data.draw(st.integers(1, 4)))]

    def some(text: bytes) -> bytes:
        lines = text.splitlines(keepends=True)
        first = data.draw(st.integers(0, len(lines)))
        end = data.draw(st.integers(first, len(lines)))
        return b"".join([*lines[:first], *data.draw(st.one_of(st.just([]), LINES)), *lines[end:]])

    ours = [some(text) if data.draw(st.booleans()) else text for text in texts]
    base, wanted = b"".join(texts), b"".join(ours)
    present = some(base) if data.draw(st.booleans()) else some(wanted)
    joined = join(edited_parts(texts, ours), present)
    whole = merge_file(present, base, wanted) if present not in (base, wanted) else wanted
    assert (whole is None) == bool(joined.conflicts)
    assert joined.data == (merge_file(present, base, wanted, True) if whole is None else whole)
    assert all(conflict.files for conflict in joined.conflicts)


LATIN = "größe = 1\nlänge = 2\nend\n".encode("latin-1")
UTF8 = "größe = 1\nlänge = 2\nend\n".encode()


def saved(before: bytes, after: bytes, *, rest: bytes = b"", last: bool = False) -> tuple[bytes, list[str]]:
    utf8 = is_mostly_utf8(rest + before)
    return normalize_segment("002.c", before, after, utf8=utf8, endings=line_endings(before), last=last)


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
        (LATIN, LATIN.decode("utf-8", "replace").encode(), "original single-byte encoding (line 1)"),
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


BROKEN = b"a caf\xe9\n"  # one invalid byte of a source in UTF-8


@pytest.mark.parametrize(
    ("before", "after", "rest"),
    [
        (b"a\n", "a é\n".encode(), UTF8 + BROKEN),
        (BROKEN, "a café\n".encode(), UTF8),
        (BROKEN, BROKEN + b"b\n", UTF8),
        (UTF8, UTF8 + "é\n".encode(), LATIN * 2),
    ],
)
def test_segment_and_source_of_different_encodings(before: bytes, after: bytes, rest: bytes) -> None:
    assert saved(before, after, rest=rest) == (after, [])


@pytest.mark.parametrize(
    ("before", "after", "rest"),
    [
        (UTF8, UTF8.decode().encode("latin-1"), UTF8 + BROKEN),
        (BROKEN, BROKEN.decode(errors="replace").encode(), UTF8),
        (b"a\n", "a é\n".encode(), LATIN),
    ],
)
def test_segment_saved_in_another_encoding_than_its_source(before: bytes, after: bytes, rest: bytes) -> None:
    with pytest.raises(Refused, match="no longer in"):
        saved(before, after, rest=rest)


def test_an_emptied_first_segment_leaves_the_mark() -> None:
    assert saved(codecs.BOM_UTF8 + b"a\n", b"")[0] == codecs.BOM_UTF8


EDITORS: dict[str, Callable[[bytes], bytes]] = {
    "mark": lambda data: codecs.BOM_UTF8 + data,
    "crlf": lambda data: data.replace(b"\n", b"\r\n"),
    "no end": lambda data: data.removesuffix(b"\n"),
}


TEXTS = st.lists(st.text("abé {}", max_size=5), min_size=1, max_size=6)


@settings(max_examples=50, deadline=None)
@given(TEXTS, TEXTS, st.lists(st.sampled_from(sorted(EDITORS)), unique=True))
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
