"""The tool `finish`: end a run when its plan is done, the check and the user's hooks pass, and the commit is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from repoagent.agent.actions import Action, Observation
from repoagent.agent.plan import read_plan
from repoagent.agent.state import EDIT, OWN, State, Tool, is_extra
from repoagent.dataclass import dataclass
from repoagent.errors import CheckFailed, NothingDone
from repoagent.git.worktree import current_branch, operation_in_progress
from repoagent.llm.conversation import Turn
from repoagent.llm.model import fence
from repoagent.storage.secrets import without_secrets
from repoagent.tasks.changes.change_set import names_of
from repoagent.tasks.restore import remaining_changes
from repoagent.tasks.run_context import RunContext
from repoagent.tasks.runs.control import unread
from repoagent.tasks.runs.directory import resume_command
from repoagent.tasks.sandbox import Confinement
from repoagent.tasks.user_programs import UserHooks

if TYPE_CHECKING:
    from repoagent.edit.checks import CheckResult
    from repoagent.edit.commit import SentBack

REFUSALS = 3  # by the check, a hook or the user, or for a sensitive file, after which the run fails
REFUSED_EDIT, KEPT_OUT = "refused_edit", "kept_out"  # reasons of a refused finish
_REFUSING = frozenset({"check", "hook", "before_finish", "person", "sensitive"})  # kinds of observations


def turns_since_user(state: State) -> Sequence[Turn]:
    """The turns from the user's last prompt on; messages sent during the run do not count as prompts."""
    prompts = [at for at, turn in enumerate(state.turns) if turn.role == "user" and not is_extra(turn)]
    return state.turns[prompts[-1] :] if prompts else state.turns


def unfinished_work(context: RunContext) -> Sequence[str]:
    """The reasons why the run is not finished, for the model."""
    reasons = []
    if context.change_set.changes and context.may_commit:
        reasons.append("you have changed files and have not finished")
    if context.edit_is_missing:
        reasons.append("your last edit was refused and nothing has changed since")
    if read_plan(context.run_dir.plan).open and not context.request.plan_only:
        reasons.append("the plan has open tasks")
    return reasons


@dataclass
class FinishTool:
    """The state of the tool `finish`.

    check: the result of the check, if it passed
    refused: the number of turns at the last refusal in this process (by a check, a hook or the user, or because of a
        sensitive file), and that refusal
    """

    context: RunContext
    hooks: UserHooks
    confinement: Confinement
    check: CheckResult | None = None
    refused: tuple[int, SentBack] | None = None

    def tool(self) -> Tool:
        summary = "what was done, and how it was checked"
        if self.context.request.plan_only:
            summary = "the plan in a few sentences, and what is uncertain in it"
        elif self.context.gate.mode == "read-only":
            summary = "the answer, and the evidence for it"
        text = f'<finish>{summary}</finish> ends the task; open="why" if planned tasks stay open.'
        return Tool("finish", text, self.perform, needs="all")

    def perform(self, action: Action) -> Observation:
        context, summary = self.context, action.body.strip()
        if unread(context.run_dir):
            text = "The user has sent a message; read it first."
            return Observation("finish", text, ok=False, shown="")
        if context.request.plan_only:
            return Observation("finish", summary, final=True)
        unfinished = read_plan(context.run_dir.plan).open
        open_reason = action.args.get("open", "").strip()
        if unfinished and not open_reason:
            names = "; ".join(f"{task.id} {task.title}" for task in unfinished)
            advice = 'Do them, set their state, or finish with open="why".'
            text = f"Tasks of the plan are open: {names}. {advice}"
            return Observation("finish", text, ok=False, shown=f"the plan has open tasks: {names}")
        if reminder := self._reminder():
            return reminder
        if failed := self.failed_check():
            raise failed
        if refusal := self._run_check() or self._run_hook() or self._commit(summary):
            return refusal
        open_text = f"\n\nStill open: {open_reason}" if unfinished else ""
        return Observation("finish", summary + open_text, final=True)

    def _reminder(self) -> Observation | None:
        """Say once which files that commands created are not in the commit, and once that the last edit was refused."""
        context = self.context
        created = [change.name for change in context.change_set.candidates if change.after is not None]
        kept_out = (
            f"Files that your commands created are not in the commit: {names_of(created)}. Use "
            '<keep path="FILE"/> for those that belong to the change, then finish again.'
        )
        refused = (
            "Your last edit was refused, and nothing has changed since, so the files do not contain "
            "it. Send it again, corrected; if it is not needed, finish again."
        )
        for reason, applies, text, turns in (
            (KEPT_OUT, created, kept_out, context.state.turns),
            (REFUSED_EDIT, context.edit_is_missing, refused, turns_since_user(context.state)),
        ):
            if applies and not any(reason in turn.meta.get("reasons", "") for turn in turns):
                return Observation("finish", text, ok=False, data={"reasons": [reason]}, shown="")
        return None

    def _run_check(self) -> Observation | None:
        context, command = self.context, self.context.request.check
        if not command:
            return None
        from repoagent.edit.checks import run_check
        from repoagent.edit.commit import SentBack
        from repoagent.edit.request import Check
        from repoagent.tasks.commit import all_accepted

        check = Check(command, context.settings.number_or_none("check.timeout"))
        if not context.settings.switch("check.unconfined"):
            check = replace(check, confine=lambda _top, _scratch, argv: self.confinement.program(argv))
        result = run_check(
            check, context.worktree, accepted=all_accepted(context), running=context.ui.running
        )
        if result.passed:
            self.check = result
            return None
        output = result.excerpt().replace(f"{context.worktree.top}/", "").rstrip()
        sentence = f"The check `{without_secrets(result.command)}` {result.how}. {result.advice}".rstrip()
        text = f"{sentence} Its output:\n{fence(output, 'output')}\nNothing was committed."
        return self._refuse(SentBack("check", text, sentence, output), "Fix it, then finish again.")

    def _run_hook(self) -> Observation | None:
        from repoagent.edit.commit import SentBack
        from repoagent.llm.model import unfence

        answer = self.hooks("before_finish", 0, [change.name for change in self.context.change_set.changes])
        if answer.ok:
            return None
        lead, _, fenced = answer.text.partition(":\n")
        output = unfence(fenced).rstrip()
        refusal = SentBack("before_finish", answer.text, f"{lead.removesuffix('.')}.", output)
        return self._refuse(refusal, "Nothing was committed.")

    def _commit(self, summary: str) -> Observation | None:
        from repoagent.edit.commit import SentBack, commit_remarks
        from repoagent.tasks.commit import commit_run

        context = self.context
        # a rebase or a merge may have stashed the change
        if operation_in_progress(context.worktree) in (None, "bisect"):
            self._report_remaining()
        if context.edit_is_missing and context.change_set.changes:
            context.ui.say(
                "note: the model's last edit was refused, and the model did not send it again; the change "
                "does not include it"
            )
        try:
            outcome = commit_run(context, summary) if context.may_commit else None
        except SentBack as error:
            return self._refuse(error, "Nothing was committed; your files contain the change.")
        except NothingDone as error:
            context.ui.note(str(error))
        else:
            for remark in commit_remarks(outcome.commit) if outcome and outcome.commit else ():
                context.ui.say(f"note: {remark}")
        return None

    def _report_remaining(self) -> None:
        """Report changes that the user undid or committed during the run, and a new branch."""
        context, say = self.context, self.context.ui.say
        remaining = remaining_changes(context.worktree, context.change_set)
        if remaining.gone:
            names = names_of(remaining.gone, 5)
            say(f"note: the run's change is no longer in {names}: something removed it or moved the file")
        if remaining.committed:  # the run cannot undo it any more
            names = names_of(remaining.committed, 5)
            say(f"note: the last commit already contains the run's change to {names}")
            context.change_set.drop(remaining.committed)
        branch = current_branch(context.worktree)
        if branch != context.branch and remaining.left and context.may_commit:
            where = f"branch {branch}" if branch else "no branch (detached HEAD)"
            say(f"note: you checked out another branch during the run; the run's commit is on {where}")

    def _refuse(self, refusal: SentBack, advice: str) -> Observation:
        """Raises the error that ends the run at the last of REFUSALS since the user's last prompt."""
        refusals = sum(
            turn.role == "observation" and turn.meta.get("kind") in _REFUSING and turn.meta.get("ok") == "no"
            for turn in turns_since_user(self.context.state)
        )
        self.refused = len(self.context.state.turns), refusal
        if refusals + 1 >= REFUSALS:
            raise self.given_up(f"Nothing was committed after {REFUSALS} tries.")
        return Observation(refusal.kind, f"{refusal}\n{advice}", ok=False, shown=refusal.shown)

    def failed_check(self) -> CheckFailed | None:
        """The error that ends the run if nothing has been changed or run since the last refusal, because a retry would
        fail again; None otherwise."""
        if self.refused is None:
            return None
        at, _ = self.refused
        reading = {tool.name for tool in (*OWN, *self.context.tools) if tool.needs == "nothing"}
        quiet = (
            reading
            | {"finish", "task", "skipped", "correction", "repeated", "unfinished", "notice"}
            | _REFUSING
        )
        for turn in self.context.state.turns[at:]:
            kind = turn.meta.get("kind")
            refused_edit = kind == EDIT and turn.meta.get("ok") == "no"
            if turn.role == "user" or (turn.role == "observation" and kind not in quiet and not refused_edit):
                return None
        return self.given_up("Nothing was committed: the model made no further change.")

    def given_up(
        self, sentence: str = "Nothing was committed: after that, the model replied without an action."
    ) -> CheckFailed:
        """The error that ends a run after a refusal."""
        from repoagent.tasks.commit import resume_hint

        assert self.refused is not None
        hint = f"Resume with `{resume_command(self.context.run_dir.name, self.context.request.kind)}`."
        if self.context.change_set.changes:
            hint = resume_hint(self.context)
        return self.refused[1].failure(f"{sentence} {hint}")
