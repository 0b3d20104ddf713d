"""A run that is stopped at the terminal or cannot be resumed: its messages, and its state in `runs`."""

from __future__ import annotations

import re

import pytest

from tests.cli.screens import PROGRAM, Screen
from tests.conftest import GitRepo
from tests.edit.conftest import GREET, Run, Script

RESUME = "resume with `repoagent run --resume "


def screen(repo: GitRepo, script: Script, *args: str, **env: str) -> Screen:
    whole = {"REPOAGENT_MODEL": script.spec, **env}
    return Screen([*PROGRAM, "run", *args], repo.top, env=whole, width=100)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("reply", "question", "how"),
    [
        (GREET, "Apply this change", "stopped at a rejected change"),
        ("<run>make</run>", "Run this command", 'stopped at the question "run this command"'),
    ],
)
def test_runs_shows_that_q_stopped_the_run(
    repo: GitRepo, script: Script, run: Run, *, reply: str, question: str, how: str
) -> None:
    repo.commit(**{"src/app.py": "def greet(name):\n    return 'hello ' + name\n"})
    script.replies(reply)
    with screen(repo, script, "greet") as window:
        window.expect(question)
        window.send("q\n")
        window.expect(RESUME)
        assert window.end() == 130
        assert re.search(r"\nresume with `repoagent run --resume [\w-]+`\n\Z", window.seen)
    assert how in run("runs", "show", "last").out


@pytest.mark.soak
@pytest.mark.parametrize("term", ["xterm-256color", "dumb"])
def test_the_message_after_an_interrupt_starts_on_a_new_line(
    repo: GitRepo, script: Script, term: str
) -> None:
    repo.commit(f="one\n")
    script.replies("<run>make</run>", "never")
    script.act(1, "sleep 30")
    with screen(repo, script, "do it", TERM=term) as window:
        window.expect("Run this command [y,a,r,n,q,?]? ")
        window.send("\x03")
        assert f"\n{RESUME}" in window.expect(RESUME)
        assert window.end() == 130
    with screen(repo, script, "do it", "--continue", TERM=term) as window:
        window.expect("asking")
        window.send("\x03")
        message = window.expect(RESUME)
        assert (f"\n{RESUME}" if term == "dumb" else f"\x1b[2K{RESUME}") in message
        assert window.end() == 130


def test_an_unreadable_conversation_is_not_called_resumed(repo: GitRepo, run: Run, script: Script) -> None:
    script.replies("<finish>looked</finish>")
    assert run("run", "look", "--mode", "read-only", "--conversation", "mine").code == 0
    file = repo.top / ".repoagent/conversations/mine.md"
    file.write_text("# broken\n" + file.read_text().partition("\n")[2])
    done = run("run", "more", "--mode", "read-only", "--conversation", "mine")
    assert done.code == 3
    assert "resume with" not in done.err
