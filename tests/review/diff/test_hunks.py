"""Hunks without their context: they put the text before and the text after together again."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repoagent.errors import UsageError
from repoagent.review.change import Lines, apply_hunks, diff_sections, read_hunk, split_lines
from tests.conftest import GitRepo
from tests.review.diff.test_change import only, read, told

_LINES = st.lists(
    st.sampled_from([b"a\n", b"b\n", b"--- c\n", b"+++ d\n", b"@@ -1 +1 @@\n", b"\n", b"\r\n"]), max_size=12
)


def _patch(old: list[bytes], new: list[bytes], context: int) -> bytes:
    lines = difflib.diff_bytes(difflib.unified_diff, old, new, b"a", b"b", n=context)
    body = list(lines)[2:]
    return b"diff --git a/a b/a\n" + b"".join(
        line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n" for line in body
    )


@given(_LINES, _LINES, st.integers(0, 3), st.booleans(), st.booleans())
def test_hunks_turn_the_old_text_into_the_new_one(
    old: list[bytes], new: list[bytes], context: int, cut_old: bool, cut_new: bool
) -> None:
    one, two = b"".join(old), b"".join(new)
    one, two = (one[:-1] if cut_old else one), (two[:-1] if cut_new else two)
    patch = _patch(split_lines(one), split_lines(two), context)
    ((_, hunks),) = diff_sections(patch)
    assert apply_hunks(one, hunks) == two
    for hunk in hunks:
        assert hunk.removed or hunk.added
        if hunk.added:
            assert tuple(split_lines(two)[hunk.new - 1 : hunk.new - 1 + len(hunk.added)]) == hunk.added


def test_hunks_that_do_not_fit_give_nothing() -> None:
    assert apply_hunks(b"a\n", [Lines(1, (b"b\n",), 1, (b"c\n",))]) is None
    assert apply_hunks(b"a\n", [Lines(5, (b"b\n",), 1, ())]) is None
    assert read_hunk([b"no header\n"], 0) == ([], 1)


def test_a_diff_on_standard_input_is_read_as_what_is_staged(repo: GitRepo) -> None:
    repo.write("a.txt", "".join(f"line {n}\n" for n in range(1, 11)).replace("line 4", "line four"))
    repo.write("dir/name with ä\ttab", "new\n")
    (repo.top / "README.md").rename(repo.top / "READ.md")
    (repo.top / "src/app.py").unlink()
    repo.git("add", "-A")
    staged = read(repo.top)
    for options in ([], ["-U0"], ["--full-index"]):
        given_ = read(
            repo.top,
            "diff",
            diff=repo.git("diff", "--cached", "-M", *options).encode("utf-8", "surrogateescape"),
        )
        assert told(given_) == told(staged)
        by = {file.path: file for file in staged.files}
        for file in given_.files:
            assert given_.read_lines(file) == staged.read_lines(by[file.path])
            if file.status != "renamed":  # git writes no index line where the bytes are the same
                assert given_.read_new(file) == staged.read_new(by[file.path])
                assert given_.read_old(file) == staged.read_old(by[file.path])
    assert given_.base == "" and given_.kind == "diff"


def test_a_plain_diff_without_index_lines_has_lines_and_no_texts(repo: GitRepo) -> None:
    diff = b"--- old/a.txt\t2020-01-01\n+++ a.txt\t2020-01-02\n@@ -1,2 +1,2 @@\n line 1\n-line 2\n+line two\n"
    change = read(repo.top, "diff", diff=diff)
    file = only(change)
    assert (file.path, file.status, change.read_old(file), change.read_new(file)) == (
        "a.txt",
        "modified",
        None,
        None,
    )
    assert change.read_lines(file) == (Lines(2, (b"line 2\n",), 2, (b"line two\n",)),)
    new = read(
        repo.top, "diff", diff=b"--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n"
    )
    assert (only(new).status, new.read_new(only(new))) == ("added", b"x")
    windows = read(repo.top, "diff", diff=diff.replace(b"\n", b"\r\n"))
    assert [lines.added for lines in windows.read_lines(only(windows))] == [(b"line two\n",)]


@pytest.mark.parametrize(
    ("diff", "sentence"),
    [
        (b"hello\n", "is not a unified diff"),
        (b"--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n-b\n", "is truncated or was edited"),
    ],
)
def test_what_is_no_whole_diff_is_refused(repo: GitRepo, diff: bytes, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        read(repo.top, "diff", diff=diff)


def test_an_empty_diff_is_an_empty_change(repo: GitRepo) -> None:
    assert read(repo.top, "diff", diff=b"").files == ()


@given(st.binary(max_size=300))
def test_no_text_breaks_the_reader(noise: bytes) -> None:
    from repoagent.review.diff.stdin import _sections

    try:
        list(_sections(b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n" + noise))
    except UsageError:
        return
