"""Hunks without context turn the old text into the new one; and diffs on standard input."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repoagent.errors import UsageError
from repoagent.review.change import Lines, apply_hunks, diff_sections, read_hunk, split_lines
from tests.conftest import GitRepo
from tests.review.builders import read
from tests.review.test_read_diff import only, statuses

_LINES = st.lists(
    st.sampled_from([b"a\n", b"b\n", b"--- c\n", b"+++ d\n", b"@@ -1 +1 @@\n", b"\n", b"\r\n"]), max_size=12
)
PLAIN = b"--- old/a.txt\t2020-01-01\n+++ a.txt\t2020-01-02\n@@ -1,2 +1,2 @@\n line 1\n-line 2\n+line two\n"


@given(_LINES, _LINES, st.integers(0, 3), st.booleans(), st.booleans())
def test_hunks_turn_the_old_text_into_the_new_one(
    old: list[bytes], new: list[bytes], context: int, cut_old: bool, cut_new: bool
) -> None:
    before, after = b"".join(old), b"".join(new)
    before, after = (before[:-1] if cut_old else before), (after[:-1] if cut_new else after)
    sides = (split_lines(before), split_lines(after))
    body = list(difflib.diff_bytes(difflib.unified_diff, *sides, b"a", b"b", n=context))[2:]
    lines = [line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n" for line in body]
    (hunks,) = diff_sections(b"diff --git a/a b/a\n" + b"".join(lines))
    assert apply_hunks(before, hunks) == after
    for hunk in hunks:
        assert hunk.removed or hunk.added
        if hunk.added:
            assert tuple(sides[1][hunk.new - 1 : hunk.new - 1 + len(hunk.added)]) == hunk.added


def test_hunks_that_do_not_fit_are_not_applied() -> None:
    assert apply_hunks(b"a\n", [Lines(1, (b"b\n",), 1, (b"c\n",))]) is None
    assert apply_hunks(b"a\n", [Lines(5, (b"b\n",), 1, ())]) is None
    assert read_hunk([b"no header\n"], 0) == ([], 1)


def test_a_diff_on_standard_input_equals_the_staged_change(repo: GitRepo) -> None:
    repo.write("a.txt", "".join(f"line {n}\n" for n in range(1, 11)).replace("line 4", "line four"))
    repo.write("dir/name with ä\ttab", "new\n")
    (repo.top / "README.md").rename(repo.top / "READ.md")
    (repo.top / "src/app.py").unlink()
    repo.git("add", "-A")
    staged = read(repo.top)
    by_path = {file.path: file for file in staged.files}
    for options in ([], ["-U0"], ["--full-index"]):
        text = repo.git("diff", "--cached", "-M", *options).encode("utf-8", "surrogateescape")
        change = read(repo.top, "diff", diff=text)
        assert (statuses(change), change.base, change.kind) == (statuses(staged), "", "diff")
        for file in change.files:
            other = by_path[file.path]
            assert change.texts.lines(file) == staged.texts.lines(other)
            if file.status != "renamed":  # git writes no index line where the bytes are the same
                assert change.texts.new(file) == staged.texts.new(other)
                assert change.texts.old(file) == staged.texts.old(other)


def test_a_plain_diff_without_index_lines_has_lines_and_no_texts(repo: GitRepo) -> None:
    change = read(repo.top, "diff", diff=PLAIN)
    file = only(change)
    assert (file.path, file.status, change.texts.old(file), change.texts.new(file)) == (
        "a.txt", "modified", None, None,
    )  # fmt: skip
    assert change.texts.lines(file) == (Lines(2, (b"line 2\n",), 2, (b"line two\n",)),)
    added = b"--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n"
    new = read(repo.top, "diff", diff=added)
    assert (only(new).status, new.texts.new(only(new))) == ("added", b"x")
    windows = read(repo.top, "diff", diff=PLAIN.replace(b"\n", b"\r\n"))
    assert [lines.added for lines in windows.texts.lines(only(windows))] == [(b"line two\n",)]
    assert read(repo.top, "diff", diff=b"").files == ()


@pytest.mark.parametrize(
    ("diff", "sentence"),
    [
        (b"hello\n", "is not a unified diff"),
        (b"--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n-b\n", "was truncated or edited"),
    ],
)
def test_an_incomplete_diff_is_refused(repo: GitRepo, diff: bytes, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        read(repo.top, "diff", diff=diff)
