"""Commit what a run has changed: everything at its end, or each edit at once.

Where the run's change to a file cannot be separated from the user's, the file is committed whole if the user agrees, or
not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import field, replace

from repoagent.agent.approvals.policy import Asked
from repoagent.agent.loop import account
from repoagent.dataclass import dataclass
from repoagent.edit.commit import (
    CommitOutcome,
    NotNow,
    SentBack,
    commit,
    compose,
    new_edit_id,
    trailers_of,
    with_trailers,
)
from repoagent.edit.memory import Story, recorded_changes, remember_changes
from repoagent.edit.pending import pending, to_remember
from repoagent.edit.request import Draft, EditRequest, Target
from repoagent.edit.review_and_commit import Unasked, Unwanted, agreed, review_and_commit
from repoagent.errors import RepoagentError
from repoagent.git.file_writer import Moved
from repoagent.git.files import FileChange, look
from repoagent.git.process import uninterrupted
from repoagent.git.transaction.plan import refuse_operation
from repoagent.git.transaction.results import AlreadyCommitted, InPlace, Inseparable
from repoagent.git.worktree import WorkTree
from repoagent.llm.conversation import Turn
from repoagent.llm.model import Usage
from repoagent.memory.identity.record import Memory
from repoagent.memory.identity.store import resolve
from repoagent.patch.locate.exact import Placement
from repoagent.patch.render import canonical_diff
from repoagent.storage.secrets import mask, without_secrets
from repoagent.tasks.changes.detect import named
from repoagent.tasks.changes.interrupted import committed, will_commit
from repoagent.tasks.changes.revert import said_of
from repoagent.tasks.context import RunContext
from repoagent.tasks.runs.directory import resume_command

_MIXED = (
    "{file} has your changes and then the run's on the same lines: use --include-dirty to commit the whole "
    "file, commit it by hand, or undo all of it with `repoagent runs restore {name} --whole`, which keeps "
    "a copy"
)


def refuse_mixed(context: RunContext, changes: Sequence[FileChange], whole: Collection[str]) -> None:
    """Raise Inseparable where the run has changed lines again that somebody else had changed since it did; not for
    what is committed `whole`."""
    mixed = {} if context.request.commit.include_dirty else context.change_set.mixed
    for path in (change.name for change in changes):
        if path in mixed and path not in whole:
            raise Inseparable(
                _MIXED.format(file=said_of({path: mixed[path]}), name=context.run_dir.name), path
            )


def agreed_whole(
    context: RunContext, changes: Sequence[FileChange], error: Inseparable, resume_hint: str
) -> str:
    """The path of the error, where the person says that the file is to be committed as it stands.

    Raises the error with `resume_hint` where the user declines or cannot be asked: the model cannot fix it.
    """
    refusal = Inseparable(f"{error}\n{resume_hint}", error.path)
    change = next((one for one in changes if one.name == error.path), None)
    if context.request.mode != "ask" or change is None:
        raise refusal from error
    now = look(context.worktree.top, change.name)
    if now is not None:
        change = replace(change, after=now.data, mode=now.mode)
    diff = canonical_diff([change], hash_name=context.worktree.object_format)
    if not context.ui.approve(Asked("include", diff, why=str(error).partition(":")[0])).allowed:
        raise refusal from error
    return error.path


GOES_ON = "Your files contain the change; resume with `{command}`."
TRIES = 3  # how often a file may be saved in the very moment of the commit


@dataclass
class CommitContext:
    """The whole change of a run on its way into a commit; a `Bench` as `edit.landing` wants it."""

    worktree: WorkTree
    request: EditRequest
    draft: Draft
    resume_hint: str
    placements: list[Placement] = field(default_factory=list)


def commit_run(context: RunContext, said: str) -> CommitOutcome | None:
    """Commit what the run has changed, which is in the files already; None where nothing is left to commit.

    `said` is what the message is made of where the model wrote none. What somebody else has done on top of the change
    stays in the files, uncommitted. Raises SentBack when a hook says no, Inseparable when a file can be committed
    whole only and nobody wants that, and what else a commit raises; the files keep the change. Refused
    where they do not hold it now, and a rebase or the like is in progress.
    """
    whole: frozenset[str] = frozenset()
    left = TRIES
    while True:
        changes = context.change_set.present()
        if not changes:
            if context.change_set.changes:  # a rebase may have stashed them, and brings them back
                refuse_operation(context.worktree, offer=False)
            context.change_set.vanished()
            return None
        edit_id = new_edit_id()
        try:
            refuse_mixed(context, changes, whole)
            will_commit(context.change_set, edit_id)
            landed = _commit(context, changes, whole, edit_id, said)
        except Moved:
            if not left:
                raise
            left -= 1
        except Inseparable as error:
            kept = GOES_ON.format(command=resume_command(context.run_dir.name, context.request.kind))
            whole |= {agreed_whole(context, changes, error, kept)}
        except AlreadyCommitted:  # it was committed by hand
            context.change_set.drop([change.name for change in context.change_set.changes])
            raise
        else:
            if context.request.commit.include_dirty and context.change_set.mixed:
                context.ui.say(
                    f"note: the commit includes your own changes of {said_of(context.change_set.mixed)}"
                )
            committed(context.change_set, edit_id)
            return landed


def _commit(
    context: RunContext, changes: tuple[FileChange, ...], whole: Collection[str], edit_id: str, said: str
) -> CommitOutcome:
    request = context.request
    in_place = InPlace(context.change_set.theirs(changes), whole)
    if request.mode == "ask":
        _ask_about_unseen(context, changes)
    edits = EditRequest(
        request.prompt,
        tuple(map(Target, _asked_for(context, changes))),
        scope="repo",
        create=True,
        parse_check=context.settings.switch("edit.parse_check"),
        allow_sensitive=request.allow_sensitive,
        sensitive=context.settings.texts("edit.sensitive"),
        commit=request.commit,
    )
    kept = GOES_ON.format(command=resume_command(context.run_dir.name, request.kind))
    table = CommitContext(context.worktree, edits, Draft({}, changes), kept)

    def message(planned: Sequence[FileChange]) -> str:
        return _message(context, planned, edit_id, said)

    def take(memories: dict[str, Memory]) -> CommitOutcome:
        proposal = agreed(table, edit_id, message, context.ui, lambda: said)
        return commit(table, proposal, edit_id, context.ui, in_place=in_place)

    try:
        return _remembered(context, changes, edit_id, said, take)
    except NotNow as error:
        cause = error.__cause__
        if isinstance(cause, Inseparable):
            raise Inseparable(str(cause), cause.path) from error
        raise
    except (Unasked, Unwanted) as error:
        names = ", ".join(named(path) for path in error.paths)
        raise SentBack(
            "sensitive",
            f"{error}\nThat is not in the task: undo your change of {names}, for example with <restore "
            f'path="{error.paths[0]}"/>, and finish again; or finish, and say that it is needed.',
            str(error),
        ) from error


def _ask_about_unseen(context: RunContext, changes: Sequence[FileChange]) -> None:
    """What commands have changed was not shown to anybody yet. Raises SentBack when the person does not want it."""
    seen = _as_agreed(context, changes)
    unseen = [change for change in changes if change.name not in seen]
    if not unseen:
        return
    diff = canonical_diff(unseen, hash_name=context.worktree.object_format)
    why = "commands changed this, and it becomes part of the commit"
    verdict = context.ui.approve(Asked("edit", diff, why=why))
    if not verdict.allowed:
        names = ", ".join(named(change.name) for change in unseen)
        raise SentBack("person", f"The user rejected what commands changed in {names}: {verdict.reason}")


def _asked_for(context: RunContext, changes: Sequence[FileChange]) -> Iterator[str]:
    """The files whose change somebody wants: what a command has made of one since, nobody has seen; and what passed by
    the mode was no yes to a deletion."""
    gone = {change.name for change in changes if change.path is None} - context.deletions
    return (path for path in _as_agreed(context, changes) if path not in gone)


def _as_agreed(context: RunContext, changes: Sequence[FileChange]) -> list[str]:
    kept = [change for change in context.change_set.changes if change.name in {one.name for one in changes}]
    now = {change.path: change.after for change in kept if change.path is not None}
    gone = {change.old_path for change in kept if change.path is None}
    return [
        path
        for path, data in context.agreed.items()
        if (path in gone) == (data is None) and now.get(path) == data
    ]


def all_seen(context: RunContext) -> bool:
    """Whether a person has seen and accepted all that the run has changed, as it is in the files now."""
    changes = context.change_set.present()
    agreed_to = _as_agreed(context, changes)
    return not (
        context.unseen
        or context.change_set.candidates
        or any(change.name not in agreed_to for change in changes)
    )


def commit_edit(context: RunContext, edit_id: str, mark: str) -> tuple[tuple[FileChange, ...], bool]:
    """Take the draft of one edit through the person's yes into the files and a commit of its own; the changes, and
    whether a person has seen and accepted them. `mark` tells the edit from all others of the run."""
    bench = context.bench
    edits = bench.draft.edits

    def take(memories: dict[str, Memory]) -> CommitOutcome:
        return review_and_commit(
            bench, edit_id, lambda planned: _message(context, planned, edit_id, ""), context.ui, lambda: ""
        )

    will_commit(context.change_set, edit_id, mark)
    landed = _remembered(context, edits, edit_id, "", take)
    committed(context.change_set, edit_id, mark)
    return landed.changes, landed.proposal.accepted


def _remembered(
    context: RunContext,
    changes: Sequence[FileChange],
    edit_id: str,
    said: str,
    take: Callable[[dict[str, Memory]], CommitOutcome],
) -> CommitOutcome:
    """What lands with `take` goes to the memory of its files; a kill in between loses nothing."""
    enabled = context.settings.switch("memory.enabled")
    memories = _memories(context, changes) if enabled else {}
    with pending(context.worktree, edit_id, "edit") as later:
        if enabled:
            later.keep(memories, to_remember(_story(context, edit_id, said, None), changes, ()))
        landed = take(memories)
        if landed.commit is not None:
            context.commits.append(landed.commit.commit)
            context.ui.progress("commit", {"commit": landed.commit.commit, "edit": edit_id})
        with uninterrupted():
            try:
                if enabled:
                    story = _story(context, edit_id, said, landed)
                    limit = context.settings.whole("memory.limit")
                    remember_changes(context.worktree, story, recorded_changes(landed), memories, limit=limit)
            except (RepoagentError, OSError) as error:
                context.ui.say(
                    f"warning: could not add this change to the memory ({error}); the next command tries "
                    "again"
                )
            else:
                later.drop()
    return landed


def _message(context: RunContext, changes: Sequence[FileChange], edit_id: str, said: str) -> str:
    from repoagent.edit.edit_log import model_of_record

    state = context.state
    words, _ = account(context.tools, state)
    asked = context.request.prompt or _asked(state.turns)
    text = compose(words or said, asked, context.settings.text("commit.trailer"))
    who = model_of_record(context.model_setup.model.spec, state.turns)
    trailers = trailers_of(context.worktree, context.settings, who, edit_id, changes)
    return with_trailers(text, trailers, context.worktree.top)


def _story(context: RunContext, edit_id: str, said: str, landed: CommitOutcome | None) -> Story:
    """The run as each of its files remembers it: what was asked, and what came of it."""
    from repoagent.edit.edit_log import model_of_record

    state = context.state
    words, notes = account(context.tools, state)
    who = model_of_record(context.model_setup.model.spec, state.turns)
    asked = context.request.prompt or _asked(state.turns)
    answer = mask(without_secrets(said or words))
    told = (answer or "(no words)") + f"\n\n(The full text is in the conversation {context.run_dir.name}.)"
    turns = (
        Turn("user", asked, {"edit": edit_id, "run": context.run_dir.name}),
        Turn("assistant", told, {"model": who}),
    )
    usage = replace(context.model_setup.meter.usage) if landed is not None else Usage()
    cost = context.model_setup.meter.cost
    return Story(edit_id, asked, turns, notes, "answered", answer, landed, who, usage, cost)


def _asked(turns: Sequence[Turn]) -> str:
    asked = [turn.text for turn in turns if turn.role == "user" and "extra" not in turn.meta]
    return asked[-1] if asked else ""


def _memories(context: RunContext, changes: Sequence[FileChange]) -> dict[str, Memory]:
    """The memory of each file as it is now; of one that is renamed or gone, as far as it is still known by its path."""
    found = {}
    for change in changes:
        path, data = change.old_path, change.before
        if path is None or data is None:
            continue
        here = context.worktree.top / path
        present = here.read_bytes() if here.is_file() and not here.is_symlink() else data
        memory = resolve(context.layout, context.worktree, path, present)
        if memory is not None:
            found[path] = memory
    return found
