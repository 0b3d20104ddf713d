"""What a run or a chat has changed and not committed, between its turns: seen, taken back, or let go of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from pathlib import Path
from typing import Literal

from repoagent.dataclass import dataclass
from repoagent.edit.landing.bench import new_edit_id
from repoagent.patch.canonical import canonical_diff
from repoagent.repo import FileChange, WorkTree
from repoagent.store.locks import locked
from repoagent.work.changes import Ledger, open_ledger
from repoagent.work.changes.back import Left, put_back, put_back_whole, said_of
from repoagent.work.changes.committing import settle_commit
from repoagent.work.home import Home, refuse_foreign
from repoagent.work.landing.writing import write, write_back

_WAIT = 1.0  # seconds, for a turn that another process does of the same conversation

Overlapping = Literal["leave", "let-go", "whole"]


@dataclass(frozen=True)
class TakenBack:
    """The paths that were taken back; those that were `left` as they are, for somebody has changed the same lines, and
    which lines; of those `whole` that were taken back with that, the copies of what they held."""

    paths: tuple[str, ...]
    left: Left = field(default_factory=dict)
    let_go: tuple[str, ...] = ()
    copies: tuple[Path, ...] = ()


def left(worktree: WorkTree, home: Home) -> tuple[str, ...]:
    """The paths that it has changed and not committed, in the order of first change; not those of which nothing is in
    the files any more, for they are in a stash, say."""
    return tuple(change.name for change in _settled(worktree, home).present())


def _settled(worktree: WorkTree, home: Home) -> Ledger:
    """The ledger, without what was committed just before the run was ended."""
    ledger = open_ledger(worktree, home.changes)
    settle_commit(ledger)
    return ledger


def left_diff(worktree: WorkTree, home: Home) -> str:
    """The same as a unified diff, without what else was done to the files."""
    changes = _settled(worktree, home).present()
    return canonical_diff(changes, hash_name=worktree.object_format)


def take_back(worktree: WorkTree, home: Home, overlapping: Overlapping = "leave") -> TakenBack:
    """Take all of it back, out of the index too where it was staged; what else was done to the files stays. A file in
    which somebody has changed the same lines is left as it is, or, by `overlapping`, let go of, or taken back whole
    with a copy kept of what it held.

    Raises Refused where the run came with the repository; Busy where a turn of it is at work, and what writing raises;
    nothing is changed then.
    """
    refuse_foreign(home)
    with locked(home.lock, timeout=_WAIT, what=f"the run {home.name}"):
        ledger = _settled(worktree, home)
        paths = tuple(change.name for change in ledger.changes)

        def write_now(changes: Sequence[FileChange]) -> None:
            if changes:
                write(worktree, changes, new_edit_id())

        def write_staged(changes: Sequence[FileChange]) -> None:
            if changes:
                write_back(worktree, changes, ledger.changes, new_edit_id())

        found = put_back(ledger, paths, write_staged)
        taken = tuple(path for path in paths if path not in found)
        if overlapping == "whole" and found:
            return TakenBack(paths, copies=put_back_whole(ledger, tuple(found), write_now))
        if overlapping == "let-go" and found:
            ledger.drop(found)
            return TakenBack(taken, let_go=tuple(found))
        return TakenBack(taken, found)


def left_as_they_are(left: Left, let_go: str, whole: str) -> str:
    """Why files were not taken back, and what can be done, in a sentence: the commands that let go of them, and that
    take them back `whole`."""
    return (
        f"left as they are, for the same lines were changed since: {said_of(left)}. Put that right by hand and "
        f"say it again; or `{let_go}`, which leaves them so; or `{whole}`, which takes those lines back too, and "
        "keeps a copy"
    )
