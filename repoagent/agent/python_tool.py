"""The `python` tool: cells of code in a Jupyter kernel, which keeps variables from one cell to the next."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import field
from importlib.util import find_spec
from pathlib import Path

from repoagent.agent.actions import Action, Observation
from repoagent.agent.approvals.policy import ApprovalRequest
from repoagent.agent.exec.process import OutputFile
from repoagent.agent.exec.render_output import show_output
from repoagent.agent.exec.tools import NOTICEABLE, CommandRunner
from repoagent.agent.kernel import Kernel, withheld_inodes
from repoagent.agent.state import Tool, check_arguments, report_usage_errors, switched_on
from repoagent.dataclass import dataclass
from repoagent.errors import UsageError
from repoagent.llm.model import fence

LONGEST = 400_000  # bytes of one cell
_TEXT = (
    "<python>CODE</python> runs it in a Python kernel that keeps its variables, and shows what it "
    'prints and the value of its last line; restart="yes" starts over.'
)


@dataclass
class KernelSession:
    """The kernel of one run, which is started when it is needed.

    runner: runs the kernel, as it runs commands.
    scratch: a writable folder for sockets.
    python: the path of the interpreter.
    """

    runner: CommandRunner
    scratch: Path
    python: str
    kernel: Kernel | None = None
    ended: str = field(default="", init=False)  # how the last one ended, until it is reported

    def close(self) -> None:
        kernel, self.kernel = self.kernel, None
        if kernel is not None:
            kernel.close()

    def tool(self) -> Tool:
        return Tool("python", _TEXT, report_usage_errors("python", self._perform))

    def _ready(self) -> tuple[Kernel, str]:
        """The kernel, and a note if it is a new one. Raises UsageError if it cannot be started."""
        self._close_ended()
        if self.kernel is not None and self.kernel.withheld is not None:
            # files cannot be hidden from a running kernel
            withheld = withheld_inodes(self.runner).items()
            if new := sorted(path for path, _ in withheld - self.kernel.withheld.items()):
                self.close()
                names = ", ".join(map(repr, new[:3]))
                self.ended = f"files hidden from the model have changed ({names})."
        if self.kernel is not None:
            return self.kernel, ""
        self.kernel = Kernel(self.runner, self.python, self.scratch)
        ended, self.ended = self.ended, ""
        note = f"In a new kernel ({self.python})."
        return self.kernel, f"{note} The previous kernel had ended: {ended}" if ended else note

    def _close_ended(self) -> None:
        """Close a kernel that has ended by itself."""
        if self.kernel is not None and self.kernel.has_ended():
            self.ended = self.kernel.last_words()
            self.close()

    def _perform(self, action: Action) -> Observation:
        code, runner = action.body, self.runner
        restart = switched_on(action, "restart")
        check_arguments(action, ("timeout", "restart"))
        seconds = runner.time_limit(action)
        if not code.strip():
            if not restart:
                raise UsageError("no code: use <python>print(1)</python>")
            self.close()
            return Observation("python", "The kernel was ended; the next call starts a new one.")
        if "\0" in code or len(code.encode("utf-8", "surrogatepass")) > LONGEST:
            raise UsageError(f"code must be text of at most {LONGEST} bytes; write longer input to a file.")
        verdict = runner.gate.decide(ApprovalRequest("python", code))
        if not verdict.allowed:
            return Observation("python", f"This code was not run: {verdict.reason}", ok=False)
        if restart:
            self.close()
        look_again = runner.look()
        with runner.reporting(look_again):
            kernel, note = self._ready()
            try:
                file = runner.next_file("python")
                output = OutputFile(file, runner.remaining_bytes())
            except OSError as error:
                raise UsageError(f"could not create a file for the output: {error}") from error
            event = {"kind": "python", "code": code, "by": verdict.by, "output": file.name}
            try:
                with closing(output):
                    cell = kernel.execute(code, seconds, output)
            except BaseException:
                self.close()
                runner.audit({**event, "how": "interrupted"})
                raise
        runner.audit({**event, "how": cell.ending, "seconds": round(cell.seconds, 3)})
        shown, _ = show_output(file, runner.shown_as(file), runner.budget)

        if cell.ending == "done":
            status = "done" if shown else "done, no output"
        elif cell.ending == "raised":
            status = f"it raised {cell.error}" if cell.error else "it failed"
        elif cell.ending == "interrupted":
            status = f"stopped after {seconds:g} s (timeout); the kernel and its variables are kept"
        else:
            self._close_ended()
            ended, self.ended = self.ended, ""
            status = f"the kernel has ended: {ended}\nIts variables are gone; the next call starts a new one"
        if cell.seconds >= NOTICEABLE and cell.ending in {"done", "raised"}:
            status += f", {cell.seconds:.0f} s"
        parts = [note, status, fence(shown, "output") if shown else ""]
        if output.write_error:
            parts.append(f"Some of the output was not saved: {output.write_error}.")
        parts.append(look_again().strip())
        data = {"how": cell.ending, "seconds": round(cell.seconds, 3), "output": runner.shown_as(file)}
        data |= {"error": cell.error} if cell.error else {}
        text = "\n".join(filter(None, parts))
        return Observation("python", text, ok=cell.ending == "done", blocks=False, data=data)


def find_interpreter(top: Path, env: Mapping[str, str], *, confined: bool) -> str | None:
    """The path of the Python interpreter for kernels; None if the `python` extra is not installed.

    The first environment with ipykernel: the active one (VIRTUAL_ENV in `env`), then `.venv` and `venv` in the work
    tree `top`; otherwise the Python that runs repoagent. An environment in the work tree is repository content: unless
    it is active, it is used only if the kernel will be `confined`.
    """
    if not all(map(find_spec, ("jupyter_client", "zmq"))):
        return None
    active = env.get("VIRTUAL_ENV", "")
    environments = [Path(active)] if active.startswith("/") else []
    environments += [top / ".venv", top / "venv"] if confined else []
    for environment in environments:
        python = environment / "bin" / "python"
        kernels = environment.glob("lib/python3*/site-packages/ipykernel/kernelapp.py")
        if os.access(python, os.X_OK) and any(kernels):
            return str(python)
    return sys.executable if find_spec("ipykernel") else None
