"""Messages and requests to a live run, as files in its directory.

A message is delivered at least once. When it is handed out, its file moves to `inbox/taken/`, and is removed when the
run asks again, since the conversation then contains it. A run that was killed in between gets it again, unless a turn
of the conversation names it (`message=NAME` in its `meta`). `stop` and `pause` are requests by their existence alone.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from repoagent.errors import Refused
from repoagent.llm.conversation import read
from repoagent.storage.atomic import set_aside, write_whole
from repoagent.storage.folders import open_folder, system_failed
from repoagent.storage.layout import Warn
from repoagent.tasks.runs.directory import RunDirectory

ENDING = ".md"
LARGEST = 256 * 1024  # bytes of a message; who has more to say names a file
AT_ONCE = 20  # messages that are handed out together
_HALF_WRITTEN = 2.0  # seconds: an empty file that is as young is about to be written
_SAFE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Message(str):
    """The text of a message. `name` is that of its file: what the `meta` of its turn names as "message"."""

    name: str

    def __new__(cls, text: str, name: str) -> Message:
        self = super().__new__(cls, text)
        self.name = name
        return self


def unread(run_dir: RunDirectory) -> int:
    """How many messages the run has not seen."""
    try:
        return len(_names(run_dir.inbox))
    except Refused:  # no inbox at all; who takes from it says why
        return 0


def take(run_dir: RunDirectory, warn: Warn) -> list[Message]:
    """The messages in the inbox, oldest name first, at most AT_ONCE. What is none (a link, a pipe, a file of more than
    LARGEST bytes) is set aside, and `warn` is told. Raises Refused where the inbox itself is none, or can't be
    written to."""
    found: list[Message] = []
    for name in _names(run_dir.inbox):
        if len(found) == AT_ONCE:
            break
        text = _text(run_dir.inbox / name, warn)
        if text is not None:
            _move(run_dir.inbox, run_dir.taken, name)
            if text.strip():
                found.append(Message(text, name))
    return found


def confirm(run_dir: RunDirectory) -> None:
    """What was handed out is in the conversation: its files go."""
    for name in _names(run_dir.taken):
        try:
            with open_folder(run_dir.taken) as opened:
                os.unlink(name, dir_fd=opened)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise system_failed("remove", run_dir.taken / name, error) from error


def put_back(run_dir: RunDirectory) -> None:
    """After a kill: what was handed out goes back to the inbox, unless the conversation names it."""
    names = _names(run_dir.taken)
    if not names:
        return
    conversation = read(run_dir.conversation)
    turns = () if conversation is None else conversation.turns
    told = {name for turn in turns if turn.role == "user" for name in turn.meta.get("message", "").split("/")}
    for name in names:
        if name not in told:
            _move(run_dir.taken, run_dir.inbox, name)
    confirm(run_dir)


def _names(path: Path) -> list[str]:
    try:
        with open_folder(path) as opened, os.scandir(opened) as found:
            return sorted(
                entry.name
                for entry in found
                if entry.name.endswith(ENDING) and not entry.name.startswith(".")
            )
    except FileNotFoundError:
        return []


def _text(path: Path, warn: Warn) -> str | None:
    """What a message says; None for one that is still to be written, that is gone, or was set aside."""
    try:
        with open_folder(path.parent) as parent:
            descriptor = os.open(path.name, _SAFE, dir_fd=parent)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO, errno.EACCES):
            raise system_failed("read", path, error) from error
        _set_aside(path, "cannot be read", warn)
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            _set_aside(path, "is not a regular file", warn)
        elif status.st_size > LARGEST:
            _set_aside(path, f"has more than {LARGEST // 1024} KiB", warn)
        elif status.st_size or not 0 <= time.time() - status.st_mtime < _HALF_WRITTEN:
            return b"".join(_pieces(descriptor)).decode("utf-8-sig", "replace")
    finally:
        os.close(descriptor)
    return None


def _pieces(descriptor: int) -> Iterator[bytes]:
    """What the file holds, to LARGEST: it may grow while it is read."""
    left = LARGEST
    while left and (piece := os.read(descriptor, left)):
        left -= len(piece)
        yield piece


def _set_aside(path: Path, why: str, warn: Warn) -> None:
    try:
        kept = set_aside(path)
    except FileNotFoundError:
        return
    warn(f"the message {path} {why}; kept it as {kept.name} and did not pass it to the run")


def _move(source: Path, target: Path, name: str) -> None:
    try:
        with open_folder(source) as here, open_folder(target, create=True) as there:
            os.replace(name, name, src_dir_fd=here, dst_dir_fd=there)
    except FileNotFoundError:
        return
    except OSError as error:
        raise system_failed("move", source / name, error) from error


def is_there(path: Path) -> bool:
    """Whether there is anything of that name: it is never opened."""
    try:
        path.lstat()
    except OSError:
        return False
    return True


def ask(path: Path) -> None:
    """Make the request. Raises Refused where it can't be written."""
    if not is_there(path):
        write_whole(path, b"")


def clear(path: Path) -> bool:
    """Take a request back, whatever stands there; False when there was none. Raises Refused where it can't be."""
    try:
        with open_folder(path.parent) as parent:
            os.unlink(path.name, dir_fd=parent)
    except FileNotFoundError:
        return False
    except OSError as error:
        if not path.is_dir():  # a folder is said to be one in several ways, by the system
            raise system_failed("remove", path, error) from error
        set_aside(path)
    return True
