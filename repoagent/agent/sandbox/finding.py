"""Which sandbox works on this machine: by trying, not by asking for versions."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from repoagent.agent.sandbox.bubblewrap import Bubblewrap
from repoagent.agent.sandbox.policy import Policy
from repoagent.errors import Refused

_PATIENCE = 20.0  # seconds; it takes some hundredths


class Sandbox(Protocol):
    """A way to confine a command."""

    @property
    def name(self) -> str:
        """`bubblewrap` or `landlock`."""

    def wrap(self, argv: Sequence[str], policy: Policy, report: Path | None = None) -> list[str]:
        """What to run instead of `argv`. Standard streams, exit code (128+n for signal n) and signals pass through;
        killing it ends all that it started. `report`: see `why_ended`."""

    def narrows(self, policy: Policy) -> tuple[str, ...]:
        """Where in the work tree a command can't write though `policy` allows it, in sentences."""

    def limits_of(self, policy: Policy) -> tuple[str, ...]:
        """What this machine can't confine of `policy`, in sentences; nothing where all of it holds."""


@lru_cache(maxsize=1)
def find() -> Sandbox | None:
    """The best sandbox that works here; None for none. Tried once for the process, and remembered for the next."""
    found = next((sandbox for sandbox in candidates() if works(sandbox)), None)
    if sys.platform == "linux":
        from repoagent.agent.sandbox.remembering import remember

        remember(found, _bubblewrap())
    return found


def likely() -> Sandbox | None:
    """The sandbox that worked here last, without a try; else `find`. Give it to `tried` before anything runs in it."""
    return _guess() or find()


def tried(sandbox: Sandbox) -> Sandbox:
    """What to run a command in that was to run in `sandbox`: where that is a guess, the best that works now.

    Raises Refused where none does: nothing that was allowed in a sandbox runs without one.
    """
    if sandbox is not _guess():
        return sandbox
    found = find()
    if found is None:
        raise Refused(
            f"no command was run: the sandbox {sandbox.name} worked here before and does not now. {why_none()} "
            "Run it again to go on without one."
        )
    return found


@lru_cache(maxsize=1)
def _guess() -> Sandbox | None:
    if sys.platform != "linux":
        return None
    from repoagent.agent.sandbox.remembering import remembered

    return remembered(_bubblewrap())


def candidates() -> Iterator[Sandbox]:
    """All kinds of sandbox that this machine may have, the best first."""
    if sys.platform != "linux":
        return
    if program := _bubblewrap():
        yield Bubblewrap(program, sizes=_knows_sizes(program))
    from repoagent.agent.sandbox.landlock import Landlock
    from repoagent.agent.sandbox.launch import landlock, seccomp

    if (version := landlock.abi()) and seccomp.supported():
        yield Landlock(version, mounting=True)
        yield Landlock(version, mounting=False)


def works(sandbox: Sandbox) -> bool:
    """Whether a command runs in it, writes where it may, and does not where it may not."""
    try:
        with tempfile.TemporaryDirectory(prefix="repoagent-") as folder:
            return _confines(sandbox, Path(folder).resolve())
    except (OSError, subprocess.TimeoutExpired):
        return False


def _confines(sandbox: Sandbox, base: Path) -> bool:
    for name in ("top/in", "top/kept", "scratch"):
        (base / name).mkdir(parents=True)
    policy = Policy(base / "top", base / "scratch", keep=(base / "top/kept",))
    script = 'echo a >in/made; (echo b >kept/made) 2>/dev/null; (echo c >"$1") 2>/dev/null; test -s in/made'
    argv = sandbox.wrap(["/bin/sh", "-c", script, "sh", str(base / "outside")], policy)
    done = subprocess.run(
        argv, cwd=base / "top", capture_output=True, stdin=subprocess.DEVNULL, timeout=_PATIENCE, check=False
    )
    escaped = (base / "outside").exists() or (base / "top/kept/made").exists()
    return done.returncode == 0 and (base / "top/in/made").exists() and not escaped


def why_none() -> str:
    """Why there is no sandbox here, or what to do about it, in one sentence."""
    if sys.platform == "darwin":
        return "On macOS there is no sandbox for commands yet."
    if sys.platform != "linux":
        return "On this system there is no sandbox for commands."
    if _bubblewrap():
        return "bubblewrap is installed but may not make namespaces here, and this kernel has no Landlock that works."
    return (
        "bubblewrap is not installed (the package `bubblewrap`), and this kernel has no Landlock that works."
    )


def _knows_sizes(program: str) -> bool:
    try:
        said = subprocess.run([program, "--help"], capture_output=True, timeout=_PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return b"--size" in said.stdout + said.stderr


def _bubblewrap() -> str | None:
    """The program, by a path that is not of the folder we happen to be in."""
    path = os.pathsep.join(
        part for part in os.environ.get("PATH", os.defpath).split(os.pathsep) if part.startswith("/")
    )
    return shutil.which("bwrap", path=path)
