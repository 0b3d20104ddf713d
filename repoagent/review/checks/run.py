"""All that history says of a change: the rules that are on, one after another, within a bound of time.

The history before a change: the index, or while there is none, the last commits of the changed files.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from repoagent.review.finding import Finding, Level
from repoagent.review.rules import RULES, level_of

if TYPE_CHECKING:
    from repoagent.config.settings import Settings
    from repoagent.git.worktree import WorkTree
    from repoagent.history.cochange.score import View
    from repoagent.history.recent_commits import QuickLook
    from repoagent.review.change import Change
    from repoagent.review.checks.history_context import HistoryContext
    from repoagent.review.checks.statistics import Habits
    from repoagent.storage.layout import Layout

SECONDS = 3.0  # for all rules together, beyond which what is left is not looked at
INLINE_SECONDS = 1.0  # for reading the lines of past commits, where nothing may run in the background
_HOME = {
    "partner-missing": "repoagent.review.checks.missing_partner:find_missing_partners",
    "fix-prone": "repoagent.review.checks.statistics:find_fix_prone",
    "unusual-width": "repoagent.review.checks.statistics:find_unusual_width",
    "unusual-size": "repoagent.review.checks.statistics:find_unusual_size",
    "generated-edited": "repoagent.review.checks.generated:find_generated_edits",
    "vendored-edited": "repoagent.review.checks.generated:find_vendored_edits",
    "api-changed": "repoagent.review.checks.api_changed:find_changed_api",
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


def _rule(home: str) -> Callable[[HistoryContext], list[Finding]]:
    module, _, name = home.partition(":")
    found: Callable[[HistoryContext], list[Finding]] = getattr(import_module(module), name)
    return found


def _past(
    change: Change,
    worktree: WorkTree,
    levels: Mapping[str, Level],
    source: HistorySource,
    habits: Habits | None,
) -> HistoryContext:
    from repoagent.review.checks.history_context import HistoryContext

    return HistoryContext(
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
    source: HistorySource, worktree: WorkTree, layout: Layout, settings: Settings, change: Change
) -> tuple[Habits | None, str]:
    """What is usual here, and what to say where that is not known yet. What is old is learned anew behind our back."""
    from repoagent.review.checks.statistics import read

    if source.view is None:
        return None, ""
    known = read(layout, _silent)
    if source.state == "whole" and known is not None and not _is_old(known, source):
        return known, ""
    if known is not None and change.kind in ("commit", "range") and source.mined <= known.mined:
        return known, ""
    from repoagent.review.checks.statistics import learn, learn_in_background

    started = settings.switch("history.background") and learn_in_background(worktree, layout)
    if known is not None:
        return known, ""
    if source.state == "whole" and not started and not _hurried():
        return learn(worktree, layout, seconds=INLINE_SECONDS), ""
    if started:
        return None, "the history is being read in the background: until that is done, less is noticed"
    return None, "the history has not been read yet: run `repoagent review --learn` once to have more noticed"


def _is_old(known: Habits, source: HistorySource) -> bool:
    from repoagent.review.checks.statistics import EVERY

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


MINING_SECONDS = 0.2  # wall time that a review gives to an index that is not whole
QUICK_SECONDS = 0.4
ENOUGH = 1000  # commits in a part of the index that make it the better answer
_QUICK_FILES = 30  # whose last commits are read while there is no index
_QUICK_COMMITS = 300


class HistorySource(NamedTuple):
    """`view` is None where there is no history; `state` is "whole", "building" or "none"; `newest` is the commit it is
    seen from, `mined` how many commits the index has."""

    view: View | None
    ids: Callable[[Iterable[int]], Mapping[int, str]]
    author: int | None
    state: str
    newest: str = ""
    mined: int = 0
    note: str = ""


def _no_ids(_: Iterable[int]) -> Mapping[int, str]:
    return {}


NOTHING = HistorySource(None, _no_ids, None, "none")


def open_source(worktree: WorkTree, change: Change, stack: ExitStack) -> HistorySource:
    """What is known of the time before the change; it stays open as long as `stack`.

    A change starts from its base; a bare diff is taken to start from HEAD.
    """
    from repoagent.git.worktree import layout
    from repoagent.history.index.index import open_index
    from repoagent.history.index.schema import NoCommits, NoIndex

    index = stack.enter_context(open_index(worktree))
    revision = change.base or "HEAD"
    if not change.base and change.kind != "diff":
        return NOTHING
    # while there is no index, the files' own last commits are read as it is begun
    look = None if layout(worktree).history.exists() else _look(worktree, change, revision, stack)
    try:
        tip = index.resolve(revision).decode("ascii")
        state = index.update(tip, seconds=MINING_SECONDS, head=change.kind in ("staged", "worktree", "diff"))
        view = index.view(tip)
    except NoCommits:
        return NOTHING
    except NoIndex as error:
        look = look or _look(worktree, change, revision, stack)
        return _recent(look, revision)._replace(note=f"there is no index to answer from: {error}")
    whole = not state.new and state.end != "mining"
    if not whole and state.commits < ENOUGH:
        return _recent(look or _look(worktree, change, revision, stack), revision)

    def ids(numbers: Iterable[int]) -> Mapping[int, str]:
        return {number: told[0].decode("ascii") for number, told in view.describe(list(numbers)).items()}

    author = view.author(change.author) if change.author else None
    return HistorySource(view, ids, author, "whole" if whole else "building", tip, state.commits)


def _look(worktree: WorkTree, change: Change, revision: str, stack: ExitStack) -> QuickLook | None:
    """The reading of the changed files' own last commits, started; None where none existed before."""
    from repoagent.history.recent_commits import QuickLook

    paths = [file.old_path for file in change.files if file.status != "added"][:_QUICK_FILES]
    if not paths:
        return None
    look = QuickLook(worktree.top, *paths, seconds=QUICK_SECONDS, revision=revision, commits=_QUICK_COMMITS)
    return stack.enter_context(look)


def _recent(look: QuickLook | None, revision: str) -> HistorySource:
    if look is None:
        return NOTHING._replace(state="building")
    view = look.view()

    def ids(numbers: Iterable[int]) -> Mapping[int, str]:
        return {number: view.id(number) for number in numbers}

    return HistorySource(view, ids, None, "building", revision)
