"""What git keeps for the user's next commit, and removes after any: it must outlive ours."""

from __future__ import annotations

from repoagent.repo.worktree import WorkTree
from repoagent.store.atomic import write_whole
from repoagent.store.journal import Journal, kept

# `git cherry-pick -n`, `git revert -n` and a resolved `git stash pop` leave them
_NAMES = ("MERGE_MSG", "AUTO_MERGE")


def keep_waiting(worktree: WorkTree, journal: Journal) -> None:
    """Remember them in the journal, before a commit."""
    for name in _NAMES:
        file = worktree.git_dir / name
        if file.is_file():
            journal.keep(f"waiting-{name}", file.read_bytes())


def give_back(worktree: WorkTree, journal: Journal) -> None:
    """Those that are gone since come back; the journal forgets them."""
    for name in _NAMES:
        mine = journal.path(f"waiting-{name}")
        if not mine.exists():
            continue
        file = worktree.git_dir / name
        if not file.exists():
            write_whole(file, kept(journal.folder, mine.name), private=False)
        mine.unlink()
