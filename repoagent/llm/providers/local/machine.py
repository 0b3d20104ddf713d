"""What this machine has for a model: memory that is free, and cores."""

from __future__ import annotations

import os
import re
from pathlib import Path

_UNLIMITED = 1 << 60  # version 1 writes a number about so large for "no limit"


def available_memory(root: Path = Path("/")) -> int | None:
    """Bytes that can be had without swapping, within the limits of the control groups; None if not known."""
    known = [_free(root), *_group_rooms(root)]
    return min((room for room in known if room is not None), default=None)


def cores(root: Path = Path("/")) -> int:
    """Physical cores that this process may use: a second thread on a core makes llama.cpp slower."""
    try:
        allowed = sorted(os.sched_getaffinity(0))
    except AttributeError:  # macOS
        return max(os.cpu_count() or 1, 1)
    siblings = {
        _text(root / f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") or str(cpu)
        for cpu in allowed
    }
    return max(1, min(len(siblings), _quota(root) or len(siblings)))


def _free(root: Path) -> int | None:
    found = re.search(r"^MemAvailable:\s+(\d+) kB", _text(root / "proc/meminfo"), re.MULTILINE)
    if found:
        return int(found[1]) * 1024
    try:  # macOS does not say what is free; it compresses and evicts a lot for who needs memory
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * 3 // 4
    except (ValueError, OSError):
        return None


def _group_rooms(root: Path) -> list[int | None]:
    """What each control group above this process still allows; pages of files are given back on demand."""
    rooms: list[int | None] = []
    for line in _text(root / "proc/self/cgroup").splitlines():
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        if number == "0" and not controllers:
            base, limit, used = root / "sys/fs/cgroup", "memory.max", "memory.current"
        elif "memory" in controllers.split(","):
            base, limit, used = (
                root / "sys/fs/cgroup/memory",
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
            )
        else:
            continue
        for group in _upwards(base, path):
            most, now = _number(group / limit), _number(group / used)
            if most is not None and now is not None and most < _UNLIMITED:
                files = re.findall(
                    r"^(?:total_)?(?:in)?active_file (\d+)", _text(group / "memory.stat"), re.MULTILINE
                )
                rooms.append(max(0, most - now + min(now, max(map(int, files), default=0))))
    return rooms


def _upwards(base: Path, path: str) -> list[Path]:
    """The folders of a group and those above it. In a container the path may be that of the host: only `base`
    is there then."""
    folders = [base]
    for name in path.strip("/").split("/"):
        if name not in ("", ".", ".."):
            folders.append(folders[-1] / name)
    return folders


def _quota(root: Path) -> int | None:
    """How many whole cores the control group's share of time comes to."""
    found = re.fullmatch(r"(\d+) (\d+)", _text(root / "sys/fs/cgroup/cpu.max"))
    return -(-int(found[1]) // max(int(found[2]), 1)) if found else None


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text.isdigit() else None


def _text(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace").strip()
    except OSError:
        return ""  # another system, or not readable from in here
