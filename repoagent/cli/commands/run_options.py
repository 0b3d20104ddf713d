"""The options that `run` and `chat` share, and which of them a resumed run inherits.

A resumed run keeps options that only narrow it or that say how its changes are committed. Options that give it power
over your machine, work or money apply to one process only and have to be repeated.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from repoagent.cli.options import (
    check_unconfined_option,
    effort_option,
    max_cost_option,
    max_tokens_option,
    model_option,
    no_parse_check,
    parse_check,
    record_option,
    reply_option,
    together,
)
from repoagent.errors import NothingDone, UsageError
from repoagent.storage.secrets import mask

if TYPE_CHECKING:
    from collections.abc import Mapping

    from repoagent.config.settings import Settings
    from repoagent.git.transaction.results import Options
    from repoagent.git.worktree import WorkTree
    from repoagent.llm.usage import Limits
    from repoagent.storage.layout import Layout
    from repoagent.tasks.runs.directory import RunDirectory

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


def flags_of(options: SimpleNamespace) -> dict[str, object]:
    """The options that override settings."""
    return {**{key: getattr(options, name) for name, key in SETTINGS.items()}, **parse_check(options)}


_MODES = click.Choice(["ask", "auto-edit", "auto", "read-only"])


def approval_options(noun: str) -> Callable[[F], F]:
    """The options for the model, the approvals and the conversation; `noun` is "run" or "chat"."""
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
        click.option("--forget", is_flag=True, help="Resume without the options used before."),
        click.option(
            "--conversation",
            metavar="NAME",
            help="Save the conversation as NAME, or continue it if it exists.",
        ),
    )


stream_option = click.option(
    "--json-stream", is_flag=True, help="Print each event as a line of JSON, as it happens."
)


def finish_options(noun: str) -> Callable[[F], F]:
    """The options for the check and the commit."""
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


def limit_options(of: str = "") -> Callable[[F], F]:
    """The options for limits, agent and recording; `of` says what the limits on calls and seconds apply to."""
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


def commit_options(options: SimpleNamespace) -> Options:
    """How to commit, by the options of `finish_options`."""
    from repoagent.git.transaction.results import Options

    return Options(
        no_commit=options.no_commit,
        no_verify=options.no_verify,
        include_dirty=options.include_dirty,
        signoff=options.signoff,
    )


def limits(options: SimpleNamespace, settings: Settings) -> Limits:
    """The limits of the options, or else of the settings."""
    from dataclasses import replace

    from repoagent.tasks.run_context import run_limits

    said = {
        "turns": options.max_turns,
        "tokens": options.max_tokens,
        "cost": options.max_cost,
        "seconds": options.max_time,
    }
    return replace(run_limits(settings), **{name: most for name, most in said.items() if most is not None})


def chosen_name(options: SimpleNamespace, worktree: WorkTree, kind: str) -> tuple[str, bool]:
    """The name of the run or chat, and whether it is new. Raises UsageError for a name that does not exist, NothingDone
    if there is nothing to resume."""
    from repoagent.git.worktree import layout
    from repoagent.memory.conversation_names import checked, refuse_reserved
    from repoagent.tasks.runs.directory import new_name, open_run_directory
    from repoagent.tasks.runs.list import find

    place = layout(worktree)
    said: Sequence[bool] = [bool(options.continues), bool(options.resume), bool(options.conversation)]
    if sum(said) > 1:
        raise UsageError("--continue, --resume and --conversation cannot be combined")
    if options.continues or (
        options.resume == LAST and not open_run_directory(place, LAST).conversation.exists()
    ):
        return _last(place, kind), False
    if options.resume:
        try:
            return find(place, options.resume).name, False
        except UsageError:  # in another clone, a named run may have a conversation only
            if not open_run_directory(place, options.resume).conversation.exists():
                raise
            return open_run_directory(place, options.resume).name, False
    if options.conversation:
        name = checked(options.conversation)
        refuse_reserved(name)
        return name, not open_run_directory(place, name).conversation.exists()
    return new_name(kind), True


def _last(place: Layout, kind: str) -> str:
    """The newest run of this kind, except delegated ones and those still starting."""
    from repoagent.tasks.runs.list import runs

    begun = (run for run in runs(place) if not run.starting)
    fitting = (run.name for run in begun if run.record.kind == kind and not run.record.parent)
    if (last := next(fitting, None)) is None:
        begins = "`repoagent chat`" if kind == "chat" else '`repoagent run "TASK"`'
        raise NothingDone(f"no {kind} to resume; start one with {begins}")
    return last


_BY_WIDTH = ("read-only", "ask", "auto-edit", "auto")  # modes, the narrowest first
_LIMITS = {  # option: key of the configuration
    "max_turns": "run.max_turns",
    "max_tokens": "max_tokens",
    "max_cost": "max_cost",
    "max_time": "run.max_time",
}
_HOLD_ON = ("check", "commit_per_edit", "no_commit", "signoff")
_AGAIN = (
    "model", "effort", "agent", "allow", "network", "no_sandbox", "include_dirty", "no_verify", "allow_sensitive",
    "check_unconfined", "no_parse_check",
)  # fmt: skip
_EVERY = ("mode", *_LIMITS, *_HOLD_ON, *_AGAIN)
_EITHER = {"commit_per_edit", "no_commit"}  # either of them now overrides the other from before


def explicit_options(options: SimpleNamespace) -> dict[str, object]:
    """The options that were given, for `run.json`; of a value with a key or token, only the name is saved."""
    found: dict[str, object] = {}
    for name in _EVERY:
        value = getattr(options, name, None)
        if value in (None, False, (), "") or (name, value) == ("agent", "model"):
            continue
        value = list(value) if isinstance(value, tuple) else value
        found[name] = value if mask(str(value)) == str(value) else None
    return found


def inherit_options(options: SimpleNamespace, settings: Settings, run_dir: RunDirectory) -> str:
    """Add to `options` those of the last process of the run that it inherits; return a sentence about these and the
    others, "" for none."""
    from repoagent.tasks.runs.list import Run, refreshed
    from repoagent.tasks.runs.live_run import host
    from repoagent.tasks.runs.record import Record

    if options.forget or not run_dir.folder.is_dir():
        return ""
    record = refreshed(Run(run_dir, Record(), "")).record
    here = record.host == host()
    now = explicit_options(options)
    kept: dict[str, object] = {}
    again: dict[str, object] = {}
    for name, value in record.options.items():
        if (
            name not in _EVERY
            or name in now
            or getattr(options, name, None) == ""
            or (name in _EITHER and _EITHER & now.keys())
        ):
            continue
        if _holds_on(name, value, settings, here=here):
            kept[name] = value
            setattr(options, name, value)
        elif hasattr(options, name):
            again[name] = value
    parts = [
        f"{words}: {as_command_line(some)}"
        for words, some in (("options used again", kept), ("options to repeat if you still want them", again))
        if some
    ]
    return "; ".join(parts)


def as_command_line(values: Mapping[str, object]) -> str:
    """Options as they are written on a command line."""
    return ", ".join(_spelled(name, value) for name, value in values.items())


def _spelled(name: str, value: object) -> str:
    option = f"--{name.replace('_', '-')}"
    if value is None or value is True:
        return option
    values = value if isinstance(value, list) else [value]
    return " ".join(f"{option} {shlex.quote(str(one))}" for one in values)


def _holds_on(name: str, value: Any, settings: Settings, *, here: bool) -> bool:
    """Whether a resumed run inherits this value: of the right type, no broader than the settings, and a check only on
    the same machine."""
    if name == "mode":
        default = settings.text("run.mode")
        return value in _BY_WIDTH and _BY_WIDTH.index(value) <= _BY_WIDTH.index(default)
    if name in _LIMITS:
        whole = name in {"max_turns", "max_tokens"}
        if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
            return False
        most = settings.get(_LIMITS[name])
        return value >= whole and (not isinstance(most, int | float) or value <= most)
    if name == "check":
        return here and isinstance(value, str)
    return name in _HOLD_ON and value is True
