"""Confinement by bubblewrap: namespaces and mounts, made by a small program that many systems have."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from repoagent.agent.sandbox.launch.landlock import abi
from repoagent.agent.sandbox.plan import Plan, Step, plan, prepare_scratch
from repoagent.agent.sandbox.policy import Policy
from repoagent.agent.sandbox.wrapping import launched
from repoagent.dataclass import dataclass

NARROW = (
    "A kept name at the top of the work tree is a symbolic link: new files can only be made in its folders."
)
_OPTIONS = {"write": "--bind", "pin": "--bind", "keep": "--ro-bind"}
_FAMILIES = (
    1,
    2,
    10,
    16,
)  # AF_UNIX, AF_INET, AF_INET6, AF_NETLINK; the rest reaches round a network namespace


@dataclass(frozen=True)
class Bubblewrap:
    """The program at `program`. `sizes`: it can limit the size of what it keeps in memory (since 0.7)."""

    program: str
    sizes: bool = False
    name: str = "bubblewrap"

    def wrap(self, argv: Sequence[str], policy: Policy, report: Path | None = None) -> list[str]:
        """What to run instead of `argv`. Makes the scratch folder if it is not there. `report`: see `why_ended`."""
        prepare_scratch(policy)
        planned = plan(policy)
        specification = {
            "kind": "bubblewrap",
            "program": self.program,
            "options": options(planned, policy, sizes=self.sizes),
            "families": _FAMILIES,
            "scope": policy.network and self._may_scope(),
            "missing": planned.missing,
            "depth": 2,  # bubblewrap, and the init of its processes
        }
        return launched(argv, policy, specification, report)

    def narrows(self, policy: Policy) -> tuple[str, ...]:
        """Where in the work tree a command can't write though `policy` allows it, in sentences."""
        return (NARROW,) if plan(policy).narrow else ()

    def limits_of(self, policy: Policy) -> tuple[str, ...]:
        """What can't be confined of `policy` here, in sentences."""
        found = [*self.narrows(policy)]
        if not self.sizes:
            found.append("Shared memory (/dev/shm) is not limited by this old bubblewrap.")
        if policy.network and not (self._may_scope() and abi() >= 6):
            found.append("With the network, abstract Unix sockets of other programs can be reached.")
        if os.uname().machine not in {"x86_64", "aarch64"}:
            found.append("System calls are not filtered on this kind of processor.")
        return tuple(found)

    def _may_scope(self) -> bool:
        """Whether bubblewrap works without being setuid, as it mostly does."""
        return not os.stat(self.program).st_mode & stat.S_ISUID  # noqa: PTH116


def options(planned: Plan, policy: Policy, *, sizes: bool = False) -> list[str]:
    """The options of bubblewrap for a plan."""
    spaces = ["--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"]
    if not policy.network:
        spaces.append("--unshare-net")
    behaviour = ["--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    system = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    if sizes:
        size = str(policy.shared_memory)
        system += ["--perms", "1777", "--size", size, "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
    if os.geteuid() == 0:  # the same user as outside may set the whole system's kernel parameters there
        system += ["--remount-ro", "/proc"]
    mounts = [word for step in planned.steps for word in _mount(step)]
    covered = [
        word for what, _, target in planned.steps if what == "folder" for word in ("--remount-ro", target)
    ]
    return [*spaces, *behaviour, *system, *mounts, *covered]


def _mount(step: Step) -> list[str]:
    what, source, target = step
    if what == "file":  # the launcher opens an empty one
        return ["--ro-bind-data", "", target]
    return ["--tmpfs", target] if what == "folder" else [_OPTIONS[what], source, target]
