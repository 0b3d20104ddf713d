"""The options that `run` and `chat` share: who is asked, what may be done, within which limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from repoagent.cli.landing.options import check_unconfined_option, no_parse_check, parse_check, together
from repoagent.cli.program.model_options import (
    effort_option,
    max_cost_option,
    max_tokens_option,
    model_option,
    record_option,
    reply_option,
)
from repoagent.errors import NothingDone, UsageError

if TYPE_CHECKING:
    from repoagent.config import Settings
    from repoagent.llm import Limits
    from repoagent.repo import Options, WorkTree
    from repoagent.store import Layout

F = TypeVar("F", bound=Callable[..., Any])

LAST = "last"
SETTINGS = {  # option of the command line: key of the configuration
    "model": "model",
    "max_tokens": "max_tokens",
    "max_cost": "max_cost",
    "effort": "effort",
    "mode": "run.mode",
    "check_unconfined": "check.unconfined",
}


def flags_of(given: SimpleNamespace) -> dict[str, object]:
    """What the command line says, as settings."""
    return {**{key: getattr(given, name) for name, key in SETTINGS.items()}, **parse_check(given)}


_MODES = click.Choice(["ask", "auto-edit", "auto", "read-only"])


def asking(noun: str) -> Callable[[F], F]:
    """Who is asked, what may be done, and which conversation is gone on with; `noun` is "run" or "chat"."""
    stop = "; without a PROMPT, from where it stopped" if noun == "run" else ""
    return together(
        model_option,
        click.option(
            "--mode",
            type=_MODES,
            metavar="MODE",
            help="What needs your approval: ask, auto-edit, auto or read-only.",
        ),
        click.option("--continue", "continues", is_flag=True, help=f"Resume the last {noun}."),
        click.option("--resume", metavar="NAME", help=f"Resume the {noun} NAME{stop}."),
        click.option("--forget", is_flag=True, help="Resume without the options of the last time."),
        click.option(
            "--conversation",
            metavar="NAME",
            help="Save the conversation as NAME, or continue it if it exists.",
        ),
    )


stream_option = click.option(
    "--json-stream", is_flag=True, help="Print each event as a line of JSON, as it happens."
)


def landing(noun: str) -> Callable[[F], F]:
    """What has to hold before a commit, and how it is made."""
    return together(
        click.option(
            "--check", metavar="CMD", help="Finish only when CMD passes; the model sees its failure."
        )
        if noun == "run"
        else click.option("--check", metavar="CMD", help="Commit only when CMD passes."),
        check_unconfined_option,
        click.option("--commit-per-edit", is_flag=True, help="Commit each edit, instead of once at the end."),
        click.option("--no-commit", is_flag=True, help="Write the files without committing them."),
        click.option("--include-dirty", is_flag=True, help="Also commit your other changes in these files."),
        click.option("--no-verify", is_flag=True, help="Skip the pre-commit and commit-msg hooks."),
        click.option("--signoff", is_flag=True, help="Add a Signed-off-by trailer."),
        click.option(
            "--allow-sensitive", is_flag=True, help="Also change hooks, CI and other files that get executed."
        ),
        no_parse_check,
    )


def limiting(of: str = "") -> Callable[[F], F]:
    """The limits, the agent, and what is recorded. Calls and seconds are those `of` what the words say."""
    return together(
        click.option(
            "--max-turns", type=click.IntRange(1), metavar="N", help=f"Make at most N model calls{of}."
        ),
        max_tokens_option,
        max_cost_option,
        click.option(
            "--max-time",
            type=click.FloatRange(min=0),
            metavar="SECONDS",
            help=f"Stop after this many seconds{of}.",
        ),
        effort_option,
        click.option(
            "--agent", default="model", metavar="NAME", help="Use another agent, from an installed package."
        ),
        reply_option,
        record_option,
    )


def commit_options(given: SimpleNamespace) -> Options:
    """How a commit is made, by the options of `landing`."""
    from repoagent.repo import Options

    return Options(
        no_commit=given.no_commit,
        no_verify=given.no_verify,
        include_dirty=given.include_dirty,
        signoff=given.signoff,
    )


def limits(given: SimpleNamespace, settings: Settings) -> Limits:
    """The limits that the options say, and where they say none the settings."""
    from dataclasses import replace

    from repoagent.work.request import limits_of

    said = {
        "turns": given.max_turns,
        "tokens": given.max_tokens,
        "cost": given.max_cost,
        "seconds": given.max_time,
    }
    return replace(limits_of(settings), **{name: most for name, most in said.items() if most is not None})


def chosen_name(given: SimpleNamespace, worktree: WorkTree, kind: str) -> tuple[str, bool]:
    """The name of the run or chat, and whether it is a new one. Raises UsageError for what can't be meant or is not
    there, NothingDone where there is no chat yet to go on with."""
    from repoagent.memory.conversations.names import checked, refuse_reserved
    from repoagent.repo import layout
    from repoagent.work.home import find, home_of, new_name

    place = layout(worktree)
    said: Sequence[bool] = [bool(given.continues), bool(given.resume), bool(given.conversation)]
    if sum(said) > 1:
        raise UsageError("say one of --continue, --resume and --conversation")
    if given.continues or (given.resume == LAST and not home_of(place, LAST).conversation.exists()):
        return _last(place, kind), False
    if given.resume:
        try:
            return find(place, given.resume).name, False
        except (
            UsageError
        ):  # of a run that a person gave a name there may be the conversation alone, in another clone
            if not home_of(place, given.resume).conversation.exists():
                raise
            return home_of(place, given.resume).name, False
    if given.conversation:
        name = checked(given.conversation)
        refuse_reserved(name)
        return name, not home_of(place, name).conversation.exists()
    return new_name(kind), True


def _last(place: Layout, kind: str) -> str:
    """The name of the newest run or chat, each of its own kind; never one that a run delegated, or that is still
    starting."""
    from repoagent.work.home import runs

    begun = (run for run in runs(place) if not run.starting)
    fitting = (run.name for run in begun if run.record.kind == kind and not run.record.parent)
    if (last := next(fitting, None)) is None:
        begins = "`repoagent chat`" if kind == "chat" else '`repoagent run "TASK"`'
        raise NothingDone(f"there is no {kind} here yet to go on with: {begins} begins one")
    return last
