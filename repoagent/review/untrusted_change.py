"""The rule review-relaxed: a change by someone else must not relax its own review.

Configuration, dismissals and ignore patterns in such a foreign change do not apply to its own review. Each one that
would make later reviews more lenient is a finding of this rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from repoagent.config.layers import with_repository
from repoagent.display_text import list_some
from repoagent.errors import Refused, UsageError
from repoagent.review.change import Change
from repoagent.review.finding import Finding, Location, level_of
from repoagent.review.read_diff import GitTexts, files_without_renames, read_blob

if TYPE_CHECKING:
    from repoagent.config.settings import Settings
    from repoagent.git.worktree import WorkTree
    from repoagent.storage.layout import Layout

RULE = "review-relaxed"
CONFIG = ".repoagent/config.toml"
DISMISSED = ".repoagent/reviews/dismissed.jsonl"
IGNORE = ".repoagentignore"

# State of reviews. A change must not contain the state by which it is judged.
_STATE = re.compile(r"\.repoagent/(?:reviews/.*|[^/]*\.db(?:-\w+)?)|\.repoagent")
_RUNS_REVIEW = re.compile(rb"repoagent\b[^\n]{0,200}?(?:review|hook run|partners)|/repoagent@")
_HIDES = re.compile(r"(?:^|[ \t])(?:-diff|binary|linguist-(?:generated|vendored)(?:=true)?)(?=[ \t]|$)")
_SHOWS = re.compile(r"(?:^|[ \t])(?:diff|-linguist-\w+|linguist-\w+=false|!linguist-\w+)(?=[ \t]|$)")
_LISTED = 8  # lines of a file that a finding quotes


def is_foreign(change: Change) -> bool:
    """Whether the change may be someone else's: a range, a commit or a diff, except what the user pushes."""
    return change.kind in ("range", "commit", "diff") and not change.own


@lru_cache(maxsize=1)
def whole(change: Change, worktree: WorkTree) -> Change:
    """The change with all its files, regardless of pathspecs. Raises Refused if the change contains review state."""
    if change.kind != "diff":
        files = files_without_renames(change, worktree)
        change = replace(change, files=tuple(files), texts=GitTexts(worktree.top, (), files, worktree.top))
    for file in change.files:
        if _STATE.fullmatch(file.path) and file.path != DISMISSED and file.status != "deleted":
            raise Refused(
                f"the change contains {file.path}, which holds review state; remove it from the change"
            )
    return change


def texts_of(change: Change, worktree: WorkTree, path: str) -> tuple[bytes, bytes] | None:
    """The old and the new text of `path`, b"" if there is none; None if the change, regardless of pathspecs, does not
    contain `path`. Raises Refused if the change contains review state, or if a partial clone lacks a text."""
    change = whole(change, worktree)
    for file in change.files:
        if path in (file.path, file.old_path):
            old, new = change.texts.old(file), change.texts.new(file)
            if (old is None and file.old_blob) or (new is None and file.new_blob):
                raise Refused(
                    f"this partial clone lacks {file.path}, so repoagent cannot tell whether the change relaxes "
                    "reviews; run `git fetch --refetch --no-filter`"
                )
            return old or b"", new or b""
    return None


def settings_before(change: Change, worktree: WorkTree, layout: Layout, settings: Settings) -> Settings:
    """The settings for the review; for a foreign change, with the repository's old configuration. Raises UsageError if
    that configuration is invalid."""
    if not is_foreign(change):
        return settings
    from repoagent.git.process import OFFLINE, git

    texts = texts_of(change, worktree, CONFIG)
    listing = ("--literal-pathspecs", "ls-tree", "--full-tree", change.head, "--", CONFIG)
    data: bytes | None = b""
    if texts and (texts[0] or change.kind != "diff"):
        data = texts[0]
    elif change.kind == "diff":  # which need not name blobs
        from repoagent.storage.atomic import read_regular

        data = read_regular(layout.config) or b""
    elif git(worktree.top, *listing, env=OFFLINE):
        data = read_blob(worktree.top, f"{change.head}:{CONFIG}")
    if data is None:
        raise Refused(
            f"this partial clone lacks {CONFIG} from {change.head[:12]}; run `git fetch --refetch --no-filter`"
        )
    return with_repository(settings, layout, data)


def ignored_before(change: Change, worktree: WorkTree) -> bytes:
    """The old `.repoagentignore` if a foreign change edits it: the files that it matches are not sent either."""
    texts = texts_of(change, worktree, IGNORE) if is_foreign(change) else None
    return texts[0] if texts else b""


def find_relaxations(change: Change, worktree: WorkTree, layout: Layout, settings: Settings) -> list[Finding]:
    """A finding for each way in which a foreign change relaxes reviews. `settings` come from `settings_before`."""
    level = level_of(RULE, settings) if is_foreign(change) else None
    if level is None:
        return []
    in_config = _in_config(texts_of(change, worktree, CONFIG), settings, layout)
    return [
        Finding(RULE, level, title, Location(path, line, line), body, key)
        for relaxations in (in_config, _in_files(change, worktree), _in_dismissals(change, worktree))
        for path, line, key, title, body in relaxations
    ]


_Relaxation = tuple[str, int, str, str, str]  # path, line, key, title, body


def _in_config(
    texts: tuple[bytes, bytes] | None, settings: Settings, layout: Layout
) -> Iterator[_Relaxation]:
    if texts is None:
        return
    try:
        after = with_repository(settings, layout, texts[1], alone=True)
    except UsageError:
        title = "the change makes .repoagent/config.toml invalid, so no review runs"
        yield CONFIG, 0, "broken", title, ""
        return
    for old in with_repository(settings, layout, texts[0], alone=True):
        new, words = after.setting(old.key), ("off", "note", "warning", "error", "never")
        if old.value == new.value:
            continue
        if old.key.startswith("review.rules."):
            is_lenient = words.index(str(new.value)) < words.index(str(old.value))
        elif old.key == "review.fail_on":
            is_lenient = words.index(str(new.value)) > words.index(str(old.value))
        else:  # a limit
            is_limit = old.option.only_lower and old.key.startswith(
                ("review.", "max_", "context_limit", "timeout")
            )
            is_lenient = (
                is_limit
                and isinstance(new.value, (int, float))
                and (not isinstance(old.value, (int, float)) or new.value < old.value)
            )
        if is_lenient:
            title = f"the change sets {old.key} from {old.shown or 'no limit'} to {new.shown}, so reviews find less"
            yield CONFIG, 0, old.key, title, "This review uses the value from before the change."


def _in_files(change: Change, worktree: WorkTree) -> Iterator[_Relaxation]:
    """Patterns and attributes that hide files from a review, and edits of the files that run it."""
    from repoagent.edit.guards.risky_changes import listed_reason as why_sensitive

    added, removed = _lines(texts_of(change, worktree, IGNORE))
    hides = [line for line in added if line[0] != "!"] + [line for line in removed if line[0] == "!"]
    if hides:
        title = f"the change hides files from review by a model: {_quoted(hides)} in {IGNORE}"
        yield IGNORE, 0, "\n".join(hides), title, "This review does not send these files to the model either."
    for file in whole(change, worktree).files:
        if file.path.rpartition("/")[2] == ".gitattributes":
            added, removed = _lines(texts_of(change, worktree, file.path))
            hides = [*filter(_HIDES.search, added), *filter(_SHOWS.search, removed)]
            if hides:
                title = f"the change makes git and reviews skip files: {_quoted(hides)} in {file.path}"
                yield file.path, 0, "\n".join(hides), title, "This review includes these files."
    for file in whole(change, worktree).files:
        reason = why_sensitive(file.old_path or file.path) or ""
        if "run" in reason and file.old_blob:
            old, new = texts_of(change, worktree, file.path) or (b"", b"")
            if _RUNS_REVIEW.search(old):
                verb = "changes" if _RUNS_REVIEW.search(new) else "removes"
                title = f"the change {verb} what runs this review: {file.path}"
                yield file.path, 0, verb, title, "Check what that file will run from now on."


def _in_dismissals(change: Change, worktree: WorkTree) -> Iterator[_Relaxation]:
    from repoagent.review.dismissals import COMMENT, ignore_trailers, parse_verdicts

    itself = "the change dismisses findings about itself:"
    for rules, path in dict.fromkeys(ignore_trailers(change.message)):
        title = f"{itself} Review-Ignore: {' '.join((rules, path)).strip()}"
        yield path, 0, f"trailer {rules} {path}", title, "This review ignores the trailer."
    for file in change.files:
        for hunk in change.texts.lines(file):
            for number, line in enumerate(hunk.added, hunk.new):
                if match := COMMENT.search(line):
                    rules = match[1].decode("utf-8", "replace")
                    title = f"{itself} repoagent: ignore[{rules}]"
                    yield file.path, number, f"comment {rules}", title, "This review ignores the comment."
    if texts := texts_of(change, worktree, DISMISSED):
        before, after = map(parse_verdicts, texts)
        verdicts = [verdict for verdict in after.values() if verdict.state != "open"]
        ids = [verdict.id for verdict in verdicts if before.get(verdict.id) != verdict]
        if ids:
            title = f"the change dismisses findings in {DISMISSED}: {_quoted(ids)}"
            yield DISMISSED, 0, " ".join(ids), title, "This review ignores these dismissals."


def _lines(texts: tuple[bytes, bytes] | None) -> tuple[list[str], list[str]]:
    """The added and the removed lines, without comments and empty ones."""
    old, new = (
        [line.strip() for line in text.decode("utf-8", "replace").splitlines()]
        for text in texts or (b"", b"")
    )
    added, removed = (
        [line for line in dict.fromkeys(lines) if line and line[0] != "#" and line not in other]
        for lines, other in ((new, set(old)), (old, set(new)))
    )
    return added, removed


def _quoted(lines: list[str]) -> str:
    return list_some([line[:80] for line in lines], _LISTED)
