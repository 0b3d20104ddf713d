"""Render the output of a command for a model, and interpret its exit code.

Output is rendered as on a screen: progress bars overwritten, colours and cursor movements removed. Long output is
shortened to its head and tail, with the name of the file that has the rest. A pipe fails if any part of it does, except
a writer whose reader closed the pipe; an exit code of 1 from a search or comparison is a result.
"""

from __future__ import annotations

import re
from pathlib import Path

from repoagent import display_text
from repoagent.agent.approvals.read_only_commands import only_reads
from repoagent.agent.approvals.shell_parser import read_command
from repoagent.agent.approvals.shell_words import Reading, Simple
from repoagent.dataclass import dataclass
from repoagent.storage.secrets import mask

SHOWN_BYTES = 8 * 1024  # of the output of a command, for the model
_TOKEN = re.compile(
    r"\x1b\[([0-9;:<=>?]*)[ -/]*([@-~])"  # a control sequence
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\|$)"  # a title, a link
    r"|\x1b[ -/]*[0-~]?"
    r"|[\r\b]"
    r"|[^\x1b\r\b]+"
)
_ACTS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def drawn(line: str) -> str:
    """One line, without its newline, as a terminal would show it."""
    line = line.rstrip("\r") if line.endswith("\r") else line
    if not _ACTS.search(line):
        return line
    shown: list[str] = []
    at = 0
    for token in _TOKEN.finditer(line):
        text = token[0]
        if text == "\r" or (token[2] == "G" and token[1] in {"", "0", "1"}):
            at = 0
        elif text == "\b":
            at = max(0, at - 1)
        elif token[2] == "K":
            if token[1] == "2":
                shown[:] = " " * at
            elif token[1] in {"", "0"}:
                del shown[at:]
        elif not text.startswith("\x1b"):
            shown[at : at + len(text)] = text
            at += len(text)
    return _ACTS.sub(lambda match: display_text.visible(match[0]), "".join(shown)).rstrip(" ")


_WHOLE = 1 << 20  # bytes that are rendered completely: a progress bar of that length is one short line
_END = 1 << 18  # bytes that are rendered at each end of longer output
_LINE = 1_500  # characters of one line in a shortened output


@dataclass(frozen=True)
class Shown:
    """Text for a model, up to the byte `until` of the file."""

    text: str
    until: int


def show(file: Path, name: str, budget: int, start: int = 0) -> Shown:
    """The output in `file` from byte `start` on, in at most about `budget` bytes; `name` is the name of the file for
    the model. Keys and tokens are masked in the result, not in the file."""
    with file.open("rb") as stream:
        size = stream.seek(0, 2)
        stream.seek(start)
        data = stream.read(min(size - start, _WHOLE))
        if b"\0" in data[:8192]:
            return Shown(f"(binary output of {size - start} bytes, in {name})\n", size)
        first = 1 + (_newlines(file, 0, start) if start else 0)
        head = tail = _lines(data)
        if start + len(data) >= size:
            text = "\n".join(head) + ("\n" if data.endswith(b"\n") else "")
            if len(text.encode()) <= budget:
                return Shown(mask(text), size)
            last = first + len(head) - 1
        else:
            stream.seek(size - _END)
            end = stream.read(_END)
            last = first + _newlines(file, start, size) - (1 if end.endswith(b"\n") else 0)
            head, tail = _lines(data[:_END]), _lines(end)
            head, tail = head[: max(1, len(head) - 1)], tail[min(1, len(tail) - 1) :]  # whole lines
    head = _fitting(head, budget // 4)[: max(0, last - first + 1)]
    left = last - first + 1 - len(head)
    tail = _fitting(tail[::-1], budget - budget // 4)[:left][::-1]
    left -= len(tail)
    gap = f"… long lines are shortened: {name} has them in full …"
    if left > 0:
        where = f"{first + len(head)}-{last - len(tail)}"
        gap = f"… {left} line{'s' if left > 1 else ''} omitted: {name} lines {where} …"
    return Shown(mask("\n".join([*head, gap, *tail]) + "\n"), size)


def _lines(data: bytes) -> list[str]:
    text = data.decode("utf-8", "backslashreplace")
    return [drawn(line) for line in text.removesuffix("\n").split("\n")] if text else []


def _fitting(lines: list[str], budget: int) -> list[str]:
    """As many of the first lines as fit into `budget` bytes, at least one; long ones are shortened."""
    fitting: list[str] = []
    for line in lines:
        if len(line) > _LINE:
            omitted = len(line) - _LINE
            line = f"{line[: _LINE - 300]} … {omitted} characters omitted … {line[-300:]}"
        budget -= len(line.encode()) + 1
        if budget < 0 and fitting:
            break
        fitting.append(line)
    return fitting


def _newlines(file: Path, start: int, end: int) -> int:
    """The number of newlines between two bytes of the file."""
    count = 0
    with file.open("rb") as stream:
        stream.seek(start)
        while start < end and (data := stream.read(min(end - start, 1 << 20))):
            count += data.count(b"\n")
            start += len(data)
    return count


CLOSED = 141  # the exit code after SIGPIPE: 128 plus its number

_OPTIONS_OF_GREP = re.compile(
    r"-[a-zA-Z]*[qmlL].*|--(quiet|silent|max-count|files-with(out)?-match(es)?)(=.*)?"
)
_QUITS = re.compile(r"(?<![a-zA-Z\\])[qQ]\s*\d*\s*(;|}|\Z)")  # a script of sed
_GREPS = frozenset({"grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack"})
_FLOW = re.compile(r"&&|\|\||\b(if|while|until)\b|(^|[\s;(])!\s|\bset\s+-\w*e", re.MULTILINE)
_BROKEN = re.compile(r"broken ?pipe|\bEPIPE\b|pipe to stdout was broken", re.IGNORECASE)


def bash_options(reading: Reading) -> list[str]:
    """The options of bash for a command: `pipefail`, unless a condition depends on a pipe whose reader closes it early:
    in `make | grep -q error && ...` a match of grep would make `make` fail."""
    early = any(map(_closes, reading.commands))
    return [] if early and _FLOW.search(reading.text) else ["-o", "pipefail"]


def was_cut_off(reading: Reading, code: int | None, output: str) -> bool:
    """Whether `code` only means that the reader of a pipe closed it early."""
    python_ended = code == 120  # it could not flush its output
    return any(map(_closes, reading.commands)) and (python_ended or _BROKEN.search(output) is not None)


def _closes(command: Simple) -> bool:
    """Whether the command may close its input before the end."""
    name, words = command.name, command.texts
    if not command.fed:
        return False
    if name in _GREPS:
        return any(map(_OPTIONS_OF_GREP.fullmatch, words))
    if name == "sed":
        return any(map(_QUITS.search, words))
    return name in {"head", "read"} or (name == "awk" and any("exit" in word for word in words))


def unmatched(text: str, exit_code: int | None, output: str) -> str:
    """The meaning of the exit code of the command `text` if it is not a failure ("no match"). "" if it may be a
    failure: if a command in it does more than read, or reports an error in `output`."""
    reading = read_command(text)
    commands = [(command, _meaning(command)) for command in reading.commands if command.words]
    with_xargs = any(command.name == "xargs" for command, _ in commands)
    if reading.doubt or exit_code != (123 if with_xargs else 1):  # xargs reports 123 for an exit code of 1
        return ""
    others = [command for command, meaning in commands if not meaning]
    if not all(only_reads(command) or command.name == "xargs" for command in others):
        return ""
    if any(f"{command.name}: " in line for command in others for line in output.splitlines()):
        return ""
    return next((meaning for _, meaning in reversed(commands) if meaning), "")


def _meaning(command: Simple) -> str:
    """The meaning of an exit code of 1 of this command; "" for a failure."""
    words = command.texts
    verb = next((word for word in words if not word.startswith("-")), "") if command.name == "git" else ""
    if command.name in {"grep", "egrep", "fgrep", "rg", "pgrep"} or verb == "grep":
        return "no match"
    compares = verb == "diff" and {"--quiet", "--exit-code", "--no-index"} & set(words)
    return "they differ" if compares or command.name in {"diff", "cmp"} else ""
