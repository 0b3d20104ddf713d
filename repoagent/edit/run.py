"""The main job from the request to the commit and the memory of it."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from repoagent.agent import ModelAgent, Observation, State, account, open_state
from repoagent.agent import replay as perform_again
from repoagent.agent import run as run_loop
from repoagent.config import Settings
from repoagent.edit.briefing import Prepared, prepare
from repoagent.edit.commit import Landed, NoCommit, NotNow, SentBack
from repoagent.edit.context import check_fits, request_key
from repoagent.edit.dialogue import Dialogue
from repoagent.edit.land import land
from repoagent.edit.means import Means, means
from repoagent.edit.message import EDIT_TRAILER, SOURCE_TRAILER, compose, public_name, with_trailers
from repoagent.edit.preflight import preflight, refuse_untracked
from repoagent.edit.remember import Story, forget_sent, keep_sent, now, remember
from repoagent.edit.request import EditRequest, named_files
from repoagent.edit.undo import undo
from repoagent.edit.unfinished import (
    alive,
    conversation_file,
    forget,
    forget_unanswered,
    mark,
    set_aside,
    unfinished,
)
from repoagent.errors import (
    Busy,
    CheckFailed,
    LimitReached,
    ModelError,
    NothingDone,
    Refused,
    RepoagentError,
)
from repoagent.llm import (
    Message,
    Meter,
    Model,
    Part,
    Reply,
    Request,
    Turn,
    Usage,
    complete,
)
from repoagent.memory import search as search_memory
from repoagent.repo import FileChange, WorkTree, head_blobs, layout
from repoagent.repo.run import uninterrupted
from repoagent.repo.settle import edit_folder
from repoagent.store import ensure

OUTPUT_TOKENS = 16_000
EXPLAIN = (
    "Before deciding, the person asks: explain this change. What does it do, why so, and what could it break?"
)

Kind = Literal["committed", "written", "proposed", "answered"]


@dataclass(frozen=True)
class EditOutcome:
    """How an edit ended. `answer` is what the model said when it did not edit; seconds are wall time."""

    kind: Kind
    edit_id: str
    landed: Landed | None
    answer: str
    model: str
    usage: Usage
    attempts: int
    cost: float | None
    seconds: float


def edit(
    worktree: WorkTree,
    request: EditRequest,
    settings: Settings,
    dialogue: Dialogue,
    ready: Means | None = None,
) -> EditOutcome:
    """Do one edit. Raises what each step raises; whatever it raises, the user's files, index and branch are either
    as they were or hold the whole edit."""
    started = time.monotonic()
    model, meter = ready or means(settings)
    preflight(worktree, request)
    if request.instead_of is not None:
        undo(worktree, request.instead_of)
        dialogue.say(f"took back the edit {request.instead_of} (`repoagent redo` makes it again)")
    prepared = prepare(worktree, request, settings)
    refuse_untracked(worktree, request, prepared.bench.draft)
    place = layout(worktree)
    ensure(place)
    key = request_key(request.instruction, prepared.blobs, 0)
    before = unfinished(place, key)
    if before and (
        request.fresh or edit_folder(worktree, before).exists()
    ):  # that one was landed, then killed
        set_aside(place, before)
        before = None
    edit_id = before or new_edit_id()
    with alive(place, edit_id):
        run = _Run(
            prepared, settings, model, meter, dialogue, edit_id, open_state(conversation_file(place, edit_id))
        )
        try:
            run.begin(key)
            landed, answer = run.go()
        finally:
            forget_unanswered(place, edit_id)
    return EditOutcome(
        kind=_kind(landed),
        edit_id=edit_id,
        landed=landed,
        answer=answer,
        model=model.spec,
        usage=meter.usage,
        attempts=meter.attempts,
        cost=meter.cost,
        seconds=time.monotonic() - started,
    )


def new_edit_id() -> str:
    """An id that sorts by time, is a legal file and ref name, and is not met twice."""
    return time.strftime("%Y%m%d-%H%M%S-", time.gmtime()) + secrets.token_hex(3)


def _kind(landed: Landed | None) -> Kind:
    if landed is None:
        return "answered"
    if landed.commit is not None:
        return "committed"
    return "written" if landed.written else "proposed"


@dataclass
class _Run:
    """One run of the loop over a prepared edit, and what it leaves behind."""

    prepared: Prepared
    settings: Settings
    model: Model
    meter: Meter
    dialogue: Dialogue
    edit_id: str
    state: State
    landed: Landed | None = None
    setback: SentBack | None = None

    def begin(self, key: str) -> None:
        """Open the conversation with the request, or bring the draft to where an interrupted run left it."""
        if self.state.turns:
            try:
                perform_again(self.prepared.tools, self.state)
            except RepoagentError as error:
                raise Refused(
                    f"the interrupted edit {self.edit_id} can't be gone on with ({error}): "
                    "say --conversation fresh to begin anew"
                ) from error
            replies = sum(turn.role == "assistant" for turn in self.state.turns)
            self.dialogue.note(
                f"going on with the interrupted edit {self.edit_id}; replies already paid for: {replies}"
            )
            return
        request = self.prepared.bench.request
        meta = {"edit": self.edit_id, "asked": mark(key), "time": now(), **named_files(request.targets)}
        self.state = self.state.with_turn(Turn("user", request.instruction, meta))

    def go(self) -> tuple[Landed | None, str]:
        """Run the loop to its end and remember it. Returns what landed, or the model's answer.

        A run that could go on later (no network, a limit, an interrupt) keeps its conversation file for that.
        """
        agent = ModelAgent(
            self.model, self.meter, self.render,
            on_text=self.dialogue.text, on_void=self.dialogue.void, on_wait=self.waiting,
            on_reply=self.kept, recall=self.recall,
        )  # fmt: skip
        try:
            outcome = run_loop(
                agent,
                self.prepared.tools,
                self.state,
                before_finish=self.finish,
                on_event=self.dialogue.event,
            )
        except (ModelError, Busy, NotNow, NoCommit):
            raise
        except LimitReached as error:
            if self.setback is None or self.setback.kind == "person":
                raise
            self.remember("failed", str(self.setback))
            raise CheckFailed(f"{self.setback}\nNothing was changed ({error}).") from error
        except CheckFailed as error:
            self.remember("failed", str(error))
            raise CheckFailed(f"{error}\nNothing was changed.") from error
        except NothingDone as error:
            self.remember("declined", str(error))
            raise
        except RepoagentError as error:
            self.remember("refused", str(error))
            raise
        if outcome.kind == "rejected":
            self.remember("rejected", outcome.text)
            raise NothingDone(f"the model declined: {outcome.text}")
        answer = "" if self.landed else outcome.text
        self.remember("answered", answer)
        return self.landed, answer

    def render(self, state: State) -> Request:
        """The request for the next reply; the exact text of it is kept in `sent/`."""
        bench = self.prepared.bench
        replies = sum(turn.role == "assistant" for turn in state.turns)
        request = self.prepared.prompt.request(
            state.turns,
            state.nonce,
            key=request_key(bench.request.instruction, self.prepared.blobs, replies),
            max_output_tokens=self.settings.whole_or_none("max_output_tokens") or OUTPUT_TOKENS,
        )
        check_fits(request, self.model.context_tokens)
        self.dialogue.note(f"asking {self.model.spec}")
        if self.model.spec == "manual":  # it is the person who is asked now
            self.dialogue.quiet()
        return request

    def kept(self, request: Request, reply: Reply) -> dict[str, str]:
        """Keep the exact text that was sent; what the conversation says of the reply."""
        return {
            "time": now(),
            "sent": keep_sent(layout(self.prepared.bench.worktree), request),
            "tokens": f"{reply.usage.total - reply.usage.output}+{reply.usage.output}",
        }

    def waiting(self, seconds: float, reason: str) -> None:
        self.dialogue.note(f"{reason}; trying again in {seconds:.0f} s")

    def recall(self, query: str) -> list[str]:
        return search_memory(layout(self.prepared.bench.worktree), query)

    def finish(self, state: State) -> Observation | None:
        """The loop's question before it ends: land the draft. What says no goes back to the model."""
        self.state = state
        try:
            self.landed = land(self.prepared.bench, self.edit_id, self.message, self.dialogue, self.explain)
        except SentBack as setback:
            self.setback = setback
            text = f"{setback}\n{self.prepared.reminder}".rstrip()
            error = (
                CheckFailed(str(setback)) if setback.kind == "hook" else None
            )  # a check is the user's to limit
            return Observation(setback.kind, text, ok=False, error=error)
        return None

    def message(self, changes: Sequence[FileChange]) -> str:
        """The whole commit message with its trailers."""
        bench = self.prepared.bench
        words, _ = account(self.prepared.tools, self.state)
        text = compose(words, bench.request.instruction)
        return with_trailers(text, self.trailers(changes), bench.worktree.top)

    def trailers(self, changes: Sequence[FileChange]) -> list[tuple[str, str]]:
        if not self.settings.switch("commit.trailers"):
            return []
        paths = [change.old_path for change in changes if change.old_path is not None]
        blobs = head_blobs(self.prepared.bench.worktree, paths)
        return [
            (self.settings.text("commit.trailer"), f"repoagent:{self.who()}"),
            (EDIT_TRAILER, self.edit_id),
            *((SOURCE_TRAILER, blobs[path]) for path in paths if path in blobs),
        ]

    def who(self) -> str:
        """The model for the record: of a replay the one that was recorded, of a command the program alone."""
        spec = self.model.spec
        if spec.startswith("replay:"):
            spec = next(
                (turn.meta.get("model", spec) for turn in self.state.turns if turn.role == "assistant"), spec
            )
        return public_name(spec)

    def explain(self) -> str:
        """The model's account of its change; asked beside the conversation, which goes on as if it had not been."""
        asked = self.render(self.state)
        question = (*asked.messages, Message("user", (Part(EXPLAIN),)))
        request = replace(asked, messages=question, key=asked.key + "explain")
        reply = complete(
            self.model, request, self.meter,
            on_text=self.dialogue.text, on_void=self.dialogue.void, on_wait=self.waiting,
        )  # fmt: skip
        self.kept(request, reply)
        return reply.text

    def remember(self, ended: str, answer: str) -> None:
        """What happened goes to the memory of each file, and the conversation of the edit with it.

        The edit is at its end: what can't be remembered, and a ^C by now, must not make it look undone.
        """
        place = layout(self.prepared.bench.worktree)
        with uninterrupted():
            try:
                self._remember(ended, answer)
                forget(place, self.edit_id)
                forget_sent(place, self.settings.whole("sent.keep_days"))
            except (RepoagentError, OSError) as error:
                kept = set_aside(place, self.edit_id)
                self.dialogue.say(
                    f"warning: this edit could not be remembered ({error}); what was said is kept in {kept}"
                )

    def _remember(self, ended: str, answer: str) -> None:
        bench = self.prepared.bench
        self.state = open_state(conversation_file(layout(bench.worktree), self.edit_id))
        _, notes = account(self.prepared.tools, self.state)
        story = Story(
            edit_id=self.edit_id,
            request=bench.request.instruction,
            turns=self.state.turns,
            notes=notes,
            ended=ended,
            answer=answer,
            landed=self.landed,
            model=self.who(),
            usage=self.meter.usage,
            cost=self.meter.cost,
        )
        if self.settings.switch("memory.enabled"):
            remember(bench.worktree, story, bench.draft.sources, self.prepared.memories, bench.request.paths)
