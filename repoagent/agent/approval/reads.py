"""Commands that are known to do nothing but read: a short list, on the safe side.

`only_reads` is for inside a sandbox, which keeps keys unread and everything unwritten that should be. `can_do_no_harm`
is for outside of one: there git is not on the list at all (any call of it may run what a configuration names: a file
system monitor, a filter, a text conversion), nor is any path that leads out of the work tree.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from repoagent.agent.approval.known import JUDGED
from repoagent.agent.approval.rule import HARMLESS
from repoagent.agent.approval.shell.parts import Simple, Word

_FREE = {
    "pwd",
    "true",
    "false",
    "echo",
    "cat",
    "head",
    "tail",
    "wc",
    "nl",
    "cut",
    "tr",
    "comm",
    "cmp",
    "diff",
    "stat",
    "seq",
}
_FREE |= {
    "basename",
    "dirname",
    "realpath",
    "readlink",
    "ls",
    "grep",
    "egrep",
    "fgrep",
    "md5sum",
    "sha1sum",
    "sha256sum",
}
_FREE |= {
    "cksum",
    "uname",
    "nproc",
    "id",
    "whoami",
    "which",
    "type",
    "sleep",
    "column",
    "rev",
    "tac",
    "paste",
    "expr",
    "test",
    "[",
}


def only_reads(command: Simple) -> bool:
    """Whether `command` only reads. It may not set a variable that matters, nor write to a file."""
    if command.writes or any(
        name not in HARMLESS or not value.literal for name, value in command.assignments
    ):
        return False
    if any(word.text.startswith(("/dev/tcp", "/dev/udp")) or not word.literal for word in command.reads):
        return False
    words = command.words[1:]
    if command.name in _FREE:
        return all(word.text != "-v" or command.name not in {"test", "["} for word in words)
    judge = JUDGED.get(command.name)
    return judge is not None and all(word.kind != "open" for word in words) and judge(words)


def can_do_no_harm(
    command: Simple,
    top: Path,
    cwd: str = "",
    path: str | None = None,
    off_limits: Callable[[str], str | None] = lambda _: None,
) -> bool:
    """Whether `command` only reads, and reads only what is in the work tree, without any sandbox.

    `path` is the PATH in which the program will be looked for: one that stands in the work tree may be anything.
    `off_limits` says of a path below the top why it is not to be read.
    """
    if not only_reads(command) or command.name in {"git", "rg"}:
        return False
    found = shutil.which(command.name, path=path)
    builtin = command.name in {"cd", "echo", "pwd", "true", "false", "test", "[", "type"}
    if not builtin and (found is None or _is_in(Path(found), top)):
        return False
    words = [*command.words[1:], *command.reads]
    return all(_stays(word, top, cwd, command.name, off_limits) for word in words)


def _stays(word: Word, top: Path, cwd: str, name: str, off_limits: Callable[[str], str | None]) -> bool:
    """Whether a word can't name a file out of the work tree, nor one that is off limits."""
    if not word.literal or word.text.startswith("~"):
        return False
    text = word.text
    if text.startswith("-"):
        if name in {"ls", "grep", "egrep", "fgrep", "find", "tree", "du"} and re.match(
            r"-[A-Za-z]*[RL]|--deref", text
        ):
            return name == "ls"
        return "/" not in text
    if text.startswith("/") or ".." in text.split("/") or "\0" in text:
        return False
    base = top.resolve()
    target = (base / cwd / text).resolve()
    if not _is_in(target, base):
        return False
    return not target.exists() or target == base or off_limits(str(target.relative_to(base))) is None


def names_off_limits(command: Simple, top: Path, cwd: str, off_limits: Callable[[str], str | None]) -> bool:
    """Whether a word of `command` is the path of a file below the top that is not to be shown (`.env`, a key)."""
    base = top.resolve()
    for word in (*command.words[1:], *command.reads):
        if "\0" in word.text or len(word.text) > 4096:
            return True
        target = Path(os.path.normpath(base / cwd / word.text))
        inside = target.is_relative_to(base) and target != base and target.is_file()
        if inside and off_limits(str(target.relative_to(base))) is not None:
            return True
    return False


def _is_in(path: Path, top: Path) -> bool:
    try:
        path.resolve().relative_to(top.resolve())
    except (ValueError, OSError):
        return False
    return True
