"""Words and simple commands in shell text, and the commands that a command runs (`timeout`, `sudo`, `sh -c`, ...)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Literal, NamedTuple

from repoagent.dataclass import dataclass

Kind = Literal["literal", "glob", "open"]
Role = Literal["runs", "wraps", "inside"]

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[[^]]*\])?\+?=")


class Word(NamedTuple):
    """One word. `text` is what is known about its value, without quotes.

    kind: "literal" if a program gets exactly `text`; "glob" if it is replaced by file names; "open" if it depends on a
    variable or the output of a command.
    """

    raw: str
    text: str
    kind: Kind = "literal"

    @property
    def literal(self) -> bool:
        return self.kind == "literal"


@dataclass(frozen=True)
class SimpleCommand:
    """One simple command.

    assignments: the variables set before the command word; some commands have nothing else.
    writes, reads: the targets of redirections.
    role: "runs" for an ordinary command; "wraps" for a command that only runs another (`timeout 5 make`); "inside" for
        a command run by another that itself needs approval (`sudo`).
    """

    words: tuple[Word, ...]
    assignments: tuple[tuple[str, Word], ...] = ()
    writes: tuple[Word, ...] = ()
    reads: tuple[Word, ...] = ()
    role: Role = "runs"

    @property
    def name(self) -> str:
        """The program as written; "" if there is none or it is not literal."""
        return self.words[0].text if self.words and self.words[0].literal else ""

    @property
    def texts(self) -> list[str]:
        """The arguments, without the program."""
        return [word.text for word in self.words[1:]]

    @property
    def raw(self) -> str:
        return " ".join(
            [*(f"{name}={value.raw}" for name, value in self.assignments), *(w.raw for w in self.words)]
        )


@dataclass(frozen=True)
class ParsedCommand:
    """The simple commands of `text`. `doubt`: why the result is uncertain, "" if it is certain; if it is uncertain,
    `commands` may be incomplete."""

    text: str
    commands: tuple[SimpleCommand, ...] = ()
    doubt: str = ""


def parse_simple_command(
    source: Sequence[str], redirections: Sequence[tuple[str, str]] = ()
) -> SimpleCommand:
    """Parse a simple command from its words and redirections, as written in the source."""
    words = list(map(parse_word, source))
    assignments: list[tuple[str, Word]] = []
    while words and (match := _ASSIGNMENT.match(words[0].raw)):
        assignments.append((match[1] + (match[2] or ""), parse_word(words.pop(0).raw[match.end() :])))
    writes: list[Word] = []
    reads: list[Word] = []
    for operator, target in redirections:
        if operator not in {">&", "<&"} or not re.fullmatch(r"\d+-?|-", target):  # a file, not a descriptor
            (reads if operator in {"<", "<&"} else writes).append(parse_word(target))
    return SimpleCommand(tuple(words), tuple(assignments), tuple(writes), tuple(reads))


def parse_word(raw: str) -> Word:
    """Parse one word with its quotes, as bash does."""
    text: list[str] = []
    kind: Kind = "open" if raw.startswith("~") else "literal"
    at, quoted = 0, False
    while at < len(raw):
        char, rest = raw[at], raw[at + 1 :]
        at += 1
        if char == "'" and not quoted:
            text.append(rest.partition("'")[0])
            at += len(text[-1]) + 1
        elif char == '"':
            quoted = not quoted
        elif char == "\\" and rest:
            text += ["\\"] if quoted and rest[0] not in '$`"\\\n' else []
            text += rest[0].strip("\n")
            at += 1
        else:
            if (
                (char == "$" and rest and not (quoted and rest.startswith('"')))
                or (char == "{" and not quoted and ("," in rest or ".." in rest))
                or char == "`"
                or (char in "<>(" and not quoted)
            ):
                kind = "open"
            elif char in "*?[" and not quoted and kind == "literal" and raw != "[":
                kind = "glob"
            text.append(char)
    return Word(raw, "".join(text), kind)


SHELLS = {"bash", "sh", "dash", "zsh", "ksh", "mksh", "ash", "busybox", "fish"}
# Builtins that run a text, or change the meaning of the rest.
CHANGES_SHELL = {
    "alias", "unalias", "shopt", "set", "enable", "hash", "trap", "source", ".", "bind", "complete",
    "fc", "compgen", "compopt", "mapfile", "readarray", "read", "let", "declare", "typeset", "local",
    "unset", "history", "export", "readonly", "getopts", "logout", "pushd", "popd", "dirs", "coproc",
}  # fmt: skip

# Programs that run their arguments: the options that take a value in the next word, the number of words between the
# options and the command, and the role of the program: one that changes rights or environment must be allowed itself.
_RUNNERS: Mapping[str, tuple[str, int, Role]] = {
    "timeout": (r"-[ks]|--signal|--kill-after", 1, "wraps"),
    "nice": (r"-n|--adjustment", 0, "wraps"),
    "ionice": (r"-[cnp]|--class|--classdata", 0, "wraps"),
    "nohup": (r"(?!)", 0, "wraps"),
    "setsid": (r"(?!)", 0, "wraps"),
    "time": (r"-[fo]|--format|--output", 0, "wraps"),
    "stdbuf": (r"-[ioe]|--input|--output|--error", 0, "wraps"),
    "command": (r"(?!)", 0, "wraps"),
    "builtin": (r"(?!)", 0, "wraps"),
    "env": (r"-u|--unset", 0, "wraps"),
    "xargs": (r"-[EIJLnPRSsda]|--(?:max-(?:args|lines|procs|chars)|delimiter|arg-file|replace)", 0, "wraps"),
    "sudo": (r"-[ugphCcDRrtTU]|--(?:user|group|prompt|host|chdir|chroot|role|type|other-user)", 0, "runs"),
    "doas": (r"-[uC]", 0, "runs"),
    "chroot": (r"(?!)", 1, "runs"),
    "unshare": (r"(?!)", 0, "runs"),
    "flock": (r"-[wE]|--(?:wait|timeout|conflict-exit-code)", 1, "runs"),
    "watch": (r"-n|--interval", 0, "runs"),
    "strace": (r"-[eopsuEPSaIbX]", 0, "runs"),
    "exec": (r"-a", 0, "runs"),
    "npx": (r"-p|--package", 0, "runs"),
    "poetry run": (r"(?!)", 0, "runs"),
    "uv run": (r"--(?:with|python|extra|group|package|project|directory)|-p", 0, "runs"),
    "bundle exec": (r"(?!)", 0, "runs"),
}


class Unwrapped(NamedTuple):
    """The commands and the shell text that one command runs. `outer` is the command itself, with its role."""

    outer: SimpleCommand
    commands: tuple[SimpleCommand, ...] = ()
    text: str = ""
    doubt: str = ""


def unwrap_command(command: SimpleCommand) -> Unwrapped:
    """The commands that `command` runs, as far as its words show."""
    name = command.name.rpartition("/")[2]
    two = " ".join(word.text for word in command.words[:2])

    def doubt(reason: str) -> Unwrapped:
        return Unwrapped(command, doubt=reason)

    if name in SHELLS:  # `bash -c TEXT` runs only the text; scripts and standard input cannot be read here
        words = command.words
        known = all(word.literal for word in words[:3]) and "/" not in command.name
        if known and len(words) > 2 and re.fullmatch(r"-[eux]*c", words[1].text):
            return Unwrapped(replace(command, role="wraps"), text=words[2].text)
        if not known or any("c" in text for text in command.texts if re.match(r"-[A-Za-z]+$", text)):
            return doubt("cannot tell what the shell runs")
        return Unwrapped(command)
    if name == "eval":
        if all(word.literal for word in command.words):
            return Unwrapped(replace(command, role="wraps"), text=" ".join(command.texts))
        return doubt("cannot tell what `eval` runs")
    if name == "find":  # each `-exec`; the command itself must be allowed, too
        commands: list[SimpleCommand] = []
        arguments: list[Word] | None = None
        for word in [*command.words, Word(";", ";")]:
            if arguments is None:
                arguments = [] if re.fullmatch(r"-(exec|ok)(dir)?", word.text) else None
            elif word.text in {";", "+"}:
                commands += [SimpleCommand(tuple(arguments))] if arguments else []
                arguments = None
            else:
                arguments.append(word._replace(kind="open") if "{}" in word.text else word)
        unsure = bool(commands) and any(word.kind == "open" for word in command.words)
        return Unwrapped(command, tuple(commands), doubt="cannot tell what `find` does" if unsure else "")
    if name in CHANGES_SHELL or (name == "exec" and len(command.words) == 1):
        return doubt(f"`{name}` may change the meaning of later commands")
    options = command.words[1:2] if name == "printf" else command.words[1:] if name in {"test", "["} else ()
    if any(word.text == "-v" or not word.literal for word in options):
        return doubt(f"cannot tell what `{name}` does")
    if name in {"parallel", "script", "expect", "jobs"} or (name == "git" and "-c" in two):
        return doubt(f"cannot tell what `{two}` runs")
    for key, start in ((name, 1), (two, 2)):
        if key in _RUNNERS and not (_RUNNERS[key][2] == "wraps" and "/" in command.name):
            return _after_options(command, start, *_RUNNERS[key])
    for at, pair in enumerate(pairwise(command.texts), start=1):
        if name == "git" and pair == ("bisect", "run"):  # git's own options may come first
            return _after_options(command, at + 2, r"(?!)", 0, "runs")
    return Unwrapped(command)


def _after_options(command: SimpleCommand, at: int, valued: str, skip: int, role: Role) -> Unwrapped:
    """The command after the options of another one."""
    words, name = command.words, command.name.rpartition("/")[2]
    assignments = list(command.assignments)
    for number in range(at, len(words)):
        if number < at:  # the value of an option
            continue
        text, doubt = words[number].text, ""
        if not words[number].literal or (name == "env" and re.match(r"-S|--split|-[A-Za-z]*S|-C|--ch", text)):
            doubt = f"it is unclear what `{name}` runs"
        elif text == "--":
            at = number + 1
            break
        elif name in {"env", "sudo"} and "=" in text and not text.startswith("-"):
            if match := re.match(r"([A-Za-z_]\w*)=", text):
                assignments.append((match[1], words[number]._replace(text=text[match.end() :])))
            else:
                doubt = f"it is unclear what `{name}` sets"
        elif name == "command" and re.match(r"-[vV]", text):
            return Unwrapped(command)
        elif name == "time" and re.match(r"-[ao]|--(o|a)", text):
            doubt = "`time` writes a file"
        elif name == "time" and text == "!":  # bash runs the command after it, the program `time` runs `!`
            doubt = "it is unclear what `time !` runs"
        elif not text.startswith("-") or text == "-":
            break
        if doubt:
            return Unwrapped(command, doubt=doubt)
        at = number + (2 if re.fullmatch(valued, text) else 1)
    rest = words[at + skip :]
    if not rest:
        return Unwrapped(command)
    if name == "xargs":
        rest = (*rest, Word("{}", "{}", "open"))
    inner: Role = "inside" if role == "runs" else command.role
    wrapped = replace(command, words=rest, assignments=tuple(assignments), writes=(), reads=(), role=inner)
    return Unwrapped(replace(command, role="wraps") if role == "wraps" else command, (wrapped,))
