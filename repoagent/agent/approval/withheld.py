"""Whether a command that only reads may show what a model is not to see: `.env`, a key, what the person excluded.

It is asked only where there are such files. On the safe side: a word whose meaning is not certain may be any of them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from repoagent.agent.approval.shell.parts import Simple, Word

# What git knows of a file that is withheld: nothing, it tracks it, or it does and the person has excluded it by name.
Known = Literal["", "tracked", "excluded"]

# What tells names, sizes and the like of files, and nothing of what is in them.
_OUTSIDE = {
    "cd",
    "echo",
    "pwd",
    "true",
    "false",
    "test",
    "[",
    "type",
    "ls",
    "basename",
    "dirname",
    "which",
    "id",
}
_OUTSIDE |= {"whoami", "uname", "nproc", "sleep", "seq", "date", "stat", "du", "tree", "realpath", "readlink"}
_OUTSIDE |= {"expr", "find", "printf", "file"}
_GREPS = {"grep", "egrep", "fgrep", "rg"}
_INSIDE_OF_GIT = {"show", "log", "diff", "grep", "blame", "whatchanged", "diff-tree", "stash", "reflog"}
_PATCH = re.compile(r"-[A-Za-z0-9]*[puULcmW]|--(pa|cc|word|color-w|uni|func|bin|dd|rem)|-G")
_DEEP = re.compile(r"-[A-Za-z]*[rRd]|--(rec|deref|dir)")
_PATTERN_APART = re.compile(r"-[A-Za-z]*[ef]|--(regexp|file)")
_HIDDEN_TOO = re.compile(r"-[A-Za-z0-9]*[.uUg]|--(hidden|unrestricted|no-ignore|glob|iglob)")


def may_show(command: Simple, top: Path, cwd: str, withheld: Mapping[str, Known]) -> bool:
    """Whether `command`, which only reads, may show one of `withheld`: paths from the top, and how git knows each.

    cwd: the folder below the top in which it runs.
    """
    if not withheld:
        return False
    if command.name == "git":
        return _git_shows(command.words[1:], withheld)
    words = command.reads if command.name in _OUTSIDE else (*command.words[1:], *command.reads)
    if any(_names(word, top, cwd, withheld) for word in words):
        return True
    return command.name not in _OUTSIDE and _goes_deep(command, top, cwd, withheld)


def _git_shows(words: tuple[Word, ...], withheld: Mapping[str, Known]) -> bool:
    """Of what git tracks and a name alone makes suspect (the certificate of a test, say), only what is asked for."""
    texts = [word.text for word in words]
    verb = next((text for text in texts[:3] if text in _INSIDE_OF_GIT), "")
    if not verb or (verb in {"log", "reflog"} and not any(_PATCH.match(text) for text in texts)):
        return False
    if verb == "grep":
        return any(withheld.values()) or any(text.startswith("--unt") for text in texts)
    names = tuple(path.rpartition("/")[2] for path, known in withheld.items() if known)
    return "excluded" in withheld.values() or any(text.endswith(names) for text in texts)


def _names(word: Word, top: Path, cwd: str, withheld: Iterable[str]) -> bool:
    """Whether a word may be the name of one, or hold it, as an option does."""
    if word.kind == "open":
        return True
    names = {path.rpartition("/")[2] for path in withheld}
    if word.kind == "glob":
        last = word.text.rpartition("/")[2]
        return any(fnmatchcase(name, last) for name in names)
    if word.text.endswith(tuple(names)):
        return True
    return any(_real(top, path) == _real(top, cwd, word.text) for path in withheld)


def _goes_deep(command: Simple, top: Path, cwd: str, withheld: Iterable[str]) -> bool:
    """Whether it reads all that is in a folder with one of them."""
    words = command.words[1:]
    options = [word.text for word in words if word.text.startswith("-")]
    if command.name != "rg" and not any(_DEEP.match(option) for option in options):
        return False
    if command.name == "rg" and not any(_HIDDEN_TOO.match(option) for option in options):
        withheld = [path for path in withheld if not any(part.startswith(".") for part in path.split("/"))]
    folders = list(_folders(command, words, options))
    for path in withheld:
        real = _real(top, path)
        if any(real.startswith(_real(top, cwd, folder).rstrip("/") + "/") for folder in folders):
            return True
    return any(word.kind == "glob" for word in words) and bool(withheld)


def _folders(command: Simple, words: Iterable[Word], options: list[str]) -> Iterator[str]:
    """The words that may be folders; the present one where none is sure to be."""
    plain = [word.text for word in words if not word.text.startswith("-")]
    if command.name in _GREPS and not any(_PATTERN_APART.match(option) for option in options):
        plain = plain[1:]
    elif command.name in _GREPS:
        yield "."
    yield from plain or ["."]


def _real(*parts: str | Path) -> str:
    try:
        return os.path.realpath(Path(*parts))
    except ValueError:  # no name of a file
        return "/"
