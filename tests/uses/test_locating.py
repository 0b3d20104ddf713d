"""Where the names of a prompt are defined, by text search: what a run is told before its first call."""

from __future__ import annotations

import re

import pytest

from repoagent.git.worktree import open_worktree
from repoagent.llm.model import Request
from repoagent.llm.usage import estimate_tokens
from repoagent.uses.request_symbols import locate
from tests.conftest import GitRepo
from tests.tasks.bare import go


def notice(repo: GitRepo, text: str) -> str:
    return locate(open_worktree(repo.top), text, lambda path: "no" if "secret" in path else None)()


@pytest.mark.parametrize(
    ("path", "line", "name"),
    [
        ("a.py", "class DateTime(Field):", "fields.DateTime"),
        ("fields.py", "class DateTime(Field):", "fields.DateTime"),
        ("a.py", "    async def load_it(self): return 1", "load_it"),
        ("a.py", "    show_default: bool", "show_default"),
        ("a.py", "        self.auth_name = auth_name", "auth_name"),
        ("a.py", "MAX_SIZE: int = 3", "MAX_SIZE"),
        ("a.go", "func (c *Context) bindWith(x int) {", "bindWith"),
        ("a.rs", "pub(crate) struct MyRow<T> {", "MyRow"),
        ("a.ts", "export const readAll = async () => 1", "readAll"),
        ("a.js", "  static makeIt(a) {", "makeIt"),
        ("a.c", "redisReader *reader_create(void) {", "reader_create"),
        ("a.h", "    int max_depth; /* deep */", "max_depth"),
        ("a.h", "#define MAX_DEPTH 3", "`MAX_DEPTH`"),
        ("A.java", "    public static List<A> findAll(int x) {", "findAll()"),
    ],
)
def test_a_definition_is_told_by_its_text(repo: GitRepo, path: str, line: str, name: str) -> None:
    bare = re.sub(r"[`()]|.*\.", "", name)
    repo.write(path, f"#\n{line}\n")
    repo.commit("code")
    expected = "" if (path, name) == ("a.py", "fields.DateTime") else f"`{bare}`: {path}:2 {line.strip()}"
    assert expected in notice(repo, f"change {name}") and bool(expected) == bool(
        notice(repo, f"change {name}")
    )


def test_no_other_line_and_no_other_word_counts(repo: GitRepo) -> None:
    uses = (
        "raise ValueError(1)", "    return my_name;", "x = my_name(1)", "    my_name: What it is called.",
        "    my_name=1,", "struct my_type *x;", "from a import my_type",
    )  # fmt: skip
    repo.write("a.py", "\n".join(uses))
    repo.write("a.c", "\n".join(uses))
    repo.write("b.md", "def my_name():\n")
    repo.write("c.py", "def parse(): pass\ndef main(): pass\n")
    repo.commit("code")
    request = "raises ValueError: my_name and my_type, see src/parse.py and c.py; parse what main gives"
    assert notice(repo, request) == ""
    assert notice(repo, "parse() what `main` gives").count("c.py:") == 2


def test_what_a_name_is_looked_up_in_and_tests_decide_between_files(repo: GitRepo) -> None:
    repo.write("a.py", "def poll(): pass\n")
    repo.write("b/Consumer.java", "class Consumer {\n    public int poll(int x) {\n")
    repo.write("b/b.pyi", "def poll(): ...\n")
    repo.write("a_test.py", "def poll(): pass\n")
    repo.commit("code")
    assert "`poll`: b/Consumer.java:2 public int poll(int x) {\n  tests: a_test.py (line 1)" in notice(
        repo, "Consumer.poll() is slow"
    )
    assert "`poll`: a.py:1 def poll(): pass (also b/b.pyi:1)\n" in notice(repo, "poll() is slow")


def test_it_is_short_and_withheld_files_are_left_out(repo: GitRepo) -> None:
    for number in range(15):
        repo.write(f"secret/{number}.py", "def long_name_0(): pass\nclass HiddenOne: pass\n")
        repo.write(f"tests/test_{'long' * 10}_{number}.py", "def test(): long_name_0(long_name_1)\n" * 9)
    repo.write("src/a.py", "".join(f"def long_name_{n}({'x, ' * 99}): pass\n" for n in range(20)))
    repo.commit("code")
    text = notice(repo, "HiddenOne " + " ".join(f"long_name_{n}" for n in range(20)))
    assert "secret" not in text and "HiddenOne" not in text
    assert "`long_name_0`: src/a.py:1 def" in text and text.count("\n") <= 8
    assert estimate_tokens(text) <= 250


def names(request: Request) -> list[str]:
    texts = "".join(message.text for message in request.messages)
    return re.findall(r"^`(.+?)`: (\S+):\d+ ", texts, re.MULTILINE)


def read(request: Request) -> str:
    """Reads the file that the notice names for the last name."""
    return f'<read path="{names(request)[-1][1]}"/>' if names(request) else "I don't know where it is."


def test_a_run_is_told_where_the_names_of_its_prompt_are(repo: GitRepo) -> None:
    key = "ghp_" + "x7Yk2Lm9Qp4Rt8Vw3Zn6" + "Bc1Df5Gh0Js2Kl7"
    repo.write(
        "lib/deep/there.py", f"def find_it(a, b, c, d, e, f, token='{key}'):\n    return 'here it is'\n"
    )
    repo.write("lib/other.py", "class OtherOne:\n    'other'\n")
    repo.commit("code")
    _, model, user = go(repo, read, "<finish>done</finish>", prompt="What does find_it give?")
    assert "here it is" in user.observations[0].text and key[:12] not in model.last_prompt
    _, model, user = go(repo, read, "<finish>done</finish>", prompt="And OtherOne, and find_it?")
    assert "'other'" in user.observations[0].text
    assert [name for name, _ in names(model.seen[-1])] == ["find_it", "OtherOne"]
    _, model, _ = go(repo, "words", prompt="look around", name="run-20260101-000001-abcdef")
    assert "Names of the request" not in model.last_prompt
