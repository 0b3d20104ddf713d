"""What every command that writes does first: settle what an earlier run left behind when it was killed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from repoagent.cli.terminal import Terminal
    from repoagent.repo import WorkTree


def settle(worktree: WorkTree, terminal: Terminal) -> None:
    """Complete or roll back from the journal; each thing that was done is said in a line."""
    from repoagent.errors import Busy, Refused
    from repoagent.repo.transaction.recover import recover
    from repoagent.repo.worktree import layout
    from repoagent.store.layout import has_leftovers

    place = layout(worktree)
    if place.journal.exists():
        for sentence in recover(worktree):
            terminal.note(f"recovered: {sentence}")
    if not has_leftovers(place):
        return
    from repoagent.edit.leftovers import clear_away

    try:
        for sentence in clear_away(worktree):
            terminal.note(f"recovered: {sentence}")
    except (Busy, Refused, OSError) as error:  # the memory is a thing beside: the command goes on
        terminal.warn(f"what a killed command left could not be cleared away yet: {error}")
