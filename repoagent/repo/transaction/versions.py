"""The versions of a file that a plan is made against: in HEAD, in the index, in the work tree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from repoagent.dataclass import dataclass
from repoagent.repo.change import FileChange
from repoagent.repo.index import Entry, Staged
from repoagent.repo.status import Status
from repoagent.repo.transaction.in_place import InPlace
from repoagent.repo.worktree import WorkTree

FIRST = "commit or stash that work first"
_AS_IT_STANDS = "use --include-dirty to commit the file as it stands, or commit it by hand"
_WAYS_OUT = ", or use --include-dirty to commit it too, or --no-commit to only write the file"


@dataclass(frozen=True)
class Versions:
    """What HEAD and the index have of the paths of a change, and whether the work tree has something else.

    `include_dirty` is that of `make_plan`, `offer` and `in_place` too.
    """

    worktree: WorkTree
    status: Status
    index: Mapping[str, Staged]
    include_dirty: bool
    offer: bool = True
    in_place: InPlace | None = None

    @property
    def ways_out(self) -> str:
        if self.in_place is not None:
            return _AS_IT_STANDS
        return FIRST + (_WAYS_OUT if self.offer else "")

    def is_whole(self, change: FileChange) -> bool:
        """Whether all that its file holds is to be committed."""
        return self.include_dirty or (self.in_place is not None and change.name in self.in_place.whole)

    def in_head(self, path: str) -> Entry | None:
        if path in self.status.changed:
            return self.status.changed[path].head
        return self.index[path].entry if path in self.index else None

    def staged(self, path: str) -> Entry | None:
        if path in self.status.changed:
            return self.status.changed[path].staged
        return self.index[path].entry if path in self.index else None

    def is_clean(self, path: str) -> bool:
        """Whether git says that the file is what is staged; it does not look at marked entries."""
        if path not in self.index or self.index[path].skip_worktree or self.index[path].assume_unchanged:
            return False
        return path not in self.status.changed or not (
            self.status.changed[path].unstaged or self.status.changed[path].intent_to_add
        )

    def in_the_way(self, target: str) -> Iterator[str]:
        """A file that git has where `target` needs a folder, and files below it."""
        for path, changed in self.status.changed.items():
            nested = target.startswith(path + "/") or path.startswith(target + "/")
            if nested and (changed.head or changed.staged):
                yield path
