"""An exit code that is an answer: what looks for something, or compares, ends with 1 where it found nothing."""

from __future__ import annotations

from repoagent.agent.approval.reads import only_reads
from repoagent.agent.approval.shell import Simple, read

_SEARCHES = frozenset({"grep", "egrep", "fgrep", "rg", "pgrep"})
_COMPARES = frozenset({"diff", "cmp"})


def unmatched(text: str, exit_code: int | None, output: str) -> str:
    """What the exit code of the command `text` means when it is no failure ("no match"); "" when it may be one: a
    command in it may do more than read, or says in `output` that it failed."""
    reading = read(text)
    commands = [command for command in reading.commands if command.words]
    names = {command.name for command in commands}
    if (
        exit_code != (123 if "xargs" in names else 1) or reading.doubt
    ):  # of xargs, when what it ran ends with 1
        return ""
    said = [meaning for command in commands if (meaning := _meaning(command))]
    others = [command for command in commands if not _meaning(command)]
    if not said or not all(only_reads(command) for command in others if command.name != "xargs"):
        return ""
    lines = output.splitlines()
    if any(f"{command.name}: " in line for command in others for line in lines):
        return ""
    return said[-1]


def _meaning(command: Simple) -> str:
    """What an exit code of 1 says of this command; "" for a failure."""
    words = [word.text for word in command.words[1:]]
    verb = next((word for word in words if not word.startswith("-")), "") if command.name == "git" else ""
    if command.name in _SEARCHES or verb == "grep":
        return "no match"
    if command.name in _COMPARES or (
        verb == "diff" and {"--quiet", "--exit-code", "--no-index"} & set(words)
    ):
        return "they differ"
    return ""
