"""Confine a command with Landlock and seccomp and, where the user may create namespaces, with mounts.

Where only bubblewrap may create namespaces, it sets up the mounts. A command can also be supervised without being
confined.
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
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from repoagent.agent.sandbox.launch import seccomp, syscalls
from repoagent.agent.sandbox.mounts import plan_mounts, protected_names, shielded_names, writable_roots
from repoagent.agent.sandbox.policy import Policy
from repoagent.dataclass import dataclass

_PATIENCE = 20.0  # seconds for the trial run, which takes a few hundredths
# Not a module, since importing the packages above it takes longer than many commands.
_LAUNCH = (
    "import sys; sys.path.append(sys.argv[1]); from launch.main import main; main(sys.argv[2], sys.argv[3:])"
)
_INTERNET = (seccomp.AF_INET, seccomp.AF_INET6, seccomp.AF_NETLINK)  # confined by a network namespace
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx")
_HOMES = (("config", "XDG_CONFIG_HOME", ".config"), ("data", "XDG_DATA_HOME", ".local/share"))

_CLOSED = "Commands cannot create files or folders at the top of the work tree, only in subfolders."
_ABSTRACT_SOCKETS = "With network access, commands can reach other programs' abstract Unix sockets."
_ALL_CALLS = "System calls are not filtered on this processor architecture."
_NAMES_ARE_SEEN = "Commands can see the names of hidden files, but not their content."
_WITHOUT_MOUNTS = (
    "Outside the work tree, commands can change the mode, owner and times of any file that you can.",
    "Commands can see the names and arguments of other processes, and change their priority.",
    "Commands cannot write to /tmp or shared memory, or open terminals or Unix sockets, so some programs fail.",
)
_SIGNALS = "Commands can send signals to the user's other programs (this kernel's Landlock is too old to prevent it)."
_NO_MOVES = (
    "Commands cannot move or link files to another folder (this kernel's Landlock is too old to allow it)."
)


@dataclass(frozen=True)
class Sandbox:
    """A way to confine a command.

    program: the path of bubblewrap; "" for Landlock.
    mounting: whether mounts can cover paths; otherwise Landlock works alone.
    """

    program: str = ""
    mounting: bool = True

    @property
    def name(self) -> str:
        return "bubblewrap" if self.program else "landlock"

    def wrap(self, argv: Sequence[str], policy: Policy, report: Path | None = None) -> list[str]:
        """The command line that runs `argv` in the sandbox. Standard streams, exit code (128+n for signal n) and
        signals pass through; killing it ends all that it started. `report`: see `why_ended`."""
        prepare_scratch(policy)
        planned = plan_mounts(policy) if self.mounting else None
        # In a network namespace sockets reach nothing; without one they must not be created. Unix sockets in the file
        # system can only be hidden by mounts. Pairs (socketpair) are always allowed.
        families = _INTERNET if self.mounting or policy.network else ()
        specification = {
            "missing": planned.missing if planned else (),
            "depth": 2 if planned else 0,  # bubblewrap, or the parent of the namespaces, and the init in them
            "families": (seccomp.AF_UNIX, *families) if self.mounting else families,
            "network": policy.network,
            **_limits(policy, report),
        }
        if self.program and planned:
            spaces = ["user", "ipc", "pid", "uts", "cgroup-try", *([] if policy.network else ["net"])]
            options = [f"--unshare-{space}" for space in spaces]
            options += ["--die-with-parent", "--new-session", "--cap-drop", "ALL"]
            options += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--perms", "1777"]
            options += ["--size", str(policy.shared_memory), "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
            # root could set kernel parameters of the whole system there
            options += ["--remount-ro", "/proc"] if os.geteuid() == 0 else []
            for kind, source, target in planned.steps:
                if kind in {"file", "folder"}:  # "" stands for the descriptor of an empty file
                    options += ["--ro-bind-data", "", target] if kind == "file" else ["--tmpfs", target]
                else:
                    options += ["--ro-bind" if kind == "keep" else "--bind", source, target]
            for kind, _, target in planned.steps:
                options += ["--remount-ro", target] if kind == "folder" else []
            return _launched(argv, bubblewrap=[self.program, *options], **specification)
        return _launched(
            argv,
            steps=planned.steps if planned else None,
            rules=list(_rules(policy, mounting=self.mounting)),
            shared_memory=policy.shared_memory,
            **specification,
        )

    def narrows(self, policy: Policy) -> tuple[str, ...]:
        """A sentence for each part of the work tree where commands cannot write although `policy` allows it."""
        top = os.path.realpath(policy.top)
        if self.mounting:
            closed = plan_mounts(policy).narrow
        else:
            protected = protected_names(policy)
            closed = not policy.read_only and any(syscalls.is_within(path, top) for path in protected)
        return (_CLOSED,) if closed else ()

    def limits_of(self, policy: Policy) -> tuple[str, ...]:
        """A sentence for each part of `policy` that cannot be enforced on this machine."""
        abi = syscalls.landlock_abi()
        limits = [*self.narrows(policy)]
        if self.mounting:
            limits += [_ABSTRACT_SOCKETS] if policy.network and abi < 6 else []
            limits += [] if seccomp.supported() else [_ALL_CALLS]
        else:
            limits += [_NAMES_ARE_SEEN] if policy.hide else []
            limits += _WITHOUT_MOUNTS
            limits += [_SIGNALS] if abi < 6 else []
        return (*limits, _NO_MOVES) if abi < 2 and not self.program else tuple(limits)


def _rules(policy: Policy, *, mounting: bool) -> Iterator[tuple[str, int, list[str]]]:
    """Folders and files for Landlock, the rights to them, and the paths below them that are excluded."""
    hidden = ["/dev"]
    protected: list[str] = []
    if not mounting:
        hidden += ["/run/user", *(os.path.realpath(path) for path in policy.hide)]
        top = os.path.realpath(policy.top)
        shielded = [path for path in shielded_names(policy) if path.rpartition("/")[0] == top]
        protected = [*protected_names(policy), *shielded]
    yield "/", syscalls.READ_DIR, []
    yield "/", syscalls.READ, hidden
    yield from ((root, syscalls.WRITE, [*protected, *hidden]) for root in writable_roots(policy))
    yield os.path.realpath(policy.scratch), syscalls.WRITE, []
    yield from ((f"/dev/{name}", syscalls.DEVICE, []) for name in _DEVICES)
    if mounting:
        yield from ((path, syscalls.WRITE, []) for path in ("/tmp", "/var/tmp", "/dev/shm"))
        yield "/dev/pts", syscalls.DEVICE | syscalls.READ_DIR, []
        if os.geteuid():  # /proc/self/comm and the like; root could change the system there
            yield "/proc", syscalls.READ_FILE | syscalls.WRITE_FILE, []


def prepare_scratch(policy: Policy) -> Path:
    """Create the scratch folder with folders for XDG_CONFIG_HOME and XDG_DATA_HOME, which contain links to the entries
    of the user's folders. Its content is not trusted: a command may have put a link there."""
    scratch = Path(os.path.realpath(policy.scratch))
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


def unconfined_command(argv: Sequence[str], policy: Policy, report: Path | None = None) -> list[str]:
    """The command line that runs `argv` without a sandbox, but with the limits on memory and processes; nothing that it
    starts outlives it. `report`: see `why_ended`. On systems other than Linux it is `argv` itself."""
    if sys.platform != "linux":
        return list(argv)
    return _launched(argv, depth=0, **_limits(policy, report))


def supervised_command(argv: Sequence[str]) -> list[str]:
    """The command line that runs `argv` without a sandbox or limits. The command and all that it started end when it is
    terminated, or when this program dies; if it ends by itself, processes outside its group keep running. On systems
    other than Linux, the command line is `argv` itself."""
    return _launched(argv, depth=0, daemons=True) if sys.platform == "linux" else list(argv)


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


def why_ended(report: Path) -> str | None:
    """The reason why repoagent ended a command, such as "it used more than 512 MB of memory"; None if the command ended
    by itself.

    If there is a reason, the exit code is 137. `report` is the file that was passed to `wrap`; commands cannot write to
    it.
    """
    try:
        return report.read_text("utf-8").strip() or None
    except FileNotFoundError:
        return None


@lru_cache(maxsize=1)
def find_sandbox() -> Sandbox | None:
    """The best sandbox that works on this machine, or None; cached."""
    return next((sandbox for sandbox in candidates() if sandbox_works(sandbox)), None)


def candidates() -> Iterator[Sandbox]:
    """The kinds of sandbox that this machine may support, best first."""
    if sys.platform != "linux":
        return
    supported = syscalls.landlock_abi() and seccomp.supported()
    if supported:
        yield Sandbox()
    folders = [part for part in os.environ.get("PATH", os.defpath).split(os.pathsep) if part.startswith("/")]
    program = shutil.which("bwrap", path=os.pathsep.join(folders))
    if program and not os.stat(program).st_mode & stat.S_ISUID:  # noqa: PTH116  a setuid one may not use Landlock
        yield Sandbox(program)
    if supported:
        yield Sandbox(mounting=False)


def sandbox_works(sandbox: Sandbox) -> bool:
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


def why_no_sandbox() -> str:
    """Why this machine has no sandbox for commands, in one sentence."""
    systems = {
        "linux": "neither Landlock nor the program `bwrap` (package `bubblewrap`) works on this machine.",
        "darwin": "repoagent has no sandbox for commands on macOS yet.",
    }
    return systems.get(sys.platform, "repoagent has no sandbox for commands on this system.")
