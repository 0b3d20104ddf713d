"""Code in a kernel: refused calls, its state between calls, how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from repoagent.agent.actions import Action, Observation
from repoagent.agent.approvals.policy import Gate, Verdict
from repoagent.agent.approvals.rules import HiddenFiles
from repoagent.agent.exec.process import TAIL, OutputFile
from repoagent.agent.exec.tools import CommandRunner
from repoagent.agent.kernel import CONNECTION, LARGEST, Cell
from repoagent.agent.python_tool import KernelSession, find_interpreter
from repoagent.agent.sandbox.confine import Sandbox, find_sandbox, unconfined_command, why_ended
from repoagent.agent.sandbox.launch.syscalls import landlock_abi
from repoagent.agent.sandbox.policy import Policy, scrub_environment
from tests.llm.helpers import gone, soon


class PythonTool:
    """The tool of a session, called as the loop calls it, and the audited events."""

    def __init__(self, base: Path, sandbox: Sandbox | None = None, **limits: int) -> None:
        self.events: list[Mapping[str, object]] = []
        self.top, self.scratch = base / "top", base / "scratch"
        self.top.mkdir(exist_ok=True)
        policy = Policy(self.top, self.scratch, memory=limits.get("memory"))

        def wrap(argv: object, report: Path | None = None, may: str = "all") -> list[str]:
            return (sandbox.wrap if sandbox else unconfined_command)(argv, policy, report)

        audit = self.events.append
        gate = Gate("ask", lambda asked: Verdict(True), audit=audit, sandbox=sandbox.name if sandbox else "")
        env = scrub_environment(os.environ, policy)
        env.pop("PYTEST_CURRENT_TEST", None)  # if set, ipykernel does not capture the output of programs
        output = base / "output"
        self.runner = CommandRunner(self.top, output, env, gate, wrap=wrap, why_ended=why_ended, audit=audit)
        self.session = KernelSession(self.runner, self.scratch, sys.executable)
        self.tool = self.session.tool()

    def run(self, code: str, **args: str) -> Observation:
        return self.tool.perform(Action("python", args, code))


@pytest.fixture
def python(tmp_path: Path) -> Iterator[PythonTool]:
    python = PythonTool(tmp_path)
    with closing(python.session):
        yield python


def test_invalid_call_starts_nothing(python: PythonTool) -> None:
    for code, args, expected in (
        ("", {}, "no code: use"),
        ("1\0", {}, "text of at most"),
        ("#" * 400_001, {}, "text of at most"),
        ("1", {"timeout": "soon"}, "number of seconds"),
        ("1", {"timeout": "99999"}, "at most 3600"),
        ("1", {"cwd": "src"}, "unknown argument cwd"),
    ):
        seen = python.run(code, **args)
        assert not seen.ok and expected in seen.text
    assert python.session.kernel is None and not python.events


def test_kernel_that_does_not_start(python: PythonTool) -> None:
    python.session.python = "/bin/false"
    python.runner.watch = lambda background: lambda: "It changed a.txt."
    seen = python.run("1")
    assert not seen.ok and "could not start the Python kernel: exit 1" in seen.text
    assert seen.text.endswith("It changed a.txt.")
    assert not list(python.scratch.iterdir()) and python.session.kernel is None
    python.runner.gate.asker = lambda asked: Verdict(False, reason="not today")
    seen = python.run("open('x', 'w')")
    assert not seen.ok and "not today" in seen.text and python.session.kernel is None
    assert (python.events[-1]["of"], python.events[-1]["allowed"]) == ("python", False)


@pytest.mark.soak
def test_life_of_a_kernel(python: PythonTool) -> None:
    asked: list[str] = []
    python.runner.gate.asker = lambda request: asked.append(request.what) or Verdict(True)
    python.runner.watch = lambda background: lambda: "It changed a.txt."
    (python.top / "json.py").write_text("raise ImportError('not the right one')")
    first = python.run("import os, sys\nx = 20\nprint('out')\nprint('err', file=sys.stderr)\nx + 1")
    assert first.ok and first.text.startswith("In a new kernel (/")
    assert "out\nerr\n21" in first.text and first.text.endswith("It changed a.txt.")

    where = f"os.getcwd() == os.environ['PWD'] == {str(python.top)!r}"
    again = python.run(f"os.system('echo below'); print(x, {where})")
    assert "below" in again.text and "20 True" in again.text and "new kernel" not in again.text
    failed = python.run("def f():\n    return 1 / 0\nf()")
    assert not failed.ok and "it raised ZeroDivisionError" in failed.text and "return 1 / 0" in failed.text
    assert "\x1b" not in failed.text and failed.data["error"] == "ZeroDivisionError"
    assert "raw_input was called" in python.run("input()").text

    stopped = python.run("import time\nwhile True: time.sleep(0.01)", timeout="0.3")
    assert not stopped.ok and "stopped after 0.3 s (timeout)" in stopped.text
    assert "the kernel and its variables are kept" in stopped.text
    python.run("import threading\nthreading.Timer(0.15, print, ['from a thread']).start()")
    assert "from a thread" in python.run("time.sleep(0.4)").text

    long = python.run("for i in range(3000): print('line', i)")
    assert len(long.text) < 9_500 and "line 2999" in long.text and f"{long.data['output']} lines" in long.text
    html = "from IPython.display import HTML\nHTML('<b>')"
    assert "<IPython.core.display.HTML object>" in python.run(html).text
    assert "input()" in asked and html in asked

    died = python.run("os._exit(3)")
    assert not died.ok and "the kernel has ended: exit 3" in died.text and "variables are gone" in died.text
    fresh = python.run("'x' in globals()")
    assert "In a new kernel" in fresh.text and "\nFalse\n" in fresh.text
    assert python.session.kernel is not None
    process = python.session.kernel.command.process
    assert python.run("", restart="yes").ok and process.poll() is not None
    assert not list(python.scratch.iterdir()) and not list(python.runner.folder.glob(".*"))
    kinds = [event["how"] for event in python.events if event["kind"] == "python"]
    assert kinds.count("interrupted") == 1 and kinds.count("died") == 1


def test_choice_of_the_interpreter(tmp_path: Path) -> None:
    def environment(name: str) -> str:
        folder = tmp_path / name
        (folder / "bin").mkdir(parents=True)
        (folder / "bin" / "python").symlink_to(sys.executable)
        package = folder / "lib" / "python3.9" / "site-packages" / "ipykernel"
        package.mkdir(parents=True)
        (package / "kernelapp.py").touch()
        return str(folder / "bin" / "python")

    top = tmp_path / "top"
    assert find_interpreter(top, {}, confined=True) == sys.executable
    own = environment("top/.venv")
    assert find_interpreter(top, {}, confined=True) == own
    # a file of the repository is not trusted
    assert find_interpreter(top, {}, confined=False) == sys.executable
    assert find_interpreter(top, {"VIRTUAL_ENV": str(top / ".venv")}, confined=False) == own
    active = environment("active")
    assert find_interpreter(top, {"VIRTUAL_ENV": str(tmp_path / "active")}, confined=True) == active
    assert find_interpreter(top, {"VIRTUAL_ENV": "top/.venv"}, confined=False) == sys.executable


def message(kind: str, content: object) -> dict[str, object]:
    return {"msg_type": kind, "content": content, "parent_header": {"msg_id": "us"}}


def test_output_is_limited_and_keeps_its_end(tmp_path: Path) -> None:
    run = Cell("us", OutputFile(tmp_path / "o", 10))
    for text in ("12345", "6789012345", "lost", "x" * TAIL):
        run.handle(message("stream", {"text": text}))
    run.handle(message("error", {"ename": "E", "traceback": ["the error"]}))
    run.output.close()
    start, end = "1234567890\n[… 20 bytes were not saved …]\n", "\nthe error\n"
    assert (tmp_path / "o").read_text() == start + "x" * (TAIL - len(end)) + end


INVALID: list[object] = [
    {}, None, {"text": 5}, {"data": []}, {"data": {"text/plain": {}}}, {"data": {"image/png": "x" * 999}},
    {"traceback": "no list", "ename": None}, {"traceback": [{}], "ename": "\ud800"}, {"payload": [5, {"source": "page"}]},
    {"status": ["ok"], "execution_state": {}},
]  # fmt: skip


def test_invalid_message_is_ignored(tmp_path: Path) -> None:
    kinds = ("stream", "execute_result", "display_data", "error", "status", "execute_reply", "comm_open", "")
    for content in INVALID:
        output = OutputFile(tmp_path / "o", 1000)
        for kind in kinds:
            Cell("us", output).handle(message(kind, content))
        output.close()
        assert (tmp_path / "o").stat().st_size < 500, content
        (tmp_path / "o").unlink()


@pytest.mark.soak
def test_unresponsive_and_noisy_code(tmp_path: Path) -> None:
    base = tmp_path / ("long" * 30)  # too long for the path of a socket
    base.mkdir()
    python = PythonTool(base, memory=400 * 2**20)
    with closing(python.session):
        code = "import time\nwhile True:\n try: time.sleep(9)\n except BaseException: pass"
        deaf = python.run(code, timeout="0.5")
        assert not deaf.ok and "the kernel has ended: stopped after 0.5 s (timeout)" in deaf.text
        loud = python.run(f"print('y' * {LARGEST + 9})")
        assert not loud.ok and "stopped because its output was too long" in loud.text
        assert "line 199999" in python.run("for i in range(200_000): print('line', i)").text
        child = python.run("import subprocess\nsubprocess.run(['sleep', '60'])", timeout="0.5")
        assert "are kept" in child.text
        greedy = python.run("b = bytearray(500 * 2**20)\nimport time\ntime.sleep(3)")
        assert "more than 400 MB of memory" in greedy.text


SANDBOXES = [found for found in (find_sandbox(), Sandbox() if landlock_abi() else None) if found]


@pytest.mark.soak
@pytest.mark.parametrize("sandbox", SANDBOXES, ids=lambda one: one.name)
def test_kernel_is_confined(tmp_path: Path, sandbox: Sandbox) -> None:
    python = PythonTool(tmp_path, sandbox)
    with closing(python.session):
        assert python.run("open('inside', 'w').write('x')").ok
        assert python.run(f"open({str(tmp_path / 'outside')!r}, 'w')").ok  # in its own /tmp
        assert not (tmp_path / "outside").exists()
        outside = python.run("open('/usr/repoagent-was-here', 'w')")
        assert not outside.ok and "Read-only file system" in outside.text
        net = python.run("import socket\nsocket.create_connection(('1.1.1.1', 53), timeout=2)")
        assert not net.ok and "unreachable" in net.text
        assert "stopped after 0.5 s" in python.run("while True: pass", timeout="0.5").text
        assert "kept" in python.run("import time; time.sleep(9)", timeout="0.5").text
    assert (python.top / "inside").read_text() == "x"


@pytest.mark.soak
def test_kernel_ends_with_its_parent(tmp_path: Path) -> None:
    program = textwrap.dedent("""
        import os, signal, sys
        from pathlib import Path
        from tests.agent.test_python_tool import PythonTool
        python = PythonTool(Path(sys.argv[1]))
        print(python.run("import os; os.getpid()").text, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    argv = [sys.executable, "-c", program, str(tmp_path)]
    found = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert found.returncode == -signal.SIGKILL
    pid = int(next(line for line in found.stdout.splitlines() if line.isdecimal()))
    assert soon(lambda: gone(pid))


@pytest.mark.soak
def test_interrupt_of_the_user_ends_the_kernel(python: PythonTool) -> None:
    python.run("x = 1")
    threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGINT]).start()
    with pytest.raises(KeyboardInterrupt):
        python.run("import time; time.sleep(30)")
    assert python.session.kernel is None and python.events[-1]["how"] == "interrupted"
    assert not any((folder / CONNECTION).exists() for folder in python.scratch.iterdir())


@pytest.mark.soak
def test_new_hidden_file_ends_the_kernel(python: PythonTool) -> None:
    python.runner.gate.mode, python.runner.gate.sandbox = "auto", "pretended"
    (python.top / "old.env").write_text("x")
    hidden = python.top.glob
    python.runner.gate.hidden = HiddenFiles(withheld=lambda: {path.name: "" for path in hidden("*.env")})
    python.run("x = 1")
    assert python.run("x").text.startswith("done")
    (python.top / "new.env").write_text("x")
    seen = python.run("x")
    assert not seen.ok and "had ended: files hidden from the model have changed ('new.env')" in seen.text
    python.run("x = 1")
    (python.top / "saved").write_text("y")
    (python.top / "saved").rename(python.top / "old.env")
    assert "'old.env'" in python.run("x").text
    (python.top / "old.env").unlink()
    assert "new kernel" not in python.run("1").text
