"""No model: the user carries the prompt to any chat, and its reply back."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from repoagent.errors import ModelError
from repoagent.llm.model import OnText, Reply, Request, Usage
from repoagent.llm.rendering import render
from repoagent.llm.usage import estimate_tokens

END = "."  # alone on a line it ends a reply that is typed or pasted


@dataclass(frozen=True)
class ManualModel:
    """The prompt goes to a file in `folder` (the system's for temporary files when None), its path to `out`.

    The reply is read from `source`: on a terminal up to a line with a single "." or ^D, or from the file
    that a first line `@FILE` names; from a pipe or file up to its end.
    """

    folder: Path | None = None
    source: TextIO | None = None  # None: standard input and standard error, looked up at the call
    out: TextIO | None = None

    @property
    def spec(self) -> str:
        return "manual"

    @property
    def context_tokens(self) -> int | None:
        return None

    def complete(self, request: Request, on_text: OnText) -> Reply:
        """See `llm.model.Model`. Nothing is streamed: the user has just seen it. The usage is an estimate."""
        source = self.source or sys.stdin
        out = self.out or sys.stderr
        prompt = render(request)
        path = _write_prompt(prompt, self.folder)
        print(f"The prompt is in {path}\nGive it to a model.", file=out, end=" ")
        if source.isatty():
            print(
                f'Paste its reply here and end it with a line "{END}" (or type @FILE):', file=out, flush=True
            )
            text = _typed(source)
        else:
            print("Its reply is read from standard input.", file=out, flush=True)
            text = source.read()
        if not text.strip():
            raise ModelError(
                f"no reply was given: give the prompt in {path} to a model and paste its reply, "
                "or pipe it in (repoagent ... --model manual < reply.txt)"
            )
        return Reply(
            text, "end", Usage(estimate_tokens(prompt), estimate_tokens(text), estimated=True), self.spec
        )


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


def _typed(source: TextIO) -> str:
    lines: list[str] = []
    for line in source:
        if line.rstrip("\r\n") == END:
            break
        if not lines and line.startswith("@") and Path(line[1:].strip()).is_file():
            return _read(Path(line[1:].strip()))
        lines.append(line)
    return "".join(lines)


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError as error:
        raise ModelError(f"the reply in {path} can't be read: {error.strerror}") from error
