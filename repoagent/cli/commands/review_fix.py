"""`repoagent review --fix`: findings of the last review, or of this one, become edits one after the other."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from repoagent.dataclass import dataclass
from repoagent.errors import Exit, NothingDone, RepoagentError, UsageError

if TYPE_CHECKING:
    from repoagent.cli.session import Session
    from repoagent.cli.ui.terminal import Terminal
    from repoagent.config.settings import Settings
    from repoagent.edit.model_setup import ModelSetup
    from repoagent.git.worktree import WorkTree
    from repoagent.review.finding import Finding
    from repoagent.review.fix import FixOutcome

VERSION = 1


@dataclass
class Fixing:
    """What all fixes of one run share. `given` are the options; `committed` says that what was reviewed is in a commit,
    so that a fix may be one too."""

    worktree: WorkTree
    settings: Settings
    terminal: Terminal
    given: SimpleNamespace
    committed: bool
    ready: ModelSetup | None = None


def is_id(word: str) -> bool:
    """Whether a word of the command line can be the id of a finding, or its beginning."""
    return 4 <= len(word) <= 12 and not word.lower().strip("0123456789abcdef")


def refuse_silent(terminal: Terminal, given: SimpleNamespace) -> None:
    """Raise UsageError where there is nobody to ask."""
    if not (given.yes or terminal.can_ask):
        raise UsageError(
            "there is no terminal to ask on: say --yes to have findings put right without a question"
        )


def fix_named(session: Session, given: SimpleNamespace) -> Exit:
    """Put the findings of the last review right whose ids are the words of the command line. Raises UsageError for an
    id that it does not have."""
    from repoagent.cli.options import parse_check
    from repoagent.git.worktree import layout, open_worktree
    from repoagent.review.finding import find_in, read_last

    worktree = open_worktree(Path.cwd())
    place = layout(worktree)
    settings, terminal = session.open(
        place, {"model": given.model, "max_cost": given.max_cost, **parse_check(given)}
    )
    last = read_last(place, warn=terminal.warn)
    findings = list(dict.fromkeys(find_in(last, word) for word in given.words))
    committed = last is not None and bool(last.head)
    return fix_found(Fixing(worktree, settings, terminal, given, committed), findings)


def fix_found(fixing: Fixing, findings: Sequence[Finding]) -> Exit:
    """Put these findings right, after what a killed command has left is settled. Raises as `fix`."""
    from repoagent.cli.app import settle

    refuse_silent(fixing.terminal, fixing.given)
    settle(fixing.worktree, fixing.terminal)
    return fix(fixing, findings)


def fix(fixing: Fixing, findings: Sequence[Finding]) -> Exit:
    """Put `findings` right, one edit for each. One that can't be is told and left; what was done stays.

    Raises NothingDone where there is none to put right; what a single one raises, where it is the only one.
    """
    from repoagent.review.fix import as_data, can_be_fixed

    todo = [finding for finding in findings if can_be_fixed(finding)]
    if not todo:
        raise NothingDone("there is nothing to put right: no finding is about lines that an edit can change")
    done: list[FixOutcome] = []
    failed: list[tuple[Finding, RepoagentError]] = []
    for finding in todo:
        fixing.terminal.note(
            f"{finding.id}  {finding.location.path}:{finding.location.start}  {finding.title}"
        )
        try:
            done.append(_fix(fixing, finding))
        except RepoagentError as error:
            if len(todo) == 1:
                raise
            failed.append((finding, error))
            fixing.terminal.warn(f"{finding.id} was not put right: {error}")
    if fixing.given.as_json:
        rest = [{"id": finding.id, "outcome": "failed", "reason": str(error)} for finding, error in failed]
        value = {"version": VERSION, "fixes": [*map(dict, map(as_data, done)), *rest]}
        fixing.terminal.done(json.dumps(value, indent=2) + "\n")
    landed = [fixed for fixed in done if fixed.landed is not None]
    if landed and not fixing.committed:
        fixing.terminal.note("what was put right is in the work tree: look at it, and `git add` it")
    if failed and not landed:
        return failed[0][1].exit_code
    return Exit.DONE if len(landed) == len(todo) else Exit.NOTHING


def _fix(fixing: Fixing, finding: Finding) -> FixOutcome:
    from repoagent.cli.ui.confirm import TerminalInterface
    from repoagent.cli.ui.outcome import show_landed
    from repoagent.edit.request import EditRequest
    from repoagent.git.transaction.results import Options
    from repoagent.review.fix import ask_for_edit, commit_suggestion, fix_request, suggested_change
    from repoagent.tasks.check import check_of

    worktree, settings, terminal = fixing.worktree, fixing.settings, fixing.terminal
    options = EditRequest(
        "", (), check=check_of(settings), parse_check=settings.switch("edit.parse_check"),
        sensitive=settings.texts("edit.sensitive"),
        commit=Options(no_commit=not fixing.committed),
    )  # fmt: skip
    change = suggested_change(worktree, finding)
    with terminal.working("putting it right") as working:
        ui = TerminalInterface(
            terminal, working, yes=fixing.given.yes, commits=fixing.committed, model=change is None
        )
        if change is not None:
            fixed = commit_suggestion(worktree, finding, change, options, settings, ui=ui)
        else:
            request = fix_request(worktree, finding, options)
            fixing.ready = _ready(fixing)
            fixed = ask_for_edit(worktree, finding, request, settings, ui=ui, ready=fixing.ready)
    if fixing.given.as_json:
        return fixed
    if fixed.landed is not None:
        show_landed(fixed.landed, terminal, fixed.model or "as suggested", ui.said)
    elif not ui.answered:
        terminal.note(fixed.answer.strip())
    return fixed


def _ready(fixing: Fixing) -> ModelSetup:
    """The model of edits, the same for all; `max_turns` is a limit for each."""
    from dataclasses import replace

    from repoagent.edit.model_setup import model_setup

    given = fixing.given
    ready = fixing.ready or model_setup(fixing.settings, given.record, given.reply, fixing.terminal.warn)
    meter = ready.meter
    meter.limits = replace(meter.limits, turns=meter.attempts + fixing.settings.whole("max_turns"))
    return ready
