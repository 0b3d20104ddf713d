"""Whether a command listens on a port: read off the kernel's table, in the network that the command is in.

A connection could not tell: a command in a sandbox has a network of its own, and another program may hold the port.
Linux only; elsewhere a connection to 127.0.0.1 has to do.
"""

from __future__ import annotations

import re
import socket
from pathlib import Path

_LISTEN = "0A"  # the state of a socket in /proc/net/tcp, see proc(5)
_PROC = Path("/proc")


def listens(pid: int, port: int) -> bool:
    """Whether the process `pid`, or one that it has started, listens on the TCP port `port`."""
    if not (_PROC / "self" / "net").exists():
        with socket.socket() as one:
            one.settimeout(0.2)
            return one.connect_ex(("127.0.0.1", port)) == 0
    for process in _family(pid):
        found = _listening(process, port)
        if found and (not _shares_network(process) or found & _sockets(process)):
            return True
    return False


def _family(pid: int) -> list[int]:
    """`pid`, and all processes below it."""
    children: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdecimal():
            stat = _read(entry / "stat")
            fields = stat.rpartition(")")[2].split()
            if len(fields) > 1:
                children.setdefault(int(fields[1]), []).append(int(entry.name))
    family = [pid]
    for one in family:
        family += children.get(one, [])
    return family


def _listening(process: int, port: int) -> set[str]:
    """The sockets (inodes) that listen on `port` in the network of `process`."""
    found = set()
    for table in ("tcp", "tcp6"):
        for line in _read(_PROC / str(process) / "net" / table).splitlines()[1:]:
            fields = line.split()
            if len(fields) > 9 and fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                found.add(fields[9])
    return found


def _sockets(process: int) -> set[str]:
    try:
        links = [str(entry.readlink()) for entry in (_PROC / str(process) / "fd").iterdir()]
    except OSError:
        return set()
    return {match[1] for link in links if (match := re.fullmatch(r"socket:\[(\d+)\]", link))}


def _shares_network(process: int) -> bool:
    try:
        mine, other = (_PROC / name / "ns" / "net" for name in ("self", str(process)))
        return mine.readlink() == other.readlink()
    except OSError:
        return True


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # it has ended
        return ""
