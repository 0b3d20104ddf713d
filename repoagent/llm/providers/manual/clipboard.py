"""The clipboard of whoever sits at the terminal, through the programs that there are for it.

Nothing here waits longer than a few seconds, and nothing fails: there is a clipboard, or there is none.
"""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping

from repoagent.dataclass import dataclass

TIMEOUT = 5.0  # seconds, for each program
# What a terminal takes as one OSC 52 sequence: 100,000 bytes is the usual limit, in base64.
OSC52_LIMIT = 74_900


@dataclass(frozen=True)
class Tool:
    """A clipboard by its programs: `put` reads text on standard input, `get` prints it."""

    put: tuple[str, ...]
    get: tuple[str, ...]
    encoding: str = "utf-8"  # of what `put` reads


def tools(env: Mapping[str, str] | None = None) -> Iterator[Tool]:
    """The clipboards that can be reached from here, the best first; nothing is run to find out."""
    env = os.environ if env is None else env
    path = env.get("PATH")
    for tool, there in (
        (Tool(("pbcopy",), ("pbpaste",)), sys.platform == "darwin"),
        (Tool(("wl-copy",), ("wl-paste", "--no-newline")), bool(env.get("WAYLAND_DISPLAY"))),
        (
            Tool(("xclip", "-selection", "clipboard"), ("xclip", "-selection", "clipboard", "-o")),
            bool(env.get("DISPLAY")),
        ),
        (Tool(("xsel", "-b", "-i"), ("xsel", "-b", "-o")), bool(env.get("DISPLAY"))),
        (Tool(("clip.exe",), _POWERSHELL, "utf-16-le"), bool(env.get("WSL_DISTRO_NAME"))),
        # -w: on to the clipboard of the terminal that tmux runs in
        (Tool(("tmux", "load-buffer", "-w", "-"), ("tmux", "save-buffer", "-")), bool(env.get("TMUX"))),
    ):
        if there and shutil.which(tool.put[0], path=path) and shutil.which(tool.get[0], path=path):
            yield tool


_POWERSHELL = (
    "powershell.exe", "-NoProfile", "-NonInteractive", "-Command",
    "[Console]::OutputEncoding = [Text.Encoding]::UTF8; Get-Clipboard -Raw",
)  # fmt: skip


def put(text: str) -> Tool | None:
    """Put `text` into the first clipboard that takes it, which is returned; None where none does."""
    for tool in tools():
        if _run(tool.put, text.encode(tool.encoding)) is not None:
            return tool
    return None


def get(tool: Tool) -> str | None:
    """What is in the clipboard, with `\\n` at the ends of lines; None when it can't be read or is no text."""
    data = _run(tool.get, None)
    return None if data is None else data.decode("utf-8-sig", "replace").replace("\r\n", "\n")


def osc52(text: str) -> str:
    """The escape sequence that asks a terminal to put `text` into its clipboard; "" when it is too long.

    Whether the terminal has done so can't be known.
    """
    data = text.encode()
    return "" if len(data) > OSC52_LIMIT else f"\x1b]52;c;{base64.b64encode(data).decode()}\x07"


def _run(command: tuple[str, ...], data: bytes | None) -> bytes | None:
    """What `command` prints; None when it fails or takes too long.

    What only takes text may stay in the background to serve it (xclip, wl-copy): it is given no pipe to hold
    open, and a session of its own, so that a ^C here does not empty the clipboard.
    """
    try:
        done = subprocess.run(
            command,
            input=data,
            stdin=subprocess.DEVNULL if data is None else None,
            stdout=subprocess.PIPE if data is None else subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=TIMEOUT,
            start_new_session=True,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return None if done.returncode else done.stdout or b""
