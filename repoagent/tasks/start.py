"""How a run starts: its context, and what its conversation says before the first call."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from repoagent.agent.loop import why_skipped
from repoagent.agent.protocol import parse
from repoagent.agent.state import EDIT, ENDS, OWN, QUIET, State, Tool, beside, steps
from repoagent.config.settings import Settings
from repoagent.edit.checks import preflight
from repoagent.edit.guards.scope import gate
from repoagent.edit.model_setup import ModelSetup, attachments
from repoagent.edit.request import Draft, EditRequest
from repoagent.edit.tools import ToolContext, read_limit
from repoagent.errors import UsageError
from repoagent.git.facts import current_branch, gather_facts, unmerged
from repoagent.git.index import Status, read_status
from repoagent.git.transaction.plan import refuse_operation, refuse_unmerged
from repoagent.git.worktree import WorkTree
from repoagent.llm.conversation import Turn
from repoagent.storage.jsonl import now
from repoagent.storage.secrets import mask
from repoagent.tasks.changes.change_set import open_change_set
from repoagent.tasks.changes.interrupted import interrupted, settle_commit
from repoagent.tasks.context import RunContext, RunInterface, RunRequest
from repoagent.tasks.prompt import ENVIRONMENT, environment_text, repository_text
from repoagent.tasks.runs.directory import RunDirectory
from repoagent.tasks.sandbox import Confinement
from repoagent.tasks.toolset import create_gate
from repoagent.uses.request_symbols import locate

NAMES = "names"  # the kind of the turn that says where names are defined
# What is not done again after a kill without a word: nobody knows how far it came.
ACTS = frozenset({"run", "python", "delegate", "browse", "kill", "wait"})


def create_context(  # noqa: PLR0917  (what a run is made of)
    worktree: WorkTree,
    request: RunRequest,
    settings: Settings,
    ui: RunInterface,
    ready: ModelSetup,
    run_dir: RunDirectory,
    place: Confinement,
) -> RunContext:
    """The desk of a run; what it has changed before is on it."""
    edits = EditRequest(
        request.prompt,
        (),
        scope="repo",
        create=True,
        parse_check=settings.switch("edit.parse_check"),
        allow_sensitive=request.allow_sensitive,
        sensitive=settings.texts("edit.sensitive"),
        commit=request.commit,
    )
    form = ready.form.form if ready.form.form in ("diff", "search") else "diff"
    bench = ToolContext(
        worktree, edits, Draft({}), set(), gate(worktree.top, ()),
        form=form, read_limit=read_limit(ready.context_tokens), resume_hint="",
        conversation=run_dir.conversation, attachments=attachments(ready, run_dir.output), drafts=True,
    )  # fmt: skip
    approval = create_gate(run_dir, settings, request, place, ui.approve)
    change_set = open_change_set(worktree, run_dir.changes)
    made = settle_commit(change_set)
    commits = [made] if made is not None else []
    return RunContext(
        worktree, run_dir.layout, settings, request, ready, ui, run_dir, change_set, bench, approval,
        commits=commits, branch=current_branch(worktree), unseen=bool(change_set.changes or commits),
    )  # fmt: skip


def start_conversation(context: RunContext, state: State, place: Confinement, adopted: str = "") -> State:
    """The state with what the person says, and what there is to know of the repository and of `place`, where that has
    changed; before that, what was `adopted` of children.

    Raises UsageError where there is neither a conversation nor a prompt.
    """
    request = context.request
    state = _with_interrupted(state, context.tools, anew=bool(request.prompt))
    if request.prompt:
        meta = {"time": now(), "run": context.run_dir.name}
        state = state.with_turn(Turn("user", mask(request.prompt), meta))
    elif not state.turns:
        raise UsageError(f'nothing to resume in {context.run_dir.name}; use repoagent run "PROMPT"')
    for said in (adopted, *_meanwhile(context, state)):
        if not said:
            continue
        state = state.with_turn(beside("observation", mask(said), "notice"))
    located = _locating(context, state)
    own = {name for change in context.change_set.changes for name in (change.path, change.old_path)}
    repository = repository_text(
        gather_facts(context.worktree),
        sorted(path for path in read_status(context.worktree).changed if path not in own),
        linked=bool(request.worktree),
        inside=current_folder(context.worktree.top),
    )
    for kind, text in (
        (ENVIRONMENT, mask(environment_text(context, place))),
        ("repository", mask(repository)),
    ):
        told = [turn.text for turn in state.turns if turn.meta.get("kind") == kind]
        if not told or told[-1] != text:
            state = state.with_turn(beside("observation", text, kind))
    if names := located():
        state = state.with_turn(beside("observation", mask(names), NAMES))
    return state


def _locating(context: RunContext, state: State) -> Callable[[], str]:
    """Begins to look where the names of the prompt are defined, but for those of which it was said before."""
    told = "\n".join(turn.text for turn in state.turns if turn.meta.get("kind") == NAMES)
    known = re.findall(r"^`(.+?)`: ", told, re.MULTILINE)
    return locate(context.worktree, context.request.prompt, context.bench.why_not, known)


def _meanwhile(context: RunContext, state: State) -> list[str]:
    """What became of the files since the run was last at work, as far as it is about its own change."""
    said = [interrupted(context.change_set)]
    if gone := context.change_set.vanished():
        said.append(
            f"The files no longer contain your changes of {', '.join(gone)}: someone undid them. Make them "
            "again if they are still wanted."
        )
    edited = any(turn.meta.get("kind") == EDIT and turn.meta.get("ok") == "yes" for turn in state.turns)
    if edited and not context.change_set.is_kept:
        context.change_set.drop(())  # so that it is said once
        said.append(
            "This conversation continues without the folder of its run, perhaps on another machine: these "
            "files may not contain the changes it describes, and none of them count as your change. Look "
            "at the files first."
        )
    return said


def first_words(state: State) -> str:
    """What the person asked for first: a recording of the run goes by it."""
    return next((turn.text for turn in state.turns if turn.role == "user"), "")


def _with_interrupted(state: State, tools: Sequence[Tool], *, anew: bool) -> State:
    """The state of a run that was killed while it did something that is not to be done again unasked; or, when the
    person speaks `anew`, that was stopped before it did what its reply says."""
    found = steps(state.turns)
    if not found or len(found[-1].observations) > len(found[-1].performed):
        return state
    step = found[-1]
    by_name = {tool.name: tool for tool in (*OWN, *tools)}
    actions = parse(step.reply.text, by_name.keys(), nonce=state.nonce).actions
    waiting = actions[len(step.performed) :]
    if not waiting or why_skipped(by_name[waiting[0].kind], waiting[0], step.performed):
        return state
    if waiting[0].kind in ACTS:
        text = (
            f"This was interrupted: the run ended during `{waiting[0].kind}`, or before it. How far it got "
            "is unknown, and its output is lost. Check, and do it again if it is still wanted."
        )
    elif anew and waiting[0].kind not in ENDS | QUIET:
        text = "You were stopped before this was done. The user speaks now."
    else:
        return state
    return state.with_turn(Turn("observation", text, {"kind": waiting[0].kind, "ok": "no"}))


def check_can_commit(worktree: WorkTree, request: RunRequest) -> None:
    """Raise what the commit would raise in the end whatever the change is: Refused in the middle of a merge or a
    rebase, UsageError where git does not know who commits, Busy while another program holds the index.

    A chat, and a run that commits nothing, is free to begin.
    """
    commits = not request.commit.no_commit and not request.plan_only and request.mode != "read-only"
    if request.kind != "run" or not commits:
        return
    refuse_operation(worktree)
    refuse_unmerged(Status(None, None, {}, unmerged(worktree)))
    preflight(worktree, EditRequest(request.prompt, (), commit=request.commit))


def current_folder(top: Path) -> str:
    """The folder that the person is in, from the top of the work tree; "" at the top and outside of it."""
    try:
        here = os.path.relpath(os.path.realpath(Path.cwd()), os.path.realpath(top))
    except OSError:  # it was removed under us
        return ""
    outside = here in {os.curdir, os.pardir} or here.startswith(os.pardir + os.sep)
    return "" if outside else here
