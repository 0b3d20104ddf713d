"""What comes before everything that writes: what an earlier run left behind when it was killed is settled."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from repoagent.repo import WorkTree
    from repoagent.store import Warn


def settle(worktree: WorkTree, say: Warn, warn: Warn) -> None:
    """Complete or roll back from the journal; `say` gets a sentence for each thing that was done, `warn` one for what
    could not be done yet. Raises Busy and Refused as `repo.transaction.recover`."""
    from repoagent.errors import Busy, Refused
    from repoagent.repo.worktree import layout
    from repoagent.store.layout import has_leftovers

    place = layout(worktree)
    if place.journal.exists():
        from repoagent.repo.transaction.recover import recover

        for sentence in recover(worktree):
            say(sentence)
    if not has_leftovers(place):
        return
    from repoagent.edit.remembering.leftovers import clear_away

    try:
        for sentence in clear_away(worktree):
            say(sentence)
    except (Busy, Refused, OSError) as error:  # the memory is a thing beside: the command goes on
        warn(f"what a killed command left could not be cleared away yet: {error}")
