"""A file that was named for the answer: a new one, one that is replaced, or a device or pipe that takes it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from repoagent.errors import UsageError

if TYPE_CHECKING:
    from repoagent.cli.screen.terminal import Terminal

_SYSTEM_S = ("/dev/", "/proc/")  # where a name stands for what is open already, a file too


def write_to(path: Path, data: bytes, option: str, *, private: bool = False) -> None:
    """Write `data` to `path`, which was given with `option`. A regular file, or a link to one, is replaced
    whole; a device, a pipe or a terminal (/dev/stdout, /dev/null) is written to, and stays what it is.

    Raises UsageError for a folder, or where there is no folder for it, Refused where the system says no.
    """
    from repoagent.store import write_whole
    from repoagent.store.folders import failed

    if path.is_dir():
        raise UsageError(f"{path} is a folder: give {option} the name of a file")
    try:
        if path.exists() and (not path.is_file() or os.path.normpath(path).startswith(_SYSTEM_S)):
            with open(path, "wb", buffering=0, opener=_existing) as file:
                left = memoryview(data)
                while left:
                    left = left[file.write(left) or 0 :]
            return
    except BrokenPipeError:
        raise
    except OSError as error:
        raise failed("write", path, error) from error
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {path.parent}: make it, or give {option} another name")
    write_whole(path, data, private=private)


def _existing(path: str, flags: int) -> int:
    return os.open(path, flags & ~(os.O_CREAT | os.O_TRUNC) | os.O_NOCTTY)


def show_page(terminal: Terminal, text: str, name: str) -> None:
    """Write a page to a new temporary file that only the user can read, print its path and open it in the browser. The
    file stays: the browser may read it after this process has ended."""
    import tempfile
    import webbrowser

    handle, path = tempfile.mkstemp(prefix=f"repoagent-{name}-", suffix=".html")
    with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
    terminal._replace(pages="").result(f"{path}\n")
    if not webbrowser.open(Path(path).as_uri()):
        terminal.note("no browser found: open the file yourself, or choose its name with -o FILE")
