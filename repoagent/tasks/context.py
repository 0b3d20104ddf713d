"""The request, user interface and shared state of one run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Protocol

from repoagent.agent.approvals.policy import Asked, Gate, Mode, Verdict
from repoagent.agent.state import EDIT, State, Tool, open_state
from repoagent.config.settings import Settings
from repoagent.dataclass import dataclass
from repoagent.edit.model_setup import ModelSetup
from repoagent.edit.request import Draft
from repoagent.edit.tools import ToolContext
from repoagent.edit.ui import NonInteractive, UserInterface
from repoagent.errors import Refused
from repoagent.git.files import blob_hash, check_path
from repoagent.git.transaction.results import Options
from repoagent.git.worktree import WorkTree
from repoagent.llm.conversation import Turn
from repoagent.llm.usage import Limits
from repoagent.storage.layout import Layout
from repoagent.tasks.changes.change_set import ChangeSet
from repoagent.tasks.refused_edit import RefusedEdit
from repoagent.tasks.runs.directory import RunDirectory

if TYPE_CHECKING:
    from repoagent.agent.loop import LoopEvent


@dataclass(frozen=True)
class RunRequest:
    """Everything that decides what one run does.

    prompt: the person's words; "" only where a run that was interrupted is gone on with.
    name: of the conversation and the run's folder.
    kind: "run" or "chat", or the kind of a child ("explore", …); parent: the run it is a child of, "" for none.
    mode: what may be done without a question.
    plan_only: look around and lay down a plan; nothing is changed.
    commit: how the commit is made; commit_per_edit: one for each edit, instead of one at the end.
    check: a command that has to succeed before the run may finish.
    tools: the names of the tools that may be used; None is all of them. instructions: of a kind, for the prompt.
    allow: command patterns that are allowed in this run, beside those of the configuration.
    network, confine: commands may reach the network; they run in a sandbox, where there is one.
    said: the options that the person has said, by name; `run.json` keeps them for when the run is gone on with.
    allow_sensitive: files that make git, or a server, run something may be changed without a question of their own.
    agent: "model", or a name of the entry-point group `repoagent.agents`.
    worktree, branch: where it works and on which branch, when a linked work tree was made for it; "" otherwise.
    """

    prompt: str
    name: str
    kind: str = "run"
    parent: str = ""
    mode: Mode = "ask"
    plan_only: bool = False
    commit: Options = field(default_factory=Options)
    commit_per_edit: bool = False
    check: str | None = None
    tools: frozenset[str] | None = None
    instructions: str = ""
    allow: tuple[str, ...] = ()
    network: bool = False
    confine: bool = True
    allow_sensitive: bool = False
    agent: str = "model"
    worktree: str = ""
    branch: str = ""
    said: Mapping[str, object] = field(default_factory=dict)


def run_limits(settings: Settings) -> Limits:
    """The limits of a run that the configuration sets."""
    return Limits(
        settings.whole("run.max_turns"),
        settings.whole_or_none("max_tokens"),
        settings.number_or_none("max_cost"),
        settings.number_or_none("max_cost_per_day"),
        settings.number_or_none("run.max_time"),
    )


class RunInterface(UserInterface, Protocol):
    """Who a run talks to: a person at a terminal, a program that reads events, or nobody."""

    def approve(self, asked: Asked) -> Verdict:
        """Ask whether something may be done."""
        ...

    def progress(self, what: str, data: dict[str, object]) -> None:
        """Something that a program may want to know as it happens: a turn ended, a checkpoint, a child, a commit."""
        ...


# What an earlier version wrote over a file that it showed; a text that imitates it only has a file read once more.
_SHOWN = re.compile(r'<file path="((?:[^"\\\n]|\\.)*)" blob="([0-9a-f]{40,64})"')


@dataclass
class RunContext:
    """The table of one run. `shown` are the files that the model has seen, with the blob it last saw of each;
    `commits` the ids of those that were made, `tools` what the loop is given."""

    worktree: WorkTree
    layout: Layout
    settings: Settings
    request: RunRequest
    model_setup: ModelSetup
    ui: RunInterface
    run_dir: RunDirectory
    change_set: ChangeSet
    bench: ToolContext
    gate: Gate
    shown: dict[str, str] = field(default_factory=dict)
    noted: set[str] = field(default_factory=set)  # files whose notes were shown
    commits: list[str] = field(default_factory=list)
    # Files of which the person has seen a change, and agreed, with what they held then; None for one that went.
    agreed: dict[str, bytes | None] = field(default_factory=dict)
    deletions: set[str] = field(default_factory=set)  # files that the person agreed to delete
    # Whether the change has something that no person has seen and accepted: an edit that passed by the mode, or what an
    # earlier process of the run has changed.
    unseen: bool = False
    tools: tuple[Tool, ...] = ()
    branch: str | None = None  # the one it began on in this process
    refused: RefusedEdit = field(init=False)

    def __post_init__(self) -> None:
        self.refused = RefusedEdit(self.bench, self.change_set)

    @property
    def state(self) -> State:
        """The conversation so far, as its file has it."""
        return open_state(self.run_dir.conversation)

    def clear(self) -> None:
        """Forget what files held: each action sees them as they are now."""
        self.bench.draft = Draft({})
        self.bench.placements = []
        self.bench.editable = set()
        self.bench.not_ignored = frozenset()


def shown_in(state: State, written: Mapping[str, str] | None = None) -> dict[str, str]:
    """The files that a conversation shows, with the blob of each that was shown last; given what the run has `written`,
    of a file that it has edited since that blob, or none where it is not there any more."""
    found: dict[str, str] = {}
    reply = partial = ""  # the replies that an edit is from
    for turn in state.turns:
        if turn.role == "assistant":
            reply = partial + turn.text
        if turn.meta.get("kind") == EDIT:
            partial = reply if "partial" in turn.meta else ""
        edits = turn.meta.get("kind") == EDIT and turn.meta.get("ok") == "yes"
        if written is not None and turn.role == "observation" and edits:
            for path in [path for path in found if path in reply]:
                found.pop(path)
                found |= {path: written[path]} if path in written else {}
        elif turn.role == "observation":
            blobs = (*_SHOWN.findall(turn.text), *_blobs(turn).items())
            found |= {path: blob for path, blob in blobs if _is_path(path)}
    return found


def _blobs(turn: Turn) -> dict[str, str]:
    """The blob of each file that an observation shows; none where somebody has broken that record."""
    try:
        blobs = json.loads(turn.meta.get("shown", "{}"))
    except ValueError:
        return {}
    return {path: str(blob) for path, blob in blobs.items()} if isinstance(blobs, dict) else {}


def written_by(context: RunContext) -> dict[str, str]:
    """The blob of each file as the run has left it."""
    kind = context.worktree.object_format
    changes = [change for change in context.change_set.changes if change.path and change.after is not None]
    return {change.path: blob_hash(change.after, kind) for change in changes if change.path and change.after}


def _is_path(path: str) -> bool:
    try:
        check_path(path)
    except Refused:
        return False
    return "\\" not in path


NOBODY = "approval needs a user; the calling program must allow it"


def _nobody(asked: Asked) -> bool:
    return False


def _ignore(event: LoopEvent) -> None:
    pass


@dataclass
class NonInteractiveRun(NonInteractive):
    """As of an edit. `allow` is asked what a person would be: whether a command may run, and the like; `on_event` gets
    each action and observation."""

    allow: Callable[[Asked], bool] = _nobody
    on_event: Callable[[LoopEvent], None] = _ignore

    def approve(self, asked: Asked) -> Verdict:
        return (
            Verdict(True, by="program") if self.allow(asked) else Verdict(False, reason=NOBODY, by="nobody")
        )

    def event(self, event: LoopEvent) -> None:
        self.on_event(event)

    def progress(self, what: str, data: dict[str, object]) -> None:
        self.hear(f"{what}: {data}")
