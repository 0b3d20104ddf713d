"""The kernel: a process like that of a command, in the same sandbox, and the sockets by which it is spoken to."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.resources import files
from pathlib import Path

from repoagent.agent.approval.asked import May
from repoagent.agent.commands.environment import environment
from repoagent.agent.commands.running import Command, Job, start
from repoagent.agent.commands.screen import drawn
from repoagent.agent.commands.shop import Shop
from repoagent.agent.kernel.wire import CONNECTION, Wire, connection
from repoagent.dataclass import dataclass
from repoagent.errors import UsageError
from repoagent.llm.quoting import fence

START = 60.0  # seconds that a kernel has to answer for the first time
_ASK_AGAIN = 0.25
_LOG = 1024 * 1024  # bytes of what it prints beside its cells
_TOLD = 1_000  # characters of the end of it that are told when it has died


@dataclass
class Kernel:
    """One that runs, or has run. `version` is that of its Python, as it says; `withheld`: the files that it does not
    see, which are those of its beginning; None where it may see all."""

    command: Command
    wire: Wire
    folder: Path
    version: str = ""
    withheld: Mapping[str, int] | None = None

    def interrupt(self) -> None:
        """What ^C does at a terminal: KeyboardInterrupt in the code, and a signal to what it has started."""
        try:
            os.killpg(self.command.process.pid, signal.SIGINT)
        except ProcessLookupError:
            pass

    def has_ended(self) -> bool:
        return self.command.process.poll() is not None

    def listen_again(self) -> None:
        """Take up what it announces where a message that was too long has ended that. Raises UsageError."""
        self.wire.listen()
        _answered(self, START)

    def last_words(self) -> str:
        """How it ended, and the end of what it printed to say why."""
        self.command.wait(2.0)
        tail = self.command.file.read_bytes()[-4 * _TOLD :].decode("utf-8", "replace").strip()[-_TOLD:]
        shown = "\n".join(map(drawn, tail.split("\n")))
        return f"{self.command.how()}." + (f"\n{fence(shown, 'log')}" if shown else "")

    def close(self) -> None:
        """End it, and take away its files."""
        self.wire.close()
        if not self.command.has_ended():
            self.command.end()
        for file in (self.command.file, self.command.file.with_suffix(".why")):
            file.unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)


def start_kernel(shop: Shop, python: str, scratch: Path, seconds: float) -> Kernel:
    """Start a kernel and wait, for at most `seconds`, until it answers. Raises UsageError when it does not."""
    try:
        shop.folder.mkdir(parents=True, exist_ok=True)
        scratch.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="kernel-", dir=scratch))
        key = connection(folder)
        text = (files("repoagent.agent.kernel") / "boot.py").read_text(encoding="utf-8")
        argv = [python, "-c", text, CONNECTION, str(shop.top)]
        may: May = "shown" if shop.gate.mode == "auto" else "all"
        withheld = withheld_now(shop) if may != "all" else None
        command = _started(shop, argv, folder, may)
    except OSError as error:
        raise UsageError(f"the Python kernel could not be started: {error}") from error
    kernel = Kernel(command, Wire(folder, key), folder, withheld=withheld)
    try:
        kernel.version = _answered(kernel, seconds)
    except BaseException:
        kernel.close()
        raise
    return kernel


def withheld_now(shop: Shop) -> dict[str, int]:
    """The files that no model is to see, and which file each is: what covers one goes when another replaces it."""
    found = {}
    for path in shop.gate.withheld():
        with suppress(OSError):
            found[path] = os.lstat(f"{shop.top}/{path}").st_ino
    return found


def _started(shop: Shop, argv: Sequence[str], folder: Path, may: May) -> Command:
    own = {
        "IPYTHONDIR": str(folder / "ipython"),  # nobody's own profile, with what it runs at each start
        "JUPYTER_CONFIG_DIR": str(folder / "config"),
        "JUPYTER_DATA_DIR": str(folder / "data"),
        "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
        "JUPYTER_NO_CONFIG": "1",
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    }
    log = shop.folder / f".{folder.name}.log"  # where what runs in it can't write
    env = environment(shop.env) | own | (dict(shop.unshown()) if may != "all" else {})
    job = Job("python kernel", folder, may=may)
    report = log.with_suffix(".why")
    command = start(job, shop.wrap(argv, report, may), log, env, _LOG)
    command.why = lambda: _why(shop, report)
    return command


def _why(shop: Shop, report: Path) -> str | None:
    said = shop.why_ended(report)
    report.unlink(missing_ok=True)
    return said


def _answered(kernel: Kernel, seconds: float) -> str:
    """Wait for an answer, and until what it announces is heard too; the version of its Python."""
    began, asked = time.monotonic(), 0.0
    version, heard = "", False
    while not (version and heard):
        if kernel.has_ended():
            raise UsageError(f"the Python kernel could not be started: {kernel.last_words()}")
        now = time.monotonic()
        if now - began > seconds:
            raise UsageError(f"the Python kernel did not answer within {seconds:g} s.")
        if now - asked > _ASK_AGAIN:
            kernel.wire.ask("kernel_info_request", {})
            asked = now
        for message in kernel.wire.messages(0.05):
            heard = heard or message.public
            if message.kind == "kernel_info_reply":
                language = message.content.get("language_info")
                found = language.get("version") if isinstance(language, dict) else None
                version = drawn(str(found or "?").partition("\n")[0])[:20]
    return version
