"""The mounts that implement a policy, for a command with its own mount namespace."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from repoagent.agent.sandbox.launch.syscalls import is_within, paths_without
from repoagent.agent.sandbox.policy import Policy
from repoagent.dataclass import dataclass

# A step is (kind, source, target); an empty source is an empty folder or file. `kind` is one of
#   "write"  the source at the target, writable          "keep"  the same, read-only
#   "pin"    a folder onto itself: it cannot be renamed  "folder"/"file"  covered by an empty one
Step = tuple[str, str, str]

_SHARED = ("/tmp", "/var/tmp")
_RUNNING = ("/run", "/var/run")  # sockets of the system's and the user's services
_STILL_NEEDED = ("/run/current-system", "/run/booted-system", "/run/opengl-driver", "/run/systemd/resolve")
_SOCKETS = Path("/proc/net/unix")


@dataclass(frozen=True)
class MountPlan:
    """The mounts for a command.

    steps: the mounts, in order.
    missing: the names that need placeholders (see `launch.main`).
    narrow: whether a writable folder, such as the top of the work tree, is itself read-only and only its entries are
        writable.
    """

    steps: tuple[Step, ...]
    missing: tuple[str, ...]
    narrow: bool


def writable_roots(policy: Policy) -> list[str]:
    """The resolved writable folders that exist, except those inside a folder of `keep`."""
    protected = protected_names(policy)
    also = [
        path for path in map(_real, policy.also_write) if not any(is_within(path, keep) for keep in protected)
    ]
    roots = also if policy.read_only else [_real(policy.top), *also]
    return [root for root in dict.fromkeys(roots) if os.path.exists(root)]  # noqa: PTH110


def protected_names(policy: Policy) -> list[str]:
    """The paths in `policy.keep`, with their parent folders resolved. A symbolic link is listed together with its
    target."""
    names = [os.path.join(_real(path.parent), path.name) for path in policy.keep]  # noqa: PTH118
    return list(dict.fromkeys([*names, *map(_real, names)]))


def shielded_names(policy: Policy) -> list[str]:
    """The resolved paths of `shield` that are not below `also_write`."""
    allowed = [_real(path) for path in policy.also_write]
    names = dict.fromkeys(map(_real, policy.shield))
    return [name for name in names if not any(is_within(name, folder) for folder in allowed)]


def plan_mounts(policy: Policy) -> MountPlan:
    """The mounts that implement `policy`. The scratch folder must exist."""
    scratch = _real(policy.scratch)
    roots = writable_roots(policy)
    protected, shielded = protected_names(policy), shielded_names(policy)
    steps: dict[str, Step] = {}  # by target; the last one counts

    def add(kind: str, target: str, source: str | None = None) -> None:
        steps[target] = (kind, target if source is None else source, target)

    def pin_above(path: str, roots: Iterable[str], kind: str = "pin") -> None:
        """Prevent renaming of the folders above `path`, up to the deepest of `roots`."""
        top = max((root for root in roots if is_within(path, root)), key=len, default=path)
        folder = _parent(path)
        while is_within(folder, top) and folder != top:
            keeps = kind == "write" and any(is_within(folder, keep) for keep in protected)
            steps.setdefault(folder, ("keep" if keeps else "pin", folder, folder))
            folder = _parent(folder)

    for folder in map(_real, _SHARED):
        add("write", folder, scratch)
    for folder in map(_real, _RUNNING):
        add("folder", folder, "")
    # folders with programs and settings, which may be in /tmp
    needed: list[str | Path] = [*_STILL_NEEDED, sys.prefix, sys.base_prefix, os.path.expanduser("~")]  # noqa: PTH111
    needed += [part for part in os.environ.get("PATH", "").split(os.pathsep) if part.startswith("/")]
    needed += [*policy.also_read, policy.top]
    for real in [_real(path) for path in needed]:
        is_covered = any(is_within(real, covered) and real != covered for covered in steps)
        if is_covered and os.path.exists(real):  # noqa: PTH110
            add("keep", real)
    links = [path for path in protected if os.path.islink(path)]  # noqa: PTH114
    narrow = [root for root in roots if any(_parent(link) == root for link in links)]
    for root in roots:
        # a link cannot be covered, so its folder stays read-only
        add("keep" if root in narrow else "write", root)
        for entry in paths_without(root, links) if root in narrow else ():
            add("write", entry)
    add("write", scratch)
    for path in [scratch, *roots]:
        pin_above(path, [root for root in roots if root != path], "write")
    missing = []
    for path in dict.fromkeys([*protected, *shielded]):
        # an empty folder is most likely a placeholder of a running or killed command
        readable = path in shielded and os.path.isdir(path) and os.access(path, os.R_OK)  # noqa: PTH112
        if not os.path.lexists(path) or (readable and not os.listdir(path)):  # noqa: PTH208
            while not os.path.lexists(_parent(path)):
                path = _parent(path)
            if not any(is_within(path, root) for root in roots):
                continue
            missing.append(path)
        if not os.path.islink(path):  # noqa: PTH114
            add("keep", path)
            pin_above(path, roots)
    for path in [*map(_real, policy.hide), *_open_sockets(roots)]:
        if not os.path.lexists(path):
            continue
        covered = max((target for target in steps if is_within(path, target)), key=len, default="/")
        hidden_already = steps.get(covered, ("",))[0] == "folder" or (covered in _SHARED and covered != path)
        if not hidden_already:
            add("folder" if stat.S_ISDIR(os.lstat(path).st_mode) else "file", path, "")
    ordered = sorted(steps.values(), key=lambda step: step[2].count("/") if step[2] != "/" else 0)
    return MountPlan(tuple(ordered), tuple(dict.fromkeys(missing)), bool(narrow))


def _open_sockets(roots: Iterable[str]) -> Iterator[str]:
    """Open Unix sockets in the file system, as a read-only mount does not prevent connecting to them; except for those
    in writable folders, which are the project's own."""
    with suppress(OSError):
        for line in _SOCKETS.read_bytes().splitlines()[1:]:
            fields = line.split(maxsplit=7)
            if len(fields) == 8 and fields[7].startswith(b"/"):
                path = _real(os.fsdecode(fields[7]))
                if not any(is_within(path, root) for root in roots):
                    yield path


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _real(path: str | Path) -> str:
    return os.path.realpath(path)
