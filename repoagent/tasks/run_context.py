"""The request, user interface and shared state of one run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Literal, Protocol

from repoagent.agent.approvals.policy import ApprovalRequest, Gate, Mode, Verdict
from repoagent.agent.state import EDIT, State, Tool, open_state
from repoagent.config.settings import Settings
from repoagent.dataclass import dataclass
from repoagent.edit.draft import Draft, EditSession
from repoagent.edit.model_setup import ModelSetup
from repoagent.edit.request import EditRequest, Target
from repoagent.edit.ui import NonInteractive, UserInterface
from repoagent.errors import Refused, UsageError
from repoagent.git.files import FileChange
from repoagent.git.transaction.results import Options
from repoagent.git.worktree import WorkTree
from repoagent.llm.model import Usage
from repoagent.llm.usage import Limits
from repoagent.patch.paths import bad_path
from repoagent.patch.refusal import NOTHING_TO_DO
from repoagent.storage import json_files
from repoagent.storage.layout import Layout
from repoagent.tasks.changes.change_set import ChangeSet
from repoagent.tasks.runs.directory import RunDirectory

if TYPE_CHECKING:
    from repoagent.agent.loop import LoopEvent
    from repoagent.edit.checks import CheckResult


@dataclass(frozen=True)
class RunRequest:
    """The parameters of one run.

    prompt: the user's words; "" only to resume a run
    name: the name of the conversation and of the run's directory
    kind: "run" or "chat", or the type of a subagent ("explore", ...)
    parent: the run that started this subagent
    check: a command that must succeed before the run may finish
    tools: the names of the allowed tools, None for all
    instructions: those of the agent type, for the prompt
    allow: command patterns allowed in addition to the configuration
    always: the patterns of "always" answers, which the run adds to; the messages of a chat share them
    confine: whether commands run in a sandbox, if there is one
    allow_sensitive: whether files that git or a server executes may be changed without a separate question
    agent: "model", or a name in the entry-point group `repoagent.agents`
    worktree, branch: those of the linked work tree that was created for the run
    options: those set by the user, stored in `run.json` for a resume
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
    always: list[str] = field(default_factory=list)
    network: bool = False
    confine: bool = True
    allow_sensitive: bool = False
    agent: str = "model"
    worktree: str = ""
    branch: str = ""
    options: Mapping[str, object] = field(default_factory=dict)


SPEC_VERSION = 1
_SPECIFIED = ("parent", "kind", "prompt", "instructions", "tools", "mode", "allow", "network", "confine")


def write_spec(run_dir: RunDirectory, request: RunRequest, limits: Limits) -> None:
    value = {name: getattr(request, name) for name in _SPECIFIED}
    value |= {**vars(limits), "tools": sorted(request.tools or ())}
    json_files.write_document(run_dir.subagent, value, version=SPEC_VERSION)


def read_spec(run_dir: RunDirectory) -> tuple[RunRequest, Limits]:
    """Read the parameters and limits of a subagent. Raises UsageError if the run is not a subagent, Refused if its
    specification is malformed."""
    value = json_files.read_document(run_dir.subagent, version=SPEC_VERSION)
    if value is None:
        raise UsageError(f"{run_dir.name} is not a subagent run")
    try:
        specified = {name: value[name] for name in _SPECIFIED}
        tools = frozenset(map(str, specified.pop("tools")))
        request = json_files.decode(RunRequest, {**specified, "name": run_dir.name})
        limits = json_files.decode(Limits, value)
        return replace(request, commit=Options(no_commit=True), tools=tools), limits
    except (KeyError, TypeError) as error:
        raise Refused(f"the specification of subagent {run_dir.name} is malformed: {error}") from error


def edit_request(request: RunRequest, settings: Settings, targets: tuple[Target, ...] = ()) -> EditRequest:
    """The permissions of an edit in this run. `targets` are files that the user has agreed to change."""
    return EditRequest(
        request.prompt,
        targets,
        scope="repo",
        create=True,
        parse_check=settings.switch("edit.parse_check"),
        allow_sensitive=request.allow_sensitive,
        sensitive=settings.texts("edit.sensitive"),
        commit=request.commit,
    )


def run_limits(settings: Settings) -> Limits:
    return Limits(
        settings.whole("run.max_turns"),
        settings.whole_or_none("max_tokens"),
        settings.number_or_none("max_cost"),
        settings.number_or_none("max_cost_per_day"),
        settings.number_or_none("run.max_time"),
    )


Kind = Literal["done", "answered", "unfinished"]


@dataclass(frozen=True)
class RunOutcome:
    """How a run ended.

    kind: "unfinished" if the last reply had no action while something was left to do, or the last edit was refused
    text: the answer or summary
    words: the rest of the last reply
    messages: earlier messages to the user
    left: changed paths that are not committed
    left_out: files that commands created, which are not part of the change
    check: the result of the check, if it passed
    turns: the number of model calls
    seconds: the duration without the time spent waiting for the user
    """

    kind: Kind
    name: str
    text: str
    model: str
    usage: Usage
    turns: int
    cost: float | None
    seconds: float
    commits: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    words: str = ""
    messages: tuple[str, ...] = ()
    check: CheckResult | None = None
    left_out: tuple[str, ...] = ()


class RunInterface(UserInterface, Protocol):
    """A run's interface to the user: a terminal, a program that reads events, or none."""

    def approve(self, request: ApprovalRequest) -> Verdict: ...

    def progress(self, kind: str, data: dict[str, object]) -> None:
        """Report an event to programs: a turn, a checkpoint, a subagent, a commit."""
        ...


@dataclass
class RunContext:
    """The state of one run.

    shown: the files that the model has seen, with the blob that it saw last
    notes_shown: the files whose notes it has seen
    commits: those made by this process
    branch: the branch at the start of this process
    accepted: files whose change the user accepted, with the accepted content, None for a deleted file
    deletions: files that the user agreed to delete
    unreviewed: whether some part of the change has not been accepted by the user
    changes_at_refusal: the run's changes when its last edit was refused; None if it was not refused
    """

    worktree: WorkTree
    layout: Layout
    settings: Settings
    request: RunRequest
    model_setup: ModelSetup
    ui: RunInterface
    run_dir: RunDirectory
    change_set: ChangeSet
    tool_context: EditSession
    gate: Gate
    shown: dict[str, str] = field(default_factory=dict)
    notes_shown: set[str] = field(default_factory=set)
    commits: list[str] = field(default_factory=list)
    accepted: dict[str, bytes | None] = field(default_factory=dict)
    deletions: set[str] = field(default_factory=set)
    unreviewed: bool = False
    tools: tuple[Tool, ...] = ()
    branch: str | None = None
    changes_at_refusal: frozenset[FileChange] | None = None

    @property
    def state(self) -> State:
        """The conversation so far, read from its file."""
        return open_state(self.run_dir.conversation)

    @property
    def may_commit(self) -> bool:
        """Whether this run commits at its end. A read-only run does not, even if it has changes made in another
        mode."""
        return not self.request.commit.no_commit and self.gate.mode != "read-only"

    @property
    def edit_is_missing(self) -> bool:
        """Whether the last edit was refused, and nothing has changed since."""
        return self.changes_at_refusal == frozenset(self.change_set.changes)

    def note_edit(self, *, ok: bool, reasons: Iterable[str]) -> None:
        """Remember whether the last edit was refused. An edit that had nothing to do, or that the user rejected, does
        not count as refused."""
        reasons = set(reasons)
        applied = ok or (reasons and reasons <= NOTHING_TO_DO | {"person"})
        self.changes_at_refusal = None if applied else frozenset(self.change_set.changes)

    def forget_files(self) -> None:
        """Make the next action read the files again."""
        self.tool_context.draft = Draft({})
        self.tool_context.placements = []
        self.tool_context.editable = set()
        self.tool_context.not_ignored = frozenset()

    def recall_accepted(self) -> None:
        """Add what the user accepted in an earlier process or in a subagent."""
        for change in self.change_set.accepted:
            self.accepted[change.name] = change.after
            if change.path is None:
                self.deletions.add(change.name)

    def write(self, changes: Sequence[FileChange]) -> None:
        """Write all of `changes` or none. Raises what `restore.write_changes` raises."""
        from repoagent.edit.commit import new_edit_id
        from repoagent.tasks.restore import write_changes

        write_changes(self.worktree, changes, new_edit_id())

    def audit(self, event: Mapping[str, object]) -> None:
        json_files.record(self.layout, {"run": self.run_dir.name, **event})


def shown_in(state: State, written: Mapping[str, str]) -> dict[str, str]:
    """The files that a conversation shows, each with the blob that was shown last. A file that the run has edited since
    has its blob in `written` instead; a deleted file is left out."""
    shown: dict[str, str] = {}
    reply = ""
    for turn in state.turns:
        if turn.role == "assistant":
            reply = turn.text
        if turn.role != "observation":
            continue
        if turn.meta.get("kind") == EDIT and turn.meta.get("ok") == "yes":
            for path in [path for path in shown if path in reply]:
                shown.pop(path)
                shown |= {path: written[path]} if path in written else {}
        else:
            try:
                blobs = json.loads(turn.meta.get("shown", "{}"))
            except ValueError:
                continue
            if isinstance(blobs, dict):
                shown |= {
                    path: str(blob) for path, blob in blobs.items() if bad_path(path, known=True) is None
                }
    return shown


@dataclass
class NonInteractiveRun(NonInteractive):
    """The interface of a run without a user. `allow` answers approval requests, which are rejected without it;
    `on_event` gets each action and observation."""

    allow: Callable[[ApprovalRequest], bool] | None = None
    on_event: Callable[[LoopEvent], None] | None = None

    def approve(self, request: ApprovalRequest) -> Verdict:
        if self.allow is not None and self.allow(request):
            return Verdict(True, by="program")
        reason = "user approval is required; the calling program must allow it"
        return Verdict(False, reason=reason, by="nobody")

    def event(self, event: LoopEvent) -> None:
        if self.on_event is not None:
            self.on_event(event)

    def progress(self, kind: str, data: dict[str, object]) -> None:
        self.hear(f"{kind}: {data}")
