"""Confinement by the kernel alone: Landlock and a filter of system calls, with mounts where a user may make them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from repoagent.agent.sandbox.bubblewrap import NARROW
from repoagent.agent.sandbox.launch.landlock import DEVICE, READ, READ_DIR, READ_FILE, WRITE, WRITE_FILE
from repoagent.agent.sandbox.launch.paths import within
from repoagent.agent.sandbox.plan import kept_names, plan, prepare_scratch, shielded_names, writable_roots
from repoagent.agent.sandbox.policy import Policy
from repoagent.agent.sandbox.wrapping import launched
from repoagent.dataclass import dataclass

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx")
_WITH_INTERNET = (2, 10, 16)  # AF_INET, AF_INET6, AF_NETLINK
_UNIX = 1
_CLOSED = "At the very top of the work tree no new files or folders can be made, only in its folders."
_NO_MOVES = "Files can't be moved or linked from one folder to another (an old Landlock)."


@dataclass(frozen=True)
class Landlock:
    """Landlock of version `abi`; `mounting` where this user may have mounts of his own."""

    abi: int
    mounting: bool
    name: str = "landlock"

    def wrap(self, argv: Sequence[str], policy: Policy, report: Path | None = None) -> list[str]:
        """What to run instead of `argv`. Makes the scratch folder if it is not there. `report`: see `why_ended`."""
        prepare_scratch(policy)
        planned = plan(policy) if self.mounting else None
        # In namespaces a socket leads nowhere; without them it must not be made. Those with a name in the file system
        # can only be hidden by mounts. Pairs (socketpair) are always there.
        families: tuple[int, ...] = _WITH_INTERNET if self.mounting or policy.network else ()
        specification = {
            "kind": "landlock",
            "steps": planned.steps if planned else None,
            "rules": list(self._rules(policy)),
            "network": policy.network,
            "shared_memory": policy.shared_memory,
            "families": (_UNIX, *families) if self.mounting else families,
            "missing": planned.missing if planned else (),
            "depth": 2 if planned else 0,  # who waits for the namespaces, and their init
        }
        return launched(argv, policy, specification, report)

    def narrows(self, policy: Policy) -> tuple[str, ...]:
        """Where in the work tree a command can't write though `policy` allows it, in sentences."""
        if self.mounting:
            return (NARROW,) if plan(policy).narrow else ()
        top = os.path.realpath(policy.top)
        closed = not policy.read_only and any(within(path, top) for path in kept_names(policy))
        return (_CLOSED,) if closed else ()

    def limits_of(self, policy: Policy) -> tuple[str, ...]:
        """What can't be confined of `policy` here, in sentences."""
        return tuple(self._limits_with_mounts(policy) if self.mounting else self._limits_without(policy))

    def _rules(self, policy: Policy) -> Iterator[tuple[str, int, list[str]]]:
        """Folders and files, the rights over them, and what of them is left out: the launcher goes round it."""
        hidden = (
            ["/dev"]
            if self.mounting
            else ["/dev", "/run/user", *(os.path.realpath(path) for path in policy.hide)]
        )
        top = os.path.realpath(policy.top)
        shielded = [path for path in shielded_names(policy) if path.rpartition("/")[0] == top]
        kept = [] if self.mounting else [*kept_names(policy), *shielded]
        yield "/", READ_DIR, []
        yield "/", READ, hidden
        yield from ((root, WRITE, [*kept, *hidden]) for root in writable_roots(policy))
        yield os.path.realpath(policy.scratch), WRITE, []
        yield from ((f"/dev/{name}", DEVICE, []) for name in _DEVICES)
        if self.mounting:
            yield from ((path, WRITE, []) for path in ("/tmp", "/var/tmp", "/dev/shm"))
            yield "/dev/pts", DEVICE | READ_DIR, []
            if os.geteuid():  # /proc/self/comm and the like; root could change the system there
                yield "/proc", READ_FILE | WRITE_FILE, []

    def _limits_with_mounts(self, policy: Policy) -> Iterator[str]:
        yield from self.narrows(policy)
        if self.abi < 2:
            yield _NO_MOVES
        if policy.network and self.abi < 6:
            yield "With the network, abstract Unix sockets of other programs can be reached (an old Landlock)."

    def _limits_without(self, policy: Policy) -> Iterator[str]:
        yield from self.narrows(policy)
        if policy.hide:
            yield "The names of hidden files can be seen, their content can't."
        yield "The mode, owner and times of files outside of the work tree can be changed where the user may do that."
        yield "The names and arguments of other processes can be seen, and their priority be changed."
        yield "/tmp and shared memory can't be written, nor terminals and Unix sockets be opened: some programs fail."
        if self.abi < 6:
            yield "Signals can be sent to other programs of the same user (an old Landlock)."
        if self.abi < 2:
            yield _NO_MOVES
