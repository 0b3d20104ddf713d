"""The user's hooks, signature, other work, work trees, branches, and names of every kind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import GitRepo
from tests.edit.conftest import GREET, Run, Script, diff, files_of_head

PRE_COMMIT = """\
repos:
- repo: local
  hooks:
  - {id: polite, name: polite, language: system, entry: "sed -i s/hello,/Hello,/", types: [text]}
"""


def test_a_formatter_and_other_work_around(repo: GitRepo, edit: Run, script: Script, tmp_path: Path) -> None:
    env = {"PRE_COMMIT_HOME": str(tmp_path / "pre-commit")}
    repo.commit("hooks", **{".pre-commit-config.yaml": PRE_COMMIT})
    install = [Path(sys.executable).parent / "pre-commit", "install"]
    subprocess.run(install, cwd=repo.top, env={**os.environ, **env}, check=True, capture_output=True)
    repo.write("README.md", "staged hello,\n")
    repo.git("add", "README.md")
    repo.write("README.md", "staged hello,\nand unstaged hello,\n")
    repo.write("src/app.py", repo.read("src/app.py") + b"\n# mine: hello,\n")
    repo.write("a.txt", repo.read("a.txt") + b"unstaged hello,\n")
    repo.write("new.txt", "untracked hello,\n")
    before = {name: repo.read(name) for name in ("README.md", "a.txt")}, repo.status()
    script.replies(GREET)
    done = edit(env=env)
    assert "src/app.py changed while hooks ran; the new version was committed" in done.err
    committed = repo.git("show", "HEAD:src/app.py")
    assert "    return f'Hello, {name}'\n" in committed and "mine" not in committed
    assert files_of_head(repo) == ["src/app.py"]
    assert ({name: repo.read(name) for name in ("README.md", "a.txt")}, repo.status()) == before
    assert repo.git("diff", "--cached", "--name-only").split() == ["README.md"]
    assert repo.read("src/app.py").endswith(b"\n# mine: hello,\n") and b"Hello" in repo.read("src/app.py")
    assert len(script.prompts) == 1


def test_a_failed_signature_does_not_go_to_the_model(repo: GitRepo, edit: Run, script: Script) -> None:
    repo.git("config", "gpg.format", "ssh")
    repo.git("config", "user.signingKey", "/nowhere/key")
    script.replies(GREET)
    head = repo.head()
    assert "nowhere" in edit("-S", code=6).err
    assert (repo.head(), repo.status(), len(script.prompts)) == (head, "", 1)
    edit()
    assert len(script.prompts) == 1  # the answer was saved


def test_a_hook_that_always_fails_ends_the_run(repo: GitRepo, edit: Run, script: Script) -> None:
    repo.hook("commit-msg", "echo the subject has no ticket >&2\nexit 1\n")
    script.replies(*[f"<commit>Subject {n}</commit>\n" + GREET for n in range(9)])
    head = repo.head()
    assert "no ticket" in edit(code=6).err and "no ticket" in script.prompts[1]
    assert len(script.prompts) == 4  # the first, and three more
    assert (repo.head(), repo.status()) == (head, "")


def test_a_change_that_no_longer_fits_is_saved(repo: GitRepo, edit: Run, script: Script) -> None:
    for act in ("sed -i s/hello/bye/ src/app.py", "rm src/app.py"):
        repo.git("checkout", "-q", "--", "src/app.py")
        script.replies(GREET)
        script.act(0, act)
        head = repo.head()
        done = edit(code=3)
        assert "src/app.py changed, and the edit no longer applies" in done.err
        patch = Path(done.err.strip().rpartition("saved in ")[2])
        repo.git("apply", "--check", "--cached", str(patch))
        assert repo.head() == head and not (repo.top / ".git/index.lock").exists()


@pytest.mark.soak
def test_in_a_folder_of_a_linked_work_tree(repo: GitRepo, edit: Run, run: Run, script: Script) -> None:
    repo.git("worktree", "add", "-q", "-b", "side", "../linked")
    linked, head = GitRepo(repo.top.parent / "linked"), repo.head()
    script.replies(GREET)
    done = edit(file="app.py", more=["../README.md"], cwd=linked.top / "src")
    assert done.out.startswith("[side ")
    assert linked.git("show", "--format=", "--name-only").split() == ["src/app.py"]
    assert (linked.status(), repo.status(), repo.head()) == ("", "", head)
    assert (repo.top / ".repoagent").is_dir() and not (linked.top / ".repoagent").exists()
    run("undo", cwd=linked.top, code=0)
    assert linked.head() == head


@pytest.mark.soak
def test_detached_unborn(
    repo: GitRepo, make_repo: Callable[[str], GitRepo], edit: Run, run: Run, script: Script
) -> None:
    repo.git("checkout", "-q", "--detach")
    script.replies(GREET)
    done = edit()
    assert done.out.startswith("[detached HEAD ") and "HEAD is detached" in done.err
    unborn = make_repo("unborn")
    script.replies("```diff\n--- /dev/null\n+++ b/docs/new.md\n@@\n+# New\n```\n")
    run("edit", "docs/new.md", "write it", "--create", "--yes", cwd=unborn.top, code=0)
    assert unborn.git("log", "--format=%P|%s").strip() == "|Write it"
    assert unborn.status() == ""
    assert run("undo", cwd=unborn.top).code == 0
    assert not (unborn.top / "docs").exists()


@pytest.mark.soak
def test_a_new_branch_then_a_fixup(repo: GitRepo, run: Run, script: Script) -> None:
    script.replies("<commit>Greet</commit>\n" + GREET)
    head = repo.head()
    write = "f() { sed -i '1s/.*/In my words/' \"$1\"; }; f"
    options = ("--yes", "--branch", "topic", "-s", "-e")
    run("edit", "src/app.py", "greet with a comma", *options, env={"GIT_EDITOR": write}, code=0)
    message = repo.git("log", "-1", "--format=%B")
    assert message.startswith("In my words\n\n")
    assert "Signed-off-by: Ada Tester" in message and "Repoagent-Edit: " in message
    assert repo.git("symbolic-ref", "--short", "HEAD").strip() == "topic"
    assert repo.git("rev-parse", "main").strip() == head
    script.replies(diff("src/app.py", "-    return f'hello, {name}'", "+    return f'Hello, {name}'"))
    assert run("edit", "src/app.py", "capital", "--yes", "--fixup", "HEAD").code == 0
    assert repo.git("log", "-1", "--format=%s").strip() == "fixup! In my words"
    assert "Repoagent-Edit: " in repo.git("log", "-1", "--format=%B")


@pytest.mark.soak
def test_names_of_every_kind(repo: GitRepo, run: Run, script: Script) -> None:
    names = [
        "a b.txt",
        'q"uote.txt',
        "é漢.txt",
        "-dash.txt",
        "new\nline.txt",
        "odd:10",
        "tab\there",
        "[a]*.txt",
    ]
    names.append("a\\b")

    def head(side: str, name: str) -> str:
        path = f"{side}/{name}"
        return json.dumps(path, ensure_ascii=False) if set(name) & set('\n\t"\\') else path

    hunks = []
    for number, name in enumerate(names):
        repo.write(name, f"old {number}\n")
        hunks.append(f"--- {head('a', name)}\n+++ {head('b', name)}\n@@\n-old {number}\n+new {number}\n")
    repo.commit("odd names")
    script.replies("```diff\n" + "".join(hunks) + "```\n")
    run("edit", "--yes", "--json", "--", *names, "renew them", code=0)
    assert [repo.read(name) for name in names] == [f"new {number}\n".encode() for number in range(len(names))]
    assert repo.status() == ""
    assert {*repo.git("show", "--format=", "--name-only", "-z").split("\0")} == {*names, ""}
    (prompt,) = script.prompts
    assert 'File "new\\nline.txt" (file to edit; 1 line):' in prompt
    assert run("undo").code == 0
    assert repo.read("new\nline.txt") == b"old 4\n"
