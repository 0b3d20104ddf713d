"""Errors before a model is paid: one sentence, with the right exit code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.apply_patch import Ask
from tests.conftest import GitRepo
from tests.edit.conftest import GREET, Run, Script, diff, files_of_head

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
