"""The history of a file, with a model's lines for its commits where such are kept already."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.work.answers.revisions import sayable

if TYPE_CHECKING:
    from repoagent.history import Past
    from repoagent.repo import WorkTree


def past_of(worktree: WorkTree, path: str, *, revision: str = "HEAD", limit: int = 20) -> Past:
    """See `repoagent.history.past.past`, whose errors it raises. No model is asked."""
    from repoagent.history.past import past, with_summaries
    from repoagent.repo import layout

    found = past(worktree, path, revision=sayable(revision), limit=limit)
    place = layout(worktree)
    if not place.summaries.is_dir():
        return found
    from repoagent.history.summaries import find_known
    from repoagent.history.summaries.store import as_lines

    known = find_known(worktree.top, place, found.steps)
    return with_summaries(found, as_lines(known.summaries, found.steps))
