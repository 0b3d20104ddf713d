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
from pathlib import Path

from repoagent.errors import Refused
from repoagent.llm.conversation import read
from repoagent.storage.atomic import set_aside, write_whole
from repoagent.storage.folders import open_folder, system_failed
from repoagent.storage.layout import Warn
from repoagent.tasks.runs.directory import RunDirectory

ENDING = ".md"
LARGEST = 256 * 1024  # bytes of a message
AT_ONCE = 20  # messages that are handed out together
_HALF_WRITTEN = 2.0  # seconds: an empty file this young is about to be written
_SAFE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Message(str):
    """The text of a message. `name` is that of its file, which the `meta` of its turn has as "message"."""

    name: str

    def __new__(cls, text: str, name: str) -> Message:
        self = super().__new__(cls, text)
        self.name = name
        return self


def unread(run_dir: RunDirectory) -> int:
    """How many messages the run has not seen."""
    try:
        return len(_names(run_dir.inbox))
    except Refused:  # the inbox is not a folder; `take` says why
        return 0


def take(run_dir: RunDirectory, warn: Warn) -> list[Message]:
    """At most AT_ONCE messages of the inbox, by name. Links, pipes and files above LARGEST are set aside with a
    warning. Raises Refused where the inbox is not a folder or cannot be written to."""
    messages: list[Message] = []
    for name in _names(run_dir.inbox):
        if len(messages) == AT_ONCE:
            break
        text = _text(run_dir.inbox / name, warn)
        if text is not None:
            _move(run_dir.inbox, run_dir.taken, name)
            if text.strip():
                messages.append(Message(text, name))
    return messages


def confirm(run_dir: RunDirectory) -> None:
    """The messages that were handed out are in the conversation: remove their files."""
    for name in _names(run_dir.taken):
        clear(run_dir.taken / name)


def put_back(run_dir: RunDirectory) -> None:
    """After a kill: messages that were handed out go back to the inbox, unless the conversation names them."""
    names = _names(run_dir.taken)
    if not names:
        return
    conversation = read(run_dir.conversation)
    turns = () if conversation is None else conversation.turns
    delivered = {
        name for turn in turns if turn.role == "user" for name in turn.meta.get("message", "").split("/")
    }
    for name in names:
        if name not in delivered:
            _move(run_dir.taken, run_dir.inbox, name)
    confirm(run_dir)


def _names(folder: Path) -> list[str]:
    try:
        with open_folder(folder) as opened, os.scandir(opened) as entries:
            names = (entry.name for entry in entries)
            return sorted(name for name in names if name.endswith(ENDING) and not name.startswith("."))
    except FileNotFoundError:
        return []


def _text(path: Path, warn: Warn) -> str | None:
    """The text of a message; None if it is not written yet, is gone or was set aside."""
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
            with open(descriptor, "rb", closefd=False) as file:
                return file.read(LARGEST).decode("utf-8-sig", "replace")  # it may grow while it is read
    finally:
        os.close(descriptor)
    return None


def _set_aside(path: Path, reason: str, warn: Warn) -> None:
    try:
        renamed = set_aside(path)
    except FileNotFoundError:
        return
    warn(f"the message {path} {reason}; kept it as {renamed.name} and did not pass it to the run")


def _move(source: Path, target: Path, name: str) -> None:
    try:
        with open_folder(source) as source_fd, open_folder(target, create=True) as target_fd:
            os.replace(name, name, src_dir_fd=source_fd, dst_dir_fd=target_fd)
    except FileNotFoundError:
        return
    except OSError as error:
        raise system_failed("move", source / name, error) from error


def is_requested(path: Path) -> bool:
    """Whether the request exists, of whatever type of file: it is never opened."""
    return os.path.lexists(path)


def request(path: Path) -> None:
    """Create the file of a request. Raises Refused where it can't be written."""
    if not is_requested(path):
        write_whole(path, b"")


def clear(path: Path) -> bool:
    """Remove a request, of whatever type of file; False if there was none. Raises Refused where it can't be."""
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
