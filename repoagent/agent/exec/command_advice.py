"""What the words of a command tell about it: whether it can work here, and what its exit code means.

A pipe fails if any part of it does, except a writer whose reader closed the pipe; an exit code of 1 from a search or
comparison is a result.
"""

from __future__ import annotations

import re

from repoagent.agent.approvals.read_only_commands import only_reads
from repoagent.agent.approvals.shell_parser import read_command
from repoagent.agent.approvals.shell_words import Reading, Simple

_EDITORS = "vi vim nvim nano pico joe micro helix hx kak gedit code mcedit view emacs"
_SCREENS = "top htop btop watch tmux screen mc tig lazygit ranger nmtui whiptail dialog"
_LOGINS = "ssh sftp ftp telnet su passwd login mosh"
_INTERACTIVE = {
    name: reason
    for names, reason in (
        (_EDITORS, "an editor needs a user. Change files with a patch."),
        (
            "less more most",
            "a pager needs a user. Leave it out: long output is shortened for you and saved in a file.",
        ),
        (
            _SCREENS,
            "it needs a full-screen terminal. Use a command that prints and exits (`ps`, a loop with `sleep`).",
        ),
        (_LOGINS, "it needs a user at a terminal."),
        ("sudo doas", "it would ask for a password. Do without, or use `sudo -n`."),
    )
    for name in names.split()
}
# Options with which they do not need a user.
_BATCH = {
    "emacs": r"--?batch",
    "top": r"-[a-z]*b[a-z]*\d*",
    "sudo": r"-[a-zA-Z]*n[a-zA-Z]*|--non-interactive",
    "doas": r"-[a-zA-Z]*n[a-zA-Z]*",
}
# Programs that read commands from standard input by default.
_REPLS = "python python3 ipython node irb ghci lua bc php perl ruby R julia erl iex scala jshell bash sh zsh dash deno"
_CLIENTS = {"psql", "mysql", "mariadb", "redis-cli", "mongosh"}
_ONE_SHOT = r"(-(c|f|e|l)|--(command|file|execute|eval|list)).*"
_HISTORY = """
commit push checkout switch merge rebase cherry-pick revert am pull add rm mv update-ref filter-branch gc prune fetch
restore reset stash notes replace
"""


def unfit(reading: Reading, *, git_is_read_only: bool) -> str:
    """Why a command of `reading` cannot work here, and what to do instead; else "". git_is_read_only: the sandbox
    protects `.git`."""
    for command in reading.commands:  # git may write in another folder
        if command.name in {"cd", "pushd"}:
            git_is_read_only = False
        if command.name == "git" and _verb(command.texts)[0] in {"init", "clone", "-C"}:
            git_is_read_only = False
    for command in reading.commands:
        name, words = command.name.rpartition("/")[2], command.texts
        if {"--version", "--help", "-V", "-h"}.intersection(words):
            continue
        reason = _INTERACTIVE.get(name, "")
        if name in _BATCH and _any(words, _BATCH[name]):
            reason = ""
        elif name == "git":
            reason = _git(words, git_is_read_only=git_is_read_only)
        elif not command.fed and _waits(name, [word for word in words if word != "-"]):
            reason = "it waits for input. Give it a script, or pass its input as a here-document (<<'EOF')."
        if reason:
            return f"`{command.raw}` was not run: {reason}"
    return ""


def _waits(name: str, words: list[str]) -> bool:
    """Whether a program without input waits for commands."""
    if name in _CLIENTS:
        return not _any(words, _ONE_SHOT) and (name != "redis-cli" or not words)
    if name == "sqlite3":
        return len([word for word in words if not word.startswith("-")]) < 2
    return name in _REPLS.split() and all(re.fullmatch(r"-[iqs]", word) for word in words)


def _git(words: list[str], *, git_is_read_only: bool) -> str:
    verb, rest = _verb(words)
    opens = _any(rest, r"-i|--interactive|-p|--patch|-e|--edit")
    if verb in {"rebase", "add", "checkout", "reset", "stash", "restore", "commit", "clean"} and opens:
        return "it opens an editor or asks questions, and there is no user to answer."
    if (
        git_is_read_only
        and verb in _HISTORY.split()
        and not (verb == "stash" and rest[:1] in (["list"], ["show"]))
    ):
        return (
            "commands cannot change what git stores. Edit the files: repoagent commits at the end. To see "
            "an older version, use `git show COMMIT:FILE`."
        )
    message = r"-[a-zA-Z]*[mFC].*|--(message|file|reuse-message|no-edit|fixup|squash|template).*"
    if verb == "commit" and not _any(rest, message):
        return "it opens an editor for the message; use `git commit -m`."
    return ""


def _verb(words: list[str]) -> tuple[str, list[str]]:
    """The subcommand of git and the words after it; the first option if it is not known, such as -C."""
    while words and words[0] in {"--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs"}:
        words = words[1:]
    while len(words) > 2 and words[0] == "-c":
        words = words[2:]
    return (words[0], words[1:]) if words else ("", [])


def _any(words: list[str], pattern: str) -> bool:
    return any(re.fullmatch(pattern, word) for word in words)


_OPTIONS_OF_GREP = r"-[a-zA-Z]*[qmlL].*|--(quiet|silent|max-count|files-with(out)?-match(es)?)(=.*)?"
_QUITS = r"(.*[^a-zA-Z\\])?[qQ]\s*\d*\s*([;}].*)?"  # a script of sed
_FLOW = re.compile(r"&&|\|\||\b(if|while|until)\b|(^|[\s;(])!\s|\bset\s+-\w*e", re.MULTILINE)
_BROKEN = re.compile(r"broken ?pipe|\bEPIPE\b|pipe to stdout was broken", re.IGNORECASE)
_GREPS = {"grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack"}


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
    if name in _GREPS:
        closes = _any(words, _OPTIONS_OF_GREP)
    elif name == "sed":
        closes = _any(words, _QUITS)
    else:
        closes = name in {"head", "read"} or (name == "awk" and any("exit" in word for word in words))
    return command.fed and closes


def unmatched(text: str, exit_code: int | None, output: str) -> str:
    """The meaning of the exit code of the command `text` if it is not a failure ("no match"). "" if it may be a
    failure: if a command in it does more than read, or reports an error in `output`."""
    reading = read_command(text)
    commands = [(command, _meaning(command)) for command in reading.commands if command.words]
    with_xargs = any(command.name == "xargs" for command, _ in commands)
    if reading.doubt or exit_code != (123 if with_xargs else 1):  # xargs reports 123 for an exit code of 1
        return ""
    for command, meaning in commands:
        if not meaning and not (only_reads(command) or command.name == "xargs"):
            return ""
        if not meaning and any(f"{command.name}: " in line for line in output.splitlines()):
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
