"""The parse check in each command that has it: what it refuses, its note, and how to disable it."""

from __future__ import annotations

import json

import pytest

from tests.cli.applying import apply
from tests.conftest import GitRepo
from tests.edit.conftest import Run, Script, diff

C = "int f(int x)\n{\n\treturn x;\n}\n"
MACRO = diff(
    "f.c", "@@ -1,4 +1,6 @@", " int f(int x)", " {", "+\tlist_for_each(p, l) {", "+\t}", " \treturn x;", " }"
)
BROKEN = diff("f.c", "@@ -1,4 +1,5 @@", " int f(int x)", " {", "+\tif (x) {", " \treturn x;", " }")


@pytest.fixture(autouse=True)
def _c_file(repo: GitRepo) -> None:
    repo.write("f.c", C)
    repo.commit("f")


def test_apply(repo: GitRepo) -> None:
    head = repo.head()
    done = apply(repo.top, BROKEN, "--yes")
    assert done.code == 3
    assert "would no longer parse as c" in done.err
    assert "--no-parse-check" in done.err
    assert repo.head() == head
    done = apply(repo.top, MACRO, "--yes")
    assert done.code == 0, done.err
    assert "f.c may not parse as c, unless a macro explains it" in done.err
    repo.git("reset", "-q", "--hard", "HEAD~")
    done = apply(repo.top, BROKEN, "--yes", "--no-parse-check")
    assert done.code == 0, done.err
    assert b"if (x) {" in repo.read("f.c")


def test_edit(repo: GitRepo, run: Run, script: Script) -> None:
    answer = f"```diff\n{BROKEN}```\n"
    script.replies(*[answer] * 10)
    done = run("edit", "f.c", "nest it", "--yes")
    assert done.code != 0
    assert "--no-parse-check" in done.err
    script.replies(answer)
    done = run("edit", "f.c", "nest it", "--yes", "--no-parse-check", code=0)
    assert b"if (x) {" in repo.read("f.c"), done


def test_run(repo: GitRepo, run: Run, script: Script) -> None:
    answer = f"```diff\n{BROKEN}```\n"
    script.replies(answer, "<commit>\nNest it\n</commit>\n<finish>nested</finish>")
    run("run", "nest it", "--mode", "auto-edit", "--no-parse-check", code=0)
    assert b"if (x) {" in repo.read("f.c")


def test_the_configuration_disables_the_check(repo: GitRepo) -> None:
    repo.git("config", "repoagent.edit.parseCheck", "false")
    done = apply(repo.top, BROKEN, "--yes", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["commit"] == repo.head()
