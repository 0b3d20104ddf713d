"""Where the symbols of a request are used: in the prompts of edits and runs, and by the tool `uses`."""

from __future__ import annotations

import re
import time

import pytest

from repoagent.git.worktree import open_worktree
from repoagent.llm.model import Request
from repoagent.llm.usage import estimate_tokens
from repoagent.uses.request_symbols import named_symbols, start_search, uses_block
from tests.conftest import GitRepo
from tests.edit.conftest import GREET, Run, Script, run, script
from tests.tasks.bare import go

__all__ = ["run", "script"]

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
def code(repo: GitRepo) -> GitRepo:
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


def test_the_lines_are_few_and_the_same_each_time(code: GitRepo) -> None:
    worktree = open_worktree(code.top)
    files = {"src/app.py": code.read("src/app.py")}

    def block(instruction: str) -> str:
        return uses_block(worktree, instruction, files, [], lambda path: "no" if "secret" in path else None)

    assert block("greet() with a comma") == (
        "`greet` elsewhere: lib/many.py (6 lines: 1, 2, 3, ...), lib/cli.py (2 lines: 1, 3)\n"
        "Tests of `greet`: tests/test_app.py: test_greet\n"
    )
    assert block("greet() with a comma") == block("greet() with a comma")
    assert block("make it nicer") == ""
    names = " ".join(f"`name_{number}`" for number in range(50))
    code.write("src/app.py", "".join(f"def name_{number}(): pass\n" for number in range(50)))
    files["src/app.py"] = code.read("src/app.py")
    for number in range(40):
        code.write(f"{'long' * 20}/{number}.py", "".join(f"name_{n}()\n" for n in range(50)))
    text = block(names)
    assert 1 <= text.count("\n") <= 8 and len(text) <= 4 * 320 + 200


def test_a_model_finds_the_other_files_by_the_prompt(code: GitRepo, run: Run, script: Script) -> None:
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


def test_a_withheld_file_tells_nothing(code: GitRepo, run: Run, script: Script) -> None:
    code.write("secret/other.py", "def hidden_name():\n    pass\n")
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
