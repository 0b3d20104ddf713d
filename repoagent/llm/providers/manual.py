"""A reply that a person pastes or types at a terminal.

The terminal's own line mode cuts a line at 4,096 bytes (N_TTY), which a pasted line of code may well exceed, so
characters are read as they come: with an echo and the few keys that are needed to correct a word.

The clipboard of whoever sits at the terminal. Nothing here fails, or waits longer than a few seconds.

No model: the user carries the prompt to any chat, and its reply back.
"""

from __future__ import annotations

import codecs
import os
import re
import select
import sys
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, ClassVar, NoReturn, TextIO

from repoagent.dataclass import dataclass
from repoagent.errors import ModelError
from repoagent.llm.media import refuse_any
from repoagent.llm.model import Model, OnText, Reply, Request, Usage, render
from repoagent.llm.registry import Backend, ModelOptions, Status
from repoagent.llm.usage import estimate_tokens

if TYPE_CHECKING:
    from repoagent.config.settings import Settings

END = "."  # alone on a line it ends a reply
_EOT = "\x04"  # ^D
_POLL_SECONDS = 0.25  # seconds until a ^C is heeded, however it falls
_KILL = "\x15"  # ^U
_PASTE, _PASTED = "\x1b[200~", "\x1b[201~"
_ESCAPE = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|O.|[^\[O])")


@dataclass
class _TypedReply:
    """The lines that are whole, and the one that is being written. `pasted`: the last thing was a paste."""

    lines: list[str] = field(default_factory=list)
    line: str = ""
    pasted: bool = False

    @property
    def text(self) -> str:
        return "\n".join([*self.lines, self.line])


def read_reply(keys: Iterator[str], echo: Callable[[str], None], first: Callable[[str], str | None]) -> str:
    """What is pasted or typed, key by key, up to a line with a single "." or ^D, or to Enter after a
    paste that the terminal has marked as one. Line ends are `\\n`.

    `first` is asked about the first line when Enter is pressed. A text is the reply; "" means that the line was
    no part of it; None that it is.
    """
    typed = _TypedReply()
    before = ""
    for key in keys:
        if (before, key) == ("\r", "\n"):
            key = ""  # a line end of two characters
        before = key
        if key.startswith(_PASTE):
            _paste(typed, _plain(key[len(_PASTE) : -len(_PASTED)]), echo)
        elif key == _EOT:
            echo("\n")
            break
        elif key in {"\r", "\n"}:
            echo("\n")
            if not typed.lines:
                answer = first(typed.line)
                if answer:
                    return answer
                if answer is not None:
                    typed.line = ""
                    continue
            if typed.line == END or (typed.pasted and not typed.line):
                typed.line = ""
                break
            typed.lines.append(typed.line)
            typed.line, typed.pasted = "", False
        elif key in {"\x7f", "\b"}:
            _rub_out(typed, 1, echo)
        elif key == _KILL:
            _rub_out(typed, len(typed.line), echo)
        elif key >= " " or key == "\t":
            typed.line += key
            echo(key if key.isprintable() or key == "\t" else "")
    return typed.text


def _paste(typed: _TypedReply, text: str, echo: Callable[[str], None]) -> None:
    """A paste of many lines is counted instead of shown: the person has it before their eyes elsewhere."""
    *lines, last = text.split("\n")
    if not lines:
        typed.line += last
        echo(last)
        return
    typed.lines += [typed.line + lines[0], *lines[1:]]
    typed.line = ""
    if last:
        typed.lines.append(last)
    typed.pasted = True
    count = len(lines) + bool(last)
    echo(f"[{count} lines pasted: Enter to use them]\n")


def _rub_out(typed: _TypedReply, count: int, echo: Callable[[str], None]) -> None:
    rest = max(0, len(typed.line) - count)
    for character in reversed(typed.line[rest:]):
        echo("\b \b" * (2 if unicodedata.east_asian_width(character) in "WF" else 1))
    typed.line = typed.line[:rest]


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


@contextmanager
def raw_keys(fd: int, echo: Callable[[str], None]) -> Iterator[Iterator[str]]:
    """The keys of the terminal `fd`, each as it is pressed; a marked paste is one key. ^C works as always."""
    import termios

    before = termios.tcgetattr(fd)
    raw = termios.tcgetattr(fd)
    raw[0] &= ~termios.ICRNL  # a pasted \r\n must not become two lines
    raw[3] &= ~(termios.ICANON | termios.ECHO)
    raw[6][termios.VMIN], raw[6][termios.VTIME] = 1, 0
    try:
        termios.tcsetattr(fd, termios.TCSADRAIN, raw)  # what has been typed before stays
        echo("\x1b[?2004h")
        yield _keys(fd)
    finally:
        echo("\x1b[?2004l")
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


def _keys(fd: int) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    key = ""
    while True:
        try:
            # Python heeds a ^C between its steps only: one in the instant before a read would wait for the next key.
            while not select.select([fd], [], [], _POLL_SECONDS)[0]:
                pass
            byte = os.read(fd, 1)  # one at a time: what follows the reply belongs to who asks next
        except OSError:  # the terminal is gone
            byte = b""
        if not byte:
            yield _EOT
            return
        for character in decoder.decode(byte):
            key += character
            if key.startswith(_PASTE):
                if not key.endswith(_PASTED):
                    continue
            elif key.startswith("\x1b") and not _ESCAPE.fullmatch(key):
                continue
            yield key
            key = ""


TIMEOUT = 5.0  # seconds; pyperclip waits for its programs as long as they take


def copy_to_clipboard(text: str) -> bool:
    """Put `text` into the clipboard, and whether it is there: pyperclip does not see its programs fail."""
    import pyperclip

    def both_ways() -> str:
        pyperclip.copy(text)
        return str(pyperclip.paste())

    found = _within_time(both_ways)
    return found is not None and found == text.replace("\r\n", "\n")


def paste_from_clipboard() -> str | None:
    """What is in the clipboard, with `\\n` at the ends of lines; None when it can't be read or is no text."""
    import pyperclip

    return _within_time(lambda: str(pyperclip.paste()))


def _within_time(call: Callable[[], str]) -> str | None:
    found: list[str] = []

    def run() -> None:
        try:
            found.append(call().removeprefix("\ufeff").replace("\r\n", "\n"))
        except Exception:  # noqa: BLE001  # of several kinds, some of them bare, all of which mean that there is none
            return

    thread = Thread(target=run, daemon=True)
    thread.start()
    thread.join(TIMEOUT)
    return found[0] if found else None


_LIKE_THE_PROMPT = 80  # characters at the start of the prompt that no reply begins with


@dataclass
class ManualModel:
    """The prompt goes to a file in `folder` (the system's for temporary files when None), on a terminal to the
    clipboard too, and `out` says so.

    The reply is read from the file `reply` ("-": standard input), once; else at a terminal from the clipboard, a
    named file, or what is pasted (`manual_terminal`); else from `source`, a pipe, up to its end.
    """

    folder: Path | None = None
    reply: Path | None = None
    source: TextIO | None = None  # None: standard input and standard error, looked up at the call
    out: TextIO | None = None
    _used: bool = field(default=False, init=False, repr=False)

    takes: ClassVar[frozenset[str]] = frozenset()

    @property
    def spec(self) -> str:
        return "manual"

    @property
    def context_tokens(self) -> int | None:
        return None

    def complete(self, request: Request, on_text: OnText) -> Reply:
        """See `llm.model.Model`. The usage is an estimate. Raises UsageError where an image or PDF is attached."""
        refuse_any(request, self.spec, "give the files to the chat yourself, next to the prompt")
        prompt = render(request)
        text = self._reply(prompt)
        on_text(text)
        usage = Usage(estimate_tokens(prompt), estimate_tokens(text), estimated=True)
        return Reply(text, "end", usage, self.spec)

    def _reply(self, prompt: str) -> str:
        source, out = self.source or sys.stdin, self.out or sys.stderr
        asks = source.isatty() and out.isatty()
        if self.reply is not None and not self._used:
            self._used = True
            text = source.read() if str(self.reply) == "-" else _read(self.reply)
            return _strip_prompt(text, prompt) or _no_reply(
                f"{self.reply} holds only the prompt: save the reply there"
            )
        path = _write_prompt(prompt, self.folder)
        if asks:
            return _ask_user(prompt, path, source.fileno(), out) or _no_reply(
                f"no reply was given: give the prompt in {path} to a model and paste its reply, "
                "or save it and use --reply FILE"
            )
        if self.reply is not None:
            raise ModelError(
                f"the reply in {self.reply} is not enough: give the new prompt in {path} to a model and use "
                "--reply with its reply"
            )
        print(f"The prompt is in {path}\nIts reply is read from standard input.", file=out, flush=True)
        return _strip_prompt(source.read(), prompt) or _no_reply(
            f"no reply was given: give the prompt in {path} to a model, save its reply and use --reply FILE"
        )


def _no_reply(sentence: str) -> NoReturn:
    raise ModelError(sentence)


def _ask_user(prompt: str, path: Path, terminal: int, out: TextIO) -> str:
    """The reply that the person at the terminal gives; "" for none."""

    def say(text: str) -> None:
        out.write(text)
        out.flush()

    def first(line: str) -> str | None:
        word = line.strip()
        if word in {"", "c"}:
            return _from_clipboard(prompt, say) if has_clipboard else ("" if not word else None)
        if not word.startswith("@") or word.startswith("@@"):
            return None
        try:
            file = Path(word[1:]).expanduser()
            if file.is_file():
                return _read(file)
        except (OSError, RuntimeError):  # the name is too long, or the user is unknown
            return None
        if " " in word or not ("/" in word or "." in word):
            return None  # code
        say(f"No such file: {file}\n")
        return ""

    with raw_keys(terminal, say) as keys:  # from the start: what is pasted early must not be cut
        has_clipboard = _hand_over(prompt, path, say)
        while True:
            text = read_reply(keys, say, first)
            cut = _strip_prompt(text, prompt)
            if cut or not text.strip():
                return cut
            say("That is the prompt, not the reply to it: paste the reply.\n")


def _hand_over(prompt: str, path: Path, say: OnText) -> bool:
    """Put the prompt into the clipboard, say where it is and what is to be done; whether there is a clipboard."""
    if copy_to_clipboard(prompt):
        say(f"The prompt is in the clipboard, and in {path}\n")
        say("Give it to a model, copy the reply and press Enter here.\n")
        say(f'(Or paste the reply, or type @FILE; a line "{END}" ends what is pasted.)\n')
        return True
    say(f"The prompt is in {path}\n")
    say(f'Give it to a model and paste the reply here, with a line "{END}" at its end; or type @FILE:\n')
    return False


def _from_clipboard(prompt: str, say: OnText) -> str:
    text = paste_from_clipboard()
    if not text or not text.strip():
        say("The clipboard holds no text: copy the reply, then press Enter.\n")
        return ""
    cut = _strip_prompt(text, prompt)
    if not cut:
        say("The clipboard still holds the prompt: copy the reply, then press Enter.\n")
    else:
        say(f"Took {len(cut.splitlines())} lines from the clipboard.\n")
    return cut


def _strip_prompt(text: str, prompt: str) -> str:
    """The reply in `text`: all of it, or what comes after the prompt where that was copied too; "" for none."""
    heading = prompt.rstrip().rpartition("\n")[2]
    reply = text.rpartition(heading)[2].lstrip("\r\n") if heading in text else text
    words = " ".join(reply.split())
    if len(words) >= _LIKE_THE_PROMPT and " ".join(prompt.split()).startswith(words[:_LIKE_THE_PROMPT]):
        return ""
    return reply if words else ""


def _write_prompt(prompt: str, folder: Path | None) -> Path:
    import tempfile

    try:
        if folder:
            folder.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix="prompt-", suffix=".md", dir=folder)  # mode 0600
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            file.write(prompt)
    except OSError as error:
        raise ModelError(f"cannot write the prompt: {error}") from error
    return Path(name)


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig", "replace")
    except OSError as error:
        raise ModelError(f"cannot read the reply in {path}: {error.strerror}") from error


class ManualBackend(Backend):
    """The user."""

    def open_model(self, model: str, options: ModelOptions) -> Model:
        return ManualModel(reply=options.reply)

    def check(self, settings: Settings, model: str) -> Status:
        return Status(tried=False)
