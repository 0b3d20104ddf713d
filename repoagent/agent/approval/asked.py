"""A question of the program, and its answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

from repoagent.dataclass import dataclass

Mode = Literal["ask", "auto-edit", "auto", "read-only"]
MODES: tuple[Mode, ...] = get_args(Mode)
# What a command may touch: all that its sandbox lets it; not what no model is to see; nor write anything either.
May = Literal["all", "shown", "read"]


@dataclass(frozen=True)
class Asked:
    """What wants to be done.

    kind: "command", "edit", "write", "browse", "python", "tool" or "delegate"; of what a command has done already,
    "delete" or "sensitive". what: shown to the person: the command,
    the summary of a diff, the URL. patterns: the rules that "always" would add, one for each simple command; none when
    there is no "always". why: why it has to be asked. sandbox: in what it would run, "" for none. cwd: the folder
    below the top in which a command would run.
    """

    kind: str
    what: str
    patterns: tuple[str, ...] = ()
    why: str = ""
    sandbox: str = ""
    cwd: str = ""


@dataclass(frozen=True)
class Verdict:
    """Whether it may be done. always: its patterns hold for the rest of the run; keep: and in this repository from now
    on. reason: of a no, goes to the model. by: who or what decided, for the audit. may: less than "all" where no person
    has spoken, by an answer or a rule."""

    allowed: bool
    always: bool = False
    reason: str = ""
    by: str = ""
    may: May = "all"
    keep: bool = False


Asker = Callable[[Asked], Verdict]  # a person at a terminal, a stream of JSON, or nobody
