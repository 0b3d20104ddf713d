"""What the journal of a transaction says: everything that completing it or rolling it back needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repoagent.repo.content import Content
from repoagent.repo.index import Entry, Staged
from repoagent.repo.others import Saved
from repoagent.repo.steps import Step
from repoagent.store import journal as stored
from repoagent.store.journal import Journal

LOCKED = "locked"  # index.lock may be there, no file is touched
WRITING = "writing"  # files hold their old or their new bytes
COMMITTING = "committing"  # the commit may be there
DONE = "done"  # an edit of the past, kept for undo


@dataclass(frozen=True)
class Planned:
    """One path of the commit, in the repository's form (filters applied); None is no file.

    The change goes from `base` to `work` (the file before and after); it is carried from `head`, the version
    in HEAD, to `commit`, and from `staged` to `stage`. For a renamed file these three are those of the old
    path, `renamed`. `bits` are the marks of the index entry.
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
    def has_other_work(self) -> bool:
        """Whether the file held uncommitted work before the edit."""
        return self.head != self.base or self.staged != self.head


@dataclass(frozen=True)
class Record:
    """One transaction. `head` and `branch` are those it began on (None: unborn, detached); `moves_to` is the
    commit that HEAD is set to where no new one is made ("" for none: unborn). `uncommitted` are all tracked
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

    def to_dict(self) -> dict[str, Any]:
        """As JSON; the bytes of files are not in it, see `keep`."""
        return {
            **{name: getattr(self, name) for name in _PLAIN},
            "steps": [
                {
                    "path": step.path,
                    "old": _file(f"old-{n}", step.old),
                    "new": _file(f"new-{n}", step.new),
                    "temporary": step.temporary,
                    "permissions": step.permissions,
                }
                for n, step in enumerate(self.steps)
            ],
            "folders": list(self.folders),
            "planned": [_planned_to_dict(planned) for planned in self.planned],
            "saved": [
                {
                    "path": saved.path,
                    "content": _file(f"saved-{n}", saved.content),
                    "temporary": saved.temporary,
                }
                for n, saved in enumerate(self.saved)
            ],
            "uncommitted": list(self.uncommitted),
        }


_PLAIN = (
    "id", "event", "state", "head", "branch", "commits", "new_branch", "moves_to",
    "started", "commit", "message",
)  # fmt: skip


def keep_steps(journal: Journal, record: Record) -> None:
    """Store the bytes that the steps of `record` speak of."""
    for n, step in enumerate(record.steps):
        _keep(journal, f"old-{n}", step.old)
        _keep(journal, f"new-{n}", step.new)


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
    except (stored.Incomplete, KeyError, TypeError, ValueError, IndexError):
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
            )
            for s in raw["steps"]
        ),
        folders=tuple(raw["folders"]),
        planned=tuple(_planned_from_dict(planned) for planned in raw["planned"]),
        saved=tuple(Saved(s["path"], _content(folder, s["content"]), s["temporary"]) for s in raw["saved"]),
        uncommitted=tuple(raw["uncommitted"]),
    )


def _keep(journal: Journal, name: str, content: Content | None) -> None:
    if content is not None:
        journal.keep(name, content.data)


def _file(name: str, content: Content | None) -> dict[str, str] | None:
    return None if content is None else {"file": name, "mode": content.mode}


def _content(folder: Path, raw: Mapping[str, str] | None) -> Content | None:
    return None if raw is None else Content(stored.kept(folder, raw["file"]), raw["mode"])


def _planned_to_dict(planned: Planned) -> dict[str, Any]:
    bits = planned.bits
    return {
        "path": planned.path,
        "renamed": planned.renamed,
        **{name: _entry_to_list(getattr(planned, name)) for name in _ENTRIES},
        "bits": None
        if bits is None
        else [*(_entry_to_list(bits.entry) or ()), bits.skip_worktree, bits.assume_unchanged],
    }


_ENTRIES = ("head", "staged", "base", "work", "commit", "stage")


def _planned_from_dict(raw: Mapping[str, Any]) -> Planned:
    entries = {name: None if raw[name] is None else Entry(*raw[name]) for name in _ENTRIES}
    bits = raw["bits"]
    staged = None if bits is None else Staged(Entry(bits[0], bits[1]), bits[2], bits[3])
    return Planned(raw["path"], **entries, bits=staged, renamed=raw["renamed"])


def _entry_to_list(entry: Entry | None) -> list[str] | None:
    return None if entry is None else [entry.mode, entry.oid]
