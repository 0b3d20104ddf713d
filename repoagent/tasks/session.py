"""One run, from the user's request to its end. `run` is the entry point, `RunSession` its steps."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from repoagent.agent.actions import Action, Observation
from repoagent.agent.context_window.checkpoint import tokens
from repoagent.agent.context_window.window import shown_turns
from repoagent.agent.exec.runner import CommandRunner
from repoagent.agent.loop import LoopEvent, Outcome, load_agent
from repoagent.agent.loop import run as run_loop
from repoagent.agent.native_tools import schemas
from repoagent.agent.plan.file import plan_news, read_plan
from repoagent.agent.python_kernel import KernelSession, python_tool
from repoagent.agent.state import EDIT, State, Tool, beside, open_state
from repoagent.config.settings import Settings
from repoagent.dataclass import dataclass
from repoagent.edit.model_setup import ModelSetup, wants_tools
from repoagent.errors import ModelError, NothingDone, Refused, RepoagentError
from repoagent.git.files import read_source
from repoagent.git.worktree import WorkTree, layout
from repoagent.llm.conversation import Turn
from repoagent.llm.model import OnText, Part, Reply, Request, Usage, display_name
from repoagent.llm.registry import open_model
from repoagent.llm.usage import Limits, Meter
from repoagent.storage.jsonl import now
from repoagent.storage.layout import Layout, ensure
from repoagent.storage.secrets import mask
from repoagent.tasks import toolset
from repoagent.tasks.context import (
    RunContext,
    RunInterface,
    RunRequest,
    shown_in,
    written_by,
)
from repoagent.tasks.finish import Finishing, repair_plan, turns_since_user, unfinished_work
from repoagent.tasks.model_requests import Sending
from repoagent.tasks.prompt import system_parts
from repoagent.tasks.refused_edit import is_draft_pending
from repoagent.tasks.runs.control import remove_orphaned
from repoagent.tasks.runs.directory import RunDirectory, refuse_foreign
from repoagent.tasks.runs.inbox import unread
from repoagent.tasks.runs.list import Run, refreshed
from repoagent.tasks.runs.live import Live, living
from repoagent.tasks.runs.record import ENDS, About, Record
from repoagent.tasks.sandbox import Confinement, confinement
from repoagent.tasks.skills import skill_tool, skills_block
from repoagent.tasks.start import check_can_commit, create_context, start_conversation
from repoagent.tasks.subagents.tool import SubagentPool, delegate_tools, merge_changes
from repoagent.tasks.subagents.types import agent_types_block
from repoagent.tasks.toolset import edit_and_read_tools, select_tools
from repoagent.tasks.uncommitted import remaining_changes
from repoagent.tasks.user_hooks import UserHooks

if TYPE_CHECKING:
    from repoagent.edit.checks import CheckResult

SHOWN = 7  # characters of a commit's id
SHORT = 0.1  # of what a model takes of a conversation: as much is kept beside a checkpoint


@dataclass
class RunSession:
    """One run, from its first call to its end."""

    context: RunContext
    live: Live
    place: Confinement
    state: State
    sending: Sending | None = None
    runner: CommandRunner | None = None
    room: KernelSession | None = None
    subagents: SubagentPool | None = None
    around: UserHooks | None = None
    finishing: Finishing | None = None
    insisted: bool = False

    def go(self) -> Outcome:
        """The end of the run. Raises NothingDone when the model rejects the task: what it had changed is taken back."""
        context = self.context
        with ExitStack() as open_things:
            blocks = self._lay_out_tools(open_things)
            adopted = (
                merge_changes(context, self.live.adopted)
                if self.state.turns and not context.request.parent
                else ""
            )
            if is_draft_pending(self.state):
                context.refused.dropped = "it is kept only while the run is active"
            self.state = start_conversation(context, self.state, self.place, adopted)
            self.sending = sending = self._sending(blocks)
            context.shown.update(shown_in(self.state, written_by(context)))
            for turn in turns_since_user(self.state):
                if turn.role == "observation" and turn.meta.get("kind") == EDIT:
                    context.refused.note(
                        ok=turn.meta.get("ok") != "no", reasons=turn.meta.get("reasons", "").split()
                    )
            agent = load_agent(context.request.agent)(
                context.model_setup.model, context.model_setup.meter, sending.render,
                on_text=context.ui.text, on_void=context.ui.void, on_wait=sending.waiting,
                on_reply=sending.kept,
                recall=lambda query: _recall(context, query),
            )  # fmt: skip
            try:
                outcome = run_loop(
                    agent,
                    context.tools,
                    self.state,
                    before_answer=self._insist,
                    before_turn=self._before_turn,
                    on_event=self._event,
                )
            except (RepoagentError, OSError):
                self._refuse_lost()  # the cause, where files of ours are missing
                self._say_committed()
                raise
            except KeyboardInterrupt:
                self._say_committed()
                raise
        if outcome.kind == "rejected":
            self._take_back()
            self._say_committed()
            raise NothingDone(f"the model declined: {outcome.text}")
        return outcome

    def first(self) -> Request:
        """The first request as `go` would send it; nothing is sent."""
        with ExitStack() as open_things:
            blocks = self._lay_out_tools(open_things)
            state = start_conversation(self.context, self.state, self.place)
            (request,) = self._sending(blocks).render(state)
        return request

    def compact(self) -> State:
        """The state with a checkpoint now, which stands for what is older from the next call on. Raises NothingDone
        where all of it would be kept beside the checkpoint."""
        with ExitStack() as open_things:
            blocks = self._lay_out_tools(open_things)
            sending = self._sending(blocks)
            size = tokens(sending.window.turns(self.state))
            if size < SHORT * sending.window.budget:
                raise NothingDone(f"nothing to compact: the conversation is short (about {size:,} tokens)")
            return sending.ready(self.state, force=True)

    def _sending(self, blocks: Sequence[Part]) -> Sending:
        context = self.context
        offered = schemas(context.tools) if context.model_setup.native else ()
        return Sending(context, system_parts(context, context.tools, blocks), offered)

    def _lay_out_tools(self, open_things: ExitStack) -> list[Part]:
        """Make the tools; the parts of the prompt that tell of skills and children."""
        context, request = self.context, self.context.request
        self.around = toolset.user_hooks(context, self.place)
        skills = toolset.skills(context)
        self.finishing = Finishing(context, self.around, self.place)
        own = edit_and_read_tools(context, self.finishing, self._after_edit)
        self.runner, commands = toolset.commands(context, self.place)
        open_things.callback(self.runner.close)
        further: list[Tool] = [*commands, *([skill_tool(skills)] if skills else [])]
        self.room = toolset.python(context, self.place, self.runner, self.state.turns)
        if self.room is not None:
            open_things.callback(self.room.close)
            further.append(python_tool(self.room))
        further += toolset.browse_tools(context, self.place)
        parts = [Part(request.instructions, "agent"), Part(skills_block(skills), "skills")]
        if not request.parent:  # a child has neither plug-ins nor children
            further += [self._watched(tool) for tool in toolset.plugins(context, (*own, *further))]
            names = frozenset(tool.name for tool in (*own, *further))
            kinds = toolset.agent_types(context)
            self.subagents = SubagentPool(context, kinds, names, context.model_setup.model.spec)
            open_things.callback(self.subagents.close)
            wait = next((tool for tool in further if tool.name == "wait"), None)
            further = [tool for tool in further if tool.name != "wait"]
            further += delegate_tools(self.subagents, wait)
            parts.append(Part(agent_types_block(kinds), "agents"))
        context.tools = select_tools(context, own, further)
        return parts

    def _watched(self, tool: Tool) -> Tool:
        """A tool of somebody else's: what files it changes is noticed, as with a command."""

        def perform(action: Action) -> Observation:
            if self.runner is None:
                return tool.perform(action)
            look_again = self.runner.look()
            seen = tool.perform(action)
            return replace(seen, text="\n".join(filter(None, [seen.text, look_again()])))

        return replace(tool, perform=perform)

    def _before_turn(self, state: State) -> State:
        """The state with what was said or has happened since the last reply, and with a checkpoint when one is due."""
        context, meter = self.context, self.context.model_setup.meter
        self._refuse_lost()
        self.live.turn(turns=meter.attempts, doing="asking the model", usage=meter.usage, cost=meter.cost)
        context.ui.progress(
            "turn", {"calls": meter.attempts, "tokens": meter.usage.total, "cost": meter.cost}
        )
        for turn in self._news(state):
            state = state.with_turn(turn)
        state = replace(
            state, plan=mask(read_plan(context.run_dir.plan).text) if context.run_dir.plan.exists() else ""
        )
        if self.sending is None:
            return state
        ready = self.sending.ready(state)
        if len(ready.turns) > len(state.turns):
            context.refused.drop("a checkpoint replaced earlier turns")
            if said := self._dropped():
                ready = ready.with_turn(beside("observation", mask(said), "notice"))
        return ready

    def _dropped(self) -> str:
        """What the model has to be told of what was kept of a refused edit, which the user is told too."""
        if why := self.context.refused.dropped:
            self.context.ui.say(f"note: the kept part of the refused edit was dropped: {why}")
        return self.context.refused.take_notice()

    def _news(self, state: State) -> Iterator[Turn]:
        """Messages, what the person has edited in the plan, what has ended in the background, and `before_turn`."""
        context = self.context
        paused = self.live.paused
        messages = self.live.control()
        context.model_setup.meter.started += self.live.paused - paused  # a pause counts for no limit on time
        for message in messages:
            if any(turn.meta.get("message") == message.name for turn in state.turns):
                continue
            said = beside("user", mask(message), "message")
            context.ui.note("a message came")
            yield Turn("user", said.text, {**said.meta, "message": message.name, "time": now()})
        repair_plan(context)
        try:
            news = plan_news(
                context.run_dir.plan, state.turns, [tool.name for tool in context.tools], state.nonce
            )
        except Refused as error:  # a person has put something else in its place just now
            context.ui.say(f"warning: {error}")
            news = None
        if news is not None:
            yield news
        context.refused.drop_if_changed(partial(read_source, context.worktree))
        happened = [
            self._dropped(),
            *(self.runner.notices() if self.runner else ()),
            *(self.room.notices() if self.room else ()),
            *(self.subagents.notices() if self.subagents else ()),
        ]
        if self.around is not None:
            happened.append(self.around.before_turn(context.model_setup.meter.attempts + 1))
        if text := "\n\n".join(filter(None, happened)):
            yield beside("observation", mask(text), "notice")

    def _after_edit(self, paths: Sequence[str]) -> str:
        """What the person's command after each edit says, and what it changed itself, as a formatter does."""
        if self.around is None or self.runner is None or self.around.edit_command is None:
            return ""
        look_again = self.runner.look()
        said = self.around.after_edit(paths, self.context.model_setup.meter.attempts)
        return "\n".join(filter(None, [said, look_again()]))

    def _event(self, event: LoopEvent) -> None:
        if event.kind == "action" and event.action is not None:
            self._refuse_lost()
            meter = self.context.model_setup.meter
            what = " ".join([event.action.kind, *event.action.args.values()]).strip()
            self.live.turn(turns=meter.attempts, doing=what, usage=meter.usage, cost=meter.cost)
        self.live.committed(self.context.commits)
        self.context.ui.event(event)

    def _refuse_lost(self) -> None:
        """Raise Refused where the run's own folder was removed under it: what it has changed could not be kept apart
        from other work any more. The conversation stands again, whole, where a turn was added since."""
        if not self.live.lost:
            return
        context = self.context
        remove_orphaned(context.run_dir)
        names = [change.name for change in context.change_set.changes]
        said = "all its changes are committed"
        if names:
            said = f"its uncommitted changes are still in your files: {', '.join(names)}"
        if context.run_dir.conversation.exists():
            ensure(context.layout)
            said += f"; the conversation is in {context.run_dir.conversation}"
        raise Refused(
            f"the folder of the run {context.run_dir.name} was removed during the run (by `git clean -x`, "
            f"for example), which ended it: {said}"
        )

    def _insist(self, state: State) -> Observation | None:
        """Words alone while something is unfinished: asked once whether that is the end. What the person has said
        meanwhile is answered, too. Raises CheckFailed where they are all that comes after a check that failed."""
        self._refuse_lost()
        if unread(self.context.run_dir):
            text = "The user has sent a message; read it first."
            return Observation("unfinished", text, ok=True)
        failed = (
            self.finishing.failed_check() if self.finishing and self.context.request.kind != "chat" else None
        )
        if failed is not None:
            raise failed
        business = unfinished_work(self.context)
        if not business:
            return None
        if self.insisted:
            if self.finishing and self.finishing.refused and self.context.request.kind != "chat":
                raise self.finishing.given_up()
            return None
        self.insisted = True
        text = (
            f"Your reply has no action, but {' and '.join(business)}. Continue, or `finish`; if you need an "
            "answer from the user first, ask again in plain words."
        )
        return Observation("unfinished", text, ok=False, shown="")

    def _say_committed(self) -> None:
        """Which commits stay of a run that comes to no good end: with one for each edit there may be some."""
        if made := self.context.commits:
            names = ", ".join(commit[:SHOWN] for commit in made)
            self.context.ui.say(
                f"note: committed before that: {names} (`repoagent undo` undoes the last one)"
            )

    def _take_back(self) -> None:
        """What was changed and not committed, for a task that comes to nothing."""
        from repoagent.tasks.changes.revert import put_back
        from repoagent.tasks.edit_tool import write_back
        from repoagent.tasks.uncommitted import conflict_message

        context = self.context
        paths = [change.name for change in context.change_set.changes]
        if not paths:
            return
        if context.gate.mode == "read-only":
            context.ui.say("note: earlier changes of the run are still in your files: this run is read-only")
            return
        try:
            left = put_back(
                context.change_set,
                paths,
                lambda changes: write_back(
                    context.worktree, changes, context.change_set.changes, f"{context.run_dir.name}-back"
                ),
            )
            if left:
                again = f"repoagent runs restore {context.run_dir.name}"
                sentence = conflict_message(left, f"{again} --let-go", f"{again} --whole")
                context.ui.say(f"warning: {sentence}")
        except RepoagentError as error:
            context.ui.say(f"warning: the changes of the run are still in your files ({error})")


def _recall(context: RunContext, query: str) -> list[str]:
    from repoagent.memory.search.search import search_memory

    return search_memory(context.layout, query, without=context.run_dir.conversation)


Kind = Literal["done", "answered", "unfinished"]


@dataclass(frozen=True)
class RunOutcome:
    """How a run ended: "unfinished" with words alone while its change was not committed or tasks were open, or when
    its last edit was refused. `text` is its last word, `words` what else its last reply says, `messages` what it told
    the user on the way, `commits` what it has committed, `left` the paths that it has changed and not committed,
    `left_out` the files that its commands made and that are no part of the change, `check` how the check ended that
    the commit has passed, `turns` the model calls; seconds are wall time without the user's."""

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


def run(
    worktree: WorkTree, request: RunRequest, settings: Settings, ui: RunInterface, ready: ModelSetup
) -> RunOutcome:
    """Do one run, or go on with it. Raises LimitReached, ModelError, CheckFailed, Stopped and what the steps raise; the
    conversation, and what was changed, are kept then, and the same run can be gone on with. Raises Refused for a run
    that came with the repository."""
    started = time.monotonic()
    store = layout(worktree)
    ensure(store)
    run_dir = RunDirectory(store, request.name)
    refuse_foreign(run_dir)
    check_can_commit(worktree, request)
    meter = ready.meter
    if meter.book is not None:
        meter.book = meter.book.about(request.name, str(worktree.top), ())
    with living(run_dir, _about(worktree, request, ready), warn=ui.say) as live:
        place = confinement(worktree, store, settings, request, run_dir.folder / "scratch")
        context = create_context(worktree, request, settings, ui, ready, run_dir, place)
        context.commits[:] = [commit for commit in context.commits if commit not in live.record.commits]
        live.committed(context.commits)
        try:
            work = RunSession(context, live, place, open_state(run_dir.conversation))
            outcome = work.go()
        finally:  # the last call counts too
            live.turn(turns=meter.attempts, doing="", usage=meter.usage, cost=meter.cost)
        kind = _kind(context, outcome)
        live.ended(kind, outcome.text, commits=context.commits)
    left = remaining_changes(worktree, context.change_set).left
    return RunOutcome(
        kind, request.name, outcome.text, display_name(ready.model.spec), meter.usage, meter.attempts, meter.cost,
        time.monotonic() - started - ui.waited, tuple(context.commits), left,
        outcome.words, outcome.messages, work.finishing.check if work.finishing else None,
        tuple(change.name for change in context.change_set.candidates if change.after is not None),
    )  # fmt: skip


def _kind(context: RunContext, outcome: Outcome) -> Kind:
    """What a run came to. In a chat, and from a child, words are an answer whatever is open."""
    alone = context.request.kind == "run" and not context.request.parent
    if outcome.kind == "answered":
        return "unfinished" if alone and unfinished_work(context) else "answered"
    if context.bench.missing:
        return "unfinished"
    nothing = not context.commits and not context.change_set.changes
    return "unfinished" if alone and nothing and context.refused.is_missing else "done"


def _about(worktree: WorkTree, request: RunRequest, ready: ModelSetup) -> About:
    limits = ready.meter.limits
    return About(
        request.prompt,
        kind=request.kind,
        parent=request.parent,
        model=display_name(ready.model.spec),
        mode=request.mode,
        worktree=str(worktree.top),
        branch=request.branch,
        said=request.said,
        limits={
            "cost": limits.cost,
            "tokens": limits.tokens,
            "turns": limits.turns,
            "seconds": limits.seconds,
        },
    )


def compact(
    worktree: WorkTree, request: RunRequest, settings: Settings, ui: RunInterface, ready: ModelSetup
) -> tuple[int, int]:
    """Have the model sum up what was said so far: about how many tokens the turns took before, and take now.

    Where it can't be asked, or gives nothing usable, the checkpoint is made of what the program knows. Raises
    NothingDone where the conversation is short, Busy where a turn is at work, and what writing raises.
    """
    store = layout(worktree)
    run_dir = RunDirectory(store, request.name)
    before = refreshed(Run(run_dir, Record(name=request.name), ""), warn=ui.say).record
    about = About("", kind=request.kind, mode=request.mode, worktree=str(worktree.top))
    with living(run_dir, about, warn=ui.say) as live:
        place = confinement(worktree, store, settings, request, run_dir.folder / "scratch")
        context = create_context(worktree, request, settings, ui, ready, run_dir, place)
        state = open_state(run_dir.conversation)
        took = tokens(shown_turns(state.turns))
        try:
            state = RunSession(context, live, place, state).compact()
        finally:
            live.ended(before.state if before.state in ENDS else "stopped", before.text)  # as it was
    return took, tokens(shown_turns(state.turns))


@dataclass(frozen=True)
class _Unasked:
    """Stands for the model, which needs a key to be opened."""

    spec: str
    context_tokens: int | None = None
    takes: frozenset[str] = frozenset()

    def complete(self, request: Request, on_text: OnText) -> Reply:
        raise ModelError("this model is only a placeholder")


def first_request(
    worktree: WorkTree, request: RunRequest, settings: Settings, ui: RunInterface, spec: str
) -> Request:
    """What the first call of the new run `request` would send to the model `spec`; no key is needed.

    What the user's `run.before_turn` says is not in it. Raises what beginning a run does.
    """
    store = layout(worktree)
    takes = open_model(settings, spec=spec).takes if wants_tools(settings, spec) else frozenset[str]()
    ready = ModelSetup(settings, _Unasked(spec, takes=takes), Meter(Limits()))
    with tempfile.TemporaryDirectory(prefix="repoagent-") as name:
        base = Path(name).resolve()
        run_dir = RunDirectory(Layout(base / ".repoagent", base), request.name)
        with living(run_dir, About(request.prompt)) as live:
            place = confinement(worktree, store, settings, request, run_dir.folder / "scratch")
            context = create_context(worktree, request, settings, ui, ready, run_dir, place)
            context.layout = store  # of the repository, as far as it is read
            found = RunSession(context, live, place, State()).first()
            live.ended("stopped", "")
    return found
