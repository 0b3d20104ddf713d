"""One run, from the user's request to its end. `run_task` is the entry point; `RunSession` performs the steps."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from repoagent.agent.actions import Observation
from repoagent.agent.context_window.window import estimate_turns, shown_turns
from repoagent.agent.describe_tools import tool_schemas
from repoagent.agent.loop import Agent, LoopEvent, LoopOutcome, load_agent, run_loop
from repoagent.agent.plan import plan_news, read_plan
from repoagent.agent.state import EDIT, State, extra_turn, open_state
from repoagent.config.settings import Settings
from repoagent.dataclass import dataclass
from repoagent.edit.draft import Draft, EditSession, read_limit
from repoagent.edit.guards.off_limits import off_limits_gate
from repoagent.edit.model_setup import ModelSetup, lazy_attachments, wants_tools
from repoagent.errors import NothingDone, Refused, RepoagentError
from repoagent.git.files import blob_hash
from repoagent.git.worktree import WorkTree, layout_of
from repoagent.llm.conversation import Turn
from repoagent.llm.model import Request, display_name
from repoagent.llm.open_model import AbsentModel, open_model
from repoagent.llm.usage import Limits, Meter
from repoagent.storage.json_files import timestamp
from repoagent.storage.layout import Layout, ensure_root
from repoagent.storage.secrets import mask
from repoagent.tasks.changes.change_set import names_of, open_change_set
from repoagent.tasks.finish import turns_since_user, unfinished_work
from repoagent.tasks.model_requests import ModelRequests, system_parts
from repoagent.tasks.restore import conflict_message, remaining_changes, revert_changes, write_reverse
from repoagent.tasks.run_context import (
    Kind,
    RunContext,
    RunInterface,
    RunOutcome,
    RunRequest,
    edit_request,
    shown_in,
)
from repoagent.tasks.runs.control import LiveRun, live_run, unread
from repoagent.tasks.runs.directory import ENDS, RunDirectory, RunRecord, refuse_foreign
from repoagent.tasks.runs.list import read_run
from repoagent.tasks.sandbox import Confinement, create_confinement
from repoagent.tasks.start import check_can_commit, start_conversation
from repoagent.tasks.subagents import merge_changes
from repoagent.tasks.toolset import Toolset, create_gate, create_toolset

_SHORT = 0.1  # of a model's window: `compact_conversation` refuses a shorter conversation


def run_task(
    worktree: WorkTree, request: RunRequest, settings: Settings, ui: RunInterface, ready: ModelSetup
) -> RunOutcome:
    """Start or resume a run. Raises Refused for a run that came with the repository.

    It also raises LimitReached, ModelError, CheckFailed, RunStopped and other errors that end the run; the conversation
    and the changes are then kept for a resume.
    """
    started = time.monotonic()
    store = layout_of(worktree)
    ensure_root(store)
    run_dir = RunDirectory(store, request.name)
    refuse_foreign(run_dir)
    check_can_commit(worktree, request)
    meter, model = ready.meter, display_name(ready.model.spec)
    if meter.book is not None:
        meter.book = meter.book.about(request.name, str(worktree.top), ())
    limits = {name: getattr(meter.limits, name) for name in ("cost", "tokens", "turns", "seconds")}
    record = RunRecord(
        request.prompt, kind=request.kind, parent=request.parent, model=model, mode=request.mode, limits=limits,
        worktree=str(worktree.top), branch=request.branch, options=dict(request.options),
    )  # fmt: skip
    with open_session(worktree, request, settings, ui, ready, run_dir, record) as session:
        context, live = session.context, session.live
        context.commits[:] = [commit for commit in context.commits if commit not in live.record.commits]
        live.committed(context.commits)
        outcome = session.go()
        is_task = request.kind == "run" and not request.parent  # otherwise words alone are an answer
        nothing = not context.commits and not context.change_set.changes
        kind: Kind = "answered"
        if outcome.kind != "answered":
            kind = "unfinished" if is_task and nothing and context.edit_is_missing else "done"
        elif is_task and unfinished_work(context):
            kind = "unfinished"
        live.ended(kind, outcome.text, commits=context.commits)
    change_set = context.change_set
    return RunOutcome(
        kind, request.name, outcome.text, model, meter.usage, meter.attempts, meter.cost,
        time.monotonic() - started - ui.waited, tuple(context.commits),
        remaining_changes(worktree, change_set).left,
        outcome.words, outcome.messages, session.toolset.finishing.check,
        tuple(change.name for change in change_set.candidates if change.after is not None),
    )  # fmt: skip


def compact_conversation(
    worktree: WorkTree, request: RunRequest, settings: Settings, ui: RunInterface, ready: ModelSetup
) -> tuple[int, int]:
    """Have the model summarize the conversation; if it fails, the program writes the summary. Returns the estimated
    tokens of the turns before and after. Raises NothingDone if the conversation is short, Busy while a turn runs."""
    run_dir = RunDirectory(layout_of(worktree), request.name)
    before = read_run(run_dir, warn=ui.say).record
    record = RunRecord(kind=request.kind, mode=request.mode, worktree=str(worktree.top))
    with open_session(worktree, request, settings, ui, ready, run_dir, record) as session:
        state, window = session.state, session.requests.window
        size = estimate_turns(shown_turns(state.turns))
        try:
            sent = estimate_turns(window.turns(state))
            if sent < _SHORT * window.budget:
                raise NothingDone(f"nothing to compact: the conversation is short (about {sent:,} tokens)")
            state = session.requests.ready(state, force=True)
        finally:
            session.live.ended(before.state if before.state in ENDS else "stopped", before.text)
    return size, estimate_turns(shown_turns(state.turns))


def first_request(
    worktree: WorkTree, request: RunRequest, settings: Settings, ui: RunInterface, spec: str
) -> Request:
    """The first request that a new run would send to the model `spec`, without the output of `run.before_turn`. Needs
    no API key."""
    takes = open_model(settings, spec=spec).takes if wants_tools(settings, spec) else frozenset[str]()
    ready = ModelSetup(settings, AbsentModel("not opened", spec, takes=takes), Meter(Limits()))
    with tempfile.TemporaryDirectory(prefix="repoagent-") as name:
        base = Path(name).resolve()
        run_dir = RunDirectory(Layout(base / ".repoagent", base), request.name)
        record = RunRecord(request.prompt)
        with open_session(worktree, request, settings, ui, ready, run_dir, record) as session:
            state = start_conversation(session.context, session.state, session.confinement)
            (first,) = session.requests.render(state)
            session.live.ended("stopped", "")
    return first


@contextmanager
def open_session(  # noqa: PLR0917
    worktree: WorkTree,
    request: RunRequest,
    settings: Settings,
    ui: RunInterface,
    ready: ModelSetup,
    run_dir: RunDirectory,
    record: RunRecord,
) -> Iterator[RunSession]:
    """Lock the run for the duration of the `with` block, and yield a session with its tools and earlier changes."""
    with live_run(run_dir, record, warn=ui.say) as live, ExitStack() as stack:
        confinement = create_confinement(worktree, settings, request, run_dir)
        form = ready.form.form if ready.form.form in ("diff", "search") else "diff"
        tool_context = EditSession(
            worktree, edit_request(request, settings), Draft({}), set(), off_limits_gate(worktree.top, ()),
            form=form, read_limit=read_limit(ready.context_tokens), resume_hint="",
            conversation=run_dir.conversation, attachments=lazy_attachments(ready, run_dir.output),
        )  # fmt: skip
        approvals = create_gate(run_dir, settings, request, confinement, ui.approve)
        change_set = open_change_set(worktree, run_dir.changes)
        last_commit = change_set.settle_commit()
        commits = [last_commit] if last_commit is not None else []
        context = RunContext(
            worktree, layout_of(worktree), settings, request, ready, ui, run_dir, change_set, tool_context, approvals,
            commits=commits, unreviewed=bool(commits) or not change_set.accepted.issuperset(change_set.changes),
        )  # fmt: skip
        context.recall_accepted()
        state = open_state(run_dir.conversation)
        toolset = create_toolset(context, confinement, stack)
        context.tools = toolset.tools
        system = system_parts(context, context.tools, toolset.parts)
        requests = ModelRequests(context, system, tool_schemas(context.tools) if ready.native else ())
        yield RunSession(context, live, confinement, state, toolset, requests, stack)


@dataclass
class RunSession:
    """One process of a run; `stack` closes its tools."""

    context: RunContext
    live: LiveRun
    confinement: Confinement
    state: State
    toolset: Toolset
    requests: ModelRequests
    stack: ExitStack
    asked_to_finish: bool = False  # after a reply without an action

    def go(self) -> LoopOutcome:
        """Run to completion. Raises NothingDone if the model rejects the task, after reverting its changes."""
        try:
            agent = self._start()
            outcome = run_loop(
                agent,
                self.context.tools,
                self.state,
                before_answer=self._before_answer,
                before_turn=self._before_turn,
                on_event=self._event,
            )
        except (RepoagentError, OSError):
            self._refuse_lost()  # may be the cause of the error
            self._say_committed()
            raise
        except KeyboardInterrupt:
            self._say_committed()
            raise
        finally:  # record the last call, too
            self.stack.close()
            self._record_turn("")
        if outcome.kind == "rejected":
            self._revert_all()
            self._say_committed()
            raise NothingDone(f"the model declined: {outcome.text}")
        return outcome

    def _start(self) -> Agent:
        """Settle the work of an earlier process, and start the conversation."""
        context, requests, ui = self.context, self.requests, self.context.ui
        resumed = self.state.turns and not context.request.parent
        adopted = merge_changes(context) if resumed else ""
        self.state = start_conversation(context, self.state, self.confinement, adopted)
        hash_kind = context.worktree.object_format
        written = {
            change.path: blob_hash(change.after, hash_kind)
            for change in context.change_set.changes
            if change.path and change.after
        }
        context.shown.update(shown_in(self.state, written))
        for turn in turns_since_user(self.state):
            if turn.role == "observation" and turn.meta.get("kind") == EDIT:
                reasons = turn.meta.get("reasons", "").split()
                context.note_edit(ok=turn.meta.get("ok") != "no", reasons=reasons)

        return load_agent(context.request.agent)(
            context.model_setup.model, context.model_setup.meter, requests.render, on_text=ui.text, on_void=ui.void,
            on_wait=requests.waiting, on_reply=requests.store,
        )  # fmt: skip

    def _before_turn(self, state: State) -> State:
        """Add the events since the last reply, and a checkpoint if one is due."""
        context, meter = self.context, self.context.model_setup.meter
        self._refuse_lost()
        self._record_turn("asking the model")
        counts: dict[str, object] = {"calls": meter.attempts, "tokens": meter.usage.total, "cost": meter.cost}
        context.ui.progress("turn", counts)
        for turn in self._news(state):
            state = state.with_turn(turn)
        plan = context.run_dir.plan
        state = replace(state, plan=mask(read_plan(plan).text) if plan.exists() else "")
        return self.requests.ready(state)

    def _news(self, state: State) -> Iterator[Turn]:
        """Messages, the user's changes to the plan, background work that ended, and the output of `before_turn`."""
        context = self.context
        known = {(turn.meta.get("message"), turn.text) for turn in state.turns}
        for name, text in self.live.control().items():
            turn = extra_turn("user", mask(text), "message")
            if (name, turn.text) not in known:  # else the run was killed before `confirm`
                context.ui.note("received a message")
                yield Turn("user", turn.text, {**turn.meta, "message": name, "time": timestamp()})
        self.live.confirm()
        names = [tool.name for tool in context.tools]
        if news := plan_news(context.run_dir.plan, state.turns, names, state.nonce):
            yield news
        before_turn = self.toolset.hooks("before_turn", context.model_setup.meter.attempts + 1).text
        texts = [text for notices in self.toolset.notices for text in notices()]
        if text := "\n\n".join(filter(None, [*texts, before_turn])):
            yield extra_turn("observation", mask(text), "notice")

    def _record_turn(self, activity: str) -> None:
        meter = self.context.model_setup.meter
        self.live.turn(turns=meter.attempts, activity=activity, usage=meter.usage, cost=meter.cost)

    def _event(self, event: LoopEvent) -> None:
        if event.kind == "action" and event.action is not None:
            self._refuse_lost()
            self._record_turn(" ".join([event.action.kind, *event.action.args.values()]).strip())
        self.live.committed(self.context.commits)
        self.context.ui.event(event)

    def _refuse_lost(self) -> None:
        """Raise Refused if the run's folder was removed: its changes can no longer be separated from other work."""
        if self.live.lost:
            run_dir = self.context.run_dir
            files = names_of([change.name for change in self.context.change_set.changes])
            left = (
                f"its uncommitted changes ({files}) are still in your files"
                if files
                else "nothing is uncommitted"
            )
            ensure_root(self.context.layout)
            where = (
                f"; its conversation is in {run_dir.conversation}" if run_dir.conversation.exists() else ""
            )
            raise Refused(
                f"the folder of run {run_dir.name} was removed (by `git clean -x`, for example), which ended the run: "
                f"{left}{where}"
            )

    def _before_answer(self, state: State) -> Observation | None:
        """The observation for a reply without an action: new messages; then, once, what is unfinished. Raises
        CheckFailed if nothing else follows a failed check."""
        self._refuse_lost()
        finishing, is_chat = self.toolset.finishing, self.context.request.kind == "chat"
        if unread(self.context.run_dir):
            return Observation("unfinished", "The user has sent a message; read it first.", ok=True)
        if not is_chat and (failed := finishing.failed_check()):
            raise failed
        reasons = unfinished_work(self.context)
        if not reasons:
            return None
        if self.asked_to_finish:
            if finishing.refused and not is_chat:
                raise finishing.given_up()
            return None
        self.asked_to_finish = True
        text = (
            f"Your reply has no action, but {' and '.join(reasons)}. Continue, or `finish`; if you need an "
            "answer from the user first, ask again in plain words."
        )
        return Observation("unfinished", text, ok=False, shown="")

    def _say_committed(self) -> None:
        """Report the commits of a run that failed."""
        if commits := self.context.commits:
            names = ", ".join(commit[:7] for commit in commits)
            self.context.ui.say(
                f"note: the run had already made commit{'s' * (len(commits) > 1)} {names} "
                "(`repoagent undo` undoes the last one)"
            )

    def _revert_all(self) -> None:
        context, change_set, say = self.context, self.context.change_set, self.context.ui.say
        name, changes = context.run_dir.name, change_set.changes
        if changes and context.gate.mode == "read-only":
            say("note: this run is read-only, so its earlier changes are still in your files")
            return
        try:
            overlaps = revert_changes(
                change_set,
                [change.name for change in changes],
                lambda reverse: write_reverse(context.worktree, reverse, changes, f"{name}-back"),
            )
            if overlaps:
                say(f"warning: {conflict_message(overlaps, f'repoagent runs restore {name} --whole')}")
        except RepoagentError as error:
            say(f"warning: could not undo the run's changes; they are still in your files ({error})")
