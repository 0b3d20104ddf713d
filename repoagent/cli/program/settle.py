"""What every command that writes does first: settle what an earlier run left behind when it was killed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from repoagent.cli.screen.terminal import Terminal
    from repoagent.repo import WorkTree


def settle(worktree: WorkTree, terminal: Terminal) -> None:
    """Complete or roll back from the journal; each thing that was done is said in a line."""
    from repoagent.edit.settle import settle as settle_all

    settle_all(worktree, lambda sentence: terminal.note(f"recovered: {sentence}"), terminal.warn)
