"""Rules: a pattern such as `git log *` matches one simple command, word by word.

A word of the pattern matches the same word of the command, however it is quoted; `*` inside a word matches any
characters, `*` as the last word any further words, or none. In quotes `*` is literal. A pattern matches exactly one
simple command. `KIND:PATTERN` is a rule for another kind of action, such as `browse:https://docs.python.org/*`. Deny
rules ignore case where the file system does: there `GIT push` is `git push`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from functools import cached_property, lru_cache
from pathlib import Path

from repoagent.agent.approvals.read_only_commands import GIT_READS, HARMLESS, obeys
from repoagent.agent.approvals.shell_words import Reading, Simple, Word, quote
from repoagent.dataclass import dataclass
from repoagent.errors import UsageError

_LOCAL = re.compile(r"[a-z][a-z0-9]{0,15}")
_PLAIN_WORD = re.compile(r"[\w.,:*@/+-]*")  # `make` runs the $(...) in the value of a variable that it uses
_KIND = re.compile(r"(edit|write|browse|python|tool|delegate):")
# Options before the subcommand of `git` that take a value in the next word.
_GIT_VALUED = {
    "-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--super-prefix",
    "--config-env",
}  # fmt: skip


@dataclass(frozen=True)
class Rule:
    """One pattern. Its first use raises UsageError for an unclosed quote."""

    pattern: str

    @cached_property
    def kind(self) -> str:
        """The kind before the colon, "command" by default."""
        match = _KIND.match(self.pattern)
        return match[1] if match else "command"

    @cached_property
    def _words(self) -> tuple[re.Pattern[str], ...]:
        return tuple(re.compile(word, re.DOTALL) for word in self._split[0])

    @cached_property
    def _split(self) -> tuple[list[str], bool]:
        words = _split(self.pattern)
        further = bool(words) and words[-1] == ".*"
        return (words[:-1] if further else words), further

    def names(self, kind: str, what: str) -> bool:
        """Whether the rule matches an action of another kind than "command"."""
        if kind != self.kind or kind == "command":
            return False
        parts = self.pattern.partition(":")[2].split("*")
        return re.fullmatch(".*".join(map(re.escape, parts)), what, re.DOTALL) is not None

    def allows(self, command: Simple) -> bool:
        """Whether the rule allows `command`: each word up to the final `*` must be literal."""
        if self.kind != "command":
            return False
        set_by = [f"{name}={value.text}" for name, value in command.assignments]
        words = [*command.words]
        fixed = self._words
        if set_by and len(fixed) >= len(set_by) and all(value.literal for _, value in command.assignments):
            together = zip(fixed, set_by, strict=False)
            if all(pattern.fullmatch(text) for pattern, text in together):
                return self._fits(fixed[len(set_by) :], words)
        if any(
            name not in HARMLESS or not _PLAIN_WORD.fullmatch(value.raw)
            for name, value in command.assignments
        ):
            return False
        return self._fits(fixed, words)

    def _fits(self, fixed: tuple[re.Pattern[str], ...], words: list[Word]) -> bool:
        if not words or len(words) < len(fixed) or (len(words) > len(fixed) and not self._split[1]):
            return False
        pairs = zip(fixed, words, strict=False)
        if not all(word.literal and pattern.fullmatch(word.text) for pattern, word in pairs):
            return False
        # options that the user wrote out are intended
        written = {re.sub(r"\\(.)", r"\1", word) for word in _split(self.pattern) if ".*" not in word}
        return not fixed or not obeys(words, written)

    def may_deny(self, command: Simple, *, any_case: bool = False) -> bool:
        """Whether the rule denies `command`, or may do so once its words are known: also by its full path, after
        options of git, or with variables set in front. `any_case`: the file system ignores case."""
        if self.kind != "command" or not command.words:
            return False
        patterns = self._words
        if any_case:
            patterns = tuple(re.compile(word.pattern, word.flags | re.IGNORECASE) for word in patterns)
        return any(self._may_be(words, patterns) for words in _variants(command.words, any_case=any_case))

    def _may_be(self, words: tuple[Word, ...], patterns: tuple[re.Pattern[str], ...]) -> bool:
        for at, pattern in enumerate(patterns):
            if at >= len(words):
                return False
            if not words[at].literal:
                return True
            if not pattern.fullmatch(words[at].text):
                return False
        return self._split[1] or len(words) == len(patterns)


def rules(patterns: Iterable[str]) -> tuple[Rule, ...]:
    """Parse rules. Raises UsageError for an invalid one."""
    parsed = []
    for pattern in patterns:
        rule = Rule(pattern)
        if rule.kind == "command" and not _split(pattern):
            raise UsageError(f"run.allow or run.deny: {pattern!r} is not a command pattern")
        parsed.append(rule)
    return tuple(parsed)


def sets_harmlessly(command: Simple) -> bool:
    """Whether a command only sets shell variables that programs do not read."""
    if command.words or not command.assignments or command.writes:
        return False
    return all(_LOCAL.fullmatch(name) for name, _ in command.assignments)


def _variants(words: tuple[Word, ...], *, any_case: bool) -> Iterable[tuple[Word, ...]]:
    """The words, also without the folder of the program, and without the options of git itself."""
    yield words
    first = words[0]._replace(text=words[0].text.rpartition("/")[2])
    yield (first, *words[1:])
    if (first.text.lower() if any_case else first.text) == "git":
        at = 1
        while at < len(words) and words[at].text.startswith("-"):
            at += 2 if words[at].text in _GIT_VALUED else 1
        yield (first, *words[at:])


def _split(pattern: str) -> list[str]:
    """The words of a pattern, each as a regular expression."""
    words: list[str] = []
    word: str | None = None
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char in " \t\n":
            if word is not None:
                words.append(word)
            word = None
        elif char in "'\"":
            end = at + 1
            text = ""
            while end < len(pattern) and pattern[end] != char:
                if (
                    char == '"'
                    and pattern[end] == "\\"
                    and pattern[end + 1 : end + 2] in {'"', "\\", "$", "`"}
                ):
                    end += 1
                text += pattern[end : end + 1]
                end += 1
            if end >= len(pattern):
                raise UsageError(f"run.allow or run.deny: unclosed quote in {pattern!r}")
            word = (word or "") + re.escape(text)
            at = end
        elif char == "\\" and at + 1 < len(pattern):
            at += 1
            word = (word or "") + re.escape(pattern[at])
        else:
            word = (word or "") + (".*" if char == "*" else re.escape(char))
        at += 1
    return [*words, word] if word is not None else words


@lru_cache(maxsize=8)
def ignores_case(path: str | None) -> bool:
    """Whether the file system of a folder in PATH ignores case."""
    for folder in (path or os.defpath).split(os.pathsep):
        with suppress(OSError):  # no such folder, or no file with the other case
            with os.scandir(folder) as entries:
                name = next((entry.name for entry in entries if entry.name.swapcase() != entry.name), None)
            if name is not None and Path(folder, name).samefile(Path(folder, name.swapcase())):
                return True
    return False


# Programs that never run another one or load code of the repository, so no test runner, build tool, linter with plugins
# or package manager. Not `printf`: `-v` of bash evaluates its argument.
_PLAIN_PROGRAMS = {
    "ls", "cat", "head", "tail", "wc", "grep", "egrep", "fgrep", "rg", "diff", "cmp", "stat", "file",
    "jq", "mkdir", "touch", "echo", "sleep", "cd", "ruff", "black", "gofmt", "clang-format",
    "shellcheck", "hadolint", "yamllint",
}  # fmt: skip
# The same of git: not `fetch`, which runs transports, `tag`, which signs, or `apply`, which writes any file.
_GIT = GIT_READS | {"add", "mv", "branch", "restore", "stash"}


def propose(reading: Reading) -> tuple[str, ...]:
    """The patterns that together allow `reading` and similar commands; () if there are none.

    Commands that always pass need none. A program that can run another one (a shell, an interpreter, a build tool, a
    test runner, `sudo`, `xargs`), that destroys or uses the network, and any unknown one gets a pattern of this exact
    command.
    """
    if reading.doubt:
        return ()
    patterns: dict[str, None] = {}
    for command in reading.commands:
        if command.role != "runs" or sets_harmlessly(command):
            continue
        pattern = pattern_of(command)
        if not pattern:
            return ()
        patterns[pattern] = None
    return tuple(patterns)


def pattern_of(command: Simple) -> str:
    """The pattern of one command, "" if it would also match something else."""
    # a rule is saved and shown as one line
    if not command.words or any(word.text.splitlines() not in ([], [word.text]) for word in command.words):
        return ""
    if any(name not in HARMLESS for name, _ in command.assignments):
        return _exactly(command)
    name = command.name
    if name in _PLAIN_PROGRAMS:
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
