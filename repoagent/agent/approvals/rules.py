"""Rules: a pattern such as `git log *` matches one simple command, word by word.

A word of the pattern matches the same word of the command, however it is quoted; `*` inside a word matches any
characters, `*` as the last word any further words, or none. In quotes `*` is literal. A pattern matches exactly one
simple command. `KIND:PATTERN` is a rule for another kind of action, such as `browse:https://docs.python.org/*`. Deny
rules ignore case if the file system does: then `GIT push` is `git push`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
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
_TOKEN = re.compile(
    r"(?P<blank>[ \t\n]+)|'(?P<single>[^']*)'|\"(?P<double>(?:[^\"\\]|\\.)*)\"|\\(?P<escaped>.)|(?P<char>.)",
    re.DOTALL,
)
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
    def _parsed(self) -> tuple[tuple[re.Pattern[str], ...], bool, set[str]]:
        """The patterns of its words, whether further words may follow, and its words without wildcards."""
        words = _split(self.pattern)
        further = words[-1:] == [".*"]
        written = {re.sub(r"\\(.)", r"\1", word) for word in words if ".*" not in word}
        return (
            tuple(re.compile(word, re.DOTALL) for word in words[: -1 if further else None]),
            further,
            written,
        )

    def names(self, kind: str, text: str) -> bool:
        """Whether the rule matches an action of another kind than "command"."""
        if kind != self.kind or kind == "command":
            return False
        parts = self.pattern.partition(":")[2].split("*")
        return re.fullmatch(".*".join(map(re.escape, parts)), text, re.DOTALL) is not None

    def allows(self, command: Simple) -> bool:
        """Whether the rule allows `command`: each word up to the final `*` must be literal."""
        if self.kind != "command":
            return False
        fixed, further, written = self._parsed
        assignments, words = command.assignments, command.words
        values = [f"{name}={value.text}" for name, value in assignments if value.literal]
        if (
            values
            and len(values) == len(assignments) <= len(fixed)
            and all(pattern.fullmatch(text) for pattern, text in zip(fixed, values, strict=False))
        ):
            fixed = fixed[len(values) :]
        elif any(name not in HARMLESS or not _PLAIN_WORD.fullmatch(value.raw) for name, value in assignments):
            return False
        if not words or len(words) < len(fixed) or (len(words) > len(fixed) and not further):
            return False
        pairs = zip(fixed, words, strict=False)
        if not all(word.literal and pattern.fullmatch(word.text) for pattern, word in pairs):
            return False
        return not fixed or not obeys(words, written)  # options that the user wrote out are intended

    def may_deny(self, command: Simple, *, any_case: bool = False) -> bool:
        """Whether the rule denies `command`, or may do so depending on unknown words; full paths, options of git and
        variables in front do not matter. `any_case`: the file system ignores case."""
        if self.kind != "command" or not command.words:
            return False
        patterns, further, _ = self._parsed
        flags = re.DOTALL | (re.IGNORECASE if any_case else 0)
        patterns = tuple(re.compile(word.pattern, flags) for word in patterns)

        def may_be(words: tuple[Word, ...]) -> bool:
            for pattern, word in zip(patterns, words, strict=False):
                if not word.literal:
                    return True
                if not pattern.fullmatch(word.text):
                    return False
            return len(words) == len(patterns) or (further and len(words) > len(patterns))

        return any(map(may_be, _variants(command.words, any_case=any_case)))


def rules(patterns: Iterable[str]) -> tuple[Rule, ...]:
    """Parse rules. Raises UsageError for an invalid one."""
    parsed = tuple(map(Rule, patterns))
    for rule in parsed:
        if rule.kind == "command" and not _split(rule.pattern):
            raise UsageError(f"run.allow or run.deny: {rule.pattern!r} is not a command pattern")
    return parsed


def sets_harmlessly(command: Simple) -> bool:
    """Whether a command only sets shell variables that programs do not read."""
    if command.words or not command.assignments or command.writes:
        return False
    return all(_LOCAL.fullmatch(name) for name, _ in command.assignments)


def _variants(words: tuple[Word, ...], *, any_case: bool) -> Iterator[tuple[Word, ...]]:
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
    after_blank = True
    for token in _TOKEN.finditer(pattern):
        kind, text = token.lastgroup, token[token.lastgroup or 0]
        if kind != "blank":
            if kind == "char" and text in "'\"":
                raise UsageError(f"run.allow or run.deny: unclosed quote in {pattern!r}")
            if kind == "double":
                text = re.sub(r'\\(["\\$`])', r"\1", text)
            part = ".*" if kind == "char" and text == "*" else re.escape(text)
            if after_blank:
                words.append("")
            words[-1] += part
        after_blank = kind == "blank"
    return words


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
    test runner, `sudo`, `xargs`), deletes data or uses the network, and any unknown program, gets a pattern of exactly
    this command.
    """
    commands = [c for c in reading.commands if c.role == "runs" and not sets_harmlessly(c)]
    patterns = tuple(dict.fromkeys(map(_pattern_of, commands)))
    return () if reading.doubt or "" in patterns else patterns


def _pattern_of(command: Simple) -> str:
    """The pattern of one command, "" if it would also match something else."""
    words = command.words
    # a rule is saved and shown as one line
    if not words or any(word.text.splitlines() not in ([], [word.text]) for word in words):
        return ""
    variables = [(name, value) for name, value in command.assignments if name not in HARMLESS]
    if not variables and command.name in _PLAIN_PROGRAMS:
        return f"{command.name} *"
    if not variables and command.name == "git" and words[1:] and words[1].literal and words[1].text in _GIT:
        return f"git {words[1].text} *"
    if not all(word.literal for word in (*words, *(value for _, value in command.assignments))):
        return ""
    return " ".join(
        [*(f"{name}={quote(value.text)}" for name, value in variables), *(quote(w.text) for w in words)]
    )
