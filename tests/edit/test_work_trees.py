"""Edits in linked work trees and folders, with a detached or unborn HEAD, new branches, and names of every kind."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import GitRepo
from tests.edit.conftest import GREET, Run, Script, diff

pytestmark = pytest.mark.soak


def test_in_a_folder_of_a_linked_work_tree(
    repo: GitRepo, edit: Run, run: Run, script: Script, tmp_path: Path
) -> None:
    repo.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "linked"))
    linked, head = GitRepo(tmp_path / "linked"), repo.head()
    script.replies(GREET)
    done = edit(file="app.py", more=["../README.md"], cwd=linked.top / "src")
    assert done.out.startswith("[side ")
    assert linked.git("show", "--format=", "--name-only").split() == ["src/app.py"]
    assert (linked.status(), repo.status(), repo.head()) == ("", "", head)
    assert (repo.top / ".repoagent").is_dir() and not (linked.top / ".repoagent").exists()
    run("undo", cwd=linked.top, code=0)
    assert linked.head() == head


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


def test_a_new_branch_then_a_fixup(repo: GitRepo, run: Run, script: Script, tmp_path: Path) -> None:
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
        "a\\b",
    ]

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
    assert set(repo.git("show", "--format=", "--name-only", "-z").split("\0")) - {""} == set(names)
    (prompt,) = script.prompts
    assert 'File "new\\nline.txt" (file to edit; 1 line):' in prompt
    assert run("undo").code == 0
    assert repo.read("new\nline.txt") == b"old 4\n"
