"""`repoagent review --show-prompt`: what a model would be sent for a change. Nothing is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.errors import Exit, NothingDone

if TYPE_CHECKING:
    from repoagent.cli.screen.terminal import Terminal
    from repoagent.config import Settings
    from repoagent.repo.worktree import WorkTree
    from repoagent.review.change import Change
    from repoagent.store import Layout


def show_prompt(
    change: Change, where: tuple[WorkTree, Layout, Settings], terminal: Terminal, *, as_json: bool
) -> Exit:
    """Write the blocks of each call's prompt. Raises NothingDone where no model would be asked about anything."""
    from repoagent.cli.context.prompt import Block, Shown, show_texts
    from repoagent.llm import estimate_tokens
    from repoagent.llm.naming import shown
    from repoagent.review.model import Desk, prompts
    from repoagent.review.model.whom import asked_for

    worktree, place, settings = where
    found = prompts(change, Desk(worktree, place, settings, terminal.warn))
    if not found:
        raise NothingDone(f"{change.title} has nothing that a model would be shown")
    blocks = []
    for prompt in found:
        pairs = [("system", part) for part in prompt.system] + [("user", part) for part in prompt.opening]
        last = max((number for number, (_, part) in enumerate(pairs) if part.cache), default=-1)
        blocks += [
            Block(role, part, estimate_tokens(part.text), number <= last)
            for number, (role, part) in enumerate(pairs)
        ]
    spec = shown(asked_for(settings).text("model"))
    show_texts(Shown(spec, None, tuple(blocks)), terminal, as_json=as_json, count=False)
    return Exit.DONE
