"""One edit: prepare the prompt, run the loop, review and commit, remember."""

from __future__ import annotations

import json
import time
from typing import Literal

from repoagent.agent.actions import Observation
from repoagent.agent.loop import LoopEvent, ModelAgent, Outcome
from repoagent.agent.loop import replay as perform_again
from repoagent.agent.loop import run as run_loop
from repoagent.agent.state import EDIT, State, open_state, steps
from repoagent.config.settings import Settings
from repoagent.dataclass import dataclass
from repoagent.edit.checks import preflight, refuse_untracked
from repoagent.edit.commit import CommitOutcome, NoCommit, NotNow, SentBack, new_edit_id
from repoagent.edit.model_calls import PART, ModelCalls
from repoagent.edit.model_setup import ModelSetup, attachments, model_setup
from repoagent.edit.patch_tool import (
    OutOfScope,
    add_to_scope,
    allow_files,
    allowed_files,
    can_be_offered,
    files_named_in,
    scope_observation,
)
from repoagent.edit.pending_memory import pending
from repoagent.edit.prompt.blocks import request_key
from repoagent.edit.prompt.gather import copies, prepare
from repoagent.edit.recorder import EditLog
from repoagent.edit.request import EditRequest, named_files
from repoagent.edit.review_and_commit import review_and_commit
from repoagent.edit.ui import UserInterface
from repoagent.edit.undo import undo
from repoagent.edit.unfinished import (
    conversation_file,
    edit_lock,
    find_unfinished,
    forget_unanswered,
    request_mark,
    set_aside,
)
from repoagent.errors import Busy, CheckFailed, LimitReached, ModelError, NothingDone, Refused, RepoagentError
from repoagent.git.files import FileChange
from repoagent.git.process import GitError
from repoagent.git.transaction.finish import edit_folder
from repoagent.git.transaction.results import UnfinishedTransaction
from repoagent.git.worktree import WorkTree, layout
from repoagent.llm.conversation import Turn
from repoagent.llm.model import Usage, display_name
from repoagent.patch.errors import NOTHING_TO_DO
from repoagent.storage.folders import SystemFailed
from repoagent.storage.json_files import now
from repoagent.storage.layout import ensure
from repoagent.storage.secrets import mask

UNFINISHED = "unfinished"  # what goes back once: an edit that fits is not committed, or one was refused
MISSING = "missing"  # what of an edit is kept, and what is to come
REMINDER, REMINDERS = "reminder", 2  # how often words alone go back to a small model

Kind = Literal["committed", "written", "proposed", "answered"]


@dataclass(frozen=True)
class EditOutcome:
    """How an edit ended. `answer` is the model's text when it did not edit, `words` the rest of its last reply,
    `messages` what it told the user before. `seconds` is wall time without the time spent waiting for the user."""

    kind: Kind
    edit_id: str
    result: CommitOutcome | None
    answer: str
    model: str
    usage: Usage
    attempts: int
    cost: float | None
    seconds: float
    words: str = ""
    messages: tuple[str, ...] = ()


def edit(
    worktree: WorkTree,
    request: EditRequest,
    settings: Settings,
    ui: UserInterface,
    ready: ModelSetup | None = None,
) -> EditOutcome:
    """Do one edit. Raises what each step raises; the user's files, index and branch then are either unchanged or hold
    the whole edit."""
    started = time.monotonic()
    setup = ready or model_setup(settings, say=ui.say)
    meter = setup.meter
    preflight(worktree, request)
    if request.instead_of is not None:
        undo(worktree, request.instead_of)
        ui.say(f"undid the edit {request.instead_of} (`repoagent redo` restores it)")
    prepared = prepare(worktree, request, settings, setup.form)
    refuse_untracked(worktree, request, prepared.tool_context.draft)
    for warning in prepared.context.context_files.warnings:
        ui.say(f"warning: {warning}")
    for sentence in copies(prepared):
        ui.say(sentence)
    dirs = layout(worktree)
    ensure(dirs)
    prepared.tool_context.attachments = attachments(setup, dirs.sent)
    key = request_key(prepared.tool_context.request.instruction, prepared.blobs, 0)
    before = find_unfinished(dirs, key)
    if before and (
        request.fresh or edit_folder(worktree, before).exists()
    ):  # that one was committed, then killed
        set_aside(dirs, before)
        before = None
    edit_id = before or new_edit_id()
    if meter.book is not None:
        meter.book = meter.book.about(edit_id, str(worktree.top), request.paths)
    with edit_lock(dirs, edit_id), pending(worktree, edit_id, "edit") as record:
        run = _Run(prepared, setup, ui, record, open_state(conversation_file(dirs, edit_id)))
        try:
            run.begin(key)
            outcome = run.run()
        except KeyboardInterrupt:
            ui.interrupted(run.interrupted())
            raise
        finally:
            forget_unanswered(dirs, edit_id)
    result = run.result
    words = [outcome.words, outcome.text if result is not None else ""]
    return EditOutcome(
        kind="answered" if result is None else result.kind,
        edit_id=edit_id,
        result=result,
        answer="" if result is not None else outcome.text,
        model=display_name(setup.model.spec),
        usage=meter.usage,
        attempts=meter.attempts,
        cost=meter.cost,
        seconds=time.monotonic() - started - ui.waited,
        words="\n\n".join(filter(None, words)),
        messages=outcome.messages,
    )


@dataclass
class _Run(ModelCalls, EditLog):
    """One run of the loop over a prepared edit, and what it leaves behind."""

    state: State
    result: CommitOutcome | None = None
    setback: SentBack | None = None
    tried: tuple[FileChange, ...] = ()  # the changes that `setback` refused
    refused: str = ""  # why the last edit was
    begun: tuple[Turn, ...] = ()  # of an earlier run

    def begin(self, key: str) -> None:
        """Open the conversation with the request, or bring the draft to where an interrupted run left it."""
        request = self.prepared.tool_context.request
        self.begun = self.state.turns
        if self.begun:
            part = self.begun[0].meta.get(PART, "")
        else:
            part = self.locate(key) if self.prepared.question else ""
        self.prepared = self.prepared.located(part)
        tool_context = self.prepared.tool_context
        if not tool_context.short:  # a small model leaves no drafts and cannot ask for files
            tool_context.drafts = True
            tool_context.allow = (lambda paths: True) if request.scope == "repo" else self.ui.permits
        if not self.begun:
            meta = {"edit": self.edit_id, "asked": request_mark(key), "time": now()}
            meta |= named_files(request.targets) | ({PART: part} if self.prepared.question else {})
            self.state = self.state.with_turn(Turn("user", request.instruction, meta))
            return
        try:
            for path, blob in (item for turn in self.begun for item in allowed_files(turn).items()):
                if path not in tool_context.editable and can_be_offered(tool_context, [path]):
                    add_to_scope(tool_context, path)
                if path not in tool_context.editable or tool_context.draft.sources[path].blob != blob:
                    raise Refused(f"{path} has changed since")
            perform_again(self.prepared.tools, self.state)
        except RepoagentError as error:
            raise Refused(
                f"cannot resume edit {self.edit_id} ({error}): use --conversation fresh to start over"
            ) from error
        replies = sum(turn.role == "assistant" for turn in self.begun)
        self.ui.note(f"resuming the interrupted edit {self.edit_id}; replies already paid for: {replies}")

    def interrupted(self) -> str:
        """The state after ^C, in one line."""
        worktree = self.prepared.tool_context.worktree
        if edit_folder(worktree, self.edit_id).exists():
            return "interrupted after the change was made; `repoagent undo` undoes it"
        text = "interrupted; nothing was changed"
        if self.prepared.tool_context.request.instead_of is not None:
            text = "interrupted; the previous edit stays undone (`repoagent redo` restores it)"
        turns = open_state(conversation_file(layout(worktree), self.edit_id)).turns
        if replies := sum(turn.role == "assistant" for turn in turns):
            text += f". Run the same command again to resume (replies already paid for: {replies})"
        return text

    def run(self) -> Outcome:
        """Run the loop to its end and remember it. Returns how the loop ended; `result` is what was committed.

        A run that a later one can resume (no network, a limit, an interrupt) keeps its conversation file.
        """
        agent = ModelAgent(
            self.model_setup.model, self.model_setup.meter, self.render,
            on_text=self.ui.text, on_void=self.ui.void, on_wait=self.waiting,
            on_reply=self.kept, recall=self.recall, continues=not self.prepared.tool_context.short,
        )  # fmt: skip
        try:
            while True:
                outcome = run_loop(
                    agent,
                    self.prepared.tools,
                    self.state,
                    before_finish=self.finish,
                    before_answer=self.insist,
                    on_event=self.event,
                )
                objection = self.before_reject(outcome) if outcome.kind == "rejected" else None
                if objection is None:
                    break
                self.state = outcome.state.with_turn(objection)
        except (
            OutOfScope, ModelError, Busy, NotNow, NoCommit, GitError, SystemFailed, UnfinishedTransaction,
        ):  # fmt: skip
            raise
        except LimitReached as error:
            if self.setback is None or self.setback.kind == "person":
                raise
            self.remember(self.result, "failed", str(self.setback))
            raise self.setback.failure(f"Nothing was changed ({error}).") from error
        except CheckFailed as error:
            self.remember(self.result, "failed", str(error))
            raise CheckFailed(f"{error}\nNothing was changed.", error.printed) from error
        except RepoagentError as error:
            self.remember(
                self.result, "declined" if isinstance(error, NothingDone) else "refused", str(error)
            )
            raise
        if outcome.kind == "rejected":
            self.remember(self.result, "rejected", outcome.text)
            raise NothingDone(f"the model declined: {outcome.text}")
        self.remember(self.result, "answered", "" if self.result else outcome.text)
        return outcome

    def event(self, event: LoopEvent) -> None:
        seen = event.observation
        if seen is not None and seen.kind == EDIT and not seen.ok:
            self.refused = seen.shown or seen.text
        self.ui.event(event)

    def before_reject(self, outcome: Outcome) -> Turn | None:
        """Answer a model that declined: it may change the files that it needs, or part of its edit is missing. None to
        accept the rejection."""
        tool_context = self.prepared.tool_context
        # with --scope repo only a reply that was given without it can ask for more
        asks = tool_context.request.scope != "repo" or self.begun == outcome.state.turns
        files = files_named_in(tool_context, outcome.text) if asks else []
        seen = (
            scope_observation(tool_context, files)
            if allow_files(tool_context, files)
            else self.unfinished_edit(outcome.state)
        )
        if seen is None:
            return None
        self.ui.event(LoopEvent("observation", observation=seen))
        meta = {"kind": seen.kind, "ok": "no", "extra": "objection"}
        if blobs := seen.data.get("allowed"):
            meta["allowed"] = json.dumps(blobs)
        return Turn("observation", seen.text, meta)

    def unfinished_edit(self, state: State) -> Observation | None:
        """Ask once for the missing part of an edit. Raises the refusal the second time."""
        tool_context = self.prepared.tool_context
        if not tool_context.missing or tool_context.refusal is None:
            return None
        last = max(number for number, turn in enumerate(state.turns) if turn.meta.get("kind") == EDIT)
        if any(turn.meta.get("kind") == MISSING for turn in state.turns[last:]):
            raise tool_context.refusal
        text = f"Your edit is not complete. {tool_context.still_missing}"
        return Observation(MISSING, text, ok=False, shown="asked the model for the missing hunks")

    def insist(self, state: State) -> Observation | None:
        """Answer a reply of only words: part of the edit is missing, a small model forgot its edit, or an edit that
        fits was left uncommitted. Raises CheckFailed where nothing was changed after a failed check."""
        if missing := self.unfinished_edit(state):
            return missing
        tool_context = self.prepared.tool_context
        reminders = sum(turn.meta.get("kind") == REMINDER for turn in state.turns)
        if tool_context.short and reminders < REMINDERS:
            text = f"Your answer contains no edit.\n{self.prepared.reminder}".rstrip()
            return Observation(REMINDER, text, ok=False, shown="the reply contains no edit")
        objected = self.objected(state)
        self.refuse_same(whatever=objected)
        if tool_context.draft.edits and not tool_context.short and not objected:
            text = "Your edit applies but is not committed, and your reply requests nothing: `<finish>` or continue."
            shown = "the reply neither finishes the edit nor requests an action"
            return Observation(UNFINISHED, text, ok=False, shown=shown)
        return None

    def refuse_same(self, *, whatever: bool = False) -> None:
        """Raise CheckFailed where a check or a hook refused exactly the present draft, or `whatever` it refused."""
        if self.setback is None or self.setback.kind == "person":
            return
        if whatever or self.tried == self.prepared.tool_context.draft.edits:
            raise self.setback.failure()

    @staticmethod
    def objected(state: State) -> bool:
        """Whether an unfinished edit went back to the model already."""
        return any(
            turn.meta.get("kind") == UNFINISHED for step in steps(state.turns) for turn in step.observations
        )

    def refused_last(self, state: State) -> Observation | None:
        """Say once that the last edit was refused and is missing from the change. Raises Refused where no other edit
        was accepted."""
        edits = [
            turn for step in steps(state.turns) for turn in step.performed if turn.meta.get("kind") == EDIT
        ]
        if not edits or edits[-1].meta.get("ok") != "no" or self.prepared.tool_context.short:
            return None
        reasons = set(edits[-1].meta.get("reasons", "").split())
        if reasons and reasons <= NOTHING_TO_DO:
            return None
        if not self.objected(state):
            text = (
                "Your last edit was refused and is not part of the change. Send it again, corrected; if it is not "
                "needed, finish again."
            )
            return Observation(UNFINISHED, text, ok=False, shown="")
        if not self.prepared.tool_context.draft.edits:
            why = self.refused or edits[-1].text
            raise Refused(f"the model's edit was refused and it sent no other: {why}")
        self.ui.say(
            "note: the model's last edit was refused and it sent no other; the change does not include it"
        )
        return None

    def finish(self, state: State) -> Observation | None:
        """The loop's question before it ends: commit the draft. A refusal goes back to the model."""
        self.state = state
        if missing := self.unfinished_edit(state):
            return missing
        last = steps(state.turns)[-1].performed
        if all(turn.meta.get("kind") != EDIT for turn in last):
            self.refuse_same()
            if (refused := self.refused_last(state)) is not None:
                return refused
        if not self.prepared.tool_context.request.dry_run:
            self.save_pending(state)
        try:
            self.result = review_and_commit(
                self.prepared.tool_context, self.edit_id, lambda changes: self.message(state, changes), self.ui,
                lambda: self.explain(state),
            )  # fmt: skip
        except SentBack as setback:
            self.setback, self.tried = setback, self.prepared.tool_context.draft.edits
            text = mask(f"{setback}\n{self.prepared.reminder}".rstrip())
            error = setback.failure() if setback.kind == "hook" else None  # a check is the user's to limit
            return Observation(setback.kind, text, ok=False, error=error, shown=setback.shown)
        return None
