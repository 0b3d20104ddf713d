"""An environment to break out of: a work tree, keys, listeners, a process to attack. All of it is real."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from uuid import uuid4

import pytest
from _pytest.mark import ParameterSet

from repoagent.agent.sandbox.confine import candidates, sandbox_works
from repoagent.agent.sandbox.policy import Policy

from . import attempts

SECRET = "the key of this world"
WORKING = [sandbox for sandbox in candidates() if sandbox_works(sandbox)]


def params(*first: object) -> list[ParameterSet]:
    """Parameters for a test with each sandbox that works here, after `first`; all but the best are soak tests."""
    rest = [pytest.param(box, marks=pytest.mark.soak, id=label(box)) for box in WORKING[1:]]
    return [*(pytest.param(one, id=label(one)) for one in [*first, *WORKING[:1]]), *rest]


def label(sandbox: object) -> str:
    name = str(getattr(sandbox, "name", "unconfined"))
    return name if getattr(sandbox, "mounting", True) else f"{name}-without-mounts"


class World(ExitStack):
    """`with World(tmp_path) as world: ...`"""

    def __init__(self, base: Path) -> None:
        super().__init__()
        self.base = base.resolve()
        self.top, self.home, self.outside = self.base / "top", self.base / "home", self.base / "outside"
        self.file = self.base / "world.json"
        self.unique = uuid4().hex
        self.in_tmp, self.in_shm = (Path(f"{path}/repoagent-{self.unique}") for path in ("/tmp", "/dev/shm"))
        self._data: dict[str, object] = {"abstract": self.unique}

    def __enter__(self) -> World:
        for folder in ("top/.git/hooks", "top/src", "top/linked", "top/lib", "home/.ssh", "outside"):
            (self.base / folder).mkdir(parents=True)
        (self.top / ".git/config").write_text("[core]\n")
        (self.top / "linked/.git").write_text("gitdir: ../.git\n")
        (self.home / ".ssh/id").write_text(SECRET)
        (self.home / ".netrc").write_text(SECRET)
        (self.home / ".profile").write_text("as it was")
        for name in attempts.ATTEMPTS:
            (self.outside / name).write_text("as it was")
            (self.outside / name).chmod(0o644)
        self._listen()
        environment = {"SECRET": SECRET, "PATH": os.environ["PATH"]}
        argv = ["sh", "-c", "echo; exec sleep 1000"]
        victim = subprocess.Popen(argv, cwd=self.outside, env=environment, stdout=subprocess.PIPE)
        self.enter_context(victim)
        self.callback(victim.kill)
        victim.stdout.readline()
        paths = ("top", "home", "outside", "in_tmp", "in_shm")
        self._data |= {name: str(getattr(self, name)) for name in paths}
        self.file.write_text(json.dumps({**self._data, "victim": victim.pid, "parent": os.getpid()}))
        for path in (self.in_tmp, self.in_shm):
            self.callback(path.unlink, missing_ok=True)
        return self

    @property
    def policy(self) -> Policy:
        kept = (self.top / ".git", self.top / ".repoagent", self.top / "linked/.git")
        hidden = (self.home / ".ssh", self.home / ".netrc")
        # paths outside must be visible, otherwise an attempt would fail because of a missing name
        visible = (self.base, Path(attempts.__file__).parent)
        return Policy(self.top, self.base / "scratch", kept, hidden, also_read=visible)

    def run(self, argv: Sequence[str], names: Sequence[str]) -> None:
        """Run `argv` (wrapped or not) and wait for it."""
        done = subprocess.run(argv, cwd=self.top, capture_output=True, timeout=60, check=False, input=b"")
        assert done.returncode == 0, (names, done.stderr.decode())

    def script(self, names: Sequence[str]) -> list[str]:
        return [sys.executable, "-I", "-S", attempts.__file__, str(self.file), *names]

    def escaped(self, name: str) -> bool:
        """Whether an attempt succeeded."""
        kept, got, outside = self.top / "linked/.git", self.top / f"src/got-{name}", self.outside / name
        if name.endswith("_git_file"):
            return not kept.is_file() or "nowhere" in kept.read_text()
        if got.exists():
            return got.read_text() != ""
        effects = {
            "create_outside": (self.outside / "new").exists(),
            "write_home": (self.home / ".profile").read_text() != "as it was",
            "write_tmp": self.in_tmp.exists(),
            "write_shared_memory": self.in_shm.exists(),
            "write_parent": (self.base / "made").exists(),
            "git_config": "evil" in _text(self.top / ".git/config"),
            "git_hook": (self.top / ".git/hooks/pre-commit").exists(),
            "rename_git": not (self.top / ".git").exists(),
            "make_kept_folder": (self.top / ".repoagent/config.toml").exists(),
            "make_kept_file": (self.top / ".repoagent").is_file(),
            "link_git_config": "changed" in _text(self.top / ".git/config"),
            "change_mode_outside": outside.exists() and outside.stat().st_mode & 0o777 != 0o644,
        }
        return effects.get(name, _text(outside) != "as it was")

    def _listen(self) -> None:
        for name, family, address in (("tcp", socket.AF_INET, "127.0.0.1"), ("tcp6", socket.AF_INET6, "::1")):
            listener = self.enter_context(socket.socket(family))
            self._data[f"{name}_port"] = 0
            with suppress(OSError):  # without IPv6
                listener.bind((address, 0))
                listener.listen()
                self._data[f"{name}_port"] = listener.getsockname()[1]
        for path in (str(self.outside / "sock"), f"\0{self.unique}"):
            listener = self.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(path)
            listener.listen()
        self._data["unix"] = str(self.outside / "sock")
        datagrams = self.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        self._data["datagrams"] = str(self.outside / "datagrams")
        datagrams.bind(str(self.outside / "datagrams"))
        self._share()
        echo = self.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        echo.bind(("127.0.0.1", 0))
        echo.settimeout(0.05)
        self._data["udp_port"] = echo.getsockname()[1]
        stop = threading.Event()

        def answer() -> None:
            while not stop.is_set():
                with suppress(OSError):
                    echo.sendto(*echo.recvfrom(100))

        thread = threading.Thread(target=answer)
        thread.start()
        self.callback(thread.join)
        self.callback(stop.set)

    def _share(self) -> None:
        """Create a shared memory segment and a message queue, which have no names in the file system."""
        key = int(self.unique[:7], 16) + 1
        segment = attempts.libc.shmget(key, 8, 0o1600)  # IPC_CREAT
        self._data["segment"] = key if segment >= 0 else 0
        self.callback(attempts.libc.shmctl, segment, 0, None)  # IPC_RMID
        self._data["queue"] = queue = f"repoagent-{self.unique}"
        opened, unlink = {"x86_64": (240, 241), "aarch64": (180, 181)}[os.uname().machine]
        flags, mode = ctypes.c_long(os.O_RDWR | os.O_CREAT), ctypes.c_long(0o600)
        made = attempts.libc.syscall(opened, queue.encode(), flags, mode, None)
        if made >= 0:
            self.callback(os.close, made)
            self.callback(attempts.libc.syscall, unlink, queue.encode())


def end(process: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""
