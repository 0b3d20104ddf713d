"""What is known of a transaction: everything that completing it or rolling it back needs."""

from __future__ import annotations

from repoagent.dataclass import dataclass
from repoagent.repo.content import Content
from repoagent.repo.index import Entry, Staged
from repoagent.repo.write.steps import Step

LOCKED = "locked"  # index.lock may be there, no file is touched
WRITING = "writing"  # files hold their old or their new bytes
COMMITTING = "committing"  # the commit may be there
DONE = "done"  # an edit of the past, kept for undo


@dataclass(frozen=True)
class Planned:
    """One path of the commit, in the repository's form (filters applied); None is no file.

    The change goes from `base` to `work` (the file before and after, with what somebody has done on top of it where
    that is there already); it is carried from `head`, the version in HEAD, to `commit`, and from `staged` to `stage`.
    For a renamed file these three are those of the old path, `renamed`. `bits` are the marks of the index entry.
    """

    path: str
    head: Entry | None
    staged: Entry | None
    base: Entry | None
    work: Entry | None
    commit: Entry | None
    stage: Entry | None
    bits: Staged | None = None
    renamed: str | None = None

    @property
    def in_head(self) -> Entry | None:
        """What HEAD has at this very path."""
        return None if self.renamed else self.head

    @property
    def staged_here(self) -> Entry | None:
        """What the index had at this very path before the edit."""
        return None if self.renamed else self.staged

    @property
    def has_other_work(self) -> bool:
        """Whether the file holds uncommitted work beside the edit, from before it or on top of it."""
        return self.head != self.base or self.staged != self.head or self.commit != self.work

    @property
    def stays_dirty(self) -> bool:
        """Whether the file, or what is staged of it, is not as in the commit then."""
        return not self.commit == self.work == self.stage


@dataclass(frozen=True)
class Saved:
    """What a file held before hooks ran; None where it was deleted. `temporary` is a free name beside it."""

    path: str
    content: Content | None
    temporary: str


@dataclass(frozen=True)
class Record:
    """One transaction. `head` and `branch` are those it began on (None: unborn, detached); `moves_to` is the
    commit that HEAD is set to where no new one is made ("" for none: unborn). `in_place` says that the files hold the
    change already; undo goes by what each step `was` and has `done` then. `uncommitted` are all tracked
    paths with the user's other work, `saved` those of them that are files; `started` (ns) is when hooks
    began."""

    id: str
    event: str
    state: str
    commits: bool
    head: str | None = None
    branch: str | None = None
    new_branch: str | None = None
    moves_to: str | None = None
    steps: tuple[Step, ...] = ()
    folders: tuple[str, ...] = ()
    planned: tuple[Planned, ...] = ()
    saved: tuple[Saved, ...] = ()
    uncommitted: tuple[str, ...] = ()
    started: int | None = None
    commit: str | None = None
    message: str | None = None
    in_place: bool = False
