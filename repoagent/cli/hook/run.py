"""`repoagent hook run`: what a hook does. It says little, and stops git for findings, not for troubles of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli.program.session import Session, json_option, pass_session
from repoagent.errors import Busy, Exit, Refused, RepoagentError

if TYPE_CHECKING:
    from repoagent.cli.screen.terminal import Terminal
    from repoagent.config import Settings
    from repoagent.repo.worktree import WorkTree
    from repoagent.review.finding import Level, Report
    from repoagent.review.hooks.run import Looked
    from repoagent.store import Layout

VERSION = 1
LEVELS = ("note", "warning", "error", "never")
EPILOG = """\b
Examples:
  repoagent hook run pre-commit               what is staged
  repoagent hook run commit-msg "$1"          the same, with its message
  repoagent hook run pre-push "$@"        with git's lines on standard input

\b
Exit code 6 says that there is a finding of the level of --fail-on or above
(review.fail_on; error unless that is set), 0 that git may go on. Nothing is
written when nothing was found."""


@click.command(epilog=EPILOG, short_help="Do what a hook does; for git and hook managers.")
@click.argument("name", metavar="HOOK")
@click.argument("arguments", metavar="[ARGS]...", nargs=-1)
@click.option("--strict", is_flag=True, help="Fail also when the review itself fails.")
@click.option(
    "--fail-on", type=click.Choice(LEVELS), metavar="LEVEL", help="From which level on git is stopped."
)
@click.option(
    "--only", metavar="RULE", multiple=True, help="Look for this alone, with no model; may be repeated."
)
@json_option
@pass_session
def command(session: Session, /, **options: Any) -> int:
    """Review what git is about to commit or push, as the hook HOOK with the arguments that git gave it."""
    given = SimpleNamespace(**options)
    try:
        return _run(session, given)
    except RepoagentError as error:
        if given.strict:
            raise
        session.terminal().warn(f"not reviewed: {error}")
        if given.as_json:
            session.terminal().result(_json(given.name, [], str(error)))
        return Exit.DONE


def _run(session: Session, given: SimpleNamespace) -> int:
    from repoagent.repo.worktree import layout, open_at_head
    from repoagent.review.foreign import settings_before
    from repoagent.review.hooks import changes_of
    from repoagent.review.rules import RULES, parse_levels

    only = given.only
    off = parse_levels(tuple(f"{rule}=off" for rule in RULES if rule not in only) if only else ())
    parse_levels(tuple(f"{rule}=note" for rule in only))  # so that a rule that does not exist is an error
    worktree, head = open_at_head(Path.cwd())
    place = layout(worktree)
    flags = {**off, "review.fail_on": given.fail_on}
    settings, terminal = session.open(place, flags)
    lines = sys.stdin.buffer.read() if given.name == "pre-push" else b""
    looked = changes_of(given.name, given.arguments, worktree, head, lines)
    for sentence in looked.notes:
        terminal.warn(sentence)
    if looked.changes:  # several are pushed, and then one's own
        settings = settings_before(looked.changes[0][0], worktree, place, settings)
    asks = not only and settings.text_or_none("review.model") is not None
    chosen = _hasty(settings) if asks else settings
    reports = _reports(looked, (worktree, place, chosen), terminal, asks=asks, strict=given.strict)
    _keep(place, reports)
    if given.as_json:
        terminal.result(_json(given.name, reports))
    else:
        _show(reports, worktree.top, terminal, settings.text("review.fail_on"))
    if not _stops(reports, settings.text("review.fail_on")):
        return Exit.DONE
    verb = "push" if given.name == "pre-push" or "PRE_COMMIT_REMOTE_NAME" in os.environ else "commit"
    terminal.note(f"the {verb} was stopped; to go past this: git {verb} --no-verify", "bold")
    return Exit.CHECK_FAILED


def _hasty(settings: Settings) -> Settings:
    """The settings with less time for a model, where nobody has set another one."""
    from dataclasses import replace

    from repoagent.review.hooks.run import SECONDS

    limit = settings.setting("review.max_seconds")
    if limit.origin != "default":
        return settings
    return replace(settings, entries={**settings.entries, limit.key: limit._replace(value=SECONDS)})


def _reports(
    looked: Looked, where: tuple[WorkTree, Layout, Settings], terminal: Terminal, *, asks: bool, strict: bool
) -> list[Report]:
    from contextlib import nullcontext

    from repoagent.review.run import Asked, review

    worktree, place, settings = where
    with terminal.working("reviewing") if asks else nullcontext() as working:
        desk = None
        if working is not None:
            from repoagent.review.model import Desk

            desk = Desk(worktree, place, settings, terminal.warn, working.label)
        return [
            review(change, Asked(worktree, place, settings, desk, unseen, strict=strict))
            for change, unseen in looked.changes
            if change.files
        ]


def _show(reports: list[Report], top: Path, terminal: Terminal, word: str) -> None:
    """What stops git in full, of the rest a line or two."""
    stopped = _stops(reports, word)
    for report in reports:
        if report.findings:
            from repoagent.cli.review.report import Brief, show

            show(
                report,
                terminal,
                top=top,
                brief=Brief(_level(word), f"to see why: {_again(report, stopped=stopped)}"),
            )
        else:
            for sentence in report.notes:
                terminal.note(sentence, "dim")


def _again(report: Report, *, stopped: bool) -> str:
    """The command that shows the findings in full, when git is done."""
    if report.head and report.base:
        return f"repoagent review {report.base[:12]}..{report.head[:12]}"
    return "repoagent review" if stopped else "repoagent review --commit HEAD"


def _json(name: str, reports: list[Report], error: str = "") -> str:
    import json

    from repoagent.review.output.data import content

    told = {
        "version": VERSION,
        "hook": name,
        "error": error or None,
        "reports": [content(one) for one in reports],
    }
    return json.dumps(told, indent=2) + "\n"


def _stops(reports: list[Report], word: str) -> bool:
    worst = max((worst for report in reports if (worst := report.worst()) is not None), default=None)
    level = _level(word)
    return worst is not None and level is not None and worst >= level


def _level(word: str) -> Level | None:
    """The level that stops git; None where nothing does."""
    from repoagent.review.finding import Level

    return None if word == "never" else Level[word.upper()]


def _keep(place: Layout, reports: list[Report]) -> None:
    """Remember the findings, so that `review dismiss` can speak of them; where nothing may be written, it can't."""
    found = [report for report in reports if report.findings]
    if not found:
        return
    from dataclasses import replace

    from repoagent.review.record import keep_last

    try:
        keep_last(place, replace(found[-1], findings=[one for report in found for one in report.findings]))
    except (Refused, Busy):
        return
