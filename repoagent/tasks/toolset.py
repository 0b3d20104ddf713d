"""Assemble the tools of a run and what they need: the gate, the command runner, skills, agent types, plug-ins and
hooks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path

from repoagent.agent.actions import Action, Observation
from repoagent.agent.approvals.policy import Asker, Gate, user_rules
from repoagent.agent.approvals.rules import HiddenFiles, parse_rules
from repoagent.agent.context_window.shorten_text import spill_long_results
from repoagent.agent.exec.tools import CommandRunner
from repoagent.agent.plan import task_tool
from repoagent.agent.python_tool import KernelSession, find_interpreter
from repoagent.agent.sandbox.confine import why_ended, why_no_sandbox
from repoagent.agent.sandbox.policy import scrub_environment
from repoagent.agent.state import EDIT, Tool
from repoagent.config.settings import Settings, user_file
from repoagent.dataclass import dataclass
from repoagent.errors import UsageError, install_extra
from repoagent.git.process import git
from repoagent.llm.model import Part
from repoagent.storage import json_files
from repoagent.storage.secrets import mask
from repoagent.tasks.agent_types import agent_types_block, find_agent_types
from repoagent.tasks.changes.change_set import names_of
from repoagent.tasks.changes.command_watch import CommandWatch
from repoagent.tasks.file_tools import change_tools, output_name, reading_tools, scratch_tool, writing_tool
from repoagent.tasks.finish import FinishTool
from repoagent.tasks.run_context import RunContext, RunRequest
from repoagent.tasks.runs.directory import RunDirectory
from repoagent.tasks.sandbox import Confinement, are_blobs, hidden_paths, hiding_variables
from repoagent.tasks.skills import find_skills, skill_folders, skill_tool, skills_block
from repoagent.tasks.subagents import SubagentPool, delegate_tools
from repoagent.tasks.user_programs import EVENTS, UserHooks, plugin_tools

CHANGING = frozenset({EDIT, "keep", "restore", "write"})  # absent in a read-only run
BOUNDED = frozenset({EDIT, "read", "run", "python", "wait"})  # limit their output themselves
ALWAYS = frozenset({"finish", "reject", "think", "message"})  # every agent type has them


def create_gate(
    run_dir: RunDirectory, settings: Settings, request: RunRequest, confinement: Confinement, asker: Asker
) -> Gate:
    configuration = user_file(os.environ)
    policy, hidden = confinement.policy, confinement.hidden
    reason = "" if confinement.name else why_no_sandbox() if request.confine else "the sandbox is turned off."
    allow = (*settings.texts("run.allow"), *user_rules(configuration), *request.allow, *request.always)
    deny = (*settings.texts("run.deny"), *user_rules(configuration, "run.deny"))
    return Gate(
        # without a sandbox, nothing prevents a command of a plan-only run from writing
        "read-only" if request.plan_only and not confinement.name else request.mode,
        asker,
        allow=parse_rules(dict.fromkeys(allow)),
        deny=parse_rules(dict.fromkeys(deny)),
        added=request.always,
        remember=partial(keep_rules, policy.top),
        audit=lambda event: json_files.record(run_dir.layout, {"run": request.name, **event}),
        sandbox=confinement.name,
        why_none=reason,
        hidden=HiddenFiles(policy.top, hidden.why_not, hidden, partial(are_blobs, hidden.worktree)),
        writable=(policy.scratch, *policy.also_write),
        protected=(*policy.keep, *policy.shield),
        path=os.environ.get("PATH"),
    )


def keep_rules(top: Path, patterns: Sequence[str]) -> None:
    """Add `patterns` to `run.allow` in the local git configuration, which clones do not copy. Raises UsageError for a
    pattern of several lines, GitError if the configuration cannot be written."""
    key = "repoagent.run.allow"
    known = git(top, "config", "--local", "-z", "--get-all", key, ok=(0, 1)).split(b"\0")
    for pattern in dict.fromkeys(patterns):
        if pattern.splitlines() != [pattern]:
            raise UsageError(f"invalid rule {pattern!r}: it must be one line")
        if pattern.encode("utf-8", "surrogateescape") not in known:
            git(top, "config", "--local", "--add", key, pattern, read_only=False)


@dataclass
class Toolset:
    """The tools of a run, the parts of the prompt about them, and the objects that they depend on. Each of `notices`
    returns reports on background work that has ended since its last call."""

    tools: tuple[Tool, ...]
    parts: list[Part]
    hooks: UserHooks
    finishing: FinishTool
    notices: Sequence[Callable[[], Iterable[str]]]


def create_toolset(context: RunContext, confinement: Confinement, stack: ExitStack) -> Toolset:
    """Create the tools. `stack` closes what they open."""
    request, settings, tool_context = context.request, context.settings, context.tool_context
    top, say = context.worktree.top, context.ui.say
    read_only = request.plan_only or context.gate.mode == "read-only"
    hooks = _user_hooks(context, confinement)
    user_folder = user_file(os.environ).parent
    further = settings.texts("run.skills")
    folders = skill_folders(top, context.layout.root, user_folder, further, tool_context.why_not)
    skills = find_skills(folders, say)
    runner = _command_runner(context, confinement)
    stack.callback(runner.close)
    finishing = FinishTool(context, hooks, confinement)
    notices: list[Callable[[], Iterable[str]]] = [runner.notices]

    def after_edit(paths: Sequence[str]) -> str:
        if hooks.commands["after_edit"] is None:
            return ""
        changed_since = runner.look()
        text = hooks("after_edit", context.model_setup.meter.attempts, paths).text
        return "\n".join(filter(None, [text, changed_since()]))

    def watched(tool: Tool) -> Tool:
        """Wrap a plug-in so that it reports the files it changes, as a command does."""

        def perform(action: Action) -> Observation:
            changed_since = runner.look()
            observation = tool.perform(action)
            return replace(observation, text="\n".join(filter(None, [observation.text, changed_since()])))

        return replace(tool, perform=perform)

    def limited(tool: Tool) -> Tool:
        """Wrap a tool so that it masks secrets, and writes the rest of a long output to a file. `edit` masks its own
        text."""

        def perform(action: Action) -> Observation:
            observation = tool.perform(action)
            return replace(observation, text=mask(observation.text), once=mask(observation.once))

        masked = tool if tool.name == EDIT else replace(tool, perform=perform)
        if tool.name in BOUNDED:
            return masked
        return spill_long_results(masked, context.run_dir.output, output_name)

    tools = [
        writing_tool(context, after_edit),
        *reading_tools(context),
        task_tool(context.run_dir.plan),
        *change_tools(context),
        scratch_tool(context.run_dir.scratch),
        finishing.tool(),
    ]
    tools = [tool for tool in tools if not (read_only and tool.name in CHANGING)]
    tools += [*runner.tools(), *([skill_tool(skills)] if skills else [])]
    tools += _optional_tools(context, confinement, runner, stack, read_only=read_only)
    parts = [Part(request.instructions, "agent"), Part(skills_block(skills), "skills")]
    if not request.parent:  # a subagent has neither plugins nor subagents
        plugins = plugin_tools(
            top, settings.texts("run.tools"), used={tool.name for tool in tools}, decide=context.gate.decide,
            warn=say, audit=context.audit,
        )  # fmt: skip
        tools += map(watched, plugins)
        types = find_agent_types(user_folder, say)
        if read_only:  # without agents for editing
            types = {name: type_ for name, type_ in types.items() if EDIT not in (type_.tools or ())}
        names = frozenset(tool.name for tool in tools)
        subagents = SubagentPool(context, types, names, context.model_setup.model.spec)
        stack.callback(subagents.close)
        notices.append(subagents.notices)
        wait = next((tool for tool in tools if tool.name == "wait"), None)
        tools = [tool for tool in tools if tool is not wait] + [*delegate_tools(subagents, wait)]
        parts.append(Part(agent_types_block(types), "agents"))
    allowed = [tool for tool in tools if request.tools is None or tool.name in request.tools | ALWAYS]
    return Toolset(tuple(map(limited, allowed)), parts, hooks, finishing, notices)


def _command_runner(context: RunContext, confinement: Confinement) -> CommandRunner:
    """The command runner; the user is told about limits of the sandbox and hidden files."""
    env = scrub_environment(os.environ, confinement.policy)
    change_set, say = context.change_set, context.ui.say

    @cache
    def variables() -> dict[str, str]:
        excluded = [path for path, known in confinement.hidden().items() if known == "excluded"]
        return hiding_variables(context.worktree, context.run_dir.folder / "attributes", excluded, env)

    def agreed(paths: Sequence[str]) -> None:
        context.accepted.update((path, change.after) for path in paths if (change := change_set.of(path)))
        context.deletions.update(paths)

    def audit_all(events: Sequence[Mapping[str, object]]) -> None:
        json_files.record(context.layout, *({"run": context.run_dir.name, **event} for event in events))

    watch = CommandWatch(
        context.worktree, change_set, say, audit_all, context.ui.approve, context.write, agreed,
        sensitive=context.request.allow_sensitive,
    )  # fmt: skip
    if confinement.sandbox is not None:
        for sentence in confinement.sandbox.limits_of(confinement.policy):
            say(f"note: {sentence}")
    if context.gate.mode == "auto" and (hidden := hidden_paths(confinement.hidden, "shown")):
        say(f"note: models cannot see {names_of(hidden, 5)}; only commands that your rules allow can")
    return CommandRunner(
        context.worktree.top,
        context.run_dir.output,
        env,
        context.gate,
        wrap=confinement.wrap,
        unshown=variables,
        why_ended=why_ended,
        seconds_left=lambda: context.model_setup.meter.left.seconds,
        watch=watch,
        audit=context.audit,
        shown_as=output_name,
        running=context.ui.running,
        timeout=context.settings.number("run.timeout"),
    )


def _optional_tools(
    context: RunContext, confinement: Confinement, runner: CommandRunner, stack: ExitStack, *, read_only: bool
) -> Iterator[Tool]:
    """`python`, which needs an extra, and sockets in the sandbox; and `browse`, which needs an option and an extra."""
    sandbox = confinement.sandbox
    if not read_only and (sandbox is None or sandbox.mounting):
        program = find_interpreter(context.worktree.top, runner.env, confined=sandbox is not None)
        if program is not None:
            kernel = KernelSession(runner, confinement.policy.scratch, program)
            stack.callback(kernel.close)
            yield kernel.tool()
    if not context.settings.switch("run.browse"):
        return
    if find_spec("trafilatura") is None:
        install = install_extra("browse")
        context.ui.say(f"note: run.browse is on, but the `browse` extra is not installed; run `{install}`")
        return
    from repoagent.agent.browse_tool import Browser

    reader = replace(confinement, policy=replace(confinement.policy, read_only=True, network=False))
    meter = context.model_setup.meter
    browser = Browser(
        context.gate, wrap=reader.wrap, audit=context.audit, seconds_left=lambda: meter.left.seconds
    )
    yield browser.tool()


def _user_hooks(context: RunContext, confinement: Confinement) -> UserHooks:
    """The user's hooks, confined like the check, because they may run changed code."""
    settings = context.settings

    def confined(argv: Sequence[str]) -> tuple[list[str], Mapping[str, str]] | None:
        from repoagent.tasks.commit import all_accepted

        unconfined = settings.switch("check.unconfined") or all_accepted(context)
        return None if unconfined else confinement.program(argv)

    commands = {event: settings.text_or_none(f"run.{event}") for event in EVENTS}
    top, name = context.worktree.top, context.run_dir.name
    return UserHooks(top, name, commands, audit=context.audit, confined=confined)
