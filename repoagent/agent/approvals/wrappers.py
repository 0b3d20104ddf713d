"""Which commands a command runs: `timeout`, `env`, `sudo`, `sh -c`, `find -exec` and the like."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from repoagent.agent.approvals.shell_words import Role, Simple, Word

SHELLS = {"bash", "sh", "dash", "zsh", "ksh", "mksh", "ash", "busybox", "fish"}
# Builtins that run a text, or change the meaning of the rest.
CHANGES_SHELL = {
    "alias", "unalias", "shopt", "set", "enable", "hash", "trap", "source", ".", "bind", "complete",
    "fc", "compgen", "compopt", "mapfile", "readarray", "read", "let", "declare", "typeset", "local",
    "unset", "history", "exec", "export", "readonly", "getopts", "logout", "pushd", "popd", "dirs",
    "coproc",
}  # fmt: skip

# Programs that run their arguments: the options that take a value in the next word, and the number of words between the
# options and the command.
_TRANSPARENT: Mapping[str, tuple[str, int]] = {
    "timeout": (r"-[ks]|--signal|--kill-after", 1),
    "nice": (r"-n|--adjustment", 0),
    "ionice": (r"-[cnp]|--class|--classdata", 0),
    "nohup": (r"(?!)", 0),
    "setsid": (r"(?!)", 0),
    "time": (r"-[fo]|--format|--output", 0),
    "stdbuf": (r"-[ioe]|--input|--output|--error", 0),
    "command": (r"(?!)", 0),
    "builtin": (r"(?!)", 0),
    "env": (r"-u|--unset", 0),
    "xargs": (r"-[EIJLnPRSsda]|--(?:max-(?:args|lines|procs|chars)|delimiter|arg-file|replace)", 0),
}
# The same for those that change the rights or environment of the command: they must be allowed themselves.
_APART: Mapping[str, tuple[str, int]] = {
    "sudo": (r"-[ugphCcDRrtTU]|--(?:user|group|prompt|host|chdir|chroot|role|type|other-user)", 0),
    "doas": (r"-[uC]", 0),
    "chroot": (r"(?!)", 1),
    "unshare": (r"(?!)", 0),
    "flock": (r"-[wE]|--(?:wait|timeout|conflict-exit-code)", 1),
    "watch": (r"-n|--interval", 0),
    "strace": (r"-[eopsuEPSaIbX]", 0),
    "exec": (r"-a", 0),
    "npx": (r"-p|--package", 0),
    "poetry run": (r"(?!)", 0),
    "uv run": (r"--(?:with|python|extra|group|package|project|directory)|-p", 0),
    "bundle exec": (r"(?!)", 0),
    "bisect run": (r"(?!)", 0),
}


class Wrapped(NamedTuple):
    """The commands and shell texts that one command runs. `outer` is the command itself, with its role."""

    outer: Simple
    commands: tuple[Simple, ...] = ()
    texts: tuple[str, ...] = ()
    doubt: str = ""


def inner(command: Simple) -> Wrapped | None:
    """The commands that `command` runs; None if its words contain none."""
    name = command.name.rpartition("/")[2]
    plain = "/" not in command.name
    two = " ".join(word.text for word in command.words[:2])
    if name in SHELLS:
        return _shell(command)
    if name == "eval":
        if all(word.literal for word in command.words):
            return Wrapped(_wraps(command), (), (" ".join(word.text for word in command.words[1:]),))
        return Wrapped(command, doubt="it is not known what `eval` runs")
    if name == "find":
        return _find(command)
    if name in CHANGES_SHELL and name != "exec":
        return Wrapped(command, doubt=f"`{name}` changes the meaning of what follows")
    if name in {"printf", "test", "["} and any(
        word.text == "-v" or not word.literal for word in command.words[1 : 2 if name == "printf" else None]
    ):
        return Wrapped(command, doubt=f"it is not known what `{name}` does")
    if name in {"parallel", "script", "expect", "jobs"} or (name == "git" and "-c" in two):
        return Wrapped(command, doubt=f"it is not known what `{two}` runs")
    if name in _TRANSPARENT and plain:
        return _after_options(command, 1, *_TRANSPARENT[name], role="wraps")
    if name == "exec" and len(command.words) == 1:
        return Wrapped(command, doubt="`exec` changes the meaning of what follows")
    if name in _APART or two in _APART:
        words = 1 if name in _APART else 2
        return _after_options(command, words, *_APART[name if name in _APART else two], role="runs")
    return None


def _wraps(command: Simple) -> Simple:
    return replace(command, role="wraps")


def _after_options(command: Simple, start: int, valued: str, skip: int, role: Role) -> Wrapped:
    """The command after the options of another one."""
    words, at = command.words, start
    name = command.name.rpartition("/")[2]
    assignments = list(command.assignments)
    while at < len(words):
        text = words[at].text
        if not words[at].literal:
            return Wrapped(command, doubt=f"it is not known what `{name}` runs")
        if text == "--":
            at += 1
            break
        if name == "env" and re.match(r"-S|--split|-[A-Za-z]*S|-C|--ch", text):
            return Wrapped(command, doubt="it is not known what `env` runs")
        if name in {"env", "sudo"} and "=" in text and not text.startswith("-"):
            match = re.match(r"([A-Za-z_]\w*)=", text)
            if match is None:
                return Wrapped(command, doubt=f"it is not known what `{name}` sets")
            assignments.append((match[1], words[at]._replace(text=text[match.end() :])))
        elif name == "command" and re.match(r"-[vV]", text):
            return Wrapped(command)
        elif name == "time" and re.match(r"-[ao]|--(o|a)", text):
            return Wrapped(command, doubt="`time` writes a file")
        elif not text.startswith("-") or text == "-":
            break
        elif re.fullmatch(valued, text):
            at += 1
        at += 1
    rest = words[at + skip :]
    if not rest:
        return Wrapped(command)
    if name == "xargs":
        rest = (*rest, Word("{}", "{}", "open"))
    wrapped = replace(command, words=rest, assignments=tuple(assignments), writes=(), reads=())
    if role == "runs":
        return Wrapped(command, (replace(wrapped, role="inside"),))
    return Wrapped(_wraps(command), (wrapped,))


def _shell(command: Simple) -> Wrapped:
    """`bash -c TEXT` runs only the text; scripts and standard input cannot be read here."""
    words = command.words
    if not all(word.literal for word in words[:3]) or "/" in command.name:
        return Wrapped(command, doubt="it is not known what the shell runs")
    if len(words) > 2 and re.fullmatch(r"-[eux]*c", words[1].text):
        if not words[2].literal:
            return Wrapped(command, doubt="it is not known what the shell runs")
        return Wrapped(_wraps(command), (), (words[2].text,))
    if any("c" in word.text for word in words[1:] if re.match(r"-[A-Za-z]+$", word.text)):
        return Wrapped(command, doubt="it is not known what the shell runs")
    return Wrapped(command)


def _find(command: Simple) -> Wrapped | None:
    """Each `-exec` of `find`; the command itself must be allowed, too."""
    commands = []
    words = list(command.words)
    while (
        at := next((n for n, w in enumerate(words) if re.fullmatch(r"-(exec|ok)(dir)?", w.text)), -1)
    ) >= 0:
        rest = words[at + 1 :]
        end = next((n for n, w in enumerate(rest) if w.text in {";", "+"}), len(rest))
        arguments = tuple(w._replace(kind="open") if "{}" in w.text else w for w in rest[:end])
        if arguments:
            commands.append(Simple(arguments))
        words = rest[end + 1 :]
    doubt = "" if all(word.kind != "open" for word in command.words) else "it is not known what `find` does"
    return Wrapped(command, tuple(commands), (), doubt) if commands else None
