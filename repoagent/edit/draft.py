"""The change in the making: what the files were when the model saw them, and what they would become.

Nothing here touches the disk. Each accepted answer of the model is folded in, so that several rounds still
end as one change from the bytes that were read to the bytes that will be written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from repoagent.dataclass import dataclass
from repoagent.patch import SourceText
from repoagent.repo.change import REGULAR, FileChange
from repoagent.repo.source import Source


@dataclass(frozen=True)
class Draft:
    """`sources` by path as they were read; `edits` the change of each file so far, in the order of first change."""

    sources: Mapping[str, Source]
    edits: tuple[FileChange, ...] = ()

    def texts(self) -> dict[str, SourceText]:
        """Every file that exists in the draft as it stands now, by its present path."""
        texts = {
            path: SourceText(source.data, source.mode or REGULAR)
            for path, source in self.sources.items()
            if source.data is not None
        }
        for edit in self.edits:
            if edit.old_path is not None:
                texts.pop(edit.old_path, None)
        for edit in self.edits:
            if edit.path is not None and edit.after is not None:
                texts[edit.path] = SourceText(edit.after, edit.mode or REGULAR)
        return texts

    def with_source(self, source: Source) -> Draft:
        """The draft that also knows `source`; a file already known keeps the bytes it is bound to."""
        if source.path in self.sources:
            return self
        return replace(self, sources={**self.sources, source.path: source})

    def with_changes(self, changes: Iterable[FileChange]) -> Draft:
        """The draft after `changes`, which are relative to its present state."""
        edits = list(self.edits)
        for change in changes:
            _fold(edits, change)
        return replace(self, edits=tuple(edit for edit in edits if not _is_nothing(edit)))

    def blobs(self) -> dict[str, str]:
        """The hash of the raw bytes of each file as it was read; empty for a file that did not exist."""
        return {path: source.blob for path, source in self.sources.items()}


def _fold(edits: list[FileChange], change: FileChange) -> None:
    """Compose `change` with an earlier one of the same file, or append it."""
    for number, earlier in enumerate(edits):
        continues = change.old_path is not None and earlier.path == change.old_path
        recreates = change.old_path is None and earlier.path is None and earlier.old_path == change.path
        if continues or recreates:
            edits[number] = replace(
                change, old_path=earlier.old_path, before=earlier.before, old_mode=earlier.old_mode
            )
            return
    edits.append(change)


def _is_nothing(change: FileChange) -> bool:
    return change.old_path == change.path and change.before == change.after and change.old_mode == change.mode
