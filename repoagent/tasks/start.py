"""Start or resume the conversation of a run: the turns before the first model call."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from repoagent.agent.loop import why_skipped
from repoagent.agent.parse_reply import parse
from repoagent.agent.state import EDIT, ENDS, OWN, QUIET, State, Tool, extra_turn, steps
from repoagent.edit.checks import preflight
from repoagent.edit.request import EditRequest
from repoagent.errors import UsageError
from repoagent.git.facts import gather_facts, unmerged
from repoagent.git.index import Status, read_status
from repoagent.git.transaction.plan import refuse_operation, refuse_unmerged
from repoagent.git.worktree import WorkTree
from repoagent.llm.conversation import Turn
from repoagent.storage.json_files import now
from repoagent.storage.secrets import mask
from repoagent.tasks.changes.change_set import paths_of
from repoagent.tasks.changes.interrupted import settle_command
from repoagent.tasks.prompt import ENVIRONMENT, environment_text, repository_text
from repoagent.tasks.run_context import RunContext, RunRequest
from repoagent.tasks.sandbox import Confinement
from repoagent.uses.request_symbols import start_search

NAMES = "names"  # the kind of the turn that lists where names are defined
# Not repeated after a kill, because it is unknown how much they did.
NOT_REPEATED = frozenset({"run", "python", "delegate", "browse", "kill", "wait"})


def start_conversation(
    context: RunContext, state: State, confinement: Confinement, adopted: str = ""
) -> State:
    """The state with the prompt, and with facts about the repository and the run that have changed; before these,
    `adopted`, the report on earlier sub-agents.

    Raises UsageError if there is neither a conversation nor a prompt.
    """
    request, tool_context = context.request, context.tool_context
    state = _with_interrupted(state, context.tools, has_prompt=bool(request.prompt))
    if request.prompt:
        meta = {"time": now(), "run": context.run_dir.name}
        state = state.with_turn(Turn("user", mask(request.prompt), meta))
    elif not state.turns:
        raise UsageError(f'nothing to resume in {context.run_dir.name}; use repoagent run "PROMPT"')
    for text in filter(None, (adopted, *_since_last_process(context, state))):
        state = state.with_turn(extra_turn("observation", mask(text), "notice"))
    earlier_names = "\n".join(turn.text for turn in state.turns if turn.meta.get("kind") == NAMES)
    known = re.findall(r"^`(.+?)`", earlier_names, re.MULTILINE)
    search = start_search(context.worktree, request.prompt, tool_context.why_not, known)
    changed_by_run = paths_of(context.change_set.changes)
    repository = repository_text(
        gather_facts(context.worktree),
        sorted(read_status(context.worktree).changed.keys() - changed_by_run),
        linked=bool(request.worktree),
        inside=current_folder(context.worktree.top),
    )
    environment = environment_text(context, confinement)
    for kind, text in ((ENVIRONMENT, mask(environment)), ("repository", mask(repository))):
        earlier = [turn.text for turn in state.turns if turn.meta.get("kind") == kind]
        if not earlier or earlier[-1] != text:
            state = state.with_turn(extra_turn("observation", text, kind))
    if names := search():
        state = state.with_turn(extra_turn("observation", mask(names), NAMES))
    return state


def _since_last_process(context: RunContext, state: State) -> list[str]:
    """Notices about what happened to the run's changes since its last process."""
    change_set = context.change_set
    texts = [settle_command(change_set)]
    if vanished := change_set.drop_vanished():
        texts.append(
            f"The files no longer contain your changes of {', '.join(vanished)}: someone undid them. Make them "
            "again if they are still wanted."
        )
    edited = any(turn.meta.get("kind") == EDIT and turn.meta.get("ok") == "yes" for turn in state.turns)
    if edited and not change_set.is_stored:
        change_set.drop(())  # saves the change set, so that this notice appears once
        texts.append(
            "This conversation continues without the folder of its run, perhaps on another machine: these "
            "files may not contain the changes it describes, and none of them count as your change. Look "
            "at the files first."
        )
    return texts


def _with_interrupted(state: State, tools: Sequence[Tool], *, has_prompt: bool) -> State:
    """The state, with an observation for an interrupted action that is not repeated; or, if there is a new prompt, for
    an action that was not performed."""
    all_steps = steps(state.turns)
    if not all_steps or len(all_steps[-1].observations) > len(all_steps[-1].performed):
        return state
    step = all_steps[-1]
    by_name = {tool.name: tool for tool in (*OWN, *tools)}
    actions = parse(step.reply.text, by_name.keys(), nonce=state.nonce).actions
    waiting = actions[len(step.performed) :]
    if not waiting or why_skipped(by_name[waiting[0].kind], waiting[0], step.performed):
        return state
    if waiting[0].kind in NOT_REPEATED:
        text = (
            f"This was interrupted: the run ended during `{waiting[0].kind}`, or before it. How far it got "
            "is unknown, and its output is lost. Check, and do it again if it is still wanted."
        )
    elif has_prompt and waiting[0].kind not in ENDS | QUIET:
        text = "You were stopped before this was done. The user speaks now."
    else:
        return state
    return state.with_turn(Turn("observation", text, {"kind": waiting[0].kind, "ok": "no"}))


def check_can_commit(worktree: WorkTree, request: RunRequest) -> None:
    """Raise the errors that the commit at the end would raise for any change: Refused during a merge or a rebase,
    UsageError without a committer, Busy while the index is locked. Not for a chat, or a run that commits nothing."""
    commits = not request.commit.no_commit and not request.plan_only and request.mode != "read-only"
    if request.kind != "run" or not commits:
        return
    refuse_operation(worktree)
    refuse_unmerged(Status(None, None, {}, unmerged(worktree)))
    preflight(worktree, EditRequest(request.prompt, (), commit=request.commit))


def current_folder(top: Path) -> str:
    """The current directory, relative to the top of the work tree; "" at the top and outside of it."""
    try:
        folder = os.path.relpath(os.path.realpath(Path.cwd()), os.path.realpath(top))
    except OSError:  # it was removed
        return ""
    outside = folder in {os.curdir, os.pardir} or folder.startswith(os.pardir + os.sep)
    return "" if outside else folder
