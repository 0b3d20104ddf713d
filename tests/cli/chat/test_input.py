"""A chat on a real terminal: the line editor, questions, ^C; commands, continued lines, paths, the input history."""

from __future__ import annotations

import re
import stat
import time
from functools import partial
from pathlib import Path

import pytest

from repoagent.cli.chat import input, slash_commands
from repoagent.cli.chat.chat_session import words_of
from repoagent.cli.chat.input import is_continued, matching_paths
from repoagent.git.worktree import open_worktree
from tests.conftest import GitRepo
from tests.edit.conftest import GREET, QUESTION, Open, Script, diff

READY = "\x1b[?2004h"  # the line editor waits: what is pasted is to be marked
LOOK = '<read path="src/app.py"/>'
DONE = "<commit>Greet</commit>\n<finish>It greets.</finish>"


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
        window.answer(READY, "\x1b[200~one\ntwo\x1b[201~\x1b\rthree\r")  # a paste of two lines
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
        window.send("\x03")
        window.expect("^D ends the chat")
        window.answer(READY, "\x04")
        window.expect("--resume chat-")
        assert window.end() == 0
    assert b"return f'hello, {name}'" in repo.read("src/app.py") and repo.status() == ""


@pytest.mark.soak
def test_a_no_without_a_reason_ends_the_turn_only(repo: GitRepo, chat: Open, script: Script) -> None:
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


def test_which_lines_are_commands_and_which_go_on() -> None:
    assert slash_commands.parse_slash_command("/help") == ("help", "")
    assert slash_commands.parse_slash_command("/MODEL a name ") == ("model", "a name")
    assert slash_commands.parse_slash_command("/diff HEAD~1") == ("diff", "HEAD~1")
    for text in ("/etc/passwd is missing", "/ is the root", " /help", "help", "/1"):
        assert slash_commands.parse_slash_command(text) is None
    assert [text for text in ("a\\", "a\\\\", "a\\\\\\", "a", "") if is_continued(text)] == ["a\\", "a\\\\\\"]


def test_tracked_files_by_path_or_by_name(repo: GitRepo) -> None:
    repo.write("src/deep/app_more.py", "x\n")
    repo.write("odd\nname.py", "x\n")
    worktree = open_worktree(repo.top)
    assert matching_paths(worktree, "src/") == ["src/app.py", "src/deep/app_more.py"]
    assert matching_paths(worktree, "app") == ["src/app.py", "src/deep/app_more.py"]
    assert matching_paths(worktree, "READ") == ["README.md"]
    assert not any("odd" in path for path in matching_paths(worktree, ""))


def test_the_input_history_is_private(repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    file = input.history_file(open_worktree(repo.top))
    history = input.MaskedHistory(file)
    assert list(history.load_history_strings()) == []
    history.store_string("two\nlines")
    history.store_string("key sk-ant-REDACTED")
    history.store_string("x" * 20_000)
    second, first = history.load_history_strings()
    assert first == "two\nlines" and "abcdefghij" not in second
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.unlink()
    file.mkdir()
    input.MaskedHistory(file).store_string("x")  # it cannot be saved


def test_the_words_of_a_reply_are_without_its_actions() -> None:
    assert words_of('Let me look.\n<read path="a"/>') == "Let me look."
    assert words_of("<finish>It is done.</finish>") == "It is done."
    assert words_of("```diff\n-a\n+b\n```\n") == "(only actions, no text)"
