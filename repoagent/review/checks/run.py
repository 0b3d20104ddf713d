"""Run the checks that need no model: static ones on the changed texts, history ones on the history before the change.

`CHECKS` lists them in the order in which they run; both kinds have a time limit.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from repoagent.review.checks.context import LARGEST, CheckContext, HistorySource, is_text
from repoagent.review.finding import Finding, Level
from repoagent.review.rules import RULES, level_of

if TYPE_CHECKING:
    from repoagent.config.settings import Settings
    from repoagent.git.worktree import WorkTree
    from repoagent.history.recent_commits import QuickLook
    from repoagent.review.change import Change
    from repoagent.review.checks.statistics import Habits
    from repoagent.storage.layout import Layout

CHECKS = {  # rule id: function below this package, imported when it runs
    "conflict-marker": "static:find_conflict_markers",
    "parse-error": "static:find_parse_errors",
    "removed-symbol": "removed_symbol:find_removed_symbols",
    "debug-leftover": "static:find_debug_leftovers",
    # last of the static ones: if a line looks random, its rules take a third of a second to load
    "secret": "static:find_secrets",
    "partner-missing": "missing_partner:find_missing_partners",
    "fix-prone": "statistics:find_fix_prone",
    "unusual-width": "statistics:find_unusual_width",
    "unusual-size": "statistics:find_unusual_size",
    "generated-edited": "generated:find_generated_edits",
    "vendored-edited": "generated:find_vendored_edits",
    "api-changed": "api_changed:find_changed_api",
}
STATIC_SECONDS = 3.0  # processor time of all static checks, so that a busy machine gives the same result
HISTORY_SECONDS = 3.0  # for all history checks
INLINE_SECONDS = 1.0  # to count the lines of past commits, if nothing may run in the background
MINING_SECONDS = 0.2  # wall time to extend an incomplete index
ENOUGH = 1000  # commits in a partial index from which it is preferred
QUICK_SECONDS = 0.4  # to read the last commits of the changed files while there is no index
QUICK_FILES, QUICK_COMMITS = 30, 300


class CheckOutcome(NamedTuple):  # a dataclass would take 1 ms more of each commit
    """`notes` are sentences about the whole outcome, `unseen` phrases for parts that were not checked. `secrets` are
    values that must not be printed with the code around a finding."""

    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()


def static_findings(change: Change, worktree: WorkTree, settings: Settings) -> CheckOutcome:
    """The findings of the enabled static rules."""
    levels = _levels("static", settings)
    if not levels or not change.files:
        return CheckOutcome()
    ignored = _ignored(change, worktree)
    texts = tuple(file for file in change.files if is_text(file))
    files = tuple(file for file in texts if not ignored(file.path))
    end = time.process_time() + STATIC_SECONDS
    context = CheckContext(worktree, change, levels, lambda: end - time.process_time(), files)
    if count := len(texts) - len(files):
        context.unseen.append(f"{count} file{'s' * (count > 1)} listed in .repoagentignore")
    for rule in levels:
        if context.remaining() < 0:
            context.unseen.append(f"the rule {rule} was skipped: the review took too long")
        else:
            context.findings.extend(load_check(rule)(context))
    return CheckOutcome(tuple(context.findings), (), tuple(context.unseen), tuple(context.secrets))


def history_findings(change: Change, worktree: WorkTree, layout: Layout, settings: Settings) -> CheckOutcome:
    """The findings of the enabled history rules. Never fetches objects."""
    levels = _levels("history", settings)
    if not levels or not change.files:
        return CheckOutcome()
    with ExitStack() as stack:
        source = open_source(worktree, change, stack)
        habits, note = _habits(source, worktree, layout, settings, change)
        context = history_context(change, worktree, levels, source, habits)
        findings = tuple(finding for rule in levels for finding in load_check(rule)(context))
    shallow = ""
    if not _is_commit_waiting() and (worktree.common_dir / "shallow").exists():
        shallow = (
            "the clone is shallow, so older commits do not count; run `git fetch --unshallow` to include them"
        )
    return CheckOutcome(findings, tuple(filter(None, (shallow, source.note, note))), tuple(context.unseen))


def load_check(rule: str) -> Callable[[CheckContext], Iterator[Finding]]:
    """The function of the rule, as named in CHECKS."""
    module, _, name = CHECKS[rule].partition(":")
    check: Callable[[CheckContext], Iterator[Finding]]
    check = getattr(import_module(f"repoagent.review.checks.{module}"), name)
    return check


def history_context(
    change: Change,
    worktree: WorkTree,
    levels: Mapping[str, Level],
    source: HistorySource,
    habits: Habits | None,
) -> CheckContext:
    """The input of the history checks, whose time limit starts now."""
    end = time.monotonic() + HISTORY_SECONDS
    return CheckContext(
        worktree, change, levels, lambda: end - time.monotonic(), history=source, habits=habits
    )


def _levels(source: str, settings: Settings) -> dict[str, Level]:
    """The level of each enabled check from this source, in the order of CHECKS."""
    rules = [rule for rule in CHECKS if RULES[rule].source == source]
    return {rule: level for rule in rules if (level := level_of(rule, settings))}


def _ignored(change: Change, worktree: WorkTree) -> Callable[[str], bool]:
    """A function that returns whether `.repoagentignore` (for a foreign change, its old version) matches a path."""
    from repoagent.edit.guards.off_limits import IGNORE_FILE
    from repoagent.review.untrusted_change import is_foreign, tree_of
    from repoagent.storage.atomic import read_regular

    texts = tree_of(change, worktree).texts(IGNORE_FILE) if is_foreign(change) else None
    data = texts[0] if texts else read_regular(worktree.top / IGNORE_FILE, most=LARGEST)
    if not data:
        return lambda path: False
    from repoagent.edit.guards.off_limits import IgnoreFile

    return IgnoreFile(data).match_file


def open_source(worktree: WorkTree, change: Change, stack: ExitStack) -> HistorySource:
    """Open the history before the change until `stack` closes. Assume that a bare diff starts from HEAD."""
    from repoagent.git.worktree import layout
    from repoagent.history.index.index import open_index
    from repoagent.history.index.schema import NoCommits, NoIndex

    if not change.base and change.kind != "diff":
        return HistorySource()
    paths = [file.old_path for file in change.files if file.status != "added"][:QUICK_FILES]

    @cache
    def start_quick_look() -> QuickLook | None:
        from repoagent.history.recent_commits import QuickLook

        if not paths:
            return None
        revision = change.base or "HEAD"
        look = QuickLook(
            worktree.top, *paths, seconds=QUICK_SECONDS, revision=revision, commits=QUICK_COMMITS
        )
        return stack.enter_context(look)

    def recent(note: str = "") -> HistorySource:
        quick_look = start_quick_look()
        if quick_look is None:
            return HistorySource(state="building", note=note)
        view = quick_look.view()
        return HistorySource(view, state="building", note=note)

    index = stack.enter_context(open_index(worktree))
    if not layout(worktree).history.exists():
        start_quick_look()  # reads while the index is created
    try:
        tip = change.base or index.resolve("HEAD").decode("ascii")
        state = index.update(tip, seconds=MINING_SECONDS, head=change.kind in ("staged", "worktree", "diff"))
        view = index.view(tip)
    except NoCommits:
        return HistorySource()
    except NoIndex as error:
        return recent(f"there is no history index: {error}")
    complete = not state.new and state.end != "mining"
    if not complete and state.commits < ENOUGH:
        return recent()

    author = view.author(change.author) if change.author else None
    return HistorySource(view, author, "whole" if complete else "building", state.commits)


def _habits(
    source: HistorySource, worktree: WorkTree, layout: Layout, settings: Settings, change: Change
) -> tuple[Habits | None, str]:
    """The habits, and a note if they are not known yet. Updates outdated habits in the background."""
    from repoagent.review.checks.statistics import EVERY, learn, learn_in_background, read

    if source.view is None:
        return None, ""
    known = read(layout)
    if source.state == "whole" and known is not None and known.mined <= source.mined < known.mined + EVERY:
        return known, ""
    if known is not None and change.kind in ("commit", "range") and source.mined <= known.mined:
        return known, ""
    started = settings.switch("history.background") and learn_in_background(worktree, layout)
    if known is not None:
        return known, ""
    if source.state == "whole" and not started and not _is_commit_waiting():
        return learn(worktree, layout, seconds=INLINE_SECONDS), ""
    if started:
        return None, "the history is still being read in the background; until then the review finds less"
    return None, "the history has not been read yet; run `repoagent review --learn` once to find more"


def _is_commit_waiting() -> bool:
    """Whether a commit waits for this process: git sets GIT_INDEX_FILE for its hooks."""
    return "GIT_INDEX_FILE" in os.environ and os.environ.get("CI", "").lower() in {"", "0", "false"}
