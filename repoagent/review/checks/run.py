"""Run the static checks: those on the changed texts, which need no model and no history. They have a time limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING

from repoagent.review.checks.context import LARGEST, CheckContext, CheckOutcome, is_text
from repoagent.review.finding import Finding
from repoagent.review.rules import level_of

if TYPE_CHECKING:
    from repoagent.config.settings import Settings
    from repoagent.git.worktree import WorkTree
    from repoagent.review.change import Change

CHECKS = {  # rule id: function below this package, imported when it runs, in this order
    "conflict-marker": "static:find_conflict_markers",
    "parse-error": "static:find_parse_errors",
    "removed-symbol": "removed_symbol:find_removed_symbols",
    "debug-leftover": "static:find_debug_leftovers",
    # last: if a line looks random, its rules take a third of a second to load
    "secret": "static:find_secrets",
}
STATIC_SECONDS = 3.0  # processor time of all static checks, so that a busy machine gives the same result


def static_findings(change: Change, worktree: WorkTree, settings: Settings) -> CheckOutcome:
    """The findings of the enabled static rules."""
    levels = {rule: level for rule in CHECKS if (level := level_of(rule, settings))}
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
            continue
        module, _, name = CHECKS[rule].partition(":")
        check: Callable[[CheckContext], Iterator[Finding]]
        check = getattr(import_module(f"repoagent.review.checks.{module}"), name)
        context.findings.extend(check(context))
    return CheckOutcome(tuple(context.findings), (), tuple(context.unseen), tuple(context.secrets))


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
