"""The parse check of patches and edits: what it refuses, its note, and how to disable it."""

from __future__ import annotations

from tests.cli.apply_patch import apply, diff
from tests.conftest import GitRepo
from tests.edit.conftest import Run, Script

C = "int f(int x)\n{\n\treturn x;\n}\n"
MACRO = diff(
    "f.c", "@@ -1,4 +1,6 @@", " int f(int x)", " {", "+\tlist_for_each(p, l) {", "+\t}", " \treturn x;", " }"
)
BROKEN = diff("f.c", "@@ -1,4 +1,5 @@", " int f(int x)", " {", "+\tif (x) {", " \treturn x;", " }")


def test_a_change_after_which_a_file_parses_worse(repo: GitRepo, edit: Run, script: Script) -> None:
    head = repo.commit("f", **{"f.c": C})
    done = apply(repo.top, BROKEN, "--yes")
    assert done.code == 3 and "would no longer parse as c" in done.err and "--no-parse-check" in done.err
    assert repo.head() == head
    done = apply(repo.top, MACRO, "--yes")
    assert done.code == 0 and "f.c may not parse as c, unless a macro makes it valid" in done.err
    repo.git("reset", "-q", "--hard", head)
    assert apply(repo.top, BROKEN, "--yes", "--no-parse-check").code == 0
    assert b"if (x) {" in repo.read("f.c")
    repo.git("reset", "-q", "--hard", head)
    script.replies(f"```diff\n{BROKEN}```\n")
    edit("--no-parse-check", file="f.c", request="nest it")
    assert b"if (x) {" in repo.read("f.c")
    repo.git("reset", "-q", "--hard", head)
    repo.git("config", "repoagent.edit.parseCheck", "false")
    assert apply(repo.top, BROKEN, "--yes", "--json").json["commit"] == repo.head()
