"""The sandboxes (bubblewrap, or Landlock with seccomp), a trial run to find one that works on this machine, and the
mounts that implement a policy.
"""

from __future__ import annotations

import base64
import marshal
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Literal

from repoagent.agent.sandbox.launch import seccomp
from repoagent.agent.sandbox.launch.syscalls import (
    DEVICE,
    READ,
    READ_DIR,
    READ_FILE,
    WRITE,
    WRITE_FILE,
    landlock_abi,
    paths_without,
    within,
)
from repoagent.agent.sandbox.policy import Policy
from repoagent.dataclass import dataclass

_PATIENCE = 20.0  # seconds for the trial run, which takes a few hundredths
# Not a module, since importing the packages above it takes longer than many commands.
_LAUNCH = (
    "import sys; sys.path.append(sys.argv[1]); from launch.main import main; main(sys.argv[2], sys.argv[3:])"
)


@dataclass(frozen=True)
class Sandbox:
    """A way to confine a command: `bubblewrap` (the program at the path `program`) or `landlock`.

    sizes: whether bubblewrap can limit the size of a tmpfs (since 0.7). mounting: whether the user may create mount
    namespaces, so that mounts can cover paths; otherwise Landlock works alone.
    """

    name: Literal["bubblewrap", "landlock"]
    program: str = ""
    sizes: bool = False
    mounting: bool = True

    def wrap(self, argv: Sequence[str], policy: Policy, report: Path | None = None) -> list[str]:
        """The command line that runs `argv` in the sandbox. Standard streams, exit code (128+n for signal n) and
        signals pass through; killing it ends all that it started. `report`: see `why_ended`."""
        prepare_scratch(policy)
        planned = plan(policy) if self.mounting else None
        # In a network namespace sockets reach nothing; without one they must not be created. Unix sockets in the file
        # system can only be hidden by mounts. Pairs (socketpair) are always allowed.
        families: tuple[int, ...] = _INTERNET if self.mounting or policy.network else ()
        specification = {
            "kind": self.name,
            "families": (_UNIX, *families) if self.mounting else families,
            "missing": planned.missing if planned else (),
            "depth": 2 if planned else 0,  # bubblewrap, or the parent of the namespaces, and the init in them
            **_limits(policy, report),
        }
        if self.name == "bubblewrap" and planned:
            options = _options(planned, policy, sizes=self.sizes)
            scope = policy.network and self._may_scope()
            return _launched(argv, program=self.program, options=options, scope=scope, **specification)
        return _launched(
            argv,
            steps=planned.steps if planned else None,
            rules=list(_rules(policy, mounting=self.mounting)),
            network=policy.network,
            shared_memory=policy.shared_memory,
            **specification,
        )

    def narrows(self, policy: Policy) -> tuple[str, ...]:
        """A sentence for each part of the work tree where commands cannot write although `policy` allows it."""
        if self.mounting:
            return (_NARROW,) if plan(policy).narrow else ()
        top = os.path.realpath(policy.top)
        closed = not policy.read_only and any(within(path, top) for path in protected_names(policy))
        return (_CLOSED,) if closed else ()

    def limits_of(self, policy: Policy) -> tuple[str, ...]:
        """A sentence for each part of `policy` that cannot be enforced on this machine."""
        limits, abi = [*self.narrows(policy)], landlock_abi()
        if self.mounting and policy.network and not (abi >= 6 and self._may_scope()):
            limits.append(_ABSTRACT_SOCKETS)
        if self.name == "bubblewrap":
            limits += (
                []
                if self.sizes
                else ["The size of shared memory (/dev/shm) is not limited: this bubblewrap is too old."]
            )
            filtered = os.uname().machine in {"x86_64", "aarch64"}
            limits += [] if filtered else ["System calls are not filtered on this processor architecture."]
            return tuple(limits)
        if not self.mounting:
            limits += [_NAMES_ARE_SEEN] if policy.hide else []
            limits += _WITHOUT_MOUNTS
            if abi < 6:
                limits.append(
                    "Commands can send signals to the user's other programs (this kernel's Landlock is too old to "
                    "prevent it)."
                )
        if abi < 2:
            limits.append(
                "Commands cannot move or link files from one folder to another (this kernel's Landlock is too old "
                "to allow it)."
            )
        return tuple(limits)

    def _may_scope(self) -> bool:
        """Whether the sandbox may also use Landlock: a bubblewrap that is setuid, as it rarely is, may not."""
        return not self.program or not os.stat(self.program).st_mode & stat.S_ISUID  # noqa: PTH116


_UNIX = 1
_INTERNET = (2, 10, 16)  # AF_INET, AF_INET6, AF_NETLINK; the others are not confined by a network namespace
_NARROW = (
    "A protected path at the top of the work tree is a symbolic link, so commands can create files only in "
    "subfolders."
)
_CLOSED = "Commands cannot create files or folders at the top of the work tree, only in subfolders."
_ABSTRACT_SOCKETS = "With network access, commands can reach other programs' abstract Unix sockets."
_NAMES_ARE_SEEN = "Commands can see the names of hidden files, but not their content."
_WITHOUT_MOUNTS = (
    "Outside the work tree, commands can change the mode, owner and times of any file that you can.",
    "Commands can see the names and arguments of other processes, and change their priority.",
    "Commands cannot write to /tmp or shared memory, or open terminals or Unix sockets; some programs fail.",
)


def _launched(argv: Sequence[str], **specification: object) -> list[str]:
    """The command line that runs `launch.main` for `argv`; see there for the specification."""
    packed = base64.b64encode(marshal.dumps(specification)).decode()
    return [sys.executable, "-I", "-S", "-c", _LAUNCH, str(Path(__file__).parent), packed, *argv]


def _limits(policy: Policy, report: Path | None) -> dict[str, object]:
    top = () if policy.read_only else (policy.top,)
    return {
        "memory": policy.memory,
        "processes": policy.processes,
        "disks": [str(path) for path in (policy.scratch, *top, *policy.also_write)],
        "report": None if report is None else str(report.absolute()),
    }


def unconfined(argv: Sequence[str], policy: Policy, report: Path | None = None) -> list[str]:
    """The command line that runs `argv` without a sandbox, but with the limits on memory and processes; nothing that it
    starts outlives it. `report`: see `why_ended`. On systems other than Linux it is `argv` itself."""
    if sys.platform != "linux":
        return list(argv)
    return _launched(argv, kind="none", depth=0, **_limits(policy, report))


def supervised(argv: Sequence[str]) -> list[str]:
    """The command line that runs `argv` without a sandbox or limits. The command and all that it started end when it is
    terminated, or when this program dies; if it ends by itself, processes outside its group keep running. On systems
    other than Linux, the command line is `argv` itself."""
    return _launched(argv, kind="none", depth=0, daemons=True) if sys.platform == "linux" else list(argv)


def why_ended(report: Path) -> str | None:
    """Why repoagent ended a command, for example "it used more than 512 MB of memory" (the exit code is then 137); None
    if the command ended by itself.

    `report` is the file that was passed to `wrap`, where commands cannot write.
    """
    try:
        return report.read_text("utf-8").strip() or None
    except FileNotFoundError:
        return None


def _options(planned: Plan, policy: Policy, *, sizes: bool) -> list[str]:
    """The options of bubblewrap for a plan."""
    options = ["--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"]
    options += [] if policy.network else ["--unshare-net"]
    options += ["--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    options += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    if sizes:
        size = str(policy.shared_memory)
        options += ["--perms", "1777", "--size", size, "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
    if os.geteuid() == 0:  # root could set kernel parameters of the whole system there
        options += ["--remount-ro", "/proc"]
    for kind, source, target in planned.steps:
        if kind == "file":  # the launcher opens an empty one
            options += ["--ro-bind-data", "", target]
        elif kind == "folder":
            options += ["--tmpfs", target]
        else:
            options += ["--ro-bind" if kind == "keep" else "--bind", source, target]
    for kind, _, target in planned.steps:
        options += ["--remount-ro", target] if kind == "folder" else []
    return options


_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx")


def _rules(policy: Policy, *, mounting: bool) -> Iterator[tuple[str, int, list[str]]]:
    """Folders and files for Landlock, the rights to them, and the paths below them that are excluded."""
    hidden = ["/dev"]
    protected: list[str] = []
    if not mounting:
        hidden += ["/run/user", *(os.path.realpath(path) for path in policy.hide)]
        top = os.path.realpath(policy.top)
        shielded = [path for path in shielded_names(policy) if path.rpartition("/")[0] == top]
        protected = [*protected_names(policy), *shielded]
    yield "/", READ_DIR, []
    yield "/", READ, hidden
    yield from ((root, WRITE, [*protected, *hidden]) for root in writable_roots(policy))
    yield os.path.realpath(policy.scratch), WRITE, []
    yield from ((f"/dev/{name}", DEVICE, []) for name in _DEVICES)
    if mounting:
        yield from ((path, WRITE, []) for path in ("/tmp", "/var/tmp", "/dev/shm"))
        yield "/dev/pts", DEVICE | READ_DIR, []
        if os.geteuid():  # /proc/self/comm and the like; root could change the system there
            yield "/proc", READ_FILE | WRITE_FILE, []


@lru_cache(maxsize=1)
def find() -> Sandbox | None:
    """The best sandbox that works on this machine, or None; cached."""
    return next((sandbox for sandbox in candidates() if works(sandbox)), None)


def candidates() -> Iterator[Sandbox]:
    """All kinds of sandbox that this machine may support, the best first."""
    if sys.platform != "linux":
        return
    if program := _bubblewrap():
        usage = b""
        with suppress(OSError, subprocess.TimeoutExpired):
            done = subprocess.run([program, "--help"], capture_output=True, timeout=_PATIENCE, check=False)
            usage = done.stdout + done.stderr
        yield Sandbox("bubblewrap", program, sizes=b"--size" in usage)
    if landlock_abi() and seccomp.supported():
        yield Sandbox("landlock")
        yield Sandbox("landlock", mounting=False)


def works(sandbox: Sandbox) -> bool:
    """Whether a command runs in the sandbox and can write only to allowed folders."""
    try:
        with tempfile.TemporaryDirectory(prefix="repoagent-") as folder:
            base = Path(folder).resolve()
            for name in ("top/in", "top/kept", "scratch"):
                (base / name).mkdir(parents=True)
            policy = Policy(base / "top", base / "scratch", keep=(base / "top/kept",))
            script = 'echo a >in/made; (echo b >kept/made) 2>/dev/null; (echo c >"$1") 2>/dev/null; test -s in/made'
            argv = sandbox.wrap(["/bin/sh", "-c", script, "sh", str(base / "outside")], policy)
            done = subprocess.run(
                argv,
                cwd=base / "top",
                capture_output=True,
                stdin=subprocess.DEVNULL,
                timeout=_PATIENCE,
                check=False,
            )
            escaped = (base / "outside").exists() or (base / "top/kept/made").exists()
            return done.returncode == 0 and (base / "top/in/made").exists() and not escaped
    except (OSError, subprocess.TimeoutExpired):
        return False


def why_none() -> str:
    """Why this machine has no sandbox for commands, in one sentence."""
    if sys.platform == "darwin":
        return "repoagent has no sandbox for commands on macOS yet."
    if sys.platform != "linux":
        return "repoagent has no sandbox for commands on this system."
    if _bubblewrap():
        problem = "bubblewrap is installed but may not create namespaces here"
    else:
        problem = "bubblewrap is not installed (package `bubblewrap`)"
    return f"{problem}, and Landlock does not work in this kernel."


def _bubblewrap() -> str | None:
    """The path of bubblewrap, ignoring relative folders in PATH."""
    path = os.pathsep.join(
        part for part in os.environ.get("PATH", os.defpath).split(os.pathsep) if part.startswith("/")
    )
    return shutil.which("bwrap", path=path)


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
    """The mounts that implement a policy: the steps in order, the names that need placeholders (see `launch.main`), and
    whether the top of the work tree is read-only except for its entries."""

    steps: tuple[Step, ...]
    missing: tuple[str, ...]
    narrow: bool


def writable_roots(policy: Policy) -> list[str]:
    """The resolved writable folders that exist, except those inside a folder of `keep`."""
    roots = [] if policy.read_only else [_real(policy.top)]
    protected = protected_names(policy)
    roots += [
        path for path in map(_real, policy.also_write) if not any(within(path, keep) for keep in protected)
    ]
    return [root for root in dict.fromkeys(roots) if os.path.exists(root)]  # noqa: PTH110


def protected_names(policy: Policy) -> list[str]:
    """The read-only paths of `keep`, with resolved parents; for a symbolic link, both the link and its target."""
    names = [os.path.join(_real(path.parent), path.name) for path in policy.keep]  # noqa: PTH118
    return list(dict.fromkeys([*names, *map(_real, names)]))


def shielded_names(policy: Policy) -> list[str]:
    """The resolved paths of `shield` that are not below `also_write`."""
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
    """The mounts that implement `policy`. The scratch folder must exist; see `prepare_scratch`."""
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
