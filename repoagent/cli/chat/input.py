"""The input of a chat: a line editor with history and completion on a terminal, or lines from a pipe. Importing
prompt_toolkit is slow, so this module is imported on use.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Protocol

from prompt_toolkit import PromptSession, history
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import has_focus, is_searching
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.output import ColorDepth, create_output
from prompt_toolkit.styles import Style

from repoagent.cli import Ended
from repoagent.cli.ui.terminal import Terminal
from repoagent.dataclass import dataclass
from repoagent.display_text import one_line
from repoagent.errors import RepoagentError, UsageError
from repoagent.git.process import git
from repoagent.git.worktree import WorkTree
from repoagent.llm.usage import state_folder
from repoagent.storage.secrets import mask

MOST_PATHS = 60  # candidates
MENU = 6  # lines reserved for completions
PROMPT = "> "
_LONGEST = 16_384  # characters of a history entry: longer input was pasted
_STYLE = {"bottom-toolbar": "noreverse"}
_COLORS = {**_STYLE, "bottom-toolbar.text": "", "prompt": "bold", "aborting": ""}
_GOES_ON = re.compile(r"(?<!\\)(?:\\\\)*\\\Z")
_COMMAND = re.compile(r"/([a-z]*)(?:\s+(.*))?\Z", re.DOTALL)
_WORD = re.compile(r"""[^\s"'`(\[{<,;]*\Z""")


class InputReader(Protocol):
    def read(self) -> str | None:
        """The next input, one line or several; None at the end. Raises KeyboardInterrupt for ^C."""
        ...


# History


def history_file(worktree: WorkTree) -> Path:
    """The history file of a repository, in the user's state folder. Linked work trees share it."""
    key = sha256(str(worktree.common_dir).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return state_folder().parent / "chat" / f"{key}.history"


class MaskedHistory(history.FileHistory):
    """The history file, with keys and tokens masked. An unreadable file counts as empty; an error in writing it is only
    a warning."""

    def __init__(self, file: Path, warn: Callable[[str], None]) -> None:
        super().__init__(file)
        self._file, self._warn = file, warn

    def load_history_strings(self) -> Iterable[str]:
        with suppress(OSError):
            return list(super().load_history_strings())
        return []

    def store_string(self, string: str) -> None:
        try:
            if len(string) <= _LONGEST:
                self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._file.touch(mode=0o600)
                super().store_string(mask(string))
        except OSError as error:
            self._warn(f"cannot save the input history: {error}")


# Lines


def is_continued(text: str) -> bool:
    """Whether a line ends in an unescaped backslash, so that the next line continues it."""
    return _GOES_ON.search(text) is not None


@dataclass
class LineReader:
    """Reads lines from a pipe, or from a terminal that cannot move its cursor. The terminal shows a prompt."""

    terminal: Terminal

    def read(self) -> str | None:
        lines: list[str] = []
        while True:
            if self.terminal.can_ask:
                sys.stderr.write("  " if lines else PROMPT)
                sys.stderr.flush()
            data = sys.stdin.buffer.readline()
            if not data:
                return "\n".join(lines) if lines else None
            try:
                text = data.decode("utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise UsageError("standard input is not UTF-8: convert it to UTF-8") from error
            if not is_continued(text):
                return "\n".join([*lines, text])
            lines.append(text[:-1])


# Completion


Candidates = Iterable[tuple[str, str]]


@lru_cache(maxsize=1)
def _listed_paths(top: Path, _moment: int) -> list[str]:
    try:
        listing = git(top, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    except (RepoagentError, OSError):  # nothing to complete then
        return []
    return sorted({name for name in os.fsdecode(listing).split("\0") if name and name.isprintable()})


def matching_paths(worktree: WorkTree, word: str) -> list[str]:
    """The paths in the work tree that start with `word`, then those of files whose names do."""
    paths = _listed_paths(worktree.top, int(time.monotonic() / 5))  # git lists them again after 5 seconds
    starting = (path for path in paths if path.startswith(word))
    named = (path for path in paths if word and path.startswith(word, path.rfind("/") + 1))
    return list(dict.fromkeys(islice((*starting, *named), MOST_PATHS)))


class ChatCompleter(Completer):
    """Completes slash commands, their arguments, and file names in words that contain a slash or start with an @.

    `commands` returns the slash commands or, for a name and a typed argument, the arguments.
    """

    def __init__(self, commands: Callable[[str, str | None], Candidates], worktree: WorkTree) -> None:
        self._commands, self._worktree = commands, worktree

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        candidates: Candidates = ()
        if match := _COMMAND.match(document.text_before_cursor):
            typed = f"/{match[1]}" if match[2] is None else match[2]
            with suppress(RepoagentError, OSError):  # offer nothing then
                known = self._commands(match[1], match[2])
                candidates = [(value, meaning) for value, meaning in known if value.startswith(typed)]
        else:
            match = _WORD.search(document.text_before_cursor)
            word = match[0] if match else ""
            typed = word.removeprefix("@").removeprefix("./")
            if word.startswith("@") or "/" in word:
                paths = matching_paths(self._worktree, typed)
                candidates = [(path, "") for path in paths if path != typed]
        for value, meaning in candidates:
            if value.isprintable():
                yield Completion(value, -len(typed), one_line(value), display_meta=one_line(meaning))


# The line editor


class Editor:
    """The line editor. `bar` returns the status line for a number of columns.

    Enter sends, or starts a new line after a backslash, as Alt-Enter (Esc, Enter) and ^J do.
    """

    def __init__(
        self, terminal: Terminal, file: Path, offered: ChatCompleter, bar: Callable[[int], str]
    ) -> None:
        self._bar, self._note = bar, terminal.note
        self._shown = ""
        keys = KeyBindings()
        typing = has_focus(DEFAULT_BUFFER) & ~is_searching

        @keys.add(Keys.ControlM, filter=typing, eager=True)
        def _send(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            if is_continued(buffer.document.text_before_cursor) and buffer.document.is_cursor_at_the_end:
                buffer.delete_before_cursor(1)
                buffer.newline(copy_margin=False)
            else:
                buffer.validate_and_handle()

        @keys.add(Keys.Escape, Keys.ControlM, filter=typing)
        @keys.add(Keys.ControlJ, filter=typing)
        def _newline(event: KeyPressEvent) -> None:
            event.current_buffer.newline(copy_margin=False)

        self._session: PromptSession[str] = PromptSession(
            PROMPT,
            multiline=True,
            prompt_continuation=lambda width, line, soft: "" if soft else " " * width,
            history=MaskedHistory(file, terminal.warn),
            completer=offered,
            complete_in_thread=True,
            complete_while_typing=True,
            reserve_space_for_menu=MENU,
            key_bindings=keys,
            bottom_toolbar=lambda: self._shown,
            style=Style.from_dict(_COLORS if terminal.color_err else _STYLE),
            color_depth=None if terminal.color_err else ColorDepth.DEPTH_1_BIT,
            output=create_output(stdout=sys.stderr),
            enable_suspend=True,
            enable_open_in_editor=True,
        )

    def read(self) -> str | None:
        self._shown = self._bar(self._session.output.get_size().columns)
        while True:
            try:
                return self._session.prompt(handle_sigint=False)
            except EOFError:
                return None
            except Ended:
                raise
            except KeyboardInterrupt:
                if self._session.default_buffer.text:
                    self._session.default_buffer.append_to_history()  # the up arrow brings it back
                else:
                    self._note("^D ends the chat", "dim")
