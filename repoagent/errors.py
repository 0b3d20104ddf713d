"""The exceptions and exit codes: every error that a user can cause is a `RepoagentError`; any other exception is a bug.

A message is one clear sentence on what is wrong and what to do next, without secrets. `install_extra` and
`install_package` give the command for a missing dependency.
"""

from __future__ import annotations

import sys
from enum import IntEnum
from pathlib import Path
from typing import ClassVar


class Exit(IntEnum):
    """The exit codes; see `repoagent --help`."""

    DONE = 0
    NOTHING = 1
    USAGE = 2
    REFUSED = 3
    NO_MODEL = 4
    LIMIT = 5
    CHECK_FAILED = 6
    BUSY = 7
    INTERNAL = 70
    INTERRUPTED = 130


class RepoagentError(Exception):
    """The base class of all expected failures."""

    exit_code: ClassVar[Exit] = Exit.REFUSED
    words: str = ""  # the model's last reply in the run that this error ended
    messages: tuple[str, ...] = ()  # the model's earlier messages to the user

    @property
    def sentence(self) -> str:
        """The message for the user; subclasses whose text is for a model override it."""
        return str(self)

    def details(self) -> dict[str, object]:
        """Details for a program, as JSON data."""
        return {}

    def last_messages(self) -> dict[str, object]:
        """The model's messages in the run that this error ended, as JSON data."""
        texts = {"words": self.words, "messages": list(self.messages)}
        return {name: value for name, value in texts.items() if value}


class NothingDone(RepoagentError):
    """No change was needed, or the user or the model declined."""

    exit_code = Exit.NOTHING


class UsageError(RepoagentError):
    """The command line, a configuration value or a named file is wrong."""

    exit_code = Exit.USAGE


class Refused(RepoagentError):
    """The edit does not apply, cannot be separated from other changes, or is not allowed."""

    exit_code = Exit.REFUSED


class ModelError(RepoagentError):
    """No model is configured, or the model is unreachable or sent an unusable reply."""

    exit_code = Exit.NO_MODEL


class LimitReached(RepoagentError):
    """A limit on cost, tokens, turns or time was reached."""

    exit_code = Exit.LIMIT


class CheckFailed(RepoagentError):
    """A check or a git hook failed; nothing was changed.

    `printed` is its output, unless the message already contains it. `shown` is true if the user has seen the end of
    that output.
    """

    exit_code = Exit.CHECK_FAILED
    printed: str = ""
    shown: bool = False

    def __init__(self, sentence: str, printed: str = "") -> None:
        super().__init__(sentence)
        self.printed = printed

    def details(self) -> dict[str, object]:
        return {"printed": self.printed} if self.printed else {}


class Busy(RepoagentError):
    """Another process holds a lock, which the message names."""

    exit_code = Exit.BUSY


PACKAGE = "git-repoagent"


def install_extra(extra: str) -> str:
    """The command that installs one of repoagent's extras: `pip install 'git-repoagent[local]'`."""
    requirement = f"'{PACKAGE}[{extra}]'"
    if Path(sys.prefix, "uv-receipt.toml").is_file():
        return f"uv tool install {requirement}"
    return install_package(requirement)


def install_package(requirement: str) -> str:
    """The command, quoted for a shell, that installs `requirement` into repoagent's environment."""
    if Path(sys.prefix, "uv-receipt.toml").is_file():
        return f"uv tool install {PACKAGE} --with {requirement}"
    if Path(sys.prefix, "pipx_metadata.json").is_file():
        return f"pipx inject {PACKAGE} {requirement}"
    return f"pip install {requirement}"
