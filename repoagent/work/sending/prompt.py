"""What a run sends: a beginning that stays the same from call to call, then the conversation as it grows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from typing import TYPE_CHECKING

from repoagent.agent import Tool, protocol_text
from repoagent.agent.tool import EDIT
from repoagent.config import user_file
from repoagent.edit.briefing.context import facts_block, quoted
from repoagent.edit.context_files import collect, context_parts
from repoagent.edit.context_files.finding import USER_FILE
from repoagent.llm import Part
from repoagent.repo import Facts
from repoagent.store.masking import mask
from repoagent.work.desk import Desk
from repoagent.work.tools.names import named

if TYPE_CHECKING:
    pass


def system_parts(desk: Desk, tools: Sequence[Tool], further: Sequence[Part]) -> tuple[Part, ...]:
    """The parts that do not change while the run goes on: how to work and answer, what the person and the repository
    say to every assistant, and `further` blocks (skills, kinds of agents)."""
    texts = [prompt_text("run")]
    if desk.request.plan_only:
        texts.append(prompt_text("plan"))
    elif all(tool.name != EDIT for tool in tools):
        texts.append(prompt_text("look"))
    texts.append(protocol_text(tools, "changes", native=desk.means.native))
    found = collect(
        desk.worktree.top,
        desk.layout.root,
        desk.settings.texts("context"),
        (),
        desk.bench.why_not,
        user=user_file(os.environ).with_name(USER_FILE),
        budget=desk.settings.whole("context_limit"),
    )
    for warning in found.warnings:
        desk.talk.say(f"warning: {warning}")
    parts = [Part("\n".join([*texts, ""]), "protocol", cache=True), *context_parts(found), *further]
    parts = [replace(part, text=mask(part.text)) for part in parts if part.text]
    return (*parts[:-1], replace(parts[-1], cache=True))


def repository_text(facts: Facts, changed: Sequence[str], *, linked: bool, inside: str = "") -> str:
    """What a run is told of the repository when it begins, and when the person speaks again and it has changed."""
    lines = [facts_block(facts)]
    if changed:
        shown = ", ".join(map(named, changed[:20])) + (
            f" and {len(changed) - 20} more" if len(changed) > 20 else ""
        )
        lines.append(f"uncommitted work of the person: {shown}")
    if inside:
        lines.append(
            f"the person is in the folder {quoted(inside)}; all paths here start at the top of the repository"
        )
    if linked:
        lines.append(
            "This is a linked work tree, made for you: files that git ignores (environments, builds) are not in it."
        )
    return "The repository, as it is now:\n" + "\n".join(lines)


def prompt_text(name: str) -> str:
    """A text of `work/prompts/`."""
    return (files("repoagent.work") / "prompts" / f"{name}.md").read_text(encoding="utf-8")
