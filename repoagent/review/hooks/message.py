"""The message of a commit as commit-msg gets it: what will be of it, and whether its trailers can be understood."""

from __future__ import annotations

import re
from pathlib import Path

from repoagent.errors import UsageError
from repoagent.review.dismiss import ALL, ignored
from repoagent.review.rules import RULES

_SCISSORS = re.compile(r"(?m)^\S+ -{8,} >8 -{8,}$")
_IGNORE = re.compile(r"(?im)^Review-Ignore\b.*$")


def read_message(path: Path) -> str:
    """The text in the file, without what git cuts off: comments, and the diff of `git commit -v`. UsageError where
    there is no such file."""
    try:
        text = path.read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise UsageError(f"the message of the commit can't be read from {path}: {error.strerror}") from error
    if match := _SCISSORS.search(text):
        text = text[: match.start()]
    return "".join(f"{line}\n" for line in text.splitlines() if not line.startswith("#"))


def unknown_trailers(message: str) -> list[str]:
    """A sentence for each Review-Ignore trailer that has no effect: it names no rule that there is, or none at all."""
    told = []
    for line in _IGNORE.findall(message):
        rules = [name.strip().lower() for rule, _ in ignored(line) for name in rule.split(",")]
        wrong = [name for name in rules if name not in RULES and name != ALL]
        if not rules or wrong:
            what = f"no rule {wrong[0]!r}" if wrong else "no rule in it"
            told.append(f"{line.strip()}: there is {what}; there are: {', '.join(RULES)}")
    return told
