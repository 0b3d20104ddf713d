"""`repoagent hook`: review each commit or push from git's hooks. `hook run` is what they call.

A hook stops git for findings, but not for its own failures unless it is --strict.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli.app import LazyGroup
from repoagent.cli.session import Session, json_option, pass_session, write_json
from repoagent.errors import Busy, Exit, Refused, RepoagentError

if TYPE_CHECKING:
    from repoagent.cli.ui.terminal import Terminal
    from repoagent.config.settings import Settings
    from repoagent.git.worktree import WorkTree
    from repoagent.review.finding import Level, Report
    from repoagent.review.hooks.install import HookFile, Hooks
    from repoagent.review.hooks.run import HookChanges
    from repoagent.storage.layout import Layout

NAMES = ("pre-commit", "commit-msg", "pre-push")

EXAMPLES = """\b
Examples:
  repoagent hook install                      review what is committed
  repoagent hook install --commit-msg         also read Review-Ignore trailers
  repoagent hook install --pre-push
  repoagent hook status
  repoagent hook uninstall

A hook stops git only for findings of the level review.fail_on or above; bypass
it with git commit --no-verify. If the review itself fails, for example because
a model cannot be reached, the hook prints a warning and git continues, unless
you use --strict.

\b
commit-msg, instead of pre-commit, reads trailers of the message:
  Review-Ignore: partner-missing docs/api.md

An existing hook is kept and runs first; `uninstall` restores it. Hooks of a
hook manager (pre-commit, husky, lefthook) or of the repository are not
changed; install prints what to add there."""


COMMANDS = {
    "install": ("hook:install", "Install hooks, next to existing ones."),
    "uninstall": ("hook:uninstall", "Remove the hooks, and restore what was there."),
    "status": ("hook:status", "Show which hooks are installed, and their owners."),
    "run": ("hook:run_command", "Run a hook; for git and hook managers."),
}


@click.group(cls=LazyGroup, table=COMMANDS, epilog=EXAMPLES, subcommand_metavar="COMMAND [ARGS]...")
def command() -> None:
    """Review each commit or push through git's hooks."""


def _chosen(function: Callable[..., None]) -> Callable[..., None]:
    for name, what in reversed(
        list(
            zip(NAMES, ("what is staged", "what is staged, with its message", "what is pushed"), strict=True)
        )
    ):
        function = click.option(f"--{name}", is_flag=True, help=f"The hook {name}: {what}.")(function)
    return function


@click.command(short_help="Install hooks, next to existing ones.")
@_chosen
@click.option("--strict", is_flag=True, help="Also stop git if the review itself fails.")
@click.option(
    "--everywhere", is_flag=True, help="Install even if core.hooksPath is shared with other repositories."
)
@json_option
@pass_session
def install(session: Session, /, *, strict: bool, everywhere: bool, as_json: bool, **flags: bool) -> None:
    """Install the named hooks, by default pre-commit.

    All work trees of a repository share its hooks.
    """
    from repoagent.review.hooks.install import install as install_hooks

    names = _names(flags) or NAMES[:1]
    found = _look()
    changes = install_hooks(found, names, _program(), strict=strict, everywhere=everywhere)
    _report(session, changes, as_json=as_json)


@click.command(short_help="Remove the hooks, and restore what was there.")
@_chosen
@json_option
@pass_session
def uninstall(session: Session, /, *, as_json: bool, **flags: bool) -> None:
    """Remove the named hooks of repoagent, by default all, and restore what they replaced."""
    from repoagent.review.hooks.install import uninstall as uninstall_hooks

    changes = uninstall_hooks(_look(), _names(flags) or NAMES)
    _report(session, changes or ["no hooks of repoagent here"], as_json=as_json)


@click.command(short_help="Show which hooks are installed, and their owners.")
@json_option
@pass_session
def status(session: Session, /, *, as_json: bool) -> None:
    """Show the folder of git's hooks here, and which program each hook belongs to."""
    found = _look()
    terminal = session.terminal()
    if as_json:
        rows = [
            {
                "name": hook.name,
                "path": str(hook.path),
                "state": hook.state,
                "manager": hook.manager.name if hook.manager else None,
                "before": hook.before,
                "executable": hook.runs,
            }
            for hook in found.files
        ]
        content = {"folder": str(found.folder), "owner": found.whose, "off": found.off or None, "hooks": rows}
        write_json(terminal, content)
        return
    if found.off:
        terminal.result(f"git runs no hooks here: {found.off}\n")
        return
    terminal.result(f"hooks are in {found.folder}{_WHOSE[found.whose]}\n")
    for hook in found.files:
        terminal.result(f"{hook.name:<10}  {_state(hook)}\n")


_WHOSE = {
    "repository": "",
    "team": ", which is part of the repository",
    "everywhere": ", which other repositories use too",
}


def _state(found: HookFile) -> str:
    before = ", after an existing hook" if found.before else ""
    if found.state == "managed" and found.manager:
        return f"of {found.manager.name}"
    idle = "" if found.runs else ", not executable, so git does not run it"
    return {
        "none": "none",
        "ours": f"of repoagent{before}{idle}",
        "changed": f"of repoagent, changed by hand{before}{idle}",
        "legacy": f"of repoagent, run by that of pre-commit{before}",
        "odd": "not a file",
    }.get(found.state, f"another hook{idle}")


def _names(flags: Mapping[str, bool]) -> tuple[str, ...]:
    return tuple(name for name in NAMES if flags[name.replace("-", "_")])


def _look() -> Hooks:
    from repoagent.git.worktree import open_at_head
    from repoagent.review.hooks.install import inspect_hooks

    return inspect_hooks(open_at_head(Path.cwd())[0])


def _program() -> tuple[str, ...]:
    """The command that runs this repoagent: the script next to this Python, or this Python."""
    script = Path(sys.executable).with_name("repoagent")
    if os.access(script, os.X_OK):
        return (str(script),)
    from repoagent.history.index.index import ITSELF

    return (sys.executable, *ITSELF)


def _report(session: Session, changes: list[str], *, as_json: bool) -> None:
    terminal = session.terminal()
    if as_json:
        write_json(terminal, {"done": changes})
        return
    for sentence in changes:
        terminal.note(sentence)


LEVELS = ("note", "warning", "error", "never")
EPILOG = """\b
Examples:
  repoagent hook run pre-commit               what is staged
  repoagent hook run commit-msg "$1"          the same, with its message
  repoagent hook run pre-push "$@"            git's lines on standard input

The exit code is 6 if a finding reaches the level of --fail-on (by default
review.fail_on, which is error unless you set it), otherwise 0. Without
findings, nothing is printed."""


@click.command(epilog=EPILOG, short_help="Do what a hook does; for git and hook managers.")
@click.argument("name", metavar="HOOK")
@click.argument("arguments", metavar="[ARGS]...", nargs=-1)
@click.option("--strict", is_flag=True, help="Also fail if the review itself fails.")
@click.option(
    "--fail-on",
    type=click.Choice(LEVELS),
    metavar="LEVEL",
    help="Stop git for findings of this level or above.",
)
@click.option("--only", metavar="RULE", multiple=True, help="Check only RULE, without a model. Repeatable.")
@json_option
@pass_session
def run_command(session: Session, /, **values: Any) -> int:
    """Review what git is about to commit or push, as the hook HOOK with git's arguments ARGS."""
    options = SimpleNamespace(**values)
    try:
        return _run(session, options)
    except RepoagentError as error:
        if options.strict:
            raise
        session.terminal().warn(f"not reviewed: {error}")
        if options.as_json:
            write_json(session.terminal(), _as_object(options.name, [], str(error)))
        return Exit.DONE


def _run(session: Session, options: SimpleNamespace) -> int:
    from repoagent.git.worktree import layout, open_at_head
    from repoagent.review.hooks.run import changes_of
    from repoagent.review.rules import RULES, parse_levels
    from repoagent.review.untrusted import settings_before

    only = options.only
    off = parse_levels(tuple(f"{rule}=off" for rule in RULES if rule not in only) if only else ())
    parse_levels(tuple(f"{rule}=note" for rule in only))  # so that a rule that does not exist is an error
    worktree, head = open_at_head(Path.cwd())
    place = layout(worktree)
    flags = {**off, "review.fail_on": options.fail_on}
    settings, terminal = session.open(place, flags)
    lines = sys.stdin.buffer.read() if options.name == "pre-push" else b""
    looked = changes_of(options.name, options.arguments, worktree, head, lines)
    for sentence in looked.notes:
        terminal.warn(sentence)
    if looked.changes:  # several are pushed, and then one's own
        settings = settings_before(looked.changes[0][0], worktree, place, settings)
    asks = not only and settings.text_or_none("review.model") is not None
    chosen = _hasty(settings) if asks else settings
    reports = _reports(looked, (worktree, place, chosen), terminal, asks=asks, strict=options.strict)
    _keep(place, reports)
    if options.as_json:
        write_json(terminal, _as_object(options.name, reports))
    else:
        _show(reports, worktree.top, terminal, settings.text("review.fail_on"))
    if not _stops(reports, settings.text("review.fail_on")):
        return Exit.DONE
    verb = "push" if options.name == "pre-push" or "PRE_COMMIT_REMOTE_NAME" in os.environ else "commit"
    terminal.note(f"stopped the {verb}; bypass this with: git {verb} --no-verify", "bold")
    return Exit.CHECK_FAILED


def _hasty(settings: Settings) -> Settings:
    """The settings with a shorter default for `review.max_seconds`."""
    from dataclasses import replace

    from repoagent.review.hooks.run import SECONDS

    limit = settings.setting("review.max_seconds")
    if limit.origin != "default":
        return settings
    return replace(settings, entries={**settings.entries, limit.key: limit._replace(value=SECONDS)})


def _reports(
    looked: HookChanges,
    where: tuple[WorkTree, Layout, Settings],
    terminal: Terminal,
    *,
    asks: bool,
    strict: bool,
) -> list[Report]:
    from contextlib import nullcontext

    from repoagent.review.review import ReviewRequest, review

    worktree, place, settings = where
    with terminal.working("reviewing") if asks else nullcontext() as working:
        context = None
        if working is not None:
            from repoagent.review.llm.review import ReviewSession

            context = ReviewSession(worktree, place, settings, terminal.warn, working.label)
        return [
            review(change, ReviewRequest(worktree, place, settings, context, unseen, strict=strict))
            for change, unseen in looked.changes
            if change.files
        ]


def _show(reports: list[Report], top: Path, terminal: Terminal, word: str) -> None:
    """Findings that stop git in full, the others in brief."""
    stopped = _stops(reports, word)
    for report in reports:
        if report.findings:
            from repoagent.cli.commands.review_report import Brief, show

            show(
                report,
                terminal,
                top=top,
                brief=Brief(_level(word), f"see the details with: {_again(report, stopped=stopped)}"),
            )
        else:
            for sentence in report.notes:
                terminal.note(sentence, "dim")


def _again(report: Report, *, stopped: bool) -> str:
    """The command that shows the findings in full."""
    if report.head and report.base:
        return f"repoagent review {report.base[:12]}..{report.head[:12]}"
    return "repoagent review" if stopped else "repoagent review --commit HEAD"


def _as_object(name: str, reports: list[Report], error: str = "") -> dict[str, object]:
    from repoagent.review.output.formats import report_data

    return {"hook": name, "error": error or None, "reports": [*map(report_data, reports)]}


def _stops(reports: list[Report], word: str) -> bool:
    worst = max((worst for report in reports if (worst := report.worst()) is not None), default=None)
    level = _level(word)
    return worst is not None and level is not None and worst >= level


def _level(word: str) -> Level | None:
    """The level that stops git, None for never."""
    from repoagent.review.finding import Level

    return None if word == "never" else Level[word.upper()]


def _keep(place: Layout, reports: list[Report]) -> None:
    """Save the findings for `review dismiss`, if that can be written."""
    found = [report for report in reports if report.findings]
    if not found:
        return
    from dataclasses import replace

    from repoagent.review.finding import save_last

    try:
        save_last(place, replace(found[-1], findings=[one for report in found for one in report.findings]))
    except (Refused, Busy):
        return
