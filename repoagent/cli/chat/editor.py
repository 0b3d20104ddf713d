"""The line editor: history, search in it, several lines, completion. The library for it is imported here and nowhere
else but in keys.py and completing.py, and only at a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.history import History
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyPressEvent
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.output import ColorDepth, create_output
from prompt_toolkit.styles import Style

from repoagent.cli.chat import history
from repoagent.cli.chat.completing import Offered
from repoagent.cli.chat.keys import bindings
from repoagent.cli.chat.reading import PROMPT
from repoagent.cli.program.signals import Ended
from repoagent.cli.screen.hush import typed
from repoagent.cli.screen.terminal import Terminal
from repoagent.errors import RepoagentError

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
            found = history.entries(self._file, self._warn)
        except (RepoagentError, OSError) as error:
            self._warn(f"what was typed before can't be read: {error}")
            return []
        return reversed(found)

    def store_string(self, string: str) -> None:
        try:
            history.add(self._file, string)
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
