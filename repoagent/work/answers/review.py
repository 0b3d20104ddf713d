"""Findings on a change: what history says of it, and with a model that is named, what that shows on its lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from repoagent.errors import UsageError
from repoagent.work.answers.revisions import sayable

if TYPE_CHECKING:
    from repoagent.config import Settings
    from repoagent.edit.means import Means
    from repoagent.repo import WorkTree
    from repoagent.review.finding import Report
    from repoagent.review.read.wanted import How, Wanted


def _ignore(sentence: str) -> None:
    """Nobody listens."""


def wanted(
    worktree: WorkTree,
    *,
    range: str = "",
    base: str = "",
    commit: str = "",
    tracked: bool = False,
    diff: bytes = b"",
    files: Sequence[str] = (),
) -> Wanted:
    """What is to be reviewed: one of these, what is staged without any; of it only `files` (from the top). `tracked`
    means what the tracked files hold other than HEAD, staged or not. Raises UsageError for two of them."""
    from repoagent.review.read.wanted import Wanted

    ways: dict[How, str] = {"range": range, "base": base, "commit": commit}
    given = [(how, value) for how, value in ways.items() if value]
    given += [("worktree", "")] if tracked else []
    given += [("diff", "")] if diff else []
    if len(given) > 1:
        raise UsageError(f"{' and '.join(how for how, _ in given)} name two changes: take one of them")
    how, value = given[0] if given else ("staged", "")
    sayable(value)
    if how == "range" and ".." not in value:
        raise UsageError(f"{value} is no range: write A..B, or give one commit as `commit`")
    return Wanted(how, value, tuple(f":(top,literal){file}" for file in files), worktree.top, diff)


def reviewed(
    worktree: WorkTree,
    what: Wanted,
    settings: Settings,
    *,
    ready: Means | None = None,
    asks: bool = False,
    hear: Callable[[str], None] = _ignore,
) -> Report:
    """The findings. A model is asked only with `asks`: the one that is `ready`, or that the settings name. Raises
    UsageError for a change that does not exist, and with `asks` what the model and the limits raise."""
    from repoagent.repo.worktree import layout, open_at_head
    from repoagent.review.foreign import settings_before
    from repoagent.review.read import read_change
    from repoagent.review.run import Asked, review

    _, head = open_at_head(worktree.top)
    place = layout(worktree)
    change, unseen = read_change(worktree, head, what)
    settings = settings_before(change, worktree, place, settings)
    desk = None
    notes: list[str] = []
    if asks:
        from repoagent.review.model import Desk

        desk = Desk(worktree, place, settings, notes.append, hear, ready=ready)
    found = review(
        change,
        Asked(worktree, place, settings, desk, unseen, strict=asks, narrowed=bool(what.pathspecs)),
    )
    return replace(found, notes=(*found.notes, *notes)) if notes else found
