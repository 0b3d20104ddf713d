"""The mounts that implement a policy, in order: writable, read-only and covered paths."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from repoagent.agent.sandbox.launch.syscalls import paths_without, within
from repoagent.agent.sandbox.policy import Policy
from repoagent.dataclass import dataclass

# A step is (kind, source, target); an empty source is an empty folder or file. `kind` is one of
#   "write"  the source at the target, writable          "keep"  the same, read-only
#   "pin"    a folder onto itself: it cannot be renamed  "folder"/"file"  covered by an empty one
Step = tuple[str, str, str]

_SHARED = ("/tmp", "/var/tmp")
_RUNNING = "/run"  # sockets of the system's and the user's services
_STILL_NEEDED = ("/run/current-system", "/run/booted-system", "/run/opengl-driver", "/run/systemd/resolve")
_HOMES = (("config", "XDG_CONFIG_HOME", ".config"), ("data", "XDG_DATA_HOME", ".local/share"))
_SOCKETS = Path("/proc/net/unix")


@dataclass(frozen=True)
class Plan:
    """The steps in order, the names that need placeholders (see `launch.main`), and whether the top of the work tree is
    read-only except for its entries."""

    steps: tuple[Step, ...]
    missing: tuple[str, ...]
    narrow: bool


def writable_roots(policy: Policy) -> list[str]:
    """The resolved writable folders that exist, without those below one of `keep`."""
    roots = [] if policy.read_only else [_real(policy.top)]
    protected = protected_names(policy)
    roots += [
        path for path in map(_real, policy.also_write) if not any(within(path, keep) for keep in protected)
    ]
    return [root for root in dict.fromkeys(roots) if os.path.exists(root)]  # noqa: PTH110


def protected_names(policy: Policy) -> list[str]:
    """The read-only names of `keep`, with resolved parents; for a link both the link and its target."""
    names = [os.path.join(_real(path.parent), path.name) for path in policy.keep]  # noqa: PTH118
    return list(dict.fromkeys([*names, *map(_real, names)]))


def shielded_names(policy: Policy) -> list[str]:
    """The resolved names of `shield` that are not below `also_write`."""
    allowed = [_real(path) for path in policy.also_write]
    names = dict.fromkeys(map(_real, policy.shield))
    return [name for name in names if not any(within(name, folder) for folder in allowed)]


def prepare_scratch(policy: Policy) -> Path:
    """Create the scratch folder with folders for XDG_CONFIG_HOME and XDG_DATA_HOME, which contain links to the entries
    of the user's folders. Its content is not trusted: a command may have put a link there."""
    scratch = Path(_real(policy.scratch))
    scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, variable, usual in _HOMES:
        user_folder = os.environ.get(variable) or Path.home() / usual
        try:
            (scratch / name).mkdir(mode=0o700)
            folder = os.open(scratch / name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:  # it exists
            continue
        try:
            with suppress(OSError), os.scandir(user_folder) as entries:
                for entry in entries:
                    os.symlink(entry.path, entry.name, dir_fd=folder)
        finally:
            os.close(folder)
    return scratch


def plan(policy: Policy) -> Plan:
    """The mounts of `policy`. The scratch folder must exist, see `prepare_scratch`."""
    scratch = _real(policy.scratch)
    roots = writable_roots(policy)
    protected = protected_names(policy)
    steps: dict[str, Step] = {}  # by target; the last one counts

    def add(kind: str, target: str, source: str | None = None) -> None:
        steps[target] = (kind, target if source is None else source, target)

    for folder in map(_real, _SHARED):
        add("write", folder, scratch)
    for folder in map(_real, (_RUNNING, "/var/run")):
        add("folder", folder, "")
    hidden = [_real(path) for path in policy.hide]
    # folders with programs and settings, which may be in /tmp
    needed: list[str | Path] = [*_STILL_NEEDED, sys.prefix, sys.base_prefix, os.path.expanduser("~")]  # noqa: PTH111
    needed += [part for part in os.environ.get("PATH", "").split(os.pathsep) if part.startswith("/")]
    needed += [*policy.also_read, policy.top]
    for real in [_real(path) for path in needed]:
        if any(within(real, covered) and real != covered for covered in list(steps)) and os.path.exists(real):  # noqa: PTH110
            add("keep", real)
    links = [path for path in protected if os.path.islink(path)]  # noqa: PTH114
    narrow = False
    for root in roots:
        if any(_parent(link) == root for link in links):
            # a link cannot be covered, so its folder stays read-only
            narrow = True
            add("keep", root)
            for entry in paths_without(root, links):
                add("write", entry)
        else:
            add("write", root)
    add("write", scratch)
    for path in [scratch, *roots]:
        above = [root for root in roots if within(path, root) and path != root]
        for folder in _between(path, above):
            kind = "keep" if any(within(folder, keep) for keep in protected) else "pin"
            steps.setdefault(folder, (kind, folder, folder))
    missing = []
    shielded = shielded_names(policy)
    for path in dict.fromkeys([*protected, *shielded]):
        if not os.path.lexists(path) or (path in shielded and _is_empty_folder(path)):
            while not os.path.lexists(_parent(path)):
                path = _parent(path)
            if not any(within(path, root) for root in roots):
                continue
            missing.append(path)
        if not os.path.islink(path):  # noqa: PTH114
            add("keep", path)
            for folder in _between(path, [root for root in roots if within(path, root)]):
                steps.setdefault(folder, ("pin", folder, folder))
    for path in [*hidden, *_open_sockets(roots)]:
        if not os.path.lexists(path):
            continue
        covered = max((target for target in steps if within(path, target)), key=len, default="/")
        hidden_already = steps.get(covered, ("",))[0] == "folder" or (covered in _SHARED and covered != path)
        if not hidden_already:
            add("folder" if stat.S_ISDIR(os.lstat(path).st_mode) else "file", path, "")
    ordered = sorted(steps.values(), key=lambda step: step[2].count("/") if step[2] != "/" else 0)
    return Plan(tuple(ordered), tuple(dict.fromkeys(missing)), narrow)


def _open_sockets(roots: Iterable[str]) -> Iterator[str]:
    """Open Unix sockets in the file system, as a read-only mount does not prevent connecting to them; except for those
    in writable folders, which are the project's own."""
    try:
        lines = _SOCKETS.read_bytes().splitlines()[1:]
    except OSError:
        return
    for line in lines:
        fields = line.split(maxsplit=7)
        if len(fields) == 8 and fields[7].startswith(b"/"):
            path = _real(os.fsdecode(fields[7]))
            if not any(within(path, root) for root in roots):
                yield path


def _between(path: str, roots: Iterable[str]) -> Iterator[str]:
    """The folders above `path` and below the deepest of `roots` that contains it."""
    root = max(roots, key=len, default=path)
    folder = _parent(path)
    while within(folder, root) and folder != root:
        yield folder
        folder = _parent(folder)


def _is_empty_folder(path: str) -> bool:
    """An empty folder is most likely a placeholder of a running or killed command."""
    try:
        with os.scandir(path) as entries:
            return next(entries, None) is None
    except OSError:
        return False


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _real(path: str | Path) -> str:
    return os.path.realpath(path)
