"""All that history says of a change: the rules that are on, one after another, within a bound of time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from repoagent.review.finding import Finding, Level
from repoagent.review.rules import RULES, level_of

if TYPE_CHECKING:
    from repoagent.config import Settings
    from repoagent.repo.worktree import WorkTree
    from repoagent.review.change import Change
    from repoagent.review.history.habits import Habits
    from repoagent.review.history.past import Past
    from repoagent.review.history.source import Source
    from repoagent.store import Layout

SECONDS = 3.0  # for all rules together, beyond which what is left is not looked at
INLINE_SECONDS = 1.0  # for reading the lines of past commits, where nothing may run in the background
_HOME = {
    "partner-missing": "repoagent.review.history.partners:find",
    "fix-prone": "repoagent.review.history.fixes:find",
    "unusual-width": "repoagent.review.history.unusual:width",
    "unusual-size": "repoagent.review.history.unusual:size",
    "generated-edited": "repoagent.review.history.generated:find",
    "vendored-edited": "repoagent.review.history.vendored:find",
    "api-changed": "repoagent.review.history.api:find",
}


class HistoryAnswer(NamedTuple):  # a dataclass would take 1 ms more of each commit
    """`notes` are sentences about the answer as a whole, `unseen` about what was not looked at."""

    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()


def history_findings(change: Change, worktree: WorkTree, layout: Layout, settings: Settings) -> HistoryAnswer:
    """What the rules that are on say of `change`. Nothing is fetched, no model is asked."""
    levels = {
        rule.id: level for rule in RULES.values() if rule.source == "history" and (level := level_of(rule.id, settings))
    }  # fmt: skip
    if not levels or not change.files:
        return HistoryAnswer()
    from repoagent.review.history.source import open_source

    with ExitStack() as stack:
        source = open_source(worktree, change, stack)
        habits, note = _habits(source, worktree, layout, settings, change)
        past = _past(change, worktree, levels, source, habits)
        findings: list[Finding] = []
        for rule, home in _HOME.items():
            if rule in levels:
                findings += _rule(home)(past)
    notes = [each for each in ("" if _hurried() else _shallow(worktree), source.note, note) if each]
    return HistoryAnswer(tuple(findings), tuple(notes), tuple(past.unseen))


def _rule(home: str) -> Callable[[Past], list[Finding]]:
    module, _, name = home.partition(":")
    found: Callable[[Past], list[Finding]] = getattr(import_module(module), name)
    return found


def _past(
    change: Change, worktree: WorkTree, levels: Mapping[str, Level], source: Source, habits: Habits | None
) -> Past:
    from repoagent.review.history.past import Past

    return Past(
        worktree.top,
        change,
        levels,
        source.view,
        source.ids,
        source.author,
        habits,
        time.monotonic() + SECONDS,
        own_attributes=(worktree.common_dir / "info" / "attributes").exists(),
    )


def _habits(
    source: Source, worktree: WorkTree, layout: Layout, settings: Settings, change: Change
) -> tuple[Habits | None, str]:
    """What is usual here, and what to say where that is not known yet. What is old is learned anew behind our back."""
    from repoagent.review.history.habits import read

    if source.view is None:
        return None, ""
    known = read(layout, _silent)
    if source.state == "whole" and known is not None and not _is_old(known, source):
        return known, ""
    if known is not None and change.kind in ("commit", "range") and source.mined <= known.mined:
        return known, ""
    from repoagent.review.history.learn import learn, learn_in_background

    started = settings.switch("history.background") and learn_in_background(worktree, layout)
    if known is not None:
        return known, ""
    if source.state == "whole" and not started and not _hurried():
        return learn(worktree, layout, seconds=INLINE_SECONDS), ""
    if started:
        return None, "the history is being read in the background: until that is done, less is noticed"
    return None, "the history has not been read yet: run `repoagent review --learn` once to have more noticed"


def _is_old(known: Habits, source: Source) -> bool:
    from repoagent.review.history.habits import EVERY

    return not known.mined <= source.mined < known.mined + EVERY


def _hurried() -> bool:
    """Whether somebody waits for a commit to be made: git sets this for its hooks."""
    return "GIT_INDEX_FILE" in os.environ and os.environ.get("CI", "").lower() in {"", "0", "false"}


def _shallow(worktree: WorkTree) -> str:
    if (worktree.common_dir / "shallow").exists():
        return "the clone is shallow: only the commits that are here count (git fetch --unshallow brings the others)"
    return ""


def _silent(_: str) -> None:
    """What is derived is made again without a word."""
