"""What a command has changed, in sentences for the model and for the person, and as the audit keeps it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from repoagent.repo import FileChange, blob_hash
from repoagent.work.tools.names import named

NAMED = 20


def written(path: str, change: FileChange | None = None, kind: str = "sha1") -> dict[str, object]:
    """What the audit keeps of a file that a command has written: without its blobs where it was not followed."""
    if change is None:
        return {"kind": "write", "by": "command", "path": path}
    before = None if change.before is None else blob_hash(change.before, kind)
    after = None if change.after is None else blob_hash(change.after, kind)
    return {**written(path), "before": before, "after": after}


def in_submodules(others: Sequence[tuple[str, list[str]]], say: Callable[[str], None]) -> Iterator[str]:
    """Sentences for the model, which the person gets in other words."""
    for what, paths in others:
        files = f" ({names_of(list(map(named, paths)))})" if paths else ""
        say(f"the command changed the submodule {what}{files}: that is not in the commit")
        yield f"It changed the submodule {what}{files}: another repository, so no part of your change."


def sentences(
    changes: Sequence[FileChange],
    candidates: Sequence[FileChange],
    large: Sequence[str],
    was_there: Mapping[str, bool],
) -> Iterator[str]:
    """`was_there` says of all that are candidates now whether they were files before the run."""
    if changes:
        yield f"It changed {names_of([verb(change) for change in changes])}: a part of your change now."
    theirs = [verb(change) for change in candidates if was_there.get(change.name) is True]
    if theirs:
        yield (
            f"It changed {names_of(theirs)}, which git does not know: no part of your change, and "
            f'<restore path="FILE"/> takes that back.'
        )
    made = [named(change.name) for change in candidates if was_there.get(change.name) is False]
    if made:
        yield (
            f"It made {names_of(made)}, which git does not know: no part of your change unless you say "
            f'<keep path="FILE"/>.'
        )
    if large:
        why = "is too large, not a file, or one of too many to be a part of your change"
        yield f"{names_of(list(map(named, large)))} changed too, and {why}."


def verb(change: FileChange) -> str:
    """The file, and what became of it."""
    if change.before is None:
        return f"{named(change.name)} (new)"
    return f"{named(change.name)} (deleted)" if change.after is None else named(change.name)


def names_of(names: Sequence[str]) -> str:
    """The first of them in a line, and how many more there are."""
    rest = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {rest} more" if rest > 0 else "")
