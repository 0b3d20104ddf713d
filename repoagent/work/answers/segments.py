"""The segments of a file: cut at its natural seams, in memory or as files in a folder."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from repoagent.dataclass import dataclass
from repoagent.split.segment import TARGET_BYTES
from repoagent.work.answers.outlined import present

if TYPE_CHECKING:
    from repoagent.repo import WorkTree
    from repoagent.split.artifact import IndexedSegment


@dataclass(frozen=True)
class Split:
    """A file in segments; joined in order, these are the file byte for byte.

    `blob` is the id of the bytes, as `git hash-object --no-filters` gives it; `language` is None where none is known;
    `size` is in bytes. `folder` is where the segment files were written, None for a split in memory.
    """

    path: str
    blob: str
    language: str | None
    size: int
    segments: tuple[IndexedSegment, ...]
    folder: Path | None = None
    data: bytes = field(default=b"", repr=False)

    def text(self, segment: IndexedSegment) -> bytes:
        """The bytes of one of `segments`."""
        return self.data[segment.start : segment.end]


def split_of(
    worktree: WorkTree,
    path: str,
    *,
    target: int = TARGET_BYTES,
    natural: bool = False,
    language: str | None = None,
    write: bool = False,
) -> Split:
    """The file in segments of at most `target` bytes, or with `natural` one for each outermost unit. With `write` they
    become files in `.repoagent/splits/`, for a person to edit and `repoagent split --join` to commit.

    Raises UsageError for a file that is not there and a language that is not known, Refused for a binary file and for
    a folder in which segments were edited.
    """
    from repoagent.repo import layout
    from repoagent.split.artifact import Text, Ways, create, default_folder, index_of
    from repoagent.split.artifact.making import check_text, check_ways
    from repoagent.store import ensure
    from repoagent.store.folders import folder as open_folder

    ways = Ways(target, natural, language)
    check_ways(ways)
    source, data = present(worktree, path)
    text = Text(path, data, worktree)
    check_text(text, ways)
    if not write:
        index, folder = index_of(text, ways, Path()), None
    else:
        place = layout(worktree)
        ensure(place)
        with open_folder(place.splits, create=True):
            pass
        folder = default_folder(text)
        index = create(text, ways, folder)
    return Split(path, source.blob, index.language, len(data), index.segments, folder, data)
