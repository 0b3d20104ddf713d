"""Run the user's `--check` command on the changed work tree."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.repo import WorkTree
from repoagent.store.secrets import without_secrets

TIMEOUT = 1800.0  # seconds, where `check.timeout` sets no other limit
OUTPUT_LIMIT = 8 * 1024  # what a model is shown of a failing check, in bytes
KEPT = 1024 * 1024  # bytes of the output that are kept, and the end of what is longer
UNCONFINED = (
    "It ran in the sandbox, which has no network and can't write outside of the work tree: if that is the cause, "
    "use --check-unconfined or set check.unconfined in your own configuration."
)
# What programs print where they miss the network or may not write: in the words of libc, Python, Node, Go, Java, Rust.
_MISSED = re.compile(
    rb"read-only file system|permission denied|operation not permitted|network is (unreachable|down)|\bEROFS\b"
    rb"|\bEACCES\b|\bEPERM\b|\bENETUNREACH\b|\bEAI_AGAIN\b|\bENOTFOUND\b|could not resolve|couldn't resolve"
    rb"|name resolution|name or service not known|no such host|unknown ?host|failed to lookup address"
    rb"|getaddrinfo|connection refused|connect(ion)? timed out|\boffline\b|no route to host"
    rb"|address family not supported|socket: not allowed",
    re.IGNORECASE,
)

# From a work tree, a scratch folder and a command to what is run instead of it and its environment; None where no
# sandbox works.
Confine = Callable[[WorkTree, Path, Sequence[str]], tuple[list[str], Mapping[str, str]] | None]


@dataclass(frozen=True)
class Check:
    """A command that has to succeed before a commit.

    timeout: seconds, None for no limit. confine: puts it into the sandbox of commands when no person has seen and
    accepted the change; None where the user wants no sandbox.
    """

    command: str
    timeout: float | None = TIMEOUT
    confine: Confine | None = None


@dataclass(frozen=True)
class CheckResult:
    """How a check ended. `ended` says why we ended it ("" when it ended by itself), `confined` whether it ran in the
    sandbox."""

    command: str
    returncode: int
    output: bytes
    seconds: float
    ended: str = ""
    confined: bool = False

    @property
    def passed(self) -> bool:
        return self.returncode == 0 and not self.ended

    @property
    def how(self) -> str:
        """How it failed, to follow the name of the check."""
        return self.ended or f"failed with exit code {self.returncode}"

    @property
    def advice(self) -> str:
        """That the sandbox is the likely cause of the failure, and the way out; "" where it is not."""
        return UNCONFINED if self.confined and _MISSED.search(self.output) else ""

    def excerpt(self, limit: int = OUTPUT_LIMIT) -> str:
        """Standard output and error as they came, the middle left out where they are longer than `limit` bytes."""
        if len(self.output) <= limit:
            return self.output.decode(errors="replace")
        head, tail = self.output[: limit // 4], self.output[-(limit - limit // 4) :]
        left_out = len(self.output) - len(head) - len(tail)
        return f"{head.decode(errors='replace')}\n[… {left_out} bytes left out …]\n{tail.decode(errors='replace')}"


def run_check(
    check: Check,
    worktree: WorkTree,
    *,
    accepted: bool,
    running: Callable[[str, Path], None] = lambda command, output: None,
) -> CheckResult:
    """Run `check` in a shell at the top of the work tree, without standard input.

    accepted: a person has seen the change and said yes to it; else it is confined, where it can be. running: is told
    of the command, and the file with what it prints. At the time-out, at
    ^C and when this program dies, all that the check has started is ended; a time-out is a failure. Where the check
    ends by itself, what it left in its process group goes with it. The output is without the secrets of the
    environment: it goes to the model and into files. Raises OSError where it can't be started.
    """
    import tempfile

    from repoagent.agent.commands.running import Job, start
    from repoagent.agent.sandbox import supervised

    shell = ["/bin/sh", "-c", check.command]
    with tempfile.TemporaryDirectory(prefix="repoagent-check-", ignore_cleanup_errors=True) as name:
        base = Path(name).resolve()
        confine = None if accepted else check.confine
        confined = confine(worktree, base / "scratch", shell) if confine is not None else None
        argv, env = confined or (supervised(shell), os.environ)
        command = start(Job(check.command, worktree.top), argv, base / "output", env, KEPT)
        running(without_secrets(check.command), base / "output")
        try:
            if not command.wait(check.timeout):
                command.end(
                    f"was stopped after {_shown(check.timeout or 0)}, the limit that check.timeout sets"
                )
        except BaseException:
            command.end()
            raise
        output = (base / "output").read_bytes()
    told = without_secrets(output.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    return CheckResult(
        check.command, command.exit or 0, told, command.seconds, command.stopped, confined is not None
    )


def _shown(seconds: float) -> str:
    whole, rest = divmod(seconds, 60)
    return f"{seconds:g} seconds" if rest or not whole else f"{whole:g} minute{'s' if whole > 1 else ''}"
