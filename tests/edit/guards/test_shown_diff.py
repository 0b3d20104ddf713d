"""The shown diff is exactly the written change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repoagent.edit.review_and_commit import read_back
from repoagent.edit.ui import DiffStat
from repoagent.git.files import Content, FileChange
from repoagent.patch.render import canonical_diff

LINES = (
    b"a\n", b"b\n", b"-- x\n", b"++ y\n", b"@@ -1 +1 @@\n", b"\r\n", b"f\x0cf\n", "\u2028\n".encode(), b"\xff\n",
    b" \n", b"\\ No newline at end of file\n",
)  # fmt: skip
TEXT = st.tuples(st.lists(st.sampled_from(LINES), max_size=30), st.sampled_from([b"", b"end", b"-- end"]))


def change(before: bytes, after: bytes) -> FileChange:
    return FileChange.at("a b", Content(before), Content(after))


@given(TEXT, TEXT)
def test_the_parsed_diff_produces_the_written_bytes(
    old: tuple[list[bytes], bytes], new: tuple[list[bytes], bytes]
) -> None:
    before, after = (b"".join([*lines, end]) for lines, end in (old, new))
    if before != after:
        changes = [change(before, after)]
        stat = read_back(canonical_diff(changes), changes)
        assert stat.added + stat.removed > 0


def test_a_diff_that_differs_from_the_bytes_is_an_error() -> None:
    changes = [change(b"1\n2\n3\n", b"1\nzwei\n3\n")]
    diff = canonical_diff(changes)
    assert str(read_back(diff, changes)) == "1 file +1 -1"
    for old, new in (("zwei", "drei"), ("@@ -1,3 +1,3 @@", "@@ -1,2 +1,3 @@"), (" 3\n", ""), (diff, "")):
        with pytest.raises(ValueError):
            read_back(diff.replace(old, new), changes)


def test_new_deleted_and_renamed_files() -> None:
    changes = [
        FileChange.at("n", None, Content(b"x\n")),
        FileChange.at("d", Content(b"y\n"), None),
        FileChange("o", "p", Content(b"z\n"), Content(b"z\n")),
    ]
    assert read_back(canonical_diff(changes), changes) == DiffStat(3, 1, 1)
