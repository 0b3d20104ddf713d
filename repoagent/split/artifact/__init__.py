"""A split on disk: a folder with the segments of a file as files, their index, and the text they were cut from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door

if TYPE_CHECKING:
    from repoagent.split.artifact.creating import create
    from repoagent.split.artifact.finding import Text, default_folder, find_text, text_of, worktree_of
    from repoagent.split.artifact.index import Index, IndexedSegment, IndexedSource
    from repoagent.split.artifact.making import Other, Ways, index_of
    from repoagent.split.artifact.placing import carried_cuts
    from repoagent.split.artifact.reading import (
        base_bytes,
        edited,
        holding,
        read_index,
        segment_base,
        segment_bytes,
    )
    from repoagent.split.artifact.refreshing import Refreshed, refresh

__all__ = [
    "Index",
    "IndexedSegment",
    "IndexedSource",
    "Other",
    "Refreshed",
    "Text",
    "Ways",
    "base_bytes",
    "carried_cuts",
    "create",
    "default_folder",
    "edited",
    "find_text",
    "holding",
    "index_of",
    "read_index",
    "refresh",
    "segment_base",
    "segment_bytes",
    "text_of",
    "worktree_of",
]

_HOME = {
    "Index": "index",
    "IndexedSegment": "index",
    "IndexedSource": "index",
    "Other": "making",
    "Refreshed": "refreshing",
    "Text": "finding",
    "Ways": "making",
    "base_bytes": "reading",
    "carried_cuts": "placing",
    "create": "creating",
    "default_folder": "finding",
    "edited": "reading",
    "find_text": "finding",
    "holding": "reading",
    "index_of": "making",
    "read_index": "reading",
    "refresh": "refreshing",
    "segment_base": "reading",
    "segment_bytes": "reading",
    "text_of": "finding",
    "worktree_of": "finding",
}

__getattr__ = door(__name__, _HOME)
