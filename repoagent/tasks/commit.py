"""Commit a run's changes: all of them at its end, or each edit immediately.

If the run's change to a file cannot be separated from the user's, the file is committed whole if the user agrees, and
not at all otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial

from repoagent.agent.approvals.policy import ApprovalRequest
from repoagent.agent.loop import message_and_notes
from repoagent.edit.commit import (
    CannotCommitNow,
    CommitOutcome,
    SentBack,
    commit,
    compose_message,
    new_edit_id,
    with_own_trailers,
)
from repoagent.edit.draft import Draft, EditSession
from repoagent.edit.memory import EditSummary, commit_and_remember
from repoagent.edit.request import Target
from repoagent.edit.review_and_commit import (
    SensitiveNotRequested,
    SensitiveRejected,
    propose_until_accepted,
    review_and_commit,
)
from repoagent.errors import Refused
from repoagent.git.file_writer import FilesChanged
from repoagent.git.files import FileChange, read_content
from repoagent.git.transaction.plan import refuse_operation
from repoagent.git.transaction.results import AlreadyCommitted, InPlace, Inseparable
from repoagent.llm.conversation import Turn
from repoagent.patch.render import canonical_diff
from repoagent.storage.secrets import mask, without_secrets
from repoagent.tasks.changes.change_set import names_of, quote_unless_plain
from repoagent.tasks.run_context import RunContext, edit_request
from repoagent.tasks.runs.directory import resume_command

TRIES = 3  # how often a file may be saved during the commit


def resume_hint(context: RunContext) -> str:
    command = resume_command(context.run_dir.name, context.request.kind)
    return f"Your files contain the change; resume with `{command}`."


def commit_run(context: RunContext, summary: str) -> CommitOutcome | None:
    """Commit the run's changes, which are already in the files; return None if nothing is left to commit. What others
    changed in the files stays uncommitted. `summary` becomes the message if the model wrote none.

    Raises SentBack if a hook fails or the user rejects something, Inseparable if a file can only be committed whole and
    the user did not agree, and Refused during a rebase or if there is no user to ask. The files keep the change in
    these cases.
    """
    change_set = context.change_set
    overlapping = frozenset() if context.request.commit.include_dirty else change_set.overlapping
    whole: frozenset[str] = frozenset()
    tries_left = TRIES
    while True:
        changes = change_set.present()
        if not changes:
            if change_set.changes:  # a rebase may have stashed them, and will restore them
                refuse_operation(context.worktree, offer=False)
            change_set.drop_vanished()
            return None
        edit_id = new_edit_id()
        try:
            for path in (change.name for change in changes):
                if path in overlapping and path not in whole:
                    raise Inseparable(
                        "you and then the run changed the same lines in "
                        f"{quote_unless_plain(path)}: use --include-dirty to commit the "
                        "whole file, commit it by hand, or undo both with `repoagent runs restore "
                        f"{context.run_dir.name} --whole`, which keeps a copy",
                        path,
                    )
            change_set.will_commit(edit_id)
            outcome = _commit(context, changes, whole, edit_id, summary)
        except FilesChanged:
            if not tries_left:
                raise
            tries_left -= 1
        except Inseparable as error:
            whole |= {_agree_to_whole(context, changes, error)}
        except AlreadyCommitted:  # the user committed it
            change_set.drop([change.name for change in change_set.changes])
            raise
        else:
            if context.request.commit.include_dirty and change_set.overlapping:
                names = names_of(sorted(change_set.overlapping))
                context.ui.say(f"note: the commit includes your own changes to {names}")
            change_set.committed(edit_id)
            return outcome


def _agree_to_whole(context: RunContext, changes: Sequence[FileChange], error: Inseparable) -> str:
    """The path of the error if the user agrees to commit the whole file; otherwise raises it again with a hint."""
    change = next((candidate for candidate in changes if candidate.name == error.path), None)
    if context.request.mode == "ask" and change is not None:
        current = read_content(context.worktree.top, change.name)
        if current is not None:
            change = replace(change, new=current)
        diff = canonical_diff([change], hash_name=context.worktree.object_format)
        if context.ui.approve(ApprovalRequest("include", diff, why=str(error).partition(":")[0])).allowed:
            return error.path
    raise Inseparable(f"{error}\n{resume_hint(context)}", error.path) from error


def _commit(
    context: RunContext, changes: tuple[FileChange, ...], whole: Collection[str], edit_id: str, summary: str
) -> CommitOutcome:
    request = context.request
    in_place = InPlace(context.change_set.others_content(changes), whole)
    accepted = _accepted(context, changes)
    unreviewed = [change for change in changes if change.name not in accepted]
    if request.mode == "ask" and unreviewed:
        diff = canonical_diff(unreviewed, hash_name=context.worktree.object_format)
        reason = "you have not accepted this change, which will be part of the commit"
        verdict = context.ui.approve(ApprovalRequest("edit", diff, why=reason))
        names = ", ".join(quote_unless_plain(change.name) for change in unreviewed)
        if verdict.by == "nobody":
            raise Refused(
                f"nothing was committed, because there is no user to ask about the change to {names}; use a terminal "
                f"or --mode auto-edit. {resume_hint(context)}"
            )
        if not verdict.allowed:
            reason = verdict.reason.rstrip(".") or "the user said no"
            raise SentBack("person", f"The user does not want the change to {names} in the commit: {reason}.")
    # a deletion needs the user's agreement, even if the mode allowed the command
    deleted = {change.name for change in changes if change.path is None} - context.deletions
    targets = tuple(Target(path) for path in accepted if path not in deleted)
    session = EditSession(
        context.worktree,
        edit_request(request, context.settings, targets),
        Draft({}, changes),
        resume_hint=resume_hint(context),
    )

    def make_commit() -> CommitOutcome:
        message = partial(_message, context, edit_id=edit_id, summary=summary)
        proposal = propose_until_accepted(session, edit_id, message, context.ui)
        return commit(session, proposal, edit_id, context.ui, in_place=in_place)

    try:
        return _with_memory(context, session, edit_id, summary, make_commit)
    except CannotCommitNow as error:
        if isinstance(cause := error.__cause__, Inseparable):
            raise Inseparable(str(cause), cause.path) from error
        raise
    except (SensitiveNotRequested, SensitiveRejected) as error:
        names = ", ".join(quote_unless_plain(path) for path in error.paths)
        raise SentBack(
            "sensitive",
            f"{error}\nThe task does not call for that: revert your change to {names}, for example with "
            f'<restore path="{error.paths[0]}"/>, and finish again; or finish and explain why it is needed.',
            str(error),
        ) from error


def _accepted(context: RunContext, changes: Sequence[FileChange]) -> list[str]:
    """The files whose change the user accepted, and which the run has not changed since."""
    names = {change.name for change in changes}
    content = {change.name: change.after for change in context.change_set.changes if change.name in names}
    return [path for path, data in context.accepted.items() if path in content and content[path] == data]


def all_accepted(context: RunContext) -> bool:
    """Whether the user has accepted all of the run's changes in their current form."""
    changes = context.change_set.present()
    accepted = _accepted(context, changes)
    unknown = context.unreviewed or context.change_set.candidates
    return not unknown and all(change.name in accepted for change in changes)


def commit_edit(context: RunContext, edit_id: str, mark: str) -> tuple[tuple[FileChange, ...], bool]:
    """Commit the draft of the edit that `mark` identifies, after the user's review. Returns its changes, and whether
    the user accepted them."""
    tool_context = context.tool_context

    def make_commit() -> CommitOutcome:
        message = partial(_message, context, edit_id=edit_id, summary="")
        return review_and_commit(tool_context, edit_id, message, context.ui)

    context.change_set.will_commit(edit_id, mark)
    outcome = _with_memory(context, tool_context, edit_id, "", make_commit)
    context.change_set.committed(edit_id, mark)
    return outcome.changes, outcome.proposal.accepted


def _with_memory(
    context: RunContext,
    session: EditSession,
    edit_id: str,
    summary: str,
    make_commit: Callable[[], CommitOutcome],
) -> CommitOutcome:
    """Commit, and add the change with the run's prompt and result to the memory of the files."""

    def story() -> EditSummary:
        message, notes = message_and_notes(context.tools, context.state)
        answer, prompt, model = mask(without_secrets(summary or message)), _prompt(context), _model(context)
        text = f"{answer or '(no words)'}\n\n(The full text is in the conversation {context.run_dir.name}.)"
        turns = (
            Turn("user", prompt, {"edit": edit_id, "run": context.run_dir.name}),
            Turn("assistant", text, {"model": model}),
        )
        meter = context.model_setup.meter
        return EditSummary(
            edit_id, prompt, turns, notes, "answered", answer, model, replace(meter.usage), meter.cost
        )

    def commit_and_report() -> CommitOutcome:
        outcome = make_commit()
        if outcome.commit is not None:
            context.commits.append(outcome.commit.commit)
            context.ui.progress("commit", {"commit": outcome.commit.commit, "edit": edit_id})
        return outcome

    return commit_and_remember(
        session, context.settings, edit_id, story, commit_and_report, say=context.ui.say
    )


def _message(context: RunContext, changes: Sequence[FileChange], edit_id: str, summary: str) -> str:
    message, _ = message_and_notes(context.tools, context.state)
    text = compose_message(message or summary, _prompt(context), context.settings.text("commit.trailer"))
    return with_own_trailers(
        text, context.worktree, context.settings, changes, edit_id=edit_id, model=_model(context)
    )


def _prompt(context: RunContext) -> str:
    """The prompt of this process, or the last one of the conversation."""
    prompts = [turn.text for turn in context.state.turns if turn.role == "user" and "extra" not in turn.meta]
    return context.request.prompt or (prompts[-1] if prompts else "")


def _model(context: RunContext) -> str:
    from repoagent.edit.model_setup import model_of_record

    return model_of_record(context.model_setup.model.spec, context.state.turns)
