"""Reading the change: every way to select one, every kind of file in git, and diffs on standard input."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repoagent.errors import UsageError
from repoagent.git.worktree import open_at_head
from repoagent.review.change import (
    Change,
    ChangedFile,
    ChangedLines,
    apply_hunks,
    diff_sections,
    read_hunk,
    split_lines,
)
from repoagent.review.read_diff import ChangeSelector, How, read_change
from tests.conftest import GitRepo
from tests.review.builders import read, stage

Make = Callable[[str], GitRepo]


def only(change: Change) -> ChangedFile:
    (file,) = change.files
    return file


def statuses(change: Change) -> dict[str, str]:
    return {file.path: file.status for file in change.files}


def test_staged_bytes_are_reviewed_not_the_work_tree(repo: GitRepo) -> None:
    repo.write("a.txt", "staged\n")
    repo.git("add", "a.txt")
    repo.write("a.txt", "not staged\n")
    index = (repo.top / ".git/index").read_bytes()
    change = read(repo.top)
    assert change.texts.new(only(change)) == b"staged\n"
    assert change.texts.lines(only(change))[0].added == (b"staged\n",)
    assert only(change).new_blob == repo.git("rev-parse", ":a.txt").strip()
    assert (repo.top / ".git/index").read_bytes() == index
    work = read(repo.top, "worktree")
    assert work.texts.new(only(work)) == b"not staged\n"
    assert (change.kind, work.kind, change.base, change.head) == ("staged", "worktree", repo.head(), "")


def test_before_the_first_commit(make_repo: Make) -> None:
    repo = make_repo("new")
    stage(repo, {"a": "one\n"})
    change = read(repo.top)
    assert statuses(change) == {"a": "added"}
    texts, file = change.texts, only(change)
    assert (change.base, texts.old(file), texts.new(file)) == ("", None, b"one\n")
    ways: tuple[How, ...] = ("worktree", "base")
    for how in ways:
        with pytest.raises(UsageError, match="there is no commit yet"):
            read(repo.top, how)


def test_every_kind_of_file(repo: GitRepo) -> None:
    body = "".join(f"a long enough line {n}\n" for n in range(30))
    for name in ("moved", "mode", "kind", "gone"):
        repo.write(name, name + body)
    repo.write("binary", b"\0one")
    repo.commit("more")
    (repo.top / "moved").rename(repo.top / "to here")
    repo.write("to here", "moved" + body + "changed\n")
    (repo.top / "mode").chmod(0o755)
    (repo.top / "kind").unlink()
    (repo.top / "kind").symlink_to("a.txt")
    (repo.top / "gone").unlink()
    repo.write("binary", b"\0two")
    (repo.top / os.fsdecode(b"\xff name")).write_bytes(b"x")
    repo.git("add", "-A")
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{repo.head()},sub")
    repo.write("intended", "later\n")
    repo.git("add", "-N", "intended")
    change = read(repo.top)
    assert statuses(change) == {
        "to here": "renamed", "mode": "modified", "kind": "type changed", "gone": "deleted", "binary": "modified",
        os.fsdecode(b"\xff name"): "added", "sub": "added",
    }  # fmt: skip
    by, texts = {file.path: file for file in change.files}, change.texts
    assert by["to here"].old_path == "moved"
    assert [lines.added for lines in texts.lines(by["to here"])] == [(b"changed\n",)]
    modes = (by["mode"].old_mode, by["mode"].new_mode)
    assert (modes, texts.lines(by["mode"])) == (("100644", "100755"), ())
    assert texts.new(by["kind"]) == b"a.txt"
    assert texts.lines(by["kind"])[-1].added == (b"a.txt",)
    assert (texts.old(by["gone"]), texts.new(by["gone"])) == (("gone" + body).encode(), None)
    assert (texts.lines(by["binary"]), texts.new(by["binary"])) == ((), b"\0two")
    assert (texts.new(by["sub"]), texts.lines(by["sub"])) == (None, ())
    assert texts.lines(by[os.fsdecode(b"\xff name")])[0].added == (b"x",)


def test_pathspecs_work_as_in_git(repo: GitRepo) -> None:
    names = {"src/app.py", "src/deep/x.c", "a.txt"}
    stage(repo, dict.fromkeys(names, "new\n"))
    for folder, pathspec, expected in (
        ("", "src", {"src/app.py", "src/deep/x.c"}),
        ("", "*.c", {"src/deep/x.c"}),
        ("src", ".", {"src/app.py", "src/deep/x.c"}),
        ("src", ":/a.txt", {"a.txt"}),
        ("", ":(exclude)src", {"a.txt"}),
    ):
        change = read(repo.top / folder, "staged", "", pathspec)
        assert (set(statuses(change)), change.earlier) == (expected, names - expected), pathspec
        assert {change.texts.new(file) for file in change.files} == {b"new\n"}
    with pytest.raises(UsageError, match="outside repository"):
        read(repo.top, "staged", "", "../x")


@pytest.mark.soak
def test_a_range_has_the_commits_of_one_side(repo: GitRepo) -> None:
    repo.git("switch", "-qc", "topic")
    repo.commit("one", one="1\n")
    repo.commit("two\n\nReview-Ignore: partner-missing", two="2\n", one="3\n")
    repo.git("switch", "-q", "main")
    repo.commit("elsewhere", other="x\n")
    for value in ("main..topic", "main...topic"):
        change = read(repo.top, "range", value)
        assert set(statuses(change)) == {"one", "two"}
        assert change.base == repo.git("merge-base", "main", "topic").strip()
        assert change.author == b"Ada Tester <ada@example.com>"
        assert "Review-Ignore: partner-missing" in change.message and "one" in change.message
        assert "(2 commits)" in change.title
    repo.git("switch", "-q", "topic")
    assert set(statuses(read(repo.top, "base", "main"))) == {"one", "two"}
    assert set(statuses(read(repo.top, "range", "main.."))) == {"one", "two"}
    last = read(repo.top, "commit", "HEAD")
    assert set(statuses(last)) == {"one", "two"}
    assert last.earlier == {"one"}
    first = dict.fromkeys(("README.md", "a.txt", "src/app.py"), "added")
    assert statuses(read(repo.top, "commit", "main~1")) == first
    wrong: tuple[tuple[How, str, str], ...] = (
        ("range", "nope..HEAD", "no such commit: nope"),
        ("commit", "-x", "no such commit: -x"),
        ("range", "main", "main is not a range"),
    )
    for how, value, sentence in wrong:
        with pytest.raises(UsageError, match=sentence):
            read(repo.top, how, value)


def test_a_shallow_clone_lacks_commits(repo: GitRepo, tmp_path: Path) -> None:
    repo.git("switch", "-qc", "topic")
    repo.commit("one", one="1\n")
    repo.git("switch", "-q", "main")
    repo.commit("elsewhere", other="x\n")
    clone = tmp_path / "shallow"
    repo.git("clone", "-q", "--depth=1", "--no-single-branch", repo.top.as_uri(), str(clone))
    with pytest.raises(UsageError, match="the clone is shallow, so run"):
        read(clone, "range", "origin/main..origin/topic")
    with pytest.raises(UsageError, match="--deepen=1"):
        read(clone, "commit", "HEAD")


def test_a_merge_has_only_changes_of_neither_side(repo: GitRepo) -> None:
    lines = "".join(f"{n}\n" for n in range(1, 20))
    stage(repo, dict.fromkeys(("clean", "both"), f"0\n{lines}"), commit="base")
    repo.git("switch", "-qc", "topic")
    stage(repo, {"both": f"theirs\n{lines}", "theirs": "x\n"}, commit="theirs")
    repo.git("switch", "-q", "main")
    stage(repo, {"both": f"ours\n{lines}", "ours": "x\n"}, commit="ours")
    repo.git("merge", "topic", ok=False)
    repo.write("b.txt", "b\n")
    repo.git("add", "b.txt")
    worktree, head = open_at_head(repo.top)
    for how in ("staged", "worktree"):
        unsettled, unseen = read_change(worktree, head, ChangeSelector(how, cwd=repo.top))
        assert (statuses(unsettled), unseen) == ({"b.txt": "added"}, ("both (unresolved conflicts)",))
    stage(repo, {"both": f"settled\n{lines}"})
    change = read(repo.top)
    assert statuses(change) == {"both": "modified", "b.txt": "added"}
    assert change.earlier >= {"ours", "theirs"}
    repo.git("commit", "-qm", "merged")
    assert statuses(read(repo.top, "commit", "HEAD")) == {"both": "modified", "b.txt": "added"}


@pytest.mark.soak
def test_a_partial_clone_is_not_fetched_into(repo: GitRepo, tmp_path: Path) -> None:
    repo.commit("second", one="".join(f"line {n}\n" for n in range(40)))
    (repo.top / "one").rename(repo.top / "two")
    repo.write("two", "".join(f"line {n}\n" for n in range(41)))
    repo.commit("third")
    repo.git("config", "uploadpack.allowFilter", "true")
    clone = GitRepo(tmp_path / "partial")
    repo.git("clone", "-q", "--filter=blob:none", "--no-checkout", repo.top.as_uri(), str(clone.top))
    missing = clone.git("rev-list", "--objects", "--all", "--missing=print", "--quiet")
    change = read(clone.top, "commit", "HEAD")
    assert statuses(change) == {"one": "deleted", "two": "added"}
    assert [change.texts.new(file) for file in change.files] == [None, None]
    assert [change.texts.lines(file) for file in change.files] == [(), ()]
    assert clone.git("rev-list", "--objects", "--all", "--missing=print", "--quiet") == missing


def test_git_settings_of_the_user_have_no_effect(repo: GitRepo) -> None:
    for setting in ("diff.noprefix=true", "diff.mnemonicPrefix=true", "diff.relative=true", "diff.external=false",
                    "color.diff=always", "diff.context=9", "diff.interHunkContext=9", "core.quotepath=true"):  # fmt: skip
        repo.git("config", *setting.split("=", 1))
    stage(repo, {"ünï.txt": "x\n", "a.txt": "1\n"})
    change = read(repo.top / "src")
    assert set(statuses(change)) == {"ünï.txt", "a.txt"}
    assert [len(change.texts.lines(file)) for file in change.files] == [1, 1]


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
    assert apply_hunks(b"a\n", [ChangedLines(1, (b"b\n",), 1, (b"c\n",))]) is None
    assert apply_hunks(b"a\n", [ChangedLines(5, (b"b\n",), 1, ())]) is None
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
    assert change.texts.lines(file) == (ChangedLines(2, (b"line 2\n",), 2, (b"line two\n",)),)
    added = b"--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n"
    new = read(repo.top, "diff", diff=added)
    assert (only(new).status, new.texts.new(only(new))) == ("added", b"x")
    windows = read(repo.top, "diff", diff=PLAIN.replace(b"\n", b"\r\n"))
    assert [lines.added for lines in windows.texts.lines(only(windows))] == [(b"line two\n",)]
    mode = read(repo.top, "diff", diff=b"diff --git a/a.txt b/a.txt\nold mode 100644\nnew mode 100755\n")
    assert (only(mode).path, only(mode).new_mode) == ("a.txt", "100755")
    assert read(repo.top, "diff", diff=b"").files == ()


def test_an_incomplete_diff_is_refused(repo: GitRepo) -> None:
    with pytest.raises(UsageError, match="is not a unified diff"):
        read(repo.top, "diff", diff=b"hello\n")
    with pytest.raises(UsageError, match="was truncated or edited"):
        read(repo.top, "diff", diff=b"--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n-b\n")
