"""Messages and requests to a live run, as files in its directory.

A message is delivered at least once: its file is removed when the conversation contains it. `stop` and `pause` are
requests if they exist; their content does not matter.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from repoagent.errors import Refused
from repoagent.storage.atomic import read_regular, set_aside, write_whole
from repoagent.storage.folders import open_folder, system_failed
from repoagent.storage.layout import Warn
from repoagent.tasks.runs.directory import RunDirectory

ENDING = ".md"
LARGEST = 256 * 1024  # bytes of a message
AT_ONCE = 20  # messages that `take` returns
_HALF_WRITTEN = 2.0  # seconds: a younger empty file may still be written


class Message(str):
    """The text of a message. `name` is its file name, which is "message" in the `meta` of its turn."""

    name: str

    def __new__(cls, text: str, name: str) -> Message:
        self = super().__new__(cls, text)
        self.name = name
        return self


def unread(run_dir: RunDirectory) -> int:
    """The number of messages that the run has not seen."""
    try:
        return len(_names(run_dir.inbox))
    except Refused:  # the inbox is not a folder; `take` reports that
        return 0


def take(run_dir: RunDirectory, warn: Warn) -> list[Message]:
    """Read at most AT_ONCE messages of the inbox, by name; call `remove` when the conversation contains them.

    Links, pipes and files above LARGEST are set aside with a warning. Raises Refused if the inbox is not a folder.
    """
    messages: list[Message] = []
    taken = run_dir.inbox / "taken"  # earlier versions moved messages there until the conversation had them
    with suppress(OSError, Refused):
        for name in _names(taken):
            (taken / name).rename(run_dir.inbox / name)
    for name in _names(run_dir.inbox):
        if len(messages) == AT_ONCE:
            break
        path = run_dir.inbox / name
        try:
            data = read_regular(path, most=LARGEST)
        except Refused as error:
            with suppress(FileNotFoundError):
                warn(f"{error}; kept it as {set_aside(path).name} and did not pass it to the run")
            continue
        if data is None or (not data and _is_young(path)):
            continue
        text = data.decode("utf-8-sig", "replace")
        if text.strip():
            messages.append(Message(text, name))
        else:
            clear(path)
    return messages


def remove(run_dir: RunDirectory, messages: Iterable[Message]) -> None:
    for message in messages:
        clear(run_dir.inbox / message.name)


def _names(folder: Path) -> list[str]:
    try:
        with open_folder(folder) as opened:
            names = os.listdir(opened)  # noqa: PTH208  (of a descriptor)
    except FileNotFoundError:
        return []
    return sorted(name for name in names if name.endswith(ENDING) and not name.startswith("."))


def _is_young(path: Path) -> bool:
    return 0 <= time.time() - path.lstat().st_mtime < _HALF_WRITTEN


def is_requested(path: Path) -> bool:
    """Whether the request exists, as a file of any type: it is never opened."""
    return os.path.lexists(path)


def request(path: Path) -> None:
    """Create the file of a request. Raises Refused if it cannot be written."""
    if not is_requested(path):
        write_whole(path, b"")


def clear(path: Path) -> bool:
    """Remove a request, a file of any type; returns False if there was none. Raises Refused if it cannot be removed."""
    try:
        with open_folder(path.parent) as parent:
            os.unlink(path.name, dir_fd=parent)
    except FileNotFoundError:
        return False
    except OSError as error:
        if not path.is_dir():  # systems disagree on the error for a folder
            raise system_failed("remove", path, error) from error
        set_aside(path)
    return True
