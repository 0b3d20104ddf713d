"""What a run is given beyond reading and editing: commands and their sandbox, skills, kinds, plug-ins, and the person's
own commands around the loop."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path

from repoagent.agent import Tool
from repoagent.agent.approval import Asker, Gate, kept_rules, rules
from repoagent.agent.commands import Shop, command_tools
from repoagent.agent.kernel import GONE, Room, interpreter
from repoagent.agent.sandbox import (
    scrubbed,
    why_ended,
    why_none,
)
from repoagent.agent.sandbox.landlock import Landlock
from repoagent.agent.tool import EDIT
from repoagent.config import Settings, user_file
from repoagent.edit.landing.bench import new_edit_id
from repoagent.errors import UsageError
from repoagent.extras import install_extra
from repoagent.llm import Turn
from repoagent.repo import git
from repoagent.store import Layout, audit
from repoagent.work.around import Around
from repoagent.work.changes import watch
from repoagent.work.changes.guard import Guard
from repoagent.work.desk import Desk
from repoagent.work.home import Home
from repoagent.work.kinds import Kind, find_kinds
from repoagent.work.plugins import plugin_tools
from repoagent.work.request import RunRequest
from repoagent.work.skills import Skill, find_skills, skill_places
from repoagent.work.tools.confinement import Confinement, hidden_from
from repoagent.work.tools.explaining import Explainer
from repoagent.work.tools.names import named
from repoagent.work.tools.reading import output_name
from repoagent.work.tools.unshown import are_blobs, unshown

SAID = 5  # withheld files that are named
Say = Callable[[str], None]


def approvals(home: Home, settings: Settings, request: RunRequest, place: Confinement, asker: Asker) -> Gate:
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
        audit=partial(_record, home.layout, request.name),
        sandbox=place.name,
        why_none="the sandbox was turned off."
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


def shop_of(desk: Desk, place: Confinement) -> Shop:
    """Where commands of this run are run."""
    env = scrubbed(os.environ, place.policy)

    @cache
    def variables() -> dict[str, str]:
        excluded = [path for path, known in place.withheld().items() if known == "excluded"]
        return unshown(desk.worktree, desk.home.folder / "attributes", excluded, env)

    return Shop(
        desk.worktree.top,
        desk.home.output,
        env,
        desk.gate,
        wrap=place.wrap,
        unshown=variables,
        why_ended=why_ended,
        seconds_left=lambda: desk.means.meter.seconds_left,
        watch=watch(
            desk.worktree,
            desk.ledger,
            desk.talk.say,
            partial(_record_all, desk.layout, desk.home.name),
            _guard(desk),
        ),
        audit=partial(_record, desk.layout, desk.home.name),
        shown_as=output_name,
        explain=Explainer(place),
        running=desk.talk.running,
        timeout=desk.settings.number("run.timeout"),
    )


def keep_rules(top: Path, patterns: Sequence[str]) -> None:
    """Add `patterns` to `run.allow` in the configuration of the git directory of `top`, which no clone brings along.
    Raises UsageError for a pattern of several lines, GitError where it can't be written."""
    for pattern in patterns:
        if pattern.splitlines() != [pattern]:
            raise UsageError(f"{pattern!r} can't be kept as a rule: it is empty, or more than one line")
    key = "repoagent.run.allow"
    known = git(top, "config", "--local", "-z", "--get-all", key, ok=(0, 1)).split(b"\0")
    for pattern in dict.fromkeys(patterns):
        if pattern.encode("utf-8", "surrogateescape") not in known:
            git(top, "config", "--local", "--add", key, pattern, read_only=False)


def _guard(desk: Desk) -> Guard:
    from repoagent.work.landing.writing import write

    def agreed(paths: Sequence[str]) -> None:
        for path in paths:
            change = desk.ledger.of(path)
            if change is not None:
                desk.agreed[path] = change.after
        desk.deletions.update(paths)

    return Guard(
        desk.ledger,
        desk.talk.say,
        desk.talk.approve,
        lambda changes: write(desk.worktree, changes, new_edit_id()),
        agreed,
        sensitive=desk.request.allow_sensitive,
    )


def commands(desk: Desk, place: Confinement) -> tuple[Shop, tuple[Tool, ...]]:
    """The tools `run`, `wait` and `kill`, and the shop they work in."""
    shop = shop_of(desk, place)
    for sentence in place.sandbox.limits_of(place.policy) if place.sandbox is not None else ():
        desk.talk.say(f"note: {sentence}")
    if desk.gate.mode == "auto" and (hidden := hidden_from(place.withheld, "shown")):
        desk.talk.say(
            f"note: commands do not see {_some(hidden)}, as no model is to; those that a rule of yours allows do."
        )
    return shop, command_tools(shop)


def python(desk: Desk, place: Confinement, shop: Shop, turns: Sequence[Turn]) -> Room | None:
    """Where the kernel of `python` lives; None where nothing may be changed, the extra is missing, or the sandbox has
    no sockets at all. `turns` tell whether there was a kernel before."""
    if desk.request.plan_only or desk.gate.mode == "read-only":
        return None
    if isinstance(place.sandbox, Landlock) and not place.sandbox.mounting:
        return None
    found = interpreter(desk.worktree.top, shop.env, confined=place.sandbox is not None)
    if found is None:
        return None
    last = next(
        (turn for turn in reversed(turns) if turn.meta.get("kind") == "python" or GONE in turn.text), None
    )
    return Room(
        shop, place.policy.scratch, found, earlier=last is not None and last.meta.get("kind") == "python"
    )


def pages(desk: Desk, place: Confinement) -> tuple[Tool, ...]:
    """The tool `browse`, where the person has turned it on."""
    if not desk.settings.switch("run.browse"):
        return ()
    if find_spec("trafilatura") is None:
        desk.talk.say(f"note: run.browse is on, but the extra is missing: {install_extra('browse')}")
        return ()
    from repoagent.agent.browse import Window, browse_tool

    reader = replace(place, policy=replace(place.policy, read_only=True, network=False))
    window = Window(
        desk.gate,
        wrap=reader.wrap,
        audit=partial(_record, desk.layout, desk.home.name),
        seconds_left=lambda: desk.means.meter.seconds_left,
    )
    return (browse_tool(window),)


def around(desk: Desk, place: Confinement) -> Around:
    """The person's own commands around the loop: confined as the check is, for they may run the changed code."""
    settings = desk.settings

    def confined(argv: Sequence[str]) -> tuple[list[str], Mapping[str, str]] | None:
        from repoagent.work.landing.land import all_seen

        return None if settings.switch("check.unconfined") or all_seen(desk) else place.program(argv)

    return Around(
        desk.worktree.top,
        desk.home.name,
        settings.text_or_none("run.before_turn"),
        settings.text_or_none("run.after_edit"),
        settings.text_or_none("run.before_finish"),
        audit=partial(_record, desk.layout, desk.home.name),
        confined=confined,
    )


def skills(desk: Desk) -> tuple[Skill, ...]:
    """The skills there are."""
    places = skill_places(
        desk.worktree.top,
        desk.layout.root,
        user_file(os.environ).parent,
        further=desk.settings.texts("run.skills"),
        why_not=desk.bench.why_not,
    )
    return find_skills(places, desk.talk.say)


def kinds(desk: Desk) -> dict[str, Kind]:
    """The kinds of children there are; where nothing may be changed, not those that are made for changes."""
    found = find_kinds(desk.layout, user_file(os.environ).parent, desk.talk.say, why_not=desk.bench.why_not)
    if not (desk.request.plan_only or desk.gate.mode == "read-only"):
        return found
    return {name: kind for name, kind in found.items() if EDIT not in (kind.tools or ())}


def plugins(desk: Desk, taken: Sequence[Tool]) -> tuple[Tool, ...]:
    """The tools that others make."""
    return plugin_tools(
        desk.worktree.top,
        desk.settings.texts("run.tools"),
        taken={tool.name for tool in taken},
        decide=desk.gate.decide,
        warn=desk.talk.say,
        settings=desk.settings.names("tool"),
        audit=partial(_record, desk.layout, desk.home.name),
    )


def _some(paths: Sequence[str]) -> str:
    rest = len(paths) - SAID
    return ", ".join(map(named, paths[:SAID])) + (f" and {rest} more" if rest > 0 else "")


def _record_all(layout: Layout, run: str, events: Sequence[Mapping[str, object]]) -> None:
    audit.record_all(layout, [{"run": run, **event} for event in events])


def _record(layout: Layout, run: str, event: Mapping[str, object]) -> None:
    audit.record(layout, {"run": run, **event})
