"""What an edit's prompt says of files with a summary (`repoagent outline --summary`), as long as it still holds."""

from __future__ import annotations

from collections.abc import Iterable

from repoagent.edit.briefing.context import named
from repoagent.errors import Refused
from repoagent.repo import Source, WorkTree, layout, read_source


def summary_of(worktree: WorkTree, source: Source) -> str:
    """The summary of a file that is to be edited; "" where there is none, or its text has moved on."""
    place = layout(worktree)
    if source.data is None or not (place.summaries / "files").is_dir():
        return ""
    from repoagent.memory.summaries import summary_block

    return summary_block(place, source.path, source.data)


def purposes(worktree: WorkTree, paths: Iterable[str]) -> str:
    """What those of the neighbors `paths` are for that have a summary, a line each. A prompt is whole without it, so
    what can't be read is left out in silence."""
    place = layout(worktree)
    if not (place.summaries / "files").is_dir():
        return ""
    from repoagent.memory.summaries import may_have_purpose, purpose

    lines = []
    for path in paths:
        try:
            size = (worktree.top / path).lstat().st_size
            data = read_source(worktree, path).data if may_have_purpose(place, path, size) else None
        except (Refused, OSError):
            continue
        if data is not None and (line := purpose(place, path, data)):
            lines.append(f"- {named(path)}: {line}\n")
    return "".join(["\nWhat they are for:\n", *lines]) if lines else ""
