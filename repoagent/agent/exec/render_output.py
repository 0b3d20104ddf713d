"""Render the output of a command for a model, and interpret its exit code.

A pipeline fails if any of its commands fails, except a writer that SIGPIPE ended. Exit code 1 from a search or a
comparison is a result, not a failure.
"""

from __future__ import annotations

import re
from pathlib import Path

from repoagent import display_text
from repoagent.agent.approvals.rules import only_reads
from repoagent.agent.approvals.shell_parser import read_command
from repoagent.agent.context_window.shorten_text import byte_length, cut_middle
from repoagent.storage.secrets import mask

SHOWN_BYTES = 8 * 1024  # of the output of a command, for the model
_WHOLE = 1 << 20  # bytes that are rendered completely: a progress bar of that length is one short line
_END = 1 << 18  # bytes that are rendered at each end of longer output
_TO_START = re.compile(r"\r|\x1b\[[01]?G")  # to the start of the line
_ESCAPE = re.compile(
    r"\x1b\[[0-9;:<=>?]*[ -/]*[@-~]"  # a control sequence
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\|$)"  # a title, a link
    r"|\x1b[ -/]*[0-~]?"
)
_ACTS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def render_line(line: str) -> str:
    """What a terminal shows last of one line, without its newline, its escape sequences and what was drawn over."""
    if not _ACTS.search(line):
        return line
    drawn = (_erased(_ESCAPE.sub("", text)).rstrip(" ") for text in reversed(_TO_START.split(line)))
    last = next(filter(None, drawn), "")
    return _ACTS.sub(lambda match: display_text.visible_form(match[0]), last)


def _erased(text: str) -> str:
    """The text, where each backspace erases the character before it."""
    if "\b" not in text:
        return text
    shown: list[str] = []
    for char in text:
        if char != "\b":
            shown.append(char)
        elif shown:
            shown.pop()
    return "".join(shown)


def show_output(file: Path, name: str, budget: int, start: int = 0) -> tuple[str, int]:
    """Return the output in `file` from byte `start` on, with secrets masked, and the size of the file.

    The output is shortened to about `budget` bytes. `name` is what the model calls the file.
    """
    with file.open("rb") as stream:
        end = stream.seek(0, 2)
        stream.seek(start)
        data = stream.read(min(end - start, _WHOLE))
        if b"\0" in data[:8192]:
            return f"(binary output of {end - start} bytes, in {name})\n", end
        whole = start + len(data) >= end
        if whole:
            text = _rendered(data)
            if byte_length(text) <= budget:
                return mask(text), end
        else:  # whole lines of both ends
            stream.seek(end - _END)
            last = stream.read(_END)
            text = _rendered(data[: data.rfind(b"\n", 0, _END) + 1 or _END] + last[last.find(b"\n") + 1 :])
    ends = cut_middle(text, budget, head=0.25)
    gap = f"… the middle is omitted: {name} has all of it …"
    if whole and not start and not ends.within:
        gap = f"… {ends.last - ends.first + 1} lines omitted: {name} lines {ends.first}-{ends.last} …"
    return mask("\n".join([ends.head.removesuffix("\n"), gap, ends.tail])), end


def _rendered(data: bytes) -> str:
    text = data.decode("utf-8", "backslashreplace")
    return "\n".join(map(render_line, text.split("\n")))


# A pipe whose reader stops early, and a condition: with `pipefail`, a match in `make | grep -q error && ...` would make
# `make` fail.
_STOPS_EARLY = re.compile(
    r"\|&?\s*(?:\w+=[^\s|]*\s+)*(?:[^\s|]*/)?"
    r"(head\b|read\b|([efz]?grep|rg)\b[^|;&\n]*?\s(-\w*[qmlL]|--(quiet|silent|max-count|files-with)))"
)
_FLOW = re.compile(r"&&|\|\||\b(if|while|until)\b|(^|[\s;(])!\s|\bset\s+-\w*e", re.MULTILINE)


def bash_options(command: str) -> list[str]:
    """The bash options for a command: `pipefail`, unless a condition depends on a pipe whose reader may stop early."""
    return [] if _STOPS_EARLY.search(command) and _FLOW.search(command) else ["-o", "pipefail"]


_MEANINGS = dict.fromkeys(["grep", "egrep", "fgrep", "rg"], "no match") | dict.fromkeys(
    ["diff", "cmp"], "they differ"
)


def explain_exit_code(text: str, exit_code: int | None, output: str) -> str:
    """What exit code 1 of the command `text` means if it is not a failure ("no match"); "" if it may be a failure,
    because a command in `text` does more than read, or reports an error in `output`."""
    reading = read_command(text)
    commands = [command for command in reading.commands if command.words]
    others = [command for command in commands if command.name not in _MEANINGS]
    if exit_code != 1 or reading.doubt or not all(map(only_reads, others)):
        return ""
    if any(f"{command.name}: " in output for command in others):
        return ""
    return next((_MEANINGS[command.name] for command in reversed(commands) if command not in others), "")
