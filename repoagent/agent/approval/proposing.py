"""What "always" would allow: a pattern for each simple command, no wider than a person would want it."""

from __future__ import annotations

from repoagent.agent.approval.known import GIT_READS
from repoagent.agent.approval.rule import HARMLESS, sets_harmlessly
from repoagent.agent.approval.shell.parts import Reading, Simple, quote

# Programs that run no other one and load no code of the repository, whatever their options and configuration: no test
# runner, build tool, linter with plugins or package manager is one. Not `printf`: `-v` of bash evaluates its argument.
_PLAIN = {
    "ls",
    "cat",
    "head",
    "tail",
    "wc",
    "grep",
    "egrep",
    "fgrep",
    "rg",
    "diff",
    "cmp",
    "stat",
    "file",
    "jq",
}
_PLAIN |= {"mkdir", "touch", "echo", "sleep", "cd", "ruff", "black", "gofmt", "clang-format"}
_PLAIN |= {"shellcheck", "hadolint", "yamllint"}
# Of git what does no more: not `fetch`, which runs transports, `tag`, which signs, or `apply`, which writes any file.
_GIT = GIT_READS | {"add", "mv", "branch", "restore", "stash"}


def propose(reading: Reading) -> tuple[str, ...]:
    """The patterns that together allow the commands of `reading` and their like; () when there are none that could.

    What always passes needs none. A program that can run another one (a shell, an interpreter, a build tool, a test
    runner, `sudo`, `xargs`), one that destroys or reaches the network, and one that is not known, gets a pattern of
    this exact command.
    """
    if reading.doubt:
        return ()
    found: dict[str, None] = {}
    for command in reading.commands:
        if command.role != "runs" or sets_harmlessly(command):
            continue
        pattern = pattern_of(command)
        if not pattern:
            return ()
        found[pattern] = None
    return tuple(found)


def _has_line_ends(text: str) -> bool:
    """Whether anything in it ends a line, for anybody: a rule is kept and shown as one."""
    return bool(text) and text.splitlines() != [text]


def pattern_of(command: Simple) -> str:
    """The pattern of one command, "" when none can be made that means this and nothing else."""
    if not command.words or any(_has_line_ends(word.text) for word in command.words):
        return ""
    if any(name not in HARMLESS for name, _ in command.assignments):
        return _exactly(command)
    name = command.name
    if name in _PLAIN:
        return f"{name} *"
    if (
        name == "git"
        and len(command.words) > 1
        and command.words[1].literal
        and command.words[1].text in _GIT
    ):
        return f"git {command.words[1].text} *"
    return _exactly(command)


def _exactly(command: Simple) -> str:
    if not all(word.literal for word in command.words) or not all(
        value.literal for _, value in command.assignments
    ):
        return ""
    set_by = [f"{name}={quote(value.text)}" for name, value in command.assignments if name not in HARMLESS]
    return " ".join([*set_by, *(quote(word.text) for word in command.words)])
