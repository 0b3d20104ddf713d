"""What the command line asks for, as a request; and who is asked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from repoagent.cli.program.words import words_in
from repoagent.cli.run import options as run_options
from repoagent.cli.run.kept import hold_on, said
from repoagent.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import SimpleNamespace

    from repoagent.config import Settings
    from repoagent.edit.means import Means
    from repoagent.repo import WorkTree
    from repoagent.work import RunRequest


def request_of(given: SimpleNamespace, worktree: WorkTree, settings: Settings) -> tuple[RunRequest, str]:
    """What the command line asks for; and what holds on of what was asked before, as a sentence ("" for nothing), of a
    run that is gone on with: `given` has it then. Raises UsageError for what can't be meant."""
    from repoagent.agent.approval import MODES
    from repoagent.repo import layout
    from repoagent.work import RunRequest
    from repoagent.work.home import Home

    prompt = _prompt(given)
    name, fresh = run_options.chosen_name(given, worktree, "run")
    if not prompt.strip() and fresh:
        raise UsageError('say what to do: repoagent run "PROMPT"')
    if given.commit_per_edit and given.no_commit:
        raise UsageError("--commit-per-edit and --no-commit cannot be combined")
    _refuse_swallowed(given)
    held = "" if fresh else hold_on(given, settings, Home(layout(worktree), name))
    mode = next(mode for mode in MODES if mode == (given.mode or settings.text("run.mode")))
    request = RunRequest(
        prompt.strip(),
        name,
        mode=mode,
        plan_only=given.plan_only,
        commit=run_options.commit_options(given),
        commit_per_edit=given.commit_per_edit,
        check=given.check,
        allow_sensitive=given.allow_sensitive,
        allow=given.allow,
        network=given.network,
        confine=not given.no_sandbox,
        agent=given.agent,
        worktree=str(given.worktree or ""),
        branch=given.branch or "",
        said=said(given),
    )
    return request, held


def child_of(given: SimpleNamespace, worktree: WorkTree) -> RunRequest:
    """What a child of a run is to do; its limits are those that its parent has left."""
    from repoagent.llm import Limits
    from repoagent.repo import Options, layout
    from repoagent.work import RunRequest
    from repoagent.work.children import read_order
    from repoagent.work.children.process import die_with_parent
    from repoagent.work.home import Home

    die_with_parent()
    order = read_order(Home(layout(worktree), given.child))
    budget = order.budget
    given.limits = Limits(budget.turns, budget.tokens, budget.cost, None, budget.seconds)
    return RunRequest(
        order.prompt,
        given.child,
        kind=order.kind,
        parent=order.parent,
        mode=order.mode,
        commit=Options(no_commit=True),
        tools=order.tools,
        instructions=order.instructions,
        allow=order.allow,
        network=order.network,
        confine=order.confine,
    )


def means_of(
    given: SimpleNamespace,
    settings: Settings,
    say: Callable[[str], None],
    on_progress: Callable[[str, float], None] = lambda doing, part: None,
) -> Means:
    from repoagent.edit.means import means

    limits = getattr(given, "limits", None) or run_options.limits(given, settings)
    return means(
        settings, given.record, given.reply, say, on_progress, limits=limits, needed=given.agent == "model"
    )


def shown_name(ready: Means) -> str:
    """The model, for people."""
    from repoagent.llm.naming import shown

    return shown(ready.model.spec)


def _refuse_swallowed(given: SimpleNamespace) -> None:
    """An option that has no value takes the next one for it; no folder or branch is meant that begins so."""
    for option, value in (("--worktree DIR", given.worktree), ("--branch NAME", given.branch)):
        if str(value or "").startswith("-"):
            name, what = option.split()
            raise UsageError(f"{name} needs a {what}, and {value} is what follows it: say {option}")


def _prompt(given: SimpleNamespace) -> str:
    if given.prompt_file is not None and given.words:
        raise UsageError("the prompt is given twice: as words, and by --file")
    if given.prompt_file is not None:
        return words_in(given.prompt_file, "prompt")
    words = [word for word in given.words if word != "-"]
    texts = [" ".join(words)] if words else []
    if "-" in given.words:
        texts.append(words_in(Path("-"), "prompt"))
    return "\n\n".join(texts)
