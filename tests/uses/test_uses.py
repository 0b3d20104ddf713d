"""`repoagent uses`, as a user runs it, and the uses of the symbols of a request, in the prompts of edits and runs."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest

from repoagent.git.worktree import open_worktree
from repoagent.llm.model import Request
from repoagent.llm.usage import estimate_tokens
from repoagent.uses.report import answer_text, answer_uses
from repoagent.uses.request_symbols import named_symbols, start_search, uses_block
from tests import program
from tests.conftest import GitRepo
from tests.edit.conftest import GREET, Run, Script, run, script
from tests.tasks.bare import go

__all__ = ["run", "script"]

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
    done = program.run(["uses", *arguments], cwd)
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


CODE = """\
from typing import Any

class Option:
    show_default: bool
    def run(self, max_size=1):
        count = 2
        return self.show_default, count

    def get_prefix_chars(self):
        raise ValueError(self.prefix_chars)

def parse(text):
    return other_thing(text)
"""
OTHER = """\
class _Validator:
    def __init__(self, prefix_chars):
        self.prefix_chars = prefix_chars

def test():
    raise ValueError
"""


def named(repo: GitRepo, instruction: str, *targets: tuple[str, str]) -> list[str]:
    """The symbols of a request that edits `a.py`."""
    worktree = open_worktree(repo.top)
    files = {"a.py": repo.read("a.py")}
    return [one.symbol for one in named_symbols(worktree, instruction, files, targets, lambda path: None)]


def test_which_words_of_a_request_are_symbols(repo: GitRepo) -> None:
    repo.write("a.py", CODE)
    repo.write("b.py", OTHER)
    for instruction, expected in (
        ("make show_default accept a callable", ["show_default"]),
        ("rename `parse`", ["parse"]),
        ("parse() must not fail", ["parse"]),
        ("let parse and test and run fail", ["parse"]),  # a function at the top of the edited file
        ("let Option.run take a name", ["run"]),
        ("Option has a new field", ["Option"]),
        ("use _Validator", ["_Validator"]),  # of another file
        ("keep the order of prefix_chars", ["prefix_chars"]),
        ("other_thing() raises ValueError, not_here too", []),  # only used
        ("set max_size and `count` to 3", []),  # of one function alone
        ("see src/show_default.py and parse.py", []),  # paths
        ("decode " + "a" * 20_000, []),  # a quoted file in base64
    ):
        began = time.process_time()
        assert named(repo, instruction) == expected, instruction
        assert time.process_time() - began < 2  # linear in the length


def test_what_was_pointed_at_comes_first_then_what_is_rare(repo: GitRepo) -> None:
    repo.write("a.py", CODE + "def make_it(): pass\ndef make_one(): pass\ndef make_all(): pass\n")
    repo.write("b.py", OTHER)
    for number in range(30):
        repo.write(f"c{number}.py", "make_all(); Option()\n" + "make_it()\n" * (number < 9))
    repo.write("d.py", "make_one()\n")
    request = "make_all() and make_it() like make_one() of a _Validator"
    assert named(repo, request) == ["make_one", "make_it", "make_all", "_Validator"]
    assert named(repo, request, ("a.py", "Option")) == ["Option", "make_one", "make_it", "make_all"]
    assert named(repo, "change make_all") == ["make_all"]


def test_an_attribute_is_used_by_keys_and_tests_are_those_of_a_symbol(repo: GitRepo) -> None:
    repo.write("a.py", CODE)
    repo.write("b.py", OTHER)
    repo.write("tests/test_b.py", 'def test_it():\n    call(settings={"prefix_chars": "+"})\n')
    repo.write("tests/test_a.py", "def test_name():\n    parse(1)\n\ndef test_other():\n    'prefix_chars'\n")
    files = {"a.py": repo.read("a.py")}
    request = "let parse() keep prefix_chars"
    assert uses_block(open_worktree(repo.top), request, files, [], lambda path: None) == (
        "`prefix_chars`, defined in b.py:3, elsewhere: b.py (2 lines: 2, 3)\n"
        "Tests of `parse`: tests/test_a.py: test_name\n"
        "Tests of `prefix_chars`: tests/test_b.py: test_it\n"
    )


@pytest.fixture
def greeting(repo: GitRepo) -> GitRepo:
    for path, body in (
        ("lib/cli.py", "\ngreet('a')\n"),
        ("lib/many.py", "greet('b')\n" * 5),
        ("tests/test_app.py", "\ndef test_greet():\n    assert greet('c')\n"),
        ("secret/key.py", "greet('d')\n"),
    ):
        repo.write(path, "from src.app import greet\n" + body)
    repo.write("notes.md", "greet\n")
    repo.write(".repoagentignore", "secret/\n")
    repo.commit("code")
    return repo


def test_the_lines_are_few_and_the_same_each_time(greeting: GitRepo) -> None:
    worktree = open_worktree(greeting.top)
    files = {"src/app.py": greeting.read("src/app.py")}

    def block(instruction: str) -> str:
        return uses_block(worktree, instruction, files, [], lambda path: "no" if "secret" in path else None)

    assert block("greet() with a comma") == (
        "`greet` elsewhere: lib/many.py (6 lines: 1, 2, 3, ...), lib/cli.py (2 lines: 1, 3)\n"
        "Tests of `greet`: tests/test_app.py: test_greet\n"
    )
    assert block("greet() with a comma") == block("greet() with a comma")
    for name in "cdef":
        greeting.write(f"lib/{name}.py", "from src.app import greet\n")
    assert "lib/e.py (line 1), 1 more\n" in block("greet() with a comma")
    assert block("make it nicer") == ""
    names = " ".join(f"`name_{number}`" for number in range(50))
    greeting.write("src/app.py", "".join(f"def name_{number}(): pass\n" for number in range(50)))
    files["src/app.py"] = greeting.read("src/app.py")
    for number in range(40):
        greeting.write(f"{'long' * 20}/{number}.py", "".join(f"name_{n}()\n" for n in range(50)))
    text = block(names)
    assert 1 <= text.count("\n") <= 8 and len(text) <= 4 * 320 + 200


def test_a_model_finds_the_other_files_by_the_prompt(greeting: GitRepo, run: Run, script: Script) -> None:
    """It reads the file that the prompt names first, so without the lines it would read nothing."""
    script.replies("", '<uses symbol="greet"/>', GREET)
    read = r"""sed -n 's|^`greet` elsewhere: \([^ ]*\) .*|<read path="\1"/>|p'"""
    script.act(0, f"{read} {script.folder}/prompt-00 > {script.folder}/reply-00")
    run("edit", "src/app.py::greet", "say it with a comma", "--yes", code=0)
    first, second, third = script.prompts
    assert "tests/test_app.py: test_greet" in first and "secret/key.py" not in first
    assert first.index("<file path=") < first.index("`greet` elsewhere") < first.index("say it with a comma")
    assert "greet('b')" in second
    assert "lib/cli.py: 2 lines: 1, 3" in third and "tests/test_app.py (test)" in third
    assert "secret/key.py" not in third


def test_a_withheld_file_tells_nothing(greeting: GitRepo, run: Run, script: Script) -> None:
    greeting.write("secret/other.py", "def hidden_name():\n    pass\n")
    other = "secret/other.py"
    tries = (f'path="{other}"', f'symbol="{other}:nothing"', f'path="./{other}" symbol="hidden"')
    script.replies(*(f"<uses {one}/>" for one in tries), GREET)
    run("edit", "src/app.py", "say it with a comma", "--yes", code=0)
    assert all("hidden_name" not in prompt for prompt in script.prompts)
    assert script.prompts[-1].count("is listed in .repoagentignore") == len(tries)


# At the start of a run.


def notice(repo: GitRepo, text: str) -> str:
    return start_search(open_worktree(repo.top), text, lambda path: "no" if "secret" in path else None)()


def test_it_is_short_and_withheld_files_are_left_out(repo: GitRepo) -> None:
    for number in range(15):
        repo.write(f"secret/{number}.py", "def long_name_0(): pass\nclass HiddenOne: pass\n")
        repo.write(f"tests/test_{'long' * 10}_{number}.py", "def test(): long_name_0(long_name_1)\n" * 9)
    repo.write("src/a.py", "".join(f"def long_name_{n}({'x, ' * 99}): pass\n" for n in range(20)))
    repo.commit("code")
    text = notice(repo, "HiddenOne " + " ".join(f"long_name_{n}" for n in range(20)))
    assert "secret" not in text and "HiddenOne" not in text
    assert "`long_name_2`, defined in src/a.py:3" in text
    assert estimate_tokens(text) <= 500
    assert notice(repo, "make it nicer") == ""


def names(request: Request) -> list[str]:
    texts = "".join(message.text for message in request.messages)
    return re.findall(r"^`(.+?)`, defined in (\S+):\d+", texts, re.MULTILINE)


def read(request: Request) -> str:
    """Reads the file that the notice names for the last name."""
    return f'<read path="{names(request)[-1][1]}"/>' if names(request) else "I don't know where it is."


def test_a_run_begins_with_where_the_names_of_its_prompt_are(repo: GitRepo) -> None:
    repo.write("lib/deep/there.py", "def find_it(a):\n    return 'here it is'\n")
    repo.write("lib/other.py", "class OtherOne:\n    'other'\n")
    repo.commit("code")
    _, model, user = go(repo, read, "<finish>done</finish>", prompt="What does find_it give?")
    assert "here it is" in user.observations[0].text
    _, model, user = go(repo, read, "<finish>done</finish>", prompt="And OtherOne, and find_it?")
    assert "'other'" in user.observations[0].text
    assert [name for name, _ in names(model.seen[-1])] == ["find_it", "OtherOne"]
    _, model, _ = go(repo, "words", prompt="look around", name="run-20260101-000001-abcdef")
    assert "Names in the request" not in model.last_prompt
