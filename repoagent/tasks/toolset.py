"""Assemble the tools of a run and what they need: the gate, the command runner, skills, agent types, plugins, hooks."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path

from repoagent.agent.actions import Action, Observation
from repoagent.agent.approvals.policy import Asker, Gate, kept_rules
from repoagent.agent.approvals.rules import rules
from repoagent.agent.context_window.truncate import spilling
from repoagent.agent.exec.runner import CommandRunner
from repoagent.agent.exec.tools import command_tools
from repoagent.agent.plan.file import task_tool
from repoagent.agent.python_kernel import LOST_STATE, KernelSession, interpreter
from repoagent.agent.sandbox.backends import Landlock, why_none
from repoagent.agent.sandbox.bubblewrap import why_ended
from repoagent.agent.sandbox.policy import scrubbed
from repoagent.agent.state import EDIT, Tool
from repoagent.config.settings import Settings, user_file
from repoagent.edit.commit import new_edit_id
from repoagent.errors import RepoagentError, UsageError, install_extra
from repoagent.git.files import FileChange
from repoagent.git.process import git
from repoagent.llm.conversation import Turn
from repoagent.storage import jsonl
from repoagent.storage.atomic import write_whole
from repoagent.storage.layout import Layout
from repoagent.storage.secrets import mask
from repoagent.tasks.changes.detect import named
from repoagent.tasks.changes.revert import change_tools
from repoagent.tasks.changes.snapshot import Guard, watch
from repoagent.tasks.context import RunContext, RunRequest
from repoagent.tasks.edit_tool import write, writing_tool
from repoagent.tasks.finish import Finishing
from repoagent.tasks.hidden_files import are_blobs, unshown
from repoagent.tasks.plugins import plugin_tools
from repoagent.tasks.read_tools import output_name, reading_tools
from repoagent.tasks.refused_edit import DRAFT
from repoagent.tasks.runs.directory import RunDirectory
from repoagent.tasks.sandbox import Confinement, Explainer, hidden_paths
from repoagent.tasks.skills import Skill, find_skills, skill_places
from repoagent.tasks.subagents.types import AgentType, find_agent_types
from repoagent.tasks.user_hooks import UserHooks

SAID = 5  # withheld files that are named
Say = Callable[[str], None]


def create_gate(
    run_dir: RunDirectory, settings: Settings, request: RunRequest, place: Confinement, asker: Asker
) -> Gate:
    """The gate of this run: the person's rules, its mode, and who is asked."""
    mine = user_file(os.environ)
    unheld = request.plan_only and not place.name  # then no sandbox keeps a command from writing
    allowed = dict.fromkeys((*settings.texts("run.allow"), *kept_rules(mine), *request.allow))
    denied = dict.fromkeys((*settings.texts("run.deny"), *kept_rules(mine, "run.deny")))
    return Gate(
        "read-only" if unheld else request.mode,
        asker,
        allow=rules(allowed),
        deny=rules(denied),
        remember=partial(keep_rules, place.policy.top),
        audit=partial(_record, run_dir.layout, request.name),
        sandbox=place.name,
        why_none="the sandbox is turned off."
        if not request.confine
        else why_none()
        if not place.name
        else "",
        top=place.policy.top,
        writable=(place.policy.scratch, *place.policy.also_write),
        kept=(*place.policy.keep, *place.policy.shield),
        path=os.environ.get("PATH"),
        off_limits=place.withheld.why_not,
        withheld=place.withheld,
        blobs=partial(are_blobs, place.withheld.worktree),
    )


def command_runner(context: RunContext, place: Confinement) -> CommandRunner:
    """Where commands of this run are run."""
    env = scrubbed(os.environ, place.policy)

    @cache
    def variables() -> dict[str, str]:
        excluded = [path for path, known in place.withheld().items() if known == "excluded"]
        return unshown(context.worktree, context.run_dir.folder / "attributes", excluded, env)

    return CommandRunner(
        context.worktree.top,
        context.run_dir.output,
        env,
        context.gate,
        wrap=place.wrap,
        unshown=variables,
        why_ended=why_ended,
        seconds_left=lambda: context.model_setup.meter.seconds_left,
        watch=watch(
            context.worktree,
            context.change_set,
            context.ui.say,
            partial(_record_all, context.layout, context.run_dir.name),
            _guard(context),
        ),
        audit=partial(_record, context.layout, context.run_dir.name),
        shown_as=output_name,
        explain=Explainer(place),
        running=context.ui.running,
        timeout=context.settings.number("run.timeout"),
    )


def keep_rules(top: Path, patterns: Sequence[str]) -> None:
    """Add `patterns` to `run.allow` in the configuration of the git directory of `top`, which no clone brings along.
    Raises UsageError for a pattern of several lines, GitError where it can't be written."""
    for pattern in patterns:
        if pattern.splitlines() != [pattern]:
            raise UsageError(f"invalid rule {pattern!r}: it must be one line")
    key = "repoagent.run.allow"
    known = git(top, "config", "--local", "-z", "--get-all", key, ok=(0, 1)).split(b"\0")
    for pattern in dict.fromkeys(patterns):
        if pattern.encode("utf-8", "surrogateescape") not in known:
            git(top, "config", "--local", "--add", key, pattern, read_only=False)


def _guard(context: RunContext) -> Guard:
    from repoagent.tasks.edit_tool import write

    def agreed(paths: Sequence[str]) -> None:
        for path in paths:
            change = context.change_set.of(path)
            if change is not None:
                context.agreed[path] = change.after
        context.deletions.update(paths)

    return Guard(
        context.change_set,
        context.ui.say,
        context.ui.approve,
        lambda changes: write(context.worktree, changes, new_edit_id()),
        agreed,
        sensitive=context.request.allow_sensitive,
    )


def commands(context: RunContext, place: Confinement) -> tuple[CommandRunner, tuple[Tool, ...]]:
    """The tools `run`, `wait` and `kill`, and the shop they work in."""
    runner = command_runner(context, place)
    for sentence in place.sandbox.limits_of(place.policy) if place.sandbox is not None else ():
        context.ui.say(f"note: {sentence}")
    if context.gate.mode == "auto" and (hidden := hidden_paths(place.withheld, "shown")):
        context.ui.say(
            f"note: commands cannot see {_some(hidden)}, which are hidden from models; only those that your "
            "rules allow can."
        )
    return runner, command_tools(runner)


def python(
    context: RunContext, place: Confinement, runner: CommandRunner, turns: Sequence[Turn]
) -> KernelSession | None:
    """Where the kernel of `python` lives; None where nothing may be changed, the extra is missing, or the sandbox has
    no sockets at all. `turns` tell whether there was a kernel before."""
    if context.request.plan_only or context.gate.mode == "read-only":
        return None
    if isinstance(place.sandbox, Landlock) and not place.sandbox.mounting:
        return None
    found = interpreter(context.worktree.top, runner.env, confined=place.sandbox is not None)
    if found is None:
        return None
    last = next(
        (turn for turn in reversed(turns) if turn.meta.get("kind") == "python" or LOST_STATE in turn.text),
        None,
    )
    return KernelSession(
        runner, place.policy.scratch, found, earlier=last is not None and last.meta.get("kind") == "python"
    )


def browse_tools(context: RunContext, place: Confinement) -> tuple[Tool, ...]:
    """The tool `browse`, where the person has turned it on."""
    if not context.settings.switch("run.browse"):
        return ()
    if find_spec("trafilatura") is None:
        context.ui.say(f"note: run.browse is on, but the extra is missing; {install_extra('browse')}")
        return ()
    from repoagent.agent.web_fetch import Window, browse_tool

    reader = replace(place, policy=replace(place.policy, read_only=True, network=False))
    window = Window(
        context.gate,
        wrap=reader.wrap,
        audit=partial(_record, context.layout, context.run_dir.name),
        seconds_left=lambda: context.model_setup.meter.seconds_left,
    )
    return (browse_tool(window),)


def user_hooks(context: RunContext, place: Confinement) -> UserHooks:
    """The person's own commands around the loop: confined as the check is, for they may run the changed code."""
    settings = context.settings

    def confined(argv: Sequence[str]) -> tuple[list[str], Mapping[str, str]] | None:
        from repoagent.tasks.commit import all_seen

        return None if settings.switch("check.unconfined") or all_seen(context) else place.program(argv)

    return UserHooks(
        context.worktree.top,
        context.run_dir.name,
        settings.text_or_none("run.before_turn"),
        settings.text_or_none("run.after_edit"),
        settings.text_or_none("run.before_finish"),
        audit=partial(_record, context.layout, context.run_dir.name),
        confined=confined,
    )


def skills(context: RunContext) -> tuple[Skill, ...]:
    """The skills there are."""
    places = skill_places(
        context.worktree.top,
        context.layout.root,
        user_file(os.environ).parent,
        further=context.settings.texts("run.skills"),
        why_not=context.bench.why_not,
    )
    return find_skills(places, context.ui.say)


def agent_types(context: RunContext) -> dict[str, AgentType]:
    """The kinds of children there are; where nothing may be changed, not those that are made for changes."""
    found = find_agent_types(
        context.layout, user_file(os.environ).parent, context.ui.say, why_not=context.bench.why_not
    )
    if not (context.request.plan_only or context.gate.mode == "read-only"):
        return found
    return {name: kind for name, kind in found.items() if EDIT not in (kind.tools or ())}


def plugins(context: RunContext, taken: Sequence[Tool]) -> tuple[Tool, ...]:
    """The tools that others make."""
    return plugin_tools(
        context.worktree.top,
        context.settings.texts("run.tools"),
        taken={tool.name for tool in taken},
        decide=context.gate.decide,
        warn=context.ui.say,
        settings=context.settings.names("tool"),
        audit=partial(_record, context.layout, context.run_dir.name),
    )


def _some(paths: Sequence[str]) -> str:
    rest = len(paths) - SAID
    return ", ".join(map(named, paths[:SAID])) + (f" and {rest} more" if rest > 0 else "")


def _record_all(layout: Layout, run: str, events: Sequence[Mapping[str, object]]) -> None:
    jsonl.record_all(layout, [{"run": run, **event} for event in events])


def _record(layout: Layout, run: str, event: Mapping[str, object]) -> None:
    jsonl.record(layout, {"run": run, **event})


LONGEST = 1 << 20  # characters
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}")


def write_tool(folder: Path) -> Tool:
    """The tool `write`. `folder` is what commands have as $TMPDIR."""

    def perform(action: Action) -> Observation:
        name = action.args.get("path", "").strip()
        if not _NAME.fullmatch(name):
            return Observation(
                "write",
                f"path={name!r}: use a plain file name; this file is outside the repository. To change a "
                "file in the repository, send a patch.",
                ok=False,
            )
        if len(action.body) > LONGEST:
            return Observation("write", f"too long: at most {LONGEST:,} characters", ok=False)
        try:
            write_whole(folder / name, action.body.encode("utf-8", "replace"))
        except RepoagentError as error:
            return Observation("write", str(error), ok=False)
        return Observation("write", f"Written to $TMPDIR/{name}, for commands.")

    text = '<write path="NAME">TEXT</write> writes $TMPDIR/NAME, a scratch file that is never committed.'
    return Tool("write", text, perform)


CHANGES = frozenset({EDIT, "keep", "restore", "write"})  # what is there only where something may be changed
WHOLE = frozenset({EDIT, "read", "run", "python", "wait"})  # what bounds itself
ALWAYS = frozenset({"finish", "reject", "think", "message"})  # what no kind of agent can be without


def edit_and_read_tools(
    context: RunContext, finishing: Finishing, after_edit: Callable[[Sequence[str]], str]
) -> tuple[Tool, ...]:
    """The tools that look, write and end."""

    def write_now(changes: Sequence[FileChange]) -> None:
        write(context.worktree, changes, new_edit_id())

    found = [
        writing_tool(context, after_edit),
        *reading_tools(context),
        task_tool(context.run_dir.plan),
        *change_tools(
            context.change_set, write_now, lambda path: context.refused.withdraw() if path == DRAFT else ""
        ),
        write_tool(context.run_dir.folder / "scratch"),
        finishing.tool(),
    ]
    if context.request.plan_only or context.gate.mode == "read-only":
        found = [tool for tool in found if tool.name not in CHANGES]
    return tuple(found)


def select_tools(context: RunContext, own: Sequence[Tool], further: Sequence[Tool]) -> tuple[Tool, ...]:
    """Those of all tools that this run may use, with what they say masked, and kept in a file where it is long."""
    found = [*own, *further]
    wanted = context.request.tools
    if wanted is not None:
        found = [tool for tool in found if tool.name in wanted | ALWAYS]
    if any(tool.name == "restore" for tool in found):
        context.bench.withdraw = f'`<restore path="{DRAFT}"/>` drops the kept part.'
    return tuple(
        spilling(_masked(tool), context.run_dir.output, output_name)
        if tool.name not in WHOLE
        else _masked(tool)
        for tool in found
    )


def _masked(tool: Tool) -> Tool:
    """The tool, with keys and tokens masked in all it says."""
    if tool.name == EDIT:  # masked where its patch is unmasked
        return tool
    return replace(tool, perform=partial(_perform_masked, tool))


def _perform_masked(tool: Tool, action: Action) -> Observation:
    seen = tool.perform(action)
    return replace(seen, text=mask(seen.text), once=mask(seen.once))
