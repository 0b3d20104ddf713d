"""`Terminal`: the three standard streams; and `write_to`, for the file of an option such as -o.

The result goes to standard output, everything else to standard error. A terminal gets sanitized and colored text,
progress and questions; a pipe gets the exact bytes of the result.
"""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TextIO

from repoagent.display_text import paint, sanitize, wrap_line
from repoagent.errors import NothingDone, RepoagentError, UsageError

if TYPE_CHECKING:
    from repoagent.cli.ui.markdown import Markdown
    from repoagent.cli.ui.progress import ProgressDisplay


class Unwritable(RepoagentError):
    """Standard output cannot be written to, for example because the disk is full."""


class Terminal(NamedTuple):  # a dataclass would make each start 2 ms slower
    """The standard streams.

    input_tty, output_tty, error_tty: whether each stream is a terminal.
    color, color_err: whether standard output and standard error may be colored.
    moves: whether a line on standard error can be overwritten.
    width: the width in columns.
    pages: whether the output may go into a pager.
    warned: the warnings that were printed.
    """

    input_tty: bool
    output_tty: bool
    error_tty: bool
    color: bool
    color_err: bool
    moves: bool
    width: int
    verbose: bool = False
    pages: bool = False
    warned: set[str] | None = None

    @classmethod
    def open(
        cls,
        color: str = "auto",
        *,
        env: Mapping[str, str] | None = None,
        verbose: bool = False,
        pages: bool = False,
    ) -> Terminal:
        """The terminal for the standard streams and the environment; `color` is auto, always or never."""
        env = os.environ if env is None else env
        input_tty, output_tty, error_tty = (
            stream is not None and not stream.closed and stream.isatty()
            for stream in (sys.stdin, sys.stdout, sys.stderr)
        )
        paging = not output_tty and in_own_pager()
        dumb = env.get("TERM", "dumb") == "dumb"
        ci = env.get("CI", "").lower() not in {"", "0", "false"}
        colored = color == "auto" and not dumb and not env.get("NO_COLOR")
        return cls(
            input_tty=input_tty and not ci,
            output_tty=output_tty or paging,
            error_tty=error_tty,
            color=color == "always" or (colored and (output_tty or paging)),
            color_err=color == "always" or (colored and error_tty),
            moves=error_tty and not dumb and not ci,
            width=_width(env),
            verbose=verbose,
            warned=set(),
            pages=pages and output_tty and not ci and not dumb,
        )

    @property
    def can_ask(self) -> bool:
        return self.input_tty and self.error_tty

    def result(self, text: str) -> None:
        """Write a part of the result: sanitized on a terminal, as exact bytes in a pipe."""
        self._page()
        _write(sys.stdout, sanitize(text) if self.output_tty else text, exact=not self.output_tty)

    def styled(self, text: str, *, aside: bool = False) -> None:
        """Write sanitized and painted text as part of the result, or with `aside` to standard error."""
        if not aside:
            self._page()
        _write(sys.stderr if aside else sys.stdout, text)

    def markdown(self, *base: str, aside: bool = False) -> Markdown:
        """A renderer for a model's text on standard output or, with `aside`, on standard error. Plain text gets the
        `base` styles."""
        from repoagent.cli.ui.markdown import Markdown

        color = self.color_err if aside else self.color
        return Markdown(lambda: _width(os.environ), color=color, base=base)

    def reply(self, text: str, *, done: bool = False) -> None:
        """Write a model's text as the result, rendered on a terminal and unchanged in a pipe. With `done`, it is the
        result of a completed change."""
        if self.output_tty:
            markdown = self.markdown()
            text = markdown.feed(text) + markdown.rest()
            text += "" if text.endswith("\n") else "\n"
        if done:
            self.done(text, styled=self.output_tty)
        elif self.output_tty:
            self.styled(text)
        else:
            self.result(text)

    def done(self, text: str, *, styled: bool = False) -> None:
        """Write the result of a completed change. If standard output cannot be written to, warn and write the result to
        standard error instead."""
        exact = not (styled or self.output_tty)
        shown = text if styled or exact else sanitize(text)
        try:
            _write(sys.stdout, shown, exact=exact)
        except (Unwritable, BrokenPipeError) as error:
            discard_output(sys.stdout)
            self.warn(f"{error}" if isinstance(error, Unwritable) else "standard output is closed")
            _write(sys.stderr, shown, exact=exact)

    def diff(self, diff: str, *, aside: bool = False) -> None:
        """Write a unified diff: as git shows it on a terminal, as exact bytes in a pipe. With `aside`, write it to
        standard error."""
        terminal, color = (self.error_tty, self.color_err) if aside else (self.output_tty, self.color)
        if not aside:
            self._page()
        if terminal or color:
            from repoagent.cli.ui.diff import render_diff

            diff = render_diff(diff, color=color, columns=self.width if terminal else None)
        _write(sys.stderr if aside else sys.stdout, diff, exact=not terminal and not color)

    def note(self, text: str, *styles: str) -> None:
        """Write a line to standard error, folded to the terminal's width."""
        shown = self._folded(text)
        _write(sys.stderr, f"{paint(shown, *styles) if self.color_err else shown}\n")

    def warn(self, text: str) -> None:
        """Write a warning to standard error, unless it was printed before."""
        if self.warned is not None:
            if text in self.warned:
                return
            self.warned.add(text)
        shown = self._folded(f"warning: {text}")
        if self.color_err:
            shown = paint("warning:", "yellow") + shown.removeprefix("warning:")
        _write(sys.stderr, f"{shown}\n")

    def _folded(self, text: str) -> str:
        return wrap_line(sanitize(text), self.width) if self.error_tty else sanitize(text)

    def working(self, label: str) -> ProgressDisplay:
        from repoagent.cli.ui.progress import ProgressDisplay

        return ProgressDisplay(self, label)

    def ask(self, question: str, choices: Mapping[str, str], *, typed_ahead: bool = False) -> str:
        """Ask until the user types a letter in `choices`, and return the letter.

        `choices` maps letters to their meanings. Input typed before the question appeared is ignored, unless
        `typed_ahead` is set. Raises UsageError without a terminal, NothingDone at the end of input.
        """
        prompt = f"{question} [{','.join([*choices, '?'])}]?"
        while True:
            line = self._read(prompt, question, typed_ahead=typed_ahead)
            if not line:
                _write(sys.stderr, "\n")
                raise NothingDone("no answer; nothing was changed")
            typed_ahead = True
            answer = line.strip().lower()
            letter = answer[:1] if answer in {"yes", "no"} else answer
            if letter in choices:
                return letter
            for letter, meaning in {**choices, "?": "show this help"}.items():
                self.note(f"{letter} - {meaning}", "bold", "red")

    def ask_line(self, question: str) -> str:
        """Ask for a line of text. Raises UsageError without a terminal."""
        return self._read(f"{question}:", question, typed_ahead=True).strip()

    def _read(self, prompt: str, question: str, *, typed_ahead: bool) -> str:
        if not self.can_ask:
            raise UsageError(f"cannot ask without a terminal: {question}")
        _leave_pager()
        with waiting_for_user():
            if not typed_ahead:
                discard_input()
            shown = f"{self._folded(prompt)} "
            _write(sys.stderr, paint(shown, "bold", "blue") if self.color_err else shown)
            # ^C between Python's last look at its signals and the read would take effect only at the next key
            while not select.select([sys.stdin], [], [], 0.3)[0]:
                pass
            return sys.stdin.readline()

    def edit_text(self, initial: str, suffix: str, *, cwd: Path | None = None) -> str | None:
        """Leave the pager, and let the user edit `initial`; see `pager.edit_text`."""
        from repoagent.cli.ui.pager import edit_text

        _leave_pager()
        with waiting_for_user():
            return edit_text(self, initial, suffix, cwd=cwd)

    def _page(self) -> None:
        if self.pages:
            from repoagent.cli.ui import pager

            pager.start(self.width)


_waited = [0.0]


@contextmanager
def waiting_for_user() -> Iterator[None]:
    """Count the time in this block as spent waiting for the user."""
    began = time.monotonic()
    try:
        yield
    finally:
        _waited[0] += time.monotonic() - began


def seconds_waited() -> float:
    """The seconds that this process has spent waiting for the user."""
    return _waited[0]


def in_own_pager() -> bool:
    """Whether standard output goes into a pager started by repoagent."""
    pager = sys.modules.get("repoagent.cli.ui.pager")
    return pager is not None and pager.is_running()


def _leave_pager() -> None:
    """End the pager before a question, which cannot be answered in it."""
    if in_own_pager():
        from repoagent.cli.ui import pager

        pager.finish()


def _width(env: Mapping[str, str]) -> int:
    if env.get("COLUMNS", "").isdecimal() and int(env["COLUMNS"]) > 0:
        return int(env["COLUMNS"])
    for descriptor in (1, 2, 0):
        try:
            return os.get_terminal_size(descriptor).columns or 80
        except OSError:
            continue
    return 80


def _write(stream: TextIO, text: str, *, exact: bool = False) -> None:
    """Write and flush; `exact` restores the bytes of surrogate escapes, whatever the locale is."""
    encoding = "utf-8" if exact else stream.encoding or "utf-8"
    try:
        data = text.encode(encoding, "surrogateescape" if exact else "backslashreplace")
    except UnicodeEncodeError:  # half of a UTF-16 pair is not an escaped byte
        data = text.encode(encoding, "backslashreplace")
    try:
        stream.flush()
        stream.buffer.write(data)
        stream.buffer.flush()
    except OSError as error:
        if isinstance(error, BrokenPipeError) and stream is sys.stdout:
            raise
        discard_output(stream)
        if stream is sys.stdout:  # a lost note is not an error
            raise Unwritable(f"cannot write to standard output: {error.strerror}") from error


def discard_output(stream: TextIO) -> None:
    """Discard buffered output: Python would try to write it again at exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


def discard_input() -> None:
    """Discard typed input that has not been read yet."""
    import termios

    try:
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    except termios.error:  # not a terminal
        pass


_SYSTEM = ("/dev/", "/proc/")  # a name in these may refer to an open file


def write_to(path: Path, data: bytes) -> None:
    """Write `data` to `path`, the value of -o. A regular file, or the target of a link, is replaced atomically.

    Raises UsageError if `path` is a folder or in a missing folder, Refused if a system call fails.
    """
    from repoagent.storage.atomic import write_whole
    from repoagent.storage.folders import system_failed

    if path.is_dir():
        raise UsageError(f"{path} is a folder; -o takes a file")
    try:
        if path.exists() and (not path.is_file() or os.path.normpath(path).startswith(_SYSTEM)):
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_NOCTTY), "wb") as file:
                file.write(data)
            return
    except BrokenPipeError:
        raise
    except OSError as error:
        raise system_failed("write", path, error) from error
    if not path.parent.is_dir():
        raise UsageError(f"no such folder: {path.parent}; create it, or use another file for -o")
    write_whole(path, data, private=False)


def deliver_document(terminal: Terminal, text: str, output: str | None, *, browser: str = "") -> None:
    """Write `text` to `output`, the file that -o names; without a file, print it as the result.

    On a terminal, an HTML page is instead opened in the browser, from a new temporary file that only the user can read.
    `browser` is the page's name; "" for other texts.
    """
    if output not in (None, "-"):
        write_to(Path.cwd() / str(output), text.encode("utf-8", "surrogateescape"))
        terminal.note(f"written to {output}")
    elif not (browser and output is None and terminal.output_tty):
        terminal.result(text)
    else:
        import tempfile
        import webbrowser

        handle, path = tempfile.mkstemp(prefix=f"repoagent-{browser}-", suffix=".html")
        with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
        terminal._replace(pages=False).result(f"{path}\n")
        if not webbrowser.open(Path(path).as_uri()):
            terminal.note("no browser found; open the file yourself, or save the page with -o FILE")
