"""What "always" would allow: a pattern for each simple command, no wider than a person would want it."""

from __future__ import annotations

from repoagent.agent.approval.known import GIT_READS
from repoagent.agent.approval.rule import HARMLESS, sets_harmlessly
from repoagent.agent.approval.shell.parts import Reading, Simple, quote

# Programs that do one thing to what they are given, whatever the options.
_PLAIN = {
    "pytest",
    "py.test",
    "ruff",
    "mypy",
    "black",
    "isort",
    "flake8",
    "pylint",
    "pyright",
    "tsc",
    "eslint",
    "prettier",
}
_PLAIN |= {
    "jest",
    "vitest",
    "mocha",
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
}
_PLAIN |= {
    "file",
    "gofmt",
    "rustfmt",
    "clang-format",
    "shellcheck",
    "hadolint",
    "yamllint",
    "jq",
    "cmake",
    "ctest",
    "ninja",
}
_PLAIN |= {"mkdir", "touch", "echo", "printf", "sleep", "cd"}
# Programs whose first word says what they do, as far as that is safe to leave open.
_VERBS: dict[str, frozenset[str]] = {
    "git": GIT_READS | {"add", "mv", "apply", "branch", "tag", "fetch", "stash", "restore"},
    "npm": frozenset({"test", "ci", "ls", "audit", "outdated"}),
    "pnpm": frozenset({"test", "ls", "audit", "outdated"}),
    "yarn": frozenset({"test", "lint", "build"}),
    "cargo": frozenset({"build", "check", "test", "clippy", "fmt", "doc", "bench", "tree"}),
    "go": frozenset({"build", "test", "vet", "fmt", "doc", "list", "mod"}),
    "dotnet": frozenset({"build", "test", "restore", "format"}),
    "mvn": frozenset({"test", "compile", "package", "verify"}),
    "gradle": frozenset({"test", "build", "check"}),
    "bundle": frozenset({"check", "list"}),
    "pip": frozenset({"list", "show", "freeze", "check"}),
    "mix": frozenset({"test", "compile", "format"}),
    "composer": frozenset({"validate", "show", "test"}),
}
_SCRIPTS = {"npm", "pnpm", "yarn"}


def propose(reading: Reading) -> tuple[str, ...]:
    """The patterns that together allow the commands of `reading` and their like; () when there are none that could.

    What always passes needs none. A program that runs others (a shell, an interpreter, `sudo`, `xargs`), one that
    destroys or reaches the network, and one that is not known, gets a pattern of this exact command.
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
    words = [word.text for word in command.words if word.literal]
    verb = words[1] if len(words) > 1 and command.words[1].literal else ""
    if (
        name in _SCRIPTS
        and verb == "run"
        and len(words) > 2
        and words[2].replace("-", "").replace(":", "").isalnum()
    ):
        return f"{name} run {words[2]} *"
    if verb in _VERBS.get(name, ()) and verb:
        return f"{name} {verb} *"
    return _exactly(command)


def _exactly(command: Simple) -> str:
    if not all(word.literal for word in command.words) or not all(
        value.literal for _, value in command.assignments
    ):
        return ""
    set_by = [f"{name}={quote(value.text)}" for name, value in command.assignments if name not in HARMLESS]
    return " ".join([*set_by, *(quote(word.text) for word in command.words)])
