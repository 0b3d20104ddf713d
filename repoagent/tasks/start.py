"""The turns of a run before its first model call: the prompt, and facts about the repository and the environment."""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from repoagent.agent.loop import why_skipped
from repoagent.agent.parse_reply import parse_reply
from repoagent.agent.sandbox.launch.syscalls import is_within
from repoagent.agent.sandbox.mounts import writable_roots
from repoagent.agent.state import EDIT, ENDS, OWN, QUIET, State, extra_turn, steps_of_run
from repoagent.edit.checks import preflight
from repoagent.edit.prompt.blocks import facts_block, quote_path
from repoagent.edit.request import EditRequest
from repoagent.errors import UsageError
from repoagent.git.files import is_ignored
from repoagent.git.index import read_status
from repoagent.git.transaction.plan import refuse_operation, refuse_unmerged
from repoagent.git.worktree import WorkTree, gather_facts
from repoagent.llm.conversation import Turn
from repoagent.storage.json_files import timestamp
from repoagent.storage.secrets import mask
from repoagent.tasks.changes.change_set import INDEX, names_of, paths_of, quote_unless_plain
from repoagent.tasks.changes.snapshot import settle_command
from repoagent.tasks.run_context import RunContext, RunRequest
from repoagent.tasks.sandbox import Confinement
from repoagent.uses.request_symbols import start_search

NAMES = "names"  # the kind of the turn that lists where names are defined
ENVIRONMENT = "environment"  # the kind of its turn
LISTED = 40  # names of the top folder
# Not repeated after a kill, because it is unknown how much they did.
NOT_REPEATED = frozenset({"run", "python", "delegate", "browse", "kill", "wait"})


def start_conversation(
    context: RunContext, state: State, confinement: Confinement, adopted: str = ""
) -> State:
    """Add the prompt, notices and the facts that have changed to the conversation, and record the branch. The first
    notice is `adopted`, the report on earlier subagents.

    Raises UsageError if there is neither a conversation nor a prompt.
    """
    request, tool_context = context.request, context.tool_context
    state = _with_interrupted(context, state)
    if request.prompt:
        meta = {"time": timestamp(), "run": context.run_dir.name}
        state = state.with_turn(Turn("user", mask(request.prompt), meta))
    elif not state.turns:
        raise UsageError(f'run {context.run_dir.name} has nothing to resume; use `repoagent run "PROMPT"`')
    notices = [adopted, settle_command(context.change_set)]
    if vanished := context.change_set.drop_vanished():
        notices.append(
            f"The files no longer contain your changes to {', '.join(vanished)}: someone undid them. Make "
            "them again if they are still wanted."
        )
    edited = any(turn.meta.get("kind") == EDIT and turn.meta.get("ok") == "yes" for turn in state.turns)
    if edited and not (context.change_set.folder / INDEX).exists():
        context.change_set.drop(())  # saves the change set, so that this notice appears once
        notices.append(
            "This conversation continues without its run's folder, perhaps on another machine: these files may not "
            "contain the changes it describes, and none of them count as your change. Look at the files first."
        )
    for text in filter(None, notices):
        state = state.with_turn(extra_turn("observation", mask(text), "notice"))
    earlier_names = "\n".join(turn.text for turn in state.turns if turn.meta.get("kind") == NAMES)
    known = re.findall(r"^`(.+?)`", earlier_names, re.MULTILINE)
    search = start_search(context.worktree, request.prompt, tool_context.why_not, known)
    gathered = gather_facts(context.worktree)
    context.branch = gathered.branch
    facts = [facts_block(gathered)]
    others = read_status(context.worktree).changed.keys() - paths_of(context.change_set.changes)
    if others:
        facts.append(f"the user's uncommitted work: {names_of(sorted(others))}")
    if folder := current_folder(context.worktree.top):
        relative = "all paths here are relative to the top of the repository"
        facts.append(f"the user is in the folder {quote_path(folder)}; {relative}")
    if request.worktree:
        facts.append(
            "This is a linked work tree, created for you: it does not contain files that git ignores "
            "(environments, builds)."
        )
    repository = "\n".join(["The repository now:", *facts])
    environment = environment_text(context, confinement)
    for kind, text in ((ENVIRONMENT, mask(environment)), ("repository", mask(repository))):
        earlier = [turn.text for turn in state.turns if turn.meta.get("kind") == kind]
        if not earlier or earlier[-1] != text:
            state = state.with_turn(extra_turn("observation", text, kind))
    if names := search():
        state = state.with_turn(extra_turn("observation", mask(names), NAMES))
    return state


def _with_interrupted(context: RunContext, state: State) -> State:
    """Add an observation for an interrupted action that is not repeated or, with a new prompt, was not performed."""
    all_steps = steps_of_run(state.turns)
    if not all_steps or len(all_steps[-1].observations) > len(all_steps[-1].performed):
        return state
    step = all_steps[-1]
    by_name = {tool.name: tool for tool in (*OWN, *context.tools)}
    actions = parse_reply(step.reply.text, by_name.keys(), nonce=state.nonce).actions
    waiting = actions[len(step.performed) :]
    if not waiting or why_skipped(by_name[waiting[0].kind], waiting[0], step.performed):
        return state
    if waiting[0].kind in NOT_REPEATED:
        text = (
            f"This was interrupted: the run ended during `{waiting[0].kind}`, or before it. How far it got "
            "is unknown, and its output is lost. Check, and do it again if it is still wanted."
        )
    elif context.request.prompt and waiting[0].kind not in ENDS | QUIET:
        text = "You were stopped before this was done. The user speaks now."
    else:
        return state
    return state.with_turn(Turn("observation", text, {"kind": waiting[0].kind, "ok": "no"}))


def check_can_commit(worktree: WorkTree, request: RunRequest) -> None:
    """Raise the errors that the commit at the end of a run would raise for any change: Refused during a merge or a
    rebase, UsageError without a committer, Busy while the index is locked. Does nothing for a chat, or for a run that
    commits nothing."""
    commits = not request.commit.no_commit and not request.plan_only and request.mode != "read-only"
    if request.kind != "run" or not commits:
        return
    refuse_operation(worktree)
    refuse_unmerged(read_status(worktree))
    preflight(worktree, EditRequest(request.prompt, (), commit=request.commit))


def current_folder(top: Path) -> str:
    """The current directory relative to `top`; "" at the top and outside of it."""
    try:
        folder = Path.cwd().resolve()
    except OSError:  # it was removed
        return ""
    return "/".join(folder.relative_to(top).parts) if folder.is_relative_to(top) else ""


def environment_text(context: RunContext, confinement: Confinement) -> str:
    """A text for the model about the run's environment: system, limits on commands, mode, check and the top folder.

    The names in the top folder are listed without withheld files and caches, and of ignored files only environments and
    node_modules are.
    """
    top = context.worktree.top
    tools = {tool.name for tool in context.tools}
    runs, edits = "run" in tools, EDIT in tools
    try:
        system = platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        system = platform.system()
    python = re.search(r"python(3\.\d+)$", os.path.realpath(shutil.which("python3") or ""))
    version = f", Python {python[1]}" if python else ""
    lines = [f"work tree: {quote_unless_plain(str(top))}; system: {system} ({os.uname().machine}){version}"]
    if runs:
        lines += [f"commands: {sentence}" for sentence in confined_text(confinement, context.gate.why_none)]
    gate, actions = context.gate, []
    if gate.mode == "read-only" and runs:
        lines.append("mode read-only: commands are refused unless they are known to only read")
    elif gate.mode == "auto" and runs and not gate.sandbox:
        lines.append("mode auto: commands are refused because no sandbox is available")
    elif gate.mode in ("ask", "auto-edit"):
        actions += ["each edit"] if edits and gate.mode == "ask" else []
        actions += ["each command that does more than read"] if runs else []
    if actions:
        rules = " except what their rules allow" if gate.allow else ""
        lines.append(f"mode {gate.mode}: the user is asked about {' and '.join(actions)}{rules}")
    if context.request.check and edits:
        lines.append(f"check: the run is done only when `{context.request.check}` passes")
    with os.scandir(top) as entries:
        is_folder = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
    ignored = is_ignored(context.worktree, list(is_folder))
    names = []
    for name in sorted(is_folder.keys() - {".git", ".repoagent"}, key=lambda name: (name[0] == ".", name)):
        label = f"{name}/" if is_folder[name] else name
        is_cache = os.access(top / name / "CACHEDIR.TAG", os.F_OK)
        if is_cache or context.tool_context.why_not(label) is not None:
            continue
        if name not in ignored or name == "node_modules" or os.access(top / name / "pyvenv.cfg", os.F_OK):
            names.append(label)
    lines.append(f"top folder: {names_of(names, LISTED) or 'empty'}")
    return "This run:\n" + "\n".join(lines)


def confined_text(confinement: Confinement, why_none: str = "") -> Iterator[str]:
    policy = confinement.policy
    if confinement.sandbox is None:
        yield f"not confined, with the user's rights: {why_none or 'there is no sandbox.'}"
        return
    home = os.path.realpath(Path.home())
    home_text = "" if any(is_within(home, root) for root in writable_roots(policy)) else ", HOME too,"
    *folders, last = confinement.writable()
    writable = f"{', '.join(folders)} and {last}" if folders else f"{last} only"
    network = "network" if policy.network else "no network (so no `pip install`)"
    yield (
        f"in a sandbox: {network}; they can write {writable}; all else{home_text} is read-only, "
        "including `.git`; files with secrets are hidden or empty; only the user can allow more, with `run.write` "
        "or `--network`"
    )
    yield from confinement.sandbox.narrows(policy)
