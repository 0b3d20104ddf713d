"""A split as data for programs: its index, and what a refresh has done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.split.artifact.index import VERSION
from repoagent.store.document import dumps

if TYPE_CHECKING:
    from repoagent.split.artifact import Index, Refreshed


def render(index: Index, done: Refreshed | None = None, *, written: bool = True) -> str:
    """The content of `index.json`, with the `folder` that it was written to (null for none)."""
    content = {"version": VERSION, "folder": str(index.folder) if written else None, **index.to_dict()}
    if done is not None:
        content["refresh"] = {
            "written": done.written,
            "added": done.added,
            "removed": done.removed,
            "edited": done.edited,
            "to_merge": done.to_merge,
            "merged": done.merged,
        }
    return dumps(content, indent=2).decode() + "\n"
