"""`repoagent uses`, as a user runs it, on real repositories."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from repoagent.git.worktree import open_worktree
from repoagent.uses.report import answer_text, answer_uses
from tests.conftest import GitRepo
from tests.program import run

UTILS = """\
LIMIT = 3

def load(path):
    return path

class Store:
    def load(self):
        return load(self)
    def save(self, load=None):
        return load
"""
APP = """\
from utils import load
import utils, json

def main():
    load("load")  # load
    utils.load(1)
    json.load(2)
    return Store().load()
"""


@pytest.fixture
def code(repo: GitRepo) -> GitRepo:
    repo.write("utils.py", UTILS)
    repo.write("app.py", APP)
    repo.write("other.py", "def load():\n    pass\n\nload()\n")
    repo.write("local.py", "def f(load):\n    return load\n")
    repo.write("tests/test_utils.py", "from utils import load\n\ndef test_load():\n    assert load(1)\n")
    repo.write("docs.md", "Call `load` to load.\n")
    repo.commit("code")
    return repo


def uses(cwd: Path, *arguments: str) -> tuple[int, str, str]:
    done = run(["uses", *arguments], cwd)
    return done.returncode, os.fsdecode(done.stdout), os.fsdecode(done.stderr)


def data(cwd: Path, *arguments: str) -> Any:
    return json.loads(uses(cwd, "--json", *arguments)[1])


def rows(found: Any) -> dict[str, list[int]]:
    return {row["path"]: row["lines"] for row in found["symbols"][0]["files"]}


def test_a_function_a_method_and_a_name_that_several_files_define(code: GitRepo) -> None:
    found = data(code.top, "utils.py:load")
    test = {"tests/test_utils.py": [1, 4]}
    assert rows(found) == {"utils.py": [8], "app.py": [1, 5, 6], **test, "docs.md": [1]}
    (symbol,) = found["symbols"]
    (defined,) = symbol["definitions"]
    assert (defined["name"], defined["kind"], defined["first_line"]) == ("load", "function", 3)
    assert [one["path"] for one in symbol["elsewhere"]] == ["other.py"]
    marks = {row["path"]: (row["test"], row["text"], row["within"]) for row in symbol["files"]}
    assert marks["tests/test_utils.py"] == (True, False, ["test_load"])
    assert marks["docs.md"] == (False, True, [])
    assert rows(data(code.top, "Store.load")) == {"app.py": [6, 7, 8], "docs.md": [1]}
    found = data(code.top, "load")
    assert {one["path"] for one in found["symbols"][0]["definitions"]} == {"utils.py", "other.py"}
    assert rows(found)["other.py"] == [4]
    assert "local.py" not in rows(found)


def test_all_that_a_file_defines(code: GitRepo) -> None:
    code.write("more.py", "from utils import Store\n\nStore().save()\nStore()\n")
    found = data(code.top / "tests", "../utils.py")
    assert found["file"] == "utils.py"
    assert {one["symbol"] for one in found["symbols"]} == {"load", "Store.load", "Store", "Store.save"}
    assert found["unused"] == []
    files = {row["path"] for one in found["symbols"] for row in one["files"]}
    assert files == {"app.py", "more.py", "tests/test_utils.py"}
    assert data(code.top, "utils.py", "-n", "1")["more"] == 3


def test_untracked_ignored_and_withheld_files(code: GitRepo) -> None:
    use = "from utils import load\nload()\n"
    for path in ("new.py", "build/out.py", "secret/key.py", ".env"):
        code.write(path, use)
    code.write(".gitignore", "build/\n")
    code.write(".repoagentignore", "secret/\n")
    found = data(code.top, "utils.py:load")
    assert {"new.py", "build/out.py", "secret/key.py", ".env"} & set(rows(found)) == {"new.py"}
    assert found["left_out"] == ["2 files excluded by .repoagentignore or because the name suggests secrets"]
    status, out, err = uses(code.top, "secret/key.py:load")
    assert status == 3 and ".repoagentignore" in err and "line" not in out


@pytest.mark.parametrize(
    ("arguments", "expected", "sentence"),
    [
        (["nowhere"], 1, "no symbol named nowhere"),
        (["a b"], 2, "'a b' is not a symbol; use NAME, Class.method or FILE:NAME"),
        (["src/none.py"], 2, "no such file: src/none.py"),
        (["src"], 2, "src is a folder; name a file or a symbol"),
        (["utils.py:lod"], 2, "utils.py has no symbol 'lod'; nearest: load"),
        (["load", "-n", "0"], 2, "'--limit': 0 is not in the range x>=1"),
        (["docs.md"], 2, "repoagent found no definitions in docs.md; name a symbol instead"),
        (["../x:load"], 2, "../x:load is outside the work tree"),
    ],
)
def test_not_found_is_one_sentence(code: GitRepo, arguments: list[str], expected: int, sentence: str) -> None:
    status, out, err = uses(code.top, *arguments)
    assert (status, out) == (expected, "") and sentence in err


def test_the_table_says_how_it_was_found(code: GitRepo) -> None:
    _, out, _ = uses(code.top, "utils.py:load")
    lines = out.splitlines()
    assert lines[0].startswith("load is defined in utils.py:3-4 (function load)")
    assert lines[1] == "also defined in other.py:1-2 (function load)"
    assert lines[3].split() == ["file", "lines", "where", "in", "mark"]
    assert lines[4].split() == ["utils.py", "1", "8", "Store.load"]
    assert ["tests/test_utils.py", "2", "1,", "4", "test_load", "test"] in [line.split() for line in lines]
    assert "Uses are matched by name" in out and "text: matched as a whole word" in out


def test_the_answer_for_a_model(code: GitRepo) -> None:
    def text(target: str, limit: int) -> str:
        return answer_text(answer_uses(open_worktree(code.top), target, lambda path: None, limit=limit))

    caveat = "Uses are matched by name; some may refer to another symbol of the same name.\n"
    assert text("utils.py", 1) == (
        "load (function, 3-4): 5 lines in 2 files: tests/test_utils.py (2), app.py (3); 1 other definition\n"
        f"(2 more symbols)\nnot used in other files: Store.save\n{caveat}"
    )
    assert text("utils.py:load", 1) == (
        "load is defined in utils.py:3-4 (function load)\nalso defined in other.py:1-2 (function load)\n"
        f"utils.py: 1 line: 8, in Store.load\n(3 more files)\n{caveat}"
    )
    assert text("nowhere", 1) == ""


def test_what_changes_together_comes_first(repo: GitRepo) -> None:
    repo.write("lib.py", "def shared():\n    pass\n")
    for name in ("a", "b", "z"):
        repo.write(f"{name}.py", "from lib import shared\n" + "shared()\n" * (1 + (name == "a")))
    repo.commit("all")
    for number in range(3):
        repo.write("lib.py", f"def shared():\n    return {number}\n")
        repo.write("z.py", f"from lib import shared\nshared()\nn = {number}\n")
        repo.commit(f"both {number}")
    assert next(iter(rows(data(repo.top, "shared")))) == "z.py"


def test_go_tells_packages_apart(repo: GitRepo) -> None:
    repo.write("config/load.go", "package config\n\nfunc Load() {}\n")
    repo.write("config/use.go", "package config\n\nfunc f() { Load() }\n")
    repo.write("main.go", 'package main\n\nimport "x/config"\n\nfunc main() { config.Load(); Load() }\n')
    repo.write("other.go", 'package main\n\nimport "x/other"\n\nfunc Load() { other.Load() }\n')
    repo.commit("go")
    assert rows(data(repo.top, "config/load.go:Load")) == {"config/use.go": [3], "main.go": [5]}


def test_a_hostile_repository(repo: GitRepo) -> None:
    repo.write("lib.py", "def load():\n    pass\n")
    for name in ("new\nline.py", "esc\x1b[31m.py", "-dash.py", ":colon.py"):
        repo.write(name, "from lib import load\nload()\n")
    repo.write("b\udcffd.py", b"# \xff\nfrom lib import load\nload()\n")
    repo.write("long.py", "load;" * 20_000)
    repo.write("huge.py", "load()\n" * 200_000)
    repo.write("deep.js", "[" * 30_000 + "load" + "]" * 30_000)
    repo.write("bin.py", b"load()\0")
    (repo.top / "link.py").symlink_to("/etc/passwd")
    repo.commit("hostile")
    found = data(repo.top, "load")
    seen = rows(found)
    assert {"new\nline.py", "esc\x1b[31m.py", "-dash.py", ":colon.py", "b\udcffd.py", "long.py"} <= set(seen)
    assert seen["b\udcffd.py"] == [2, 3] and seen["long.py"] == [1]
    assert "huge.py" not in seen and "bin.py" not in seen
    assert any("1 MiB" in sentence for sentence in found["left_out"])
    table = uses(repo.top, "load")[1]
    assert "\x1b" not in table and "new^Jline.py" in table
