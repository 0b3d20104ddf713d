"""Run the static checks, which read the changed texts and share a time limit. Each check is a generator of findings."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from importlib import import_module
from typing import TYPE_CHECKING

from repoagent.dataclass import dataclass
from repoagent.display_text import plural
from repoagent.review.change import Change, ChangedFile
from repoagent.review.finding import Finding, Level, Location, ReviewOutcome, level_of

if TYPE_CHECKING:
    from repoagent.config.settings import Settings
    from repoagent.git.worktree import WorkTree

CHECKS = {  # rule id: function below this package, imported when it runs, in this order
    "conflict-marker": "static:find_conflict_markers",
    "parse-error": "static:find_parse_errors",
    "removed-symbol": "removed_symbol:find_removed_symbols",
    "debug-leftover": "static:find_debug_leftovers",
    # last: if a line looks random, its rules take a third of a second to load
    "secret": "static:find_secrets",
}
STATIC_SECONDS = 3.0  # processor time of all static checks, so that a busy machine gives the same result
LARGEST = 2 << 20  # bytes of a text that checks read


@dataclass(frozen=True, eq=False, repr=False)
class CheckContext:
    """The input of a check, and the lists to which its results are added."""

    worktree: WorkTree
    change: Change
    levels: Mapping[str, Level]  # of the enabled rules
    remaining: Callable[[], float]  # seconds for these checks; they stop if it is negative
    files: tuple[ChangedFile, ...] = ()  # those that can be read
    findings: list[Finding] = field(default_factory=list)  # of earlier checks
    unseen: list[str] = field(default_factory=list)  # phrases for parts that could not be checked
    secrets: list[str] = field(default_factory=list)  # values that must not be printed

    def finding(
        self, rule: str, title: str, location: Location, body: str, key: str = "", *, quote: str = ""
    ) -> Finding:  # fmt: skip
        """A finding of `rule` with its configured level."""
        return Finding(rule, self.levels[rule], title, location, body, key, quote)

    def texts(self, file: ChangedFile) -> tuple[bytes, bytes] | None:
        """The old and the new text, b"" if the file does not exist; None if one is unavailable, binary or too large."""
        old, new = self.change.texts.old(file), self.change.texts.new(file)
        if (old is None and file.old_blob) or (new is None and file.status != "deleted"):
            return None
        texts = old or b"", new or b""
        return None if any(len(text) > LARGEST or b"\0" in text[:8000] for text in texts) else texts


def is_text(file: ChangedFile) -> bool:
    """Whether the file is regular on both sides: not a submodule or a symbolic link."""
    return all(mode in ("", "100644", "100755") for mode in (file.old_mode, file.new_mode))


def static_findings(change: Change, worktree: WorkTree, settings: Settings) -> ReviewOutcome:
    """The findings of the enabled static rules."""
    levels = {rule: level for rule in CHECKS if (level := level_of(rule, settings))}
    if not levels or not change.files:
        return ReviewOutcome()
    from repoagent.edit.guards.off_limits import IGNORE_FILE, IgnoreFile
    from repoagent.review.untrusted_change import is_foreign, texts_of
    from repoagent.storage.atomic import read_regular

    # for a foreign change, the ignore file before it
    versions = texts_of(change, worktree, IGNORE_FILE) if is_foreign(change) else None
    patterns = versions[0] if versions else read_regular(worktree.top / IGNORE_FILE, most=LARGEST)
    texts = tuple(file for file in change.files if is_text(file))
    files = texts
    if patterns:
        is_ignored = IgnoreFile(patterns, worktree.top).match_file
        files = tuple(file for file in texts if not is_ignored(file.path))
    end = time.process_time() + STATIC_SECONDS
    context = CheckContext(worktree, change, levels, lambda: end - time.process_time(), files)
    if count := len(texts) - len(files):
        context.unseen.append(f"{plural(count, 'file')} listed in .repoagentignore")
    for rule in levels:
        if context.remaining() < 0:
            context.unseen.append(f"the `{rule}` rule (the review took too long)")
            continue
        module, _, name = CHECKS[rule].partition(":")
        check: Callable[[CheckContext], Iterator[Finding]]
        check = getattr(import_module(f"repoagent.review.checks.{module}"), name)
        context.findings.extend(check(context))
    return ReviewOutcome(tuple(context.findings), (), tuple(context.unseen), tuple(context.secrets))
