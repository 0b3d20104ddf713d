"""What the exit code of a pipe means: each part of it counts, but not that a reader which had enough ended a writer."""

from __future__ import annotations

import re

from repoagent.agent.approval.shell import Reading, Simple

CLOSED = 141  # of a writer that SIGPIPE ended: 128 and its number

_OPTIONS_OF_GREP = re.compile(
    r"-[a-zA-Z]*[qmlL].*|--(quiet|silent|max-count|files-with(out)?-match(es)?)(=.*)?"
)
_QUITS = re.compile(r"(?<![a-zA-Z\\])[qQ]\s*\d*\s*(;|}|\Z)")  # a script of sed
_GREPS = frozenset({"grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack"})
_FLOW = re.compile(r"&&|\|\||\b(if|while|until)\b|(^|[\s;(])!\s|\bset\s+-\w*e", re.MULTILINE)
_BROKEN = re.compile(r"broken ?pipe|\bEPIPE\b|pipe to stdout was broken", re.IGNORECASE)


def bash_options(reading: Reading) -> list[str]:
    """The options of bash for a command: `pipefail`, but not where something is done only if a pipe succeeds whose
    reader closes it early. In `make | grep -q error && ...` grep may find it and make be ended for that."""
    early = any(map(_closes, reading.commands))
    return [] if early and _FLOW.search(reading.text) else ["-o", "pipefail"]


def was_cut_off(reading: Reading, code: int | None, output: str) -> bool:
    """Whether `code` only says that a writer of a pipe was cut off by a reader that had enough."""
    python_ended = code == 120  # it could not flush its output
    return any(map(_closes, reading.commands)) and (python_ended or _BROKEN.search(output) is not None)


def _closes(command: Simple) -> bool:
    """Whether it may close the pipe that it reads before all is written."""
    words = [word.text for word in command.words[1:]]
    if not command.fed:
        return False
    if command.name in _GREPS:
        return any(map(_OPTIONS_OF_GREP.fullmatch, words))
    if command.name == "sed":
        return any(map(_QUITS.search, words))
    return command.name in {"head", "read"} or (
        command.name == "awk" and any("exit" in word for word in words)
    )
