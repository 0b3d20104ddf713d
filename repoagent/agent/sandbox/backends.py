"""Find the sandbox that works on this machine, by trying: bubblewrap, or Landlock and seccomp with or without mounts.

The result is cached in the user's cache folder until the machine restarts or something that it depends on changes. The
cache saves a trial before the first request; `tried` repeats it before a command runs, so that a stale or forged entry
cannot let a command out.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from repoagent import __version__
from repoagent.agent.sandbox.bubblewrap import (
    NARROW,
    Bubblewrap,
    kept_names,
    launched,
    plan,
    prepare_scratch,
    shielded_names,
    writable_roots,
)
from repoagent.agent.sandbox.launch.syscalls import (
    DEVICE,
    READ,
    READ_DIR,
    READ_FILE,
    WRITE,
    WRITE_FILE,
    landlock_abi,
    within,
)
from repoagent.agent.sandbox.policy import Policy
from repoagent.dataclass import dataclass
from repoagent.errors import Refused

_PATIENCE = 20.0  # seconds; it takes some hundredths


class Sandbox(Protocol):
    """A way to confine a command."""

    @property
    def name(self) -> str:
        """`bubblewrap` or `landlock`."""

    def wrap(self, argv: Sequence[str], policy: Policy, report: Path | None = None) -> list[str]:
        """The command line for `argv` in the sandbox. Standard streams, exit code (128+n for signal n) and signals pass
        through; killing it ends all that it started. `report`: see `why_ended`."""

    def narrows(self, policy: Policy) -> tuple[str, ...]:
        """Where in the work tree commands cannot write although `policy` allows it, in sentences."""

    def limits_of(self, policy: Policy) -> tuple[str, ...]:
        """The parts of `policy` that cannot be enforced on this machine, in sentences."""


@lru_cache(maxsize=1)
def find() -> Sandbox | None:
    """The best sandbox that works on this machine, or None. Tried once per process, and cached for the next."""
    best = next((sandbox for sandbox in candidates() if works(sandbox)), None)
    if sys.platform == "linux":
        remember(best, _bubblewrap())
    return best


def likely() -> Sandbox | None:
    """The cached sandbox, without a trial; else `find`. Pass it to `tried` before anything runs in it."""
    return _guess() or find()


def tried(sandbox: Sandbox) -> Sandbox:
    """`sandbox`; if it comes from the cache, the best one that works now.

    Raises Refused if none does: a command that was allowed in a sandbox never runs without one.
    """
    if sandbox is not _guess():
        return sandbox
    best = find()
    if best is None:
        raise Refused(
            f"no command was run: the sandbox {sandbox.name} worked here before, but does not now. "
            f"{why_none()} Start again to run without a sandbox."
        )
    return best


@lru_cache(maxsize=1)
def _guess() -> Sandbox | None:
    if sys.platform != "linux":
        return None
    return remembered(_bubblewrap())


def candidates() -> Iterator[Sandbox]:
    """All kinds of sandbox that this machine may support, the best first."""
    if sys.platform != "linux":
        return
    if program := _bubblewrap():
        yield Bubblewrap(program, sizes=_knows_sizes(program))
    from repoagent.agent.sandbox.launch import seccomp

    if (version := landlock_abi()) and seccomp.supported():
        yield Landlock(version, mounting=True)
        yield Landlock(version, mounting=False)


def works(sandbox: Sandbox) -> bool:
    """Whether a command runs in it, and can write only where it is allowed."""
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
        return "repoagent has no sandbox for commands on macOS yet."
    if sys.platform != "linux":
        return "repoagent has no sandbox for commands on this system."
    if _bubblewrap():
        return (
            "bubblewrap is installed but may not create namespaces here, and Landlock does not work in this "
            "kernel."
        )
    return "bubblewrap is not installed (package `bubblewrap`), and Landlock does not work in this kernel."


def _knows_sizes(program: str) -> bool:
    try:
        usage = subprocess.run([program, "--help"], capture_output=True, timeout=_PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return b"--size" in usage.stdout + usage.stderr


def _bubblewrap() -> str | None:
    """The program, ignoring relative folders in PATH."""
    path = os.pathsep.join(
        part for part in os.environ.get("PATH", os.defpath).split(os.pathsep) if part.startswith("/")
    )
    return shutil.which("bwrap", path=path)


_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx")
_WITH_INTERNET = (2, 10, 16)  # AF_INET, AF_INET6, AF_NETLINK
_UNIX = 1
_CLOSED = "Commands cannot create files or folders at the top of the work tree, only in its folders."
_NO_MOVES = "Commands cannot move or link files from one folder to another (old Landlock)."


@dataclass(frozen=True)
class Landlock:
    """Landlock of version `abi`; `mounting`: the user may create mount namespaces."""

    abi: int
    mounting: bool
    name: str = "landlock"

    def wrap(self, argv: Sequence[str], policy: Policy, report: Path | None = None) -> list[str]:
        """The command line for `argv` in the sandbox. Creates the scratch folder. `report`: see `why_ended`."""
        prepare_scratch(policy)
        planned = plan(policy) if self.mounting else None
        # In a network namespace sockets reach nothing; without one they must not be created. Unix sockets in the file
        # system can only be hidden by mounts. Pairs (socketpair) are always allowed.
        families: tuple[int, ...] = _WITH_INTERNET if self.mounting or policy.network else ()
        specification = {
            "kind": "landlock",
            "steps": planned.steps if planned else None,
            "rules": list(self._rules(policy)),
            "network": policy.network,
            "shared_memory": policy.shared_memory,
            "families": (_UNIX, *families) if self.mounting else families,
            "missing": planned.missing if planned else (),
            "depth": 2 if planned else 0,  # the parent of the namespaces, and their init
        }
        return launched(argv, policy, specification, report)

    def narrows(self, policy: Policy) -> tuple[str, ...]:
        """Where in the work tree commands cannot write although `policy` allows it, in sentences."""
        if self.mounting:
            return (NARROW,) if plan(policy).narrow else ()
        top = os.path.realpath(policy.top)
        closed = not policy.read_only and any(within(path, top) for path in kept_names(policy))
        return (_CLOSED,) if closed else ()

    def limits_of(self, policy: Policy) -> tuple[str, ...]:
        """The parts of `policy` that cannot be enforced on this machine, in sentences."""
        return tuple(self._limits_with_mounts(policy) if self.mounting else self._limits_without(policy))

    def _rules(self, policy: Policy) -> Iterator[tuple[str, int, list[str]]]:
        """Folders and files, the rights to them, and the paths below them that are excluded."""
        hidden = (
            ["/dev"]
            if self.mounting
            else ["/dev", "/run/user", *(os.path.realpath(path) for path in policy.hide)]
        )
        top = os.path.realpath(policy.top)
        shielded = [path for path in shielded_names(policy) if path.rpartition("/")[0] == top]
        protected = [] if self.mounting else [*kept_names(policy), *shielded]
        yield "/", READ_DIR, []
        yield "/", READ, hidden
        yield from ((root, WRITE, [*protected, *hidden]) for root in writable_roots(policy))
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
            yield (
                "With network access, commands can reach abstract Unix sockets of other programs (old "
                "Landlock)."
            )

    def _limits_without(self, policy: Policy) -> Iterator[str]:
        yield from self.narrows(policy)
        if policy.hide:
            yield "Commands can see the names of hidden files, but not their content."
        yield "Commands can change the mode, owner and times of files outside the work tree where the user can."
        yield "Commands can see the names and arguments of other processes, and change their priority."
        yield (
            "Commands cannot write /tmp and shared memory, or open terminals and Unix sockets; some programs "
            "fail."
        )
        if self.abi < 6:
            yield "Commands can send signals to other programs of the same user (old Landlock)."
        if self.abi < 2:
            yield _NO_MOVES


_LONGEST = 4096
_SETTINGS = (
    "user/max_user_namespaces",
    "kernel/unprivileged_userns_clone",
    "kernel/apparmor_restrict_unprivileged_userns",
)
_STATUS = ("Uid", "Gid", "Groups", "Cap", "NoNewPrivs", "Seccomp")


def remembered(bubblewrap: str | None) -> Bubblewrap | Landlock | None:
    """The cached sandbox, if the cache is still valid. `bubblewrap`: the path of the program, if installed. Only the
    kind of sandbox is read from the cache, not the program or version."""
    if (file := _file()) is None or (key := _key(bubblewrap)) is None:
        return None
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as stream:  # noqa: PTH123
            status = os.fstat(descriptor)
            if status.st_uid != os.geteuid() or status.st_mode & 0o077:
                return None
            cached = json.loads(stream.read(_LONGEST))
    except (OSError, ValueError):
        return None
    if not isinstance(cached, dict) or cached.get("key") != key:
        return None
    if cached.get("sandbox") == "bubblewrap" and bubblewrap:
        return Bubblewrap(bubblewrap, sizes=cached.get("sizes") is True)
    if cached.get("sandbox") == "landlock":
        return Landlock(landlock_abi(), mounting=cached.get("mounting") is True)
    return None


def remember(worked: object, bubblewrap: str | None) -> None:
    """Cache `worked`, the best sandbox; clear the cache if it is None. Errors are ignored: the trial is repeated
    then."""
    facts: dict[str, object] = {}
    if isinstance(worked, Bubblewrap):
        facts = {"sandbox": "bubblewrap", "sizes": worked.sizes}
    elif isinstance(worked, Landlock):
        facts = {"sandbox": "landlock", "mounting": worked.mounting}
    if (file := _file()) is None:
        return
    key = _key(bubblewrap)
    with suppress(OSError):
        if not facts or key is None:
            file.unlink(missing_ok=True)
            return
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=".sandbox-", dir=file.parent)  # mode 0600
        try:
            with open(descriptor, "w", encoding="ascii") as stream:  # noqa: PTH123
                json.dump({"key": key, **facts}, stream)
            Path(name).replace(file)
        except BaseException:
            Path(name).unlink()
            raise


def _file() -> Path | None:
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        base = cache if cache.is_absolute() else Path.home() / ".cache"
    except RuntimeError:  # no home folder
        return None
    return base / "repoagent" / "sandbox.json"


def _key(bubblewrap: str | None) -> str | None:
    """A hash of everything that the result depends on; None if a restart of the machine cannot be detected."""
    proc = Path("/proc")
    try:
        parts = [__version__, sys.executable, (proc / "sys/kernel/random/boot_id").read_text(), *os.uname()]
        spaces = sorted((proc / "self/ns").iterdir())
        parts += [f"{space.name} {space.readlink()}" for space in spaces]
        lines = (proc / "self/status").read_text(errors="replace").splitlines()
        if bubblewrap:
            status = os.stat(bubblewrap)  # noqa: PTH116
            parts.append(
                f"{bubblewrap} {status.st_mtime_ns} {status.st_ino} {status.st_size} {status.st_mode}"
            )
    except OSError:
        return None
    parts += [line for line in lines if line.startswith(_STATUS)]
    parts.append(str(landlock_abi()))
    for name in (*(f"sys/{name}" for name in _SETTINGS), "self/attr/current"):
        with suppress(OSError):
            parts.append(f"{name} {(proc / name).read_text(errors='replace')}")
    return sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()
