"""The command line of the launcher, the mounts that implement a policy, and the backend that uses bubblewrap."""

from __future__ import annotations

import base64
import marshal
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from repoagent.agent.sandbox.launch.syscalls import landlock_abi, paths_without, within
from repoagent.agent.sandbox.policy import Policy, environments
from repoagent.dataclass import dataclass

_LAUNCHER = str(Path(__file__).with_name("launcher.py"))


def launched(
    argv: Sequence[str], policy: Policy, specification: Mapping[str, object], report: Path | None
) -> list[str]:
    """The command line of the launcher for `argv`."""
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
    """The command line for `argv` without a sandbox, but with the limits on memory and processes; nothing that it
    starts outlives it. `report`: see `why_ended`. On other systems than Linux it is `argv` itself."""
    if sys.platform != "linux":
        return list(argv)
    return launched(argv, policy, {"kind": "none", "depth": 0}, report)


def supervised(argv: Sequence[str]) -> list[str]:
    """The command line for `argv` without a sandbox or limits: it and all that it started end when it is terminated, or
    when this program dies. When it ends by itself, processes outside its group stay. On other systems than Linux it is
    `argv` itself."""
    if sys.platform != "linux":
        return list(argv)
    specification: dict[str, object] = {"kind": "none", "depth": 0, "daemons": True}
    return [sys.executable, "-I", "-S", _LAUNCHER, _packed(specification), *argv]


def why_ended(report: Path) -> str | None:
    """Why we ended a command ("it used more than 512 MB of memory", exit code 137); None if it ended by itself.

    `report` is the file that was passed to `wrap`, where commands cannot write.
    """
    try:
        return report.read_text("utf-8").strip() or None
    except FileNotFoundError:
        return None


# A step is (what, source, target); an empty source is an empty folder or file. `what` is one of
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
    protected = kept_names(policy)
    roots += [
        path for path in map(_real, policy.also_write) if not any(within(path, keep) for keep in protected)
    ]
    return [root for root in dict.fromkeys(roots) if os.path.exists(root)]  # noqa: PTH110


def kept_names(policy: Policy) -> list[str]:
    """The names that are read-only, with resolved parents; for a link both the link and its target."""
    names = [os.path.join(_real(path.parent), path.name) for path in policy.keep]  # noqa: PTH118
    return list(dict.fromkeys([*names, *(_real(Path(name)) for name in names)]))


def shielded_names(policy: Policy) -> list[str]:
    """The resolved names of `shield` that are not below `also_write`."""
    allowed = [_real(path) for path in policy.also_write]
    names = dict.fromkeys(map(_real, policy.shield))
    return [name for name in names if not any(within(name, folder) for folder in allowed)]


def prepare_scratch(policy: Policy) -> Path:
    """Create the scratch folder with folders for XDG_CONFIG_HOME and XDG_DATA_HOME, which link to the entries of the
    user's own. Nothing in it is trusted: a command may have put a link there."""
    scratch = Path(_real(policy.scratch))
    scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, variable, usual in _HOMES:
        own = os.environ.get(variable) or Path.home() / usual
        try:
            (scratch / name).mkdir(mode=0o700)
            folder = os.open(scratch / name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:  # it exists
            continue
        try:
            with suppress(OSError), os.scandir(own) as entries:
                for entry in entries:
                    os.symlink(entry.path, entry.name, dir_fd=folder)
        finally:
            os.close(folder)
    return scratch


def plan(policy: Policy) -> Plan:
    """The mounts of `policy`. The scratch folder must exist, see `prepare_scratch`."""
    scratch = _real(policy.scratch)
    roots = writable_roots(policy)
    protected = kept_names(policy)
    links = [path for path in protected if os.path.islink(path)]  # noqa: PTH114
    steps: dict[str, Step] = {}  # by target; the last one counts

    def add(what: str, source: str, target: str) -> None:
        steps[target] = (what, source, target)

    for folder in {_real(Path(folder)) for folder in _SHARED}:
        add("write", scratch, folder)
    for folder in {_real(Path(_RUNNING)), _real(Path("/var/run"))}:
        add("folder", "", folder)
    hidden = [_real(path) for path in policy.hide]
    data = [scratch, _real(policy.top), *map(_real, policy.also_write)]
    needed = [*_STILL_NEEDED, *_tools(), *environments(os.environ, data, hidden)]
    for path in [*needed, *map(str, policy.also_read), str(policy.top)]:
        real = _real(Path(path))
        if any(within(real, covered) and real != covered for covered in list(steps)) and os.path.exists(real):  # noqa: PTH110
            add("keep", real, real)
    narrow = False
    for root in roots:
        if any(_parent(link) == root for link in links):
            # a link cannot be covered, so its folder stays read-only
            narrow = True
            add("keep", root, root)
            for entry in paths_without(root, links):
                add("write", entry, entry)
        else:
            add("write", root, root)
    add("write", scratch, scratch)
    missing = []
    for path in [scratch, *roots]:
        for folder in _between(path, [root for root in roots if within(path, root) and path != root]):
            what = "keep" if any(within(folder, keep) for keep in protected) else "pin"
            steps.setdefault(folder, (what, folder, folder))
    shielded = shielded_names(policy)
    for path in dict.fromkeys([*protected, *shielded]):
        if not os.path.lexists(path) or (path in shielded and _is_empty_folder(path)):
            path = _first_missing(path)
            if not any(within(path, root) for root in roots):
                continue
            missing.append(path)
        if not os.path.islink(path):  # noqa: PTH114
            add("keep", path, path)
            for folder in _between(path, [root for root in roots if within(path, root)]):
                steps.setdefault(folder, ("pin", folder, folder))
    for path in [*hidden, *_open_sockets(roots)]:
        if mode := _mode(path):
            covered = max((target for target in steps if within(path, target)), key=len, default="/")
            if steps.get(covered, ("", "", ""))[0] == "folder" or (covered in _SHARED and covered != path):
                continue  # hidden already
            add("folder", "", path) if stat.S_ISDIR(mode) else add("file", "", path)
    ordered = sorted(steps.values(), key=lambda step: step[2].count("/") if step[2] != "/" else 0)
    return Plan(tuple(ordered), tuple(dict.fromkeys(missing)), narrow)


def _tools() -> Iterator[str]:
    """The folders of programs and settings, which some users have in /tmp."""
    yield from (sys.prefix, sys.base_prefix, os.path.expanduser("~"))  # noqa: PTH111
    yield from (part for part in os.environ.get("PATH", "").split(os.pathsep) if part.startswith("/"))


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
            path = _real(Path(os.fsdecode(fields[7])))
            if not any(within(path, root) for root in roots):
                yield path


def _between(path: str, roots: Iterable[str]) -> Iterator[str]:
    """The folders above `path` and below the deepest of `roots` that contains it."""
    root = max(roots, key=len, default=path)
    folder = _parent(path)
    while within(folder, root) and folder != root:
        yield folder
        folder = _parent(folder)


def _first_missing(path: str) -> str:
    while not os.path.lexists(_parent(path)):
        path = _parent(path)
    return path


def _is_empty_folder(path: str) -> bool:
    """An empty folder is most likely a placeholder of a running or killed command."""
    try:
        with os.scandir(path) as entries:
            return next(entries, None) is None
    except OSError:
        return False


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _real(path: Path) -> str:
    return os.path.realpath(path)


def _mode(path: str) -> int:
    try:
        return os.lstat(path).st_mode
    except OSError:
        return 0


NARROW = (
    "A protected name at the top of the work tree is a symbolic link: commands can create files only in "
    "its folders."
)
_OPTIONS = {"write": "--bind", "pin": "--bind", "keep": "--ro-bind"}
# AF_UNIX, AF_INET, AF_INET6, AF_NETLINK; the others are not confined by a network namespace
_FAMILIES = (1, 2, 10, 16)


@dataclass(frozen=True)
class Bubblewrap:
    """The program at `program`. `sizes`: it can limit the size of a tmpfs (since 0.7)."""

    program: str
    sizes: bool = False
    name: str = "bubblewrap"

    def wrap(self, argv: Sequence[str], policy: Policy, report: Path | None = None) -> list[str]:
        """The command line for `argv` in the sandbox. Creates the scratch folder. `report`: see `why_ended`."""
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
        """Where in the work tree commands cannot write although `policy` allows it, in sentences."""
        return (NARROW,) if plan(policy).narrow else ()

    def limits_of(self, policy: Policy) -> tuple[str, ...]:
        """The parts of `policy` that cannot be enforced on this machine, in sentences."""
        limits = [*self.narrows(policy)]
        if not self.sizes:
            limits.append("Shared memory (/dev/shm) is not limited (old bubblewrap).")
        if policy.network and not (self._may_scope() and landlock_abi() >= 6):
            limits.append("With network access, commands can reach abstract Unix sockets of other programs.")
        if os.uname().machine not in {"x86_64", "aarch64"}:
            limits.append("System calls are not filtered on this processor architecture.")
        return tuple(limits)

    def _may_scope(self) -> bool:
        """Whether bubblewrap is not setuid; it rarely is."""
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
    if os.geteuid() == 0:  # root could set kernel parameters of the whole system there
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
