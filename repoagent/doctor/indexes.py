"""What is derived from git and from the memories: how far it is. Nothing is mined for it."""

from __future__ import annotations

from collections.abc import Iterator

from repoagent.doctor.check import Check, halves, ok, warning
from repoagent.repo.worktree import WorkTree, layout


def check_history(worktree: WorkTree) -> Iterator[Check]:
    """How far the history index is."""
    from repoagent.history.index import NoCommits, open_index

    said: list[str] = []
    try:
        with open_index(worktree, warn=said.append) as index:
            state = index.state()
    except NoCommits:
        yield ok("history index", "there is no commit yet")
        return
    yield from (warning("history index", *halves(sentence)) for sentence in said)
    size = f"{state.commits:,} commit{'s' * (state.commits != 1)}, {state.size / 1e6:.1f} MB"
    if state.complete or state.end == "date":
        yield ok("history index", size)
    elif not state.commits:
        yield ok("history index", "not made yet; it is made on use")
    elif state.new:
        yield ok("history index", f"{size}, {state.new:,} new ones are read on use")
    else:
        yield warning("history index", f"{size}, not complete", "repoagent mine goes on")


def check_memory(worktree: WorkTree) -> Iterator[Check]:
    """How much is remembered, and what of it can't be read."""
    from repoagent.memory.identity.index import open_index

    said: list[str] = []
    where = layout(worktree)
    with open_index(where, said.append) as index:
        count = len(index.paths())
    yield from (warning("memory", *halves(sentence)) for sentence in said)
    broken = list(where.memory.rglob("*.broken-*")) if where.memory.is_dir() else []
    if broken:
        yield warning(
            "memory",
            f"{broken[0]} was set aside as broken ({len(broken)} in all)",
            "mend it by hand, or delete it",
        )
    if not said and not broken:
        yield ok("memory", f"{count:,} file{'s' * (count != 1)}" if count else "nothing is remembered yet")
