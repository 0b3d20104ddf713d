"""Commands of the person's own: `!cmd` runs one, `!!cmd` also tells the model what it printed."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from repoagent.agent import fence
from repoagent.cli.screen.clean import clean
from repoagent.cli.screen.hush import heard
from repoagent.errors import UsageError

if TYPE_CHECKING:
    from repoagent.cli.chat.chat import Chat

MOST = 16_384  # bytes of an output that is told: half of its beginning, half of its end


def run(chat: Chat, line: str) -> None:
    """Run what follows `!` with the person's shell, in the folder of the chat, with all their rights: nobody else has
    written it. Raises UsageError for nothing, and where no person types."""
    told = line.startswith("!!")
    command = line.lstrip("!").strip()
    if not command:
        raise UsageError("say what to run: !COMMAND, or !!COMMAND to tell what it prints")
    if not chat.person:
        raise UsageError("`!` runs a command for a person at a terminal, not from a pipe")
    shell = os.environ.get("SHELL") or "/bin/sh"
    screen = sys.stderr if not chat.terminal.shows else None
    try:
        if told:
            with heard(typed_ahead=True):
                code, output = _captured(chat, [shell, "-c", command])
            text = fence(output, "output") if output else "(no output)"
            chat.aside.append(f"I ran `{command}`: exit code {code}.\n{text}")
            chat.terminal.note(f"exit {code}; told with your next words", "dim")
            return
        with heard(typed_ahead=True):
            code = subprocess.run([shell, "-c", command], stdout=screen, check=False).returncode
        if code:
            chat.terminal.note(f"exit {code}", "dim")
    except OSError as error:
        raise UsageError(f"{shell} can't be run: {error.strerror}") from error


def _captured(chat: Chat, command: list[str]) -> tuple[int, str]:
    """The exit code, and what was printed, which is shown as it comes."""
    kept = bytearray()
    cut = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        if process.stdout is None:  # for the type checker: it is PIPE
            raise AssertionError("no pipe")
        while piece := os.read(process.stdout.fileno(), 65536):
            sys.stderr.write(clean(piece.decode("utf-8", "replace")))
            sys.stderr.flush()
            kept += piece
            if len(kept) > 4 * MOST:
                more = len(kept) - 2 * MOST
                del kept[MOST : MOST + more]
                cut += more
    return process.returncode, _within(bytes(kept), cut)


def _within(output: bytes, cut: int) -> str:
    half = MOST // 2
    if len(output) > MOST:
        cut += len(output) - MOST
        parts = output[:half], output[-half:]
        return f"\n[… {cut:,} bytes left out …]\n".join(part.decode("utf-8", "replace") for part in parts)
    return output.decode("utf-8", "replace")
