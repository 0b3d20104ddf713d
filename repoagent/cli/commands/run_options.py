"""The options that `run` and `chat` share, and which of them a resumed run inherits.

A resumed run inherits the options that only restrict it or affect how its changes are committed. Options that give it
access to your machine, files or money must be repeated.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from repoagent.cli import options as shared
from repoagent.errors import NothingDone, UsageError
from repoagent.storage.secrets import mask

if TYPE_CHECKING:
    from repoagent.config.settings import Settings
    from repoagent.git.transaction.results import Options
    from repoagent.git.worktree import WorkTree
    from repoagent.llm.usage import Limits
    from repoagent.tasks.runs.directory import RunDirectory

F = TypeVar("F", bound=Callable[..., Any])

LAST = "last"
SETTINGS = {  # option: key of the configuration
    **{name: name for name in ("model", "max_tokens", "max_cost", "effort")},
    "mode": "run.mode",
    "check_unconfined": "check.unconfined",
}
_MODES = ("read-only", "ask", "auto-edit", "auto")  # the most restrictive first
_HELP_OF_MODES = "The approval mode: ask, auto-edit, auto or read-only."
stream_option = click.option(
    "--json-stream", is_flag=True, help="Print each event as a line of JSON, as it happens."
)


def flags_of(options: SimpleNamespace) -> dict[str, object]:
    """The values of the options that override settings, by the key of the setting."""
    return {**{key: getattr(options, name) for name, key in SETTINGS.items()}, **shared.parse_check(options)}


def approval_options(noun: str) -> Callable[[F], F]:
    """Decorator that adds the options for the model, approvals and conversation. `noun` is "run" or "chat"."""
    stop = "; without a PROMPT, from where it stopped" if noun == "run" else ""
    save = "Save the conversation as NAME, or continue it if it exists."
    return shared.combine_options(
        shared.model_option,
        click.option("--mode", type=click.Choice(_MODES), metavar="MODE", help=_HELP_OF_MODES),
        click.option("--continue", "continues", is_flag=True, help=f"Resume the last {noun}."),
        click.option("--resume", metavar="NAME", help=f"Resume {noun} NAME{stop}."),
        click.option("--forget", is_flag=True, help="Resume without the options used before."),
        click.option("--conversation", metavar="NAME", help=save),
    )


def finish_options(noun: str) -> Callable[[F], F]:
    check = (
        "Finish only when CMD passes; if it fails, the model sees why."
        if noun == "run"
        else "Commit only when CMD passes."
    )
    return shared.combine_options(
        click.option("--check", metavar="CMD", help=check),
        shared.check_unconfined_option,
        click.option(
            "--commit-per-edit", is_flag=True, help="Commit after each edit instead of once at the end."
        ),
        shared.no_commit_option,
        shared.include_dirty_option,
        shared.no_verify_option,
        click.option("--signoff", is_flag=True, help="Add a Signed-off-by trailer."),
        shared.allow_sensitive_option,
        shared.no_parse_check,
    )


def limit_options(of: str = "") -> Callable[[F], F]:
    """Decorator that adds the options for limits, agent and recording. `of` says what the limits on calls and seconds
    apply to."""
    calls, seconds = f"Make at most N model calls{of}.", f"Stop after this many seconds{of}."
    agent_help = "Use another agent, from an installed package."
    return shared.combine_options(
        shared.number_option("--max-turns", type=click.IntRange(1), metavar="N", help=calls),
        shared.max_tokens_option,
        shared.max_cost_option,
        shared.number_option("--max-time", type=click.FloatRange(min=0), metavar="SECONDS", help=seconds),
        shared.effort_option,
        click.option("--agent", default="model", metavar="NAME", help=agent_help),
        shared.reply_option,
        shared.record_option,
    )


def commit_options(options: SimpleNamespace) -> Options:
    """The options that say how to commit. No branch is set, because a run commits to the branch of its work tree."""
    return replace(shared.commit_options(options), branch=None)


def limits(options: SimpleNamespace, settings: Settings) -> Limits:
    from repoagent.tasks.run_context import run_limits

    names = {"turns": "max_turns", "tokens": "max_tokens", "cost": "max_cost", "seconds": "max_time"}
    values = {name: getattr(options, option) for name, option in names.items()}
    return replace(run_limits(settings), **{name: most for name, most in values.items() if most is not None})


def chosen_name(options: SimpleNamespace, worktree: WorkTree, kind: str) -> tuple[str, bool]:
    """The name of the run or chat, and whether it is new. Raises UsageError for an unknown name, NothingDone if there
    is nothing to resume."""
    from repoagent.git.worktree import layout_of
    from repoagent.memory.conversations import check_name, refuse_reserved
    from repoagent.tasks.runs.directory import new_name, open_run_directory
    from repoagent.tasks.runs.list import find_run, list_runs

    def has_conversation(name: str) -> bool:
        return open_run_directory(dirs, name).conversation.exists()

    if "" in (options.resume, options.conversation):  # an empty variable of a script must not start a new run
        raise UsageError("--resume and --conversation need a name")
    dirs = layout_of(worktree)
    if sum(map(bool, (options.continues, options.resume, options.conversation))) > 1:
        raise UsageError("--continue, --resume and --conversation cannot be combined")
    if options.continues or (options.resume == LAST and not has_conversation(LAST)):
        for run in list_runs(dirs):
            if run.record.kind == kind and not run.record.parent:
                return run.name, False
        begin = "`repoagent chat`" if kind == "chat" else '`repoagent run "TASK"`'
        raise NothingDone(f"no {kind} to resume; start one with {begin}")
    if options.resume:
        try:
            return find_run(dirs, options.resume).name, False
        except UsageError:  # after cloning, a named run may have only a conversation
            if not has_conversation(options.resume):
                raise
            return open_run_directory(dirs, options.resume).name, False
    if options.conversation:
        name = check_name(options.conversation)
        refuse_reserved(name)
        return name, not has_conversation(name)
    return new_name(kind), True


_LIMITS = {  # option: key of the configuration
    "max_turns": "run.max_turns",
    "max_tokens": "max_tokens",
    "max_cost": "max_cost",
    "max_time": "run.max_time",
}
_EITHER = {"commit_per_edit", "no_commit"}  # using one drops the other, which the run had before
_INHERITED = ("check", "commit_per_edit", "no_commit", "signoff")
_REPEATED = (
    "model", "effort", "agent", "allow", "network", "no_sandbox", "include_dirty", "no_verify", "allow_sensitive",
    "check_unconfined", "no_parse_check",
)  # fmt: skip
_SAVED = ("mode", *_LIMITS, *_INHERITED, *_REPEATED)


def explicit_options(options: SimpleNamespace) -> dict[str, object]:
    """The options that the user set, to save in `run.json`. A value that contains a key or token is replaced with
    None."""
    explicit: dict[str, object] = {}
    for name in _SAVED:
        value = getattr(options, name, None)
        if value in (None, False, (), "") or (name, value) == ("agent", "model"):
            continue
        value = list(value) if isinstance(value, tuple) else value
        explicit[name] = value if mask(str(value)) == str(value) else None
    return explicit


def inherit_options(options: SimpleNamespace, settings: Settings, run_dir: RunDirectory) -> str:
    """Add the options inherited from the run's last process to `options`.

    Returns a sentence about these options and those that must be repeated; "" if there are none.
    """
    from repoagent.tasks.runs.directory import host_name
    from repoagent.tasks.runs.list import read_run

    if options.forget or not run_dir.folder.is_dir():
        return ""
    record = read_run(run_dir).record
    explicit = explicit_options(options)
    inherited: dict[str, object] = {}
    to_repeat: dict[str, object] = {}
    for name, value in record.options.items():
        overridden = name in explicit or (name in _EITHER and _EITHER & explicit.keys())
        if name not in _SAVED or overridden or getattr(options, name, None) == "":
            continue
        if _is_inherited(name, value, settings, same_host=record.host == host_name()):
            inherited[name] = value
            setattr(options, name, value)
        elif hasattr(options, name):
            to_repeat[name] = value
    parts = (("options used again", inherited), ("options to repeat if you still want them", to_repeat))
    return "; ".join(f"{words}: {as_command_line(values)}" for words, values in parts if values)


def as_command_line(values: Mapping[str, object]) -> str:
    """The options as spelled on the command line, separated by commas."""
    spelled = []
    for name, value in values.items():
        option = f"--{name.replace('_', '-')}"
        several = [] if value is None or value is True else value if isinstance(value, list) else [value]
        spelled.append(" ".join(f"{option} {shlex.quote(str(each))}" for each in several) or option)
    return ", ".join(spelled)


def _is_inherited(name: str, value: Any, settings: Settings, *, same_host: bool) -> bool:
    """Whether the value has the right type and does not exceed the settings; a check only on the same machine."""
    if name == "mode":
        return value in _MODES and _MODES.index(value) <= _MODES.index(settings.text("run.mode"))
    if name in _LIMITS:
        whole = name in {"max_turns", "max_tokens"}
        if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
            return False
        most = settings.get(_LIMITS[name])
        return value >= whole and (not isinstance(most, int | float) or value <= most)
    if name == "check":
        return same_host and isinstance(value, str)
    return name in _INHERITED and value is True
