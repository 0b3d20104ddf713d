"""A tool is a value: its name, what the prompt says of it, and a function. The loop's own tools are here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from repoagent.agent.actions import Action, Observation
from repoagent.dataclass import dataclass

EDIT = "edit"  # the one kind that has no tag: it is what a reply's patches are

Needs = Literal["nothing", "writes", "all"]


@dataclass(frozen=True)
class Tool:
    """Something that a model can ask for.

    `text` is what the prompt says of it: the tag to write and what it does, in a line (of `edit`: how a
    patch is written); "" for a tag that is taken and not offered. `perform` returns failures that a model
    can act on as observations with `ok=False`; what it raises ends the run. `replay` says that the effect
    lives in this process only (`loop.replay` performs it again). `loose`, of `edit`: a code fence that
    names no file is an edit too. `needs` says which actions before it in the same reply must not have failed:
    "nothing" for what only looks, which is always performed; "writes" for what may write: it is skipped after a
    failed edit, not after a failed look-up or a command that ran and failed; "all" for what says that something
    is done.
    """

    name: str
    text: str
    perform: Callable[[Action], Observation]
    replay: bool = False
    loose: bool = False
    needs: Needs | Callable[[Action], Needs] = "writes"

    def needed_by(self, action: Action) -> Needs:
        """What `action`, of this tool, needs."""
        return self.needs(action) if callable(self.needs) else self.needs


def _think(action: Action) -> Observation:
    return Observation("think", "Noted.")


def _message(action: Action) -> Observation:
    return Observation("message", "The person has been shown this.")


def _end(action: Action) -> Observation:
    return Observation(action.kind, action.body.strip() or action.args.get("why", "").strip(), final=True)


OWN = (
    Tool("think", "", _think, needs="nothing"),
    Tool("message", "<message>words</message> tells the user while you go on.", _message, needs="nothing"),
    Tool("finish", "<finish>what was done</finish> ends the task.", _end, needs="all"),
    Tool("reject", "<reject>why</reject> ends it with nothing done.", _end, needs="all"),
)
QUIET = frozenset({"think", "message"})  # they ask for nothing that needs another turn
ENDS = frozenset({"finish", "reject"})
TAGGED = frozenset(
    {EDIT, *(tool.name for tool in OWN)}
)  # never native tools: they go with the text of a reply
