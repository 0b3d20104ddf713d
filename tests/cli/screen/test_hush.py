"""The echo of the terminal is turned on again, however the program ends."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.cli.screens import Screen, python

HEAD = """
import os, signal, sys
from repoagent.cli import listen
from repoagent.cli.ui.echo import collect, echo_off, typed
from repoagent.cli.ui.terminal import Terminal
terminal = Terminal.open()
listen()
def say(text):
    print(text, flush=True)
with echo_off(terminal):
    say("quiet")
"""
WAIT = "    signal.pause()\n"


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, None])
def test_the_terminal_is_restored_after_every_exit(tmp_path: Path, end: int | None) -> None:
    with Screen(python(HEAD + (WAIT if end else "    raise ValueError")), tmp_path) as window:
        window.expect("quiet")
        if end:
            assert not window.echoes
            os.kill(window.process.pid, end)
        assert window.end() != 0 and window.echoes


def test_the_terminal_is_restored_for_the_shell_after_ctrl_z(tmp_path: Path) -> None:
    child = """
pid = os.fork()
if pid:
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    os.waitpid(pid, os.WUNTRACED)
    os.tcsetpgrp(0, os.getpgrp())
    say("stopped")
    sys.stdin.readline()
    os.tcsetpgrp(0, pid)
    os.kill(pid, signal.SIGCONT)
    os.waitpid(pid, 0)
    say("over")
    os._exit(0)
os.setpgid(0, 0)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
os.tcsetpgrp(0, os.getpid())
"""
    code = HEAD.replace("with echo_off", f"{child}with echo_off")
    code += """
    os.kill(os.getpid(), signal.SIGTSTP)
    try:
        say("here again")
        while True:
            collect()
    except KeyboardInterrupt:
        say(f"had {len(typed())}")
"""
    with Screen(python(code), tmp_path) as window:
        window.expect("stopped")
        assert window.echoes
        window.send("\n")
        window.expect("here again")
        assert not window.echoes
        window.send("x" * 9000 + "\x03")  # which drops nothing
        window.expect("had 9000")
        window.expect("over")
        assert window.echoes


def test_a_question_is_echoed_and_earlier_input_does_not_answer_it(tmp_path: Path) -> None:
    code = f"""{HEAD}
    os.read(os.open("go", os.O_RDONLY), 1)
    say(terminal.ask("Really", {{"y": "yes", "n": "no"}}))
    say(f"had {{typed()!r}}")
"""
    os.mkfifo(tmp_path / "go")
    with Screen(python(code), tmp_path) as window:
        window.expect("quiet")
        window.send("y\rmore" + "z" * 3000)
        (tmp_path / "go").write_text("x")
        assert "more" not in window.expect("[y,n,?]? ")
        assert window.echoes
        window.send("n\n")
        window.expect("n\nn\n")
        window.expect("had 'y\\nmorezz")
        assert window.end() == 0 and window.echoes
