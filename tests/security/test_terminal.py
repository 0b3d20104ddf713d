"""Nothing that a model, a repository, a hook or a check says reaches the terminal raw, byte by byte."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.cli.screens import Screen
from tests.conftest import GitRepo
from tests.edit.conftest import HELLO, Run, Script, greeting

EVIL = "\x1b[2J\x1b]0;owned\x07\x1b]52;c;cm0gLXJm\x07\x1b]8;;http://evil\x1b\\x\x08\x08\x9b31m\x85\u202edaol\u2066\u200b\x00"
CHANGE = greeting(HELLO, f"'{EVIL[:-1]}' + name")
# What we paint with, and how the line of what is being done is taken away again.
OURS = re.compile(r"\x1b\[(?:[0-9;]*m|[02]?K|1A|\?25[lh])|\r")
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")


def raw(seen: str) -> list[str]:
    return [seen[max(0, found.start() - 30) : found.end() + 20] for found in RAW.finditer(OURS.sub("", seen))]


@pytest.fixture
def hostile(repo: GitRepo) -> GitRepo:
    repo.write("src/app.py", f"# {EVIL.replace(chr(0), '')}\ndef greet(name):\n    return 'hello ' + name\n")
    repo.write("\x1b[2Jname\x07.txt", "x\n")
    repo.git("add", "-A")
    repo.git("commit", "-qm", EVIL.replace("\x00", ""))
    return repo


def test_an_edit_at_a_terminal(hostile: GitRepo, tmp_path: Path) -> None:
    hostile.hook("pre-commit", f"printf '%s\\n' '{EVIL.replace(chr(0), '')}'\n")
    words = f"I say {EVIL} and more.\n<commit>Subject {EVIL}\n\nBody {EVIL}</commit>\n"
    (tmp_path / "reply").write_text(words + CHANGE)
    check = f"printf '%s' '{EVIL.replace(chr(0), '')}'"
    command = [
        sys.executable, "-m", "repoagent", "edit", "src/app.py", f"greet {EVIL[:-1]}", "-v", "--check", check,
        "--model", "manual", "--reply", str(tmp_path / "reply"),
    ]  # fmt: skip
    with Screen(command, hostile.top) as window:
        window.expect("Apply this change [y,n,e,p,q,?]? ")
        window.send("y\n")
        code = window.end()
    assert raw(window.seen) == []
    assert code == 0, window.seen
    assert RAW.search(hostile.git("log", "-1", "--format=%B").replace("\n", "")) is None


@pytest.mark.parametrize(
    "arguments",
    [
        ("edit", "\x1b[2Jmissing\x07.py", "change it"),
        ("edit", "src/app.py", "x", "--model", "command:printf '\\033[2J' >&2; exit 3", "--yes"),
        ("edit", "src/app.py", "x", "--model", "nothing/\x1b[2J", "--yes"),
        ("edit", "src/app.py", "x", "--show-prompt"),
        ("edit", "\x1b[2Jname\x07.txt", "x", "--show-prompt"),
        ("config",),
    ],
)  # fmt: skip
def test_errors_prompts_and_values(hostile: GitRepo, script: Script, arguments: tuple[str, ...]) -> None:
    hostile.git("config", "repoagent.check", "x\x1b[2J\u202e")
    command = [sys.executable, "-m", "repoagent", *arguments]
    with Screen(command, hostile.top, env={"REPOAGENT_MODEL": script.spec}) as window:
        window.end()
    assert window.seen
    assert raw(window.seen) == []


def test_json_is_ascii(hostile: GitRepo, run: Run, tmp_path: Path) -> None:
    (tmp_path / "reply").write_text(f"{EVIL}\n{CHANGE}")
    model = ("--model", "manual", "--reply", str(tmp_path / "reply"))
    done = run("edit", "src/app.py", "x", "--yes", "--json", *model)
    assert done.code == 0 and done.json["diff"], done
    assert RAW.search(done.out.replace("\n", "")) is None and done.out.isascii()
    assert any("invisible" in remark for remark in done.json["remarks"])
    done = run("edit", "\x1b[2Jmissing.py", "change it all", "--yes", "--json")
    assert done.code == 2 and done.out.isascii() and "\x1b" not in done.out


def test_the_date_of_a_conversation_that_a_repository_brought(hostile: GitRepo) -> None:
    title = "# repoagent conversation, version 1, nonce deadbeef\n\n"
    hostile.write(
        ".repoagent/conversations/talk.md",
        f'{title}## [deadbeef] user · time="\\u001b[2J\\u202e\\n" · kind=x\nhello\n',
    )
    with Screen([sys.executable, "-m", "repoagent", "recall", "hello"], hostile.top) as window:
        assert window.end() == 0, window.seen
    assert "talk" in window.seen and raw(window.seen) == []
