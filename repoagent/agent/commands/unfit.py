"""Commands that can't work here, told before they run: a reason is better than a program that waits."""

from __future__ import annotations

import re

from repoagent.agent.approval.shell import Reading, Simple

_EDITORS = {
    "vi",
    "vim",
    "nvim",
    "nano",
    "pico",
    "joe",
    "micro",
    "helix",
    "hx",
    "kak",
    "gedit",
    "code",
    "mcedit",
    "view",
}
_PAGERS = {"less", "more", "most"}
_SCREENS = {
    "top",
    "htop",
    "btop",
    "watch",
    "tmux",
    "screen",
    "mc",
    "tig",
    "lazygit",
    "ranger",
    "nmtui",
    "whiptail",
    "dialog",
}
_LOGINS = {"ssh", "sftp", "ftp", "telnet", "su", "passwd", "login", "mosh"}
# Programs that read commands from a person when they are given none.
_REPLS = {
    "python",
    "python3",
    "ipython",
    "node",
    "irb",
    "ghci",
    "lua",
    "bc",
    "psql",
    "mysql",
    "mariadb",
    "sqlite3",
    "php",
}
_REPLS |= {
    "perl",
    "ruby",
    "R",
    "julia",
    "erl",
    "iex",
    "scala",
    "jshell",
    "redis-cli",
    "mongosh",
    "bash",
    "sh",
    "zsh",
    "dash",
    "deno",
}
_HISTORY = {
    "commit",
    "push",
    "checkout",
    "switch",
    "merge",
    "rebase",
    "cherry-pick",
    "revert",
    "am",
    "pull",
    "add",
    "rm",
}
_HISTORY |= {
    "mv",
    "update-ref",
    "filter-branch",
    "gc",
    "prune",
    "fetch",
    "restore",
    "reset",
    "stash",
    "notes",
    "replace",
}


def unfit(reading: Reading, *, git_is_kept: bool) -> str:
    """Why a command of `reading` can't work here, and what to do instead; "" when nothing speaks against it.

    git_is_kept: commands can't write to `.git`.
    """
    elsewhere = any(
        command.name in {"cd", "pushd"}
        or (command.name == "git" and _verb(command)[0] in {"init", "clone", "-C"})
        for command in reading.commands
    )
    for command in reading.commands:
        name = command.name.rpartition("/")[2]
        if reason := _waits(name, command):
            return f"`{command.raw}` is not run: {reason}"
        if name == "git" and (reason := _git(command, git_is_kept=git_is_kept and not elsewhere)):
            return f"`{command.raw}` is not run: {reason}"
    return ""


def _waits(name: str, command: Simple) -> str:
    words = [word.text for word in command.words[1:]]
    asks_version = any(word in {"--version", "--help", "-V", "-h"} for word in words)
    if asks_version:
        return ""
    if name in _EDITORS or (name == "emacs" and not {"--batch", "-batch"} & set(words)):
        return "there is nobody to use an editor. Change files with a patch."
    if name in _PAGERS:
        return "there is nobody to turn the pages. Leave the pager out: long output is cut for you and kept in a file."
    if name == "top" and any(re.fullmatch(r"-[a-z]*b[a-z]*\d*", word) for word in words):
        return ""
    if name in _SCREENS:
        return "it fills a screen, and there is none. Use a command that prints and ends (`ps`, a loop with `sleep`)."
    if name in _LOGINS:
        return "it needs a person at a terminal."
    if name in {"sudo", "doas"} and not any(
        re.fullmatch(r"-[a-zA-Z]*n[a-zA-Z]*|--non-interactive", w) for w in words
    ):
        return "nobody can type a password. Do without, or use `sudo -n`."
    if name in _REPLS and not command.fed:
        options = [word for word in words if word != "-"]
        if name in {"psql", "mysql", "mariadb", "redis-cli", "mongosh"}:
            one_shot = any(re.match(r"-(c|f|e|l)|--(command|file|execute|eval|list)", word) for word in words)
            asks = not one_shot and (name != "redis-cli" or not options)
        elif name == "sqlite3":
            asks = len([word for word in options if not word.startswith("-")]) < 2
        else:
            asks = not options or all(re.fullmatch(r"-[iqs]", word) for word in options)
        if asks:
            return (
                "it waits for somebody to type. Give it a script, or its input in a here-document (<<'EOF')."
            )
    return ""


def _git(command: Simple, *, git_is_kept: bool) -> str:
    verb, rest = _verb(command)
    if {"--help", "-h"} & set(rest):
        return ""
    opens = any(re.fullmatch(r"-i|--interactive|-p|--patch|-e|--edit", word) for word in rest)
    if verb in {"rebase", "add", "checkout", "reset", "stash", "restore", "commit", "clean"} and opens:
        return "it opens an editor or asks, and there is nobody to answer."
    if git_is_kept and verb in _HISTORY and not (verb == "stash" and rest[:1] in (["list"], ["show"])):
        return (
            "commands here can't change what git holds. Edit the files: repoagent makes the commit itself at the end. "
            "To see an older version, use `git show COMMIT:FILE`."
        )
    says = re.compile(r"-[a-zA-Z]*[mFC].*|--(message|file|reuse-message|no-edit|fixup|squash|template).*")
    if verb == "commit" and not any(says.fullmatch(word) for word in rest):
        return "it opens an editor for the message: use `git commit -m`."
    return ""


def _verb(command: Simple) -> tuple[str, list[str]]:
    """What git is to do, and the words after it; of `git -C` and its like, the option."""
    words = [word.text for word in command.words[1:]]
    while words and words[0] in {"--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs"}:
        words = words[1:]
    while len(words) > 2 and words[0] == "-c":
        words = words[2:]
    return (words[0], words[1:]) if words else ("", [])
