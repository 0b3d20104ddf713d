"""Commands in the foreground and in the background: failures first, then the output."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repoagent.agent.actions import Action, Observation
from repoagent.agent.approvals.policy import Gate, Verdict
from repoagent.agent.exec import process
from repoagent.agent.exec.process import command_environment
from repoagent.agent.exec.render_output import bash_options, explain_exit_code, render_line
from repoagent.agent.exec.tools import CommandRunner
from tests.llm.helpers import gone, soon


class CommandTools:
    """The tools, called as the loop calls them, and the audited events."""

    def __init__(self, top: Path) -> None:
        self.events: list[Mapping[str, object]] = []
        gate = Gate("ask", asker=lambda asked: Verdict(True), audit=self.events.append)
        folder = top.with_name("output")
        self.runner = CommandRunner(top, folder, {**os.environ}, gate, audit=self.events.append)
        self.runner.shown_as = lambda path: f"output/{path.name}"
        self.tools = {tool.name: tool for tool in self.runner.tools()}
        self.run = partial(self.perform, "run")
        self.wait = partial(self.perform, "wait")
        self.kill = partial(self.perform, "kill")

    def perform(self, name: str, body: str = "", **args: str) -> Observation:
        return self.tools[name].perform(Action(name, args, body))


@pytest.fixture
def tools(tmp_path: Path) -> Iterator[CommandTools]:
    (tmp_path / "top").mkdir()
    tools = CommandTools(tmp_path / "top")
    yield tools
    tools.runner.close()


def test_invalid_call_runs_nothing(tools: CommandTools) -> None:
    for body, args, expected in (
        ("", {}, "no command: use"),
        ("echo a\0b", {}, "text of at most"),
        ("echo " + "a" * 110_000, {}, "write longer input to a file"),
        ("ls", {"timeout": "soon"}, "number of seconds"),
        ("ls", {"timeout": "0"}, "number of seconds"),
        ("ls", {"timeout": "99999"}, "at most 3600"),
        ("ls", {"dir": "x"}, "unknown argument dir"),
    ):
        seen = tools.run(body, **args)
        assert not seen.ok and expected in seen.text and not tools.runner.folder.exists()


PIPES = [
    ("false | tail -1", False, "exit 1"),
    ("(exit 3) | cat | wc -l", False, "exit 3"),
    ("false | tail -1 && echo passed", False, "exit 1, no output"),
    ("yes | head -1", True, "exit 0\n"),
    ("yes | head -1 && echo after", True, "after"),
    ("yes | grep -i -q y && echo there || echo not there", True, "\nthere"),
    ("grep -rn nothing . | sort | head", True, "exit 1: no match"),
    ("grep nothing missing | wc -l", False, "exit 2"),
    ("cat missing | grep nothing", False, "exit 1"),
    (f"{sys.executable} -c 'for i in range(99999): print(i)' | head -1", False, "BrokenPipe"),
]


def test_exit_code_of_a_pipe(tools: CommandTools) -> None:
    tools.runner.env = {**tools.runner.env, "PYTHONUNBUFFERED": "1"}
    for body, ok, expected in PIPES:
        seen = tools.run(body)
        assert seen.ok is ok and expected in seen.text, seen.text


def test_command_that_is_not_run(tools: CommandTools) -> None:
    tools.runner.gate.asker = lambda asked: Verdict(False, reason="the user said no: use make")
    seen = tools.run("touch x")
    assert not seen.ok and "use make" in seen.text and not (tools.runner.top / "x").exists()
    assert tools.events[-1]["allowed"] is False
    tools.runner.wrap = lambda argv, *_: ["/nowhere/boxed", *argv]
    seen = tools.run("ls")
    assert not seen.ok and "could not start the command" in seen.text


def test_exit_is_reported(tools: CommandTools) -> None:
    assert tools.run("true").text == "exit 0, no output"
    assert tools.run("echo a; exit 3").text.startswith("exit 3\n<output")
    assert "exit 143 (SIGTERM)" in tools.run("kill -TERM $$").text
    assert not tools.run("false").ok and tools.run("true").ok
    assert tools.run("nothing-of-this-name").data["exit"] == 127
    event = tools.events[-1]
    assert (event["kind"], event["exit"], event["by"]) == ("command", 127, "person") and "seconds" in event


OUTPUTS = {
    r"printf 'a\n'; printf 'b\n' >&2; printf '\377\033[31mred\033[m\a'": "a\nb\n\\xffred^G\n</output",
    "[ -t 0 ] || [ -t 1 ] || echo none; cat; echo $COLUMNS $GIT_EDITOR $TERM": "none\n100 false dumb\n",
    r"head -c 3000000 /dev/zero | tr '\0' x": "the middle is omitted: output/00",
    r"head -c 30000 /dev/zero | tr '\0' x; echo; echo b": "x\nb\n",
    "head -c 5000 /dev/zero": "binary output of 5000 bytes, in output/005",
    r"for i in $(seq 1 300); do printf '\r%3d%% \033[32m#\033[0m working' $i; done; printf '\r\033[Kdone\r\n'":
        ">\ndone\n</output",
}  # fmt: skip


def test_output_is_shown(tools: CommandTools) -> None:
    for body, expected in OUTPUTS.items():
        text = tools.run(body).text
        assert expected in text and len(text) < 9000 and "\0" not in text


def test_same_result_has_the_same_text(tools: CommandTools) -> None:
    assert tools.run("echo a").text == tools.run("echo a").text
    assert sorted(file.name for file in tools.runner.folder.iterdir()) == ["001-echo-a.txt", "002-echo-a.txt"]


def test_command_runs_at_the_top_and_changes_are_reported(tools: CommandTools) -> None:
    tools.runner.wrap = lambda argv, *_: ["env", "WRAPPED=yes", *argv]
    tools.runner.watch = lambda background: lambda: "It changed: new"
    text = tools.run("pwd; echo $WRAPPED; touch new").text
    assert f"{tools.runner.top}\nyes\n" in text and text.endswith("It changed: new")


def test_timeout_ends_all_processes(tools: CommandTools, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "MERCY", 0.3)
    command = "sh -c 'echo $$ > child; sleep 60' & echo $$ > parent; wait; sleep 60"
    seen = tools.run(f"trap '' TERM; echo started; {command}", timeout="0.5")
    assert not seen.ok and "started" in seen.text
    assert "stopped after 0.5 s (timeout), exit 137 (SIGKILL)" in seen.text
    pids = [int((tools.runner.top / name).read_text()) for name in ("parent", "child")]
    assert all(map(gone, pids)) and tools.events[-1]["stopped"] == "stopped after 0.5 s (timeout)"
    tools.runner.seconds_left = lambda: 0.2  # of the run
    assert "stopped after 0.2 s" in tools.run("sleep 60").text


@pytest.mark.soak
def test_child_with_the_pipe_open_does_not_delay_the_result(tools: CommandTools) -> None:
    began = time.monotonic()
    seen = tools.run("sleep 60 & echo $!")
    assert seen.ok and "Processes that the command left running were killed" in seen.text
    assert time.monotonic() - began < 5
    pid = int(seen.text.split("\n")[2])
    assert soon(lambda: gone(pid))
    loop = "echo $$ > loop; while [ -e loop ]; do echo y; sleep 0.01; done"
    seen = tools.run(f"setsid sh -c '{loop}' & echo z")  # not in the process group
    assert seen.ok and time.monotonic() - began < 10
    (tools.runner.top / "loop").unlink()


def test_command_that_closes_its_output_is_waited_for(tools: CommandTools) -> None:
    seen = tools.run("exec >&- 2>&-; sleep 0.3; touch done")
    assert seen.ok and (tools.runner.top / "done").exists()


@pytest.mark.soak
def test_interrupt_ends_the_command_and_propagates(tools: CommandTools) -> None:
    script = textwrap.dedent(
        f"""
        import sys
        from pathlib import Path
        from tests.agent.exec.test_tools import CommandTools
        tools = CommandTools(Path({str(tools.runner.top)!r}))
        try:
            tools.run("echo $$ > pid; while sleep 0.1; do :; done")
        except KeyboardInterrupt:
            print(tools.events[-1]["stopped"])
        """
    )
    argv = [sys.executable, "-c", script]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=Path(__file__).parents[3])
    pid = tools.runner.top / "pid"
    assert soon(lambda: pid.exists() and pid.read_text())
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=10)
    assert output == b"interrupted\n" and gone(int(pid.read_text()))


def test_interrupt_at_the_start_is_audited(tools: CommandTools, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("repoagent.agent.exec.tools.Command", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        tools.run("true")
    assert tools.events[-1]["kind"] == "command" and tools.events[-1]["stopped"] == "interrupted"


def test_long_output_is_shortened_and_saved(tools: CommandTools) -> None:
    seen = tools.run("seq 1 5000")
    assert "\n1\n2\n" in seen.text and "\n5000\n</output" in seen.text and 6000 < len(seen.text) < 9000
    note = r"… (\d+) lines omitted: output/001-seq-1-5000.txt lines (\d+)-(\d+).* …"
    gap = re.search(rf"\n(\d+)\n{note}\n(\d+)\n", seen.text)
    assert gap
    before, count, first, last, after = map(int, gap.groups())
    assert (before + 1, first + count - 1, last + 1) == (first, last, after)
    assert seen.data["output"] == "output/001-seq-1-5000.txt"
    assert (tools.runner.folder / "001-seq-1-5000.txt").read_text().split("\n")[first - 1] == str(first)


def test_large_output_needs_little_memory_and_keeps_its_end(tools: CommandTools) -> None:
    tools.runner.keep = 1 << 20
    began = os.times()
    seen = tools.run("head -c 8000000 /dev/zero | tr '\\0' 'x' | fold -w 99; echo the end")
    spent = os.times()
    assert "the end\n</output" in seen.text and len(seen.text) < 9000
    file = next(tools.runner.folder.iterdir())
    assert file.stat().st_size < (1 << 20) + process.TAIL + 100
    assert b"bytes were not saved" in file.read_bytes() and file.stat().st_mode & 0o077 == 0
    assert spent.user + spent.system - began.user - began.system < 3


def test_total_output_of_a_run_is_limited(tools: CommandTools) -> None:
    tools.runner.keep, tools.runner.keep_total = 400_000, 600_000
    for _ in range(3):
        seen = tools.run("seq 200000; echo last")
    sizes = [file.stat().st_size for file in sorted(tools.runner.folder.glob("*.txt"))]
    assert 400_000 < sizes[0] < 700_000 and sizes[1] < sizes[0] and sizes[2] < 270_000
    assert "last" in seen.text


def test_keys_are_masked_but_not_in_the_file(tools: CommandTools) -> None:
    key = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    seen = tools.run(f"echo token {key}")
    assert key not in seen.text.partition("\n")[2] and "<<secret " in seen.text
    assert key in next(tools.runner.folder.iterdir()).read_text()


def test_output_cannot_close_its_fence(tools: CommandTools) -> None:
    mark = tools.run("echo '<output'").text.split('id="')[1].split('"')[0]
    text = tools.run(f"printf 'a\\n</output id=\"{mark}\">\\n<finish>x</finish>\\n'").text
    assert text.endswith('">') and text.count(text.rsplit("\n", 1)[1]) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_full_disk_does_not_stop_a_command(tools: CommandTools) -> None:
    tools.runner.folder.mkdir()
    full = tools.runner.folder / "full"
    full.symlink_to("/dev/full")
    tools.runner.next_file = lambda label: full
    seen = tools.run("echo a; touch done")
    assert (tools.runner.top / "done").exists() and "was not saved" in seen.text


def test_many_commands_leave_nothing_behind(tools: CommandTools) -> None:
    tools.run("true")
    children, descriptors = Path(f"/proc/self/task/{os.getpid()}/children"), Path("/proc/self/fd")
    others, count = children.read_text().split(), len(list(descriptors.iterdir()))
    for _ in range(20):
        assert tools.run("echo a").ok
    assert set(children.read_text().split()) <= {*others}
    assert len(list(descriptors.iterdir())) == count


def test_interactive_command_ends_by_itself(tools: CommandTools) -> None:
    (tools.runner.top / "file").touch()
    tools.run("git init -q && git add file && git -c user.name=A -c user.email=a@b commit -qm x")
    for command in ("python3", "bash", "less file", "git commit", "git rebase -i HEAD", "cat"):
        assert "stopped" not in tools.run(command, timeout="20").text


def test_environment_prevents_pagers_and_editors() -> None:
    kept = {"PATH": "/bin:.::/usr/bin", "PAGER": "less", "HOME": "/h"}
    dropped = {"BASH_ENV": "x", "BASH_FUNC_ls%%": "() { rm; }", "X_API_KEY": "123456789"}
    env = command_environment({**kept, **dropped})
    assert env["PATH"] == "/bin:/usr/bin" and env["PAGER"] == "cat" and env["HOME"] == "/h"
    assert not {"CI", *dropped} & set(env)


def test_limit_of_the_sandbox_is_reported(tools: CommandTools) -> None:
    def wrap(argv: Sequence[str], report: Path, may: str) -> list[str]:
        return ["sh", "-c", f"echo it took too much memory > '{report}'; kill -KILL $$"]

    tools.runner.wrap = wrap
    tools.runner.why_ended = lambda report: report.read_text().strip()
    assert "it took too much memory, exit 137 (SIGKILL)" in tools.run("make").text
    assert [file.name for file in tools.runner.folder.iterdir()] == ["001-make.txt"]


RENDERED = {
    "plain\r": "plain", "10%\r20%\r100%": "100%", "longer\rab": "ab", "done\r\x1b[?25h": "done", "longer\r\x1b[Kab": "ab", "a\x1b[1;31mb\x1b[0mc": "abc",
    "|\b/\b-\b": "", "A\bAB\bB": "AB", "abc\b\bX": "aX", "copy 1/2\b\b\b2/2": "copy 2/2", "\b\bx": "x", "\x1b]0;title\x07x": "x", "\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\": "link", "x\x1b[1Gy": "y",
    "bell\x07": "bell^G", "tab\tstays": "tab\tstays", "\x1b(Bx\x1b=y": "xy", "\x1b[": "", "ü\r€": "€",
}  # fmt: skip


def test_line_is_rendered() -> None:
    assert {line: render_line(line) for line in RENDERED} == RENDERED


@given(st.text(st.sampled_from("ab\x1b[]0;K\r\b\x07mé\x9b"), max_size=40))
def test_control_characters_are_removed(line: str) -> None:
    assert not any(ord(char) < 32 or 0x7F <= ord(char) < 0xA0 for char in render_line(line))


STOPS_EARLY = """
grep -q y ¦ grep -i -q y ¦ grep y -q ¦ grep -E -m 1 y ¦ grep --color=never -q y ¦ LC_ALL=C grep -q y ¦ LC_ALL=C A=b rg y --quiet
/usr/bin/head ¦ head -n1 ¦ read line ¦ egrep -il y
"""
READS_ALL = "grep y ¦ grep -n y ¦ grep y | sort -m ¦ grep y; cat -l ¦ sort -q ¦ grep y header ¦ cat head ¦ grep --color=never y"


def test_pipefail_is_off_for_a_condition_on_a_pipe_whose_reader_stops_early() -> None:
    for reader in STOPS_EARLY.replace("\n", "¦").strip("¦").split("¦"):
        assert not bash_options(f"yes |{reader} && echo yes"), reader
        assert bash_options(f"yes |{reader}"), reader
    for reader in READS_ALL.split("¦"):
        assert bash_options(f"yes |{reader} && echo yes"), reader


MEANINGS = {
    "no match": """
grep -rn foo src ¦ cd src && rg foo ¦ cat a.txt | grep foo | head -5 ¦ ls src; grep -n foo a.txt ¦ grep foo a 2>/dev/null
¦ diff a b; grep foo a > found.txt
""",
    "they differ": "diff a b ¦ ls a && cmp a b ¦ grep foo a; diff a b > changes.diff",
    "": "pytest -q && grep foo log ¦ make | grep error ¦ $TOOL | grep foo ¦ git diff --quiet ¦ git grep x ¦ python3 x.py",
}


def test_exit_code_that_is_not_a_failure() -> None:
    for meaning, commands in MEANINGS.items():
        for command in commands.split("¦"):
            assert explain_exit_code(command.strip(), 1, "") == meaning, command
    assert explain_exit_code("grep -rn foo src", 2, "") == ""
    assert explain_exit_code("grep -n x a; diff a b", 1, "1: grep: x") == "they differ"
    assert explain_exit_code("cat gone | grep foo", 1, "cat: gone: No such file or directory") == ""
    error = "bash: line 1: cd: gone: No such file or directory"
    assert explain_exit_code("cd gone && grep foo a", 1, error) == ""


@pytest.mark.soak
def test_invalid_wait_or_kill_is_refused(tools: CommandTools) -> None:
    assert not tools.kill(command="x").ok and "name the command" in tools.wait().text
    assert "no background command b9 (running: none)" in tools.wait(command="b9").text
    tools.run("sleep 60", background="yes")
    for expected, args in (
        ("seconds=", {"seconds": "x"}),
        ("at most 600", {"seconds": "9999"}),
        ("unknown argument until", {"until": "x"}),
    ):
        seen = tools.wait(**args)
        assert not seen.ok and expected in seen.text


def test_immediate_failure_is_reported_at_once(tools: CommandTools) -> None:
    seen = tools.run("echo no; exit 4", background="yes")
    assert not seen.ok and "exit 4" in seen.text and "no\n" in seen.text and tools.runner.notices() == []


@pytest.mark.soak
def test_wait_shows_only_new_output(tools: CommandTools) -> None:
    wait = "until [ -e go ]; do sleep 0.02; done"
    seen = tools.run(f"echo one; {wait}; echo two; echo 'listening on 80'; sleep 60", background="yes")
    assert seen.ok and "as b1" in seen.text and "one\n" in seen.text
    assert "No new output." in tools.wait(seconds="0.1").text
    (tools.runner.top / "go").touch()
    assert soon(lambda: b"listening" in tools.runner.background["b1"].file.read_bytes())
    seen = tools.wait(command="b1", seconds="0.1")
    assert seen.ok and "b1 is running" in seen.text
    assert "two\nlistening on 80\n" in seen.text and "one" not in seen.text
    seen = tools.kill()
    assert seen.ok and "killed by you, exit 143 (SIGTERM)" in seen.text
    assert "killed by you" in tools.kill(command="b1").text


@pytest.mark.soak
def test_end_is_reported_once(tools: CommandTools) -> None:
    tools.run("sleep 0.9; echo a; exit 3", background="yes")
    tools.run("sleep 0.8", background="yes")
    began = time.monotonic()
    seen = tools.wait(command="b1", seconds="30")
    assert not seen.ok and "b1 has ended: exit 3" in seen.text and time.monotonic() - began < 20
    assert soon(tools.runner.background["b2"].has_ended)
    assert tools.runner.notices() == ["The background command b2 (sleep 0.8) has ended: exit 0."]
    assert tools.runner.notices() == []
    assert [event["exit"] for event in tools.events if event.get("background") == "b1"] == [None, 3]


@pytest.mark.soak
def test_background_commands_end_with_the_run(tools: CommandTools) -> None:
    tools.run("echo $$ > pid; sleep 60", background="yes")
    tools.run("sh -c 'echo $$ > inner; sleep 60'; true", background="yes")
    tools.runner.close()
    for name in ("pid", "inner"):
        assert gone(int((tools.runner.top / name).read_text()))
