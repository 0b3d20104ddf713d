"""What a check says."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

from repoagent.dataclass import dataclass
from repoagent.errors import RepoagentError

Level = Literal["ok", "warning", "error"]


@dataclass(frozen=True)
class Check:
    """`name` is what was looked at, in a word or two, `found` how it is, `advice` what to do where it is not ok."""

    name: str
    level: Level
    found: str
    advice: str = ""


def ok(name: str, found: str) -> Check:
    return Check(name, "ok", found)


def warning(name: str, found: str, advice: str) -> Check:
    return Check(name, "warning", found, advice)


def error(name: str, found: str, advice: str) -> Check:
    return Check(name, "error", found, advice)


def give(path: Path | str) -> str:
    """What to do about a file or folder that this user may not use."""
    return f"chown it to you, or chmod u+rwX {path}"


def guarded(name: str, look: Callable[[], Iterable[Check]]) -> list[Check]:
    """The checks of `look`; where it can't finish, what it says instead is an error of its own."""
    found: list[Check] = []
    try:
        found.extend(look())
    except RepoagentError as problem:
        found.append(error(name, *halves(str(problem))))
    except OSError as problem:
        where = f" ({problem.filename})" if problem.filename else ""
        denied = isinstance(problem, PermissionError) and where
        advice = give(problem.filename) if denied else "put that right and look again"
        found.append(error(name, f"{problem.strerror or problem}{where}", advice))
    return found


def halves(sentence: str) -> tuple[str, str]:
    """What is wrong and what to do, of a sentence of ours, which says both with a colon or a semicolon between."""
    first = sentence.strip().splitlines()[0]
    for mark in ("; ", ": "):
        wrong, found, todo = first.rpartition(mark)
        if found and not todo[:1].isupper():  # what somebody else said, such as a parser
            return wrong, todo
    return first, "put that right and look again"
