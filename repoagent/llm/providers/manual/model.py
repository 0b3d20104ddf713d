"""No model: the user carries the prompt to any chat, and its reply back."""

from __future__ import annotations

import os
import sys
from dataclasses import field
from pathlib import Path
from typing import ClassVar, NoReturn, TextIO

from repoagent.dataclass import dataclass
from repoagent.errors import ModelError
from repoagent.llm.media.limits import refuse_any
from repoagent.llm.model import OnText, Reply, Request, Usage
from repoagent.llm.providers.manual import clipboard
from repoagent.llm.providers.manual.terminal import END, listening, read_reply
from repoagent.llm.rendering import render
from repoagent.llm.usage import estimate_tokens

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
        refuse_any(request, self.spec, "give the files to the chat yourself, beside the prompt without them")
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
            return _cut(text, prompt) or _no_reply(
                f"{self.reply} holds no reply, only what was asked: save it there"
            )
        path = _write_prompt(prompt, self.folder)
        if asks:
            return _asked(prompt, path, source.fileno(), out) or _no_reply(
                f"no reply was given: give the prompt in {path} to a model and paste its reply, "
                "or save it and say --reply FILE"
            )
        if self.reply is not None:
            raise ModelError(
                f"the reply in {self.reply} does not settle it: give the new prompt in {path} to a model and say "
                "--reply with its answer"
            )
        print(f"The prompt is in {path}\nIts reply is read from standard input.", file=out, flush=True)
        return _cut(source.read(), prompt) or _no_reply(
            f"no reply was given: give the prompt in {path} to a model, save its reply and say --reply FILE"
        )


def _no_reply(sentence: str) -> NoReturn:
    raise ModelError(sentence)


def _asked(prompt: str, path: Path, terminal: int, out: TextIO) -> str:
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
        except (OSError, RuntimeError):  # too long for a name; the home of nobody
            return None
        if " " in word or not ("/" in word or "." in word):
            return None  # code
        say(f"There is no file {file}.\n")
        return ""

    with listening(terminal, say) as keys:  # from the start: what is pasted early must not be cut
        has_clipboard = _handed_over(prompt, path, say)
        while True:
            text = read_reply(keys, say, first)
            cut = _cut(text, prompt)
            if cut or not text.strip():
                return cut
            say("That is the prompt, not the reply to it: paste the reply.\n")


def _handed_over(prompt: str, path: Path, say: OnText) -> bool:
    """Put the prompt into the clipboard, say where it is and what is to be done; whether there is a clipboard."""
    if clipboard.put(prompt):
        say(f"The prompt is in the clipboard, and in {path}\n")
        say("Give it to a model, copy the reply and press Enter here.\n")
        say(f'(Or paste the reply, or type @FILE; a line "{END}" ends what is pasted.)\n')
        return True
    say(f"The prompt is in {path}\n")
    say(f'Give it to a model and paste the reply here, with a line "{END}" at its end; or type @FILE:\n')
    return False


def _from_clipboard(prompt: str, say: OnText) -> str:
    text = clipboard.get()
    if not text or not text.strip():
        say("The clipboard holds no text: copy the reply, then press Enter.\n")
        return ""
    cut = _cut(text, prompt)
    if not cut:
        say("The clipboard still holds the prompt: copy the reply, then press Enter.\n")
    else:
        say(f"Took {len(cut.splitlines())} lines from the clipboard.\n")
    return cut


def _cut(text: str, prompt: str) -> str:
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
        raise ModelError(f"the prompt can't be written for you to carry: {error}") from error
    return Path(name)


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig", "replace")
    except OSError as error:
        raise ModelError(f"the reply in {path} can't be read: {error.strerror}") from error
