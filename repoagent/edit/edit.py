"""One edit: prepare the prompt, run the loop, review and commit the change, and record it in memory."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Literal

from repoagent.agent import loop
from repoagent.agent.actions import Observation
from repoagent.agent.loop import LoopEvent, LoopOutcome, message_and_notes
from repoagent.agent.state import EDIT, State, open_state, steps_of_run
from repoagent.config.settings import Settings
from repoagent.dataclass import dataclass
from repoagent.edit import patch_tool, unfinished
from repoagent.edit.checks import preflight, refuse_untracked
from repoagent.edit.commit import (
    CannotCommitNow,
    CommitFailed,
    CommitOutcome,
    SentBack,
    compose_message,
    new_edit_id,
    with_own_trailers,
)
from repoagent.edit.memory import EditSummary, commit_and_remember, recorded_changes, remember_edit
from repoagent.edit.model_calls import PART, ModelCalls
from repoagent.edit.model_setup import ModelSetup, forget_sent, lazy_attachments, model_of_record, model_setup
from repoagent.edit.prompt.blocks import request_key
from repoagent.edit.prompt.build import prepare_prompt
from repoagent.edit.request import EditRequest, named_files
from repoagent.edit.review_and_commit import review_and_commit
from repoagent.edit.ui import UserInterface
from repoagent.errors import Busy, CheckFailed, LimitReached, ModelError, NothingDone, Refused, RepoagentError
from repoagent.git.files import FileChange, read_source
from repoagent.git.process import GitError, defer_signals
from repoagent.git.transaction.finish import edit_folder
from repoagent.git.transaction.results import UnfinishedTransaction
from repoagent.git.worktree import WorkTree, layout_of
from repoagent.llm.conversation import Turn
from repoagent.llm.model import Usage, display_name
from repoagent.patch.refusal import NOTHING_TO_DO
from repoagent.storage.folders import SystemFailed
from repoagent.storage.json_files import timestamp
from repoagent.storage.layout import ensure_root
from repoagent.storage.secrets import mask, without_secrets

# Kinds of observations that ask the model to continue.
UNFINISHED = "unfinished"  # an edit that fits is not committed, or the last one was refused; sent once
REMINDER, REMINDERS = "reminder", 2  # the reply has no edit: for a small model, at most twice
# Errors after which a later run can resume: the edit is not recorded as ended.
RESUMABLE = (
    patch_tool.OutOfScope, ModelError, Busy, CannotCommitNow, CommitFailed, GitError, SystemFailed,
    UnfinishedTransaction,
)  # fmt: skip

Kind = Literal["committed", "written", "proposed", "answered"]


@dataclass(frozen=True)
class EditOutcome:
    """The outcome of an edit.

    answer: the model's text if it made no edit.
    seconds: the elapsed time, without waiting for the user.
    words: what the model's last reply says besides the change or the answer.
    messages: the model's earlier messages to the user.
    """

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
    """Make one edit. Raises what its steps raise; the files, the index and the branch are then either unchanged or
    contain the whole edit."""
    started = time.monotonic()
    setup = ready or model_setup(settings, say=ui.say)
    meter = setup.meter
    preflight(worktree, request)
    if request.instead_of is not None:
        from repoagent.edit.undo import undo

        undo(worktree, request.instead_of)
        ui.say(f"undid edit {request.instead_of} (`repoagent redo` restores it)")
    prepared = prepare_prompt(worktree, request, settings, setup.form)
    session = prepared.session
    refuse_untracked(worktree, request, session.draft.sources)
    for warning in prepared.context.warnings:
        ui.say(f"warning: {warning}")
    dirs = layout_of(worktree)
    ensure_root(dirs)
    key = request_key(session.request.instruction, prepared.blobs, 0)
    mark = sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:16]  # of the request, in its first turn
    before = unfinished.find_unfinished(dirs, mark)
    if before and (request.fresh or edit_folder(worktree, before).exists()):  # it was killed after its commit
        unfinished.set_aside(dirs, before)
        before = None
    edit_id = before or new_edit_id()
    if meter.book is not None:
        meter.book = meter.book.about(edit_id, str(worktree.top), request.paths)
    with unfinished.edit_lock(dirs, edit_id):
        file = unfinished.conversation_file(dirs, edit_id)
        run = _Run(prepared, setup, ui, edit_id, file, open_state(file))
        try:
            run.begin(key, mark)
            outcome = run.run()
        except KeyboardInterrupt:
            ui.interrupted(run.interrupted())
            if edit_folder(worktree, edit_id).exists():  # the change is made: there is nothing to resume
                unfinished.forget_edit(dirs, edit_id)
            raise
        finally:
            if not any(turn.role == "assistant" for turn in unfinished.turns_of(run.file)):
                unfinished.forget_edit(dirs, edit_id)  # without a reply nothing was paid for
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
class _Run(ModelCalls):
    """One run of the loop."""

    edit_id: str
    file: Path  # of the conversation
    state: State
    result: CommitOutcome | None = None
    setback: SentBack | None = None
    tried: tuple[FileChange, ...] = ()  # the changes that `setback` refused
    refused: str = ""  # why the last edit was refused
    begun: tuple[Turn, ...] = ()  # the turns of the interrupted run

    def begin(self, key: str, mark: str) -> None:
        """Start the conversation with the request, or replay the conversation of an interrupted run."""
        request = self.prepared.session.request
        self.begun = self.state.turns
        part = self.begun[0].meta.get(PART, "") if self.begun else ""
        if self.prepared.question:
            part = part if self.begun else self.locate(key)
            self.prepared = self.prepared.located(part)
        session = self.prepared.session
        session.attachments = lazy_attachments(self.setup, layout_of(session.worktree).sent)
        if not session.short:  # a small model sends its edit whole, and cannot ask for files
            session.allow = (lambda paths: True) if request.scope == "repo" else self.ui.permits
        if not self.begun:
            meta = {"edit": self.edit_id, "asked": mark, "time": timestamp()}
            meta |= named_files(request.targets) | ({PART: part} if self.prepared.question else {})
            self.state = self.state.with_turn(Turn("user", request.instruction, meta))
            return
        try:
            loop.replay(self.prepared.tools, self.state)
            for path, blob in _shown(self.begun).items():
                if (session.draft.sources.get(path) or read_source(session.worktree, path)).blob != blob:
                    raise Refused(f"{path} has changed since the interruption")
        except RepoagentError as error:
            raise Refused(
                f"cannot resume edit {self.edit_id} ({error}): use --conversation fresh to start over"
            ) from error
        paid = _replies(self.begun)
        self.ui.say(f"resuming interrupted edit {self.edit_id}; replies already paid for: {paid}")

    def interrupted(self) -> str:
        """The state after ^C, in one line."""
        session, name = self.prepared.session, self.edit_id
        if edit_folder(session.worktree, name).exists():
            return "interrupted after the change was made; `repoagent undo` undoes it"
        text = "interrupted; nothing was changed"
        if session.request.instead_of is not None:
            text = "interrupted; the previous edit stays undone (`repoagent redo` restores it)"
        if paid := _replies(open_state(self.file).turns):
            text += f". Run the same command again to resume (replies already paid for: {paid})"
        return text

    def run(self) -> LoopOutcome:
        """Run the loop to its end, and record the edit in memory. Sets `result`, unless nothing was committed.

        The conversation file is kept if a later run can resume: after a network failure, a limit or ^C.
        """
        session = self.prepared.session
        agent = loop.ModelAgent(
            self.setup.model, self.setup.meter, self.render,
            on_text=self.ui.text, on_void=self.ui.void, on_wait=self.waiting,
            on_reply=self.record, continues=not session.short,
        )  # fmt: skip
        try:
            while True:
                outcome = loop.run_loop(
                    agent, self.prepared.tools, self.state,
                    before_finish=self.finish, before_answer=self.insist, on_event=self.event,
                )  # fmt: skip
                # with --scope repo only a reply from an earlier run, without that option, can ask for more files
                asks = session.request.scope != "repo" or self.begun == outcome.state.turns
                is_objection = outcome.kind == "rejected" and asks
                files = patch_tool.files_named_in(session, outcome.text) if is_objection else []
                if not patch_tool.allow_files(session, files):
                    break
                seen = patch_tool.scope_observation(session, files)  # the model may now change what it needs
                self.ui.event(LoopEvent("observation", observation=seen))
                meta = {"kind": seen.kind, "ok": "no", "extra": "objection"}
                meta |= {"shown": json.dumps(seen.data["shown"])}
                self.state = outcome.state.with_turn(Turn("observation", seen.text, meta))
        except (LimitReached, loop.StuckInLoop) as error:
            if self.setback is None or self.setback.kind == "person":
                raise
            self.remember("failed", str(self.setback))
            raise self.setback.failure(f"Nothing was changed ({error}).") from error
        except RESUMABLE:
            raise
        except CheckFailed as error:
            self.remember("failed", str(error))
            raise CheckFailed(f"{error}\nNothing was changed.", error.printed) from error
        except RepoagentError as error:
            self.remember("declined" if isinstance(error, NothingDone) else "refused", str(error))
            raise
        if outcome.kind == "rejected":
            self.remember("rejected", outcome.text)
            raise NothingDone(f"the model declined: {outcome.text}")
        self.remember("answered", "" if self.result else outcome.text)
        return outcome

    def event(self, event: LoopEvent) -> None:
        seen = event.observation
        if seen is not None and seen.kind == EDIT and not seen.ok:
            self.refused = seen.shown or seen.text
        self.ui.event(event)

    def insist(self, state: State) -> Observation | None:
        """The observation that answers a reply without an action, if its edit is missing or not committed; None to
        accept the reply. Raises CheckFailed if the model changed nothing after a failed check."""
        session = self.prepared.session
        reminders = sum(turn.meta.get("kind") == REMINDER for turn in state.turns)
        if session.short and reminders < REMINDERS:
            text = f"Your answer contains no edit.\n{session.reminder}".rstrip()
            return Observation(REMINDER, text, ok=False, shown="the reply contains no edit")
        objected = _objected(state)
        self.refuse_same(whatever=objected)
        if session.draft.edits and not session.short and not objected:
            text = "Your edit applies but is not committed, and your reply has no action: send `<finish>` or go on."
            shown = "the reply neither finishes the edit nor requests an action"
            return Observation(UNFINISHED, text, ok=False, shown=shown)
        return None

    def refuse_same(self, *, whatever: bool = False) -> None:
        """Raise CheckFailed if a check or a hook has refused this draft; with `whatever`, any draft."""
        if self.setback is None or self.setback.kind == "person":
            return
        if whatever or self.tried == self.prepared.session.draft.edits:
            raise self.setback.failure()

    def refused_last(self, state: State) -> Observation | None:
        """Tell the model, once, that its last edit was refused and is not part of the change. Raises Refused if it
        finishes nevertheless."""
        performed = [turn for step in steps_of_run(state.turns) for turn in step.performed]
        edits = [turn for turn in performed if turn.meta.get("kind") == EDIT]
        if not edits or edits[-1].meta.get("ok") != "no" or self.prepared.session.short:
            return None
        reasons = set(edits[-1].meta.get("reasons", "").split())
        if reasons and reasons <= NOTHING_TO_DO:
            return None
        if not _objected(state):
            text = (
                "Your last edit was refused and is not part of the change. Send it again, corrected; if it is not "
                "needed, finish again."
            )
            return Observation(UNFINISHED, text, ok=False, shown="")
        why = self.refused or edits[-1].text
        raise Refused(f"the model's edit was refused, and the model did not send another: {why}")

    def finish(self, state: State) -> Observation | None:
        """Commit the draft before the loop ends. Returns the refusal for the model, None if it was committed."""
        self.state = state
        session = self.prepared.session
        if all(turn.meta.get("kind") != EDIT for turn in steps_of_run(state.turns)[-1].performed):
            self.refuse_same()
            if (refused := self.refused_last(state)) is not None:
                return refused
        try:
            self.result = commit_and_remember(
                session, self.setup.settings, self.edit_id, lambda: self.story(state, "answered", ""),
                lambda: review_and_commit(session, self.edit_id, self.message, self.ui), say=self.ui.say,
                known=self.prepared.context.memories,
                unchanged=[session.draft.sources[path] for path in session.request.paths],
            )  # fmt: skip
        except SentBack as setback:
            self.setback, self.tried = setback, session.draft.edits
            text = mask(f"{setback}\n{session.reminder}".rstrip())
            error = setback.failure() if setback.kind == "hook" else None  # checks are limited by the user
            return Observation(setback.kind, text, ok=False, error=error, shown=setback.shown)
        return None

    def message(self, changes: Sequence[FileChange]) -> str:
        request, settings = self.prepared.session.request, self.setup.settings
        worktree = self.prepared.session.worktree
        words, _ = message_and_notes(self.prepared.tools, self.state)
        text = compose_message(words, request.instruction, settings.text("commit.trailer"))
        model = model_of_record(self.setup.model.spec, self.state.turns)
        return with_own_trailers(text, worktree, settings, changes, edit_id=self.edit_id, model=model)

    def remember(self, ended: str, answer: str) -> None:
        """Record an edit that changed nothing in the memory of its files, and remove files that are no longer needed.

        A memory that cannot be written only causes a warning.
        """
        session, settings = self.prepared.session, self.setup.settings
        dirs = layout_of(session.worktree)
        with defer_signals():
            try:
                if settings.switch("memory.enabled") and not (
                    self.result is not None and self.result.written
                ):
                    remember_edit(
                        session.worktree, self.story(open_state(self.file), ended, answer),
                        None if self.result is None else recorded_changes(self.result),
                        self.prepared.context.memories,
                        unchanged=[session.draft.sources[path] for path in session.request.paths],
                        limit=settings.whole("memory.limit"),
                    )  # fmt: skip
            except (RepoagentError, OSError) as error:
                saved = unfinished.set_aside(dirs, self.edit_id)
                self.ui.say(
                    f"warning: could not record this edit in memory ({error}); its conversation is saved in {saved}"
                )
                return
            try:
                unfinished.forget_edit(dirs, self.edit_id)
                forget_sent(dirs, settings.whole("sent.keep_days"))
                if (days := settings.whole_or_none("conversations.keep_days")) is not None:
                    from repoagent.memory.gc import forget_daily

                    forget_daily(dirs, days)
            except (RepoagentError, OSError) as error:
                self.ui.say(f"warning: could not remove old files ({error})")

    def story(self, state: State, ended: str, answer: str) -> EditSummary:
        _, notes = message_and_notes(self.prepared.tools, state)
        meter = self.setup.meter
        return EditSummary(
            edit_id=self.edit_id,
            request=self.prepared.session.request.instruction,
            turns=state.turns,
            notes=notes,
            ended=ended,
            answer=mask(without_secrets(answer)),
            model=model_of_record(self.setup.model.spec, state.turns),
            usage=meter.usage,
            cost=meter.cost,
        )


def _replies(turns: Sequence[Turn]) -> int:
    return sum(turn.role == "assistant" for turn in turns)


def _shown(turns: Sequence[Turn]) -> dict[str, str]:
    """The files that these turns show, with their blobs; malformed metadata is skipped."""
    shown: dict[str, str] = {}
    for turn in turns:
        with suppress(ValueError, TypeError):
            shown |= json.loads(turn.meta.get("shown", "{}"))
    return shown


def _objected(state: State) -> bool:
    """Whether the model has already been told that its edit is unfinished."""
    observations = (turn for step in steps_of_run(state.turns) for turn in step.observations)
    return any(turn.meta.get("kind") == UNFINISHED for turn in observations)
