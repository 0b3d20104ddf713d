"""The tool `finish`: a run ends when its plan is done, the check and the user's hooks pass, and the commit is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from repoagent.agent.actions import Action, Observation
from repoagent.agent.plan.file import open_tasks, plan_news, read_plan
from repoagent.agent.state import EDIT, OWN, State, Tool, is_beside
from repoagent.dataclass import dataclass
from repoagent.errors import CheckFailed, NothingDone, Refused
from repoagent.git.facts import current_branch, operation
from repoagent.llm.conversation import Turn
from repoagent.llm.model import fence
from repoagent.storage.atomic import set_aside
from repoagent.storage.secrets import without_secrets
from repoagent.tasks.changes.detect import named
from repoagent.tasks.context import RunContext
from repoagent.tasks.runs.directory import resume_command
from repoagent.tasks.runs.inbox import unread
from repoagent.tasks.sandbox import Confinement
from repoagent.tasks.uncommitted import remaining_changes
from repoagent.tasks.user_hooks import UserHooks

if TYPE_CHECKING:
    from repoagent.edit.checks import CheckResult
    from repoagent.edit.commit import CommitOutcome, SentBack


def repair_plan(context: RunContext) -> None:
    """Set a plan aside that can't be read, say so, and make it again of the conversation."""
    file = context.run_dir.plan
    try:
        read_plan(file)
    except Refused as error:
        try:
            kept = set_aside(file)
        except FileNotFoundError:  # somebody has put it right just now
            return
        context.ui.say(
            f"warning: {error}; kept it as {kept.name}, and rebuilt the plan from the conversation"
        )
        state = context.state
        plan_news(file, state.turns, [tool.name for tool in context.tools], state.nonce)


REFUSALS = (
    3  # of the check, a hook, a command before the end or a sensitive file, after which the run has failed
)
REFUSED_EDIT = "refused_edit"  # the reason of a finish that was sent back
NO = frozenset({"check", "hook", "before_finish", "sensitive"})


@dataclass
class Finishing:
    """What `finish` needs beyond the desk. `landed` is what it has committed."""

    context: RunContext
    around: UserHooks
    place: Confinement
    landed: CommitOutcome | None = None
    check: CheckResult | None = None  # the one that passed
    # of the last time that a check or the like said no to this process: the turns until then, and what was said
    refused: tuple[int, SentBack] | None = None

    def tool(self) -> Tool:
        done = "what was done, and how it was checked"
        if self.context.request.plan_only:
            done = "the plan in a few sentences, and what is uncertain in it"
        elif self.context.gate.mode == "read-only":
            done = "the answer, and the evidence for it"
        text = f'<finish>{done}</finish> ends the task; open="why" if planned tasks stay open.'
        return Tool("finish", text, self.perform, needs="all")

    def perform(self, action: Action) -> Observation:
        from repoagent.edit.commit import SentBack, commit_remarks
        from repoagent.tasks.commit import commit_run

        context = self.context
        said = action.body.strip()
        if unread(context.run_dir):
            text = "The user has sent a message; read it first."
            return Observation("finish", text, ok=False, shown="")
        repair_plan(context)
        open_ = open_tasks(context.run_dir.plan)
        if open_ and not action.args.get("open", "").strip() and not context.request.plan_only:
            names = "; ".join(f"{task.id} {task.title}" for task in open_)
            return Observation(
                "finish",
                f'Tasks of the plan are open: {names}. Do them, set their state, or finish with open="why".',
                ok=False,
                shown=f"tasks of the plan are open: {names}",
            )
        if context.request.plan_only:
            return Observation("finish", said, final=True)
        if forgotten := self._unmentioned() or self._refused_edit():
            return forgotten
        if failed := self.failed_check():
            raise failed
        if context.bench.missing:
            context.ui.say(
                "note: part of the model's last edit was refused, so none of that edit was written"
            )
            return Observation("finish", said, final=True)
        for refuse in (self._checked, self._agreed):
            if refusal := refuse():
                return refusal
        self._what_became_of_it()
        if context.refused.is_missing and context.change_set.changes:
            context.ui.say(
                "note: the model's last edit was refused and not sent again; the change does not include it"
            )
        try:
            self.landed = commit_run(context, said) if may_commit(context) else None
            made = self.landed.commit if self.landed is not None else None
            for remark in commit_remarks(made) if made is not None else ():
                context.ui.say(f"note: {remark}")
        except SentBack as error:
            return self._refusal(error, "Nothing was committed; your files contain the change.")
        except NothingDone as error:
            context.ui.note(str(error))
        why = action.args.get("open", "").strip()
        return Observation("finish", said + (f"\n\nStill open: {why}" if open_ and why else ""), final=True)

    def _what_became_of_it(self) -> None:
        """What else was done meanwhile to the files that the run has changed, and to the branch; nothing in the middle
        of a rebase or the like, which refuses the commit, and has stashed the change, maybe."""
        context = self.context
        if operation(context.worktree) not in (None, "bisect"):
            return
        found = remaining_changes(context.worktree, context.change_set)
        for sentence in found.sentences():
            context.ui.say(sentence)
        if found.held:  # to take it back is not the run's any more
            context.change_set.drop(found.held)
        branch = current_branch(context.worktree)
        if branch != context.branch and found.left and may_commit(context):
            where = f"the branch {branch}" if branch else "no branch (detached HEAD)"
            context.ui.say(f"note: you checked out another branch during the run; its commit is on {where}")

    def _unmentioned(self) -> Observation | None:
        """Once: which files that commands made are no part of the change."""
        made = [
            named(change.name) for change in self.context.change_set.candidates if change.after is not None
        ]
        told = any("kept_out" in turn.meta.get("reasons", "") for turn in self.context.state.turns)
        if not made or told:
            return None
        rest = f" and {len(made) - 20} more" if len(made) > 20 else ""
        text = (
            f"Files that your commands created are not in the commit: {', '.join(made[:20])}{rest}. Use "
            '<keep path="FILE"/> for those that belong to the change, then finish again.'
        )
        return Observation("finish", text, ok=False, data={"reasons": ["kept_out"]}, shown="")

    def _refused_edit(self) -> Observation | None:
        """Once: that the last edit was refused, or a part of it, so that what it was for is not there."""
        bench, turns = self.context.bench, turns_since_user(self.context.state)
        if bench.missing:  # said of each such edit
            turns = turns[max(at for at, turn in enumerate(turns) if turn.meta.get("kind") == EDIT) :]
            text = f"Your edit is incomplete. {bench.still_missing}"
        elif self.context.refused.is_missing:
            text = (
                "Your last edit was refused, and nothing has changed since, so the files do not contain "
                "it. Send it again, corrected; if it is not needed, finish again."
            )
        else:
            return None
        if any(REFUSED_EDIT in turn.meta.get("reasons", "") for turn in turns):
            return None
        return Observation("finish", text, ok=False, data={"reasons": [REFUSED_EDIT]}, shown="")

    def failed_check(self) -> CheckFailed | None:
        """The end of a run whose check, hook or command before the end said no, and that has changed and run nothing
        since: it would say the same again."""
        if self.refused is None:
            return None
        at, _ = self.refused
        looks = {tool.name for tool in (*OWN, *self.context.tools) if tool.needs == "nothing"}
        quiet = looks | {"finish", "task", "skipped", "correction", "repeated", "unfinished"} | NO
        for turn in self.context.state.turns[at:]:
            kind = turn.meta.get("kind")
            if turn.role == "user" or (
                turn.role == "observation" and kind not in quiet and not _is_refused(turn)
            ):
                return None
        return self.given_up("the model changed nothing afterwards")

    def given_up(self, why: str = "the model answered with words only afterwards") -> CheckFailed:
        """The end of a run after a check, hook or command that said no."""
        assert self.refused is not None
        return self.refused[1].failure(f"Nothing was committed: {why}. {self._kept()}")

    def _checked(self) -> Observation | None:
        command = self.context.request.check
        if not command:
            return None
        from repoagent.edit.checks import Check, run_check
        from repoagent.tasks.commit import all_seen

        context = self.context
        check = Check(
            command,
            context.settings.number_or_none("check.timeout"),
            lambda _top, _scratch, argv: self.place.program(argv),
        )
        if context.settings.switch("check.unconfined"):
            check = replace(check, confine=None)
        result = run_check(check, context.worktree, accepted=all_seen(context), running=context.ui.running)
        if result.passed:
            self.check = result
            return None
        return self._refusal(_failure(result, str(context.worktree.top)), "Fix it, then finish again.")

    def _agreed(self) -> Observation | None:
        from repoagent.edit.commit import SentBack

        said = self.around.before_finish([change.name for change in self.context.change_set.changes])
        return (
            None if said.ok else self._refusal(SentBack("before_finish", said.text), "Nothing was committed.")
        )

    def _refusal(self, setback: SentBack, advice: str) -> Observation:
        """Goes to the model with what it is to do; the third one ends the run."""
        if refusals(self.context.state) + 1 >= REFUSALS:
            raise setback.failure(f"Nothing was committed after {REFUSALS} tries. {self._kept()}")
        self.refused = len(self.context.state.turns), setback
        return Observation(setback.kind, f"{setback}\n{advice}", ok=False, shown=setback.shown)

    def _kept(self) -> str:
        """How the run is resumed, and what holds its change."""
        from repoagent.tasks.commit import GOES_ON

        command = resume_command(self.context.run_dir.name, self.context.request.kind)
        return (
            GOES_ON.format(command=command)
            if self.context.change_set.changes
            else f"Resume with `{command}`."
        )


def refusals(state: State) -> int:
    """How often the end was refused since the user spoke last."""
    return sum(
        turn.role == "observation" and turn.meta.get("kind") in NO and turn.meta.get("ok") == "no"
        for turn in turns_since_user(state)
    )


def turns_since_user(state: State) -> Sequence[Turn]:
    """The turns since the user spoke last, but for messages."""
    said = [at for at, turn in enumerate(state.turns) if turn.role == "user" and not is_beside(turn)]
    return state.turns[said[-1] :] if said else state.turns


def _is_refused(turn: Turn) -> bool:
    return turn.meta.get("kind") == EDIT and turn.meta.get("ok") == "no"


def _failure(result: CheckResult, top: str) -> SentBack:
    from repoagent.edit.commit import SentBack

    output = result.excerpt().replace(f"{top}/", "").rstrip()
    sentence = f"The check `{without_secrets(result.command)}` {result.how}. {result.advice}".rstrip()
    text = f"{sentence} Its output:\n{fence(output, 'output')}\nNothing was committed."
    return SentBack("check", text, sentence, output)


def may_commit(context: RunContext) -> bool:
    """Whether the end of this run makes a commit: one that was begun in another mode may have changed something."""
    return not context.request.commit.no_commit and context.gate.mode != "read-only"


def unfinished_work(context: RunContext) -> Sequence[str]:
    """What speaks against ending with words alone."""
    found = []
    repair_plan(context)
    if context.change_set.changes and may_commit(context):
        found.append("you have changed files and not finished")
    if context.bench.missing:
        found.append(f"your edit is incomplete (missing: {'; '.join(context.bench.missing.values())})")
    elif context.refused.is_missing:
        found.append("your last edit was refused and nothing has changed since")
    if open_tasks(context.run_dir.plan) and not context.request.plan_only:
        found.append("tasks of the plan are open")
    return found
