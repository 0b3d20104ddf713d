"""What `repoagent ask` is asked, from its arguments and standard input."""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from repoagent.errors import UsageError

if TYPE_CHECKING:
    from repoagent.cli.screen.terminal import Terminal
    from repoagent.repo import WorkTree
    from repoagent.work.asks import Question

USE = 'repoagent ask "PROMPT" [FILE]...'
PATIENCE = 2.0  # seconds without anything on standard input, after which it is said what is waited for


def question_of(given: SimpleNamespace, worktree: WorkTree | None, terminal: Terminal) -> Question:
    """The prompt and the files. Standard input is read at most once: as the prompt, as the file `-`, or, where it is no
    terminal, as one more file; not where it is the reply. Raises what reading a file raises, UsageError for no
    prompt."""
    from repoagent.work.asks import Question, read_given, read_stream

    words, names = _split(given)
    asked_for = (words is None) + names.count("-") + (str(given.reply) == "-")
    if asked_for > 1:
        raise UsageError("standard input can be the prompt, one file or the reply: say - only once")
    if words is None:
        words = _decoded(_standard_input(terminal), "standard input")
    if not words.strip():
        raise UsageError(f"the prompt is empty: {USE}")
    files = read_given([Path(name) for name in names if name != "-"], worktree, Path.cwd())
    if "-" in names or (not asked_for and _is_piped()):
        _say_if_late(terminal)
        stream = read_stream(sys.stdin.buffer)
        if stream is not None:
            files.insert(names.index("-") if "-" in names else len(files), stream)
        elif "-" in names or _is_piped(stat.S_ISFIFO):
            terminal.warn("standard input is empty")
    return Question(words.strip("\n"), tuple(files), _system(given.system))


def _split(given: SimpleNamespace) -> tuple[str | None, list[str]]:
    """The words of the prompt (None: they are on standard input), and the names of the files."""
    arguments = list(given.arguments)
    if given.prompt_file is not None:
        file = str(given.prompt_file)
        return (None if file == "-" else _decoded(_file(given.prompt_file), file)), arguments
    if not arguments:
        if not _is_piped():
            raise UsageError(f"say what to ask: {USE}")
        return None, []
    if arguments[0] == "-":
        return None, arguments[1:]
    if _looks_like_a_file(arguments[0]):
        raise UsageError(f"{arguments[0]} is a file, and the prompt comes first: {USE} (or - to read it)")
    return arguments[0], arguments[1:]


def _looks_like_a_file(word: str) -> bool:
    try:
        return ("." in word or "/" in word) and not word.count(" ") and Path(word).is_file()
    except (OSError, ValueError):  # too long for a name
        return False


def _is_piped(*kinds: Callable[[int], bool]) -> bool:
    """Whether standard input is of one of these kinds: a pipe, a socket or a file, and no terminal or /dev/null."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return any(is_one(mode) for is_one in kinds or (stat.S_ISFIFO, stat.S_ISSOCK, stat.S_ISREG))


def _say_if_late(terminal: Terminal) -> None:
    """A pipe that nobody writes to would be waited for in silence."""
    if _is_piped() and not select.select([sys.stdin.fileno()], [], [], PATIENCE)[0]:
        terminal.note("reading standard input to its end; without any: </dev/null", "dim")


def _system(text: str | None) -> str:
    if text is None or not text.startswith("@"):
        return text or ""
    return text[1:] if text.startswith("@@") else _decoded(_file(Path(text[1:])), text[1:])


def _standard_input(terminal: Terminal) -> bytes:
    _say_if_late(terminal)
    return sys.stdin.buffer.read()


def _file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror}") from error


def _decoded(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"the prompt in {name} is no UTF-8 text: save it as UTF-8") from error
