"""What each hook has to look at, as changes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.repo.worktree import WorkTree
from repoagent.review.change import Change
from repoagent.review.read import Wanted, read_change

SECONDS = 60.0  # for a model, unless something else is set: somebody waits for git


@dataclass(frozen=True)
class Looked:
    """The changes of a hook, what of each was left out, and sentences for a person."""

    changes: tuple[tuple[Change, tuple[str, ...]], ...]
    notes: tuple[str, ...] = ()


def changes_of(
    name: str, arguments: Sequence[str], worktree: WorkTree, head: str | None, stdin: bytes
) -> Looked:
    """What the hook `name` of git was run for. pre-commit, and whatever else comes before a commit: what is staged;
    commit-msg: the same with its message, from the file in `arguments`; pre-push: what `stdin` says is pushed.

    The program pre-commit says in its environment which commits it was run for. Raises UsageError for a message that
    can't be read, and as `read_change`.
    """
    if name == "pre-push":
        return _pushed(arguments, worktree, head, stdin)
    begin, end = (os.environ.get(f"PRE_COMMIT_{side}_REF", "") for side in ("FROM", "TO"))
    if begin and end:
        pushed = "PRE_COMMIT_REMOTE_NAME" in os.environ
        return Looked((_range(worktree, head, begin, end, f"{begin[:12]}..{end[:12]}", own=pushed),))
    change, unseen = read_change(worktree, head, Wanted("staged"), bare=False)
    if name != "commit-msg" or not arguments:
        return Looked(((change, unseen),))
    from repoagent.review.hooks.message import read_message, unknown_trailers

    message = read_message(Path(arguments[0]))
    return Looked(((replace(change, message=message), unseen),), tuple(unknown_trailers(message)))


def _pushed(arguments: Sequence[str], worktree: WorkTree, head: str | None, stdin: bytes) -> Looked:
    from repoagent.review.hooks.push import pushed

    remote = arguments[0] if arguments else "origin"
    found, notes = pushed(worktree, remote, stdin)
    changes = tuple(
        _range(worktree, head, one.base, one.head, f"{one.name}, as it is pushed", own=True) for one in found
    )
    return Looked(changes, tuple(notes))


def _range(
    worktree: WorkTree, head: str | None, begin: str, end: str, title: str, *, own: bool
) -> tuple[Change, tuple[str, ...]]:
    change, unseen = read_change(worktree, head, Wanted("range", f"{begin}..{end}"), bare=False)
    return replace(change, title=title, own=own), unseen
