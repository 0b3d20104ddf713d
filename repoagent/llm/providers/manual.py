"""The model `manual`: the user copies the prompt to any chat, and the reply back.

At a terminal, the prompt is copied to the clipboard, and the reply is read from the clipboard or pasted. A terminal's
line mode cuts lines at 4,096 bytes (N_TTY), and pasted lines may be longer, so prompt_toolkit reads the keys.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TextIO

from repoagent.dataclass import dataclass
from repoagent.errors import ModelError
from repoagent.llm.media import refuse_any
from repoagent.llm.model import Model, OnText, Reply, Request, Usage, render_request
from repoagent.llm.registry import Backend, ModelOptions, ModelStatus
from repoagent.llm.usage import estimate_tokens

if TYPE_CHECKING:
    from repoagent.config.settings import Settings

TIMEOUT = 5.0  # seconds; pyperclip has no time limit


def clipboard(new: str | None = None) -> str | None:
    """Copy `new` to the clipboard if it is set; return the clipboard's text, or None on failure or after TIMEOUT.

    The text may differ from `new`, because pyperclip ignores failures of its helper programs.
    """
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
    """Writes each prompt to a file in `folder` (None: the temporary folder).

    At a terminal, the prompt is also copied to the clipboard. The first reply is read from the file `reply` ("-":
    standard input), if set. Any other reply is pasted or read from the clipboard at a terminal; otherwise, it is the
    whole text of `source`.
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
        refuse_any(request, self.spec, "attach the files in the chat yourself, along with the prompt")
        prompt = render_request(request)
        text = self._reply(prompt)
        on_text(text)
        usage = Usage(estimate_tokens(prompt), estimate_tokens(text), estimated=True)
        return Reply(text, "end", usage, self.spec)

    def _reply(self, prompt: str) -> str:
        source, out = self.source or sys.stdin, self.out or sys.stderr
        if self.reply is not None and not self._used:
            self._used = True
            try:
                is_stdin = str(self.reply) == "-"
                text = source.read() if is_stdin else self.reply.read_bytes().decode("utf-8-sig", "replace")
            except OSError as error:
                raise ModelError(f"cannot read the reply in {self.reply}: {error.strerror}") from error
            if not (text := _strip_prompt(text, prompt)):
                raise ModelError(f"{self.reply} contains only the prompt: save the reply there")
            return text
        try:
            if self.folder:
                self.folder.mkdir(parents=True, exist_ok=True)
            descriptor, path = tempfile.mkstemp(prefix="prompt-", suffix=".md", dir=self.folder)  # mode 0600
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
                file.write(prompt)
        except OSError as error:
            raise ModelError(f"cannot write the prompt: {error}") from error
        if source.isatty() and out.isatty():
            text = _ask_user(prompt, path, source, out)
        elif self.reply is not None:
            raise ModelError(
                f"the reply in {self.reply} led to another prompt: give {path} to a model and pass its reply "
                "with --reply"
            )
        else:
            print(f"The prompt is in {path}\nThe reply is read from standard input.", file=out, flush=True)
            text = _strip_prompt(source.read(), prompt)
        if not text:
            raise ModelError(
                f"no reply: give the prompt in {path} to a model, save its reply and pass it with --reply "
                "FILE"
            )
        return text


def _ask_user(prompt: str, path: str, source: TextIO, out: TextIO) -> str:
    """The user's reply at the terminal, pasted or from the clipboard; "" if there is none."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.input import create_input
    from prompt_toolkit.output import create_output

    session: PromptSession[str] = PromptSession(input=create_input(source), output=create_output(out))
    if has_clipboard := clipboard(prompt) == prompt:
        how = "copy its reply and press Enter here, or paste it"
        message = f"The prompt is on the clipboard, and in {path}\nGive it to a model, then {how}:\n"
    else:
        message = f"The prompt is in {path}\nGive it to a model, then paste its reply here and press Enter:\n"
    while True:
        try:
            text = session.prompt(message)
        except EOFError:
            return ""
        if has_clipboard and not text.strip():
            text = clipboard() or ""
        if reply := _strip_prompt(text, prompt):
            return reply if reply.endswith("\n") else f"{reply}\n"
        message = "That is not a reply to the prompt: copy or paste the reply.\n"


def _strip_prompt(text: str, prompt: str) -> str:
    """The reply in `text`: the part after the prompt if that was copied as well; "" if there is none."""
    heading = prompt.rstrip().rpartition("\n")[2]
    reply = text.rpartition(heading)[2].lstrip("\r\n") if heading in text else text
    return reply if reply.strip() else ""


class ManualBackend(Backend):
    def open_model(self, model: str, options: ModelOptions) -> Model:
        return ManualModel(reply=options.reply)

    def check(self, settings: Settings, model: str, *, online: bool = True) -> ModelStatus:
        return ModelStatus(tried=False)
