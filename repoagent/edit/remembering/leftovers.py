"""After a crash: what was to be remembered is, and files that nobody will ask for again are removed."""

from __future__ import annotations

from pathlib import Path

from repoagent.edit.remembering.unfinished import PREFIX, alive
from repoagent.errors import Busy
from repoagent.repo import WorkTree, layout
from repoagent.store import Layout
from repoagent.store.atomic import sweep


def clear_away(worktree: WorkTree) -> list[str]:
    """What was done, in sentences. Living commands are left alone. Raises RepoagentError or OSError where the system
    says no; it is done by a later command then."""
    place = layout(worktree)
    if not (_release_dead(place) or any(place.pending.glob("*")) or _size(place.memory_lock)):
        return []
    from repoagent.edit.remembering.pending import complete
    from repoagent.edit.undo import tell
    from repoagent.memory.identity.leftovers import clear_unborn

    said = complete(worktree, tell)
    for folder in (
        place.root,
        place.private,
        place.pending,
        place.proposals,
        place.conversations,
        place.sent,
    ):
        sweep(folder)
    clear_unborn(place)
    for lock in place.conversations.glob(f"{PREFIX}*.md.lock"):
        if not lock.with_suffix("").exists():
            lock.unlink(missing_ok=True)
    return said


def _release_dead(place: Layout) -> bool:
    """Remove the lock files of edits that were killed; whether there was one."""
    found = False
    for file in place.locks.glob(f"{PREFIX}*"):
        try:
            with alive(place, file.name.removeprefix(PREFIX)):
                found = True
        except Busy:
            continue
    return found


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0
