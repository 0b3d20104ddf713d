"""The request of an edit: its arguments, its draft, files that cannot be committed alone, and errors before a model is
paid, each in one sentence with the right exit code."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from repoagent.edit.checks import refuse_untracked
from repoagent.edit.draft import Draft
from repoagent.edit.request import EditRequest, Target, parse_target, split_arguments
from repoagent.errors import Refused, UsageError
from repoagent.git.files import Content, FileChange, Source, read_source
from repoagent.git.worktree import open_worktree
from tests.cli.apply_patch import Ask
from tests.conftest import GitRepo
from tests.edit.conftest import GREET, Run, Script, diff, files_of_head


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


BAD: list[tuple[int, str, tuple[str, ...]]] = [
    (2, "no file and no instruction", ()),
    (2, "no instruction for a.txt", ("a.txt",)),
    (2, "the instruction is empty", ("a.txt", "")),
    (2, "no such file: missing.py", ("a.txt", "missing.py")),
    (2, "use --create", ("missing.py", "write it")),
    (2, "use --create to create it", ("write it", "a.txt", "README.md")),
    (2, "outside the work tree", ("../outside.txt", "x")),
    (2, "no such file: gone.md", ("a.txt", "x", "--read", "gone.md")),
    (2, "has no line 99: its last line is", ("a.txt:99", "x")),
    (2, "no-such-file", ("a.txt", "-F", "no-such-file")),
    (2, "nothing", ("src/app.py::nothing", "x")),
    (2, "price", ("a.txt", "x", "--max-cost", "1")),
    (5, "", ("a.txt", "x", "--max-tokens", "10")),
    (2, "not UTF-8", ("a.txt", "-F", "latin")),
    (2, "there is no commit nothing", ("a.txt", "x", "--fixup", "nothing")),
    (2, "--dry-run and --no-commit", ("a.txt", "x", "--dry-run", "--no-commit")),
    (2, "--no-commit and --branch", ("a.txt", "x", "--no-commit", "--branch", "b")),
    (2, "--again and --message-file", ("--again", "-F", "a.txt")),
    (2, "--patch and --yes", ("a.txt", "x", "-p")),
    (3, "branch main already exists", ("a.txt", "x", "--branch", "main")),
    (3, "src is a folder", ("src", "x")),
    (3, "bin is binary", ("bin", "x")),
    (3, "link is a symbolic link: name the file itself, a.txt", ("link", "x")),
    (3, "submodule or repository sub", ("sub/x.txt", "x")),
    (3, "git directory", (".git/config", "x")),
    (3, "--include-dirty", ("untracked.txt", "x")),
    (3, "git restore removed.txt", ("removed.txt", "x", "--create")),
]


@pytest.fixture
def odd(repo: GitRepo, make_repo: Callable[[str], GitRepo]) -> GitRepo:
    """The sample with a binary file, a link, a submodule, an untracked and a removed file."""
    inner = make_repo("inner")
    inner.commit("inner", **{"x.txt": "x\n"})
    repo.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner.top), "sub")
    (repo.top / "link").symlink_to("a.txt")
    repo.commit("odd things", **{"bin": b"a\0b", "removed.txt": "x\n", "latin": b"caf\xe9\n"})
    (repo.top / "removed.txt").unlink()
    repo.write("untracked.txt", "x\n")
    (repo.top.parent / "outside.txt").write_text("x\n")
    return repo


def test_bad_input(odd: GitRepo, script: Script, in_process: Ask) -> None:
    before = odd.head(), odd.status()
    for code, words, arguments in BAD:
        done = in_process("edit", *arguments, "--yes", REPOAGENT_MODEL=script.spec)
        assert (done.code, done.out, done.err.count("\n")) == (code, "", 1), (arguments, done.err)
        assert done.err.startswith("repoagent: ") and words in done.err, arguments
    assert script.prompts == []
    assert (odd.head(), odd.status()) == before


def test_outside_a_repository(edit: Run, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x\n")
    assert "git init" in edit(file="a.txt", cwd=tmp_path, code=2).err


@pytest.mark.soak
def test_no_model_is_configured(edit: Run) -> None:
    done = edit(env={"REPOAGENT_MODEL": ""}, code=4)
    for way in ("export ANTHROPIC_API_KEY=", "command:", "manual", "git config --global repoagent.model"):
        assert way in done.err
    assert max(map(len, done.err.splitlines())) <= 80


def test_errors_of_the_commit_come_first(repo: GitRepo, edit: Run, script: Script) -> None:
    script.replies(GREET)
    nameless = {"GIT_CONFIG_GLOBAL": "/dev/null", "EMAIL": "", "GIT_COMMITTER_NAME": ""}
    assert "user.name" in edit(env=nameless, code=2).err
    (repo.top / ".git/index.lock").write_text("")
    assert "index.lock" in edit(code=7).err
    assert script.prompts == []
    edit("--no-commit")  # needs neither


def test_ignored_and_unseen_files_stay(repo: GitRepo, edit: Run, script: Script) -> None:
    repo.commit("ignore", **{".gitignore": "build/\n"})
    repo.write("local.txt", "mine\n")
    repo.write("build/in.txt", "mine\n")
    new = "```diff\n--- /dev/null\n+++ b/{}\n@@\n+x\n```\n"
    script.replies(GREET + new.format("build/out.txt"), GREET + new.format("local.txt"), GREET)
    edit("--scope", "repo")
    assert "build/out.txt" in script.prompts[1] and "local.txt" in script.prompts[2]
    repo.git("reset", "-q", "--hard", "HEAD^")
    own = diff("build/in.txt", "-mine", "+yours")
    script.replies('<read path="build/in.txt"/>\n', GREET + own, GREET)
    edit("--scope", "repo")
    assert "build/in.txt: this edit may not change this file" in script.prompts[2]
    assert repo.read("local.txt") == repo.read("build/in.txt") == b"mine\n"
    assert not (repo.top / "build/out.txt").exists() and files_of_head(repo) == ["src/app.py"]


def test_a_file_named_twice_counts_once(repo: GitRepo, edit: Run, script: Script) -> None:
    script.replies(GREET)
    done = edit("--json", more=["./src/../src/app.py", "src/app.py:1-2"])
    assert script.prompts[0].count("(file to edit;") == 1 and len(done.json["files"]) == 1
