"""The history before a change: the index, or while there is none, the last commits of the changed files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from repoagent.history.cochange.view import View
    from repoagent.history.quick import QuickLook
    from repoagent.repo.worktree import WorkTree
    from repoagent.review.change import Change

MINING_SECONDS = 0.2  # wall time that a review gives to an index that is not whole
QUICK_SECONDS = 0.4
ENOUGH = 1000  # commits in a part of the index that make it the better answer
_QUICK_FILES = 30  # whose last commits are read while there is no index
_QUICK_COMMITS = 300


class Source(NamedTuple):
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


NOTHING = Source(None, _no_ids, None, "none")


def open_source(worktree: WorkTree, change: Change, stack: ExitStack) -> Source:
    """What is known of the time before the change; it stays open as long as `stack`.

    A change starts from its base; a bare diff is taken to start from HEAD.
    """
    from repoagent.history.index import NoCommits, NoIndex, open_index
    from repoagent.repo.worktree import layout

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
    return Source(view, ids, author, "whole" if whole else "building", tip, state.commits)


def _look(worktree: WorkTree, change: Change, revision: str, stack: ExitStack) -> QuickLook | None:
    """The reading of the changed files' own last commits, started; None where none existed before."""
    from repoagent.history.quick import QuickLook

    paths = [file.old_path for file in change.files if file.status != "added"][:_QUICK_FILES]
    if not paths:
        return None
    look = QuickLook(worktree.top, *paths, seconds=QUICK_SECONDS, revision=revision, commits=_QUICK_COMMITS)
    return stack.enter_context(look)


def _recent(look: QuickLook | None, revision: str) -> Source:
    if look is None:
        return NOTHING._replace(state="building")
    view = look.view()

    def ids(numbers: Iterable[int]) -> Mapping[int, str]:
        return {number: view.id(number) for number in numbers}

    return Source(view, ids, None, "building", revision)
