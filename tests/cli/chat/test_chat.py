"""A chat: turns from a pipe, from a program, and on a real terminal with the line editor; the input history."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from repoagent.agent.state import State
from repoagent.cli.chat import input, slash_commands
from repoagent.cli.chat.chat_session import Chat, open_chat, print_recap, status_bar, words_of
from repoagent.cli.chat.command import command, handle
from repoagent.cli.chat.input import is_continued, matching_paths
from repoagent.cli.session import Session, open_repository
from repoagent.errors import Busy, NothingDone, Refused, UsageError
from repoagent.git.worktree import open_worktree
from repoagent.llm.conversation import Turn
from repoagent.llm.model import Usage
from repoagent.tasks.runs.directory import host_name
from tests import program
from tests.cli.apply_patch import Done
from tests.conftest import GitRepo
from tests.edit.conftest import GREET, QUESTION, Open, Run, Script, diff

DONE = "<commit>Greet with a comma</commit>\n<finish>It greets with a comma.</finish>"
LOOK = '<read path="src/app.py"/>'


def conversations(repo: GitRepo) -> list[Path]:
    return sorted((repo.top / ".repoagent/conversations").glob("*.md"))


def test_an_invalid_line_of_a_pipe_ends_the_chat(run: Run, script: Script) -> None:
    for line, message in (("/udno", "unknown command /udno; /help lists"), ("\udcff", "not UTF-8")):
        assert message in run("chat", stdin=f"{line}\nhello\n", code=2).err
    assert script.prompts == []


@pytest.fixture
def chat(repo: GitRepo, script: Script, monkeypatch: pytest.MonkeyPatch) -> Chat:
    """An empty chat in this process, without a terminal."""
    monkeypatch.chdir(repo.top)
    monkeypatch.setenv("REPOAGENT_MODEL", script.spec)
    monkeypatch.setenv("CI", "1")
    options = SimpleNamespace(**command.make_context("chat", [], help_option_names=["-h", "--help"]).params)
    return open_chat(options, open_repository(Session()))


def test_lines_that_call_no_model(chat: Chat, capfd: pytest.CaptureFixture[str]) -> None:
    for line, message in (
        ("/xyzzy", "unknown command /xyzzy; /help lists the commands"),
        ("/quit now", "/quit takes no arguments"),
        ("!touch hacked", "not run commands from a pipe"),
        ("!!touch hacked", "not run commands from a pipe"),
        ("!", "missing command"),
        ("/mode auto", "/mode needs a terminal; use --mode"),
        ("/model command:touch hacked", "/model needs a terminal; use --model"),
        ("/diff HEAD", "/diff takes no arguments"),
    ):
        with pytest.raises(UsageError) as error:
            handle(chat, line)
        assert message in str(error.value)
    for name in ("undo", "diff", "clear", "compact", "continue"):
        with pytest.raises(NothingDone):
            handle(chat, f"/{name}")
    assert not Path("hacked").exists()
    for line in ("", "  ", "/help", "/model", "/mode", "/cost"):
        assert handle(chat, line) is False
    out = capfd.readouterr().out
    assert all(f"/{name}" in out for name in slash_commands.TABLE)
    assert "ask: ask before each change" in out and "0 calls" in out
    assert handle(chat, "/exit") is True


def test_control_c_is_for_the_shell_command(chat: Chat, capfd: pytest.CaptureFixture[str]) -> None:
    chat.terminal = chat.terminal._replace(input_tty=True, error_tty=True)
    began = time.monotonic()
    handle(chat, "!trap 'echo caught' INT; kill -INT $PPID $$; sleep 0.3; echo after")
    handle(chat, "!!kill -INT $PPID $$")
    handle(chat, "!!sleep 60 & printf é")
    assert time.monotonic() - began < 30
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    shown = capfd.readouterr().err
    assert "caught\nafter\n" in shown and "é" in shown
    assert chat.aside[0] == "I ran `kill -INT $PPID $$`: exit code 130.\n(no output)"
    assert chat.aside[1].endswith("exit code 0.\n<output>\né\n</output>")


def test_the_output_of_a_shell_command(chat: Chat, capfd: pytest.CaptureFixture[str]) -> None:
    chat.terminal = chat.terminal._replace(input_tty=True, error_tty=True)
    began = time.monotonic()
    for line, output in (
        (
            "echo one; echo two | tee /dev/stderr; echo three",
            "one\ntwo\ntwo\nthree",
        ),  # /dev/stderr is opened again
        (r"printf '\303'; sleep 0.7; printf '\251'", "é"),
        (r"printf 'a\303'", "a\ufffd"),
        ("yes & echo one; sleep 0.1; kill $!", "y\n"),
        ("(trap '' HUP; while echo x; do sleep 0.01; done) & echo one", "one\n"),
        ("echo one; exec >&- 2>&-; sleep 0.3; exit 3", "exit code 3.\n<output>\none\n"),
    ):
        handle(chat, f"!!{line}")
        assert output in chat.aside[-1], line
    assert capfd.readouterr().err.startswith("one\ntwo\ntwo\nthree\n")
    handle(chat, "!!echo begin; yes 0123456789abcde | head -c 20000000; echo end")
    assert "<output>\nbegin\n" in chat.aside[-1] and chat.aside[-1].endswith("\nend\n</output>")
    assert "\n[… 19,983,626 bytes left out …]\n" in chat.aside[-1] and len(chat.aside[-1]) < 17_000
    assert time.monotonic() - began < 30


@pytest.mark.soak
def test_a_failed_turn_ends_the_chat_and_is_resumed(repo: GitRepo, run: Run, script: Script) -> None:
    script.replies("It greets.")
    script.act(0, "exit 1")
    assert run("chat", stdin="what is it?\nand then?\n", code=4).out == ""
    assert len(script.prompts) == 1
    script.replies("It greets.", "Goodbye.")
    done = run("chat", "--continue", stdin="/continue\nand then?\n/quit\nnever\n")
    assert (done.code, done.out) == (0, "It greets.\nGoodbye.\n")
    assert script.prompts[0].count("what is it?") == 1
    assert "It greets." in script.prompts[1] and "and then?" in script.prompts[1]
    assert len(conversations(repo)) == 1


@pytest.mark.soak
def test_a_change_is_undone_and_that_reported_to_the_model(repo: GitRepo, run: Run, script: Script) -> None:
    script.replies(LOOK, GREET, DONE, "I see.", "Good.")
    head = repo.head()
    says = "greet with a comma\n/undo\nwhy not\nfine\\\nreally\n/cost\n"
    done = run("chat", "--mode", "auto-edit", stdin=says, code=0)
    assert "It greets with a comma." in done.out
    assert "5 calls" in done.out
    assert "Greet with a comma · 1 file +1 -1" in done.err and "undid" in done.err
    assert "(I have undone your change to src/app.py: Greet with a comma.)\n\nwhy not" in script.prompts[3]
    assert "fine\nreally" in script.prompts[4]
    assert repo.head() == head and repo.status() == ""
    script.replies(LOOK, GREET, "<finish>Done.</finish>", "I see.")
    done = run("chat", "--mode", "auto-edit", "--no-commit", stdin="greet\n/diff\n/undo\nso\n", code=0)
    assert "+    return f'hello, {name}'\n" in done.out
    assert "written, not committed: src/app.py\n" in done.err
    assert "(I have undone your uncommitted changes to src/app.py.)" in script.prompts[3]
    assert repo.status() == ""


@pytest.mark.soak
def test_one_chat_does_not_undo_the_work_of_another(repo: GitRepo, run: Run, script: Script) -> None:
    script.replies(LOOK, GREET, DONE, "Hello.")
    assert run("chat", "--mode", "auto-edit", stdin="greet\n").code == 0
    head = repo.head()
    (first,) = conversations(repo)
    assert "this chat has no edits to undo" in run("chat", stdin="hello\n/undo\n", code=1).err
    assert repo.head() == head
    assert run("chat", "--resume", first.stem, stdin="/undo\n").code == 0 and repo.head() != head


@pytest.mark.soak
def test_json_is_a_line_for_each_turn_and_one_for_the_error(run: Run, script: Script) -> None:
    script.replies("One.", "Two.")
    done = run("chat", "--json", stdin="a\nb\n/help\n")
    one, two, error = map(json.loads, done.out.splitlines())
    assert (one["outcome"], one["text"], two["text"]) == ("answered", "One.", "Two.")
    assert one["run"] == two["run"] and one["usage"]["calls"] == two["usage"]["calls"] == 1
    assert done.code == error["error"]["exit"] == 2
    assert "cannot be combined with --json" in error["error"]["message"]


def test_a_new_conversation(repo: GitRepo, run: Run, script: Script) -> None:
    script.replies("Blue.", "Red.")
    assert run("chat", stdin="which colour?\n/clear\nand now?\n", code=0).out == "Blue.\nRed.\n"
    assert "which colour?" not in script.prompts[1] and len(conversations(repo)) == 2


@pytest.mark.soak
def test_compact(repo: GitRepo, run: Run, script: Script, clean_environment: Path) -> None:
    text = "## Goal\nKNOW IT\n## Decisions\nnone\n## Plan\nnone\n## Changes\nnone\n## Open\nnone\n"
    config = clean_environment / ".config/repoagent/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'[models."{script.spec}"]\ncontext = 24000\n')
    script.replies("It greets.", "never")
    short = run("chat", stdin="what is it?\n/compact\n")
    assert short.code == 1 and "the conversation is short" in short.err and len(script.prompts) == 1
    script.replies("It greets. " * 900, "It does.", text, "Yes.")
    done = run("chat", stdin="what is it?\nwell?\n/compact\nsure?\n/continue\n")
    assert done.code == 1 and "the last turn is complete" in done.err, done.err
    assert "compacted: " in done.err
    assert "KNOW IT" in script.prompts[3] and "It greets. It greets." not in script.prompts[3]
    assert any("It greets. It greets." in path.read_text() for path in conversations(repo))


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.soak)])
def test_killed_in_a_reply_it_resumes(repo: GitRepo, run: Run, script: Script, number: int) -> None:
    script.replies("It greets.")
    script.act(0, f"touch {script.folder}/asked; sleep 30")
    running = program.start(["chat"], repo.top, stdin=b"-", env={"REPOAGENT_MODEL": script.spec})
    assert running.pipes is not None
    os.write(running.pipes[0], b"what is it?\n")
    deadline = time.monotonic() + 20
    while not (script.folder / "asked").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    running.send_signal(number)
    assert running.wait(20) == (-9 if number == signal.SIGKILL else 130)
    for descriptor in running.pipes:
        os.close(descriptor)
    script.replies("It greets.")
    assert run("chat", "--continue", stdin="/continue\n", code=0).out == "It greets.\n"
    assert "what is it?" in script.prompts[0]


def test_a_chat_whose_folder_is_removed_reports_it(repo: GitRepo, run: Run, script: Script) -> None:
    script.replies("one", "never")
    script.act(0, "while [ ! -e .repoagent/runs ]; do sleep 0.1; done; sleep 0.5; git clean -q -ffdx")
    done = run("chat", stdin="a\nb\n")
    assert (done.code, len(script.prompts)) == (3, 1)
    assert "was removed (by `git clean -x`, for example)" in done.err
    assert not [*(repo.top / ".repoagent/runs").glob("*/*")]


def test_a_chat_that_was_deleted_between_turns_reports_it(
    repo: GitRepo, chat: Chat, script: Script, capfd: pytest.CaptureFixture[str]
) -> None:
    script.replies("one", "two")
    handle(chat, "a")
    name = chat.name
    repo.git("clean", "-q", "-ffdx")
    with pytest.raises(Refused, match=f"{name} was deleted .* your next message starts a new conversation"):
        handle(chat, "b")
    assert len(script.prompts) == 1 and chat.name != name
    handle(chat, "c")
    assert len(script.prompts) == 2 and [chat.name] == [path.stem for path in conversations(repo)]


def test_long_names_leave_room_in_the_status_line(
    repo: GitRepo, chat: Chat, capfd: pytest.CaptureFixture[str]
) -> None:
    repo.git("checkout", "-q", "-b", "feature/" + "long" * 20)
    chat.model_setup.meter.usage = Usage(input=1234)
    assert status_bar(chat, 200).endswith(f" · feature/{'long' * 5}lon… · 1,234 tokens")
    assert len(line := status_bar(chat, 60)) < 60 and line.endswith("… · 1,234 tokens")


def test_the_recap_of_a_message_is_one_line(chat: Chat, capfd: pytest.CaptureFixture[str]) -> None:
    print_recap((Turn("user", "a\n\nb\n  c\n", {}), Turn("assistant", "d", {})), chat.terminal)
    assert capfd.readouterr().err == "> a b c\nd\n"


def test_a_chat_is_resumed_in_its_work_tree(repo: GitRepo, run: Run, script: Script, tmp_path: Path) -> None:
    repo.commit(**{"src/app.py": "def greet(name):\n    return 'hello ' + name\n"})
    side = tmp_path / "side"
    repo.git("worktree", "add", "-q", "-b", "side", str(side))
    script.replies("one", GREET, DONE)
    assert run("chat", stdin="a\n", cwd=side).code == 0
    done = run("chat", "--continue", "--mode", "auto-edit", stdin="greet\n")
    assert done.code == 0 and f"working in {side}, as before" in done.err
    assert repo.git("log", "-1", "--format=%s", "side").strip() == "Greet with a comma"
    assert repo.status() == "" and repo.git("log", "--format=%s", "HEAD..side").count("\n") == 1


def test_a_turn_of_another_process_is_not_resumed(chat: Chat, capfd: pytest.CaptureFixture[str]) -> None:
    chat.run_dir.conversation.parent.mkdir(parents=True)
    State(file=chat.run_dir.conversation).with_turn(Turn("user", "greet", {}))
    chat.run_dir.folder.mkdir(parents=True)
    chat.run_dir.record.write_text(json.dumps({"version": 1, "state": "killed", "host": host_name()}))
    capfd.readouterr()
    chat.show_error(Busy("it is at work in process 1"))
    assert capfd.readouterr().err == "it is at work in process 1\n"


# A chat with a program: input and output are lines of JSON.


def lines(*values: object) -> str:
    return "".join(f"{json.dumps(value)}\n" for value in values)


def events(done: Done, *kinds: str) -> list[dict[str, Any]]:
    """The events of these kinds."""
    result = [json.loads(line) for line in done.out.splitlines()]
    assert all(one["version"] == 1 for one in result)
    return [one for one in result if one["event"] in kinds]


def test_an_invalid_turn_is_reported_and_an_error_does_not_end_it(run: Run, script: Script) -> None:
    script.replies(LOOK, "Two.")
    says = lines({"say": " "}, {"say": "/quit"}, {"say": "b"}, {"stop": True}, {"say": "c"})
    done = run("chat", "--json-stream", "--max-turns", "1", stdin=f"nonsense\n[]\n{says}")
    shown = events(done, "start", "say", "error", "end")
    assert [one["event"] for one in shown] == ["start", "say", "say", "say", "error", "end"]
    assert (done.code, len(script.prompts)) == (0, 2) and "/quit" in script.prompts[0]
    assert (shown[-1]["text"], shown[-1]["usage"]["calls"]) == ("Two.", 1)
    without = run("chat", "--json-stream", env={"REPOAGENT_MODEL": "replay:nowhere"})
    (error,) = events(without, "start", "say", "error", "end")
    assert (error["event"], error["exit"]) == ("error", without.code) and without.code != 0


@pytest.mark.parametrize("answer", ["run", "always"])
def test_always_holds_for_the_later_messages_of_a_chat(
    repo: GitRepo, run: Run, script: Script, answer: str
) -> None:
    repo.write("Makefile", "x:\n\ttouch made\n")
    script.replies(*["<run>make x</run>", "Made."] * 3)
    says = lines({"say": "a"}, {"id": 1, "answer": answer}, {"say": "b"}, {"say": "c"})
    done = run("chat", "--json-stream", stdin=says, code=0)
    assert [one["event"] for one in events(done, "ask", "end")] == ["ask", "end", "end", "end"]


@pytest.mark.soak
def test_questions_are_answered_and_numbered_through_it(repo: GitRepo, run: Run, script: Script) -> None:
    script.replies(LOOK, GREET, DONE, "<run>touch a</run>", "never")
    says = lines({"say": "a"}, {"id": 1, "answer": "yes"}, {"say": "b"}, {"stop": True})
    done = run("chat", "--json-stream", stdin=says)
    assert [(one["id"], one["of"]) for one in events(done, "ask")] == [(1, "edit"), (2, "command")]
    assert [one["event"] for one in events(done, "commit", "end", "error")] == ["commit", "end", "error"]
    assert done.code == 130 and "Greet with a comma" in repo.git("log", "-1", "--format=%s")


READY = "\x1b[?2004h"  # the line editor waits: what is pasted is to be marked


@pytest.fixture
def window_of(screen: Open) -> Open:
    """`repoagent chat ARGS` in the repository, on a terminal, with the scripted model."""
    return partial(screen, "chat", PROMPT_TOOLKIT_NO_CPR="1", width=100)


@pytest.mark.soak
def test_refused_with_a_reason_then_stopped_and_resumed(
    repo: GitRepo, window_of: Open, script: Script
) -> None:
    hi = diff("src/app.py", " def greet(name):", "-    return 'hello ' + name", "+    return 'hi ' + name")
    script.replies(LOOK, hi, GREET, DONE, "never", "Slowly.", "So.")
    script.act(4, f"touch {script.folder}/slow; sleep 30")
    with window_of() as window:
        window.answer(READY, "greet \\\rwith a comma\r")
        window.answer(QUESTION, "n\n")
        window.answer("Tell the model why", "no, a comma\n")
        window.answer(QUESTION, "y\n")
        assert "greet \nwith a comma" in script.prompts[0] and "no, a comma" in script.prompts[2]
        window.expect("It greets with a comma.\n")
        window.expect("Greet with a comma · 1 file +1 -1")
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
def test_a_no_without_a_reason_ends_the_turn_only(repo: GitRepo, window_of: Open, script: Script) -> None:
    script.replies(LOOK, GREET, "I see.")
    with window_of(NO_COLOR="1") as window:
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


def test_an_interrupt_drops_the_input_on_a_dumb_terminal(
    repo: GitRepo, window_of: Open, script: Script
) -> None:
    script.replies("So.")
    with window_of(TERM="dumb") as window:
        window.answer("> ", "a \\\n")
        window.answer("  ", "\x03")
        window.answer("stopped\n> ", "b\n")
        window.expect("So.")
        window.answer("> ", "\x04")
        window.expect("--resume chat-")
        assert window.end() == 0
    assert "\nb\n" in script.prompts[0] and "\na " not in script.prompts[0]


@pytest.mark.soak
def test_undo_asks_also_on_a_dumb_terminal(repo: GitRepo, window_of: Open, script: Script) -> None:
    script.replies(LOOK, GREET, DONE)
    head = repo.head()
    with window_of("--mode", "auto-edit", TERM="dumb") as window:
        window.answer("> ", "greet\n")
        window.expect("1 file +1 -1")
        window.answer("> ", "/undo\n")
        window.answer("Greet with a comma (src/app.py) [y,n,?]? ", "n\n")
        window.expect("nothing was undone")
        window.answer("> ", "/undo\n")
        window.answer("[y,n,?]? ", "y\n")
        window.expect("undid")
        window.answer("> ", "\x04")
        assert window.end() == 0
    assert repo.head() == head
    with window_of("--continue", width=40) as window:
        shown = window.expect(READY)
        assert "> greet" in shown and "It greets with a comma." in re.sub(r"\x1b\[[0-9;]*m", "", shown)
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


def test_tracked_files_by_path_or_by_name(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("repoagent.cli.chat.input.time", SimpleNamespace(monotonic=lambda: 3.0))
    repo.write("src/deep/app_more.py", "x\n")
    repo.write("odd\nname.py", "x\n")
    worktree = open_worktree(repo.top)
    assert matching_paths(worktree, "src/") == ["src/app.py", "src/deep/app_more.py"]
    assert matching_paths(worktree, "app") == ["src/app.py", "src/deep/app_more.py"]
    assert matching_paths(worktree, "READ") == ["README.md"]
    assert not any("odd" in path for path in matching_paths(worktree, ""))
    monkeypatch.setattr(input, "git", None)  # it is not called for each key
    assert matching_paths(worktree, "READ") == ["README.md"]


def test_the_input_history_is_private(repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    file = input.history_file(open_worktree(repo.top))
    warned: list[str] = []
    history = input.MaskedHistory(file, warned.append)
    assert list(history.load_history_strings()) == []
    history.store_string("two\nlines")
    history.store_string("key sk-ant-REDACTED")
    history.store_string("x" * 20_000)
    second, first = history.load_history_strings()
    assert first == "two\nlines" and "abcdefghij" not in second
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.unlink()
    file.mkdir()
    history = input.MaskedHistory(file, warned.append)
    assert list(history.load_history_strings()) == warned == []
    history.store_string("x")
    assert len(warned) == 1 and "cannot save the input history" in warned[0]


def test_the_words_of_a_reply_are_without_its_actions() -> None:
    assert words_of('Let me look.\n<read path="a"/>') == "Let me look."
    assert words_of("<finish>It is done.</finish>") == "It is done."
    assert words_of("```diff\n-a\n+b\n```\n") == "(only actions, no text)"
