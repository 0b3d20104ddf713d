"""The environment of a command: without a terminal, so nothing may open a pager or an editor and wait in it."""

from __future__ import annotations

from collections.abc import Mapping

from repoagent.store.secrets import secrets_of

COLUMNS, LINES = 100, 40

# A pipe and not a terminal of its own: with one, programs draw progress bars, ask, page and wait. The size is said by
# the two variables that programs look at, which is what makes tables and reports come out readable.
_SET = {
    "COLUMNS": str(COLUMNS),
    "LINES": str(LINES),
    "TERM": "dumb",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "MANPAGER": "cat",
    "GIT_PAGER": "cat",
    "SYSTEMD_PAGER": "",
    "EDITOR": "false",
    "VISUAL": "false",
    "GIT_EDITOR": "false",
    "GIT_SEQUENCE_EDITOR": "false",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",  # `git status` does not write the index
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
    "PYTHONUNBUFFERED": "1",  # so that output and errors come in order, and before a time-out
}
# What would run a program or read a file that nobody named.
_DROPPED = {
    "BASH_ENV",
    "ENV",
    "CDPATH",
    "PROMPT_COMMAND",
    "PS4",
    "SHELLOPTS",
    "BASHOPTS",
    "GREP_OPTIONS",
    "LESSOPEN",
}
_DROPPED |= {
    "RIPGREP_CONFIG_PATH",
    "GIT_EXTERNAL_DIFF",
    "GIT_PAGER_IN_USE",
    "SSH_ASKPASS",
    "GIT_ASKPASS",
    "LESSCLOSE",
}


def environment(base: Mapping[str, str]) -> dict[str, str]:
    """`base` without keys and what acts on a shell by itself, and with what keeps programs from waiting for a person.

    CI is not set: programs should behave as they do for the person. Folders of PATH that are relative are left out.
    """
    dropped = _DROPPED | set(secrets_of(base))
    env = {
        name: value
        for name, value in base.items()
        if name not in dropped and not name.startswith("BASH_FUNC_")
    }
    env |= _SET
    if "PATH" in env:
        env["PATH"] = ":".join(folder for folder in env["PATH"].split(":") if folder.startswith("/"))
    return env
