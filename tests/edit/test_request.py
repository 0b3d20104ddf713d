"""The request of an edit: its arguments, its draft, and files that cannot be committed alone."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from repoagent.edit.checks import refuse_untracked
from repoagent.edit.draft import Draft
from repoagent.edit.request import EditRequest, Target, parse_target, split_arguments
from repoagent.errors import Refused, UsageError
from repoagent.git.files import Content, FileChange, Source, read_source
from repoagent.git.worktree import open_worktree
from tests.conftest import GitRepo


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("src/app.py", Target("src/app.py")),
        ("src/app.py:10", Target("src/app.py", 10, 10)),
        ("src/app.py:10-40", Target("src/app.py", 10, 40)),
        ("src/app.py::Class.method", Target("src/app.py", symbol="Class.method")),
        ("lib.rs::a::b", Target("lib.rs", symbol="a::b")),
        ("C:name", Target("C:name")),
    ],
)
def test_a_target_is_a_file_lines_or_a_symbol(tmp_path: Path, text: str, target: Target) -> None:
    assert parse_target(text, tmp_path) == target


def test_an_empty_range_is_refused_unless_a_file_has_that_name(tmp_path: Path) -> None:
    for text in ("a.py:0", "a.py:9-3", "a.py:0-4"):
        with pytest.raises(UsageError, match="line numbers start at 1"):
            parse_target(text, tmp_path)
        (tmp_path / text).write_text("x")
        assert parse_target(text, tmp_path) == Target(text)


@pytest.mark.parametrize(
    ("arguments", "elsewhere", "files", "instruction"),
    [
        (["a.py", "fix it"], False, ["a.py"], "fix it"),
        (["a.py", "b.py"], False, ["a.py", "b.py"], None),
        (["a.py", "b.py:1"], False, ["a.py", "b.py:1"], None),
        (["a.py", "-"], False, ["a.py"], "-"),
        (["a.py", "new.py"], True, ["a.py", "new.py"], None),
        (["a.py", "rewrite " * 2000], False, ["a.py"], "rewrite " * 2000),
    ],
)
def test_the_last_argument_is_the_instruction_unless_it_is_a_file(
    tmp_path: Path, arguments: list[str], elsewhere: bool, files: list[str], instruction: str | None
) -> None:
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("x")
    assert split_arguments(arguments, instruction_elsewhere=elsewhere, cwd=tmp_path) == (files, instruction)


BOUND = Draft({"a": Source("a", Content(b"1"), "x"), "n": Source("n", None, "")})


Step = tuple[str | None, str | None, bytes | None, bytes | None]  # the paths and the texts before and after


def change(old: str | None, new: str | None, before: bytes | None, after: bytes | None) -> FileChange:
    return FileChange(old, new, None, None).with_data(before, after)


@pytest.mark.parametrize(
    ("first", "second", "folded", "texts"),
    [
        # two edits of one file are one change; an edit and its reversal are none
        (("a", "a", b"1", b"2"), ("a", "a", b"2", b"3"), [("a", "a", b"1", b"3")], {"a": b"3"}),
        (("a", "a", b"1", b"2"), ("a", "a", b"2", b"1"), [], {"a": b"1"}),
        # a rename, then an edit, is a rename with an edit
        (("a", "b", b"1", b"1"), ("b", "b", b"1", b"2"), [("a", "b", b"1", b"2")], {"b": b"2"}),
        # a new file that is deleted is no change; a deleted file that is created again is a change
        ((None, "n", None, b"x"), ("n", None, b"x", None), [], {"a": b"1"}),
        (("a", None, b"1", None), (None, "a", None, b"2"), [("a", "a", b"1", b"2")], {"a": b"2"}),
    ],
)
def test_changes_are_merged(first: Step, second: Step, folded: list[Step], texts: dict[str, bytes]) -> None:
    draft = BOUND.with_changes([change(*first)]).with_changes([change(*second)])
    assert draft.edits == tuple(change(*values) for values in folded)
    assert {path: text.data for path, text in draft.texts().items()} == texts


@pytest.mark.parametrize("how", ["removed", "sparse cone", "sparse patterns", "skip-worktree"])
def test_the_advice_helps(repo: GitRepo, how: str) -> None:
    path = "lib/two words.txt"
    repo.commit("folders", **{path: "x\n"})
    if how.startswith("sparse"):
        repo.git(
            "sparse-checkout", "set", *(("--cone", "src") if how == "sparse cone" else ("--no-cone", "/src/"))
        )
    else:
        (repo.top / path).unlink()
    if how == "skip-worktree":
        repo.git("update-index", "--skip-worktree", path)
    worktree = open_worktree(repo.top)
    request = EditRequest("x", (Target(path),))
    with pytest.raises(Refused) as caught:
        refuse_untracked(worktree, request, {path: read_source(worktree, path)})
    assert ("excluded by the sparse checkout" in str(caught.value)) == (how != "removed")
    (advised,) = re.findall(r"`git (restore .*?)`", str(caught.value))
    repo.git(*shlex.split(advised))
    assert repo.read(path) == b"x\n"
    refuse_untracked(worktree, request, {path: read_source(worktree, path)})
