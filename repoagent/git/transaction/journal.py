"""The record of a transaction on disk: everything that is needed to complete it or roll it back, as JSON.

The bytes of files are stored next to the JSON, before it refers to them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from repoagent.dataclass import dataclass
from repoagent.git.file_writer import Step
from repoagent.git.files import Content
from repoagent.git.index import Entry, Staged
from repoagent.storage import journal as stored
from repoagent.storage.journal import Journal

LOCKED = "locked"  # index.lock may exist, no file is changed
WRITING = "writing"  # files have their old or new bytes
COMMITTING = "committing"  # the commit may exist
DONE = "done"  # a finished edit, kept for undo


@dataclass(frozen=True)
class PlannedPath:
    """One path of the commit, as entries with filters applied; None means no file.

    The change is from `base` to `work`, the file before and after, including other work on top that exists already. It
    is merged into `head`, the version in HEAD, which gives `commit`, and into `staged`, which gives `stage`. For a
    renamed file, `base`, `head` and `staged` are those of the old path, `renamed`. `bits` are the flags of the index
    entry.
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
        """The entry in HEAD at the new path."""
        return None if self.renamed else self.head

    @property
    def staged_here(self) -> Entry | None:
        """The index entry at the new path before the edit."""
        return None if self.renamed else self.staged

    @property
    def has_other_work(self) -> bool:
        """Whether the file has other uncommitted work than the edit, from before it or on top of it."""
        return self.head != self.base or self.staged != self.head or self.commit != self.work


@dataclass(frozen=True)
class SavedFile:
    """The content of a file before hooks ran (None: deleted). `temporary` is an unused name next to it."""

    path: str
    content: Content | None
    temporary: str


@dataclass(frozen=True)
class Record:
    """One transaction. `head` and `branch` are those at its start (None: unborn, detached); `moves_to` is the commit
    to which HEAD moves if no new one is made ("": unborn). `in_place`: the files have the change already; undo uses
    `was` and `done` of each step then. `uncommitted` are all tracked paths with the user's other work, `saved` the
    files among them; `started` (ns) is when hooks started."""

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
    planned: tuple[PlannedPath, ...] = ()
    saved: tuple[SavedFile, ...] = ()
    uncommitted: tuple[str, ...] = ()
    started: int | None = None
    commit: str | None = None
    message: str | None = None
    in_place: bool = False


_SCALARS = (
    "id", "event", "state", "head", "branch", "commits", "new_branch", "moves_to",
    "started", "commit", "message",
)  # fmt: skip
_ENTRIES = ("head", "staged", "base", "work", "commit", "stage")  # of a planned path
_CONTENTS = (
    "old",
    "new",
    "was",
    "done",
    "wrote",
)  # of a step; journals of early versions lack the last three


def save(journal: Journal, record: Record) -> None:
    """Replace the JSON of the journal, durably. Store the bytes that it refers to before."""
    journal.save(to_dict(record))


def store_steps(journal: Journal, record: Record) -> None:
    """Store the bytes that the steps of `record` refer to."""
    for number, step in enumerate(record.steps):
        for name in _CONTENTS:
            content: Content | None = getattr(step, name)
            if content is not None:
                journal.keep(f"{name}-{number}", content.data)


def store_saved(journal: Journal, record: Record) -> None:
    """Store the bytes of the user's other files."""
    for number, saved in enumerate(record.saved):
        if saved.content is not None:
            journal.keep(f"saved-{number}", saved.content.data)


def to_dict(record: Record) -> dict[str, Any]:
    """The record as JSON, without the bytes of files."""

    def file(name: str, content: Content | None) -> dict[str, str] | None:
        return None if content is None else {"file": name, "mode": content.mode}

    def pair(entry: Entry | None) -> list[str] | None:
        return None if entry is None else [entry.mode, entry.oid]

    def marks(bits: Staged | None) -> list[object] | None:
        if bits is None:
            return None
        return [bits.entry.mode, bits.entry.oid, bits.skip_worktree, bits.assume_unchanged]

    return {
        **{name: getattr(record, name) for name in _SCALARS},
        "steps": [
            {
                "path": step.path,
                "temporary": step.temporary,
                "permissions": step.permissions,
                **{name: file(f"{name}-{number}", getattr(step, name)) for name in _CONTENTS},
            }
            for number, step in enumerate(record.steps)
        ],
        "folders": list(record.folders),
        "planned": [
            {
                "path": planned.path,
                "renamed": planned.renamed,
                **{name: pair(getattr(planned, name)) for name in _ENTRIES},
                "bits": marks(planned.bits),
            }
            for planned in record.planned
        ],
        "saved": [
            {
                "path": saved.path,
                "content": file(f"saved-{number}", saved.content),
                "temporary": saved.temporary,
            }
            for number, saved in enumerate(record.saved)
        ],
        "uncommitted": list(record.uncommitted),
        "in_place": record.in_place,
    }


def load(folder: Path) -> Record | None:
    """The record in the folder of a journal, with the bytes it refers to; None if it is missing or unreadable.

    Raises Refused for a newer version.
    """
    raw = stored.record(folder)
    try:
        return None if raw is None else _from_dict(folder, raw)
    except (stored.IncompleteJournal, KeyError, TypeError, ValueError, IndexError):
        return None


def _from_dict(folder: Path, raw: dict[str, Any]) -> Record:
    def content(file: dict[str, str] | None) -> Content | None:
        return None if file is None else Content(stored.read_stored(folder, file["file"]), file["mode"])

    steps = []
    for step in raw["steps"]:
        old, new = content(step["old"]), content(step["new"])
        later = [content(step.get(name)) for name in _CONTENTS[2:]]
        steps.append(Step(step["path"], old, new, step["temporary"], step["permissions"], *later))
    planned = []
    for path in raw["planned"]:
        entries = {name: None if path[name] is None else Entry(*path[name]) for name in _ENTRIES}
        bits = path["bits"]
        marks = None if bits is None else Staged(Entry(bits[0], bits[1]), bits[2], bits[3])
        planned.append(PlannedPath(path["path"], **entries, bits=marks, renamed=path["renamed"]))
    return Record(
        **{name: raw[name] for name in _SCALARS},
        steps=tuple(steps),
        folders=tuple(raw["folders"]),
        planned=tuple(planned),
        saved=tuple(
            SavedFile(saved["path"], content(saved["content"]), saved["temporary"]) for saved in raw["saved"]
        ),
        uncommitted=tuple(raw["uncommitted"]),
        in_place=raw.get("in_place", False),
    )
