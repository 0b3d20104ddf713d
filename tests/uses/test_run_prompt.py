"""Where the names of a run's prompt are defined, used and tested: what a model knows before its first call."""

from __future__ import annotations

import re

from repoagent.git.worktree import open_worktree
from repoagent.llm.model import Request
from repoagent.llm.usage import estimate_tokens
from repoagent.uses.request_symbols import start_search
from tests.conftest import GitRepo
from tests.tasks.bare import go


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
    assert "Names of the request" not in model.last_prompt
