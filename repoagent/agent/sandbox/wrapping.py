"""The command line that starts the launcher, and what it said of a command's end."""

from __future__ import annotations

import base64
import marshal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from repoagent.agent.sandbox.policy import Policy

_LAUNCHER = str(Path(__file__).with_name("launcher.py"))


def launched(
    argv: Sequence[str], policy: Policy, specification: Mapping[str, object], report: Path | None
) -> list[str]:
    """What to run instead of `argv`: a Python that needs no packages, the specification, the command."""
    own = () if policy.read_only else (policy.top,)
    text: dict[str, object] = {
        "memory": policy.memory,
        "processes": policy.processes,
        "disks": [str(path) for path in (policy.scratch, *own, *policy.also_write)],
        "report": None if report is None else str(report.absolute()),
        **specification,
    }
    return [sys.executable, "-I", "-S", _LAUNCHER, _packed(text), *argv]


def _packed(specification: dict[str, object]) -> str:
    return base64.b64encode(marshal.dumps(specification)).decode()


def unconfined(argv: Sequence[str], policy: Policy, report: Path | None = None) -> list[str]:
    """What to run instead of `argv` where there is no sandbox: it may touch everything, but the limits on memory and
    processes hold, and nothing that it starts outlives it. `report`: see `why_ended`. Elsewhere than on Linux it is
    `argv` itself: the supervisor needs Linux."""
    if sys.platform != "linux":
        return list(argv)
    return launched(argv, policy, {"kind": "none", "depth": 0}, report)


def supervised(argv: Sequence[str]) -> list[str]:
    """What to run instead of `argv`, without a sandbox or limits: it is ended with all that it has started when it is
    told to end, or when this program dies. What has left its process group outlives it only where it ends by itself.
    Elsewhere than on Linux it is `argv` itself."""
    if sys.platform != "linux":
        return list(argv)
    specification: dict[str, object] = {"kind": "none", "depth": 0, "daemons": True}
    return [sys.executable, "-I", "-S", _LAUNCHER, _packed(specification), *argv]


def why_ended(report: Path) -> str | None:
    """The reason in words for which a command was ended by us ("it took more than 512 MB of memory"); None for none.

    Its exit code is 137 then. `report` was given to `wrap`, and is a place where a command can't write; it is empty or
    not there where a command ended by itself.
    """
    try:
        return report.read_text("utf-8").strip() or None
    except FileNotFoundError:
        return None
