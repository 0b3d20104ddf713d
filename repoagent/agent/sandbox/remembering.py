"""Which sandbox worked here last, kept in the user's cache until the machine starts again or anything changes that it
depends on.

It saves the try before the first request, not the one before the first command: what is kept is a guess, used for what
is said and asked, and `finding.tried` tries it before a command runs. So a stale or forged one can let nothing out.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from repoagent import __version__
from repoagent.agent.sandbox.bubblewrap import Bubblewrap
from repoagent.agent.sandbox.landlock import Landlock
from repoagent.agent.sandbox.launch import landlock

_LONGEST = 4096
_SETTINGS = (
    "user/max_user_namespaces",
    "kernel/unprivileged_userns_clone",
    "kernel/apparmor_restrict_unprivileged_userns",
)
_STATUS = ("Uid", "Gid", "Groups", "Cap", "NoNewPrivs", "Seccomp")


def remembered(bubblewrap: str | None) -> Bubblewrap | Landlock | None:
    """What worked here last; None where nothing is kept that still holds. `bubblewrap` is its program, where there is
    one. Only which of them it was is read: programs and versions are those of now."""
    if (file := _file()) is None or (key := _key(bubblewrap)) is None:
        return None
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as stream:  # noqa: PTH123
            status = os.fstat(descriptor)
            if status.st_uid != os.geteuid() or status.st_mode & 0o077:
                return None
            kept = json.loads(stream.read(_LONGEST))
    except (OSError, ValueError):
        return None
    if not isinstance(kept, dict) or kept.get("key") != key:
        return None
    if kept.get("sandbox") == "bubblewrap" and bubblewrap:
        return Bubblewrap(bubblewrap, sizes=kept.get("sizes") is True)
    if kept.get("sandbox") == "landlock":
        return Landlock(landlock.abi(), mounting=kept.get("mounting") is True)
    return None


def remember(worked: object, bubblewrap: str | None) -> None:
    """Keep that `worked`, the best that was tried; forget what is kept where it is None. In silence when that fails: it
    is tried again then."""
    said: dict[str, object] = {}
    if isinstance(worked, Bubblewrap):
        said = {"sandbox": "bubblewrap", "sizes": worked.sizes}
    elif isinstance(worked, Landlock):
        said = {"sandbox": "landlock", "mounting": worked.mounting}
    if (file := _file()) is None:
        return
    key = _key(bubblewrap)
    with suppress(OSError):
        if not said or key is None:
            file.unlink(missing_ok=True)
            return
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=".sandbox-", dir=file.parent)  # mode 0600
        try:
            with open(descriptor, "w", encoding="ascii") as stream:  # noqa: PTH123
                json.dump({"key": key, **said}, stream)
            Path(name).replace(file)
        except BaseException:
            Path(name).unlink()
            raise


def _file() -> Path | None:
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        base = cache if cache.is_absolute() else Path.home() / ".cache"
    except RuntimeError:  # nobody knows where home is
        return None
    return base / "repoagent" / "sandbox.json"


def _key(bubblewrap: str | None) -> str | None:
    """What the answer depends on, as one word; None where a start of the machine can't be told from another."""
    proc = Path("/proc")
    try:
        parts = [__version__, sys.executable, (proc / "sys/kernel/random/boot_id").read_text(), *os.uname()]
        spaces = sorted((proc / "self/ns").iterdir())
        parts += [f"{space.name} {space.readlink()}" for space in spaces]
        lines = (proc / "self/status").read_text(errors="replace").splitlines()
        if bubblewrap:
            found = os.stat(bubblewrap)  # noqa: PTH116
            parts.append(f"{bubblewrap} {found.st_mtime_ns} {found.st_ino} {found.st_size} {found.st_mode}")
    except OSError:
        return None
    parts += [line for line in lines if line.startswith(_STATUS)]
    parts.append(str(landlock.abi()))
    for name in (*(f"sys/{name}" for name in _SETTINGS), "self/attr/current"):
        with suppress(OSError):
            parts.append(f"{name} {(proc / name).read_text(errors='replace')}")
    return sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()
