"""Edits end to end: the real program in its own process, a scripted model behind `command:`, a real repository."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import program
from tests.cli.apply_patch import Done, here, in_process
from tests.cli.screens import Screen
from tests.conftest import GitRepo

__all__ = ["here", "in_process"]

MODEL = """\
asked=$(printf %02d "$(ls "$1" | grep -c ^prompt-)")
cat > "$1/prompt-$asked"
if [ -e "$1/act-$asked" ]; then sh -e "$1/act-$asked" || exit 1; fi
cat "$1/reply-$asked" || { echo "the script has no reply for call $asked" >&2; exit 1; }
"""


@dataclass
class Script:
    """A model that gives prepared replies, one per call, and records the prompts."""

    folder: Path

    def replies(self, *replies: str) -> None:
        for old in [*self.folder.glob("reply-*"), *self.folder.glob("prompt-*"), *self.folder.glob("act-*")]:
            old.unlink()
        for number, reply in enumerate(replies):
            (self.folder / f"reply-{number:02}").write_text(reply)

    def act(self, call: int, command: str) -> None:
        """Run `command` before reply number `call` (from 0), in the current folder."""
        (self.folder / f"act-{call:02}").write_text(command)

    @property
    def spec(self) -> str:
        return f"command:sh {self.folder / 'model.sh'} {self.folder}"

    @property
    def prompts(self) -> list[str]:
        return [path.read_text() for path in sorted(self.folder.glob("prompt-*"))]


def make_script(folder: Path) -> Script:
    folder.mkdir()
    (folder / "model.sh").write_text(MODEL)
    return Script(folder)


@pytest.fixture
def script(tmp_path: Path) -> Script:
    return make_script(tmp_path / "model")


Run = Callable[..., Done]


@pytest.fixture
def run(repo: GitRepo, script: Script) -> Run:
    """`repoagent ARGS` in the repository, with the scripted model, which must end with `code`, if given; standard input
    is empty by default."""

    def run(
        *args: str,
        stdin: str = "",
        env: dict[str, str] | None = None,
        cwd: Path | None = None,
        code: int | None = None,
    ) -> Done:
        model = {"REPOAGENT_MODEL": script.spec, **(env or {})}
        load = ["anthropic"] if "ANTHROPIC_API_KEY" in model else []
        done = program.run(args, cwd or repo.top, stdin=stdin.encode(), env=model, load=load)
        out, err = (data.decode(errors="replace") for data in (done.stdout, done.stderr))
        assert code in (None, done.returncode), err
        return Done(done.returncode, out, err)

    return run


def diff(path: str, *lines: str) -> str:
    """A fenced diff of one file with one hunk, as written by a model."""
    return "\n".join(["```diff", f"--- a/{path}", f"+++ b/{path}", "@@", *lines, "```", ""])


GREET = diff("src/app.py", " def greet(name):", "-    return 'hello ' + name", "+    return f'hello, {name}'")


def greeting(old: str, new: str) -> str:
    """A fenced diff that changes what `greet` returns."""
    return diff("src/app.py", " def greet(name):", f"-    return {old}", f"+    return {new}")


HELLO = "'hello ' + name"  # the original line


@pytest.fixture
def edit(run: Run) -> Run:
    """`repoagent edit FILE MORE... REQUEST OPTIONS --yes`, which must end with `code`."""

    def edit(
        *options: str,
        file: str = "src/app.py",
        more: Sequence[str] = (),
        request: str = "greet with a comma",
        code: int = 0,
        **how: Any,
    ) -> Done:
        return run("edit", file, *more, request, *options, "--yes", code=code, **how)

    return edit


def files_of_head(repo: GitRepo) -> list[str]:
    return repo.git("show", "--format=", "--name-only").split()


Open = Callable[..., Screen]
QUESTION = "Apply this change [y,n,e,p,q,?]? "


@pytest.fixture
def screen(repo: GitRepo, script: Script) -> Open:
    """`repoagent ARGS` in the repository, on a terminal, with the scripted model."""

    def screen(*args: str, width: int = 80, **env: str) -> Screen:
        command = [sys.executable, "-m", "repoagent", *args]
        return Screen(command, repo.top, env={"REPOAGENT_MODEL": script.spec, **env}, width=width)

    return screen
