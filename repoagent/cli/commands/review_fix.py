"""`repoagent review --fix`: fix the findings of this review, or those of the last one by their ids, one edit each."""

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
    """What all fixes of one run share. `committed`: the reviewed change is in a commit, so fixes are committed too."""

    worktree: WorkTree
    settings: Settings
    terminal: Terminal
    options: SimpleNamespace
    committed: bool
    ready: ModelSetup | None = None


def is_id(word: str) -> bool:
    """Whether a word of the command line can be (the beginning of) a finding's id."""
    return 4 <= len(word) <= 12 and not word.lower().strip("0123456789abcdef")


def refuse_silent(terminal: Terminal, options: SimpleNamespace) -> None:
    """Raise UsageError without --yes and without a terminal."""
    if not (options.yes or terminal.can_ask):
        raise UsageError(
            "cannot ask for confirmation without a terminal; use --yes to fix findings without asking"
        )


def fix_named(session: Session, options: SimpleNamespace) -> Exit:
    """Fix the findings of the last review that the command line names. Raises UsageError for an unknown id."""
    from repoagent.cli.options import parse_check
    from repoagent.git.worktree import layout, open_worktree
    from repoagent.review.finding import find_in, read_last

    worktree = open_worktree(Path.cwd())
    place = layout(worktree)
    settings, terminal = session.open(
        place, {"model": options.model, "max_cost": options.max_cost, **parse_check(options)}
    )
    last = read_last(place, warn=terminal.warn)
    findings = list(dict.fromkeys(find_in(last, word) for word in options.words))
    committed = last is not None and bool(last.head)
    return fix_found(Fixing(worktree, settings, terminal, options, committed), findings)


def fix_found(fixing: Fixing, findings: Sequence[Finding]) -> Exit:
    """Recover from killed commands, then `fix`."""
    from repoagent.cli.app import settle

    refuse_silent(fixing.terminal, fixing.options)
    settle(fixing.worktree, fixing.terminal)
    return fix(fixing, findings)


def fix(fixing: Fixing, findings: Sequence[Finding]) -> Exit:
    """Fix `findings`, one edit each. A finding that cannot be fixed is reported and skipped.

    Raises NothingDone without a finding to fix, and the error of the only finding.
    """
    from repoagent.review.fix import as_data, can_be_fixed

    todo = [finding for finding in findings if can_be_fixed(finding)]
    if not todo:
        raise NothingDone("nothing to fix: no finding is about lines that an edit can change")
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
            fixing.terminal.warn(f"could not fix {finding.id}: {error}")
    if fixing.options.as_json:
        rest = [{"id": finding.id, "outcome": "failed", "reason": str(error)} for finding, error in failed]
        value = {"version": VERSION, "fixes": [*map(dict, map(as_data, done)), *rest]}
        fixing.terminal.done(json.dumps(value, indent=2) + "\n")
    landed = [fixed for fixed in done if fixed.landed is not None]
    if landed and not fixing.committed:
        fixing.terminal.note("the fixes are in the work tree; review them, then `git add` them")
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
    template = EditRequest(
        "", (), check=check_of(settings), parse_check=settings.switch("edit.parse_check"),
        sensitive=settings.texts("edit.sensitive"),
        commit=Options(no_commit=not fixing.committed),
    )  # fmt: skip
    change = suggested_change(worktree, finding)
    with terminal.working("fixing") as working:
        ui = TerminalInterface(
            terminal, working, yes=fixing.options.yes, commits=fixing.committed, model=change is None
        )
        if change is not None:
            fixed = commit_suggestion(worktree, finding, change, template, settings, ui=ui)
        else:
            request = fix_request(worktree, finding, template)
            fixing.ready = _ready(fixing)
            fixed = ask_for_edit(worktree, finding, request, settings, ui=ui, ready=fixing.ready)
    if fixing.options.as_json:
        return fixed
    if fixed.landed is not None:
        show_landed(fixed.landed, terminal, fixed.model or "as suggested", ui.said)
    elif not ui.answered:
        terminal.note(fixed.answer.strip())
    return fixed


def _ready(fixing: Fixing) -> ModelSetup:
    """The model for edits, opened once; `max_turns` limits each fix."""
    from dataclasses import replace

    from repoagent.edit.model_setup import model_setup

    options = fixing.options
    ready = fixing.ready or model_setup(fixing.settings, options.record, options.reply, fixing.terminal.warn)
    meter = ready.meter
    meter.limits = replace(meter.limits, turns=meter.attempts + fixing.settings.whole("max_turns"))
    return ready
