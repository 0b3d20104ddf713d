"""What the line editor offers: slash commands, their arguments, and files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from repoagent.cli.chat.paths import Paths
from repoagent.cli.screen.clean import one_line
from repoagent.errors import RepoagentError

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
