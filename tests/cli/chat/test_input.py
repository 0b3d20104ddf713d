"""A chat on a real terminal: the line editor, questions, ^C."""

from __future__ import annotations

import re
import time
from functools import partial

import pytest

from tests.conftest import GitRepo
from tests.edit.conftest import GREET, QUESTION, Open, Script, diff

READY = "\x1b[?2004h"  # the line editor waits: what is pasted is to be marked
LOOK = '<read path="src/app.py"/>'
DONE = "<commit>Greet</commit>\n<finish>It greets.</finish>"
AGAIN = "\x1b[200~one\ntwo\x1b[201~"  # a paste of two lines


@pytest.fixture
def chat(screen: Open) -> Open:
    """`repoagent chat ARGS` in the repository, on a terminal, with the scripted model."""
    return partial(screen, "chat", PROMPT_TOOLKIT_NO_CPR="1", width=100)


@pytest.mark.soak
def test_refused_with_a_reason_then_stopped_and_resumed(repo: GitRepo, chat: Open, script: Script) -> None:
    hi = diff("src/app.py", " def greet(name):", "-    return 'hello ' + name", "+    return 'hi ' + name")
    script.replies(LOOK, hi, GREET, DONE, "never", "Slowly.", "So.")
    script.act(4, f"touch {script.folder}/slow; sleep 30")
    with chat() as window:
        window.answer(READY, "greet \\\rwith a comma\r")
        window.answer(QUESTION, "n\n")
        window.answer("Tell the model why", "no, a comma\n")
        window.answer(QUESTION, "y\n")
        assert "greet \nwith a comma" in script.prompts[0] and "no, a comma" in script.prompts[2]
        window.expect("It greets.\n")
        window.expect("Greet · 1 file +1 -1")
        window.answer(READY, f"{AGAIN}\x1b\rthree\r")
        while not (script.folder / "slow").exists():
            time.sleep(0.02)
        window.send("\x03")
        window.expect("stopped; write what to do differently")
        window.expect(READY)
        assert "one\ntwo\nthree" in script.prompts[4]
        window.send("/cont")
        window.expect("/continue")  # in the menu
        window.send("\t\r")
        window.expect("Slowly.")
        window.answer(READY, "\x03")
        window.answer("press ^C again", "\x03")
        window.expect("--resume chat-")
        assert window.end() == 0
    assert b"return f'hello, {name}'" in repo.read("src/app.py") and repo.status() == ""


@pytest.mark.soak
def test_a_no_without_a_reason_ends_the_turn_and_not_the_chat(
    repo: GitRepo, chat: Open, script: Script
) -> None:
    script.replies(LOOK, GREET, "I see.")
    with chat(NO_COLOR="1") as window:
        window.answer(READY, "greet\r")
        window.answer(QUESTION, "q\n")
        window.expect("you rejected the change")
        window.answer(READY, "/model replay:nowhere\r")
        window.expect("cannot read")
        window.answer(READY, f"/model {script.spec}\r")
        window.expect("now using")
        window.answer(READY, "!!echo HELLO\r")
        window.expect("the output will be sent with your next message")
        window.answer(READY, "so\r")
        window.expect("I see.")
        window.answer(READY, "\x04")
        assert window.end() == 0
    assert "HELLO" in script.prompts[2] and "You were stopped before this was done" in script.prompts[2]
    assert repo.status() == ""


def test_an_interrupt_drops_the_input_on_a_dumb_terminal(repo: GitRepo, chat: Open, script: Script) -> None:
    script.replies("So.")
    with chat(TERM="dumb") as window:
        window.answer("> ", "a \\\n")
        window.answer("  ", "\x03")
        window.answer("stopped\n> ", "b\n")
        window.expect("So.")
        window.answer("> ", "\x04")
        window.expect("--resume chat-")
        assert window.end() == 0
    assert "\nb\n" in script.prompts[0] and "\na " not in script.prompts[0]


@pytest.mark.soak
def test_undo_asks_also_on_a_dumb_terminal(repo: GitRepo, chat: Open, script: Script) -> None:
    script.replies(LOOK, GREET, DONE)
    head = repo.head()
    with chat("--mode", "auto-edit", TERM="dumb") as window:
        window.answer("> ", "greet\n")
        window.expect("1 file +1 -1")
        window.answer("> ", "/undo\n")
        window.answer("Greet (src/app.py) [y,n,?]? ", "n\n")
        window.expect("nothing was undone")
        window.answer("> ", "/undo\n")
        window.answer("[y,n,?]? ", "y\n")
        window.expect("undid")
        window.answer("> ", "\x04")
        assert window.end() == 0
    assert repo.head() == head
    with chat("--continue", width=40) as window:
        shown = window.expect(READY)
        assert "> greet" in shown and "It greets." in re.sub(r"\x1b\[[0-9;]*m", "", shown)
        window.send("/diff")
        window.expect("/diff")
        window.send("\x03")  # dropped, and available in the history
        time.sleep(0.3)
        window.send("\x1b[A")
        window.answer("/diff", "\r")
        window.expect("no uncommitted changes")
        window.expect(READY)
        window.send("\x12dif")  # searched for
        window.answer("\x1b[0;7mdif", "\r\r")
        window.expect("no uncommitted changes")
        window.answer(READY, "\x04")
        assert window.end() == 0
