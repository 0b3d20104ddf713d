"""The model `manual`: the user copies the prompt to any chat, and the reply back.

At a terminal, the prompt is copied to the clipboard, and the reply is read from the clipboard, from a file, or pasted.
The line mode of a terminal cuts lines at 4,096 bytes (N_TTY), and pasted code may be longer, so keys are read one by
one, with an echo and a few editing keys.
"""

from __future__ import annotations

import codecs
import os
import re
import select
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TextIO

from repoagent.dataclass import dataclass
from repoagent.errors import ModelError
from repoagent.llm.media import refuse_any
from repoagent.llm.model import Model, OnText, Reply, Request, Usage, render
from repoagent.llm.registry import Backend, ModelOptions, Status
from repoagent.llm.usage import estimate_tokens

if TYPE_CHECKING:
    from repoagent.config.settings import Settings

END = "."  # alone on a line, it ends a reply
_EOT, _KILL = "\x04", "\x15"  # ^D, ^U
_POLL_SECONDS = 0.25  # maximum delay of a ^C
_PASTE, _PASTED = "\x1b[200~", "\x1b[201~"
_ESCAPE = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|O.|[^\[O])")
_LIKE_THE_PROMPT = 80  # characters; a text that begins with as many of the prompt is not a reply


def read_reply(keys: Iterator[str], echo: Callable[[str], None], first: Callable[[str], str | None]) -> str:
    """Read a reply key by key, up to a line with a single ".", ^D, or Enter after a bracketed paste. Line ends are
    `\\n`.

    `first` gets the first line when Enter is pressed. It returns the reply; "" if the line is not part of the reply;
    None if it is.
    """
    lines: list[str] = []
    line = before = ""
    pasted = False  # the last key was a paste of several lines
    for key in keys:
        if key.startswith(_PASTE):
            text = key[len(_PASTE) : -len(_PASTED)].replace("\r\n", "\n").replace("\r", "\n")
            *whole, last = text.split("\n")
            if whole:  # show the number of lines only
                lines += [line + whole[0], *whole[1:], *([last] if last else [])]
                line, pasted = "", True
                echo(f"[{len(whole) + bool(last)} lines pasted: Enter to use them]\n")
            else:
                line += last
                echo(last)
        elif key == _EOT:
            echo("\n")
            break
        elif key in {"\r", "\n"} and (before, key) != ("\r", "\n"):  # \r\n is one line end
            echo("\n")
            answer = None if lines else first(line)
            if answer:
                return answer
            if answer is not None:
                line = ""
            elif line == END or (pasted and not line):
                line = ""
                break
            else:
                lines.append(line)
                line, pasted = "", False
        elif key in {"\x7f", "\b", _KILL}:
            count = len(line) if key == _KILL else min(1, len(line))
            echo("\b \b" * count)
            line = line[: len(line) - count]
        elif key >= " " or key == "\t":
            line += key
            echo(key if key.isprintable() or key == "\t" else "")
        before = key
    return "\n".join([*lines, line])


@contextmanager
def raw_keys(fd: int, echo: Callable[[str], None]) -> Iterator[Iterator[str]]:
    """The keys of the terminal `fd` as they are pressed; a bracketed paste is one key. ^C interrupts as usual."""
    import termios

    before = termios.tcgetattr(fd)
    raw = termios.tcgetattr(fd)
    raw[0] &= ~termios.ICRNL  # a pasted \r\n must not become two lines
    raw[3] &= ~(termios.ICANON | termios.ECHO)
    raw[6][termios.VMIN], raw[6][termios.VTIME] = 1, 0
    try:
        termios.tcsetattr(fd, termios.TCSADRAIN, raw)  # keeps earlier input
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
            # Python handles ^C between bytecodes only: one just before a blocking read would wait for the next key.
            while not select.select([fd], [], [], _POLL_SECONDS)[0]:
                pass
            byte = os.read(fd, 1)  # not more: input after the reply belongs to the next prompt
        except OSError:  # the terminal was closed
            byte = b""
        if not byte:
            yield _EOT
            return
        for character in decoder.decode(byte):
            key += character
            if key.startswith(_PASTE):
                whole = key.endswith(_PASTED)
            else:
                whole = not key.startswith("\x1b") or _ESCAPE.fullmatch(key) is not None
            if whole:
                yield key
                key = ""


TIMEOUT = 5.0  # seconds; pyperclip has no time limit


def copy_to_clipboard(text: str) -> bool:
    """Copy `text` to the clipboard. Return whether it is there: pyperclip ignores failures of its programs."""
    return _clipboard(text) == text.replace("\r\n", "\n")


def paste_from_clipboard() -> str | None:
    """The text in the clipboard, with line ends `\\n`; None if it cannot be read or is not text."""
    return _clipboard()


def _clipboard(new: str | None = None) -> str | None:
    """The text in the clipboard, after copying `new` there; None on failure or after TIMEOUT."""
    import pyperclip

    texts: list[str] = []

    def run() -> None:
        try:
            if new is not None:
                pyperclip.copy(new)
            texts.append(str(pyperclip.paste()).removeprefix("\ufeff").replace("\r\n", "\n"))
        except Exception:  # noqa: BLE001  # no clipboard: pyperclip raises exceptions of several kinds
            return

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(TIMEOUT)
    return texts[0] if texts else None


@dataclass
class ManualModel:
    """Writes the prompt to a file in `folder` (None: the system's temporary folder), copies it to the clipboard if at a
    terminal, and prints instructions to `out`.

    Reads the first reply from the file `reply` ("-": standard input) if set; others at a terminal from the clipboard, a
    file named by the user, or pasted text, otherwise from `source`, a pipe, up to its end.
    """

    folder: Path | None = None
    reply: Path | None = None
    source: TextIO | None = None  # None: standard input and standard error, looked up at the call
    out: TextIO | None = None
    _used: bool = field(default=False, init=False, repr=False)

    takes: ClassVar[frozenset[str]] = frozenset()
    spec: ClassVar[str] = "manual"
    context_tokens: ClassVar[int | None] = None

    def complete(self, request: Request, on_text: OnText) -> Reply:
        """See `llm.model.Model`. The usage is estimated. Raises UsageError if an image or PDF is attached."""
        refuse_any(request, self.spec, "give the files to the chat yourself, next to the prompt")
        prompt = render(request)
        text = self._reply(prompt)
        on_text(text)
        usage = Usage(estimate_tokens(prompt), estimate_tokens(text), estimated=True)
        return Reply(text, "end", usage, self.spec)

    def _reply(self, prompt: str) -> str:
        source, out = self.source or sys.stdin, self.out or sys.stderr
        if self.reply is not None and not self._used:
            self._used = True
            text = source.read() if str(self.reply) == "-" else _read(self.reply)
            if not (text := _strip_prompt(text, prompt)):
                raise ModelError(f"{self.reply} contains only the prompt: save the reply there")
            return text
        path = _write_prompt(prompt, self.folder)
        if source.isatty() and out.isatty():
            text = _ask_user(prompt, path, source.fileno(), out)
        elif self.reply is not None:
            raise ModelError(
                f"the reply in {self.reply} led to another prompt: give {path} to a model and use --reply with its "
                "reply"
            )
        else:
            print(f"The prompt is in {path}\nIts reply is read from standard input.", file=out, flush=True)
            text = _strip_prompt(source.read(), prompt)
        if not text:
            raise ModelError(
                f"no reply: give the prompt in {path} to a model, save its reply and use --reply FILE"
            )
        return text


def _ask_user(prompt: str, path: Path, terminal: int, out: TextIO) -> str:
    """The user's reply at the terminal; "" if there is none."""

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

    with raw_keys(terminal, say) as keys:  # before the prompt is shown: an early paste must not be cut
        has_clipboard = copy_to_clipboard(prompt)
        if has_clipboard:
            say(f"The prompt is in the clipboard, and in {path}\n")
            say("Give it to a model, copy the reply and press Enter here.\n")
            say(f'(Or paste the reply, or type @FILE; a line "{END}" ends what is pasted.)\n')
        else:
            say(f"The prompt is in {path}\n")
            say(
                f'Give it to a model and paste the reply here, with a line "{END}" at its end; or type @FILE:\n'
            )
        while True:
            text = read_reply(keys, say, first)
            reply = _strip_prompt(text, prompt)
            if reply or not text.strip():
                return reply
            say("That is the prompt, not the reply to it: paste the reply.\n")


def _from_clipboard(prompt: str, say: OnText) -> str:
    text = paste_from_clipboard() or ""
    reply = _strip_prompt(text, prompt)
    if reply:
        say(f"Read {len(reply.splitlines())} lines from the clipboard.\n")
    else:
        what = "still contains the prompt" if text.strip() else "contains no text"
        say(f"The clipboard {what}: copy the reply, then press Enter.\n")
    return reply


def _strip_prompt(text: str, prompt: str) -> str:
    """The reply in `text`: the part after the prompt if that was copied as well; "" if there is none."""
    heading = prompt.rstrip().rpartition("\n")[2]
    reply = text.rpartition(heading)[2].lstrip("\r\n") if heading in text else text
    words = " ".join(reply.split())
    if len(words) >= _LIKE_THE_PROMPT and " ".join(prompt.split()).startswith(words[:_LIKE_THE_PROMPT]):
        return ""
    return reply if words else ""


def _write_prompt(prompt: str, folder: Path | None) -> Path:
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

    def check(self, settings: Settings, model: str, *, online: bool = True) -> Status:
        return Status(tried=False)
