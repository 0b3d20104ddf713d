"""Which process it is: its number alone may be another's by now, or that of another machine."""

from __future__ import annotations

import os
import signal
from functools import lru_cache
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_STARTED = 19  # which word of /proc/PID/stat behind the name: proc(5) counts it as field 22


def host() -> str:
    """The name of this machine."""
    return os.uname().nodename or "-"


@lru_cache(maxsize=1)
def boot() -> str:
    """What this start of the system is known by; "" where it does not say (it is not Linux)."""
    try:
        return _BOOT.read_text("ascii").strip()
    except (OSError, ValueError):
        return ""


def born(pid: int) -> str:
    """When the process `pid` of this machine began, as the system writes it; "" for one that is not there.

    Together with the number and the boot it is the process, and never a later one.
    """
    if not 1 < pid < 2**31:
        return ""
    try:
        said = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return "" if boot() else _born_by_ps(pid)
    words = said[said.rfind(b")") + 2 :].split()  # the name in parentheses may hold anything
    gone = len(words) <= _STARTED or words[0] in (b"Z", b"X")
    return "" if gone else words[_STARTED].decode("ascii", "replace")


def _born_by_ps(pid: int) -> str:
    import subprocess

    env = {**os.environ, "LC_ALL": "C", "TZ": "UTC"}
    try:
        done = subprocess.run(
            ["ps", "-o", "lstart=", "-p", str(pid)], env=env, capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return " ".join(done.stdout.split())


def terminate(pid: int, birth: str) -> bool:
    """Send SIGTERM to the process `pid` that began at `birth`; False when it is gone or another one has its number.

    Where the system has handles of processes, it can't become another one in between. Raises PermissionError.
    """
    if not birth or born(pid) != birth:
        return False
    try:
        if not hasattr(os, "pidfd_open"):
            os.kill(pid, signal.SIGTERM)
            return True
        handle = os.pidfd_open(pid)
        try:
            if born(pid) != birth:
                return False
            signal.pidfd_send_signal(handle, signal.SIGTERM)
        finally:
            os.close(handle)
    except ProcessLookupError:
        return False
    return True
