"""What was typed before, a file for each repository in the user's own state folder: nobody else reads it, and what was
said of one project does not turn up in another.

What is said next: from a pipe, a line each time, or from a terminal that can do nothing but lines.

The keys that differ from what the line editor does by itself: Enter sends.

The tracked files, for completion: listed by git in the background, looked up in a sorted list.

What the line editor offers: slash commands, their arguments, and files.

The line editor: history, search in it, several lines, completion. The library for it is imported here and nowhere
else but in keys.py and completing.py, and only at a terminal.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, has_focus, is_searching
from prompt_toolkit.history import History
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys
from prompt_toolkit.output import ColorDepth, create_output
from prompt_toolkit.styles import Style

from repoagent.cli import Ended
from repoagent.cli.ui.echo import heard, typed
from repoagent.cli.ui.sanitize import one_line
from repoagent.cli.ui.terminal import Terminal
from repoagent.dataclass import dataclass
from repoagent.errors import RepoagentError, UsageError
from repoagent.git.process import git
from repoagent.git.worktree import WorkTree
from repoagent.llm.usage import state_folder
from repoagent.storage import jsonl
from repoagent.storage.atomic import write_whole
from repoagent.storage.jsonl import dumps
from repoagent.storage.secrets import mask

if TYPE_CHECKING:
    from repoagent.storage.layout import Warn

MOST_ENTRIES = 2_000  # entries that are kept
_LONGEST = 16_384  # characters of one: what is pasted at length is not typed again


def history_file(worktree: WorkTree) -> Path:
    """Where it stands; linked work trees share it."""
    key = sha256(str(worktree.common_dir).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return state_folder().parent / "chat" / f"{key}.jsonl"


def entries(file: Path, warn: Warn) -> list[str]:
    """What was typed, the oldest first; the file is cut to MOST entries where it has become twice as long."""
    found = [
        text for record in jsonl.read_records(file, warn=warn) if isinstance(text := record.get("text"), str)
    ]
    if len(found) > 2 * MOST_ENTRIES:
        data = b"".join(dumps({"text": text}) + b"\n" for text in found[-MOST_ENTRIES:])
        write_whole(file, data)
    return found[-MOST_ENTRIES:]


def add(file: Path, text: str) -> None:
    """Keep what was typed, with keys and tokens masked. Raises Busy and Refused where it can't be written."""
    if len(text) <= _LONGEST:
        jsonl.append_record(file, {"text": mask(text)})


PROMPT = "> "
_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.|.)?")  # a key that is no character
_GOES_ON = re.compile(r"(?<!\\)(?:\\\\)*\\\Z")


class Reader(Protocol):
    """Where a chat gets what is said to it."""

    def read(self) -> str | None:
        """The next input, of one line or more; None at the end. Raises KeyboardInterrupt for a ^C."""
        ...


def goes_on(text: str) -> bool:
    """Whether a line ends in a backslash that nothing escapes: then the next one belongs to it."""
    return _GOES_ON.search(text) is not None


@dataclass
class Lines:
    """Lines of standard input; a person at a terminal that can't move its cursor sees where to type."""

    terminal: Terminal

    def read(self) -> str | None:
        before = _erased(typed())
        with heard(typed_ahead=True):
            return self._read(before)

    def _read(self, before: str) -> str | None:
        """`before` was typed before there was a prompt: it is the beginning of the input, and is shown as such."""
        *found, begun = before.split("\n")
        for at, line in enumerate(found):
            self._show(at, f"{line}\n")
        while True:
            self._show(len(found), begun)
            data = sys.stdin.buffer.readline()
            if not data:
                self._show(0, "\n", prompt=False)
                found += [begun] if begun else []
                return "\n".join(found) if found else None
            text = begun + _decoded(data)
            begun = ""
            if not goes_on(text):
                return "\n".join([*found, text])
            found.append(text[:-1])

    def _show(self, at: int, text: str, *, prompt: bool = True) -> None:
        if self.terminal.can_ask:
            head = ("  " if at else PROMPT) if prompt else ""
            sys.stderr.write(f"{head}{text}")
            sys.stderr.flush()


def _erased(text: str) -> str:
    """What a terminal would have made of these keys: what was erased is gone, and what is no character."""
    found: list[str] = []
    for character in _SEQUENCE.sub("", text):
        if character in "\b\x7f":
            if found and found[-1] != "\n":
                found.pop()
        elif character == "\x15":
            while found and found[-1] != "\n":
                found.pop()
        elif character.isprintable() or character == "\n":
            found.append(character)
    return "".join(found)


def _decoded(line: bytes) -> str:
    try:
        return line.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise UsageError("what was said is no UTF-8 text: save it as UTF-8") from error


def bindings(drop: Callable[[KeyPressEvent], None]) -> KeyBindings:
    """Enter sends, unless a backslash stands before it; Alt-Enter (Esc, Enter) and ^J begin a new line; ^C is
    for `drop`, ^D ends where nothing is typed."""
    keys = KeyBindings()
    typing = has_focus("DEFAULT_BUFFER") & ~is_searching

    @keys.add(Keys.ControlM, filter=typing, eager=True)
    def _send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if goes_on(buffer.document.text_before_cursor) and buffer.document.is_cursor_at_the_end:
            buffer.delete_before_cursor(1)
            buffer.newline(copy_margin=False)
        else:
            buffer.validate_and_handle()

    @keys.add(Keys.Escape, Keys.ControlM, filter=typing)
    @keys.add(Keys.ControlJ, filter=typing)
    def _newline(event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)

    keys.add(Keys.ControlC, filter=typing)(drop)

    @keys.add(Keys.ControlD, filter=typing & Condition(_is_empty))
    def _end(event: KeyPressEvent) -> None:
        event.app.exit(exception=EOFError, style="class:exiting")

    return keys


def _is_empty() -> bool:
    from prompt_toolkit.application import get_app

    return not get_app().current_buffer.text


MOST_PATHS = 60  # candidates that are shown
_FRESH = 5.0  # seconds for which a list is not asked for again


class Paths:
    """The tracked files of a work tree. `refresh` returns at once; until the first list is there, there are none."""

    def __init__(self, worktree: WorkTree) -> None:
        self._worktree = worktree
        self._found: Sequence[str] = ()
        self._asked = 0.0
        self._thread: threading.Thread | None = None

    def refresh(self) -> None:
        """Ask git again, in the background, unless it was asked just now."""
        if self._thread is not None and self._thread.is_alive():
            return
        if self._asked and time.monotonic() - self._asked < _FRESH:
            return
        self._asked = time.monotonic()
        self._thread = threading.Thread(target=self._list, daemon=True)
        self._thread.start()

    def candidates(self, word: str) -> list[str]:
        """What `word` may become: paths that begin so, folder by folder; for a word without a slash also files that are
        called so wherever they are."""
        return list(dict.fromkeys(islice(self._candidates(word), MOST_PATHS)))

    def _candidates(self, word: str) -> Iterator[str]:
        yield from below(self._found, word)
        if word and "/" not in word:
            yield from (path for path in self._found if path.startswith(word, path.rfind("/") + 1))

    def _list(self) -> None:
        try:
            said = git(self._worktree.top, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
        except (RepoagentError, OSError):  # then there is nothing to complete
            return
        names = (os.fsdecode(name) for name in said.split(b"\0") if name)
        self._found = sorted({name for name in names if name.isprintable()})


def below(paths: Sequence[str], word: str) -> Iterator[str]:
    """Of sorted `paths` those that begin with `word`, up to the next slash: a folder stands for all that is in it."""
    at = bisect_left(paths, word)
    while at < len(paths) and paths[at].startswith(word):
        slash = paths[at].find("/", len(word))
        if slash < 0:
            yield paths[at]
            at += 1
        else:
            folder = paths[at][: slash + 1]
            yield folder
            at = bisect_left(paths, folder[:-1] + "0", at)  # "0" comes after "/"


Found = Iterable[tuple[str, str]]
_COMMAND = re.compile(r"/([a-z]*)\Z")
_ARGUMENT = re.compile(r"/([a-z]+)\s+(.*)\Z", re.DOTALL)
_WORD = re.compile(r"""[^\s"'`(\[{<,;]*\Z""")


class Offered(Completer):
    """`commands` gives the slash commands and what each does, `arguments` what may follow one of them."""

    def __init__(
        self, commands: Callable[[], Found], arguments: Callable[[str, str], Found], paths: Paths
    ) -> None:
        self._commands = commands
        self._arguments = arguments
        self._paths = paths

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        text = document.text_before_cursor
        if match := _COMMAND.match(text):
            yield from _all(self._commands(), f"/{match[1]}")
            return
        if match := _ARGUMENT.match(text):
            try:
                found = list(self._arguments(match[1], match[2]))
            except (RepoagentError, OSError):  # what can't be looked up is not offered
                found = []
            yield from _all(found, match[2])
            if found:
                return
        yield from self._files(text)

    def _files(self, text: str) -> Iterator[Completion]:
        """Of a word with a slash in it, or after an @."""
        match = _WORD.search(text)
        word = match[0] if match else ""
        if not word.startswith("@") and "/" not in word:
            return
        begin = word.removeprefix("@").removeprefix("./")
        for path in self._paths.candidates(begin):
            if path != begin:
                yield Completion(path, -len(begin), one_line(path))


def _all(found: Found, typed: str) -> Iterator[Completion]:
    for value, what in found:
        if value.startswith(typed) and value.isprintable():
            yield Completion(value, -len(typed), one_line(value), display_meta=one_line(what))


MENU = 6  # lines that are kept free for what is offered
_STYLE = Style.from_dict(
    {"bottom-toolbar": "noreverse", "bottom-toolbar.text": "", "prompt": "bold", "aborting": ""}
)
_PLAIN = Style.from_dict({"bottom-toolbar": "noreverse"})
AGAIN = "^C once more, or ^D, ends the chat"


class _Kept(History):
    """The history in its file; that it can't be written is said once, and is no reason to stop."""

    def __init__(self, file: Path, warn: Callable[[str], None]) -> None:
        super().__init__()
        self._file = file
        self._warn = warn

    def load_history_strings(self) -> Iterable[str]:
        try:
            found = entries(self._file, self._warn)
        except (RepoagentError, OSError) as error:
            self._warn(f"what was typed before can't be read: {error}")
            return []
        return reversed(found)

    def store_string(self, string: str) -> None:
        try:
            add(self._file, string)
        except (RepoagentError, OSError) as error:
            self._warn(f"what is typed can't be kept for the next chat: {error}")


class Editor:
    """Reads what a person types. `bar` is the line at the bottom, as of now, in at most so many columns."""

    def __init__(self, terminal: Terminal, file: Path, offered: Offered, bar: Callable[[int], str]) -> None:
        self._terminal = terminal
        self._bar = bar
        self._shown = ""
        self._asked_to_end = False
        self._session: PromptSession[str] = PromptSession(
            PROMPT,
            multiline=True,
            prompt_continuation=_continuation,
            history=_Kept(file, terminal.warn),
            completer=offered,
            complete_in_thread=True,
            complete_while_typing=True,
            reserve_space_for_menu=MENU,
            key_bindings=bindings(self._drop),
            bottom_toolbar=lambda: self._shown,
            style=_STYLE if terminal.color_err else _PLAIN,
            color_depth=None if terminal.color_err else ColorDepth.DEPTH_1_BIT,
            output=create_output(stdout=sys.stderr),
            enable_suspend=True,
        )
        self._session.default_buffer.on_text_changed += self._typed

    def read(self) -> str | None:
        """The next input; None for ^D, or a second ^C, on an empty line."""
        self._asked_to_end = False
        self._shown = self._bar(self._session.output.get_size().columns)
        self._go_on_from(typed())
        try:
            return self._session.prompt(handle_sigint=False)
        except EOFError:
            return None
        except Ended:
            raise
        except (
            KeyboardInterrupt
        ):  # a second ^C, so soon that the terminal still shows what the first one said
            if self._asked_to_end:
                return None
            raise

    def _go_on_from(self, text: str) -> None:
        """What was typed before there was a prompt stands in it, as if it were typed now."""
        keys: list[KeyPress] = []
        parser = Vt100Parser(keys.append)
        parser.feed_and_flush(text)
        store_typeahead(self._session.input, keys)

    def _drop(self, event: KeyPressEvent) -> None:
        """Drop what is typed: the history has it still. Where nothing is, the second time ends."""
        buffer = event.current_buffer
        if buffer.text:
            if buffer.text.strip():
                self._session.history.append_string(buffer.text)
            buffer.reset()
        elif self._asked_to_end:
            event.app.exit(exception=EOFError, style="class:exiting")
        else:
            self._asked_to_end = True
            run_in_terminal(lambda: self._terminal.note(AGAIN, "dim"))

    def _typed(self, buffer: Buffer) -> None:
        """With the next key it is not the end any more."""
        if self._asked_to_end and buffer.text:
            self._asked_to_end = False


def _continuation(width: int, line: int, soft: int) -> str:
    return "" if soft else " " * width
