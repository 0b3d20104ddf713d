"""The tool `python`, the session of its kernel, and which interpreter it uses: the project's own where possible."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from repoagent.agent.actions import Action, Observation
from repoagent.agent.approvals.policy import ApprovalRequest
from repoagent.agent.exec.command_runner import CommandRunner
from repoagent.agent.state import Tool, failing
from repoagent.dataclass import dataclass
from repoagent.errors import UsageError
from repoagent.llm.model import fence

if TYPE_CHECKING:
    from repoagent.agent.exec.output import Shown
    from repoagent.agent.kernel_client import Cell, Kernel

LONGEST = 400_000  # bytes of one cell
NOTICEABLE = 2.0  # seconds: of a shorter cell the time is not said, so that the same result reads the same
LOST_STATE = "The Python kernel of before has ended: what its cells had defined is gone."
_YES = {"yes", "true", "1", "on"}


@dataclass
class KernelSession:
    """Where the kernel of one run lives: none yet, one, or one that has ended.

    shop: how commands are run; kernels are run in the same way. scratch: a folder that it may write to, for its
    sockets. python: the path of the interpreter. earlier: an earlier process of this run had a kernel.
    """

    runner: CommandRunner
    scratch: Path
    python: str
    earlier: bool = False
    kernel: Kernel | None = None
    ended: str = field(default="", init=False)  # how the last one ended, until it is reported

    def notices(self) -> list[str]:
        """What a model has to know before its next call."""
        if not self.earlier:
            return []
        self.earlier = False
        return [LOST_STATE]

    def ready(self) -> tuple[Kernel, str]:
        """The kernel, and a note if it is a new one. Raises UsageError if it cannot be started."""
        from repoagent.agent.kernel_client import START, start_kernel, withheld_inodes

        self.look()
        if self.kernel is not None and self.kernel.withheld is not None:
            # nothing can be covered any more while it runs
            hidden = withheld_inodes(self.runner).items()
            if new := sorted(path for path, _ in hidden - self.kernel.withheld.items()):
                self.close()
                self.ended = (
                    f"{', '.join(map(repr, new[:3]))} was written since, and is hidden from the model."
                )
        if self.kernel is not None:
            return self.kernel, ""
        self.kernel = start_kernel(self.runner, self.python, self.scratch, self.runner.within_run(START))
        head = f"In a new kernel (Python {self.kernel.version}, {self.python})."
        if self.ended:
            head += f" The previous one had ended: {self.ended}"
            self.ended = ""
        return self.kernel, head

    def look(self) -> None:
        """Take note of a kernel that has ended by itself."""
        if self.kernel is not None and self.kernel.has_ended():
            self.ended = self.kernel.last_words()
            self.close()

    def close(self) -> None:
        """End the kernel, if there is one."""
        kernel, self.kernel = self.kernel, None
        if kernel is not None:
            kernel.close()


def python_tool(session: KernelSession) -> Tool:
    """The tool for the kernel of `session`."""

    text = (
        "<python>CODE</python> runs it in a Python kernel that keeps its variables, and shows what it "
        'prints and the value of its last line; restart="yes" starts over.'
    )
    return Tool("python", text, failing("python", lambda action: _perform(session, action)))


def _perform(session: KernelSession, action: Action) -> Observation:
    code, restart = action.body, action.args.get("restart", "no").strip().lower() in _YES
    if unknown := set(action.args) - {"timeout", "restart"}:
        raise UsageError(f"unknown argument {min(unknown)}: python takes timeout and restart.")
    seconds = session.runner.time_limit(action.args.get("timeout", ""))
    if not code.strip():
        if not restart:
            raise UsageError("no code: use <python>print(1)</python>")
        session.close()
        return Observation("python", "The kernel was ended; the next call starts a new one.")
    if "\0" in code or len(code.encode("utf-8", "surrogatepass")) > LONGEST:
        raise UsageError(f"code must be text of at most {LONGEST} bytes; write longer input to a file.")
    verdict = session.runner.gate.decide(ApprovalRequest("python", code))
    if not verdict.allowed:
        return Observation("python", f"This code was not run: {verdict.reason}", ok=False)
    from repoagent.agent.exec.output import show
    from repoagent.agent.kernel_client import Output, execute

    if restart:
        session.close()
    look_again = session.runner.look()
    kernel, head = session.ready()
    try:
        file = session.runner.next_file("python")
    except OSError as error:
        raise UsageError(f"could not create a file for the output: {error}") from error
    record = {"kind": "python", "code": code, "by": verdict.by, "output": file.name}
    try:
        with Output(file, session.runner.remaining_bytes()) as output:
            cell = execute(kernel, code, seconds, output)
        if cell.lost:
            kernel.listen_again()
    except BaseException:
        session.close()
        session.runner.audit({**record, "how": "interrupted"})
        raise
    session.runner.audit({**record, "how": cell.ending, "seconds": round(cell.seconds, 3)})
    how = _how(session, cell, seconds)
    shown = show(file, session.runner.shown_as(file), session.runner.budget)
    further = (look_again(), session.runner.explain(shown.text))
    text = _report(cell, how, shown, [head, output.trouble, "\n".join(filter(None, further))])
    return Observation(
        "python",
        text,
        ok=cell.ending == "done",
        blocks=False,
        data={
            "how": cell.ending,
            "seconds": round(cell.seconds, 3),
            "output": session.runner.shown_as(file),
            **({"error": cell.error} if cell.error else {}),
        },
    )


def _how(session: KernelSession, cell: Cell, seconds: float) -> str:
    """How a cell has ended, in words; a kernel that went with it is taken leave of."""
    if cell.ending == "done":
        return "done"
    if cell.ending == "raised":
        return f"it raised {cell.error}" if cell.error else "it failed"
    if cell.ending == "interrupted":
        return f"stopped after {seconds:g} s (timeout); the kernel and its variables are kept"
    session.look()
    ended, session.ended = session.ended, ""
    return f"the kernel has ended: {ended}\nIts variables are gone; the next call starts a new one"


def _report(cell: Cell, how: str, shown: Shown, further: list[str]) -> str:
    start, trouble, changed = further
    took = (
        f", {cell.seconds:.0f} s" if cell.seconds >= NOTICEABLE and cell.ending in {"done", "raised"} else ""
    )
    head = f"{how}{took}" + ("" if shown.text else ", no output" if cell.ending == "done" else "")
    lost = (
        cell.lost and "Some of its output is missing: it was too long, or came too fast. Write it to a file."
    )
    unsaved = trouble and f"Some of the output was not saved: {trouble}."
    output = fence(shown.text, "output") if shown.text else ""
    return "\n".join(filter(None, [start, head, output, lost or "", unsaved, changed.strip()]))


_NEEDED = ("jupyter_client", "zmq")  # in the Python that speaks with it


def interpreter(top: Path, env: Mapping[str, str], *, confined: bool) -> str | None:
    """The path of the Python that kernels are started with; None where the extra `python` is missing.

    First the virtual environment that is active (VIRTUAL_ENV in `env`), then `.venv` and `venv` in the work tree `top`,
    as long as ipykernel is installed there; else our own Python. An environment in the work tree is repository
    content: unless it is active, it is used only if it will be `confined`.
    """
    if not all(map(_is_installed, _NEEDED)):
        return None
    active = env.get("VIRTUAL_ENV", "")
    environments = [Path(active)] if active.startswith("/") else []
    environments += [top / ".venv", top / "venv"] if confined else []
    for environment in environments:
        python = environment / "bin" / "python"
        if os.access(python, os.X_OK) and any(
            environment.glob("lib/python3*/site-packages/ipykernel/kernelapp.py")
        ):
            return str(python)
    return sys.executable if _is_installed("ipykernel") else None


def _is_installed(module: str) -> bool:
    return find_spec(module) is not None
