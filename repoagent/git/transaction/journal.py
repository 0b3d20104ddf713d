"""The record of a transaction, with everything that completing it or rolling it back needs, as JSON on disk.

The bytes of files are stored next to the JSON, before it refers to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from repoagent.dataclass import dataclass
from repoagent.git.file_writer import Step
from repoagent.git.files import Content
from repoagent.git.index import Entry, Staged
from repoagent.storage import journal as stored
from repoagent.storage.journal import Journal

LOCKED = "locked"  # index.lock may be there, no file is touched
WRITING = "writing"  # files hold their old or their new bytes
COMMITTING = "committing"  # the commit may be there
DONE = "done"  # an edit of the past, kept for undo


@dataclass(frozen=True)
class PlannedPath:
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
class SavedFile:
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
    planned: tuple[PlannedPath, ...] = ()
    saved: tuple[SavedFile, ...] = ()
    uncommitted: tuple[str, ...] = ()
    started: int | None = None
    commit: str | None = None
    message: str | None = None
    in_place: bool = False


_PLAIN = (
    "id", "event", "state", "head", "branch", "commits", "new_branch", "moves_to",
    "started", "commit", "message",
)  # fmt: skip
_ENTRIES = ("head", "staged", "base", "work", "commit", "stage")


def save(journal: Journal, record: Record) -> None:
    """Replace what the journal says, durably; the bytes that it speaks of are kept before, see below."""
    journal.save(to_dict(record))


def keep_steps(journal: Journal, record: Record) -> None:
    """Store the bytes that the steps of `record` speak of."""
    for n, step in enumerate(record.steps):
        _keep(journal, f"old-{n}", step.old)
        _keep(journal, f"new-{n}", step.new)
        _keep(journal, f"was-{n}", step.was)
        _keep(journal, f"done-{n}", step.done)
        _keep(journal, f"wrote-{n}", step.wrote)


def keep_saved(journal: Journal, record: Record) -> None:
    """Store the bytes of the user's other files."""
    for n, saved in enumerate(record.saved):
        _keep(journal, f"saved-{n}", saved.content)


def load(folder: Path) -> Record | None:
    """The record in a journal's folder with the bytes it speaks of; None when it has none that can be read.

    Raises Refused for one of a newer version.
    """
    raw = stored.record(folder)
    try:
        return None if raw is None else _from_dict(folder, raw)
    except (stored.IncompleteJournal, KeyError, TypeError, ValueError, IndexError):
        return None


def _from_dict(folder: Path, raw: Mapping[str, Any]) -> Record:
    return Record(
        **{name: raw[name] for name in _PLAIN},
        steps=tuple(
            Step(
                s["path"],
                _content(folder, s["old"]),
                _content(folder, s["new"]),
                s["temporary"],
                s["permissions"],
                _content(folder, s.get("was")),
                _content(folder, s.get("done")),
                _content(folder, s.get("wrote")),
            )
            for s in raw["steps"]
        ),
        folders=tuple(raw["folders"]),
        planned=tuple(_planned_from_dict(planned) for planned in raw["planned"]),
        saved=tuple(
            SavedFile(s["path"], _content(folder, s["content"]), s["temporary"]) for s in raw["saved"]
        ),
        uncommitted=tuple(raw["uncommitted"]),
        in_place=raw.get("in_place", False),
    )


def to_dict(record: Record) -> dict[str, Any]:
    """As JSON, without the bytes of files."""
    return {
        **{name: getattr(record, name) for name in _PLAIN},
        "steps": [_step_to_dict(n, step) for n, step in enumerate(record.steps)],
        "folders": list(record.folders),
        "planned": [_planned_to_dict(planned) for planned in record.planned],
        "saved": [_saved_to_dict(n, saved) for n, saved in enumerate(record.saved)],
        "uncommitted": list(record.uncommitted),
        "in_place": record.in_place,
    }


def _step_to_dict(n: int, step: Step) -> dict[str, Any]:
    return {
        "path": step.path,
        "old": _file(f"old-{n}", step.old),
        "new": _file(f"new-{n}", step.new),
        "temporary": step.temporary,
        "permissions": step.permissions,
        "was": _file(f"was-{n}", step.was),
        "done": _file(f"done-{n}", step.done),
        "wrote": _file(f"wrote-{n}", step.wrote),
    }


def _saved_to_dict(n: int, saved: SavedFile) -> dict[str, Any]:
    return {"path": saved.path, "content": _file(f"saved-{n}", saved.content), "temporary": saved.temporary}


def _keep(journal: Journal, name: str, content: Content | None) -> None:
    if content is not None:
        journal.keep(name, content.data)


def _file(name: str, content: Content | None) -> dict[str, str] | None:
    return None if content is None else {"file": name, "mode": content.mode}


def _content(folder: Path, raw: Mapping[str, str] | None) -> Content | None:
    return None if raw is None else Content(stored.read_kept(folder, raw["file"]), raw["mode"])


def _planned_to_dict(planned: PlannedPath) -> dict[str, Any]:
    bits = planned.bits
    return {
        "path": planned.path,
        "renamed": planned.renamed,
        **{name: _entry_to_list(getattr(planned, name)) for name in _ENTRIES},
        "bits": None
        if bits is None
        else [*(_entry_to_list(bits.entry) or ()), bits.skip_worktree, bits.assume_unchanged],
    }


def _planned_from_dict(raw: Mapping[str, Any]) -> PlannedPath:
    entries = {name: None if raw[name] is None else Entry(*raw[name]) for name in _ENTRIES}
    bits = raw["bits"]
    staged = None if bits is None else Staged(Entry(bits[0], bits[1]), bits[2], bits[3])
    return PlannedPath(raw["path"], **entries, bits=staged, renamed=raw["renamed"])


def _entry_to_list(entry: Entry | None) -> list[str] | None:
    return None if entry is None else [entry.mode, entry.oid]
